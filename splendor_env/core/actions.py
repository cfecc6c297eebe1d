"""The 78 actions: each index has one meaning in every position, for every number of players.

The text of an action is its notation: numbers count from 1, colours are W U G R K.
"""

from itertools import combinations

import numpy as np

from splendor_env.core.cards import NUM_LEVELS
from splendor_env.core.gems import COLOR_LETTERS, GEM, NUM_COLORS
from splendor_env.core.state import MARKET_SLOTS, MAX_NOBLES, MAX_RESERVED, TakeFewer

TRIPLES = tuple(combinations(range(NUM_COLORS), 3))
PAIRS = tuple(combinations(range(NUM_COLORS), 2))
NUM_MARKET = NUM_LEVELS * MARKET_SLOTS
NUM_PLACES = NUM_MARKET + MAX_RESERVED
"""Places of cards within a seat's reach: the market by level and slot, then its reserves."""
WORD_BITS = 64
"""A set of actions is two words of bits: actions from this one on are in the second."""

TAKE_THREE = 0
TAKE_TWO = TAKE_THREE + len(TRIPLES)
TAKE_ONE = TAKE_TWO + len(PAIRS)
TAKE_ALIKE = TAKE_ONE + NUM_COLORS
RESERVE = TAKE_ALIKE + NUM_COLORS
RESERVE_DECK = RESERVE + NUM_MARKET
BUY = RESERVE_DECK + NUM_LEVELS
BUY_RESERVED = BUY + NUM_MARKET
RETURN = BUY_RESERVED + MAX_RESERVED
NOBLE = RETURN + NUM_COLORS + 1
PAY_GOLD = NOBLE + MAX_NOBLES
DONE = PAY_GOLD + NUM_COLORS
PASS = DONE + 1
NUM_ACTIONS = PASS + 1

_COLORS_TAKEN = (
    *TRIPLES,
    *PAIRS,
    *((color,) for color in range(NUM_COLORS)),
    *((color, color) for color in range(NUM_COLORS)),
)

TAKEN_GEMS = np.array([sum(GEM[color] for color in take) for take in _COLORS_TAKEN], np.uint64)
"""(30,) packed tokens that a take action takes."""
TAKEN_GEMS.setflags(write=False)


def _legal_takes() -> np.ndarray:
    """(3, 32) take actions as a bit set, by `TakeFewer` and the set of non-empty piles."""
    table = np.zeros((len(TakeFewer), 1 << NUM_COLORS), np.uint64)
    for piles in range(1 << NUM_COLORS):
        num_piles = piles.bit_count()
        for action, take in enumerate(_COLORS_TAKEN[:TAKE_ALIKE]):
            if not all(piles >> color & 1 for color in take):
                continue
            allowed = {
                TakeFewer.ALWAYS: True,
                TakeFewer.WHEN_SHORT: len(take) == min(3, num_piles),
                TakeFewer.NEVER: len(take) == 3,
            }
            for mode, is_legal in allowed.items():
                table[mode, piles] |= np.uint64(is_legal << action)
    table.setflags(write=False)
    return table


LEGAL_TAKES = _legal_takes()


def _names() -> tuple[str, ...]:
    colors = COLOR_LETTERS
    slots = [f"{level}-{slot}" for level in (1, 2, 3) for slot in range(1, MARKET_SLOTS + 1)]
    takes = ["take " + " ".join(colors[color] for color in take) for take in _COLORS_TAKEN]
    return (
        *takes,
        *(f"reserve {slot}" for slot in slots),
        *(f"reserve deck {level}" for level in (1, 2, 3)),
        *(f"buy {slot}" for slot in slots),
        *(f"buy reserved {slot}" for slot in range(1, MAX_RESERVED + 1)),
        *(f"return {color}" for color in (*colors, "gold")),
        *(f"noble {slot}" for slot in range(1, MAX_NOBLES + 1)),
        *(f"pay gold for {color}" for color in colors),
        "done",
        "pass",
    )


ACTION_NAMES = _names()
"""(78,) notation of each action."""

ACTION_RANGES = {
    "take three different": (TAKE_THREE, TAKE_TWO),
    "take two different": (TAKE_TWO, TAKE_ONE),
    "take one": (TAKE_ONE, TAKE_ALIKE),
    "take two alike": (TAKE_ALIKE, RESERVE),
    "reserve a face-up card": (RESERVE, RESERVE_DECK),
    "reserve the top of a deck": (RESERVE_DECK, BUY),
    "buy a face-up card": (BUY, BUY_RESERVED),
    "buy a reserved card": (BUY_RESERVED, RETURN),
    "return a token": (RETURN, NOBLE),
    "choose a noble": (NOBLE, PAY_GOLD),
    "pay one gold in place of a colour": (PAY_GOLD, DONE),
    "finish paying": (DONE, PASS),
    "pass": (PASS, NUM_ACTIONS),
}
"""Kind of action: its first index and the index after its last."""
