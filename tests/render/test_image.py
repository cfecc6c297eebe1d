import numpy as np
import pytest
from PIL import Image

from splendor_env.core.gems import pack
from splendor_env.core.state import EndReason, rulebook_2014, standard
from splendor_env.render.image import board_image, write_gif, write_png
from tests.render.positions import (
    opening,
    over,
    play,
    random_games,
    redealt,
    with_blind_reserve,
)

RULES = standard(2)


def changed_box(image: np.ndarray, other: np.ndarray) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of the pixels in which two images differ."""
    rows, columns = np.nonzero((image != other).any(axis=2))
    return columns.min(), rows.min(), columns.max(), rows.max()


@pytest.mark.parametrize(("num_players", "height"), [(2, 564), (3, 712), (4, 712)])
def test_shape_grows_with_the_rows_of_seats(num_players, height):
    rules = standard(num_players)
    image = board_image(opening(rules), rules)
    assert image.shape == (height, 800, 3)
    assert image.dtype == np.uint8


@pytest.mark.parametrize(("width", "height"), [(400, 282), (1001, 706)])
def test_width_scales_the_whole_board(width, height):
    assert board_image(opening(RULES), RULES, width=width).shape == (height, width, 3)


def test_same_position_gives_the_same_pixels():
    game = random_games(RULES, num_games=1)[0]
    assert np.array_equal(board_image(game, RULES, 0), board_image(game.copy(), RULES, 0))


def test_drawing_leaves_the_game_alone():
    games = random_games(RULES, num_games=1)
    before = games.copy()
    board_image(games[0], RULES, viewer=0)
    assert np.array_equal(games, before)


@pytest.mark.parametrize("hide_reserves", [0, 1])
@pytest.mark.parametrize("num_players", [2, 3, 4])
def test_hidden_information_does_not_change_the_image(num_players, hide_reserves):
    rules = standard(num_players, hide_reserves=hide_reserves)
    games = random_games(rules, num_games=5)
    for observer in range(-1, num_players):
        viewer = None if observer < 0 else observer
        for game, other in zip(games, redealt(games, rules, observer), strict=True):
            assert np.array_equal(
                board_image(game, rules, viewer), board_image(other, rules, viewer)
            )


@pytest.mark.parametrize(
    ("hide_reserves", "slot", "is_open"), [(0, 0, False), (0, 1, True), (1, 1, False)]
)
def test_reserve_of_another_seat_is_drawn_only_if_it_was_seen(hide_reserves, slot, is_open):
    rules = standard(2, hide_reserves=hide_reserves)
    game = with_blind_reserve(rules)
    other = game.copy()
    other.reserved[1, slot] += 1
    for viewer, sees in ((None, is_open), (0, is_open), (1, True)):
        is_same = np.array_equal(
            board_image(game, rules, viewer), board_image(other, rules, viewer)
        )
        assert is_same != sees


def test_own_blind_reserve_is_drawn_in_the_own_panel():
    game = with_blind_reserve(RULES)
    other = game.copy()
    other.reserved[1, 0] = 52
    left, top, right, bottom = changed_box(
        board_image(game, RULES, viewer=1), board_image(other, RULES, viewer=1)
    )
    assert 405 <= left <= right < 788 and 414 <= top <= bottom < 552


def test_mover_is_highlighted_and_nobody_at_the_end():
    game = opening(RULES)
    finished = over(RULES, EndReason.STALEMATE, [0, 0], [0, 0])
    header = slice(416, 418), slice(100, 300)
    highlighted = board_image(game, RULES)[header]
    plain = board_image(finished, RULES)[header]
    assert (highlighted == highlighted[0, 0]).all() and (plain == plain[0, 0]).all()
    assert (highlighted[0, 0] != plain[0, 0]).any()


def test_gold_in_the_bank_changes_its_disc_alone():
    game = opening(RULES)
    other = game.copy()
    other.bank = pack([4, 4, 4, 4, 4, 0])
    left, top, right, bottom = changed_box(board_image(game, RULES), board_image(other, RULES))
    assert 593 <= left <= right <= 643 and 350 <= top <= bottom <= 401


def test_card_being_paid_for_is_framed():
    rules = rulebook_2014(2)
    game = opening(rules)
    game.tokens[0] = pack([0, 0, 0, 2, 1, 2])
    paying = play(game, rules, "buy 1-1")
    card = slice(294, 400), slice(104, 212)
    left, top, right, bottom = changed_box(
        board_image(game, rules)[card], board_image(paying, rules)[card]
    )
    assert (left, top, right, bottom) == (0, 0, 107, 105)


def test_claimed_noble_changes_its_tile_alone():
    game = opening(RULES)
    claimed = game.copy()
    claimed.noble_owner[0] = 1
    left, top, right, bottom = changed_box(board_image(game, RULES), board_image(claimed, RULES))
    assert 686 <= left <= right <= 788 and 62 <= top <= bottom <= 121


def test_empty_noble_slot_is_bare_table():
    game = opening(RULES)
    game.nobles[1] = -1
    image = board_image(game, RULES)
    assert (image[131:190, 686:788] == image[0, 0]).all()


@pytest.mark.parametrize("num_players", [2, 3, 4])
def test_margin_stays_free_at_any_ply(num_players):
    rules = rulebook_2014(num_players)
    for num_plies in range(0, 200, 40):
        for game in random_games(rules, num_games=3, num_plies=num_plies):
            image = board_image(game, rules, viewer=0)
            for edge in (image[:8], image[-8:], image[:, :8], image[:, -8:]):
                assert (edge == image[0, 0]).all()


def test_note_stands_under_the_title_and_never_runs_out_of_the_picture():
    game = opening(RULES)
    plain = board_image(game, RULES)
    left, top, right, bottom = changed_box(plain, board_image(game, RULES, note="Turn 1: " * 4))
    assert 12 <= left and 36 <= top and right < 400 and bottom < 58
    _, _, right, _ = changed_box(plain, board_image(game, RULES, note="Turn 1: " * 40))
    assert 700 < right <= 788


def test_files_keep_the_board_and_hold_the_last_frame(tmp_path):
    game = opening(RULES)
    images = [board_image(game, RULES), board_image(play(game, RULES, "take W U G"), RULES)]
    write_png(tmp_path / "board.png", images[0])
    with Image.open(tmp_path / "board.png") as read:
        difference = np.abs(np.asarray(read.convert("RGB"), int) - images[0])
    assert difference.mean() < 1 and (tmp_path / "board.png").stat().st_size < 60_000
    write_gif(tmp_path / "game.gif", images)
    with Image.open(tmp_path / "game.gif") as film:
        assert (film.n_frames, film.size, film.info["duration"]) == (2, (800, 564), 900)
        film.seek(1)
        assert film.info["duration"] == 6000
        last = np.asarray(film.convert("RGB"), int)
    assert np.abs(last - images[1]).mean() < 1
