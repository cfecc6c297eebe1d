"""A position by name: `describe` writes one as a plain dictionary, `set_up` reads it back.

Cards are named "W00021" (bonus, then cost in the order W U G R K), nobles "00044", colours by
letter and gold in full; counts of gems are dictionaries. `describe_seen` leaves out what a seat
cannot see. `set_up` fills in what is left out.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from splendor_env.core.actions import ACTION_NAMES, BUY, RETURN
from splendor_env.core.batch import deal_games
from splendor_env.core.cards import (
    CARD_COST,
    CARD_LEVEL,
    CARD_NAMES,
    NOBLE_NAMES,
    NUM_CARDS,
    NUM_LEVELS,
)
from splendor_env.core.gems import COLOR_LETTERS, GOLD, NUM_COLORS, pack, unpack
from splendor_env.core.hidden import is_secret
from splendor_env.core.random import HIDDEN_STREAM, check_seed, draw_below
from splendor_env.core.rules import card_bought, cheapest_payment, qualifying_nobles
from splendor_env.core.state import (
    COLORED_TOKENS,
    GAME,
    MARKET_SLOTS,
    EndReason,
    Payment,
    Phase,
    Rules,
    SplendorError,
    resolve_rules,
    standard,
)

_LETTERS = (*COLOR_LETTERS, "gold")
_SLOTS = [
    f"{level}-{slot}" for level in range(1, NUM_LEVELS + 1) for slot in range(1, MARKET_SLOTS + 1)
]
_MAX_BONUSES = 18
"""Cards of one bonus colour in the game."""
_MAX_COUNTER = 99
"""Highest points and bought cards of a seat that a position may have."""
_KEYS = (
    *("rules", "seed", "player", "phase", "round", "passes", "end_reason", "bank", "market"),
    *("decks", "unseen", "nobles", "seats", "pending", "payment"),
)
_SEAT_KEYS = ("tokens", "bonuses", "points", "num_cards", "reserved")


def card_id(name: object) -> int:
    """The card of a name, or of its own number 0 to 89.

    Raises:
        SplendorError: There is no such card.
    """
    if isinstance(name, int | np.integer) and 0 <= name < NUM_CARDS:
        return int(name)
    if name in CARD_NAMES:
        return CARD_NAMES.index(name)  # type: ignore[arg-type]
    raise SplendorError(
        f"there is no card {name!r}; names are the bonus and the cost W U G R K, like 'W00021'"
    )


def describe(game: np.record, rules: Rules) -> dict[str, Any]:
    """The whole position, secrets and seed included, ready for JSON."""
    return {
        "rules": rules._asdict(),
        "seed": int(game.seed),
        "player": int(game.player),
        "phase": Phase(game.phase).name.lower(),
        "round": int(game.rounds),
        "passes": int(game.passes),
        "end_reason": EndReason(game.end_reason).name.lower(),
        "bank": _named_gems(game.bank),
        "market": dict(zip(_SLOTS, map(_card_name, game.market.ravel()), strict=True)),
        "decks": [
            [CARD_NAMES[card] for card in game.deck[level, : game.deck_size[level]]]
            for level in range(NUM_LEVELS)
        ],
        "nobles": [
            {"noble": NOBLE_NAMES[noble], "owner": None if owner < 0 else int(owner)}
            for noble, owner in zip(game.nobles, game.noble_owner, strict=True)
            if noble >= 0
        ],
        "seats": [_describe_seat(game, seat) for seat in range(rules.num_players)],
        "pending": None if game.pending < 0 else ACTION_NAMES[game.pending],
        "payment": _named_gems(game.payment),
    }


def describe_seen(game: np.record, rules: Rules, observer: int) -> dict[str, Any]:
    """The position as seat `observer` sees it: equal whatever is hidden from it.

    In place of `decks` stands `unseen`: for each level the cards in its deck and those that other
    seats have reserved in secret, of which `card` is None. There is no `seed`.
    """
    seen = describe(game, rules)
    del seen["seed"]
    unseen = [set(deck) for deck in seen.pop("decks")]
    for seat, described in enumerate(seen["seats"]):
        for slot, entry in enumerate(described["reserved"]):
            level = int(CARD_LEVEL[game.reserved[seat, slot]])
            entry["level"] = level + 1
            if is_secret(game, rules, seat, slot, observer):
                unseen[level].add(entry["card"])
                entry["card"] = None
    return seen | {"unseen": [sorted(cards, key=CARD_NAMES.index) for cards in unseen]}


def _describe_seat(game: np.record, seat: int) -> dict[str, Any]:
    held = zip(game.reserved[seat], game.reserved_blind[seat], strict=True)
    return {
        "tokens": _named_gems(game.tokens[seat]),
        "bonuses": _named_gems(game.bonuses[seat], NUM_COLORS),
        "points": int(game.points[seat]),
        "num_cards": int(game.num_cards[seat]),
        "reserved": [
            {"card": CARD_NAMES[card], "blind": bool(blind)} for card, blind in held if card >= 0
        ],
    }


def _named_gems(gems: np.uint64, num_kinds: int = NUM_COLORS + 1) -> dict[str, int]:
    return dict(zip(_LETTERS[:num_kinds], unpack(gems), strict=False))


def _card_name(card: int) -> str | None:
    return None if card < 0 else CARD_NAMES[card]


def set_up(position: Mapping[str, Any]) -> tuple[Rules, np.ndarray]:
    """The rules and the (1,) GAME array of a position; see `Game.from_dict` for the defaults.

    Raises:
        SplendorError: The position cannot be; the message says what is wrong.
    """
    _check_keys("position", position, _KEYS)
    rules = _read_rules(position)
    games = np.zeros(1, GAME)
    deal_games(games, rules, np.uint64(0))
    game = games[0]
    game.seed = check_seed(position.get("seed", 0))
    secrets = _read_seats(game, rules, position.get("seats", ()))
    _read_bank(game, rules, position.get("bank"))
    _read_nobles(game, rules, position)
    _read_cards(game, position, secrets)
    game.player = _integer(position, "player", 0, 0, rules.num_players - 1)
    game.rounds = _integer(position, "round", 1, 1, rules.max_rounds)
    game.passes = _integer(position, "passes", 0, 0, rules.num_players)
    game.end_reason = EndReason[_choice(position, "end_reason", EndReason)]
    _read_phase(game, rules, position)
    return rules, games


def _read_rules(position: Mapping[str, Any]) -> Rules:
    rules = position.get("rules", {})
    num_players = len(_sequence("seats", position.get("seats", ()))) or None
    if isinstance(rules, Mapping):
        _check_keys("rules", rules, Rules._fields)
        changes = dict(rules)
        rules = standard(changes.pop("num_players", num_players or 2), **changes)
    return resolve_rules(rules, num_players)


def _read_seats(
    game: np.record, rules: Rules, seats: Sequence[Mapping[str, Any]]
) -> list[tuple[int, int, int]]:
    """Fill in the seats; returns seat, slot and level of each reserved card without a name."""
    secrets = []
    for seat, described in enumerate(seats):
        place = f"seats[{seat}]"
        _check_keys(place, described, _SEAT_KEYS)
        game.tokens[seat] = _gems(f"{place}.tokens", described.get("tokens", {}), _totals(rules))
        bonuses = _gems(
            f"{place}.bonuses", described.get("bonuses", {}), [_MAX_BONUSES] * NUM_COLORS
        )
        game.bonuses[seat] = bonuses
        game.points[seat] = _integer(described, "points", 0, 0, _MAX_COUNTER)
        num_bonuses = sum(unpack(bonuses))
        game.num_cards[seat] = _integer(described, "num_cards", num_bonuses, 0, _MAX_COUNTER)
        entries = _sequence(f"{place}.reserved", described.get("reserved", ()))
        reserved = [_reserved(entry) for entry in entries]
        if len(reserved) > rules.reserve_limit:
            raise SplendorError(
                f"{place}.reserved: {len(reserved)} cards, the limit is {rules.reserve_limit}"
            )
        for slot, (card, level, is_blind) in enumerate(reserved):
            game.reserved[seat, slot] = card
            game.reserved_blind[seat, slot] = is_blind
            if card < 0:
                secrets.append((seat, slot, level))
    return secrets


def _reserved(entry: str | Mapping[str, Any]) -> tuple[int, int, bool]:
    """Card or -1, level from 0, and whether it is a blind reserve."""
    if not isinstance(entry, Mapping):
        card = card_id(entry)
        return card, int(CARD_LEVEL[card]), False
    _check_keys("reserved", entry, ("card", "level", "blind"))
    is_blind = bool(entry.get("blind", False))
    level = _integer(entry, "level", 0, 1, NUM_LEVELS) - 1 if "level" in entry else None
    if entry.get("card") is None and level is not None:
        return -1, level, is_blind
    card = card_id(entry.get("card"))
    if level not in (None, CARD_LEVEL[card]):
        raise SplendorError(f"reserved: {CARD_NAMES[card]} is not a level {level + 1} card")
    return card, int(CARD_LEVEL[card]), is_blind


def _read_bank(game: np.record, rules: Rules, bank: Mapping[str, int] | None) -> None:
    held = np.sum([unpack(tokens) for tokens in game.tokens], axis=0)
    rest = np.array(_totals(rules)) - held
    if (rest < 0).any():
        color = int(np.argmin(rest))
        there = _totals(rules)[color]
        raise SplendorError(f"seats hold more {_LETTERS[color]} tokens than the {there} there are")
    game.bank = pack(rest) if bank is None else _gems("bank", bank, rest.tolist())


def _read_nobles(game: np.record, rules: Rules, position: Mapping[str, Any]) -> None:
    if "nobles" not in position:
        deal = np.zeros(1, GAME)
        deal_games(deal, rules, game.seed)
        game.nobles[:] = deal[0].nobles
        return
    entries = _sequence("nobles", position["nobles"])
    if len(entries) > rules.num_nobles:
        raise SplendorError(f"nobles: {len(entries)}, the rules have {rules.num_nobles}")
    game.nobles[:] = -1
    for slot, entry in enumerate(entries):
        described = entry if isinstance(entry, Mapping) else {"noble": entry}
        _check_keys("nobles", described, ("noble", "owner"))
        name = described.get("noble")
        if name not in NOBLE_NAMES:
            raise SplendorError(f"there is no noble {name!r}; nobles are {', '.join(NOBLE_NAMES)}")
        noble = NOBLE_NAMES.index(name)
        if noble in game.nobles[:slot]:
            raise SplendorError(f"noble {name} is named twice")
        game.nobles[slot] = noble
        if described.get("owner") is not None:
            game.noble_owner[slot] = _integer(described, "owner", 0, 0, rules.num_players - 1)


def _read_cards(
    game: np.record, position: Mapping[str, Any], secrets: Sequence[tuple[int, int, int]]
) -> None:
    """Market and decks: every card in one place, unnamed ones drawn from the decks."""
    named = position.get("market", {})
    _check_keys("market", named, _SLOTS)
    market = {slot: card_id(name) for slot, name in named.items() if name is not None}
    for slot, card in market.items():
        if CARD_LEVEL[card] != int(slot[0]) - 1:
            raise SplendorError(f"market {slot}: {CARD_NAMES[card]} is not a level {slot[0]} card")
    placed = [*market.values(), *game.reserved[game.reserved >= 0].tolist()]
    if "decks" in position and "unseen" in position:
        raise SplendorError("`decks` and `unseen` exclude each other")
    key = "unseen" if "unseen" in position else "decks"
    if key in position:
        decks = [
            [card_id(name) for name in _sequence(f"{key}[{level}]", deck)]
            for level, deck in enumerate(_sequence(key, position[key]))
        ]
        placed += [card for deck in decks for card in deck]
    else:
        rest = [card for card in range(NUM_CARDS) if card not in placed]
        decks = [[c for c in rest if CARD_LEVEL[c] == level] for level in range(NUM_LEVELS)]
    twice = {CARD_NAMES[card] for card in placed if placed.count(card) > 1}
    if twice:
        raise SplendorError(f"card {min(twice)} is in two places")
    if [len({int(CARD_LEVEL[c]) for c in deck} - {level}) for level, deck in enumerate(decks)] != [
        0
    ] * NUM_LEVELS:
        raise SplendorError(f"{key}: three lists of cards, of level 1, 2 and 3")
    game.deck[:] = -1
    for level in range(NUM_LEVELS):
        for slot in range(MARKET_SLOTS):
            name = f"{level + 1}-{slot + 1}"
            card = market.get(name, -1)
            if name not in named and decks[level]:
                size = len(decks[level])
                card = decks[level].pop(int(draw_below(game.seed, level, size, size)))
            game.market[level, slot] = card
    for seat, slot, level in secrets:
        size = len(decks[level])
        if size == 0:
            raise SplendorError(f"seats[{seat}].reserved: no level {level + 1} card is left for it")
        index = draw_below(game.seed, HIDDEN_STREAM, level * 64 + size, size)
        game.reserved[seat, slot] = decks[level].pop(int(index))
    for level in range(NUM_LEVELS):
        game.deck[level, : len(decks[level])] = decks[level]
        game.deck_size[level] = len(decks[level])


def _read_phase(game: np.record, rules: Rules, position: Mapping[str, Any]) -> None:
    """The phase and the purchase under way; refuses a phase in which nothing is to decide."""
    phase = Phase[_choice(position, "phase", Phase)]
    game.phase = phase
    held = [sum(unpack(tokens)) for tokens in game.tokens]
    over_limit = [seat for seat, tokens in enumerate(held) if tokens > rules.token_limit]
    if over_limit != ([int(game.player)] if phase == Phase.RETURN else []):
        raise SplendorError(
            f"phase {phase.name.lower()}: seats {over_limit} hold more than {rules.token_limit} "
            "tokens; in phase return it is just the seat to move, else none"
        )
    if phase == Phase.NOBLE and qualifying_nobles(game).bit_count() < 2:
        raise SplendorError("phase noble: the seat to move must qualify for several nobles")
    pending, payment = position.get("pending"), position.get("payment", {})
    if (phase == Phase.PAY) != (pending is not None):
        raise SplendorError("phase pay and `pending` go together")
    if pending is not None:
        _read_purchase(game, rules, pending, payment)
    elif _gems("payment", payment, _totals(rules)):
        raise SplendorError(f"payment: {payment!r} without a purchase in `pending`")


def _read_purchase(game: np.record, rules: Rules, pending: str, payment: Mapping[str, int]) -> None:
    if rules.payment != Payment.CHOICE:
        raise SplendorError("phase pay: only with payment by choice")
    if pending not in ACTION_NAMES[BUY:RETURN]:
        raise SplendorError(f"pending: {pending!r} is not a purchase such as 'buy 1-4'")
    game.pending = ACTION_NAMES.index(pending)
    card = card_bought(game, game.pending)
    seat = game.player
    game.payment = _gems("payment", payment, unpack(game.tokens[seat]))
    if card < 0:
        raise SplendorError(f"pending: there is no card for {pending!r}")
    cheapest = cheapest_payment(CARD_COST[card], game.bonuses[seat], game.tokens[seat])
    paid, least = unpack(game.payment), unpack(cheapest)
    if sum(paid) != sum(least) or any(a > b for a, b in zip(paid[:GOLD], least, strict=False)):
        raise SplendorError(f"payment: does not pay for {pending!r}, cheapest is {least}")


def _totals(rules: Rules) -> list[int]:
    """Tokens of each kind in the game."""
    return [COLORED_TOKENS[rules.num_players]] * NUM_COLORS + [rules.gold_tokens]


def _gems(place: str, counts: Mapping[str, int], most: Sequence[int]) -> np.uint64:
    limits = dict(zip(_LETTERS, most, strict=False))
    _check_keys(place, counts, tuple(limits))
    return pack([_integer(counts, letter, 0, 0, int(top)) for letter, top in limits.items()])


def _check_keys(place: str, entry: object, allowed: Sequence[str]) -> None:
    if not isinstance(entry, Mapping):
        raise SplendorError(f"{place}: a dictionary of {', '.join(allowed)}, not {entry!r}")
    for key in entry:
        if key not in allowed:
            raise SplendorError(f"{place}: unknown key {key!r}; keys are {', '.join(allowed)}")


def _sequence(key: str, value: object) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise SplendorError(f"{key} must be a list, not {value!r}")
    return value


def _integer(entry: Mapping[str, Any], key: str, default: int, low: int, high: int) -> int:
    value = entry.get(key, default)
    is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_integer or not low <= value <= high:
        raise SplendorError(f"{key} must be an integer {low} to {high}, not {value!r}")
    return int(value)


def _choice(entry: Mapping[str, Any], key: str, kind: type[Phase] | type[EndReason]) -> str:
    value = entry.get(key, kind(0).name.lower())
    names = [member.name.lower() for member in kind]
    if value not in names:
        raise SplendorError(f"{key} must be one of {', '.join(names)}, not {value!r}")
    return value.upper()
