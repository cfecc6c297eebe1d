"""One game for people: notation, push and undo, copies, equality, hash, and clear errors."""

import copy
import doctest
import pickle
import random
from itertools import permutations, product

import numpy as np
import pytest

import splendor_env.game
from splendor_env import PRESETS, Game, IllegalActionError, NotationError, SplendorError, standard
from splendor_env.core.actions import ACTION_NAMES, NUM_ACTIONS
from splendor_env.core.cards import CARD_NAMES
from splendor_env.core.state import EndReason, Phase
from splendor_env.game import parse_move


def random_line(game, seed, plies=10_000):
    """Play on at random; the moves made."""
    chooser = random.Random(seed)
    line = []
    while not game.is_over and len(line) < plies:
        line.append(chooser.choice(game.legal_moves))
        game.push(line[-1])
    return line


@pytest.mark.parametrize("action", range(NUM_ACTIONS))
def test_notation_of_every_action_reads_back(action):
    """Whatever the case and the spacing."""
    name = ACTION_NAMES[action]
    assert parse_move(name) == action
    assert parse_move(f"  {name.upper()}  ".replace(" ", "  ")) == action
    assert parse_move(name.lower()) == action


def test_order_of_colours_taken_does_not_matter():
    for colors in permutations("WGK"):
        assert parse_move("take " + " ".join(colors)) == ACTION_NAMES.index("take W G K")


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "take", "take X", "take gold", "take W U G R", "take WUG", "passed", "1"),
        *("buy", "buy 4-1", "buy 1-5", "buy 0-1", "buy 1 1", "buy reserved 4"),
        *("reserve deck 4", "reserve deck", "noble 6", "noble 0", "return", "return X"),
        *("pay gold for gold", "done now", "\u0000"),
    ],
)
def test_unreadable_move_is_refused_and_changes_nothing(text):
    """The message repeats the text and shows what moves look like."""
    game = Game(seed=1)
    before = game.copy()
    with pytest.raises(NotationError) as error:
        game.push(text)
    assert repr(text) in str(error.value)
    assert "take W U G" in str(error.value)
    assert game == before
    assert game.history == []


@pytest.mark.parametrize("action", [-1, 78, 10_000, 1.0, None, (1,), ACTION_NAMES.index("pass")])
def test_illegal_action_is_refused_and_changes_nothing(action):
    """The message names the action and the legal choices. A69."""
    game = Game(seed=1)
    before = game.copy()
    with pytest.raises(IllegalActionError) as error:
        game.push(action)
    assert repr(action) in str(error.value)
    for move in game.legal_moves:
        assert move in str(error.value)
    assert game == before
    assert game.history == []


def test_finished_game_takes_no_move():
    game = Game(standard(2, max_rounds=1), seed=1)
    random_line(game, 1)
    assert game.is_over
    assert game.legal_moves == []
    with pytest.raises(IllegalActionError, match="none, the game is over"):
        game.push("take W")


def test_errors_are_value_errors_of_one_family():
    assert issubclass(IllegalActionError, SplendorError)
    assert issubclass(NotationError, SplendorError)
    assert issubclass(SplendorError, ValueError)


@pytest.mark.parametrize(("preset", "num_players"), list(product(PRESETS, (2, 3, 4))))
def test_undo_leads_back_through_a_whole_game(preset, num_players):
    """Each position on the way comes back, and the same moves lead to the same end. B17."""
    game = Game(preset, num_players, seed=6)
    start = game.copy()
    chooser = random.Random(6)
    positions, line = [], []
    while not game.is_over:
        positions.append(game.games.copy())
        line.append(chooser.choice(game.legal_moves))
        game.push(line[-1])
        assert game.history[-1] == line[-1]
    end = game.copy()
    assert game.history == line
    for earlier, move in zip(reversed(positions), reversed(line), strict=True):
        assert game.undo() == move
        assert (game.games == earlier).all()
    assert game == start
    assert game.history == []
    for move in line:
        game.push(move)
    assert game == end
    assert (game.returns, game.winners) == (end.returns, end.winners)


def test_nothing_to_undo_is_an_error():
    game = Game(seed=1)
    with pytest.raises(SplendorError, match="no move to undo"):
        game.undo()
    game.push("take W")
    assert game.undo() == "take W"
    with pytest.raises(SplendorError, match="no move to undo"):
        game.undo()


