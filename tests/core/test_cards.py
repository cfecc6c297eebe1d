"""The tables of cards and nobles: counts, checksums and names. Row A42 of the field cases."""

from collections import Counter

import numpy as np
import pytest

from splendor_env.core.cards import (
    CARD_BONUS,
    CARD_COST,
    CARD_LEVEL,
    CARD_NAMES,
    CARD_POINTS,
    LEVEL_SIZE,
    LEVEL_START,
    NOBLE_COST,
    NOBLE_NAMES,
    NUM_CARDS,
    NUM_NOBLES,
)
from splendor_env.core.gems import COLOR_LETTERS, unpack

COSTS = [unpack(cost) for cost in CARD_COST]


def test_ninety_cards_on_three_levels():
    """40, 30 and 20; for each colour 8, 6 and 4. A42."""
    assert NUM_CARDS == 90
    assert LEVEL_SIZE.tolist() == [40, 30, 20]
    by_level_and_color = Counter(zip(CARD_LEVEL.tolist(), CARD_BONUS.tolist(), strict=True))
    assert by_level_and_color == {
        (level, color): number for level, number in enumerate((8, 6, 4)) for color in range(5)
    }


def test_cards_of_a_level_have_consecutive_ids():
    assert LEVEL_START.tolist() == [0, 40, 70]
    assert CARD_LEVEL.tolist() == [0] * 40 + [1] * 30 + [2] * 20


def test_points_by_level():
    """140 points in all: 5 on level 1, 55 on level 2, 80 on level 3. A42."""
    assert int(CARD_POINTS.sum()) == 140
    by_level = [Counter(CARD_POINTS[CARD_LEVEL == level].tolist()) for level in range(3)]
    assert by_level == [{0: 35, 1: 5}, {1: 10, 2: 15, 3: 5}, {3: 5, 4: 10, 5: 5}]


def test_every_card_is_unique_and_costs_no_gold():
    """A42."""
    rows = set(zip(CARD_BONUS.tolist(), COSTS, strict=True))
    assert len(rows) == 90
    assert {cost[5] for cost in COSTS} == {0}
    assert min(sum(cost) for cost in COSTS) == 3
    assert max(sum(cost) for cost in COSTS) == 14
    assert max(max(cost) for cost in COSTS) == 7


def test_each_level_has_the_same_prices_in_every_colour():
    """The sorted price is repeated for the five colours, with the same points. A42."""
    for level in range(3):
        patterns = [
            Counter(
                (tuple(sorted(COSTS[card])), int(CARD_POINTS[card]))
                for card in range(NUM_CARDS)
                if CARD_LEVEL[card] == level and CARD_BONUS[card] == color
            )
            for color in range(5)
        ]
        assert all(pattern == patterns[0] for pattern in patterns)


def test_colours_are_asked_for_equally_often():
    """Over the five colours of a level the costs sum to the same for each. A42."""
    for level in range(3):
        sums = np.sum([COSTS[c][:5] for c in np.flatnonzero(CARD_LEVEL == level)], axis=0)
        assert len(set(sums.tolist())) == 1


def test_ten_nobles():
    """Five ask for 4 + 4, five for 3 + 3 + 3, and for each colour equally often. A42."""
    costs = [unpack(cost)[:5] for cost in NOBLE_COST]
    assert NUM_NOBLES == len(set(costs)) == 10
    kinds = Counter(tuple(sorted(cost)) for cost in costs)
    assert kinds == {(0, 0, 0, 4, 4): 5, (0, 0, 3, 3, 3): 5}
    assert len(set(np.sum(costs, axis=0).tolist())) == 1


def test_names_say_bonus_and_cost():
    """White for 2 red and 1 black is "W00021"; 4 red and 4 black is the noble "00044"."""
    assert len(set(CARD_NAMES)) == 90
    for name, bonus, cost in zip(CARD_NAMES, CARD_BONUS, COSTS, strict=True):
        assert name == COLOR_LETTERS[bonus] + "".join(map(str, cost[:5]))
    assert NOBLE_NAMES == tuple("".join(map(str, unpack(cost)[:5])) for cost in NOBLE_COST)


def test_tables_are_read_only():
    for table in (CARD_LEVEL, CARD_BONUS, CARD_POINTS, CARD_COST, NOBLE_COST, LEVEL_SIZE):
        with pytest.raises(ValueError, match="read-only"):
            table[0] = 1
