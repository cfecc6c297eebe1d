"""A position by name: it reads back what it writes, fills in defaults, refuses what cannot be."""

import json
import random
from itertools import product

import pytest

from splendor_env import PRESETS, Game, SplendorError
from splendor_env.core.cards import CARD_NAMES
from splendor_env.position import card_id


@pytest.mark.parametrize(("preset", "num_players"), list(product(PRESETS, (2, 3, 4))))
def test_every_position_of_a_game_survives_json(preset, num_players):
    """The same game with the same future, at every ply and at the end."""
    game = Game(preset, num_players, seed=40)
    chooser = random.Random(40)
    while True:
        described = game.to_dict()
        restored = Game.from_dict(json.loads(json.dumps(described)))
        assert restored == game
        assert restored.to_dict() == described
        if game.is_over:
            break
        game.push(chooser.choice(game.legal_moves))


@pytest.mark.parametrize(("preset", "num_players"), list(product(PRESETS, (2, 3, 4))))
def test_what_a_seat_sees_is_all_that_it_can_imagine_the_rest_from(preset, num_players):
    """It says nothing of what is hidden, and determinizing it gives what the game itself gives."""
    game = Game(preset, num_players, seed=41)
    chooser = random.Random(41)
    num_secrets = 0
    while not game.is_over:
        seat = chooser.randrange(num_players)
        seen = game.seen_by(seat)
        restored = Game.from_dict(json.loads(json.dumps(seen)) | {"seed": chooser.randrange(2**64)})
        assert restored.seen_by(seat) == seen
        assert game.determinize(seat, 3).seen_by(seat) == seen
        assert restored.determinize(seat, 5) == game.determinize(seat, 5)
        assert "seed" not in seen and "decks" not in seen
        num_secrets += sum(
            card["card"] is None for held in seen["seats"] for card in held["reserved"]
        )
        assert None not in [card["card"] for card in seen["seats"][seat]["reserved"]]
        game.push(chooser.choice(game.legal_moves))
    assert num_secrets > 0


def test_reserves_without_a_name_are_drawn_from_what_is_unseen():
    seats = [{}, {"reserved": [{"level": 2, "blind": True}, {"card": None, "level": 2}]}]
    unseen = [[], ["W00322", "W23030", "W00050"], []]
    drawn = set()
    for seed in range(60):
        position = {"seats": seats, "unseen": unseen, "seed": seed, "market": {}}
        market = {f"{level}-{slot}": None for level in (1, 2, 3) for slot in (1, 2, 3, 4)}
        described = Game.from_dict(position | {"market": market}).to_dict()
        cards = [entry["card"] for entry in described["seats"][1]["reserved"]]
        assert sorted([*cards, *described["decks"][1]]) == sorted(unseen[1])
        drawn.add(tuple(cards))
    assert len(drawn) == 6


def test_defaults():
    """Standard rules for two, an opening with everything in the bank."""
    game = Game.from_dict({})
    described = game.to_dict()
    assert game.rules == PRESETS["standard"](2)
    assert described["bank"] == {"W": 4, "U": 4, "G": 4, "R": 4, "K": 4, "gold": 5}
    assert [len(deck) for deck in described["decks"]] == [36, 26, 16]
    assert None not in described["market"].values()
    assert len(described["nobles"]) == 3
    assert (described["player"], described["phase"], described["round"]) == (0, "play", 1)
    assert (described["passes"], described["end_reason"], described["seed"]) == (0, "running", 0)
    assert Game.from_dict({}) == game
    assert Game.from_dict({"seed": 1}) != game


def test_number_of_players_is_that_of_the_seats():
    assert Game.from_dict({"seats": [{}, {}, {}]}).rules == PRESETS["standard"](3)
    assert Game.from_dict({"rules": "rulebook_2014", "seats": [{}] * 4}).rules == PRESETS[
        "rulebook_2014"
    ](4)
    assert Game.from_dict({"rules": {"num_players": 3}}).rules == PRESETS["standard"](3)
    assert Game.from_dict({"rules": {"target_points": 21}}).rules.target_points == 21


