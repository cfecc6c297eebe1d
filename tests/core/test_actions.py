"""The action space: ranges, names, and the tables behind the takes."""

import re
from itertools import combinations

import numpy as np

from splendor_env.core.actions import (
    ACTION_NAMES,
    ACTION_RANGES,
    BUY,
    BUY_RESERVED,
    DONE,
    LEGAL_TAKES,
    NOBLE,
    NUM_ACTIONS,
    PASS,
    PAY_GOLD,
    RESERVE,
    RESERVE_DECK,
    RETURN,
    TAKE_ALIKE,
    TAKE_ONE,
    TAKE_THREE,
    TAKE_TWO,
    TAKEN_GEMS,
)
from splendor_env.core.gems import unpack
from splendor_env.core.state import TakeFewer

SIZES = {
    "take three different": 10,
    "take two different": 10,
    "take one": 5,
    "take two alike": 5,
    "reserve a face-up card": 12,
    "reserve the top of a deck": 3,
    "buy a face-up card": 12,
    "buy a reserved card": 3,
    "return a token": 6,
    "choose a noble": 5,
    "pay one gold in place of a colour": 5,
    "finish paying": 1,
    "pass": 1,
}


def test_seventy_eight_actions_in_consecutive_ranges():
    """Each index has one fixed meaning. B64."""
    assert NUM_ACTIONS == len(ACTION_NAMES) == len(set(ACTION_NAMES)) == 78
    assert {kind: end - start for kind, (start, end) in ACTION_RANGES.items()} == SIZES
    ends = [0, *(end for _, end in ACTION_RANGES.values())]
    assert [start for start, _ in ACTION_RANGES.values()] == ends[:-1]
    assert ends[-1] == NUM_ACTIONS


def test_starts_are_those_of_the_ranges():
    starts = [TAKE_THREE, TAKE_TWO, TAKE_ONE, TAKE_ALIKE, RESERVE, RESERVE_DECK, BUY]
    starts += [BUY_RESERVED, RETURN, NOBLE, PAY_GOLD, DONE, PASS]
    assert starts == [start for start, _ in ACTION_RANGES.values()]


def test_names_lie_in_the_range_of_their_kind():
    """A pattern for each kind, matched by all names of its range and by no other."""
    color, slot = "[WUGRK]", "[123]-[1234]"
    patterns = {
        "take three different": f"take {color} {color} {color}",
        "take two different": f"take ({color}) (?!\\1){color}",
        "take one": f"take {color}",
        "take two alike": f"take ({color}) \\1",
        "reserve a face-up card": f"reserve {slot}",
        "reserve the top of a deck": "reserve deck [123]",
        "buy a face-up card": f"buy {slot}",
        "buy a reserved card": "buy reserved [123]",
        "return a token": f"return ({color}|gold)",
        "choose a noble": "noble [12345]",
        "pay one gold in place of a colour": f"pay gold for {color}",
        "finish paying": "done",
        "pass": "pass",
    }
    for kind, (start, end) in ACTION_RANGES.items():
        matching = [a for a, name in enumerate(ACTION_NAMES) if re.fullmatch(patterns[kind], name)]
        assert matching == list(range(start, end)), kind


def test_slots_are_in_the_order_of_levels_and_slots():
    for place in range(12):
        slot = f"{place // 4 + 1}-{place % 4 + 1}"
        assert ACTION_NAMES[RESERVE + place] == f"reserve {slot}"
        assert ACTION_NAMES[BUY + place] == f"buy {slot}"


def test_taken_gems_are_those_of_the_name():
    for action, gems in enumerate(TAKEN_GEMS):
        colors = ACTION_NAMES[action].split()[1:]
        assert unpack(gems) == (*(colors.count(letter) for letter in "WUGRK"), 0)


def test_table_of_legal_takes():
    """By mode and set of non-empty piles, against the sentence of the rule."""
    assert LEGAL_TAKES.shape == (3, 32)
    for piles in range(32):
        held = {letter for bit, letter in enumerate("WUGRK") if piles >> bit & 1}
        for mode in TakeFewer:
            sizes = {
                TakeFewer.ALWAYS: {1, 2, 3},
                TakeFewer.WHEN_SHORT: {min(3, len(held))} - {0},
                TakeFewer.NEVER: {3},
            }[mode]
            expected = {frozenset(take) for size in sizes for take in combinations(held, size)}
            bits = int(LEGAL_TAKES[mode, piles])
            legal = [action for action in range(64) if bits >> action & 1]
            assert all(action < TAKE_ALIKE for action in legal)
            assert {frozenset(ACTION_NAMES[action].split()[1:]) for action in legal} == expected
            assert len(legal) == len(expected)


def test_masks_fit_two_words():
    """Actions 64 up are in the second word: all of them belong to a later phase or are a pass."""
    assert NOBLE - 3 <= 64 <= NOBLE
    assert np.uint64(1) << np.uint64(PASS - 64) < np.uint64(1 << 14)
