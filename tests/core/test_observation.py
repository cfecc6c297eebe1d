"""The observation, field by field, against the same facts computed from plain dictionaries."""

from itertools import product

import numpy as np
import pytest

from splendor_env import PRESETS, Game, standard
from splendor_env.core.batch import Batch
from splendor_env.core.observation import (
    OBSERVATION_LAYOUT,
    OBSERVATION_OFFSET,
    OBSERVATION_SIZE,
    view_observation,
)
from splendor_env.heuristics import choose_random_in
from tests.reference import load_tables
from tests.reference import payment as reference_payment

LETTERS = ("W", "U", "G", "R", "K")
TABLES = load_tables()
CARD_OF_NAME = {
    card.bonus + "".join(str(card.cost[letter]) for letter in LETTERS): card
    for card in TABLES.cards
}
EXTREME = [
    standard(4, target_points=40, token_limit=20, gold_tokens=7, noble_points=5, max_rounds=60),
    PRESETS["rulebook_2014"](3, target_points=40, token_limit=20, gold_tokens=7, num_nobles=5),
    standard(2, target_points=1, token_limit=5, gold_tokens=0, reserve_limit=0, num_nobles=0),
    standard(2, max_rounds=1),
]


def gems(counts, scale, letters=(*LETTERS, "gold")):
    return [counts[letter] / scale for letter in letters]


def one_hot(index, size):
    return [float(place == index) for place in range(size)]


def card_part(name):
    """Cost, bonus, points, level."""
    card = CARD_OF_NAME[name]
    return [
        *gems(card.cost, 7, LETTERS),
        *one_hot(LETTERS.index(card.bonus), 5),
        card.points / 5,
        *one_hot(card.level - 1, 3),
    ]


def missing(name, seat):
    """By colour, after the bonuses and coloured tokens of a seat."""
    cost = CARD_OF_NAME[name].cost
    return [max(0, cost[c] - seat["bonuses"][c] - seat["tokens"][c]) for c in LETTERS]


def is_affordable(name, seat):
    cost = CARD_OF_NAME[name].cost
    return reference_payment(cost, seat["bonuses"], seat["tokens"]) is not None


