"""Records of games: one JSON object a line, with every decision and every card that was drawn.

A record replays without a seed, since the deal and all draws stand in it, and says after each turn
which position was reached, so that `verify` finds the first place where it and the rules disagree.
`redact` takes out what a seat could not know. docs/records.md describes the format.
"""

import gzip
import json
import os
import reprlib
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn

import numpy as np

from splendor_env.core.actions import (
    ACTION_NAMES,
    BUY,
    BUY_RESERVED,
    NUM_ACTIONS,
    PASS,
    RESERVE,
    RESERVE_DECK,
    RETURN,
)
from splendor_env.core.batch import (
    deal_games,
    determinize_games,
    hash_positions,
    illegal_action_message,
    observe_games,
    write_action_masks,
    write_victory_shares,
)
from splendor_env.core.cards import (
    CARD_LEVEL,
    CARD_NAMES,
    LEVEL_SIZE,
    LEVEL_START,
    NOBLE_NAMES,
    NUM_CARDS,
    NUM_LEVELS,
)
from splendor_env.core.observation import OBSERVATION_SIZE
from splendor_env.core.replay import FROM_SEED, NO_DRAW, replay_game
from splendor_env.core.state import (
    GAME,
    MARKET_SLOTS,
    EndReason,
    Rules,
    SplendorError,
    check_rules,
)
from splendor_env.game import Game

RECORD_VERSION = 1
"""Rises when a field changes its meaning, and when `Game.position_hash` or `determinize` does."""

MAX_LINE_BYTES = 8 << 20
"""Longest line that is read; the longest game that the rules allow takes 5 MB."""

_MAX_DEPTH = 32
"""Deepest nesting of `about`."""
_MAX_DETAIL = 1000
"""Characters kept of what is said about a forfeit."""
_PUBLIC_ABOUT = ("game", "deal")
"""What a redacted record keeps of `about`, where it is an integer."""

_FIELDS = ("record", "rules", "seats", "deal", "turns", "result")
_RESULT_FIELDS = ("end_reason", "rounds", "points", "cards", "nobles", "share", "winners")
_FORFEIT_FIELDS = ("seat", "reason", "detail")
_FORFEIT_REASONS = ("illegal", "failed")
_END_REASONS = ("target", "stalemate", "round_limit", "forfeit")
_PLACES = [
    f"{level}-{slot}" for level in range(1, NUM_LEVELS + 1) for slot in range(1, MARKET_SLOTS + 1)
]
_DRAWS, _SHOWS, _UNNAMED = " draws ", " shows ", "?"
_ACTION = {name: action for action, name in enumerate(ACTION_NAMES)}
_CARD = {name: card for card, name in enumerate(CARD_NAMES)}
_NOBLE = {name: noble for noble, name in enumerate(NOBLE_NAMES)}
_HASH_DIGITS = 16
_ALL_KNOWN = np.zeros(NUM_CARDS, np.bool_)
_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


class RecordError(SplendorError):
    """A record that cannot be: the message names the first place where it goes wrong."""


# Making a record.


def record_game(
    deal: np.ndarray,
    actions: np.ndarray | Sequence[int],
    rules: Rules,
    seats: Sequence[str],
    *,
    draws: np.ndarray | Sequence[int] | None = None,
    forfeit: dict[str, Any] | None = None,
    about: dict[str, Any] | None = None,
    unfinished: bool = False,
) -> dict[str, Any]:
    """The record of a game, found by playing it once more.

    Args:
        deal: (1,) GAME as dealt.
        actions: (T,) integers, all decisions up to the end of the game, or up to a forfeit; so far,
            if the game is unfinished.
        rules: The variant.
        seats: Who played, by seat.
        draws: (T,) integers, the card that each decision turned up, or -1; None where the seed of
            the deal has decided it.
        forfeit: {"seat", "reason", "detail"} of a game that the seat to move has forfeited, by an
            "illegal" action or because it "failed" to choose any; of `detail` 1,000 characters are
            kept.
        about: Anything that JSON can hold, up to 32 deep; kept as it is.
        unfinished: The game goes on, and its `result` is None.

    Raises:
        RecordError: An action is illegal, an argument does not fit, or the game is not over where
            it should be, or the other way round.
    """
    rules = check_rules(rules)
    seats = seats if isinstance(seats, str) else list(seats)  # a text is no list of names
    _check_seats(seats, rules)
    if np.shape(deal) != (1,):
        raise RecordError(f"deal: one game (1,), not an array of shape {np.shape(deal)}")
    actions = _integers("actions", actions, NUM_ACTIONS)
    if draws is None:
        draws = np.full(len(actions), FROM_SEED, np.int8)
    else:
        draws = _integers("draws", draws, NUM_CARDS).astype(np.int8)
        if len(draws) != len(actions):
            raise RecordError(f"{len(draws)} draws for {len(actions)} actions")
    positions = np.zeros(len(actions) + 1, GAME)
    positions[0] = deal[0]
    _check_is_deal(positions[:1], rules)
    num_made, is_illegal = replay_game(positions, actions, draws, rules, _ALL_KNOWN)
    if num_made < len(actions):
        name = ACTION_NAMES[actions[num_made]]
        message = f"{name!r} cannot turn up what `draws` says"
        if is_illegal:
            message = _illegal_message(positions[num_made], actions[num_made], rules)
        raise RecordError(f"decision {num_made + 1}: {message}")
    if forfeit is not None:
        _check_fields("forfeit", forfeit, _FORFEIT_FIELDS)
        _check_integer("forfeit.seat", forfeit["seat"], 0, rules.num_players - 1)
        forfeit = {
            "seat": forfeit["seat"],
            "reason": forfeit["reason"],
            "detail": str(forfeit["detail"])[:_MAX_DETAIL],
        }
    if unfinished:
        _check_goes_on(positions, forfeit)
    else:
        _check_end(positions, rules, forfeit)
    record = {
        "record": RECORD_VERSION,
        "rules": rules._asdict(),
        "seats": seats,
        "deal": _describe_deal(positions),
        "turns": _turns(positions, actions, draws, rules),
        "result": None if unfinished else _result(positions, rules, forfeit),
    }
    if about is None:
        return record
    _check_about(about, is_redacted=False)
    return record | {"about": dict(about)}


