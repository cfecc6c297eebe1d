"""What viewers are shown depends on nothing that they cannot see."""

import json
import random

import pytest

from splendor_env import Game
from splendor_env.agents.analysis import shown_to_mover
from splendor_env.game import parse_move
from splendor_env.web.views import ALL_SEATS, SPECTATOR, event, view


def random_game(preset, players, seed, num_moves):
    """A game under way in which cards were often reserved from decks, and its events."""
    chooser = random.Random(seed)
    game = Game(preset, players, seed=seed)
    history = []
    while len(history) < num_moves and not game.is_over:
        blind = [move for move in game.legal_moves if move.startswith("reserve deck")]
        moves = blind if blind and chooser.random() < 0.3 else game.legal_moves
        before = game.games[0].copy()
        action = game.legal_actions[game.legal_moves.index(chooser.choice(moves))]
        game.push(action)
        history.append(event(before, action, game.games[0]))
    return game, history


@pytest.mark.parametrize(
    ("preset", "players"), [("standard", 2), ("rulebook_2014", 3), ("from_four_left", 4)]
)
@pytest.mark.parametrize("num_moves", [0, 7, 40])
def test_other_hidden_cards_give_the_same_view(preset, players, num_moves):
    """To the byte, for each seat; and for the spectator whatever is hidden from any seat."""
    for seed in range(5):
        game, history = random_game(preset, players, seed, num_moves)
        mixed = game
        for seat in range(players):
            other = game.determinize(seat, seed + 100)
            assert other.to_dict() != game.to_dict()
            assert json.dumps(view(other, seat, history)) == json.dumps(view(game, seat, history))
            mixed = mixed.determinize(seat, seed + 200)
        spectator = json.dumps(view(game, SPECTATOR, history))
        assert json.dumps(view(mixed, SPECTATOR, history)) == spectator


def test_agents_are_shown_what_their_seat_sees():
    drawn_anew = 0
    for seed in range(5):
        game, _ = random_game("from_four_left", 2, seed, 40)
        shown = shown_to_mover(game)
        assert shown.seen_by(game.player) == game.seen_by(game.player)
        assert shown.games["seed"] != game.games["seed"] and shown.history == []
        other = 1 - game.player
        hands = (one.to_dict()["seats"][other]["reserved"] for one in (shown, game))
        drawn_anew += next(hands) != next(hands)
    assert drawn_anew >= 4


def test_all_seats_see_every_hand():
    game, history = random_game("from_four_left", 3, 1, 40)
    shown = view(game, ALL_SEATS, history)
    for seat, described in enumerate(shown["position"]["seats"]):
        assert described == game.seen_by(seat)["seats"][seat]
    assert [entry["drawn"] for entry in shown["history"]] == [entry["drawn"] for entry in history]


def test_last_round_is_told_while_it_runs():
    for target, is_last in ((15, True), (16, False)):
        seats = [{"points": 15}, {}]
        game = Game.from_dict({"rules": {"target_points": target}, "seats": seats, "player": 1})
        assert view(game, 0, [])["last_round"] is is_last
    assert view(game, 0, [], forfeited_by=1)["last_round"] is False


def test_forfeited_game_is_over_and_all_others_have_won():
    game = Game(num_players=3, seed=1)
    shown = view(game, 0, [], forfeited_by=0)
    assert (shown["is_over"], shown["end_reason"], shown["forfeited_by"]) == (True, "forfeit", 0)
    assert (shown["winners"], shown["legal_moves"]) == ([1, 2], [])
    assert view(game, 0, [])["forfeited_by"] is None


DRAWN = "W03000"


def test_events_name_card_noble_and_tokens():
    game = Game.from_dict(
        {
            "market": {"1-1": "W00021"},
            "nobles": ["44000"],
            "seats": [{"tokens": {"R": 2, "gold": 1}, "bonuses": {"W": 3, "U": 4}}, {}],
        }
    )
    before = game.games[0].copy()
    game.push("buy 1-1", draw=DRAWN)
    assert event(before, parse_move("buy 1-1"), game.games[0]) == {
        "seat": 0,
        "round": 1,
        "move": "buy 1-1",
        "card": "W00021",
        "drawn": DRAWN,
        "noble": "44000",
        "tokens": {"R": -2, "gold": -1},
    }
