"""The board as plain text, at most 80 columns.

Decides what a viewer is told and in which words; knows no colours, fonts or terminals. Slots and
letters are those of the action notation, so that `3-1` on the board is `buy 3-1`.
"""

from collections.abc import Iterable

import numpy as np

from splendor_env.core.actions import (
    ACTION_NAMES,
    BUY,
    DONE,
    NOBLE,
    PASS,
    PAY_GOLD,
    RESERVE,
    RESERVE_DECK,
    RETURN,
)
from splendor_env.core.cards import (
    CARD_BONUS,
    CARD_COST,
    CARD_LEVEL,
    CARD_POINTS,
    NOBLE_COST,
    NUM_LEVELS,
)
from splendor_env.core.gems import (
    COLOR_LETTERS,
    NUM_COLORS,
    floor_subtract,
    gold_of,
    total,
    unpack,
)
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


def board_text(
    game: np.record,
    rules: Rules,
    viewer: int | None = None,
    buyer: int | None = None,
    forfeited_by: int | None = None,
) -> str:
    """Draw one game as lines of text.

    Args:
        game: One record of dtype `GAME`.
        rules: The variant the game was dealt with.
        viewer: Seat whose own secrets are shown; None is a spectator, who sees nobody's.
        buyer: Seat for which the board also says what it still lacks for each card and noble.
        forfeited_by: Seat that has lost the game by giving it up.
    """
    lines = [
        *status_lines(game, rules, forfeited_by),
        "",
        *_noble_lines(game, rules, buyer),
        "",
        *_market_lines(game, buyer),
        *_seat_lines(game, rules, viewer, buyer, seat_to_move(game, forfeited_by)),
    ]
    return "\n".join(line.rstrip() for line in lines)


def seat_to_move(game: np.record, forfeited_by: int | None = None) -> int | None:
    """The seat to move; None once the game is over."""
    is_over = game.end_reason != EndReason.RUNNING or forfeited_by is not None
    return None if is_over else int(game.player)


def status_lines(game: np.record, rules: Rules, forfeited_by: int | None = None) -> list[str]:
    """Say whose decision it is, or how the game ended, in one to three sentences."""
    if forfeited_by is not None:
        others = [seat for seat in range(rules.num_players) if seat != forfeited_by]
        return [
            f"Game over in round {game.rounds}: seat {forfeited_by} has forfeited it.",
            f"Seat {others[0]} wins."
            if len(others) == 1
            else f"Seats {' and '.join(map(str, others))} share the victory.",
        ]
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


def lack_text(card: int, bonuses: np.uint64, tokens: np.uint64) -> str:
    """What a card still costs a seat after its bonuses and tokens.

    `W2 K1`; `2: W2 K1` if gold in hand leaves 2 of these to get; `can buy`, `buy: gold 1`.
    """
    missing = floor_subtract(floor_subtract(CARD_COST[card], bonuses), tokens)
    number, gold = int(total(missing)), int(gold_of(tokens))
    if number <= gold:
        return f"buy: gold {number}" if number else "can buy"
    return f"{number - gold}: {gems_text(missing)}" if gold else gems_text(missing)


def _row(label: str, cells: Iterable[str], width: int) -> str:
    return f"{label:<{_LABEL_WIDTH}}" + "".join(f"{cell:<{width}}" for cell in cells)


def _noble_lines(game: np.record, rules: Rules, buyer: int | None) -> list[str]:
    slots = [slot for slot in range(rules.num_nobles) if game.nobles[slot] >= 0]
    asked = [
        gems_text(NOBLE_COST[int(game.nobles[slot])])
        if game.noble_owner[slot] < 0
        else f"with seat {game.noble_owner[slot]}"
        for slot in slots
    ]
    lines = [
        _row("Nobles", [str(slot + 1) for slot in slots], _NOBLE_WIDTH),
        _row(count_text(rules.noble_points, "point"), asked, _NOBLE_WIDTH),
    ]
    if buyer is not None:
        bonuses = game.bonuses[buyer]
        due = [
            gems_text(floor_subtract(NOBLE_COST[int(game.nobles[slot])], bonuses))
            if game.noble_owner[slot] < 0
            else ""
            for slot in slots
        ]
        lines.append(_row("cards to go", due, _NOBLE_WIDTH))
    return lines


def _market_lines(game: np.record, buyer: int | None) -> list[str]:
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
        ]
        if buyer is not None:
            bonuses, tokens = game.bonuses[buyer], game.tokens[buyer]
            lacks = [
                lack_text(card, bonuses, tokens) if card >= 0 else ""
                for card in game.market[level].tolist()
            ]
            lines.append(_row("you lack", lacks, _CARD_WIDTH))
        lines.append("")
    return lines