def _integers(name: str, values: np.ndarray | Sequence[int], bound: int) -> np.ndarray:
    """The values as (T,) int32, -1 for those below 0 or not below `bound`."""
    array = np.asarray(values)
    if array.size == 0:
        return np.zeros(0, np.int32)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise RecordError(f"{name}: integers (T,), not {array.dtype} of shape {array.shape}")
    return np.where((array < 0) | (array >= bound), -1, array).astype(np.int32)


def _check_is_deal(games: np.ndarray, rules: Rules) -> None:
    """Refuse a position that is not the beginning of a game."""
    game = games[0]
    market, nobles = game.market.ravel().tolist(), game.nobles.tolist()[: rules.num_nobles]
    found, expected = np.empty(1, np.uint64), np.empty(1, np.uint64)
    hash_positions(games, found)
    hash_positions(_set_up_deal(rules, nobles, market), expected)
    if -1 in nobles or -1 in market or found != expected:
        raise RecordError("`deal` is not the beginning of a game by these rules")


def _set_up_deal(rules: Rules, nobles: Sequence[int], market: Sequence[int]) -> np.ndarray:
    """The beginning of a game (1,) GAME, its decks in ascending order and its seed 0."""
    games = np.zeros(1, GAME)
    deal_games(games, rules, np.uint64(0))
    game = games[0]
    game.seed = 0  # not the one of any deal
    game.nobles[: len(nobles)] = nobles
    game.market[:] = np.reshape(market, game.market.shape)
    dealt = set(market)
    for level in range(NUM_LEVELS):
        start = int(LEVEL_START[level])
        deck = [card for card in range(start, start + int(LEVEL_SIZE[level])) if card not in dealt]
        game.deck[level, : len(deck)] = deck
    return games


def _describe_deal(games: np.ndarray) -> dict[str, Any]:
    """The nobles by slot and the market by place of the first of some positions."""
    nobles = games["nobles"][0].tolist()
    market = games["market"][0].ravel().tolist()
    return {
        "nobles": [NOBLE_NAMES[noble] for noble in nobles if noble >= 0],
        "market": {place: CARD_NAMES[card] for place, card in zip(_PLACES, market, strict=True)},
    }


def _turns(
    positions: np.ndarray, actions: np.ndarray, draws: np.ndarray, rules: Rules
) -> list[list[Any]]:
    """[seat, decision, ..., hash] for each turn."""
    hashes = _hashes(positions, rules, None)
    turns: list[list[Any]] = []
    turn: list[Any] = []
    is_last = _is_last_of_turn(positions)
    columns = (positions["player"], actions, draws, hashes, is_last)
    for seat, action, draw, bits, ends in zip(*(c.tolist() for c in columns), strict=False):
        if not turn:
            turn.append(seat)
        name = ACTION_NAMES[action]
        turn.append(name if draw < 0 else f"{name}{_DRAWS}{CARD_NAMES[draw]}")
        if ends:
            turn.append(f"{bits:016x}")
            turns.append(turn)
            turn = []
    return turns


def _hashes(positions: np.ndarray, rules: Rules, viewer: int | None) -> np.ndarray:
    """(T,) uint64 of the positions after each decision, or of what a viewer sees of them."""
    after = positions[1:]
    if viewer is not None:
        after = after.copy()
        observers = np.full(len(after), viewer, np.int8)
        # A function of what the viewer sees: any other hidden cards would give the same.
        determinize_games(after, rules, observers, np.zeros(len(after), np.uint64))
    hashes = np.empty(len(after), np.uint64)
    hash_positions(after, hashes)
    return hashes


def _is_last_of_turn(positions: np.ndarray) -> np.ndarray:
    """(T,) bool, whether each decision ends a turn; the last does in any case."""
    seat = positions["player"]
    is_last = seat[1:] != seat[:-1]
    is_last[-1:] = True
    return is_last


def _result(
    positions: np.ndarray, rules: Rules, forfeit: Mapping[str, Any] | None
) -> dict[str, Any]:
    final = positions[-1]
    num_players = rules.num_players
    end_reason = EndReason(final.end_reason).name.lower()
    if forfeit is None:
        shares = np.empty((1, num_players))
        write_victory_shares(positions[-1:], rules, shares)
        share = shares[0].tolist()
        has_winner = final.end_reason != EndReason.ROUND_LIMIT
    else:
        end_reason, has_winner = "forfeit", True
        share = [1 / (num_players - 1)] * num_players
        share[forfeit["seat"]] = 0.0
    owners = final.noble_owner.tolist()
    result = {
        "end_reason": end_reason,
        "rounds": int(final.rounds),
        "points": final.points[:num_players].tolist(),
        "cards": final.num_cards[:num_players].tolist(),
        "nobles": [owners.count(seat) for seat in range(num_players)],
        "share": share,
        "winners": [seat for seat in range(num_players) if has_winner and share[seat] > 0],
    }
    return result if forfeit is None else result | {"forfeit": dict(forfeit)}


