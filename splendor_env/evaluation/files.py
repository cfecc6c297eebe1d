"""Matches in files of records: kept, gone on with, and read back.

A file holds whole chunks of a match (see `workers`). What an interruption has left of a chunk is
played again, so that an interrupted match, or one that was made longer, is the same as one played
in one go.
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from splendor_env.agents.fingerprint import fingerprint
from splendor_env.core.state import EndReason, Rules, SplendorError
from splendor_env.evaluation.arena import GAME_RESULT, Games, Progress, Seating
from splendor_env.evaluation.workers import Match
from splendor_env.record import (
    RecordError,
    append_records,
    cut_torn_end,
    read_records,
    record_game,
    verify,
    write_records,
)


def play_to_file(
    specs: Sequence[str],
    seating: Seating,
    rules: Rules,
    seed: int,
    path: str | os.PathLike[str],
    *,
    jobs: int = 1,
    progress: Progress | None = None,
) -> np.ndarray:
    """Play like `play_specs_games` and add the records of the games to a file as they come.

    Games that the file already has are not played again: after an interruption, even by a kill, the
    same call goes on. A seating that begins with that of the file adds games to it. A chunk of
    which games are missing is taken out and played anew.

    Args:
        specs: As for `play_specs_games`, like the rest.
        seating: Who plays which deal.
        rules: The variant.
        seed: Of the deals and of the agents.
        path: Of the records, see docs/records.md; gzip where the name ends in `.gz`. What only the
            arena knows is in `about`: `seed`, `game` (its number), `deal`, and by seat `agents`
            (see `fingerprint`), `decisions` and `seconds`.
        jobs: Processes.
        progress: Called with games that the file has included.

    Returns:
        (G,) GAME_RESULT.

    Raises:
        SplendorError: As `play_specs_games`; or the file cannot be read or written, or has games of
            another match or of agents made from something else.
    """
    return play_and_keep(specs, seating, rules, seed, path, jobs=jobs, progress=progress)[0]


def play_and_keep(
    specs: Sequence[str],
    seating: Seating,
    rules: Rules,
    seed: int,
    path: str | os.PathLike[str] | None,
    *,
    jobs: int = 1,
    progress: Progress | None = None,
    is_enough: Callable[[np.ndarray], bool] = lambda results: False,
) -> tuple[np.ndarray, dict[int, str]]:
    """Play like `play_to_file`, or without a file, and maybe not to the end.

    Args:
        specs: As for `play_to_file`, like the rest.
        seating: Who plays which deal.
        rules: The variant.
        seed: Of the deals and of the agents.
        path: Of the records; None for none.
        jobs: Processes.
        progress: Called with games that the file has included.
        is_enough: Asked from time to time with the results (K,) of the first K games of the
            seating, whether these are enough.

    Returns:
        GAME_RESULT of these K or of all G games, and what went wrong in forfeited games, by number.

    Raises:
        SplendorError: As `play_to_file` does.
    """
    match = Match.of(specs, seating, rules, seed)
    if path is None:
        agents: list[str] = []
        results, is_played, notes = _nothing_played(match)
    else:
        agents = [fingerprint(spec) for spec in specs]
        results, is_played, notes = _read_match(match, agents, path)
    numbers = np.flatnonzero(~is_played)
    if len(numbers) == 0 or is_enough(results[: _num_in_a_row(is_played)]):
        return results[: _num_in_a_row(is_played)], notes
    tell = progress or (lambda done, total: None)
    num_kept = len(results) - len(numbers)
    parts = match.play(numbers, jobs, lambda done, _: tell(num_kept + done, len(results)))
    with contextlib.closing(parts):
        for part, games in parts:
            if path is not None:
                _check_same(match, agents)
                append_records(path, _records(match, agents, part, games))
            results[part] = games.results
            is_played[part] = True
            notes |= games.notes
            if is_enough(results[: _num_in_a_row(is_played)]):
                break
    return results[: _num_in_a_row(is_played)], dict(sorted(notes.items()))


def _check_same(match: Match, agents: Sequence[str]) -> None:
    """Each chunk has its agents made anew: refuse one with other agents than the file names."""
    for spec, agent in zip(match.specs, agents, strict=True):
        if fingerprint(spec) != agent:
            raise SplendorError(f"agent {spec!r} was changed while it played: use another file")


def _num_in_a_row(is_played: np.ndarray) -> int:
    """How many games are played before the first that is not."""
    return len(is_played) if is_played.all() else int(is_played.argmin())


def _nothing_played(match: Match) -> tuple[np.ndarray, np.ndarray, dict[int, str]]:
    """Results, whether each game has been played, and notes, before the first game."""
    num_games = len(match.seating.deal)
    return np.zeros(num_games, GAME_RESULT), np.zeros(num_games, np.bool_), {}


def _read_match(
    match: Match, agents: Sequence[str], path: str | os.PathLike[str]
) -> tuple[np.ndarray, np.ndarray, dict[int, str]]:
    """The same from a file that may not exist; what is no whole chunk is taken out of it."""
    results, is_played, notes = _nothing_played(match)
    if not Path(path).exists() or Path(path).stat().st_size == 0:
        return results, is_played, notes
    first = next(read_records(path, allow_torn=True), None)
    if first is None:
        raise SplendorError(f"{path} has no whole record: choose another file, or remove it")
    _number_in(match, agents, first, path)  # before anything is cut off a file of somebody else
    cut_torn_end(path)
    for record in read_records(path):
        number = _number_in(match, agents, record, path)
        if is_played[number]:
            raise SplendorError(f"{path} has game {number} twice")
        try:
            results[number] = _result_of(record, match.seating.seats[number])
        except RecordError as error:
            raise SplendorError(f"{path}, game {number}: {error}") from None
        is_played[number] = True
        if "forfeit" in record["result"]:
            notes[number] = record["result"]["forfeit"]["detail"]
    is_broken = is_played & np.isin(match.chunks, match.chunks[~is_played])
    if is_broken.any():
        whole = (one for one in read_records(path) if not is_broken[one["about"]["game"]])
        write_records(path, whole)
        results[is_broken] = 0
        is_played &= ~is_broken
        notes = {number: note for number, note in notes.items() if is_played[number]}
    return results, is_played, notes


def _number_in(
    match: Match, agents: Sequence[str], record: dict[str, Any], path: str | os.PathLike[str]
) -> int:
    """The number of a recorded game, which must be a game of this match."""
    about = _about(record)
    number: int = about["game"]
    if number >= len(match.seating.deal):
        raise SplendorError(
            f"{path} has game {number}, and this match only games 0 to "
            f"{len(match.seating.deal) - 1}: choose another file, or play more"
        )
    expected = {
        "seats": [match.specs[agent] for agent in match.seating.seats[number]],
        "rules": match.rules._asdict(),
        "seed": int(match.seed),
        "deal": int(match.seating.deal[number]),
    }
    found = {"seed": about["seed"], "deal": about["deal"]} | {
        key: record[key] for key in ("seats", "rules")
    }
    for key, value in expected.items():
        if found[key] != value:
            raise SplendorError(
                f"{path} has another match: {key} of game {number} is {found[key]}, "
                f"in this match {value}"
            )
    made_from = [agents[agent] for agent in match.seating.seats[number]]
    noted = about.get("agents")
    if not isinstance(noted, list) or len(noted) != len(made_from):
        noted = ["unknown"] * len(made_from)
    for seat, spec in enumerate(record["seats"]):
        if noted[seat] != made_from[seat]:
            raise SplendorError(
                f"{path} has games of another {spec!r}: seat {seat} of game {number} was made from "
                f"{noted[seat]!r}, now it is {made_from[seat]!r}; choose another file"
            )
    return number


def _records(
    match: Match, agents: Sequence[str], numbers: np.ndarray, games: Games
) -> Iterator[dict[str, Any]]:
    num_players = match.rules.num_players
    for index, number in enumerate(numbers.tolist()):
        result = games.results[index]
        forfeit = None
        if result["offender"] >= 0:
            reason = "failed" if result["has_failed"] else "illegal"
            seat = int(result["offender"])
            forfeit = {"seat": seat, "reason": reason, "detail": games.notes[number]}
        yield record_game(
            games.deals[index : index + 1],
            games.actions[index],
            match.rules,
            [match.specs[agent] for agent in match.seating.seats[number]],
            forfeit=forfeit,
            about={
                "seed": int(match.seed),
                "game": number,
                "deal": int(result["deal"]),
                "agents": [agents[agent] for agent in match.seating.seats[number]],
                "decisions": result["decisions"][:num_players].tolist(),
                "seconds": result["seconds"][:num_players].tolist(),
            },
        )


def results_of(records: Iterable[dict[str, Any]], specs: Sequence[str]) -> np.ndarray:
    """The table of results recomputed from records of the arena, each of which is verified.

    Args:
        records: As `play_to_file` has written them; of several matches too.
        specs: By whose indices `agents` tells the agents; no two of them equal.

    Returns:
        (G,) GAME_RESULT in the order of the records.

    Raises:
        SplendorError: Two equal specs, a record that does not verify or is not of the arena, or an
            agent that is not one of `specs`.
    """
    if len(set(specs)) < len(specs):
        raise SplendorError(f"specs must differ, else a record fits several: {', '.join(specs)}")
    index = {spec: agent for agent, spec in enumerate(specs)}
    results = []
    for record in records:
        unknown = [spec for spec in record["seats"] if spec not in index]
        if unknown:
            raise SplendorError(f"a record has agent {unknown[0]!r}, not one of {', '.join(specs)}")
        results.append(_result_of(record, [index[spec] for spec in record["seats"]]))
    return np.concatenate(results) if results else np.zeros(0, GAME_RESULT)


def _result_of(record: dict[str, Any], agents: Sequence[int] | np.ndarray) -> np.ndarray:
    """(1,) GAME_RESULT of a record by the given agents."""
    verify(record)
    about, result = _about(record), record["result"]
    forfeit = result.get("forfeit", {"seat": -1, "reason": None})
    row = np.zeros(1, GAME_RESULT)
    row["deal"] = about["deal"]
    row["agents"] = -1
    by_seat = {
        "agents": agents,
        "share": result["share"],
        "points": result["points"],
        "num_cards": result["cards"],
        "nobles": result["nobles"],
        "decisions": about["decisions"],
        "seconds": about["seconds"],
    }
    for field, values in by_seat.items():
        row[field][0, : len(agents)] = values
    row["rounds"] = result["rounds"]
    row["end_reason"] = 0 if forfeit["reason"] else EndReason[result["end_reason"].upper()]
    row["offender"] = forfeit["seat"]
    row["has_failed"] = forfeit["reason"] == "failed"
    return row


def _about(record: dict[str, Any]) -> dict[str, Any]:
    """What the arena has noted of a game."""
    about = record.get("about", {})
    are_numbers = (
        _is_number(about.get("seed"), int, 2**64)
        and _is_number(about.get("game"), int, 2**63)
        and _is_number(about.get("deal"), int, 2**63)
        and _are_numbers(about.get("decisions"), len(record["seats"]), int, 2**31)
        and _are_numbers(about.get("seconds"), len(record["seats"]), int | float, 1e12)
    )
    if not are_numbers:
        raise SplendorError(f"not a record of the arena: about is {about!r:.200}")
    return about


def _is_number(value: Any, kind: Any, limit: float) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool) and 0 <= value < limit


def _are_numbers(values: Any, length: int, kind: Any, limit: float) -> bool:
    is_list = isinstance(values, list) and len(values) == length
    return is_list and all(_is_number(value, kind, limit) for value in values)
