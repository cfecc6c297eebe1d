"""Games between agents: any seating, every seat in turn, nobody able to peek.

A deal depends on the seed and its own number alone: all who play the same numbers meet the same
deals. All games that wait for the same agent are answered in one call. Slow agents can play in
several processes, and the games can go to a file, from which an interrupted match goes on.
"""

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from splendor_env.agents import Agent, make_agent
from splendor_env.agents.registry import failure_of
from splendor_env.core.actions import NUM_ACTIONS
from splendor_env.core.batch import (
    deal_numbered,
    determinize_games,
    hash_seeds,
    illegal_action_message,
    step_games,
    write_action_masks,
    write_victory_shares,
)
from splendor_env.core.random import CHOICE_STREAM, HIDDEN_STREAM, check_seed, hash_seed
from splendor_env.core.state import (
    GAME,
    MAX_PLAYERS,
    EndReason,
    Rules,
    SplendorError,
    check_rules,
)
from splendor_env.record import (
    RecordError,
    append_records,
    cut_torn_end,
    read_records,
    record_game,
    verify,
)

GAME_RESULT = np.dtype(
    [
        ("deal", np.int64),  # number of the deal
        ("agents", np.int16, MAX_PLAYERS),  # index of the agent by seat, or -1
        ("share", np.float64, MAX_PLAYERS),  # of the victory, by seat
        ("points", np.int8, MAX_PLAYERS),  # prestige, by seat
        ("num_cards", np.int8, MAX_PLAYERS),  # bought, by seat
        ("nobles", np.int8, MAX_PLAYERS),  # won, by seat
        ("rounds", np.int16),  # begun
        ("end_reason", np.int8),  # EndReason; RUNNING where forfeited
        ("offender", np.int8),  # seat that has forfeited, or -1
        ("has_failed", np.bool_),  # forfeited without any action, else by an illegal one
        ("decisions", np.int32, MAX_PLAYERS),  # asked for, by seat
        ("seconds", np.float64, MAX_PLAYERS),  # spent on them, by seat
    ]
)
"""One game as a row of a table. Unused seats hold zero, or -1 in `agents`.

The share of k winners is 1/k each; 1/N where truncated. A seat that forfeits has 0, the others
share. The time of a call of `act` is split evenly among its games.
"""

MAX_GAMES = 1_000_000
"""All games of a match lie in memory at once."""

_MAX_GAMES_AT_ONCE = 1024
_CHUNKS_PER_JOB = 8

Progress = Callable[[int, int], None]
"""Called with the games finished and the games in all."""


class Seating(NamedTuple):
    """Who sits where in G games of N seats."""

    seats: np.ndarray
    """(G, N) int16, index of the agent in each seat; seat 0 moves first."""
    deal: np.ndarray
    """(G,) int64, number of the deal."""


class Games(NamedTuple):
    """G finished games."""

    results: np.ndarray
    """(G,) GAME_RESULT."""
    deals: np.ndarray
    """(G,) GAME, as dealt."""
    actions: list[np.ndarray]
    """Of each game (T,) int8, the legal ones."""
    notes: dict[int, str]
    """What went wrong in the forfeited games, by index."""


def one_against_rest(rules: Rules, num_games: int) -> Seating:
    """Seat agent 0 once in every seat of each deal, agent 1 in all others.

    Args:
        rules: Says how many play.
        num_games: At least this many, up to a million; rounded up to a multiple of the players.

    Raises:
        SplendorError: Not such a number.
    """
    num_players = rules.num_players
    num_deals = _num_deals(num_players, num_games)
    rotations = 1 - np.eye(num_players, dtype=np.int16)
    return Seating(np.tile(rotations, (num_deals, 1)), np.repeat(np.arange(num_deals), num_players))