def _check_goes_on(positions: np.ndarray, forfeit: Mapping[str, Any] | None) -> None:
    """Refuse an unfinished game that has an end."""
    reason = EndReason(positions[-1].end_reason)
    if forfeit is not None or reason != EndReason.RUNNING:
        name = reason.name.lower() if forfeit is None else "forfeit"
        raise RecordError(f"the game is over ({name}), and so not unfinished")


def _check_end(positions: np.ndarray, rules: Rules, forfeit: Mapping[str, Any] | None) -> None:
    """Refuse a game that goes on, and a forfeit that cannot be."""
    final = positions[-1]
    is_over = final.end_reason != EndReason.RUNNING
    if forfeit is None and not is_over:
        raise RecordError(f"the game goes on in round {final.rounds}: no end and no forfeit")
    if forfeit is None:
        return
    if forfeit["reason"] not in _FORFEIT_REASONS:
        raise RecordError(
            f"forfeit: reason must be one of {', '.join(_FORFEIT_REASONS)}, "
            f"not {_shown(forfeit['reason'])}"
        )
    if is_over:
        raise RecordError(f"forfeit: the game was over ({EndReason(final.end_reason).name})")
    if forfeit["seat"] != final.player:
        raise RecordError(f"forfeit: seat {forfeit['seat']}, but seat {final.player} was to move")


def _illegal_message(game: np.record, action: int, rules: Rules) -> str:
    mask = np.empty((1, NUM_ACTIONS), np.int8)
    write_action_masks(np.array([game], GAME), rules, mask)
    return illegal_action_message(int(action), mask[0])


# Files.


def write_records(path: str | os.PathLike[str], records: Iterable[Mapping[str, Any]]) -> None:
    """Write a new file, gzip where its name ends in `.gz`; an old one stays until this is whole.

    Raises:
        RecordError: A record is not JSON, or the file cannot be written.
    """
    path = Path(path)
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("wb") as raw:
            if path.suffix == ".gz":
                # No name and no time of writing: equal records make equal files.
                with gzip.GzipFile("", "wb", fileobj=raw, compresslevel=6, mtime=0) as packed:
                    packed.writelines(map(_line, records))
            else:
                raw.writelines(map(_line, records))
        partial.replace(path)
    except OSError as error:
        raise RecordError(f"cannot write {path}: {error}") from None
    finally:
        partial.unlink(missing_ok=True)


def append_records(path: str | os.PathLike[str], records: Iterable[Mapping[str, Any]]) -> None:
    """Add to the end of a file in one write, or begin it; what is there is not read.

    In a `.gz` each call adds a gzip member, so that many records a call take less space.

    Raises:
        RecordError: A record is not JSON, the file cannot be written, or its last line is torn
            (see `cut_torn_end`).
    """
    path = Path(path)
    text = b"".join(map(_line, records))
    if not text:
        return
    try:
        with path.open("ab+") as file:
            if path.suffix == ".gz":
                text = gzip.compress(text, 6, mtime=0)
            elif file.tell() > 0:
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    raise RecordError(f"{path}: the last line is torn")
            file.write(text)
    except OSError as error:
        raise RecordError(f"cannot write {path}: {error}") from None


def _line(record: Mapping[str, Any]) -> bytes:
    try:
        line = _ENCODER.encode(record).encode() + b"\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise RecordError(f"a record must be JSON: {error}") from None
    if len(line) > MAX_LINE_BYTES:
        raise RecordError(f"a record of {len(line)} bytes, the limit is {MAX_LINE_BYTES}")
    return line


def cut_torn_end(path: str | os.PathLike[str]) -> None:
    """Cut off what a killed `append_records` has left unfinished at the end of a file.

    That is a last line without a line feed, in a `.gz` a last member that is not whole.

    Raises:
        RecordError: The file cannot be read or written, or is no gzip file.
    """
    path = Path(path)
    size = 0
    try:
        with path.open("rb+") as file:
            if path.suffix == ".gz":
                size = max((whole for _, whole in _members(file)), default=0)
            else:
                offset = 0
                while chunk := file.read(_CHUNK):
                    if b"\n" in chunk:
                        size = offset + chunk.rindex(b"\n") + 1
                    offset += len(chunk)
            file.truncate(size)
    except (OSError, zlib.error) as error:
        raise RecordError(f"{path}: cannot be mended: {error}") from None


_CHUNK = 1 << 16


