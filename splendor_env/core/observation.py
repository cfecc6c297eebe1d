"""The observation: what one seat reads off the table, as float32 in [0, 1].

The observing seat comes first, the others follow clockwise, absent seats are zero. One layout
serves 2, 3 and 4 players. `OBSERVATION_LAYOUT` declares it; every offset derives from it.
"""

from math import prod
from typing import NamedTuple

import numpy as np

from splendor_env.core._jit import jit
from splendor_env.core.actions import NUM_MARKET
from splendor_env.core.cards import (
    CARD_BONUS,
    CARD_COST,
    CARD_LEVEL,
    CARD_POINTS,
    LEVEL_SIZE,
    NOBLE_COST,
    NUM_CARDS,
    NUM_LEVELS,
    NUM_NOBLES,
)
from splendor_env.core.gems import NUM_COLORS, floor_subtract, gold_of, total, unpack
from splendor_env.core.hidden import is_secret
from splendor_env.core.rules import card_at, card_bought, hand_size, is_last_round
from splendor_env.core.state import MARKET_SLOTS, MAX_NOBLES, MAX_PLAYERS, MAX_RESERVED, Phase

LAYOUT_VERSION = 1
"""Rises when a value of the observation changes its place or meaning."""

_GEMS = NUM_COLORS + 1
_CARD = NUM_COLORS + NUM_COLORS + 1 + NUM_LEVELS
_CARD_ROW = _CARD + NUM_COLORS + 2 * MAX_PLAYERS
_OPPONENT_CARD_ROW = _CARD + 2
_NOBLE_ROW = NUM_COLORS + 1 + NUM_COLORS + MAX_PLAYERS
_SEAT_ROW = 1 + _GEMS + 1 + NUM_COLORS + 5
_OPPONENTS = MAX_PLAYERS - 1


class Field(NamedTuple):
    """One entry of the layout."""

    name: str
    shape: tuple[int, ...]
    scale: str
    """What the counts are divided by, column by column; "flag" is 0 or 1."""
    meaning: str

    @property
    def size(self) -> int:
        """Values in the field."""
        return prod(self.shape)


_CARD_MEANING = "cost by colour, bonus (one-hot), points, level (one-hot)"

OBSERVATION_LAYOUT = (
    Field("bank", (_GEMS,), "7", "tokens in the bank, W U G R K gold"),
    Field("deck_size", (NUM_LEVELS,), "40, 30, 20", "cards left in each deck"),
    Field("round", (1,), "max_rounds", "rounds begun"),
    Field("is_last_round", (1,), "flag", "a seat has reached the target"),
    Field("num_players", (3,), "flag", "2, 3 or 4 players (one-hot)"),
    Field("phase", (len(Phase),), "flag", "play, pay, return, noble (one-hot)"),
    Field("mover", (MAX_PLAYERS,), "flag", "who decides now, by seat as seen (one-hot)"),
    Field("first_seat", (MAX_PLAYERS,), "flag", "who begins each round, by seat as seen (one-hot)"),
    Field("passes", (1,), "4", "passes in a row without a change"),
    Field("pending_card", (_CARD,), "7, flag, 5, flag", f"card being paid for: {_CARD_MEANING}"),
    Field("payment", (_GEMS,), "7", "tokens pledged for it"),
    Field(
        "seats",
        (MAX_PLAYERS, _SEAT_ROW),
        "flag, 7, 23, 7, 50, target_points, 45, 3, 5",
        "by seat as seen: present, tokens W U G R K gold, tokens in all, bonuses by colour (at "
        "most 7 shown), points, points missing to the target, bought cards, reserved cards, "
        "nobles",
    ),
    Field(
        "market",
        (NUM_LEVELS * MARKET_SLOTS, _CARD_ROW),
        "7, flag, 5, flag, 7, 14, flag",
        f"by level and slot: {_CARD_MEANING}; missing after own bonuses and coloured tokens, by "
        "colour; the same in all for each seat as seen; affordable (gold included) for each seat",
    ),
    Field(
        "own_reserved",
        (MAX_RESERVED, _CARD_ROW),
        "7, flag, 5, flag, 7, 14, flag",
        "as the market, oldest first; other seats' columns are zero",
    ),
    Field("own_reserved_blind", (MAX_RESERVED,), "flag", "which own reserves nobody else has seen"),
    Field(
        "opponents_reserved",
        (_OPPONENTS, MAX_RESERVED, _OPPONENT_CARD_ROW),
        "7, flag, 5, flag, 14, flag",
        f"by opponent as seen: {_CARD_MEANING}; missing in all for its owner; affordable for its "
        "owner. Of a card this seat has not seen only the level",
    ),
    Field(
        "nobles",
        (MAX_NOBLES, _NOBLE_ROW),
        "4, flag, 4, 9",
        "by slot, zero once claimed: bonuses asked for by colour, present, missing own bonuses by "
        "colour, missing in all for each seat as seen",
    ),
)
"""(name, shape, scale, meaning) of every field, in order."""

OBSERVATION_SIZE = sum(field.size for field in OBSERVATION_LAYOUT)