def expected_view(game, observer):
    """The whole observation by field, from `to_dict`, the tables and the reference's payment."""
    described = game.to_dict()
    rules = described["rules"]
    num_players = rules["num_players"]
    seats = [(observer + offset) % num_players for offset in range(num_players)]
    as_seen = [described["seats"][seat] for seat in seats]
    absent = [0.0] * (4 - num_players)
    nobles = described["nobles"]

    def seat_row(seat, entry):
        points = entry["points"]
        return [
            1.0,
            *gems(entry["tokens"], 7),
            sum(entry["tokens"].values()) / 23,
            *(min(entry["bonuses"][c], 7) / 7 for c in LETTERS),
            min(points, 50) / 50,
            max(0, rules["target_points"] - points) / rules["target_points"],
            min(entry["num_cards"], 45) / 45,
            len(entry["reserved"]) / 3,
            sum(noble["owner"] == seat for noble in nobles) / 5,
        ]

    def market_row(name):
        if name is None:
            return [0.0] * 27
        return [
            *card_part(name),
            *(number / 7 for number in missing(name, as_seen[0])),
            *(sum(missing(name, entry)) / 14 for entry in as_seen),
            *absent,
            *(float(is_affordable(name, entry)) for entry in as_seen),
            *absent,
        ]

    def own_row(slot):
        if slot >= len(as_seen[0]["reserved"]):
            return [0.0] * 27
        name = as_seen[0]["reserved"][slot]["card"]
        return [
            *card_part(name),
            *(number / 7 for number in missing(name, as_seen[0])),
            *(sum(missing(name, as_seen[0])) / 14, 0, 0, 0),
            *(float(is_affordable(name, as_seen[0])), 0, 0, 0),
        ]

    def opponent_row(offset, slot):
        if offset >= num_players or slot >= len(as_seen[offset]["reserved"]):
            return [0.0] * 16
        entry = as_seen[offset]
        reserve = entry["reserved"][slot]
        name = reserve["card"]
        is_paid_for = (
            seats[offset] == described["player"]
            and described["pending"] == f"buy reserved {slot + 1}"
        )
        if (reserve["blind"] or rules["hide_reserves"]) and not is_paid_for:
            return [0.0] * 11 + one_hot(CARD_OF_NAME[name].level - 1, 3) + [0.0] * 2
        return [
            *card_part(name),
            sum(missing(name, entry)) / 14,
            float(is_affordable(name, entry)),
        ]

    def noble_row(slot):
        if slot >= len(nobles) or nobles[slot]["owner"] is not None:
            return [0.0] * 15
        asked = dict(zip(LETTERS, map(int, nobles[slot]["noble"]), strict=True))
        lacks = [[max(0, asked[c] - entry["bonuses"][c]) for c in LETTERS] for entry in as_seen]
        return [
            *gems(asked, 4, LETTERS),
            1.0,
            *(number / 4 for number in lacks[0]),
            *(sum(numbers) / 9 for numbers in lacks),
            *absent,
        ]

    def pending_card():
        pending = described["pending"]
        if pending is None:
            return [0.0] * 14
        words = pending.split()
        if words[1] == "reserved":
            hand = described["seats"][described["player"]]["reserved"]
            return card_part(hand[int(words[2]) - 1]["card"])
        return card_part(described["market"][words[1]])

    return {
        "bank": gems(described["bank"], 7),
        "deck_size": [
            len(deck) / size for deck, size in zip(described["decks"], (40, 30, 20), strict=True)
        ],
        "round": [described["round"] / rules["max_rounds"]],
        "is_last_round": [
            float(any(entry["points"] >= rules["target_points"] for entry in as_seen))
        ],
        "num_players": one_hot(num_players - 2, 3),
        "phase": one_hot(("play", "pay", "return", "noble").index(described["phase"]), 4),
        "mover": one_hot(seats.index(described["player"]), 4),
        "first_seat": one_hot(seats.index(0), 4),
        "passes": [described["passes"] / 4],
        "pending_card": pending_card(),
        "payment": gems(described["payment"], 7),
        "seats": [
            *(seat_row(seat, entry) for seat, entry in zip(seats, as_seen, strict=True)),
            *([[0.0] * 18] * (4 - num_players)),
        ],
        "market": [market_row(name) for name in described["market"].values()],
        "own_reserved": [own_row(slot) for slot in range(3)],
        "own_reserved_blind": [
            float(slot < len(as_seen[0]["reserved"]) and as_seen[0]["reserved"][slot]["blind"])
            for slot in range(3)
        ],
        "opponents_reserved": [
            [opponent_row(offset, slot) for slot in range(3)] for offset in (1, 2, 3)
        ],
        "nobles": [noble_row(slot) for slot in range(5)],
    }


def assert_view(game, observer):
    view = view_observation(game.observe(observer))
    for name, value in expected_view(game, observer).items():
        assert view[name] == pytest.approx(np.array(value), abs=1e-6), (name, observer)


def test_layout_adds_up():
    """Unique names, consecutive offsets, the size as their sum, every value in one field."""
    names = [field.name for field in OBSERVATION_LAYOUT]
    assert len(set(names)) == len(names)
    sizes = [int(np.prod(field.shape)) for field in OBSERVATION_LAYOUT]
    assert [field.size for field in OBSERVATION_LAYOUT] == sizes
    assert list(OBSERVATION_OFFSET) == names
    assert list(OBSERVATION_OFFSET.values()) == [sum(sizes[:i]) for i in range(len(sizes))]
    assert sum(sizes) == OBSERVATION_SIZE
    view = view_observation(np.arange(OBSERVATION_SIZE))
    assert np.concatenate([view[name].ravel() for name in names]).tolist() == list(
        range(OBSERVATION_SIZE)
    )
    assert {name: view[name].shape for name in names} == {
        field.name: field.shape for field in OBSERVATION_LAYOUT
    }


def test_views_are_views_of_batches_too():
    batch = Batch(standard(3), 5)
    views = view_observation(batch.observation)
    assert views["seats"].shape == (5, 4, 18)
    assert all(np.shares_memory(view, batch.observation) for view in views.values())


