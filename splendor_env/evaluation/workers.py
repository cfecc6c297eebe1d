"""Matches in pieces, played in this process or in several.

A piece is some whole deals, by their numbers alone, and its agents are made anew from the seed and
the first of its deals. So what happens in it depends neither on who plays it, nor on what was
played before it or is played after it.
"""

import contextlib
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Generator, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import NamedTuple, cast

import numpy as np

from splendor_env.agents import Agent, make_agent
from splendor_env.core.random import CHOICE_STREAM, check_seed, hash_seed, secret_key
from splendor_env.core.state import Rules, SplendorError, check_rules
from splendor_env.evaluation.arena import (
    MAX_GAMES_AT_ONCE,
    Games,
    Play,
    Progress,
    Seating,
    check_seating,
)

MAX_JOBS = 256
"""Processes of one match."""

_CHUNK_DEALS = (8, 256)
"""Fewest and most deals of a chunk."""
_PART_OF_MATCH = 8
"""Between these a chunk is about this part of the deals before it: chunks are small enough to share
out, and to lose one, and large enough for many games to be answered in one call."""

Parts = Generator[tuple[np.ndarray, Games], None, None]
"""The games of a match as they come, with the numbers of each part."""


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

    The games do not depend on `jobs`, unless agents differ that were made from one spec and seed.

    Args:
        specs: Of the agents, which are made anew for each chunk of deals. Only an engine plays on,
            as long as its process does.
        seating: As for `play_games`, like the rest.
        rules: The variant.
        seed: Of the deals and of the agents.
        jobs: Processes, 1 to `MAX_JOBS`. With more than one a script that calls this needs the
            usual `if __name__ == "__main__":`, since each begins by importing it.
        progress: Called whenever games have finished.

    Raises:
        SplendorError: As `play_games` and `make_agent` do, also from within a process; or a process
            has died.
    """
    match = Match.of(specs, seating, rules, seed)
    return _in_order(list(match.play(np.arange(len(match.seating.deal)), jobs, progress)))


class Match(NamedTuple):
    """What defines a match; a worker gets all of it."""

    specs: tuple[str, ...]
    seating: Seating
    rules: Rules
    seed: np.uint64

    @classmethod
    def of(cls, specs: Sequence[str], seating: Seating, rules: Rules, seed: int) -> "Match":
        """The match, if it is one.

        Raises:
            SplendorError: An argument is out of range.
        """
        rules = check_rules(rules)
        return cls(tuple(specs), check_seating(seating, len(specs), rules), rules, check_seed(seed))

    def play(self, numbers: np.ndarray, jobs: int, progress: Progress | None) -> Parts:
        """Play the games with these numbers, all those of each chunk; yield them by chunks."""
        if isinstance(jobs, bool) or not isinstance(jobs, int) or not 1 <= jobs <= MAX_JOBS:
            raise SplendorError(f"jobs must be an integer 1 to {MAX_JOBS}, not {jobs!r}")
        chunk = self.chunks[numbers]
        _, sizes = np.unique(chunk, return_counts=True)
        by_chunk = np.split(numbers[np.argsort(chunk, kind="stable")], np.cumsum(sizes)[:-1])
        tell = progress or (lambda done, total: None)
        if jobs > 1:
            return _play_in_processes(self, by_chunk, jobs, tell)
        return _play_here(self, by_chunk, tell)

    @property
    def chunks(self) -> np.ndarray:
        """(G,) int64, the chunk of each game: the number of its first deal."""
        return chunk_of(self.seating.deal)

    def play_chunk(
        self, numbers: np.ndarray, engines: dict[int, Agent], progress: Progress
    ) -> Games:
        """Play the games with these numbers, which are one chunk, in this process.

        Args:
            numbers: (K,) integers.
            engines: Agents that play on, by their index; they are added.
            progress: Called with the games finished of K.
        """
        key = np.uint64(hash_seed(secret_key(self.seed), CHOICE_STREAM, self.chunks[numbers[0]]))
        agents = []
        for index, spec in enumerate(self.specs):
            agent = engines.get(index)
            if agent is None:
                agent = make_agent(spec, int(hash_seed(key, CHOICE_STREAM, index)) >> 32)
            if spec.startswith("external:"):
                engines[index] = agent  # it takes no seed, and starts slowly
            agents.append(agent)
        play = Play(agents, self.seating, self.rules, self.seed, numbers)
        return play.run(MAX_GAMES_AT_ONCE, progress)


def chunk_of(deal: np.ndarray) -> np.ndarray:
    """The chunks (G,) of these deals (G,): of each the number of its first deal.

    Sizes rise with powers of two, so that each chunk begins at a multiple of its size.
    """
    smallest, largest = _CHUNK_DEALS
    power = 2 ** np.log2(np.clip(deal, 1, largest * _PART_OF_MATCH)).astype(np.int64)
    return deal - deal % np.maximum(power // _PART_OF_MATCH, smallest)


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


def _play_here(match: Match, chunks: list[np.ndarray], progress: Progress) -> Parts:
    engines: dict[int, Agent] = {}
    num_games = sum(map(len, chunks))
    num_done = 0
    for numbers in chunks:
        yield (
            numbers,
            match.play_chunk(
                numbers,
                engines,
                lambda done, _, before=num_done: progress(before + done, num_games),
            ),
        )
        num_done += len(numbers)


def _play_in_processes(
    match: Match, chunks: list[np.ndarray], jobs: int, progress: Progress
) -> Parts:
    context = multiprocessing.get_context("spawn")
    num_games = sum(map(len, chunks))
    num_done: dict[Connection, int] = {}
    num_to_do: dict[Connection, int] = {}
    processes: dict[Connection, BaseProcess] = {}
    try:
        for worker in range(min(jobs, len(chunks))):
            receiver, sender = context.Pipe(duplex=False)
            own_chunks = chunks[worker::jobs]
            process = context.Process(target=_work, args=(sender, match, own_chunks))
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
                if isinstance(message, _Failure):
                    raise message.error from _RemoteError(message.traceback)
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


def _work(sender: Connection, match: Match, chunks: list[np.ndarray]) -> None:
    """Play the chunks in a process of their own: numbers with games, counts and errors are sent."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    num_done = 0
    try:
        engines: dict[int, Agent] = {}
        for numbers in chunks:
            games = match.play_chunk(
                numbers, engines, lambda done, _, before=num_done: sender.send(before + done)
            )
            sender.send((numbers, games))
            num_done += len(numbers)
    except SplendorError as error:
        sender.send(_Failure(error, "".join(traceback.format_exception(error))))


class _Failure(NamedTuple):
    """An error on its way to the parent; without the second field it would lose its cause."""

    error: SplendorError
    traceback: str


class _RemoteError(Exception):
    """Stands for the cause of an error in another process: its text is the traceback there."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def end_with_parent() -> None:
    """End this process as soon as its parent has ended; a killed parent cannot do it."""
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