def _offsets() -> dict[str, int]:
    offsets, offset = {}, 0
    for field in OBSERVATION_LAYOUT:
        offsets[field.name] = offset
        offset += field.size
    return offsets


OBSERVATION_OFFSET = _offsets()
"""First index of each field."""


def view_observation(observation: np.ndarray) -> dict[str, np.ndarray]:
    """Named views, not copies, of observations (..., D): each (..., *shape of the field)."""
    return {
        field.name: observation[
            ..., OBSERVATION_OFFSET[field.name] : OBSERVATION_OFFSET[field.name] + field.size
        ].reshape(*observation.shape[:-1], *field.shape)
        for field in OBSERVATION_LAYOUT
    }


_BANK = OBSERVATION_OFFSET["bank"]
_DECK_SIZE = OBSERVATION_OFFSET["deck_size"]
_ROUND = OBSERVATION_OFFSET["round"]
_IS_LAST_ROUND = OBSERVATION_OFFSET["is_last_round"]
_NUM_PLAYERS = OBSERVATION_OFFSET["num_players"]
_PHASE = OBSERVATION_OFFSET["phase"]
_MOVER = OBSERVATION_OFFSET["mover"]
_FIRST_SEAT = OBSERVATION_OFFSET["first_seat"]
_PASSES = OBSERVATION_OFFSET["passes"]
_PENDING_CARD = OBSERVATION_OFFSET["pending_card"]
_PAYMENT = OBSERVATION_OFFSET["payment"]
_SEATS = OBSERVATION_OFFSET["seats"]
_MARKET = OBSERVATION_OFFSET["market"]
_OWN_RESERVED = OBSERVATION_OFFSET["own_reserved"]
_OWN_RESERVED_BLIND = OBSERVATION_OFFSET["own_reserved_blind"]
_OPPONENTS_RESERVED = OBSERVATION_OFFSET["opponents_reserved"]
_NOBLES = OBSERVATION_OFFSET["nobles"]

_ZERO = np.float32(0)
_FLAG = np.float32(1)
_PER_TOKEN = np.float32(1 / 7)
_PER_MISSING = np.float32(1 / 14)
_PER_NOBLE_BONUS = np.float32(1 / 4)
_PER_NOBLE_TOTAL = np.float32(1 / 9)
_PER_DECK = (1 / LEVEL_SIZE).astype(np.float32)
_PER_HELD = np.float32(1 / 23)
_MAX_BONUSES = 7
_MAX_POINTS = 50
_MAX_BOUGHT = 45


def _card_features() -> np.ndarray:
    """(93, 14) the card part of a row, by card; then a row for an unseen card of each level."""
    table = np.zeros((NUM_CARDS + NUM_LEVELS, _CARD), np.float32)
    bonus, points, level = NUM_COLORS, 2 * NUM_COLORS, 2 * NUM_COLORS + 1
    for card in range(NUM_CARDS):
        table[card, :NUM_COLORS] = np.array(unpack(CARD_COST[card])[:NUM_COLORS]) / 7
        table[card, bonus + CARD_BONUS[card]] = 1
        table[card, points] = CARD_POINTS[card] / 5
        table[card, level + CARD_LEVEL[card]] = 1
    for unseen in range(NUM_LEVELS):
        table[NUM_CARDS + unseen, level + unseen] = 1
    table.setflags(write=False)
    return table


def _noble_features() -> np.ndarray:
    """(10, 6) the static part of a noble's row."""
    table = np.ones((NUM_NOBLES, NUM_COLORS + 1), np.float32)
    for noble in range(NUM_NOBLES):
        table[noble, :NUM_COLORS] = np.array(unpack(NOBLE_COST[noble])[:NUM_COLORS]) / 4
    table.setflags(write=False)
    return table


_CARD_FEATURES = _card_features()
_NOBLE_FEATURES = _noble_features()
_BYTE = np.uint64(0xFF)
_EIGHT = np.uint64(8)


@jit
def observe(game, rules, observer, out):
    """Write what seat `observer` sees into `out` (D,) float32, in any phase and after the end."""
    out[:] = _ZERO
    _write_table(game, rules, observer, out)
    for offset in range(rules.num_players):
        _write_seat(game, rules, observer, offset, out)
    for place in range(NUM_MARKET):
        card = card_at(game, observer, place)
        if card >= 0:
            row = _MARKET + place * _CARD_ROW
            _write_card(card, out, row)
            _write_missing(game, card, observer, out, row)
            for offset in range(rules.num_players):
                seat = (observer + offset) % rules.num_players
                column = row + _CARD + NUM_COLORS + offset
                _write_affordability(game, card, seat, out, column, column + MAX_PLAYERS)
    _write_own_reserved(game, observer, out)
    _write_opponents_reserved(game, rules, observer, out)
    _write_nobles(game, rules, observer, out)


@jit
def _write_gems(gems, num_bytes, scale, out, start):
    for color in range(num_bytes):
        out[start + color] = np.float32(gems & _BYTE) * scale
        gems >>= _EIGHT


