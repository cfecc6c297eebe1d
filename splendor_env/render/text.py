"""The board as plain text, at most 80 columns.

Decides what a viewer is told and in which words; knows no colours, fonts or terminals. Slots and
letters are those of the action notation, so that `3-1` on the board is `buy 3-1`.
"""

from collections.abc import Iterable

import numpy as np

from splendor_env.core.actions import ACTION_NAMES
from splendor_env.core.cards import (
    CARD_BONUS,
    CARD_COST,
    CARD_LEVEL,
    CARD_POINTS,
    NOBLE_COST,
    NUM_LEVELS,
)
from splendor_env.core.gems import COLOR_LETTERS, NUM_COLORS, total, unpack
from splendor_env.core.hidden import is_secret
from splendor_env.core.rules import card_bought, hand_size, is_last_round, victory_shares
from splendor_env.core.state import MARKET_SLOTS, EndReason, Phase, Rules

SPECTATOR = -1
"""Observer for the core's secrecy predicate that owns no seat."""

_LABEL_WIDTH = 12
_CARD_WIDTH = 16
_NOBLE_WIDTH = 13
_TABLE_WIDTHS = (6, 8, 4, 3, 3, 3, 3, 6, 7, 10, 3, 3, 3, 3)
"""Columns after the seat: points, tokens in all and by colour, cards, bonuses by colour."""


def board_text(game: np.record, rules: Rules, viewer: int | None = None) -> str:
    """Draw one game as lines of text.

    Args:
        game: One record of dtype `GAME`.
        rules: The variant the game was dealt with.
        viewer: Seat whose own secrets are shown; None is a spectator, who sees nobody's.
    """
    lines = [
        *status_lines(game, rules),
        "",
        *_noble_lines(game, rules),
        "",
        *_market_lines(game),
        *_seat_lines(game, rules, viewer),
    ]
    return "\n".join(line.rstrip() for line in lines)


def status_lines(game: np.record, rules: Rules) -> list[str]:
    """Say whose decision it is, or how the game ended, in one to three sentences."""
    if game.end_reason != EndReason.RUNNING:
        return _end_lines(game, rules)
    lines = [f"Round {game.rounds}: seat {game.player} {_decision(game, rules)}."]
    if game.phase == Phase.PAY:
        card = int(card_bought(game, game.pending))
        lines.append(f"The card: {_full_card(card)}. Pledged: {gems_text(game.payment)}.")
    if is_last_round(game, rules):
        lines.append(f"Last round: a seat has reached {count_text(rules.target_points, 'point')}.")
    return lines


def _decision(game: np.record, rules: Rules) -> str:
    if game.phase == Phase.PAY:
        return f"pays for {ACTION_NAMES[game.pending].removeprefix('buy ')}"
    if game.phase == Phase.RETURN:
        excess = int(total(game.tokens[game.player])) - rules.token_limit
        return f"returns {count_text(excess, 'token')}"
    return "chooses a noble" if game.phase == Phase.NOBLE else "plays"


def _end_lines(game: np.record, rules: Rules) -> list[str]:
    reason = {
        EndReason.TARGET: f"a seat has reached {count_text(rules.target_points, 'point')}",
        EndReason.STALEMATE: "every seat has passed",
        EndReason.ROUND_LIMIT: "the round limit",
    }[EndReason(game.end_reason)]
    return [f"Game over in round {game.rounds}: {reason}.", _result(game, rules)]


def _result(game: np.record, rules: Rules) -> str:
    if game.end_reason == EndReason.ROUND_LIMIT:
        return "No result."
    share = np.zeros(rules.num_players)
    victory_shares(game, rules, share)
    winners = np.flatnonzero(share).tolist()
    points = count_text(game.points[winners[0]], "point")
    score = f"{points} and {count_text(game.num_cards[winners[0]], 'bought card')}"
    if len(winners) == 1:
        return f"Seat {winners[0]} wins with {score}."
    return f"Seats {' and '.join(map(str, winners))} share the victory with {score}."


