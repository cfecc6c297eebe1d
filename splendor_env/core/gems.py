"""Gems: counts by colour packed into one uint64, a byte each.

Byte 0 is white, then blue, green, red, black; byte 5 is gold. Tokens, bonuses and costs are all
such vectors, so that a rule is a few integer operations on a whole vector. Counts stay below 128.
Every literal is `np.uint64`: mixed signs would turn into int64 (Numba) or float64 (NumPy).
"""

from collections.abc import Sequence

import numpy as np

from splendor_env.core._jit import jit

COLORS = ("white", "blue", "green", "red", "black")
COLOR_LETTERS = "WUGRK"
NUM_COLORS = len(COLORS)
GOLD = NUM_COLORS
"""Index of gold, after the colours."""

NO_GEMS = np.uint64(0)
ONE_EACH = np.uint64(0x01_01_01_01_01)
"""One gem of every ordinary colour."""

GEM = np.array([1 << (8 * color) for color in range(NUM_COLORS + 1)], np.uint64)
"""GEM[color]: one gem of that colour; GEM[GOLD] is one gold."""
GEM.setflags(write=False)

_EIGHT = np.uint64(8)
_BYTE = np.uint64(0xFF)
_LOW_BITS = np.uint64(0x7F_7F_7F_7F_7F_7F)
_HIGH_BITS = np.uint64(0x80_80_80_80_80_80)
_COLOR_LOW_BITS = np.uint64(0x7F_7F_7F_7F_7F)
_COLOR_HIGH_BITS = np.uint64(0x80_80_80_80_80)
_COLOR_BYTES = np.uint64(0xFF_FF_FF_FF_FF)
_GATHER = np.uint64(1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28)
_GATHERED = np.uint64(28)
_FIVE_BITS = np.uint64(0b11111)
_SEVEN = np.uint64(7)
_SIXTEEN = np.uint64(16)
_THIRTY_TWO = np.uint64(32)
_GOLD_SHIFT = np.uint64(8 * GOLD)


def pack(counts: Sequence[int]) -> np.uint64:
    """Pack counts in the order W U G R K gold (gold may be left out). For tables and tests."""
    return np.uint64(sum(int(count) << (8 * color) for color, count in enumerate(counts)))


def unpack(gems: np.uint64) -> tuple[int, ...]:
    """The six counts, W U G R K gold. For people and tests."""
    return tuple((int(gems) >> (8 * color)) & 0xFF for color in range(NUM_COLORS + 1))


@jit
def count(gems, color):
    """Gems of one colour, as int64."""
    return np.int64((gems >> (_EIGHT * np.uint64(color))) & _BYTE)


@jit
def gold_of(gems):
    """Gold, as int64."""
    return np.int64((gems >> _GOLD_SHIFT) & _BYTE)


@jit
def colors_of(gems):
    """The vector without its gold."""
    return gems & _COLOR_BYTES


@jit
def total(gems):
    """All gems, gold included, as int64."""
    gems = gems + (gems >> _THIRTY_TWO)
    gems = gems + (gems >> _SIXTEEN)
    return np.int64((gems + (gems >> _EIGHT)) & _BYTE)


@jit
def floor_subtract(minuend, subtrahend):
    """Colour by colour max(minuend - subtrahend, 0)."""
    difference = (minuend | _HIGH_BITS) - subtrahend
    stayed = (difference & _HIGH_BITS) >> _SEVEN  # 1 in every byte that did not borrow
    return difference & ((stayed << _EIGHT) - stayed) & _LOW_BITS


@jit
def covers(gems, needed):
    """Whether `gems` holds at least `needed` of every colour."""
    return (((gems | _HIGH_BITS) - needed) & _HIGH_BITS) == _HIGH_BITS


@jit
def nonempty(gems):
    """Ordinary colours held, as a set of five bits (bit 0 is white), int64."""
    held = (((gems & _COLOR_BYTES) + _COLOR_LOW_BITS) & _COLOR_HIGH_BITS) >> _SEVEN
    return np.int64(((held * _GATHER) >> _GATHERED) & _FIVE_BITS)
