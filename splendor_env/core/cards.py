"""The 90 development cards and 10 nobles as read-only arrays, compiled in as constants."""

import csv
from importlib import resources

import numpy as np

from splendor_env.core.gems import COLOR_LETTERS, COLORS, pack, unpack


def _rows(name: str) -> list[dict[str, str]]:
    text = resources.files("splendor_env").joinpath("data", name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def _costs(rows: list[dict[str, str]]) -> np.ndarray:
    return np.array([pack([int(row[color]) for color in COLORS]) for row in rows], np.uint64)


def _digits(cost: np.uint64) -> str:
    return "".join(str(gems) for gems in unpack(cost)[: len(COLORS)])


_CARD_ROWS = _rows("cards.csv")
_NOBLE_ROWS = _rows("nobles.csv")

NUM_CARDS = len(_CARD_ROWS)
NUM_NOBLES = len(_NOBLE_ROWS)
NUM_LEVELS = 3

CARD_LEVEL = np.array([int(row["level"]) - 1 for row in _CARD_ROWS], np.int8)
"""(90,) level of a card, 0 to 2."""
CARD_BONUS = np.array([COLORS.index(row["bonus"]) for row in _CARD_ROWS], np.int8)
"""(90,) colour of a card's bonus."""
CARD_POINTS = np.array([int(row["points"]) for row in _CARD_ROWS], np.int8)
"""(90,) prestige points."""
CARD_COST = _costs(_CARD_ROWS)
"""(90,) packed costs."""
NOBLE_COST = _costs(_NOBLE_ROWS)
"""(10,) packed bonuses a noble asks for."""

LEVEL_SIZE = np.bincount(CARD_LEVEL)
"""(3,) cards in each deck: 40, 30, 20."""
LEVEL_START = np.concatenate(([0], np.cumsum(LEVEL_SIZE)[:-1]))
"""(3,) id of the first card of each level; the cards of a level have consecutive ids."""

CARD_NAMES = tuple(
    COLOR_LETTERS[bonus] + _digits(cost) for bonus, cost in zip(CARD_BONUS, CARD_COST, strict=True)
)
"""Names such as "W00021": the bonus, then the cost in the order W U G R K. Unique."""
NOBLE_NAMES = tuple(_digits(cost) for cost in NOBLE_COST)
"""Names such as "00044": the bonuses asked for, in the order W U G R K."""

for _table in (
    CARD_LEVEL,
    CARD_BONUS,
    CARD_POINTS,
    CARD_COST,
    NOBLE_COST,
    LEVEL_SIZE,
    LEVEL_START,
):
    _table.setflags(write=False)
