"""Packed vectors of gems against plain arithmetic on lists."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splendor_env.core.gems import (
    GEM,
    GOLD,
    NO_GEMS,
    ONE_EACH,
    colors_of,
    count,
    covers,
    floor_subtract,
    gold_of,
    nonempty,
    pack,
    total,
    unpack,
)

FIXED = settings(derandomize=True, deadline=None, max_examples=300)
vectors = st.lists(st.integers(0, 127), min_size=6, max_size=6)
hands = st.lists(st.integers(0, 40), min_size=6, max_size=6)
"""Six counts whose sum fits into a byte, as every real hand's does."""


@FIXED
@given(vectors)
def test_packing_keeps_every_count(counts):
    gems = pack(counts)
    assert list(unpack(gems)) == counts
    assert [count(gems, color) for color in range(6)] == counts
    assert gold_of(gems) == counts[GOLD]
    assert list(unpack(colors_of(gems))) == [*counts[:5], 0]


def test_gold_may_be_left_out():
    assert unpack(pack([1, 2, 3, 4, 5])) == (1, 2, 3, 4, 5, 0)


@FIXED
@given(hands)
def test_total_counts_gold_too(counts):
    assert total(pack(counts)) == sum(counts)


@FIXED
@given(vectors, vectors)
def test_floor_subtract_stops_at_zero_colour_by_colour(minuend, subtrahend):
    difference = floor_subtract(pack(minuend), pack(subtrahend))
    expected = [max(a - b, 0) for a, b in zip(minuend, subtrahend, strict=True)]
    assert list(unpack(difference)) == expected


@FIXED
@given(vectors, vectors)
def test_covers_compares_colour_by_colour(gems, needed):
    expected = all(a >= b for a, b in zip(gems, needed, strict=True))
    assert covers(pack(gems), pack(needed)) == expected
    assert covers(pack(gems), pack(gems))


@FIXED
@given(vectors)
def test_nonempty_is_the_set_of_ordinary_colours(counts):
    """Gold is not one of them."""
    held = [color for color in range(5) if nonempty(pack(counts)) >> color & 1]
    assert held == [color for color in range(5) if counts[color]]
    assert nonempty(pack(counts)) < 32


@pytest.mark.parametrize("color", range(6))
def test_one_gem(color):
    assert unpack(GEM[color]) == tuple(int(other == color) for other in range(6))


def test_constants():
    assert unpack(NO_GEMS) == (0,) * 6
    assert unpack(ONE_EACH) == (1, 1, 1, 1, 1, 0)
    assert NO_GEMS.dtype == ONE_EACH.dtype == GEM.dtype == np.uint64
    with pytest.raises(ValueError, match="read-only"):
        GEM[0] = 3