def test_what_seats_hold_is_missing_in_the_bank():
    game = Game.from_dict({"seats": [{"tokens": {"W": 3, "gold": 1}}, {"tokens": {"W": 1}}]})
    assert game.to_dict()["bank"] == {"W": 0, "U": 4, "G": 4, "R": 4, "K": 4, "gold": 4}


def test_named_cards_are_in_no_deck():
    seats = [{"reserved": ["W00021", {"card": "K33530", "blind": True}]}, {}]
    described = Game.from_dict({"market": {"2-3": "U05000"}, "seats": seats}).to_dict()
    cards = [name for deck in described["decks"] for name in deck]
    assert not {"W00021", "K33530", "U05000"} & set(cards)
    everything = [*cards, *described["market"].values(), "W00021", "K33530"]
    assert sorted(everything) == sorted(CARD_NAMES)
    assert described["market"]["2-3"] == "U05000"


def test_slots_can_be_left_empty():
    """None is an empty slot; a slot left out is drawn from the deck."""
    described = Game.from_dict({"market": {"1-1": None}}).to_dict()
    assert described["market"]["1-1"] is None
    assert described["market"]["1-2"] is not None
    assert len(described["decks"][0]) == 37


def test_bought_cards_are_at_least_counted_by_bonuses():
    seats = Game.from_dict({"seats": [{"bonuses": {"W": 2, "K": 1}}, {}]}).to_dict()["seats"]
    assert [seat["num_cards"] for seat in seats] == [3, 0]


def test_nobles_with_owners():
    nobles = [{"noble": "00044", "owner": 1}, "33300"]
    assert Game.from_dict({"nobles": nobles}).to_dict()["nobles"] == [
        {"noble": "00044", "owner": 1},
        {"noble": "33300", "owner": None},
    ]


def test_purchase_under_way():
    """Phase pay with what is bought and what is pledged so far."""
    seat = {"tokens": {"U": 2, "G": 2, "K": 1, "gold": 2}}
    paying = {
        "rules": {"payment": 1},
        "seats": [seat, {}],
        "market": {"1-1": "W02201"},
        "phase": "pay",
        "pending": "buy 1-1",
        "payment": {"U": 1, "G": 2, "K": 1, "gold": 1},
    }
    game = Game.from_dict(paying)
    assert game.legal_moves == ["pay gold for U", "pay gold for G", "pay gold for K", "done"]
    game.push("done")
    assert game.to_dict()["seats"][0]["tokens"] == {
        **{"W": 0, "U": 1, "G": 0, "R": 0, "K": 0},
        "gold": 1,
    }


def test_no_purchase_can_be_spelled_out():
    """As `to_dict` writes it."""
    nothing = {"pending": None, "payment": {"W": 0, "gold": 0}}
    assert Game.from_dict(nothing) == Game.from_dict({})


PAYING = {
    "rules": {"payment": 1},
    "seats": [{"tokens": {"U": 2, "G": 2, "K": 1, "gold": 2}}, {}],
    "market": {"1-1": "W02201"},
    "phase": "pay",
    "pending": "buy 1-1",
    "payment": {"U": 2, "G": 2, "K": 1},
}
ELEVEN = {"W": 4, "U": 4, "G": 3}


