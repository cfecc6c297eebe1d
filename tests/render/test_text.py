import subprocess
import sys

import numpy as np
import pytest

from splendor_env.core.actions import ACTION_NAMES
from splendor_env.core.cards import CARD_NAMES
from splendor_env.core.gems import pack
from splendor_env.core.state import EndReason, Phase, rulebook_2014, standard
from splendor_env.render.text import board_text, decision_text, draw_text, lack_text
from tests.render.positions import (
    opening,
    over,
    play,
    random_games,
    redealt,
    with_blind_reserve,
)

RULES = standard(2)

OPENING = """\
Round 1: seat 0 plays.

Nobles      1            2            3
3 points    R4 K4        G3 R3 K3     G4 R4

Level 3     3-1 W 3 points  3-2 U 3 points  3-3 G 3 points  3-4 K 3 points
16 in deck  U3 G3 R5 K3     W3 G3 R3 K5     W5 U3 R3 K3     W3 U3 G5 R3

Level 2     2-1 W 1 point   2-2 U 1 point   2-3 G 1 point   2-4 K 1 point
26 in deck  G3 R2 K2        U2 G2 R3        W2 U3 K2        W3 G3 K2

Level 1     1-1 W           1-2 U           1-3 G           1-4 K 1 point
36 in deck  R2 K1           K3              R3              U4

              points  tokens   W  U  G  R  K  gold  cards   bonus W  U  G  R  K
  Bank                         4  4  4  4  4     5
> Seat 0           0    0/10   .  .  .  .  .     .      0         .  .  .  .  .
  Seat 1           0    0/10   .  .  .  .  .     .      0         .  .  .  .  ."""


def lines_with(text: str, part: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if part in line]


def test_whole_board_at_the_start():
    assert board_text(opening(RULES), RULES) == OPENING


def test_seat_row_after_a_purchase_and_a_take():
    game = opening(RULES)
    game.tokens[0] = pack([0, 0, 0, 2, 2, 1])
    text = board_text(play(game, RULES, "buy 1-1", "take W U G"), RULES, viewer=1)
    assert lines_with(text, "Seat") == [
        "> Seat 0           0    2/10   .  .  .  .  1     1      1         1  .  .  .  .",
        "Seat 1 (you)     0    3/10   1  1  1  .  .     .      0         .  .  .  .  .",
    ]


def test_blind_reserve_shows_its_level_to_others_and_all_of_it_to_its_owner():
    game = with_blind_reserve(RULES)
    for viewer in (None, 0):
        assert lines_with(board_text(game, RULES, viewer), "reserved") == [
            "reserved 1: level 2 card, face down",
            "reserved 2: level 3, K 3 points, cost W3 U3 G5 R3",
        ]
    assert lines_with(board_text(game, RULES, viewer=1), "reserved") == [
        "reserved 1: level 2, U 1 point, cost U2 G2 R3 (seen by you alone)",
        "reserved 2: level 3, K 3 points, cost W3 U3 G5 R3",
    ]


def test_hide_reserves_turns_every_reserve_of_others_face_down():
    rules = standard(2, hide_reserves=1)
    game = with_blind_reserve(rules)
    for viewer in (None, 0):
        assert lines_with(board_text(game, rules, viewer), "reserved") == [
            "reserved 1: level 2 card, face down",
            "reserved 2: level 3 card, face down",
        ]
    assert lines_with(board_text(game, rules, viewer=1), "reserved 2") == [
        "reserved 2: level 3, K 3 points, cost W3 U3 G5 R3 (seen by you alone)"
    ]


@pytest.mark.parametrize("hide_reserves", [0, 1])
@pytest.mark.parametrize("num_players", [2, 3, 4])
def test_hidden_information_does_not_change_the_text(num_players, hide_reserves):
    rules = standard(num_players, hide_reserves=hide_reserves)
    games = random_games(rules)
    for observer in range(-1, num_players):
        viewer = None if observer < 0 else observer
        others = redealt(games, rules, observer)
        assert (others["reserved"] != games["reserved"]).any()
        for game, other in zip(games, others, strict=True):
            assert board_text(game, rules, viewer) == board_text(other, rules, viewer)


def test_pay_phase_names_the_card_and_the_pledge():
    rules = rulebook_2014(2)
    game = opening(rules)
    game.tokens[0] = pack([0, 0, 0, 2, 1, 2])
    game = play(game, rules, "buy 1-1")
    assert board_text(game, rules).splitlines()[:2] == [
        "Round 1: seat 0 pays for 1-1.",
        "The card: level 1, W, cost R2 K1. Pledged: R2 K1.",
    ]
    game = play(game, rules, "pay gold for R")
    assert "Pledged: R1 K1 gold 1." in board_text(game, rules)