@pytest.mark.parametrize(("preset", "num_players"), list(product(PRESETS, (2, 3, 4))))
def test_every_field_from_every_seat(preset, num_players):
    """In many positions of random games, their ends included, of two buying habits.

    Covers rotation: the observing seat comes first for all seats, absent seats are zero. B73.
    """
    chooser = np.random.default_rng(num_players)
    phases = set()
    for preference in (0.0, 0.3, 0.7):
        game = Game(preset, num_players, seed=num_players)
        while True:
            if game.is_over or game.phase.name not in phases or chooser.random() < 0.05:
                phases.add(game.phase.name)
                for observer in range(num_players):
                    assert_view(game, observer)
            if game.is_over:
                break
            moves = game.legal_moves
            liked = [move for move in moves if move.startswith(("buy", "reserve deck"))]
            is_liked = liked and chooser.random() < preference
            game.push(str(chooser.choice(liked if is_liked else moves)))
    assert {"PLAY", "RETURN"} <= phases
    assert ("PAY" in phases) == bool(game.rules.payment)


def test_fields_of_a_built_position():
    """Huge bonuses and points are clipped, and everything is from the right seat."""
    rich = {
        "tokens": {"W": 4, "gold": 3},
        "bonuses": {"W": 18, "U": 18, "G": 7, "R": 8, "K": 6},
        "points": 99,
        "num_cards": 57,
        "reserved": ["K33530", {"card": "W00007", "blind": True}],
    }
    poor = {"reserved": [{"card": "U05000", "blind": True}]}
    game = Game.from_dict(
        {"seats": [poor, rich], "player": 1, "round": 100, "nobles": ["00044", "44000"]}
    )
    for observer in (0, 1):
        assert_view(game, observer)
        assert game.observe(observer).max() <= 1


def test_noble_phase_is_seen_by_all():
    seats = [{"bonuses": {"G": 4, "R": 4, "K": 4}}, {"bonuses": {"K": 2}}, {}]
    game = Game.from_dict({"seats": seats, "nobles": ["00044", "00440", "44000"]})
    game.push("take W")
    assert game.phase.name == "NOBLE"
    for observer in range(3):
        assert_view(game, observer)
    game.push("noble 2")
    for observer in range(3):
        assert_view(game, observer)


@pytest.mark.parametrize("rules", EXTREME)
def test_values_lie_between_zero_and_one(rules):
    """For extreme rules too, over whole random games and from every seat. B29."""
    batch = Batch(rules, 64)
    actions = np.zeros(64, np.int32)
    largest, smallest = 0.0, 1.0
    for ply in range(400):
        choose_random_in(batch.games, rules, np.uint64(2), ply * 64, actions)
        batch.step(actions)
        for seat in range(rules.num_players):
            seen = batch.observe(seat)
            assert np.isfinite(seen).all()
            largest, smallest = max(largest, seen.max()), min(smallest, seen.min())
    assert (smallest, largest) == (0, 1)


def test_bonuses_beyond_seven_and_token_limit_twenty_stay_in_range():
    """Twenty-three tokens in mid-return, the most that a hand can hold."""
    tokens = {"W": 5, "U": 5, "G": 5, "R": 2, "K": 3}
    game = Game.from_dict(
        {
            "rules": {"token_limit": 20, "gold_tokens": 7, "target_points": 40},
            "seats": [{"tokens": tokens, "bonuses": dict.fromkeys("WUGRK", 18)}, {}, {}],
            "bank": {"R": 1, "K": 1, "gold": 7},
        }
    )
    game.push("take R K")
    seen = game.observe(0)
    assert game.phase.name == "RETURN"
    assert seen.max() <= 1
    assert seen.min() >= 0
    assert_view(game, 0)


@pytest.mark.parametrize("num_players", [2, 3, 4])
def test_rotating_by_all_seats_is_the_identity(num_players):
    """The same seat's row moves one place forward with each next observer. B73."""
    game = Game(num_players=num_players, seed=5)
    for _ in range(7):
        game.push(game.legal_moves[0])
    rows = [view_observation(game.observe(seat))["seats"] for seat in range(num_players)]
    for observer, offset in product(range(num_players), range(num_players)):
        seat = (observer + offset) % num_players
        assert (rows[observer][offset] == rows[seat][0]).all()
    for observer in range(num_players):
        assert (rows[observer][num_players:] == 0).all()


def test_seats_with_the_same_things_see_the_same():
    """Nothing in the observation depends on a seat's number except who began the round."""
    alike = {"tokens": {"W": 1, "K": 1}, "bonuses": {"G": 1}, "points": 2}
    games = [Game.from_dict({"seats": [alike] * 3, "player": player}) for player in range(3)]
    first = OBSERVATION_OFFSET["first_seat"]
    seen = [np.delete(game.observe(), range(first, first + 4)) for game in games]
    assert (seen[0] == seen[1]).all()
    assert (seen[0] == seen[2]).all()