@pytest.mark.parametrize(
    ("position", "message"),
    [
        ({"banks": {}}, "position: unknown key 'banks'; keys are rules"),
        ({"seats": [{"gems": {}}, {}]}, r"seats\[0\]: unknown key 'gems'; keys are tokens"),
        ({"seats": [{"tokens": {"white": 1}}, {}]}, "unknown key 'white'; keys are W, U, G, R, K"),
        ({"seats": [{"bonuses": {"gold": 1}}, {}]}, "unknown key 'gold'"),
        ({"seats": [[], {}]}, r"seats\[0\]: a dictionary"),
        ({"market": {"4-1": "W00021"}}, "unknown key '4-1'"),
        ({"market": ["W00021"]}, "market: a dictionary"),
        ({"nobles": [{"name": "00044"}]}, "unknown key 'name'"),
        ({"seats": [{"reserved": [{"name": "W00021"}]}, {}]}, "unknown key 'name'"),
        ({"rules": {"points": 3}}, "rules: unknown key 'points'; keys are num_players"),
        ({"rules": {5: 3}}, "rules: unknown key 5"),
        ({"seats": None}, "seats must be a list, not None"),
        ({"seats": 5}, "seats must be a list, not 5"),
        ({"seats": [{"reserved": 5}, {}]}, r"seats\[0\].reserved must be a list, not 5"),
        ({"decks": None}, "decks must be a list, not None"),
        ({"decks": 5}, "decks must be a list, not 5"),
        ({"decks": [5, 5, 5]}, r"decks\[0\] must be a list, not 5"),
        ({"nobles": None}, "nobles must be a list, not None"),
        ({"nobles": 5}, "nobles must be a list, not 5"),
        ({"nobles": "00044"}, "nobles must be a list, not '00044'"),
        ({"rules": "chess"}, "unknown rules 'chess'"),
        ({"rules": {"target_points": 99}}, "target_points must be an integer 1 to 40, not 99"),
        ({"seats": [{}]}, "num_players must be 2, 3 or 4, not 1"),
        ({"seats": [{}] * 5}, "num_players must be 2, 3 or 4, not 5"),
        ({"rules": {"num_players": 3}, "seats": [{}, {}]}, "contradicts rules for 3 players"),
        ({"market": {"1-1": "W99999"}}, "there is no card 'W99999'"),
        ({"market": {"1-1": "K00073"}}, "market 1-1: K00073 is not a level 1 card"),
        ({"market": {"1-1": "W00021", "1-2": "W00021"}}, "card W00021 is in two places"),
        (
            {"market": {"1-1": "W00021"}, "seats": [{"reserved": ["W00021"]}, {}]},
            "card W00021 is in two places",
        ),
        ({"seats": [{"reserved": ["U05000"]}] * 2}, "card U05000 is in two places"),
        (
            {"market": {"1-1": "W00021"}, "decks": [["W00021"], [], []]},
            "card W00021 is in two places",
        ),
        ({"decks": [["U05000"], [], []]}, "decks: three lists of cards"),
        ({"decks": [["W00021"]]}, "decks: three lists of cards"),
        ({"decks": [["W99999"], [], []]}, "there is no card 'W99999'"),
        ({"unseen": [["U05000"], [], []]}, "unseen: three lists of cards"),
        ({"unseen": 5}, "unseen must be a list, not 5"),
        ({"unseen": [[], [], []], "decks": [[], [], []]}, "`decks` and `unseen` exclude each"),
        ({"seats": [{"reserved": [{"level": 4}]}, {}]}, "level must be an integer 1 to 3, not 4"),
        ({"seats": [{"reserved": [{"card": None}]}, {}]}, "there is no card None"),
        (
            {"seats": [{"reserved": [{"card": "W00021", "level": 2}]}, {}]},
            "reserved: W00021 is not a level 2 card",
        ),
        (
            {"unseen": [[], [], []], "seats": [{}, {"reserved": [{"level": 2}]}]},
            r"seats\[1\].reserved: no level 2 card is left for it",
        ),
        ({"seats": [{"reserved": ["W00021", "U00003", "G00030", "K00300"]}, {}]}, "limit is 3"),
        ({"rules": {"reserve_limit": 0}, "seats": [{"reserved": ["W00021"]}, {}]}, "limit is 0"),
        ({"nobles": ["11111"]}, "there is no noble '11111'; nobles are 00044"),
        ({"nobles": ["00044", "00044"]}, "noble 00044 is named twice"),
        ({"nobles": ["00044", "00333", "00440", "03330"]}, "nobles: 4, the rules have 3"),
        ({"nobles": [{"noble": "00044", "owner": 2}]}, "owner must be an integer 0 to 1, not 2"),
        ({"seats": [{"tokens": {"W": 5}}, {}]}, "W must be an integer 0 to 4, not 5"),
        ({"seats": [{"tokens": {"W": -1}}, {}]}, "W must be an integer 0 to 4, not -1"),
        ({"seats": [{"tokens": {"W": True}}, {}]}, "not True"),
        ({"seats": [{"tokens": {"W": 1.0}}, {}]}, "not 1.0"),
        ({"seats": [{"tokens": {"W": 3}}] * 2}, "more W tokens"),
        ({"seats": [{"tokens": {"W": 3}}, {}], "bank": {"W": 2}}, "W must be an integer 0 to 1"),
        ({"bank": {"gold": 6}}, "gold must be an integer 0 to 5, not 6"),
        ({"seats": [{"bonuses": {"W": 19}}, {}]}, "W must be an integer 0 to 18, not 19"),
        ({"seats": [{"points": 100}, {}]}, "points must be an integer 0 to 99, not 100"),
        ({"seats": [{"num_cards": -1}, {}]}, "num_cards must be an integer 0 to 99, not -1"),
        ({"player": 2}, "player must be an integer 0 to 1, not 2"),
        ({"player": "0"}, "player must be an integer 0 to 1, not '0'"),
        ({"round": 0}, "round must be an integer 1 to 100, not 0"),
        ({"round": 101}, "round must be an integer 1 to 100, not 101"),
        ({"passes": 3}, "passes must be an integer 0 to 2, not 3"),
        ({"end_reason": "over"}, "end_reason must be one of running, target, stalemate"),
        ({"phase": "buy"}, "phase must be one of play, pay, return, noble, not 'buy'"),
        ({"seed": -1}, "seed must be an integer"),
        ({"seats": [{"tokens": ELEVEN}, {}]}, r"phase play: seats \[0\] hold more than 10"),
        ({"seats": [{}, {"tokens": ELEVEN}]}, r"phase play: seats \[1\] hold more than 10"),
        ({"phase": "return"}, r"phase return: seats \[\] hold more than 10"),
        ({"phase": "return", "seats": [{}, {"tokens": ELEVEN}]}, r"seats \[1\] hold more"),
        ({"phase": "noble"}, "must qualify for several nobles"),
        (
            {
                "phase": "noble",
                "nobles": ["00044", {"noble": "00440", "owner": 1}],
                "seats": [{"bonuses": {"G": 4, "R": 4, "K": 4}}, {}],
            },
            "must qualify for several nobles",
        ),
        ({"phase": "pay"}, "phase pay and `pending` go together"),
        ({"pending": "buy 1-1"}, "phase pay and `pending` go together"),
        ({"payment": {"W": 1}}, "payment: {'W': 1} without a purchase"),
        ({"payment": 5}, "payment: a dictionary"),
        ({**PAYING, "rules": {}}, "only with payment by choice"),
        ({**PAYING, "pending": "reserve 1-1"}, "'reserve 1-1' is not a purchase"),
        ({**PAYING, "pending": "buy reserved 1"}, "there is no card for 'buy reserved 1'"),
        ({**PAYING, "payment": {"U": 2, "G": 2}}, "does not pay for 'buy 1-1'"),
        ({**PAYING, "payment": {"U": 2, "G": 2, "K": 1, "gold": 1}}, "does not pay"),
        ({**PAYING, "payment": {"U": 2, "G": 1, "gold": 3}}, "gold must be an integer 0 to 2"),
        ({**PAYING, "payment": {"W": 1, "U": 2, "G": 2}}, "W must be an integer 0 to 0"),
    ],
)
def test_impossible_position_is_refused(position, message):
    """The message names the place, the value and what is allowed."""
    with pytest.raises(SplendorError, match=message):
        Game.from_dict(position)


def test_position_must_be_a_dictionary():
    with pytest.raises(SplendorError, match="position: a dictionary"):
        Game.from_dict([])


@pytest.mark.parametrize("card", [0, 41, 89])
def test_card_by_number_or_name(card):
    assert card_id(card) == card
    assert card_id(CARD_NAMES[card]) == card


@pytest.mark.parametrize("card", [-1, 90, 1.0, None, "w00021", "", ["W00021"]])
def test_unknown_card_is_refused(card):
    with pytest.raises(SplendorError, match="there is no card"):
        card_id(card)