def _members(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """The text of gzip members, piece by piece, and the bytes of the members that are whole."""
    size, offset = 0, 0
    member = zlib.decompressobj(zlib.MAX_WBITS | 16)
    chunk = b""
    while chunk or (chunk := file.read(_CHUNK)):
        text = member.decompress(chunk, _CHUNK)
        rest = member.unused_data if member.eof else member.unconsumed_tail
        offset += len(chunk) - len(rest)
        if member.eof:
            size = offset
            member = zlib.decompressobj(zlib.MAX_WBITS | 16)
        chunk = rest
        yield text, size


def read_records(
    path: str | os.PathLike[str], *, allow_torn: bool = False, allow_unfinished: bool = False
) -> Iterator[dict[str, Any]]:
    """The records of a file, one after the other, each checked for everything but its replay.

    Args:
        path: Lines of JSON, gzip where the name ends in `.gz`.
        allow_torn: Leave out an unfinished last line, as a kill leaves it, instead of refusing it.
        allow_unfinished: Give records of games that go on too, whose `result` is None.

    Raises:
        RecordError: The file cannot be read, or a line is not a record; with the line's number.
    """
    for _, record, _ in _read(path, allow_torn, allow_unfinished):
        yield record


def _read(
    path: str | os.PathLike[str], allow_torn: bool = False, allow_unfinished: bool = False
) -> Iterator[tuple[str, dict[str, Any], "_Parsed"]]:
    """Where each record stands, the record, and what it says."""
    for number, line in _lines(Path(path), allow_torn):
        place = f"{path}, line {number}"
        try:
            record = _decode(line)
            parsed = _parse(record)
            if record["result"] is None and not allow_unfinished:
                raise RecordError("result: null, the game is unfinished")
        except RecordError as error:
            raise RecordError(f"{place}: {error}") from None
        yield place, record, parsed


def _lines(path: Path, allow_torn: bool) -> Iterator[tuple[int, bytes]]:
    """Number and text of each line that has an end; the beginning of one that is too long."""
    number, line, size = 1, b"", 0
    try:
        with path.open("rb") as file:
            for text, whole in _members(file) if path.suffix == ".gz" else _chunks(file):
                size = whole
                *lines, line = (line + text).split(b"\n")
                for entry in lines:
                    yield number, entry
                    number += 1
                if len(line) > MAX_LINE_BYTES:
                    yield number, line
                    return
            is_torn = bool(line) or size < file.tell()
    except (OSError, zlib.error) as error:
        raise RecordError(f"{path}, line {number}: cannot be read: {error}") from None
    if is_torn and not allow_torn:
        raise RecordError(f"{path}, line {number}: torn, the file ends within it")


def _chunks(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """The text of a file piece by piece, and the bytes so far."""
    while chunk := file.read(_CHUNK):
        yield chunk, file.tell()


def _decode(line: bytes) -> Any:
    if len(line) > MAX_LINE_BYTES:
        raise RecordError(f"longer than {MAX_LINE_BYTES} bytes")
    try:
        return json.loads(
            line.decode("utf-8"),
            parse_float=_finite,
            parse_constant=_no_constant,
            object_pairs_hook=_object,
        )
    except RecursionError:
        raise RecordError("nested too deeply") from None
    except ValueError as error:
        if isinstance(error, RecordError):
            raise
        raise RecordError(f"not JSON: {error}") from None


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise RecordError(f"number {text[:40]} is too large")
    return value


def _no_constant(text: str) -> NoReturn:
    raise RecordError(f"{text} is not JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise RecordError(f"field {_shown(key)} comes twice")
            seen.add(key)
    return result


# Reading a record.


class _Turn(NamedTuple):
    seat: int
    first: int  # decision with which it begins
    hash: str


class _Parsed(NamedTuple):
    """A record whose fields have the right types and names."""

    rules: Rules
    viewer: int | None
    deal: np.ndarray  # (1,) GAME
    actions: np.ndarray  # (T,) int32
    draws: np.ndarray  # (T,) int8, card or NO_DRAW
    unknown: np.ndarray  # (90,) bool, cards of `draws` that stand in for those never shown
    turns: list[_Turn]
    decision_turn: list[int]  # turn of each decision


def _parse(record: Any) -> _Parsed:
    _check_object("record", record)
    version = record.get("record")
    if type(version) is not int or version != RECORD_VERSION:
        raise RecordError(f"record: version {_shown(version)}, this reads {RECORD_VERSION}")
    _check_fields("record", record, _FIELDS, ("viewer", "about"))
    rules = _parse_rules(record["rules"])
    _check_seats(record["seats"], rules)
    viewer = record.get("viewer")
    if "viewer" in record:
        _check_integer("viewer", viewer, 0, rules.num_players - 1)
    if record["result"] is not None:
        _check_result(record["result"], rules, viewer is not None)
    if "about" in record:
        _check_about(record["about"], viewer is not None)
    deal = _parse_deal(record["deal"], rules)
    return _parse_turns(record["turns"], rules, viewer, deal)


def _parse_rules(value: Any) -> Rules:
    _check_fields("rules", value, Rules._fields)
    try:
        return check_rules(Rules(**value))
    except SplendorError as error:
        raise RecordError(str(error)) from None


def _check_seats(value: Any, rules: Rules) -> None:
    is_names = isinstance(value, list) and all(isinstance(name, str) for name in value)
    if not is_names or len(value) != rules.num_players:
        raise RecordError(f"seats: {rules.num_players} names, not {_shown(value)}")


def _parse_deal(value: Any, rules: Rules) -> np.ndarray:
    _check_fields("deal", value, ("nobles", "market"))
    _check_list("deal.nobles", value["nobles"], rules.num_nobles)
    nobles = [_look_up("deal.nobles", name, _NOBLE) for name in value["nobles"]]
    if len(set(nobles)) < len(nobles):
        raise RecordError(f"deal.nobles: one comes twice in {_shown(value['nobles'])}")
    _check_fields("deal.market", value["market"], _PLACES)
    market = [_look_up(f"deal.market {place}", value["market"][place], _CARD) for place in _PLACES]
    for place, card in zip(_PLACES, market, strict=True):
        if CARD_LEVEL[card] != int(place[0]) - 1:
            raise RecordError(f"deal.market {place}: {CARD_NAMES[card]} has another level")
        if market.count(card) > 1:
            raise RecordError(f"deal.market {place}: {CARD_NAMES[card]} comes twice")
    return _set_up_deal(rules, nobles, market)


def _parse_turns(value: Any, rules: Rules, viewer: int | None, deal: np.ndarray) -> _Parsed:
    if not isinstance(value, list):
        raise RecordError(f"turns: a list, not {_shown(value)}")
    turns: list[_Turn] = []
    decisions: list[_Decision] = []
    decision_turn: list[int] = []
    for index, turn in enumerate(value):
        try:
            seat, texts, digits = _parse_turn(turn, rules)
            turns.append(_Turn(seat, len(decisions), digits))
            for text in texts:
                decisions.append(_parse_decision(text))
                decision_turn.append(index)
        except RecordError as error:
            raise RecordError(f"turn {index + 1}: {error}") from None
    actions = [decision.action for decision in decisions]
    draws = [decision.draw for decision in decisions]
    unknown = _ALL_KNOWN
    if viewer is None:
        _check_nothing_is_hidden(decisions, decision_turn)
    else:
        _fill_in_shown(decisions, decision_turn, turns, viewer, draws)
        unknown = _fill_in_unknown(deal, actions, draws)
    return _Parsed(
        rules,
        viewer,
        deal,
        np.array(actions, np.int32),
        np.array(draws, np.int8),
        unknown,
        turns,
        decision_turn,
    )


def _parse_turn(turn: Any, rules: Rules) -> tuple[int, list[Any], str]:
    """Seat, decisions and hash."""
    if not isinstance(turn, list) or len(turn) < 3:
        raise RecordError(f"a list of seat, decisions and hash, not {_shown(turn)}")
    seat, *texts, digits = turn
    _check_integer("seat", seat, 0, rules.num_players - 1)
    is_text = isinstance(digits, str) and len(digits) == _HASH_DIGITS
    if not is_text or digits.strip("0123456789abcdef"):
        raise RecordError(f"hash: {_HASH_DIGITS} hex digits, not {_shown(digits)}")
    return seat, texts, digits


class _Decision(NamedTuple):
    action: int
    draw: int  # card, NO_DRAW or _HIDDEN
    shown: int  # card or -1


_HIDDEN = -2


def _parse_decision(text: Any) -> _Decision:
    if not isinstance(text, str):
        raise RecordError(f"a decision in notation, not {_shown(text)}")
    action = _ACTION.get(text)
    if action is not None:
        return _Decision(action, NO_DRAW, -1)
    word = _DRAWS if _DRAWS in text else _SHOWS
    name, _, card_name = text.partition(word)
    action = _ACTION.get(name)
    if action is None:
        raise RecordError(f"cannot read decision {_shown(text)}")
    if word == _DRAWS and card_name == _UNNAMED:
        return _Decision(action, _HIDDEN, -1)
    card = _look_up(repr(name), card_name, _CARD)
    return _Decision(action, card, -1) if word == _DRAWS else _Decision(action, NO_DRAW, card)


def _check_nothing_is_hidden(decisions: list[_Decision], decision_turn: list[int]) -> None:
    for index, (action, draw, shown) in enumerate(decisions):
        if draw == _HIDDEN or shown >= 0:
            raise RecordError(
                f"turn {decision_turn[index] + 1}: {ACTION_NAMES[action]!r} draws {_UNNAMED!r} or "
                "shows a card, as in redacted records only"
            )


def _fill_in_shown(
    decisions: list[_Decision],
    decision_turn: list[int],
    turns: list[_Turn],
    viewer: int,
    draws: list[int],
) -> None:
    """Write cards that are shown when they are bought into the draws that hid them."""
    hands: dict[int, list[int]] = {turn.seat: [] for turn in turns}  # decisions that reserved
    for index, (action, draw, shown) in enumerate(decisions):
        seat = turns[decision_turn[index]].seat
        place = f"turn {decision_turn[index] + 1}, seat {seat}: {ACTION_NAMES[action]!r}"
        is_hidden = RESERVE_DECK <= action < BUY and seat != viewer
        if is_hidden != (draw == _HIDDEN):
            need = "must draw" if is_hidden else "cannot draw"
            raise RecordError(f"{place} {need} {_UNNAMED!r} in what seat {viewer} saw")
        must_show = False
        if RESERVE <= action < BUY:
            hands[seat].append(index)
        elif BUY_RESERVED <= action < RETURN and action - BUY_RESERVED < len(hands[seat]):
            reserved = hands[seat].pop(action - BUY_RESERVED)
            must_show = decisions[reserved].draw == _HIDDEN
            if must_show and shown >= 0:
                draws[reserved] = shown
        if must_show != (shown >= 0):
            need = "must show" if must_show else "cannot show"
            raise RecordError(f"{place} {need} a card to seat {viewer}")


def _fill_in_unknown(deal: np.ndarray, actions: list[int], draws: list[int]) -> np.ndarray:
    """Put cards that come up nowhere in place of those never shown; returns them as (90,) bool."""
    unknown = np.zeros(NUM_CARDS, np.bool_)
    named = {*deal["market"].ravel().tolist(), *draws}
    left = [card for card in range(NUM_CARDS) if card not in named]
    for index, draw in enumerate(draws):
        if draw == _HIDDEN:
            level = actions[index] - RESERVE_DECK
            # If there is none, more cards are drawn than there are: the replay says where.
            card = next((card for card in left if CARD_LEVEL[card] == level), NO_DRAW)
            draws[index] = card
            if card >= 0:
                left.remove(card)
                unknown[card] = True
    return unknown


def _check_result(value: Any, rules: Rules, is_redacted: bool) -> None:
    """Types only; what the values must be follows from the replay."""
    _check_fields("result", value, _RESULT_FIELDS, ("forfeit",))
    if value["end_reason"] not in _END_REASONS:
        raise RecordError(
            f"result.end_reason: one of {', '.join(_END_REASONS)}, "
            f"not {_shown(value['end_reason'])}"
        )
    _check_integer("result.rounds", value["rounds"], 1, rules.max_rounds)
    for name in ("points", "cards", "nobles", "share"):
        _check_list(f"result.{name}", value[name], rules.num_players)
        for number in value[name]:
            kinds = (int, float) if name == "share" else (int,)
            if type(number) not in kinds:
                raise RecordError(f"result.{name}: numbers by seat, not {_shown(value[name])}")
    if not isinstance(value["winners"], list):
        raise RecordError(f"result.winners: a list of seats, not {_shown(value['winners'])}")
    for seat in value["winners"]:
        _check_integer("result.winners", seat, 0, rules.num_players - 1)
    is_forfeit = value["end_reason"] == "forfeit"
    if is_forfeit != ("forfeit" in value):
        raise RecordError('result: end_reason "forfeit" and field `forfeit` go together')
    if is_forfeit:
        forfeit = value["forfeit"]
        _check_fields("result.forfeit", forfeit, _FORFEIT_FIELDS)
        _check_integer("result.forfeit.seat", forfeit["seat"], 0, rules.num_players - 1)
        if forfeit["reason"] not in _FORFEIT_REASONS:
            raise RecordError(
                f"result.forfeit.reason: one of {', '.join(_FORFEIT_REASONS)}, "
                f"not {_shown(forfeit['reason'])}"
            )
        detail = forfeit["detail"]
        if detail is not None if is_redacted else not isinstance(detail, str):
            raise RecordError(
                f"result.forfeit.detail: {'null' if is_redacted else 'a text'}, "
                f"not {_shown(detail)}"
            )


def _check_about(value: Any, is_redacted: bool) -> None:
    _check_object("about", value)
    if is_redacted:
        _check_fields("about", value, (), _PUBLIC_ABOUT)
        for key, number in value.items():
            if type(number) is not int:
                raise RecordError(f"about.{key}: an integer, not {_shown(number)}")
    level = [value]
    for _ in range(_MAX_DEPTH):
        inner: list[Any] = []
        for entry in level:
            if isinstance(entry, dict):
                for key in entry:
                    if not isinstance(key, str):
                        raise RecordError(f"about: key {_shown(key)} is no text")
                inner.extend(entry.values())
            elif isinstance(entry, list):
                inner.extend(entry)
            elif isinstance(entry, float) and not isfinite(entry):
                raise RecordError(f"about: {entry} is not JSON")
            elif not (entry is None or isinstance(entry, str | int | float)):
                raise RecordError(f"about: {_shown(entry)} is not JSON")
        level = inner
        if not level:
            return
    raise RecordError(f"about: nested more than {_MAX_DEPTH} deep")


def _check_object(place: str, value: Any) -> None:
    if not isinstance(value, dict):
        raise RecordError(f"{place}: an object, not {_shown(value)}")


def _check_fields(
    place: str, value: Any, required: Sequence[str], optional: Sequence[str] = ()
) -> None:
    _check_object(place, value)
    for key in value:
        if key not in required and key not in optional:
            raise RecordError(
                f"{place}: unknown field {_shown(key)}; fields are "
                f"{', '.join((*required, *optional)) or 'none'}"
            )
    for key in required:
        if key not in value:
            raise RecordError(f"{place}: field {key!r} is missing")


def _check_list(place: str, value: Any, length: int) -> None:
    if not isinstance(value, list) or len(value) != length:
        raise RecordError(f"{place}: a list of {length}, not {_shown(value)}")


def _check_integer(place: str, value: Any, low: int, high: int) -> None:
    if type(value) is not int or not low <= value <= high:
        raise RecordError(f"{place}: an integer {low} to {high}, not {_shown(value)}")


def _look_up(place: str, name: Any, table: Mapping[str, int]) -> int:
    found = table.get(name) if isinstance(name, str) else None
    if found is None:
        kind = "noble" if table is _NOBLE else "card"
        raise RecordError(f"{place}: there is no {kind} {_shown(name)}")
    return found


def _shown(value: Any) -> str:
    """A value from outside, cut short, for a message."""
    try:
        return reprlib.repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits
        return f"a huge {type(value).__name__}"


# Checking a record against the rules.


def verify(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Replay a record and compare everything that it says.

    Returns:
        What could not be checked: nothing, unless the record is redacted.

    Raises:
        RecordError: A field is missing, unknown or of a wrong type, or the record and the rules
            disagree; the message names the first turn where they do, and both values.
    """
    parsed = _parse(record)
    positions = _checked_positions(record, parsed)
    if parsed.viewer is None:
        return ()
    unchecked = []
    num_unknown = int(parsed.unknown.sum())
    if num_unknown:
        unchecked.append(f"which reserved cards {num_unknown} are that were never shown")
    passes = np.flatnonzero(parsed.actions == PASS)
    mask = np.empty((len(passes), NUM_ACTIONS), np.int8)
    write_action_masks(positions[passes], parsed.rules, mask)
    for index in passes[mask[:, PASS] == 0]:
        turn = parsed.decision_turn[index]
        unchecked.append(
            f"turn {turn + 1}, seat {parsed.turns[turn].seat}: that it could not buy a hidden card "
            "when it passed"
        )
    if "forfeit" in (record["result"] or {}):
        unchecked.append("the reason of the forfeit")
    return tuple(unchecked)


def verify_file(path: str | os.PathLike[str]) -> Iterator[tuple[str, ...] | RecordError]:
    """Verify every line of a file, also after one that is wrong.

    Yields:
        For each line what `verify` returns, or the error, which names the line. Records of
        unfinished games are taken.

    Raises:
        RecordError: The file cannot be read any further, or its end is torn.
    """
    for number, line in _lines(Path(path), allow_torn=False):
        try:
            unchecked = verify(_decode(line))
        except RecordError as error:
            yield RecordError(f"{path}, line {number}: {error}")
        else:
            yield unchecked


def _checked_positions(record: Mapping[str, Any], parsed: _Parsed) -> np.ndarray:
    """(T + 1,) GAME, every position of a record that agrees with the rules."""
    actions, rules = parsed.actions, parsed.rules
    positions = np.zeros(len(actions) + 1, GAME)
    positions[0] = parsed.deal[0]
    draws = parsed.draws.copy()
    num_made, is_illegal = replay_game(positions, actions, draws, rules, parsed.unknown)
    faulty_turn = parsed.decision_turn[num_made] if num_made < len(actions) else len(parsed.turns)
    # What follows the first fault is no position, and must not be determinized.
    hashes = _hashes(positions[: num_made + 1], rules, parsed.viewer)
    seats = positions["player"].tolist()
    is_over = positions["end_reason"] != EndReason.RUNNING
    for index, turn in enumerate(parsed.turns[: faulty_turn + 1]):
        place = f"turn {index + 1}"
        if is_over[turn.first]:
            raise RecordError(f"{place}: recorded, but the game was over before it")
        if turn.seat != seats[turn.first]:
            raise RecordError(f"{place}: seat {turn.seat} recorded, seat {seats[turn.first]} moves")
        if index == faulty_turn:
            _raise_fault(parsed, positions, draws, num_made, is_illegal)
        is_last = index == len(parsed.turns) - 1
        end = len(actions) if is_last else parsed.turns[index + 1].first
        place = f"{place}, seat {turn.seat}"
        for decision in range(turn.first + 1, end):
            if seats[decision] != turn.seat:
                raise RecordError(
                    f"{place}: {ACTION_NAMES[actions[decision]]!r} recorded, but the turn is over"
                )
        if not is_last and not is_over[end] and seats[end] == turn.seat:
            raise RecordError(f"{place}: the turn is not over, but ends in the record")
        follows = f"{hashes[end - 1]:016x}"
        if turn.hash != follows:
            raise RecordError(f"{place}: hash {turn.hash} recorded, {follows} follows")
    _check_recorded_end(record["result"], positions, rules, len(parsed.turns))
    return positions


def _check_recorded_end(
    result: Mapping[str, Any] | None, positions: np.ndarray, rules: Rules, num_turns: int
) -> None:
    forfeit = None if result is None else result.get("forfeit")
    try:
        if result is None:
            _check_goes_on(positions, None)
        else:
            _check_end(positions, rules, forfeit)
    except RecordError as error:
        raise RecordError(f"result, after turn {num_turns}: {error}") from None
    if result is None:
        return
    for name, value in _result(positions, rules, forfeit).items():
        if result[name] != value:
            raise RecordError(f"result.{name}: {_shown(result[name])} recorded, {value} follows")


def _raise_fault(
    parsed: _Parsed, positions: np.ndarray, draws: np.ndarray, decision: int, is_illegal: bool
) -> NoReturn:
    """Say why the replay stops at `decision`."""
    turn = parsed.decision_turn[decision]
    place = f"turn {turn + 1}, seat {positions[decision].player}"
    action = parsed.actions[decision]
    if is_illegal:
        message = _illegal_message(positions[decision], action, parsed.rules)
        raise RecordError(f"{place}: {message}")
    recorded, drawn = parsed.draws[decision], draws[decision]
    said = "no card" if recorded < 0 else CARD_NAMES[recorded]
    follows = "none is drawn" if drawn < 0 else "that is not in the deck"
    if recorded < 0:
        follows = "one must be drawn"
    raise RecordError(
        f"{place}: {ACTION_NAMES[action]!r} draws {said} in the record, but {follows}"
    )


# What records are good for.


def actions_of(record: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What it takes to replay a game with `rules.step` or `replay_game`; not verified.

    Returns:
        The deal (1,) GAME, the actions (T,) int32, and the draws (T,) int8, -1 for none.

    Raises:
        RecordError: A field has a wrong type, or the record is redacted.
    """
    parsed = _parse(record)
    _check_is_whole(parsed)
    return parsed.deal, parsed.actions, parsed.draws


def _check_is_whole(parsed: _Parsed) -> None:
    if parsed.viewer is not None:
        raise RecordError(f"a record as seat {parsed.viewer} saw it does not say all draws")


class Replay(NamedTuple):
    """A verified game, position by position."""

    rules: Rules
    positions: np.ndarray  # (T + 1,) GAME
    actions: np.ndarray  # (T,) int32, action t leads from position t to t + 1
    draws: np.ndarray  # (T,) int8, card turned up by it, or -1
    turn: np.ndarray  # (T,) int32, from 0
    viewer: int | None  # seat of a redacted record: show no other seat's view

    def game(self, decision: int) -> Game:
        """The position before decision `decision` (T: the end) as a `Game` without history."""
        game = Game(self.rules, seed=0)
        game.games[:] = self.positions[decision]
        return game


def replay(record: Mapping[str, Any]) -> Replay:
    """Verify a record and give all its positions.

    In a redacted record cards that come up nowhere stand in for those that are never shown; seen
    by its viewer, the positions are what they were.

    Raises:
        RecordError: As `verify` does.
    """
    parsed = _parse(record)
    positions = _checked_positions(record, parsed)
    return Replay(
        parsed.rules,
        positions,
        parsed.actions,
        parsed.draws,
        np.array(parsed.decision_turn, np.int32),
        parsed.viewer,
    )


def redact(record: Mapping[str, Any], seat: int) -> dict[str, Any]:
    """The record as a seat that remembers everything knows the game.

    Removed are the cards that other seats drew from a deck into their hands, until they buy them,
    the text of a forfeit, which may list what its seat could have bought, and of `about` everything
    but the integers `game` and `deal`. The hashes, which would betray hidden cards, give way to
    those of what the seat sees.

    Raises:
        RecordError: The record is redacted already or does not verify, or there is no such seat.
    """
    parsed = _parse(record)
    _check_is_whole(parsed)
    _check_integer("seat", seat, 0, parsed.rules.num_players - 1)
    positions = _checked_positions(record, parsed)
    player = positions["player"].tolist()
    hidden: set[int] = set()
    turns: list[list[Any]] = [[turn.seat] for turn in parsed.turns]
    for index, (action, card) in enumerate(
        zip(parsed.actions.tolist(), parsed.draws.tolist(), strict=True)
    ):
        text = ACTION_NAMES[action]
        if RESERVE_DECK <= action < BUY and player[index] != seat:
            hidden.add(card)
            text += _DRAWS + _UNNAMED
        elif card >= 0:
            text += _DRAWS + CARD_NAMES[card]
        elif BUY_RESERVED <= action < RETURN:
            bought = int(positions["reserved"][index, player[index], action - BUY_RESERVED])
            if bought in hidden:
                text += _SHOWS + CARD_NAMES[bought]
        turns[parsed.decision_turn[index]].append(text)
    hashes = _hashes(positions, parsed.rules, seat)[_is_last_of_turn(positions)]
    for turn, bits in zip(turns, hashes.tolist(), strict=True):
        turn.append(f"{bits:016x}")
    result = record["result"]
    if result is not None:
        forfeit = result.get("forfeit")
        if forfeit is not None:
            forfeit = forfeit | {"detail": None}
        result = _result(positions, parsed.rules, forfeit)
    redacted = {
        "record": RECORD_VERSION,
        "viewer": seat,
        "rules": parsed.rules._asdict(),
        "seats": list(record["seats"]),
        "deal": _describe_deal(parsed.deal),
        "turns": turns,
        "result": result,
    }
    about = {
        key: value
        for key in _PUBLIC_ABOUT
        if type(value := record.get("about", {}).get(key)) is int
    }
    return redacted | {"about": about} if about else redacted


class Dataset(NamedTuple):
    """K decisions of recorded games, in order."""

    observation: np.ndarray  # (K, D) float32, what the mover saw
    action_mask: np.ndarray  # (K, A) int8, what it could do
    action: np.ndarray  # (K,) int32, what it did
    player: np.ndarray  # (K,) int8, its seat
    share: np.ndarray  # (K,) float32, its share of the victory at the end
    game: np.ndarray  # (K,) int32, number of the record among all that were read, from 0


def load_dataset(
    path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], rules: Rules | None = None
) -> Dataset:
    """Every decision of the games in one or several files, verified.

    It takes 3.1 KB a decision, and while it reads a little for each game.

    Args:
        path: One file of records, or several.
        rules: Leave out games by other rules than these; None takes all, of 2 to 4 players.

    Raises:
        RecordError: As `read_records` and `verify` do, with the line; or a record is redacted.
    """
    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    chosen: list[tuple[int, _Parsed, list[float]]] = []
    records = (entry for one in paths for entry in _read(one))
    for number, (place, record, parsed) in enumerate(records):
        if rules is None or parsed.rules == rules:
            try:
                _check_is_whole(parsed)
                _checked_positions(record, parsed)
            except RecordError as error:
                raise RecordError(f"{place}: {error}") from None
            # What is left of the record would take ten times as much.
            kept = parsed._replace(turns=[], decision_turn=[])
            chosen.append((number, kept, record["result"]["share"]))
    size = sum(len(parsed.actions) for _, parsed, _ in chosen)
    dataset = Dataset(
        np.empty((size, OBSERVATION_SIZE), np.float32),
        np.empty((size, NUM_ACTIONS), np.int8),
        np.empty(size, np.int32),
        np.empty(size, np.int8),
        np.empty(size, np.float32),
        np.empty(size, np.int32),
    )
    first = 0
    for number, parsed, share in chosen:
        num_decisions = len(parsed.actions)
        rows = slice(first, first + num_decisions)
        first += num_decisions
        positions = np.zeros(num_decisions + 1, GAME)
        positions[0] = parsed.deal[0]
        replay_game(positions, parsed.actions, parsed.draws, parsed.rules, parsed.unknown)
        player = positions["player"][:-1].copy()
        observe_games(positions[:-1], parsed.rules, player, dataset.observation[rows])
        write_action_masks(positions[:-1], parsed.rules, dataset.action_mask[rows])
        dataset.action[rows] = parsed.actions
        dataset.player[rows] = player
        dataset.share[rows] = np.array(share)[player]
        dataset.game[rows] = number
    return dataset
