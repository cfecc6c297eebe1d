"""A slow, obvious engine for Splendor: the oracle of the differential test.

It is written from the rules text and the two tables alone and shares no code with the package it
checks. Headings of the rules text are quoted where a rule is applied. Everything is a dict, a list
or a string, and every legality question is answered by listing all legal moves.

Moves are strings, numbers in them count from one, colours come in the order W U G R K:
``take W U G``, ``take R R``, ``reserve 2-3`` (level 2, slot 3), ``reserve deck 1``, ``buy 1-4``,
``buy reserved 2``, ``pay gold for R``, ``done``, ``return gold``, ``noble 2``, ``pass``.
"""

import csv
from collections.abc import Mapping
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

COLOURS = ["W", "U", "G", "R", "K"]
TOKENS = [*COLOURS, "gold"]
COLUMNS = {"W": "white", "U": "blue", "G": "green", "R": "red", "K": "black"}
COLOURED_TOKENS = {2: 4, 3: 5, 4: 7}  # "Setup": per colour, by player count
DATA_FOLDER = Path(__file__).parents[1] / "splendor_env" / "data"


class Card(NamedTuple):
    """A development card: one row of cards.csv."""

    level: int
    bonus: str
    points: int
    cost: dict[str, int]


class Tables(NamedTuple):
    """The two tables: cards and noble requirements, both in row order."""

    cards: list[Card]
    nobles: list[dict[str, int]]


@cache
def load_tables(folder: Path = DATA_FOLDER) -> Tables:
    """Read cards.csv and nobles.csv; a card's or noble's number is its row.

    The points column of nobles.csv is not read: ``noble_points`` of the rules decides.
    """
    letters = {name: letter for letter, name in COLUMNS.items()}
    with (folder / "cards.csv").open(newline="", encoding="utf-8") as file:
        cards = [
            Card(int(row["level"]), letters[row["bonus"]], int(row["points"]), _colours_of(row))
            for row in csv.DictReader(file)
        ]
    with (folder / "nobles.csv").open(newline="", encoding="utf-8") as file:
        nobles = [_colours_of(row) for row in csv.DictReader(file)]
    return Tables(cards, nobles)


def _colours_of(row: Mapping[str, str]) -> dict[str, int]:
    """Return the five colour columns of a table row, keyed by letter."""
    return {colour: int(row[COLUMNS[colour]]) for colour in COLOURS}


def no_tokens() -> dict[str, int]:
    """Return a count of zero for each kind of token."""
    return dict.fromkeys(TOKENS, 0)


def payment(
    cost: Mapping[str, int], bonuses: Mapping[str, int], tokens: Mapping[str, int]
) -> dict[str, int] | None:
    """Return the cheapest payment, or None if the price cannot be paid.

    "A turn", 4: bonuses are a discount per colour, never below zero; the rest is paid in tokens,
    coloured ones first, gold for what is missing.
    """
    paid = no_tokens()
    for colour in COLOURS:
        price = max(0, cost.get(colour, 0) - bonuses.get(colour, 0))
        paid[colour] = min(price, tokens.get(colour, 0))
        paid["gold"] += price - paid[colour]
    return paid if paid["gold"] <= tokens.get("gold", 0) else None


def swaps(pledge: Mapping[str, int], gold_held: int, first: int) -> list[str]:
    """Return the colours that one more gold may stand in for.

    "Payment by choice": legal while the pledge still holds a token of that colour and gold is
    left, in ascending order only, so no colour before the last one swapped (index ``first``).
    """
    if pledge["gold"] >= gold_held:
        return []
    return [colour for colour in COLOURS[first:] if pledge[colour] > 0]