def gems_text(gems: np.uint64) -> str:
    """Write a packed vector as `W3 K1 gold 2`."""
    *colors, gold = unpack(gems)
    parts = [f"{COLOR_LETTERS[color]}{count}" for color, count in enumerate(colors) if count]
    if gold:
        parts.append(f"gold {gold}")
    return " ".join(parts) or "nothing"


def count_text(count: int, noun: str) -> str:
    """Write `1 point`, `2 points`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _worth(card: int) -> str:
    """Bonus and points, which most cards of level 1 lack."""
    points = CARD_POINTS[card]
    return COLOR_LETTERS[CARD_BONUS[card]] + (f" {count_text(points, 'point')}" if points else "")


def _full_card(card: int) -> str:
    return f"level {CARD_LEVEL[card] + 1}, {_worth(card)}, cost {gems_text(CARD_COST[card])}"


def _row(label: str, cells: Iterable[str], width: int) -> str:
    return f"{label:<{_LABEL_WIDTH}}" + "".join(f"{cell:<{width}}" for cell in cells)


def _noble_lines(game: np.record, rules: Rules) -> list[str]:
    slots = [slot for slot in range(rules.num_nobles) if game.nobles[slot] >= 0]
    asked = [
        gems_text(NOBLE_COST[int(game.nobles[slot])])
        if game.noble_owner[slot] < 0
        else f"with seat {game.noble_owner[slot]}"
        for slot in slots
    ]
    return [
        _row("Nobles", [str(slot + 1) for slot in slots], _NOBLE_WIDTH),
        _row(count_text(rules.noble_points, "point"), asked, _NOBLE_WIDTH),
    ]


def _market_lines(game: np.record) -> list[str]:
    lines = []
    for level in reversed(range(NUM_LEVELS)):
        titles, costs = [], []
        for slot in range(MARKET_SLOTS):
            card = int(game.market[level, slot])
            titles.append(f"{level + 1}-{slot + 1} {_worth(card) if card >= 0 else 'empty'}")
            costs.append(gems_text(CARD_COST[card]) if card >= 0 else "")
        lines += [
            _row(f"Level {level + 1}", titles, _CARD_WIDTH),
            _row(f"{game.deck_size[level]} in deck", costs, _CARD_WIDTH),
            "",
        ]
    return lines


def _seat_lines(game: np.record, rules: Rules, viewer: int | None) -> list[str]:
    white, *others = COLOR_LETTERS
    lines = [
        _table_row(
            *("", "points", "tokens", *COLOR_LETTERS, "gold", "cards", f"bonus {white}", *others)
        ),
        _table_row("  Bank", "", "", *_counts(game.bank)),
    ]
    for seat in range(rules.num_players):
        is_mover = seat == game.player and game.end_reason == EndReason.RUNNING
        lines.append(
            _table_row(
                f"{'>' if is_mover else ' '} Seat {seat}{' (you)' if seat == viewer else ''}",
                game.points[seat],
                f"{int(total(game.tokens[seat]))}/{rules.token_limit}",
                *_counts(game.tokens[seat]),
                game.num_cards[seat],
                *_counts(game.bonuses[seat])[:NUM_COLORS],
            )
        )
        lines += [
            f"    reserved {slot + 1}: {_reserved(game, rules, seat, slot, viewer)}"
            for slot in range(hand_size(game, seat))
        ]
    return lines


def _counts(gems: np.uint64) -> list[str]:
    return [str(count or ".") for count in unpack(gems)]


def _table_row(label: str, *cells: object) -> str:
    columns = zip(cells, _TABLE_WIDTHS, strict=False)
    return f"{label:<14}" + "".join(f"{cell!s:>{width}}" for cell, width in columns)


def _reserved(game: np.record, rules: Rules, seat: int, slot: int, viewer: int | None) -> str:
    card = int(game.reserved[seat, slot])
    if is_secret(game, rules, seat, slot, SPECTATOR if viewer is None else viewer):
        return f"level {CARD_LEVEL[card] + 1} card, face down"
    is_closed = is_secret(game, rules, seat, slot, SPECTATOR)
    return _full_card(card) + (" (seen by you alone)" if is_closed else "")