def test_blind_reserve_being_paid_for_is_shown_to_all():
    rules = rulebook_2014(2)
    game = with_blind_reserve(rules)
    game.player = 1
    game.tokens[1] = pack([0, 2, 2, 3, 0, 1])
    text = board_text(play(game, rules, "buy reserved 1"), rules)
    assert "seat 1 pays for reserved 1." in text
    assert "reserved 1: level 2, U 1 point, cost U2 G2 R3\n" in text


@pytest.mark.parametrize(("held", "phrase"), [(8, "returns 1 token."), (10, "returns 3 tokens.")])
def test_return_phase_tells_how_many_tokens_go_back(held, phrase):
    game = opening(RULES)
    game.tokens[0] = pack([0, 0, 0, 0, 0, held])
    text = board_text(play(game, RULES, "take W U G"), RULES)
    assert text.startswith(f"Round 1: seat 0 {phrase}")


def test_noble_phase_is_named():
    game = opening(RULES)
    game.phase = Phase.NOBLE
    assert board_text(game, RULES).startswith("Round 1: seat 0 chooses a noble.")


def test_claimed_noble_shows_its_owner_in_place_of_what_it_asks_for():
    game = opening(RULES)
    game.noble_owner[1] = 1
    assert "3 points    R4 K4        with seat 1  G4 R4\n" in board_text(game, RULES)


def test_empty_noble_slot_is_left_out():
    game = opening(RULES)
    game.nobles[1] = -1
    text = board_text(game, RULES)
    assert "Nobles      1            3\n3 points    R4 K4        G4 R4\n" in text


def test_slot_of_an_exhausted_deck_is_empty():
    game = opening(RULES)
    game.market[0, 2] = -1
    game.deck_size[0] = 0
    text = board_text(game, RULES)
    assert "1-3 empty       1-4 K 1 point\n" in text
    assert "0 in deck   R2 K1           K3                              U4\n" in text


def test_last_round_is_announced():
    game = opening(RULES)
    game.points[0] = 15
    assert "Last round: a seat has reached 15 points." in board_text(game, RULES)
    game.points[0] = 14
    assert "Last round" not in board_text(game, RULES)


@pytest.mark.parametrize(
    ("reason", "points", "num_cards", "lines"),
    [
        (
            EndReason.TARGET,
            [12, 16, 16],
            [9, 14, 13],
            ["a seat has reached 15 points.", "Seat 2 wins with 16 points and 13 bought cards."],
        ),
        (
            EndReason.TARGET,
            [15, 9, 15],
            [12, 9, 12],
            [
                "a seat has reached 15 points.",
                "Seats 0 and 2 share the victory with 15 points and 12 bought cards.",
            ],
        ),
        (
            EndReason.STALEMATE,
            [1, 0, 0],
            [1, 0, 0],
            ["every seat has passed.", "Seat 0 wins with 1 point and 1 bought card."],
        ),
        (EndReason.ROUND_LIMIT, [3, 0, 0], [4, 0, 0], ["the round limit.", "No result."]),
    ],
)
def test_end_gives_its_reason_and_the_winner(reason, points, num_cards, lines):
    rules = standard(3)
    text = board_text(over(rules, reason, points, num_cards), rules)
    assert text.splitlines()[:2] == [f"Game over in round 1: {lines[0]}", lines[1]]
    assert ">" not in text


@pytest.mark.parametrize("num_players", [2, 3, 4])
def test_lines_fit_80_columns_at_any_ply(num_players):
    rules = rulebook_2014(num_players, token_limit=20)
    for num_plies in range(0, 200, 20):
        for game in random_games(rules, num_games=5, num_plies=num_plies):
            for viewer in range(num_players):
                text = board_text(game, rules, viewer, buyer=viewer)
                assert max(map(len, text.splitlines())) <= 80


def test_drawing_leaves_the_game_alone():
    games = random_games(RULES, num_games=1)
    before = games.copy()
    board_text(games[0], RULES, viewer=0)
    assert np.array_equal(games, before)


@pytest.mark.parametrize(
    ("bonuses", "tokens", "text"),
    [
        ([0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0], "U2 G2 R3"),
        ([0, 1, 0, 0, 9], [0, 0, 1, 1, 0, 0], "U1 G1 R2"),
        ([0, 1, 0, 0, 0], [0, 0, 1, 1, 0, 1], "3: U1 G1 R2"),
        ([0, 2, 2, 0, 0], [0, 0, 0, 2, 0, 1], "buy: gold 1"),
        ([0, 2, 2, 3, 0], [0, 0, 0, 0, 0, 1], "can buy"),
        ([0, 1, 0, 0, 0], [0, 1, 3, 3, 0, 0], "can buy"),
    ],
)
def test_what_a_card_still_costs(bonuses, tokens, text):
    card = CARD_NAMES.index("U02230")
    assert lack_text(card, pack(bonuses), pack(tokens)) == text


