"""What a seat cannot see stays out of its observation and is redrawn uniformly."""

from collections import Counter

import numpy as np
import pytest

from splendor_env import PRESETS, Game
from splendor_env.core.cards import CARD_LEVEL
from splendor_env.core.hidden import is_secret
from splendor_env.core.observation import view_observation

BLIND = {"card": "K33530", "blind": True}
OPEN = {"card": "W30036", "blind": False}


def random_game(rules, seed, plies):
    """A position reached by random moves that reserve blind whenever they can be chosen."""
    chooser = np.random.default_rng(seed)
    game = Game(rules, seed=seed)
    for _ in range(plies):
        if game.is_over:
            break
        moves = game.legal_moves
        blind = [move for move in moves if move.startswith("reserve deck")]
        game.push(str(chooser.choice(blind if blind and chooser.random() < 0.3 else moves)))
    return game


def secrets_of(game, observer):
    """(seat, slot) of the reserves that an observer has not seen, from the sentence of the rule."""
    described = game.to_dict()
    return [
        (seat, slot)
        for seat, entry in enumerate(described["seats"])
        for slot, reserve in enumerate(entry["reserved"])
        if seat != observer
        and (reserve["blind"] or game.rules.hide_reserves)
        and not (seat == game.player and described["pending"] == f"buy reserved {slot + 1}")
    ]


def permuted(game, observer, chooser):
    """A game in which all that `observer` cannot see is shuffled, and the seed another."""
    twin = game.copy()
    record = twin.games[0]
    for level in range(3):
        size = record.deck_size[level]
        places = [
            (seat, slot)
            for seat, slot in secrets_of(game, observer)
            if CARD_LEVEL[record.reserved[seat, slot]] == level
        ]
        cards = [*record.deck[level, :size], *(record.reserved[place] for place in places)]
        cards = chooser.permutation(cards)
        record.deck[level, :size] = cards[:size]
        for place, card in zip(places, cards[size:], strict=True):
            record.reserved[place] = card
    record.seed = chooser.integers(2**63)
    return twin


POSITIONS = [
    (preset, num_players, seed)
    for preset in PRESETS
    for num_players in (2, 3, 4)
    for seed in (1, 2)
]


@pytest.mark.parametrize(("preset", "num_players", "seed"), POSITIONS)
def test_permuting_what_is_hidden_changes_nothing(preset, num_players, seed):
    """Neither the observation, nor the mask, nor what determinize makes of the same seed. B66."""
    chooser = np.random.default_rng(seed)
    num_secrets = 0
    for plies in (0, 15, 40, 70):
        game = random_game(PRESETS[preset](num_players), seed, plies)
        for observer in range(num_players):
            num_secrets += len(secrets_of(game, observer))
            twin = permuted(game, observer, chooser)
            assert twin != game
            assert (twin.observe(observer) == game.observe(observer)).all()
            if game.player == observer:
                assert (twin.action_mask == game.action_mask).all()
            assert twin.determinize(observer, 5) == game.determinize(observer, 5)
    assert num_secrets > 0


@pytest.mark.parametrize(("preset", "num_players", "seed"), POSITIONS)
def test_two_determinizations_look_the_same(preset, num_players, seed):
    """To the observer; every card stays in one place, and the future differs."""
    game = random_game(PRESETS[preset](num_players), seed, 45)
    for observer in range(num_players):
        first, second = game.determinize(observer, 1), game.determinize(observer, 2)
        assert (first.observe(observer) == game.observe(observer)).all()
        assert (second.observe(observer) == game.observe(observer)).all()
        if game.player == observer:
            assert (first.action_mask == second.action_mask).all()
            assert (first.action_mask == game.action_mask).all()
        assert first != second
        assert first.history == []
        assert Counter(cards_of(first)) == Counter(cards_of(game)) == Counter(cards_of(second))


def cards_of(game):
    described = game.to_dict()
    hands = [entry["card"] for seat in described["seats"] for entry in seat["reserved"]]
    return [*(card for deck in described["decks"] for card in deck), *hands]


def test_determinize_keeps_what_the_observer_knows():
    """Own reserves, open reserves, market, tokens: only the blind card of the other changes."""
    seats = [{"reserved": [BLIND, OPEN]}, {"reserved": [{"card": "G53033", "blind": True}]}]
    game = Game.from_dict({"seats": seats})
    for seed in range(20):
        drawn = game.determinize(0, seed).to_dict()
        assert drawn["seats"][0] == game.to_dict()["seats"][0]
        assert drawn["market"] == game.to_dict()["market"]
        for_other = game.determinize(1, seed).to_dict()
        assert for_other["seats"][1] == game.to_dict()["seats"][1]
        assert for_other["seats"][0]["reserved"][1] == OPEN
    others = {
        game.determinize(0, s).to_dict()["seats"][1]["reserved"][0]["card"] for s in range(60)
    }
    assert len(others) > 8


def test_determinize_leaves_the_game_alone():
    game = random_game(PRESETS["standard"](3), 3, 30)
    before = game.copy()
    game.determinize(1, 9)
    assert game == before
    assert game.history == before.history