@pytest.mark.parametrize("copied", [Game.copy, copy.deepcopy])
def test_copy_is_independent(copied):
    """Both ways, history included; the copy has the same future. B15, C28."""
    game = Game(seed=2, num_players=3)
    random_line(game, 2, plies=20)
    twin = copied(game)
    before = twin.games.copy()
    line = random_line(game, 3, plies=10)
    assert (twin.games == before).all()
    assert len(twin.history) == 20
    for move in line:
        twin.push(move)
    assert twin == game
    twin.undo()
    assert twin != game
    assert len(game.history) == 30


def test_pickle_in_mid_game():
    """Rules, position, history and undo survive. B16."""
    game = Game("rulebook_2014", num_players=4, seed=2)
    assert pickle.loads(pickle.dumps(game)) == game
    random_line(game, 2, plies=30)
    restored = pickle.loads(pickle.dumps(game))
    assert restored == game
    assert restored.rules == game.rules
    assert restored.history == game.history
    assert random_line(restored, 9) == random_line(game, 9)
    assert restored == game
    assert restored.undo() == game.undo()
    assert restored == game


def test_equality_means_rules_position_and_future():
    game = Game(seed=2)
    assert game == Game(seed=2)
    assert game != Game(seed=3)
    assert game != Game(standard(2, max_rounds=99), seed=2)
    assert game != "game"
    moved = Game(seed=2)
    moved.push("take W")
    assert moved != game
    with pytest.raises(TypeError, match="unhashable"):
        hash(game)


def test_same_position_by_two_ways_is_equal():
    """History does not count."""
    seats = [{"tokens": {"W": 2, "U": 2, "G": 2, "R": 2, "K": 2}}, {}]
    first, second = (Game.from_dict({"seats": seats}) for _ in range(2))
    for move in ("take W U", "return W", "return U"):
        first.push(move)
    for move in ("take G", "return G"):
        second.push(move)
    assert first == second
    assert first.history != second.history
    assert first.position_hash() == second.position_hash()


def test_position_hash_is_the_same_everywhere():
    """Golden value: changes with `hash_seed` or with the fields that are covered. C27."""
    assert Game(seed=7).position_hash() == 12301291368099343277


def test_position_hash_differs_between_the_positions_of_games():
    """Thousands of positions, no two alike."""
    hashes, positions = set(), set()
    for seed in range(10):
        game = Game("rulebook_2014", num_players=2 + seed % 3, seed=seed)
        chooser = random.Random(seed)
        while not game.is_over:
            described = game.to_dict()
            described["decks"] = [sorted(deck) for deck in described["decks"]]
            described.pop("seed")
            positions.add((game.rules.num_players, repr(described)))
            hashes.add(game.position_hash())
            game.push(chooser.choice(game.legal_moves))
    assert len(positions) > 1_000
    assert len(hashes) == len(positions)


@pytest.mark.parametrize(
    "change",
    [
        {"player": 1},
        {"round": 2},
        {"passes": 1},
        {"end_reason": "stalemate"},
        {"bank": {"W": 3}},
        {"seats": [{"tokens": {"W": 1}}, {}]},
        {"seats": [{"bonuses": {"W": 1}, "num_cards": 0}, {}]},
        {"seats": [{"points": 1}, {}]},
        {"seats": [{"num_cards": 1}, {}]},
        {"seats": [{}, {"points": 1}]},
        {"nobles": ["00333", "00044"]},
        {"nobles": [{"noble": "00044", "owner": 1}, "00333"]},
    ],
)
def test_position_hash_covers_every_field(change):
    base = {"seats": [{}, {}], "nobles": ["00044", "00333"], "bank": {"W": 2}}
    plain, changed = Game.from_dict(base), Game.from_dict({**base, **change})
    assert plain.position_hash() != changed.position_hash()


def test_position_hash_is_blind_to_what_will_be_drawn():
    """Seed and order of a deck are not part of the table."""
    game = Game(seed=7)
    twin = game.copy()
    twin.games["seed"] = 1
    twin.games["deck"][0, 0, :2] = game.games["deck"][0, 0, 1::-1]
    assert twin != game
    assert twin.position_hash() == game.position_hash()
    described = game.to_dict()
    described["market"]["1-1"], described["decks"][0][0] = (
        described["decks"][0][0],
        described["market"]["1-1"],
    )
    assert Game.from_dict(described).position_hash() != game.position_hash()