@jit
def _write_table(game, rules, observer, out):
    num_players = rules.num_players
    _write_gems(game.bank, _GEMS, _PER_TOKEN, out, _BANK)
    for level in range(NUM_LEVELS):
        out[_DECK_SIZE + level] = np.float32(game.deck_size[level]) * _PER_DECK[level]
    out[_ROUND] = game.rounds / rules.max_rounds
    out[_IS_LAST_ROUND] = is_last_round(game, rules)
    out[_NUM_PLAYERS + num_players - 2] = _FLAG
    out[_PHASE + game.phase] = _FLAG
    out[_MOVER + (game.player - observer) % num_players] = _FLAG
    out[_FIRST_SEAT + (-observer) % num_players] = _FLAG
    out[_PASSES] = game.passes / 4
    if game.pending >= 0:
        _write_card(card_bought(game, game.pending), out, _PENDING_CARD)
        _write_gems(game.payment, _GEMS, _PER_TOKEN, out, _PAYMENT)


@jit
def _write_seat(game, rules, observer, offset, out):
    seat = (observer + offset) % rules.num_players
    column = _SEATS + offset * _SEAT_ROW
    out[column] = _FLAG
    column += 1
    _write_gems(game.tokens[seat], _GEMS, _PER_TOKEN, out, column)
    column += _GEMS
    out[column] = np.float32(total(game.tokens[seat])) * _PER_HELD
    column += 1
    for color in range(NUM_COLORS):
        bonuses = np.int64((game.bonuses[seat] >> np.uint64(8 * color)) & _BYTE)
        out[column + color] = np.float32(min(bonuses, _MAX_BONUSES)) * _PER_TOKEN
    column += NUM_COLORS
    points = np.int64(game.points[seat])
    out[column] = min(points, _MAX_POINTS) / _MAX_POINTS
    out[column + 1] = max(rules.target_points - points, 0) / rules.target_points
    out[column + 2] = min(np.int64(game.num_cards[seat]), _MAX_BOUGHT) / _MAX_BOUGHT
    out[column + 3] = hand_size(game, seat) / MAX_RESERVED
    num_nobles = 0
    for slot in range(MAX_NOBLES):
        num_nobles += game.noble_owner[slot] == seat
    out[column + 4] = num_nobles / MAX_NOBLES


@jit
def _write_card(card, out, row):
    for column in range(_CARD):
        out[row + column] = _CARD_FEATURES[card, column]


@jit
def _write_missing(game, card, seat, out, row):
    due = floor_subtract(CARD_COST[card], game.bonuses[seat])
    _write_gems(floor_subtract(due, game.tokens[seat]), NUM_COLORS, _PER_TOKEN, out, row + _CARD)


@jit
def _write_affordability(game, card, seat, out, missing_column, affordable_column):
    tokens = game.tokens[seat]
    due = floor_subtract(CARD_COST[card], game.bonuses[seat])
    missing = total(floor_subtract(due, tokens))
    out[missing_column] = np.float32(missing) * _PER_MISSING
    out[affordable_column] = np.float32(missing <= gold_of(tokens))


@jit
def _write_own_reserved(game, observer, out):
    for slot in range(MAX_RESERVED):
        card = np.int64(game.reserved[observer, slot])
        if card >= 0:
            row = _OWN_RESERVED + slot * _CARD_ROW
            column = row + _CARD + NUM_COLORS
            _write_card(card, out, row)
            _write_missing(game, card, observer, out, row)
            _write_affordability(game, card, observer, out, column, column + MAX_PLAYERS)
            out[_OWN_RESERVED_BLIND + slot] = np.float32(game.reserved_blind[observer, slot])


@jit
def _write_opponents_reserved(game, rules, observer, out):
    for offset in range(1, rules.num_players):
        seat = (observer + offset) % rules.num_players
        for slot in range(MAX_RESERVED):
            card = np.int64(game.reserved[seat, slot])
            row = _OPPONENTS_RESERVED + ((offset - 1) * MAX_RESERVED + slot) * _OPPONENT_CARD_ROW
            if card >= 0 and is_secret(game, rules, seat, slot, observer):
                _write_card(NUM_CARDS + np.int64(CARD_LEVEL[card]), out, row)
            elif card >= 0:
                _write_card(card, out, row)
                _write_affordability(game, card, seat, out, row + _CARD, row + _CARD + 1)


@jit
def _write_nobles(game, rules, observer, out):
    for slot in range(MAX_NOBLES):
        noble = np.int64(game.nobles[slot])
        if noble < 0 or game.noble_owner[slot] >= 0:
            continue
        row = _NOBLES + slot * _NOBLE_ROW
        for column in range(NUM_COLORS + 1):
            out[row + column] = _NOBLE_FEATURES[noble, column]
        missing = floor_subtract(NOBLE_COST[noble], game.bonuses[observer])
        _write_gems(missing, NUM_COLORS, _PER_NOBLE_BONUS, out, row + NUM_COLORS + 1)
        for offset in range(rules.num_players):
            seat = (observer + offset) % rules.num_players
            missing = total(floor_subtract(NOBLE_COST[noble], game.bonuses[seat]))
            out[row + 2 * NUM_COLORS + 1 + offset] = np.float32(missing) * _PER_NOBLE_TOTAL