def test_determinize_is_uniform():
    """Each unseen card is equally often the blind reserve, and equally often drawn next."""
    seats = [{}, {"reserved": [BLIND, {"card": "R35303", "blind": True}]}]
    game = Game.from_dict({"seats": seats, "player": 0})
    unseen = {*game.to_dict()["decks"][2], "K33530", "R35303"}
    num_samples = 3_600
    first, second, drawn = Counter(), Counter(), Counter()
    for seed in range(num_samples):
        sample = game.determinize(0, seed)
        reserved = sample.to_dict()["seats"][1]["reserved"]
        first[reserved[0]["card"]] += 1
        second[reserved[1]["card"]] += 1
        sample.push("reserve deck 3")
        drawn[sample.to_dict()["seats"][0]["reserved"][0]["card"]] += 1
    mean = num_samples / len(unseen)
    for counts in (first, second, drawn):
        assert set(counts) == unseen
        chi_square = sum((number - mean) ** 2 / mean for number in counts.values())
        # Mean len(unseen) - 1 = 15, standard deviation sqrt(30); the bound is five of them.
        assert chi_square < 15 + 5 * 30**0.5


def test_determinized_future_is_another():
    """The seed is replaced: the next cards of the real game cannot be read off."""
    game = random_game(PRESETS["standard"](2), 8, 10)
    refills = set()
    for seed in range(100, 130):
        sample = game.determinize(game.player, seed)
        assert sample.games["seed"][0] != game.games["seed"][0]
        move = next(move for move in sample.legal_moves if move.startswith("reserve"))
        sample.push(move)
        refills.add(sample.to_dict()["market"][move.split()[1]])
    assert len(refills) > 5


def test_determinizing_with_the_seed_of_the_deal_does_not_give_the_true_future():
    """Seeds of games and of agents are chosen apart, and often alike. B66, B68."""
    game = Game(seed=8)
    assert game.determinize(0, 8).games["seed"][0] != game.games["seed"][0]


@pytest.mark.parametrize("hide_reserves", [0, 1])
def test_who_sees_which_reserve(hide_reserves):
    """Owner: all. Others: open ones, unless all are hidden. A71."""
    game = Game.from_dict(
        {"seats": [{"reserved": [BLIND, OPEN]}, {}], "rules": {"hide_reserves": hide_reserves}}
    )
    seen = {
        (observer, slot): not is_secret(game.games[0], game.rules, 0, slot, observer)
        for observer in (0, 1)
        for slot in (0, 1)
    }
    assert seen == {(0, 0): True, (0, 1): True, (1, 0): False, (1, 1): not hide_reserves}


def test_blind_reserve_shows_its_level_only():
    """To the other seat; its owner sees all of it. A71."""
    game = Game.from_dict({"seats": [{"reserved": [BLIND, OPEN]}, {}]})
    rows = view_observation(game.observe(1))["opponents_reserved"][0]
    assert rows[0].tolist() == [0] * 13 + [1, 0, 0]
    assert rows[1, :5] * 7 == pytest.approx([3, 0, 0, 3, 6])
    own = view_observation(game.observe(0))
    assert own["own_reserved"][0, :5] * 7 == pytest.approx([3, 3, 5, 3, 0])
    assert own["own_reserved_blind"].tolist() == [1, 0, 0]


def test_nothing_else_of_an_opponent_is_hidden():
    """Changing its tokens, bonuses, points, cards, nobles or hand is seen. A73."""
    base = {"tokens": {"W": 1}, "bonuses": {"U": 1}, "points": 3, "num_cards": 5}
    plain = Game.from_dict({"seats": [{}, base], "bank": {}, "rules": {"hide_reserves": 1}})
    for change in (
        {"tokens": {"W": 2}},
        {"tokens": {"U": 1}},
        {"bonuses": {"G": 1}},
        {"points": 4},
        {"num_cards": 6},
        {"reserved": [OPEN]},
    ):
        changed = Game.from_dict(
            {"seats": [{}, {**base, **change}], "bank": {}, "rules": {"hide_reserves": 1}}
        )
        assert (plain.observe(0) != changed.observe(0)).any(), change


def test_card_being_paid_for_has_been_shown():
    """Its other reserves stay secret; determinize keeps it too."""
    tokens = {"W": 3, "U": 3, "R": 3, "gold": 1}
    seat = {"reserved": [OPEN, BLIND], "tokens": tokens, "bonuses": {"G": 5}}
    rules = {"payment": 1, "hide_reserves": 1}
    game = Game.from_dict({"seats": [seat, {}], "rules": rules, "nobles": []})
    game.push("buy reserved 2")
    assert game.to_dict()["pending"] == "buy reserved 2"
    rows = view_observation(game.observe(1))["opponents_reserved"][0]
    assert rows[0, :11].sum() == 0
    assert rows[1, :5] * 7 == pytest.approx([3, 3, 5, 3, 0])
    for seed in range(10):
        hand = game.determinize(1, seed).to_dict()["seats"][0]["reserved"]
        assert hand[1] == BLIND


@pytest.mark.parametrize("seat", [-1, 2, None, 0.5])
def test_determinizing_for_a_seat_that_is_not_there_is_refused(seat):
    with pytest.raises(ValueError, match="seat must be 0 to 1"):
        Game().determinize(seat, 1)