def _seat_lines(
    game: np.record, rules: Rules, viewer: int | None, buyer: int | None, mover: int | None
) -> list[str]:
    white, *others = COLOR_LETTERS
    lines = [
        _table_row(
            *("", "points", "tokens", *COLOR_LETTERS, "gold", "cards", f"bonus {white}", *others)
        ),
        _table_row("  Bank", "", "", *_counts(game.bank)),
    ]
    for seat in range(rules.num_players):
        lines.append(
            _table_row(
                f"{'>' if seat == mover else ' '} Seat {seat}{' (you)' if seat == viewer else ''}",
                game.points[seat],
                f"{int(total(game.tokens[seat]))}/{rules.token_limit}",
                *_counts(game.tokens[seat]),
                game.num_cards[seat],
                *_counts(game.bonuses[seat])[:NUM_COLORS],
            )
        )
        for slot in range(hand_size(game, seat)):
            lines.append(f"    reserved {slot + 1}: {_reserved(game, rules, seat, slot, viewer)}")
            if seat == buyer and not is_secret(game, rules, seat, slot, _observer(viewer)):
                card = int(game.reserved[seat, slot])
                lack = lack_text(card, game.bonuses[seat], game.tokens[seat])
                lines.append(f"      you lack: {lack}")
    return lines


def _counts(gems: np.uint64) -> list[str]:
    return [str(count or ".") for count in unpack(gems)]


def _table_row(label: str, *cells: object) -> str:
    columns = zip(cells, _TABLE_WIDTHS, strict=False)
    return f"{label:<14}" + "".join(f"{cell!s:>{width}}" for cell, width in columns)


def _reserved(game: np.record, rules: Rules, seat: int, slot: int, viewer: int | None) -> str:
    card = int(game.reserved[seat, slot])
    if is_secret(game, rules, seat, slot, _observer(viewer)):
        return f"level {CARD_LEVEL[card] + 1} card, face down"
    is_closed = is_secret(game, rules, seat, slot, SPECTATOR)
    return _full_card(card) + (" (seen by you alone)" if is_closed else "")


def _observer(viewer: int | None) -> int:
    return SPECTATOR if viewer is None else viewer


# A decision in words.


def decision_text(before: np.record, after: np.record, action: int) -> str:
    """What the mover has done, without what that turned up: `buys 1-2 (level 1, ...) for R2`.

    Args:
        before: One record of dtype `GAME`.
        after: The one that the decision led to.
        action: The decision.
    """
    seat, name = before.player, ACTION_NAMES[action]
    text = _deed(before, after, action, seat, name)
    visits = [
        f"noble {slot + 1} ({gems_text(NOBLE_COST[int(before.nobles[slot])])}) visits"
        for slot in np.flatnonzero(after.noble_owner != before.noble_owner).tolist()
    ]
    return ", ".join([text] * (not NOBLE <= action < PAY_GOLD) + visits)


def _deed(before: np.record, after: np.record, action: int, seat: int, name: str) -> str:
    """The same without the visit of a noble."""
    if RESERVE <= action < BUY:
        place = name.removeprefix("reserve ")
        what = f"a card of level {place[-1]} face down"
        if action < RESERVE_DECK:
            what = f"{place} ({_full_card(int(card_reserved(before, after)))})"
        has_gold = gold_of(after.tokens[seat]) > gold_of(before.tokens[seat])
        return f"reserves {what}{', takes gold' if has_gold else ''}"
    pays = f"pays gold for {name[-1]}" if PAY_GOLD <= action < DONE else ""
    if pays and after.pending >= 0:
        return pays
    if BUY <= action < RETURN or before.pending >= 0:
        purchase = before.pending if before.pending >= 0 else action
        place = ACTION_NAMES[purchase].removeprefix("buy ")
        card = _full_card(int(card_bought(before, purchase)))
        if after.pending >= 0:
            return f"wants {place} ({card})"
        paid = gems_text(before.tokens[seat] - after.tokens[seat])
        # The last gold completes the payment.
        return f"{pays and f'{pays}, '}buys {place} ({card}) for {paid}"
    return "passes" if action == PASS else name.replace(" ", "s ", 1)


def card_reserved(before: np.record, after: np.record) -> int:
    """The card that the mover has just reserved."""
    return int(after.reserved[before.player, hand_size(before, before.player)])


def draw_text(before: np.record, after: np.record, action: int, viewer: int | None = None) -> str:
    """What a decision turned up, as a viewer sees it; empty where it turned up nothing.

    Args:
        before: One record of dtype `GAME`.
        after: The one that the decision led to.
        action: The decision.
        viewer: Seat that is told what it has reserved face down itself.
    """
    if RESERVE_DECK <= action < BUY and viewer == before.player:
        return f"the card: {_full_card(card_reserved(before, after))}"
    for level, slot in np.argwhere(before.market != after.market).tolist():
        card = int(after.market[level, slot])
        shown = f"now {_worth(card)}, cost {gems_text(CARD_COST[card])}" if card >= 0 else "empty"
        return f"{level + 1}-{slot + 1} is {shown}"
    return ""