class ReferenceGame:
    """One game, seen by somebody who knows everything but the order of the decks.

    Attributes:
        bank: Tokens in the bank.
        tokens: Tokens by seat.
        bonuses: Bonuses from bought cards, by seat.
        points: Points from cards and nobles, by seat.
        num_cards: Bought cards, by seat.
        market: Three rows of four cards; None is a slot that stays empty.
        decks: The undrawn cards by level.
        reserved: Cards in hand by seat, oldest first.
        reserved_blind: Whether each card in hand came from a deck; parallel to ``reserved``.
        nobles: Nobles by slot, as dealt.
        noble_owner: The seat that holds the noble of each slot, or None.
        player: The seat to act; at the end the seat that acted last.
        phase: ``PLAY``, ``PAY``, ``RETURN`` or ``NOBLE``.
        round: The round under way, from one; at the end the round in which it ended.
        passes: Passes in a row without a change.
        pending: The buy that is being paid for, or None.
        payment: The tokens pledged for it.
        end_reason: None, ``target``, ``stalemate`` or ``round_limit``.
    """

    def __init__(
        self,
        rules: Mapping[str, int | str],
        market: list[list[int]],
        decks: list[set[int]],
        nobles: list[int],
    ) -> None:
        """Start a game whose cards and nobles are dealt already ("Setup")."""
        self.rules = dict(rules)
        self.tables = load_tables(DATA_FOLDER)
        self.num_players = self._rule("num_players")
        seats = range(self.num_players)
        self.bank = dict.fromkeys(COLOURS, COLOURED_TOKENS[self.num_players])
        self.bank["gold"] = self._rule("gold_tokens")
        self.tokens = [no_tokens() for _ in seats]
        self.bonuses = [dict.fromkeys(COLOURS, 0) for _ in seats]
        self.points = [0 for _ in seats]
        self.num_cards = [0 for _ in seats]
        self.market: list[list[int | None]] = [list(row) for row in market]
        self.decks = [set(deck) for deck in decks]
        self.reserved: list[list[int]] = [[] for _ in seats]
        self.reserved_blind: list[list[bool]] = [[] for _ in seats]
        self.nobles = list(nobles)
        self.noble_owner: list[int | None] = [None for _ in nobles]
        self.player = 0
        self.phase = "PLAY"
        self.round = 1
        self.passes = 0
        self.pending: str | None = None
        self.payment = no_tokens()
        self.first_swap = 0  # index of the first colour that may still be swapped for gold
        self.end_reason: str | None = None

    def _rule(self, name: str) -> int:
        """Return a rule that is a number."""
        return int(self.rules[name])

    # Legal moves

    def legal(self) -> set[str]:
        """Return all moves that are legal now; none when the game is over."""
        if self.end_reason is not None:
            return set()
        held = self.tokens[self.player]
        if self.phase == "PAY":
            options = swaps(self.payment, held["gold"], self.first_swap)
            return {"done"} | {f"pay gold for {colour}" for colour in options}
        if self.phase == "RETURN":  # "Rulings": any tokens held, gold included
            return {f"return {kind}" for kind in TOKENS if held[kind] > 0}
        if self.phase == "NOBLE":
            return {f"noble {slot + 1}" for slot in self._qualifying()}
        actions = self._takes() | self._reserves() | self._buys()
        return actions or {"pass"}  # "Rulings": a pass is legal only when nothing else is

    def _takes(self) -> set[str]:
        """Return the takes ("A turn", 1 and 2; ``take_fewer``, ``take_two_minimum``)."""
        piles = [colour for colour in COLOURS if self.bank[colour] > 0]
        sizes = {
            "ALWAYS": [1, 2, 3],
            "WHEN_SHORT": [min(3, len(piles))],
            "NEVER": [3],
        }[str(self.rules["take_fewer"])]
        moves = {
            "take " + " ".join(chosen)
            for size in sizes
            if size > 0
            for chosen in combinations(piles, size)
        }
        for colour in COLOURS:
            if self.bank[colour] >= self._rule("take_two_minimum"):
                moves.add(f"take {colour} {colour}")
        return moves

    def _reserves(self) -> set[str]:
        """Return the reservations ("A turn", 3); an empty gold pile forbids none."""
        if len(self.reserved[self.player]) >= self._rule("reserve_limit"):
            return set()
        moves = {f"reserve {place}" for place, _ in self._face_up()}
        for level in (1, 2, 3):
            if self.decks[level - 1]:
                moves.add(f"reserve deck {level}")
        return moves

    def _buys(self) -> set[str]:
        """Return the affordable purchases, face-up cards and own reserved ones ("A turn", 4)."""
        places = self._face_up()
        for index, card in enumerate(self.reserved[self.player]):
            places.append((f"reserved {index + 1}", card))
        return {f"buy {place}" for place, card in places if self._cheapest(card) is not None}

    def _face_up(self) -> list[tuple[str, int]]:
        """Return the place, such as ``2-3``, and the number of each face-up card."""
        return [
            (f"{level}-{slot}", card)
            for level, row in enumerate(self.market, start=1)
            for slot, card in enumerate(row, start=1)
            if card is not None
        ]

    def _cheapest(self, card: int) -> dict[str, int] | None:
        """Return what the seat to act would pledge for a card, or None if it is too dear."""
        cost = self.tables.cards[card].cost
        return payment(cost, self.bonuses[self.player], self.tokens[self.player])

    def _qualifying(self) -> list[int]:
        """Return the slots of unclaimed nobles that the seat's bonuses reach ("at least")."""
        bonuses = self.bonuses[self.player]
        return [
            slot
            for slot, noble in enumerate(self.nobles)
            if self.noble_owner[slot] is None
            and all(bonuses[c] >= self.tables.nobles[noble][c] for c in COLOURS)
        ]

    # What a move does

    def apply(self, move: str, draw: int | None = None) -> None:
        """Play a move; ``draw`` is the card that a refill or a blind reserve reveals.

        Nothing has changed when an error is raised.

        Raises:
            ValueError: The move is not legal.
            AssertionError: A draw is missing, not in that deck, or not called for.
        """
        if move not in self.legal():
            raise ValueError(f"{move!r} is not legal; legal are {sorted(self.legal())}")
        level = self.draw_level(move)
        if level is None:
            assert draw is None, f"{move!r} reveals no card, but {draw} was given"
        else:
            assert draw in self.decks[level - 1], f"{move!r}: {draw} not in deck {level}"
        if self.phase == "PLAY":
            self.passes = self.passes + 1 if move == "pass" else 0
        words = move.split()
        if words[0] == "take":
            for colour in words[1:]:
                self._pay_out(colour)
            self._check_limit()
        elif words[0] == "reserve":
            self._reserve(words, draw)
        elif words[0] in ("buy", "pay", "done"):
            self._pledge(move, draw)
        elif words[0] == "return":
            self._pay_in(words[1], 1)
            self._check_limit()
        elif words[0] == "noble":
            self._gain_noble(int(words[1]) - 1)
            self._end_turn()
        else:
            self._check_limit()  # "Rulings": after a pass the end-of-turn steps still happen

    def draw_level(self, move: str) -> int | None:
        """Return the level of the deck from which a legal move reveals a card, or None.

        A slot refills at once after a reservation and only after the payment of a purchase; a
        slot whose deck is empty stays empty.
        """
        words = move.split()
        if words[0] == "reserve":
            place = words[-1]
        elif words[0] in ("buy", "pay", "done"):
            buy, pledge, first = self._pledge_after(move)
            if move != "done" and self._has_choice(pledge, first):
                return None
            place = buy.split()[1]
        else:
            return None
        if place == "reserved":
            return None
        level = int(place[0])
        return level if self.decks[level - 1] else None

    def _reserve(self, words: list[str], draw: int | None) -> None:
        """Reserve a face-up card or a deck's top card; one gold if there is any."""
        blind = words[1] == "deck"
        if blind:
            assert draw is not None
            self.decks[int(words[2]) - 1].remove(draw)
            card = draw
        else:
            card = self._take_from_market(words[1], draw)
        self.reserved[self.player].append(card)
        self.reserved_blind[self.player].append(blind)
        if self.bank["gold"] > 0:
            self._pay_out("gold")
        self._check_limit()

    def _pledge_after(self, move: str) -> tuple[str, dict[str, int], int]:
        """Return the purchase, the pledge and the first swappable colour after a paying move."""
        if self.pending is None:
            pledge = self._cheapest(self._card_at(move))
            assert pledge is not None
            return move, pledge, 0
        pledge = dict(self.payment)
        if move == "done":
            return self.pending, pledge, self.first_swap
        colour = move.split()[-1]
        pledge[colour] -= 1
        pledge["gold"] += 1
        return self.pending, pledge, COLOURS.index(colour)

    def _has_choice(self, pledge: Mapping[str, int], first: int) -> bool:
        """Tell whether a pledge may still be changed (``payment``)."""
        gold_held = self.tokens[self.player]["gold"]
        return self.rules["payment"] == "CHOICE" and bool(swaps(pledge, gold_held, first))

    def _pledge(self, move: str, draw: int | None) -> None:
        """Start or go on with a payment ("Payment by choice"); nothing moves before it ends."""
        buy, pledge, first = self._pledge_after(move)
        if move != "done" and self._has_choice(pledge, first):
            self.phase, self.pending, self.payment, self.first_swap = "PAY", buy, pledge, first
            return
        self.phase, self.pending, self.payment, self.first_swap = "PLAY", None, no_tokens(), 0
        for kind in TOKENS:
            self._pay_in(kind, pledge[kind])
        card = self._card_at(buy)
        bought = self.tables.cards[card]
        self.bonuses[self.player][bought.bonus] += 1
        self.points[self.player] += bought.points
        self.num_cards[self.player] += 1
        words = buy.split()
        if words[1] == "reserved":
            index = int(words[2]) - 1
            del self.reserved[self.player][index]
            del self.reserved_blind[self.player][index]
        else:
            self._take_from_market(words[1], draw)
        self._check_limit()

    def _card_at(self, buy: str) -> int:
        """Return the card that a buy is about."""
        words = buy.split()
        if words[1] == "reserved":
            return self.reserved[self.player][int(words[2]) - 1]
        return dict(self._face_up())[words[1]]

    def _take_from_market(self, place: str, draw: int | None) -> int:
        """Take the face-up card at a place; the slot gets ``draw`` or stays empty."""
        level, slot = (int(number) - 1 for number in place.split("-"))
        card = self.market[level][slot]
        assert card is not None
        self.market[level][slot] = draw
        if draw is not None:
            self.decks[level].remove(draw)
        return card

    def _pay_out(self, kind: str) -> None:
        """Move one token from the bank to the seat."""
        self.bank[kind] -= 1
        self.tokens[self.player][kind] += 1

    def _pay_in(self, kind: str, count: int) -> None:
        """Move tokens from the seat to the bank."""
        self.tokens[self.player][kind] -= count
        self.bank[kind] += count

    # "End of the turn, in this order"

    def _check_limit(self) -> None:
        """Step 1: above the limit one token after the other is returned; then step 2."""
        if sum(self.tokens[self.player].values()) > self._rule("token_limit"):
            self.phase = "RETURN"
            return
        slots = self._qualifying()
        if len(slots) > 1:  # step 2: among several the player chooses exactly one
            self.phase = "NOBLE"
            return
        if slots:
            self._gain_noble(slots[0])
        self._end_turn()

    def _gain_noble(self, slot: int) -> None:
        """Give a noble to the seat; even on a pass that is a change."""
        self.noble_owner[slot] = self.player
        self.points[self.player] += self._rule("noble_points")
        self.passes = 0

    def _end_turn(self) -> None:
        """Step 3, and the "Rulings" on two ends at once: target, stalemate, round limit.

        Points never fall, so at the end of a round it is enough to look for a seat that has
        the target now.
        """
        self.phase = "PLAY"
        last_of_round = self.player == self.num_players - 1
        if last_of_round and max(self.points) >= self._rule("target_points"):
            self.end_reason = "target"
        elif self.passes >= self.num_players:
            self.end_reason = "stalemate"
        elif last_of_round and self.round >= self._rule("max_rounds"):
            self.end_reason = "round_limit"
        else:
            self.player = (self.player + 1) % self.num_players
            self.round += 1 if last_of_round else 0

    # "Result"

    def winners(self) -> list[int]:
        """Return the winning seats; none while the game runs or when it was truncated.

        Most points win, then fewer bought cards; seats that are still tied share the victory.
        """
        if self.end_reason not in ("target", "stalemate"):
            return []
        ranks = [(p, -n) for p, n in zip(self.points, self.num_cards, strict=True)]
        return [seat for seat, rank in enumerate(ranks) if rank == max(ranks)]

    def returns(self) -> list[float]:
        """Return the rewards (N s - 1) / (N - 1), s being a seat's share of the victory."""
        winners, seats = self.winners(), self.num_players
        if not winners:
            return [0.0] * seats
        shares = [1 / len(winners) if seat in winners else 0.0 for seat in range(seats)]
        return [(seats * share - 1) / (seats - 1) for share in shares]