def test_buyer_is_told_what_is_lacking():
    game = with_blind_reserve(RULES)
    game.bonuses[1] = pack([0, 0, 1, 0, 4])
    game.tokens[1] = pack([3, 1, 1, 1, 0, 1])
    lines = board_text(game, RULES, 1, buyer=1).splitlines()
    assert [line for line in lines if line.startswith("cards to go")] == [
        "cards to go R4           G2 R3        G3 R4"
    ]
    assert [line for line in lines if line.startswith("you lack")] == [
        "you lack    6: U2 G1 R4     3: G1 R2 K1     5: W2 U2 R2     6: U2 G3 R2",
        "you lack    1: G1 R1        2: U1 R2        1: U2           buy: gold 1",
        "you lack    buy: gold 1     can buy         1: R2           2: U3",
    ]
    own = [line.strip() for line in lines if line.startswith("      you lack: ")]
    assert own == ["you lack: 2: U1 R2", "you lack: 6: U2 G3 R2"]
    secret = board_text(game, RULES, None, buyer=1)
    assert secret.count("      you lack: ") == 1  # not of the card that is face down


def told(game, rules, *moves, viewer=None):
    """What is said of the last of some moves."""
    *earlier, last = moves
    before = play(game, rules, *earlier)
    after = play(before, rules, last)
    action = ACTION_NAMES.index(last)
    return decision_text(before, after, action), draw_text(before, after, action, viewer)


def test_decisions_in_words():
    game = opening(RULES)
    game.tokens[0] = pack([0, 0, 0, 1, 1, 2])
    assert told(game, RULES, "take W U G") == ("takes W U G", "")
    deed, draw = told(game, RULES, "buy 1-1")
    assert deed == "buys 1-1 (level 1, W, cost R2 K1) for R1 K1 gold 1"
    assert draw.startswith("1-1 is now ") and ", cost " in draw
    deed, draw = told(game, RULES, "reserve 2-1")
    assert deed == "reserves 2-1 (level 2, W 1 point, cost G3 R2 K2), takes gold"
    assert draw.startswith("2-1 is now ")
    game.deck_size[1] = 0
    game.deck[1] = -1
    assert told(game, RULES, "reserve 2-1")[1] == "2-1 is empty"
    game.bank = pack([0, 0, 0, 0, 0, 0])
    assert told(game, RULES, "reserve 2-1")[0].endswith("K2)")


def test_blind_reserve_is_told_to_its_owner_alone():
    game = opening(RULES)
    for viewer, is_told in ((None, False), (1, False), (0, True)):
        deed, draw = told(game, RULES, "reserve deck 3", viewer=viewer)
        assert deed == "reserves a card of level 3 face down, takes gold"
        assert draw.startswith("the card: level 3, ") if is_told else draw == ""


def test_payment_return_and_noble_in_words():
    rules = rulebook_2014(2)
    game = opening(rules)
    game.tokens[0] = pack([0, 0, 0, 2, 1, 2])
    assert told(game, rules, "buy 1-1") == ("wants 1-1 (level 1, W, cost R2 K1)", "")
    assert told(game, rules, "buy 1-1", "pay gold for R") == ("pays gold for R", "")
    bought = "buys 1-1 (level 1, W, cost R2 K1) for "
    assert told(game, rules, "buy 1-1", "done")[0] == bought + "R2 K1"
    # The last gold completes the payment.
    deed, draw = told(game, rules, "buy 1-1", "pay gold for R", "pay gold for R")
    assert deed == f"pays gold for R, {bought}K1 gold 2" and draw.startswith("1-1 is now")
    game.tokens[0] = pack([2, 2, 2, 2, 0, 2])
    assert told(game, RULES, "take W U G", "return gold") == ("returns gold", "")
    game.bonuses[0] = pack([0, 0, 3, 4, 4, 0])
    assert told(game, RULES, "buy 1-1", "noble 2") == ("noble 2 (G3 R3 K3) visits", "")
    game.noble_owner[1] = 1
    game.noble_owner[2] = 1
    assert told(game, RULES, "buy 1-1")[0].endswith(" for nothing, noble 1 (R4 K4) visits")


def test_text_needs_no_pillow():
    code = "import sys, splendor_env.render.text; sys.exit('PIL' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
