"""One game as one record, and the numbers that define a rule variant.

`GAME` holds everything about a game but its `Rules`. Arrays of games have this dtype: a copy is
`.copy()`, a set is assignment, equality is `==`, saving is `np.save`. Unused seats and slots hold
zero or -1.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from splendor_env.core.cards import LEVEL_SIZE, NUM_LEVELS

MAX_PLAYERS = 4
MARKET_SLOTS = 4
"""Face-up cards of each level."""
MAX_RESERVED = 3
MAX_NOBLES = MAX_PLAYERS + 1

COLORED_TOKENS = {2: 4, 3: 5, 4: 7}
"""Tokens of each ordinary colour, by number of players."""


class SplendorError(ValueError):
    """A mistake of the caller: the message names the value and what is allowed."""


class IllegalActionError(SplendorError):
    """An action that the rules forbid in the present position, which is left as it was."""


class Phase(IntEnum):
    """What the seat to act decides. All decisions of one turn belong to the same seat."""

    PLAY = 0
    """The one action of the turn."""
    PAY = 1
    """With `Payment.CHOICE`: whether gold replaces a pledged token."""
    RETURN = 2
    """Which token goes back while more than `token_limit` are held."""
    NOBLE = 3
    """Which of several qualifying nobles comes."""


class EndReason(IntEnum):
    """Why a game is over."""

    RUNNING = 0
    TARGET = 1
    """A seat reached `target_points` and the round is complete."""
    STALEMATE = 2
    """Every seat passed in a row and nothing changed."""
    ROUND_LIMIT = 3
    """`max_rounds` are over: truncated, nobody is paid."""


class TakeFewer(IntEnum):
    """When fewer than three different tokens may be taken."""

    ALWAYS = 0
    WHEN_SHORT = 1
    """Exactly min(3, non-empty piles)."""
    NEVER = 2
    """Three or none."""


class Payment(IntEnum):
    """Who decides how a card is paid for."""

    COLORS_FIRST = 0
    """Gold only for what is missing."""
    CHOICE = 1
    """Gold may replace a coloured token, as the buyer likes."""


class Rules(NamedTuple):
    """A rule variant: integers that the core functions take as an argument.

    `standard()` and the other presets make one for a number of players; `check_rules` says whether
    a hand-made one is allowed.
    """

    num_players: int
    num_nobles: int
    """Nobles face up at the start: players + 1 by the rulebook."""
    target_points: int = 15
    """Prestige points that start the last round."""
    token_limit: int = 10
    """Tokens, gold included, that a seat may hold at the end of its turn."""
    reserve_limit: int = 3
    gold_tokens: int = 5
    noble_points: int = 3
    take_two_minimum: int = 4
    """Tokens in a pile, before taking, from which two may be taken."""
    take_fewer: int = TakeFewer.ALWAYS
    payment: int = Payment.COLORS_FIRST
    hide_reserves: int = 0
    """0: a reserved face-up card stays public; 1: every reserve is secret."""
    max_rounds: int = 100
    """Rounds after which a game is truncated."""


_ALLOWED = {
    "num_players": (2, MAX_PLAYERS),
    "num_nobles": (0, MAX_NOBLES),
    "target_points": (1, 40),
    "token_limit": (5, 20),
    "reserve_limit": (0, MAX_RESERVED),
    "gold_tokens": (0, 7),
    "noble_points": (0, 5),
    "take_two_minimum": (2, 7),
    "take_fewer": (0, 2),
    "payment": (0, 1),
    "hide_reserves": (0, 1),
    "max_rounds": (1, 10_000),
}


def check_rules(rules: Rules) -> Rules:
    """Return `rules` with plain ints.

    Raises:
        SplendorError: A field is not an integer of its allowed range.
    """
    for name, value in rules._asdict().items():
        low, high = _ALLOWED[name]
        is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not is_integer or not low <= value <= high:
            raise SplendorError(f"rules: {name} must be an integer {low} to {high}, not {value!r}")
    return Rules(*map(int, rules))


def _rules(num_players: int, changes: dict[str, int]) -> Rules:
    if isinstance(num_players, bool) or num_players not in (2, 3, 4):
        raise SplendorError(f"num_players must be 2, 3 or 4, not {num_players!r}")
    unknown = sorted(set(changes) - set(Rules._fields))
    if unknown:
        raise SplendorError(f"unknown rule {unknown[0]!r}; rules are {', '.join(Rules._fields)}")
    fields = {"num_players": num_players, "num_nobles": num_players + 1} | changes
    return check_rules(Rules(**fields))


def standard(num_players: int = 2, **changes: int) -> Rules:
    """The default: up to three different tokens, gold only for what is missing."""
    return _rules(num_players, changes)


def rulebook_2014(num_players: int = 2, **changes: int) -> Rules:
    """The English rulebook of 2014: always three different tokens, payment by choice."""
    return _rules(num_players, {"take_fewer": TakeFewer.NEVER, "payment": Payment.CHOICE} | changes)


def later_printing(num_players: int = 2, **changes: int) -> Rules:
    """A later printing: fewer than three tokens only when the bank is short."""
    return _rules(
        num_players, {"take_fewer": TakeFewer.WHEN_SHORT, "payment": Payment.CHOICE} | changes
    )


def no_gold_small_table(num_players: int = 2, **changes: int) -> Rules:
    """No gold with 2 or 3 players; three different tokens or none (two public summaries)."""
    gold_tokens = 5 if num_players == MAX_PLAYERS else 0
    return _rules(
        num_players, {"take_fewer": TakeFewer.NEVER, "gold_tokens": gold_tokens} | changes
    )


def from_four_left(num_players: int = 2, **changes: int) -> Rules:
    """Two alike only from a pile of five, all reserves secret (one public summary)."""
    return _rules(
        num_players,
        {"take_fewer": TakeFewer.NEVER, "take_two_minimum": 5, "hide_reserves": 1} | changes,
    )


PRESETS: dict[str, Callable[..., Rules]] = {
    preset.__name__: preset
    for preset in (standard, rulebook_2014, later_printing, no_gold_small_table, from_four_left)
}
"""Presets by name, as taken by `rules=` and `--rules` everywhere."""


def resolve_rules(rules: "Rules | str" = "standard", num_players: int | None = None) -> Rules:
    """Rules from a preset's name and a player count (default 2), or checked as they are.

    Raises:
        SplendorError: Unknown preset, nonsense rules, or a player count that contradicts them.
    """
    if isinstance(rules, Rules):
        if num_players not in (None, rules.num_players):
            raise SplendorError(
                f"num_players={num_players!r} contradicts rules for {rules.num_players} players"
            )
        return check_rules(rules)
    if not isinstance(rules, str) or rules not in PRESETS:
        raise SplendorError(f"unknown rules {rules!r}; presets are {', '.join(PRESETS)}")
    return PRESETS[rules](2 if num_players is None else num_players)


GAME = np.dtype(
    (
        np.record,
        np.dtype(
            [
                ("bank", np.uint64),  # packed gems
                ("tokens", np.uint64, MAX_PLAYERS),  # packed, by seat
                ("bonuses", np.uint64, MAX_PLAYERS),  # packed, by seat
                ("payment", np.uint64),  # pledged for `pending`, else no gems
                ("seed", np.uint64),  # every draw is hashed from it
                ("rounds", np.int16),  # begun; stays when the game ends
                ("points", np.int8, MAX_PLAYERS),  # prestige, cards and nobles
                ("num_cards", np.int8, MAX_PLAYERS),  # bought, for the tie-break
                ("market", np.int8, (NUM_LEVELS, MARKET_SLOTS)),  # card or -1
                ("deck", np.int8, (NUM_LEVELS, int(LEVEL_SIZE[0]))),  # cards not drawn, unordered
                ("deck_size", np.int8, NUM_LEVELS),
                ("reserved", np.int8, (MAX_PLAYERS, MAX_RESERVED)),  # packed, oldest first, or -1
                ("reserved_blind", np.int8, (MAX_PLAYERS, MAX_RESERVED)),  # 1: unseen by others
                ("nobles", np.int8, MAX_NOBLES),  # noble or -1, by slot
                ("noble_owner", np.int8, MAX_NOBLES),  # seat or -1
                ("player", np.int8),  # seat to act; of the last action when over
                ("phase", np.int8),  # Phase
                ("passes", np.int8),  # passes in a row without a change
                ("pending", np.int8),  # action being paid for, or -1
                ("end_reason", np.int8),  # EndReason
            ],
            align=True,
        ),
    )
)
"""The record of one game."""