def mixed_tables(num_agents: int, rules: Rules, num_games: int, seed: int) -> Seating:
    """Seat N different agents at each deal, drawn at random, in all N rotations.

    The numbers of deals that two agents play differ by one at most. More games begin with the same
    tables.

    Args:
        num_agents: Agents to draw from.
        rules: Says how many play.
        num_games: As for `one_against_rest`.
        seed: Of the draw, 64 bits.

    Raises:
        SplendorError: Fewer agents than seats, or not such a number.
    """
    num_players = rules.num_players
    if num_agents < num_players:
        raise SplendorError(
            f"a mixed table of {num_players} needs as many different agents, not {num_agents}"
        )
    num_deals = _num_deals(num_players, num_games)
    generator = np.random.default_rng(int(check_seed(seed)))
    num_played = np.zeros(num_agents, np.int64)
    rotations = (np.arange(num_players)[:, None] + np.arange(num_players)) % num_players
    seats = np.empty((num_deals, num_players, num_players), np.int16)
    for deal in range(num_deals):
        fewest_first = np.lexsort((generator.random(num_agents), num_played))
        table = generator.permutation(fewest_first[:num_players])
        num_played[table] += 1
        seats[deal] = table[rotations]
    return Seating(seats.reshape(-1, num_players), np.repeat(np.arange(num_deals), num_players))


