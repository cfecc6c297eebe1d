"""What a viewer is shown of a game, ready for JSON: nothing that its seat could not know.

There is one way from a game to what is sent: `view` and `seen_event`. Neither ever holds the seed,
a card of a deck, or a card that another seat has reserved in secret.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from splendor_env.core.actions import ACTION_NAMES, BUY, RESERVE_DECK
from splendor_env.core.cards import (
    CARD_BONUS,
    CARD_COST,
    CARD_LEVEL,
    CARD_NAMES,
    CARD_POINTS,
    NOBLE_COST,
    NOBLE_NAMES,
)
from splendor_env.core.gems import COLOR_LETTERS, unpack
from splendor_env.core.rules import is_last_round
from splendor_env.core.state import EndReason
from splendor_env.game import Game
from splendor_env.position import describe_seen

SPECTATOR = -1
"""A viewer without a seat, who sees what everybody knows."""
ALL_SEATS = -2
"""A viewer of a game that is over, who sees every hand."""

_LETTERS = (*COLOR_LETTERS, "gold")


def cards_and_nobles() -> dict[str, Any]:
    """What every card and noble is, by name."""
    cards = {
        name: {
            "level": int(CARD_LEVEL[card]) + 1,
            "points": int(CARD_POINTS[card]),
            "bonus": COLOR_LETTERS[CARD_BONUS[card]],
            "cost": _positive(unpack(CARD_COST[card])),
        }
        for card, name in enumerate(CARD_NAMES)
    }
    nobles = {
        name: {"bonuses": _positive(unpack(NOBLE_COST[noble]))}
        for noble, name in enumerate(NOBLE_NAMES)
    }
    return {"cards": cards, "nobles": nobles}


def event(before: np.record, action: int, after: np.record) -> dict[str, Any]:
    """What a decision did, secrets included; `seen_event` takes them out."""
    seat = int(before.player)
    left, drawn = -1, -1
    places = np.flatnonzero(before.market != after.market)
    if len(places):
        left, drawn = (int(game.market.ravel()[places[0]]) for game in (before, after))
    else:
        held, holds = (set(game.reserved[seat].tolist()) - {-1} for game in (before, after))
        left, drawn = (next(iter(cards), -1) for cards in (held - holds, holds - held))
    claimed = np.flatnonzero(before.noble_owner != after.noble_owner)
    tokens = np.subtract(unpack(after.tokens[seat]), unpack(before.tokens[seat]))
    return {
        "seat": seat,
        "round": int(before.rounds),
        "move": ACTION_NAMES[action],
        "card": None if left < 0 else CARD_NAMES[left],
        "drawn": None if drawn < 0 else CARD_NAMES[drawn],
        "noble": NOBLE_NAMES[before.nobles[claimed[0]]] if len(claimed) else None,
        "tokens": {
            letter: int(change) for letter, change in zip(_LETTERS, tokens, strict=True) if change
        },
    }


_BLIND = ACTION_NAMES[RESERVE_DECK:BUY]


def seen_event(event: Mapping[str, Any], viewer: int) -> dict[str, Any]:
    """An event as a viewer has seen it: without the card that another seat drew in secret."""
    is_secret = event["move"] in _BLIND and viewer not in (event["seat"], ALL_SEATS)
    return {**event, "drawn": None} if is_secret else dict(event)


def view(
    game: Game,
    viewer: int,
    history: Sequence[Mapping[str, Any]],
    forfeited_by: int | None = None,
) -> dict[str, Any]:
    """A game as a seat, `SPECTATOR` or `ALL_SEATS` sees it.

    Args:
        game: The game.
        viewer: Who looks.
        history: The events so far.
        forfeited_by: The seat that has lost the game by giving it up.
    """
    seen = [seen_event(entry, viewer) for entry in history]
    is_over = game.is_over or forfeited_by is not None
    end_reason, winners = EndReason(game.end_reason).name.lower(), game.winners
    if forfeited_by is not None:
        end_reason = "forfeit"
        winners = [seat for seat in range(game.rules.num_players) if seat != forfeited_by]
    return {
        "players": game.rules.num_players,
        "rules": game.rules._asdict(),
        "viewer": None if viewer < 0 else viewer,
        "position": _position(game, viewer),
        "deck_sizes": game.games["deck_size"][0].tolist(),
        "round": game.rounds,
        "player": game.player,
        "phase": game.phase.name.lower(),
        "last_round": not is_over and bool(is_last_round(game.games[0], game.rules)),
        "is_over": is_over,
        "end_reason": end_reason,
        "forfeited_by": forfeited_by,
        "winners": winners,
        "points": game.points,
        "legal_moves": game.legal_moves if viewer == game.player and not is_over else [],
        "missing": {} if viewer < 0 else _missing(game.games[0], viewer),
        "tokens_total": [
            sum(unpack(tokens)) for tokens in game.games["tokens"][0, : game.rules.num_players]
        ],
        "token_limit": game.rules.token_limit,
        "history": seen,
        "last_move": seen[-1] if seen else None,
    }


def _position(game: Game, viewer: int) -> dict[str, Any]:
    record, rules = game.games[0], game.rules
    # Also a spectator is one who owns no reserve.
    position = describe_seen(record, rules, viewer)
    if viewer == ALL_SEATS:
        position["seats"] = [
            describe_seen(record, rules, seat)["seats"][seat] for seat in range(rules.num_players)
        ]
    # A seat could work out by itself what it has not seen; the others do not need to know it.
    del position["unseen"], position["rules"]
    return position


def _missing(game: np.record, seat: int) -> dict[str, dict[str, int]]:
    """The coloured tokens that a seat lacks for each card in its reach, before gold."""
    held = np.add(unpack(game.tokens[seat]), unpack(game.bonuses[seat])).tolist()
    places: dict[str, int] = {
        f"{level + 1}-{slot + 1}": card
        for level, row in enumerate(game.market.tolist())
        for slot, card in enumerate(row)
    }
    places |= {
        f"reserved {slot + 1}": card for slot, card in enumerate(game.reserved[seat].tolist())
    }
    return {
        place: _positive(np.subtract(unpack(CARD_COST[card]), held))
        for place, card in places.items()
        if card >= 0
    }


def _positive(counts: Sequence[int] | np.ndarray) -> dict[str, int]:
    """Counts of the five colours above zero, by letter."""
    return {letter: int(n) for letter, n in zip(COLOR_LETTERS, counts, strict=False) if n > 0}