@pytest.mark.parametrize("move", ["reserve 2-1", "reserve deck 2"])
def test_imposed_draw_turns_up(move):
    """By name or number, in place of what the seed decides."""
    market = {"2-1": "R00005", "2-2": "W60000", "2-3": "U06000", "2-4": "G00600"}
    game = Game.from_dict({"market": market})
    for name in ("U05000", "K00006", "W00053"):
        for draw in (name, CARD_NAMES.index(name)):
            game.push(move, draw=draw)
            after = game.to_dict()
            turned_up = after["market"]["2-1"], after["seats"][0]["reserved"][0]["card"]
            assert turned_up == ((name, "R00005") if move == "reserve 2-1" else ("R00005", name))
            assert name not in after["decks"][1]
            game.undo()


def test_imposed_draws_can_exhaust_a_deck():
    """In any order, the last card included."""
    order = ["K00073", "W00007", "R00700"]
    market = {f"3-{slot}": None for slot in (1, 2, 3, 4)}
    game = Game.from_dict({"decks": [[], [], order], "market": market})
    for name in reversed(order):
        game.push("reserve deck 3", draw=name)
    assert game.to_dict()["decks"] == [[], [], []]


@pytest.mark.parametrize(
    ("move", "draw"),
    [
        ("reserve 2-1", "W00021"),  # of another level
        ("reserve 2-1", "R00005"),  # the card that leaves
        ("reserve deck 3", "K00006"),
        ("take W", "U05000"),  # draws nothing
        ("reserve 2-1", "X00000"),
        ("reserve 2-1", 90),
        ("reserve 2-1", -1),
        ("reserve 2-1", 1.5),
    ],
)
def test_impossible_draw_is_refused_and_changes_nothing(move, draw):
    game = Game.from_dict({"market": {"2-1": "R00005"}})
    before = game.copy()
    with pytest.raises(SplendorError, match="card"):
        game.push(move, draw=draw)
    assert game == before
    assert game.history == []


def test_draw_in_the_payment_phase_comes_with_the_last_decision():
    """The slot refills after the payment: before, no card can be imposed."""
    seat = {"tokens": {"U": 2, "G": 2, "K": 1, "gold": 1}}
    game = Game.from_dict(
        {"seats": [seat, {}], "market": {"1-1": "W02201"}, "rules": {"payment": 1}}
    )
    drawn = game.to_dict()["decks"][0][0]
    with pytest.raises(SplendorError, match="cannot turn up"):
        game.push("buy 1-1", draw=drawn)
    game.push("buy 1-1")
    game.push("pay gold for U", draw=drawn)
    assert game.to_dict()["market"]["1-1"] == drawn


def test_properties_of_a_new_game():
    game = Game(num_players=3, seed=1)
    assert (game.player, game.phase, game.rounds) == (0, Phase.PLAY, 1)
    assert game.points == [0, 0, 0]
    assert (game.end_reason, game.is_over) == (EndReason.RUNNING, False)
    assert game.returns == [0.0, 0.0, 0.0]
    assert game.winners == []
    assert game.action_mask.dtype == np.int8
    assert game.legal_moves == [ACTION_NAMES[action] for action in game.legal_actions]
    assert game.legal_actions == np.flatnonzero(game.action_mask).tolist()
    assert (game.observe() == game.observe(0)).all()
    assert repr(game) == "<Game of 3, round 1, seat 0 to move>"


def test_text_shows_the_table_and_nobodys_secrets():
    """`str` is the board without a viewer; a blind reserve is its owner's secret."""
    seats = [{"reserved": [{"card": "K33530", "blind": True}, "W30036"], "points": 13}, {}]
    game = Game.from_dict({"seats": seats, "market": {"2-2": "U53000"}})
    assert "K33530" not in str(game)
    assert "K33530" not in game.board(1)
    assert str(game) == game.board()
    assert game.board(0) != game.board(1)
    assert "13" in str(game)


def test_repr_of_a_finished_game_says_why():
    game = Game(standard(2, max_rounds=1), seed=1)
    random_line(game, 1)
    assert repr(game) == "<Game of 2, round 1, round_limit>"


@pytest.mark.parametrize("seat", [-1, 3, 7, "0", "x", True, 1.0, None])
def test_seat_that_is_not_there_is_refused(seat):
    game = Game(num_players=3)
    with pytest.raises(SplendorError, match=f"seat must be 0 to 2, not {seat!r}"):
        game.determinize(seat, 1)
    if seat is not None:
        with pytest.raises(SplendorError, match=f"seat must be 0 to 2, not {seat!r}"):
            game.observe(seat)
        with pytest.raises(SplendorError, match=f"seat must be 0 to 2, not {seat!r}"):
            game.board(seat)


def test_examples_in_the_docstrings_hold():
    results = doctest.testmod(splendor_env.game)
    assert results.attempted >= 4
    assert results.failed == 0