def _num_deals(num_players: int, num_games: object) -> int:
    is_integer = isinstance(num_games, int | np.integer) and not isinstance(num_games, bool)
    if not is_integer or not 1 <= num_games <= MAX_GAMES:  # type: ignore[operator]
        raise SplendorError(f"games must be an integer 1 to {MAX_GAMES}, not {num_games!r}")
    return -(-int(num_games) // num_players)  # type: ignore[call-overload]


def play_games(
    agents: Sequence[Agent],
    seating: Seating,
    rules: Rules,
    seed: int = 0,
    *,
    games_at_once: int = _MAX_GAMES_AT_ONCE,
    progress: Progress | None = None,
) -> Games:
    """Play every game of a seating in this process.

    Args:
        agents: They get copies of the games in which all that the mover cannot see is drawn anew,
            and a `game_id` for each pair of game and seat, so that the copies of one agent in one
            game do not share what they know.
        seating: Who plays which deal.
        rules: The variant, the same for all games.
        seed: 64 bits. Equal seeds give equal deals.
        games_at_once: Games under way, hence the most that one `act` is asked about. The results
            do not depend on it as long as the agents' choices do not.
        progress: Called whenever games have finished.

    Raises:
        SplendorError: An argument is out of range, or an agent does not answer with B integers.
    """
    rules = check_rules(rules)
    seating = _check_seating(seating, len(agents), rules)
    if games_at_once < 1:
        raise SplendorError(f"games_at_once must be at least 1, not {games_at_once}")
    play = _Play(agents, seating, rules, check_seed(seed), np.arange(len(seating.deal)))
    return play.run(games_at_once, progress)


def _check_seating(seating: Seating, num_agents: int, rules: Rules) -> Seating:
    seats, deal = np.asarray(seating.seats), np.asarray(seating.deal)
    if not 1 <= len(deal) <= MAX_GAMES:
        raise SplendorError(f"a seating must have 1 to {MAX_GAMES} games, not {len(deal)}")
    are_integers = seats.dtype.kind in "iu" and deal.dtype.kind in "iu"
    if not are_integers or seats.shape != (len(deal), rules.num_players) or deal.ndim != 1:
        raise SplendorError(
            f"a seating of {rules.num_players} players must be (G, {rules.num_players}) integers "
            f"and (G,) integers, not {seats.dtype} {seats.shape} and {deal.dtype} {deal.shape}"
        )
    if seats.min() < 0 or seats.max() >= num_agents or deal.min() < 0:
        raise SplendorError(f"seats must hold 0 to {num_agents - 1}, and deals count from 0")
    return Seating(seats.astype(np.int16), deal.astype(np.int64))


class _Play:
    """Some games of a match, from their deals to their ends; a game is known by its `number`."""

    def __init__(
        self,
        agents: Sequence[Agent],
        seating: Seating,
        rules: Rules,
        seed: np.uint64,
        number: np.ndarray,
    ) -> None:
        num_games = len(number)
        deal = seating.deal[number]
        self.agents = agents
        self.rules = rules
        self.number = number
        self.seats = seating.seats[number]
        self.deals = np.zeros(num_games, GAME)
        deal_numbered(self.deals, rules, seed, deal)
        self.games = self.deals.copy()
        self.is_over = np.zeros(num_games, np.bool_)
        self.num_decisions = np.zeros(num_games, np.int64)
        # By deal, not by game: in every seat the same agent meets the same imagined cards.
        self.hidden_seed = np.empty(num_games, np.uint64)
        hash_seeds(np.full(num_games, seed), HIDDEN_STREAM, deal, self.hidden_seed)
        self.results = np.zeros(num_games, GAME_RESULT)
        self.results["deal"] = deal
        self.results["agents"] = -1
        self.results["agents"][:, : rules.num_players] = self.seats
        self.results["offender"] = -1
        self.notes: dict[int, str] = {}
        self._rows_acted: list[np.ndarray] = []  # of each call of `act`
        self._actions: list[np.ndarray] = []

    def run(self, games_at_once: int, progress: Progress | None) -> Games:
        """Play every game to its end, at most `games_at_once` at a time."""
        num_games = len(self.games)
        under_way = np.arange(min(games_at_once, num_games))
        num_started = len(under_way)
        while len(under_way):
            for agent in range(len(self.agents)):
                self._act(agent, under_way[self._agent_to_move(under_way) == agent])
            is_over = self.is_over[under_way]
            if not is_over.any():
                continue
            self._finish(under_way[is_over])
            num_next = min(int(is_over.sum()), num_games - num_started)
            next_games = np.arange(num_started, num_started + num_next)
            under_way = np.concatenate((under_way[~is_over], next_games))
            num_started += num_next
            if progress is not None:
                progress(num_started - len(under_way), num_games)
        notes = dict(sorted(self.notes.items()))
        return Games(self.results, self.deals, self._actions_by_game(), notes)

    def _agent_to_move(self, rows: np.ndarray) -> np.ndarray:
        """Who decides in these games; -1 where the game is over."""
        agent = self.seats[rows, self.games["player"][rows]]
        return np.where(self.is_over[rows], -1, agent)

    def _act(self, agent: int, rows: np.ndarray) -> None:
        """Let one agent decide once in each of these games."""
        if len(rows) == 0:
            return
        games = self.games[rows]
        player = games["player"].copy()
        actions = self._ask(agent, rows, games)
        mask = np.empty((len(rows), NUM_ACTIONS), np.int8)
        write_action_masks(games, self.rules, mask)
        in_range = (actions >= 0) & (actions < NUM_ACTIONS)
        is_legal = in_range & (mask[np.arange(len(rows)), np.where(in_range, actions, 0)] == 1)
        step_games(games, np.where(is_legal, actions, -1).astype(np.int32), self.rules, -1)
        self.games[rows] = games
        self.is_over[rows] = ~is_legal | (games["end_reason"] != EndReason.RUNNING)
        self.num_decisions[rows] += 1
        self.results["decisions"][rows, player] += 1
        self._rows_acted.append(rows[is_legal].astype(np.int32))
        self._actions.append(actions[is_legal].astype(np.int8))
        for index in np.flatnonzero(~is_legal):
            row, seat = rows[index], player[index]
            self.results["offender"][row] = seat
            self._note(agent, row, seat, int(actions[index]), mask[index])

    def _ask(self, agent: int, rows: np.ndarray, games: np.ndarray) -> np.ndarray:
        """The agent's actions (B,) for copies of the games without the mover's unknowns."""
        shown = games.copy()
        player = games["player"].copy()
        seeds = np.empty(len(rows), np.uint64)
        hash_seeds(self.hidden_seed[rows], HIDDEN_STREAM, self.num_decisions[rows], seeds)
        determinize_games(shown, self.rules, player, seeds)
        asked = self.agents[agent]
        start = time.perf_counter()
        actions = np.asarray(asked.act(shown, self.rules, self._game_id(rows, player)))
        seconds = time.perf_counter() - start
        if actions.shape != rows.shape or actions.dtype.kind not in "iu":
            raise SplendorError(
                f"agent {asked.name!r} must answer with {len(rows)} integers, "
                f"not with {actions.dtype} of shape {actions.shape}"
            )
        self.results["seconds"][rows, player] += seconds / len(rows)
        return actions.astype(np.int64)

    def _game_id(self, rows: Any, seats: Any) -> Any:
        """A number for each pair of game and seat."""
        return self.number[rows] * self.rules.num_players + seats

    def _note(self, agent: int, row: int, seat: int, action: int, mask: np.ndarray) -> None:
        """Keep why a game is forfeited."""
        failure = failure_of(self.agents[agent], int(self._game_id(row, seat)), action)
        self.results["has_failed"][row] = failure is not None
        note = illegal_action_message(action, mask) if failure is None else failure
        self.notes[int(self.number[row])] = note

    def _finish(self, rows: np.ndarray) -> None:
        """Note the outcome of these games and tell it to those agents that want to know."""
        results = self.results[rows]
        _write_outcomes(self.games[rows], self.rules, results)
        self.results[rows] = results
        tells = [getattr(agent, "end_games", None) for agent in self.agents]
        if not any(tells):
            return
        ends = [_describe_end(result, self.rules.num_players) for result in results]
        for agent, tell in enumerate(tells):
            of_agent, seats = np.nonzero(self.seats[rows] == agent)
            if tell is not None and len(seats):
                tell(self._game_id(rows[of_agent], seats), [ends[index] for index in of_agent])

    def _actions_by_game(self) -> list[np.ndarray]:
        rows, actions = np.concatenate(self._rows_acted), np.concatenate(self._actions)
        by_game = actions[np.argsort(rows, kind="stable")]
        num_actions = np.bincount(rows, minlength=len(self.games))
        return np.split(by_game, np.cumsum(num_actions)[:-1])


def _write_outcomes(games: np.ndarray, rules: Rules, results: np.ndarray) -> None:
    """Write what the last positions of games (B,) say into `results`, whose offenders are known."""
    num_players = rules.num_players
    share = np.zeros((len(games), num_players))
    write_victory_shares(games, rules, share)
    is_forfeited = results["offender"] >= 0
    share[is_forfeited] = 1 / (num_players - 1)
    share[is_forfeited, results["offender"][is_forfeited]] = 0
    results["share"][:, :num_players] = share
    for field in ("points", "num_cards", "rounds", "end_reason"):
        results[field] = games[field]
    owner = games["noble_owner"]
    results["nobles"] = (owner[:, :, None] == np.arange(MAX_PLAYERS)).sum(1)


def _describe_end(result: np.void, num_players: int) -> dict[str, Any]:
    """What `Agent.end_games` is told."""
    is_forfeited = result["offender"] >= 0
    end_reason = EndReason(result["end_reason"])
    has_winner = is_forfeited or end_reason != EndReason.ROUND_LIMIT
    return {
        "end_reason": "forfeit" if is_forfeited else end_reason.name.lower(),
        "rounds": int(result["rounds"]),
        "points": result["points"][:num_players].tolist(),
        "winners": np.flatnonzero(result["share"]).tolist() if has_winner else [],
    }


# In processes.


def play_specs_games(
    specs: Sequence[str],
    seating: Seating,
    rules: Rules,
    seed: int = 0,
    *,
    jobs: int = 1,
    progress: Progress | None = None,
) -> Games:
    """`play_games` between newly made agents, in several processes.

    The games do not depend on `jobs` where an agent's choice depends on the position alone. Agents
    with random numbers of their own (`random`, `mcts`) draw others in each process; equal `jobs`
    give equal games with them too.

    Args:
        specs: Of the agents; each process makes them once. An engine runs in each process.
        seating: As for `play_games`, like the rest.
        rules: The variant.
        seed: Of the deals and of the agents.
        jobs: Processes. With more than one a script that calls this needs the usual
            `if __name__ == "__main__":`, since each begins by importing it.
        progress: Called whenever games have finished.

    Raises:
        SplendorError: As `play_games` and `make_agent` do, also from within a process; or a process
            has died.
    """
    rules = check_rules(rules)
    seating = _check_seating(seating, len(specs), rules)
    match = _Match(tuple(specs), seating, rules, check_seed(seed))
    parts = list(match.play(np.arange(len(seating.deal)), jobs, progress))
    return _in_order(parts)


_Parts = Generator[tuple[np.ndarray, Games], None, None]
"""The games of a match as they come, with the numbers of each part."""


class _Match(NamedTuple):
    """What defines a match; a worker gets all of it."""

    specs: tuple[str, ...]
    seating: Seating
    rules: Rules
    seed: np.uint64

    def play(self, numbers: np.ndarray, jobs: int, progress: Progress | None) -> _Parts:
        """Play the games with these numbers; yield them in parts, with the numbers of each."""
        if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1:
            raise SplendorError(f"jobs must be an integer of at least 1, not {jobs!r}")
        chunks = _chunks(self.seating.deal, numbers, jobs)
        tell = progress or (lambda done, total: None)
        if jobs > 1:
            return _play_in_processes(self, chunks, jobs, tell)
        return _play_here(self, chunks, tell)

    def make_agents(self, worker: int) -> list[Agent]:
        """The agents, with seeds of their own in each process."""
        first = worker * len(self.specs)
        return [
            make_agent(spec, int(hash_seed(self.seed, CHOICE_STREAM, first + index)) >> 32)
            for index, spec in enumerate(self.specs)
        ]

    def play_chunk(self, agents: Sequence[Agent], numbers: np.ndarray, progress: Progress) -> Games:
        """Play the games with these numbers in this process."""
        play = _Play(agents, self.seating, self.rules, self.seed, numbers)
        return play.run(_MAX_GAMES_AT_ONCE, progress)


def _chunks(deal: np.ndarray, numbers: np.ndarray, jobs: int) -> list[np.ndarray]:
    """The numbers in pieces of whole deals: many, so that little is lost when one breaks off."""
    deals, index = np.unique(deal[numbers], return_inverse=True)
    per_job = max(_CHUNKS_PER_JOB, -(-len(numbers) // (_MAX_GAMES_AT_ONCE * jobs)))
    num_chunks = min(jobs * per_job, len(deals))
    chunk = index * num_chunks // len(deals)
    by_chunk = numbers[np.argsort(chunk, kind="stable")]
    return np.split(by_chunk, np.cumsum(np.bincount(chunk))[:-1])


def _in_order(parts: Sequence[tuple[np.ndarray, Games]]) -> Games:
    """All parts of a match as one."""
    order = np.argsort(np.concatenate([numbers for numbers, _ in parts]))
    actions = [one for _, games in parts for one in games.actions]
    notes = {number: note for _, games in parts for number, note in games.notes.items()}
    return Games(
        np.concatenate([games.results for _, games in parts])[order],
        np.concatenate([games.deals for _, games in parts])[order],
        [actions[index] for index in order],
        dict(sorted(notes.items())),
    )


def _play_here(match: _Match, chunks: list[np.ndarray], progress: Progress) -> _Parts:
    agents = match.make_agents(0)
    num_games = sum(map(len, chunks))
    num_done = 0
    for numbers in chunks:
        yield (
            numbers,
            match.play_chunk(
                agents, numbers, lambda done, _, before=num_done: progress(before + done, num_games)
            ),
        )
        num_done += len(numbers)


def _play_in_processes(
    match: _Match, chunks: list[np.ndarray], jobs: int, progress: Progress
) -> _Parts:
    """Each process has its chunks from the beginning, so that equal seeds give equal games."""
    context = multiprocessing.get_context("spawn")
    num_games = sum(map(len, chunks))
    num_done: dict[Connection, int] = {}
    num_to_do: dict[Connection, int] = {}
    processes: dict[Connection, BaseProcess] = {}
    try:
        for worker in range(min(jobs, len(chunks))):
            receiver, sender = context.Pipe(duplex=False)
            own_chunks = chunks[worker::jobs]
            process = context.Process(target=_work, args=(sender, match, worker, own_chunks))
            with _interrupt_held_back():
                process.start()
                processes[receiver] = process
            sender.close()
            num_done[receiver] = 0
            num_to_do[receiver] = sum(map(len, own_chunks))
        running = dict(processes)
        while running:
            for receiver in cast(list[Connection], wait(list(running))):
                try:
                    message = receiver.recv()
                except (EOFError, OSError):  # at the end of a message, or within one
                    process = running.pop(receiver)
                    process.join()
                    if num_done[receiver] < num_to_do[receiver]:
                        raise SplendorError(
                            f"a process that plays games has ended with code {process.exitcode}"
                        ) from None
                    continue
                if isinstance(message, SplendorError):
                    raise message
                if isinstance(message, int):
                    num_done[receiver] = message
                    progress(sum(num_done.values()), num_games)
                else:
                    yield message
    finally:
        for process in processes.values():
            process.terminate()
        for process in processes.values():
            process.join()


def _work(sender: Connection, match: _Match, worker: int, chunks: list[np.ndarray]) -> None:
    """Play the chunks in a process of their own: numbers with games, counts and errors are sent."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    num_done = 0
    try:
        agents = match.make_agents(worker)
        for numbers in chunks:
            games = match.play_chunk(
                agents, numbers, lambda done, _, before=num_done: sender.send(before + done)
            )
            sender.send((numbers, games))
            num_done += len(numbers)
    except SplendorError as error:
        sender.send(error)


def _end_with_parent() -> None:
    """A parent that is killed cannot end its workers."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextlib.contextmanager
def _interrupt_held_back() -> Iterator[None]:
    """What is started here never sees Ctrl-C; this process sees it afterwards, and ends the other.

    Not on Windows, where the other one may print a traceback too.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# In files.


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
    same call goes on. A seating that begins with that of the file adds games to it.

    Args:
        specs: As for `play_specs_games`, like the rest.
        seating: Who plays which deal.
        rules: The variant.
        seed: Of the deals and of the agents.
        path: Of the records, see docs/records.md; gzip where the name ends in `.gz`. What only the
            arena knows is in `about`: `seed`, `game` (its number), `deal`, and by seat `decisions`
            and `seconds`.
        jobs: Processes.
        progress: Called with games that the file has included.

    Returns:
        (G,) GAME_RESULT.

    Raises:
        SplendorError: As `play_specs_games`; or the file cannot be read or written, or has games of
            another match.
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
    rules = check_rules(rules)
    seating = _check_seating(seating, len(specs), rules)
    match = _Match(tuple(specs), seating, rules, check_seed(seed))
    results, is_played, notes = _read_match(match, path)
    numbers = np.flatnonzero(~is_played)
    if len(numbers) == 0 or is_enough(results[: _num_in_a_row(is_played)]):
        return results[: _num_in_a_row(is_played)], notes
    tell = progress or (lambda done, total: None)
    num_kept = len(results) - len(numbers)
    parts = match.play(numbers, jobs, lambda done, _: tell(num_kept + done, len(results)))
    with contextlib.closing(parts):
        for part, games in parts:
            if path is not None:
                append_records(path, _records(match, part, games))
            results[part] = games.results
            is_played[part] = True
            notes |= games.notes
            if is_enough(results[: _num_in_a_row(is_played)]):
                break
    return results[: _num_in_a_row(is_played)], dict(sorted(notes.items()))


def _num_in_a_row(is_played: np.ndarray) -> int:
    """How many games are played before the first that is not."""
    return len(is_played) if is_played.all() else int(is_played.argmin())


def _read_match(
    match: _Match, path: str | os.PathLike[str] | None
) -> tuple[np.ndarray, np.ndarray, dict[int, str]]:
    """Results, whether each game has been played, and notes, from a file that may not exist."""
    num_games = len(match.seating.deal)
    results = np.zeros(num_games, GAME_RESULT)
    is_played = np.zeros(num_games, np.bool_)
    notes: dict[int, str] = {}
    if path is None or not Path(path).exists() or Path(path).stat().st_size == 0:
        return results, is_played, notes
    first = next(read_records(path, allow_torn=True), None)
    if first is None:
        raise SplendorError(f"{path} has no whole record: choose another file, or remove it")
    _number_in(match, first, path)  # before anything is cut off a file of somebody else
    cut_torn_end(path)
    for record in read_records(path):
        number = _number_in(match, record, path)
        if is_played[number]:
            raise SplendorError(f"{path} has game {number} twice")
        try:
            results[number] = _result_of(record, match.seating.seats[number])
        except RecordError as error:
            raise SplendorError(f"{path}, game {number}: {error}") from None
        is_played[number] = True
        if "forfeit" in record["result"]:
            notes[number] = record["result"]["forfeit"]["detail"]
    return results, is_played, notes


def _number_in(match: _Match, record: dict[str, Any], path: str | os.PathLike[str]) -> int:
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
    return number


def _records(match: _Match, numbers: np.ndarray, games: Games) -> Iterator[dict[str, Any]]:
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
