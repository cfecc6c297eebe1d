"""Programs of others as agents: `external:COMMAND`, by the protocol of docs/protocol.md.

Nothing that such a program does or leaves undone may stop a match or fill the memory: every wait
has an end, what it sends is read in bounded pieces, and what goes wrong costs it that game.
"""

import contextlib
import os
import queue
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from typing import IO, Any

import numpy as np

from splendor_env.agents.protocol import (
    MAX_LINE,
    PROTOCOL_VERSION,
    ProtocolError,
    check_hello,
    decode,
    encode,
    rules_line,
    shown,
)
from splendor_env.core.state import Rules, SplendorError
from splendor_env.game import Game, parse_move

MOVE_SECONDS = 10.0
"""Time for a move, unless the spec says `time=SECONDS`."""
START_SECONDS = 60.0
"""Time from the start of the program to its hello, unless the spec says `start=SECONDS`."""
MAX_FAILURES_IN_A_ROW = 3
MAX_FAILURES = 20
"""After so many failures without an answer between them, or in all, it is not started again."""

FORFEIT = -1
"""In place of an action: the agent has none; its `failures` say why."""

_MAX_SECONDS = 3600.0
_LEAVE_SECONDS = 1.0
"""Time for a program to end by itself after the goodbye."""
_MAX_UNREAD = 8
_STDERR_KEPT = 400
_LAST_WORDS = 120
"""Characters told of them: the end, where a traceback says what happened."""
_KILL_WITH_PARENT = ["setpriv", "--pdeathsig", "KILL", "--"]
"""Of util-linux: the program shall not outlive this one, however this one ends."""


class ExternalAgent:
    """Asks another program for every move, one game after the other.

    The program is started for the first move, ended with this object, and started anew after a
    failure: a crash, no answer in time, or an answer that is none. Each failure forfeits one game.
    A move that is read but not legal is an action like any other and left to the arena.

    Attributes:
        name: The spec, `external:COMMAND`.
        engine_name: As the program names itself; None before its first hello.
        failures: Why there was no action, by `game_id`.

    Args:
        command: The program and its arguments; no shell reads them.
        name: By default made from the command.
        move_seconds: Time limit of a move.
        start_seconds: Time limit of the start.

    Raises:
        SplendorError: There is no such program, or a limit is out of range.
    """

    def __init__(
        self,
        command: list[str],
        *,
        name: str | None = None,
        move_seconds: float = MOVE_SECONDS,
        start_seconds: float = START_SECONDS,
    ) -> None:
        for key, seconds in (("time", move_seconds), ("start", start_seconds)):
            if not 0 < seconds <= _MAX_SECONDS:
                raise SplendorError(
                    f"{key} must be above 0 and at most {_MAX_SECONDS:g} seconds, not {seconds!r}"
                )
        self.name = f"external:{shlex.join(command)}" if name is None else name
        if not command or shutil.which(command[0]) is None:
            raise SplendorError(f"agent {self.name!r}: there is no program to run in {command}")
        self.engine_name: str | None = None
        self.failures: dict[int, str] = {}
        self._command = command
        self._move_seconds = move_seconds
        self._start_seconds = start_seconds
        self._program: _Program | None = None
        self._finalizer: weakref.finalize | None = None
        self._num_questions = 0
        self._told_rules: Rules | None = None  # to this program
        self._told_games: set[int] = set()  # to this program
        self._failures_in_a_row = 0
        self._failures_in_all = 0
        self._given_up = ""

    def act(self, games: np.ndarray, rules: Rules, game_id: np.ndarray) -> np.ndarray:
        """See `Agent.act`; `FORFEIT` where the program has failed."""
        actions = np.empty(len(games), np.int32)
        game = Game(rules, seed=0)
        for i in range(len(games)):
            game.games[:] = games[i : i + 1]
            actions[i] = self._choose(game, int(game_id[i]))
        return actions

    def end_games(self, game_id: np.ndarray, results: list[dict]) -> None:
        """See `Agent`; tells the program of the games that it knows."""
        for game, result in zip(game_id.tolist(), results, strict=True):
            if game in self._told_games:
                self._told_games.discard(game)
                self._send(encode("end", game=game, result=result))

    def close(self) -> None:
        """End the program; the next move starts it again."""
        if self._finalizer is not None:
            self._finalizer()
        self._forget()

    def _choose(self, game: Game, game_id: int) -> int:
        try:
            if self._given_up:
                raise ProtocolError(self._given_up)
            action = self._ask(game, game_id)
            self._failures_in_a_row = 0
            return action
        except ProtocolError as failure:
            self.failures[game_id] = str(failure)
            if not self._given_up:
                self._kill()
                self._note_failure(str(failure))
            return FORFEIT
        except BaseException:
            self._kill()  # what it answers to this question must not be taken for another's
            raise

    def _kill(self) -> None:
        if self._program is not None:
            self._program.close(0)
        self.close()

    def _note_failure(self, failure: str) -> None:
        self._failures_in_a_row += 1
        self._failures_in_all += 1
        if self._failures_in_a_row >= MAX_FAILURES_IN_A_ROW:
            times = f"{MAX_FAILURES_IN_A_ROW} failures in a row"
        elif self._failures_in_all >= MAX_FAILURES:
            times = f"{MAX_FAILURES} failures"
        else:
            return
        self._given_up = f"not asked any more after {times}, the last one: {failure}"

    def _ask(self, game: Game, game_id: int) -> int:
        program = self._started()
        position = game.seen_by(game.player)
        del position["rules"]
        if self._told_rules != game.rules:
            self._send(rules_line(game.rules))
            self._told_rules = game.rules
        if game_id not in self._told_games:
            seats = {"seat": game.player, "num_players": game.rules.num_players}
            self._send(encode("new_game", game=game_id, **seats))
            self._told_games.add(game_id)
        self._num_questions += 1
        self._send(
            encode(
                "position",
                id=self._num_questions,
                game=game_id,
                time_limit=self._move_seconds,
                position=position,
                legal_moves=game.legal_moves,
            )
        )
        return self._read_answer(program.receive(self._move_seconds))

    def _read_answer(self, line: bytes) -> int:
        answer = decode(line)
        if answer["type"] == "error":
            raise ProtocolError(f"its own error: {shown(answer.get('message'))}")
        move = answer.get("move")
        if answer["type"] != "answer" or not isinstance(move, str):
            raise ProtocolError(f"no answer with a `move`: {shown(line)}")
        asked = answer.get("id")
        if type(asked) is not int or asked != self._num_questions:
            raise ProtocolError(f"an answer without the `id` {self._num_questions}: {shown(line)}")
        try:
            return parse_move(move)
        except SplendorError:
            raise ProtocolError(f"a move that cannot be read: {shown(move)}") from None

    def _started(self) -> "_Program":
        """The program, running and greeted."""
        if self._program is not None and self._program.is_ours():
            return self._program
        self._forget()
        self._program = _Program(self._command)
        self._finalizer = weakref.finalize(self, self._program.close, _LEAVE_SECONDS)
        self._send(encode("hello", protocol=PROTOCOL_VERSION, name="splendor_env"))
        hello = decode(self._program.receive(self._start_seconds))
        if hello["type"] == "error":
            raise ProtocolError(f"its own error: {shown(hello.get('message'))}")
        self.engine_name = check_hello(hello)
        return self._program

    def _send(self, line: bytes) -> None:
        if self._program is not None:
            self._program.send(line)

    def _forget(self) -> None:
        self._program = None
        self._finalizer = None
        self._told_rules = None
        self._told_games.clear()


class _Program:
    """A running program: lines in and out, of which none is waited for longer than allowed.

    Three threads of its own read its output, read its errors and write its input; they end with it.

    Raises:
        ProtocolError: It cannot be started.
    """

    def __init__(self, command: list[str]) -> None:
        self._owner = os.getpid()
        self._received: queue.Queue[bytes] = queue.Queue(_MAX_UNREAD)
        self._to_send: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._last_errors = b""
        self._is_released = threading.Event()
        started: Future[subprocess.Popen[bytes]] = Future()
        self._start_thread(self._run, command, started)
        try:
            self._process = started.result()
        except (OSError, ValueError) as error:
            raise ProtocolError(f"it cannot be started: {error}") from None
        self._start_thread(self._write, self._process.stdin)
        self._errors = self._start_thread(self._read_errors, self._process.stderr)

    def is_ours(self) -> bool:
        """Whether it was started here, and not before this process was forked off."""
        return self._owner == os.getpid()

    def send(self, line: bytes) -> None:
        """Send a line some time: a program that does not read keeps nobody waiting."""
        self._to_send.put(line)

    def receive(self, seconds: float) -> bytes:
        """The next line, as far as it came.

        Raises:
            ProtocolError: None came in time, or the program has ended.
        """
        try:
            line = self._received.get(timeout=seconds)
        except queue.Empty:
            raise ProtocolError(f"nothing received within {seconds:g} s") from None
        if line:
            return line
        try:
            code = self._process.wait(_LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            raise ProtocolError("it has closed its output") from None
        self._errors.join(_LEAVE_SECONDS)
        last_errors = self._last_errors.decode("utf-8", "replace").strip()
        said = f", its last words: {shown(last_errors[-_LAST_WORDS:])}" if last_errors else ""
        raise ProtocolError(f"it has ended with exit code {code}{said}")

    def close(self, leave_seconds: float) -> None:
        """Ask it to leave, then kill it and what it has started."""
        if not self.is_ours() or self._is_released.is_set():
            return
        if leave_seconds:
            self.send(encode("goodbye"))
        self._to_send.put(None)
        with contextlib.suppress(subprocess.TimeoutExpired):
            if leave_seconds:
                self._process.wait(leave_seconds)
        _kill(self._process)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_LEAVE_SECONDS)
        self._is_released.set()

    @staticmethod
    def _start_thread(target: Callable[..., None], *arguments: Any) -> threading.Thread:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        thread.start()
        return thread

    def _run(self, command: list[str], started: "Future[subprocess.Popen[bytes]]") -> None:
        # Here, since the kernel kills the program when the thread that has started it ends.
        try:
            process = _start(command)
        except Exception as error:
            started.set_exception(error)  # raised where it is waited for
            return
        started.set_result(process)
        assert process.stdout is not None
        self._read(process.stdout)
        self._is_released.wait()
        with contextlib.suppress(OSError):
            process.stdout.close()

    def _read(self, stdout: IO[bytes]) -> None:
        """Pass on line by line; stop at a line too long, or when too many are not asked for."""
        rest = b""
        while True:
            try:
                piece = os.read(stdout.fileno(), MAX_LINE)
            except OSError:
                piece = b""
            *lines, rest = (rest + piece).split(b"\n")
            received = [line + b"\n" for line in lines]
            if not piece:
                received += [rest, b""] if rest else [b""]
            elif len(rest) > MAX_LINE:
                received.append(rest)
            try:
                for line in received:
                    self._received.put_nowait(line)
            except queue.Full:
                return
            if not piece or len(rest) > MAX_LINE:
                return

    def _read_errors(self, stderr: IO[bytes]) -> None:
        with contextlib.suppress(OSError), stderr:
            while piece := os.read(stderr.fileno(), MAX_LINE):
                self._last_errors = (self._last_errors + piece)[-_STDERR_KEPT:]

    def _write(self, stdin: IO[bytes]) -> None:
        with contextlib.suppress(OSError), stdin:
            while (line := self._to_send.get()) is not None:
                stdin.write(line)
                stdin.flush()


def _start(command: list[str]) -> "subprocess.Popen[bytes]":
    is_there = sys.platform == "linux" and shutil.which(_KILL_WITH_PARENT[0]) is not None
    return subprocess.Popen(
        [*_KILL_WITH_PARENT, *command] if is_there else command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def _kill(process: "subprocess.Popen[bytes]") -> None:
    if os.name == "posix":
        # Its session is a group of its own, so that what it has started goes with it.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()


def make_agent(argument: str) -> ExternalAgent:
    """The agent of the spec `external:ARGUMENT`: options such as `time=2`, then the command.

    Raises:
        SplendorError: As `ExternalAgent` does, or an option is none.
    """
    spec = f"external:{argument}"
    try:
        words = shlex.split(argument)
    except ValueError as error:
        raise SplendorError(f"agent {spec!r}: {error}") from None
    options = {"time": MOVE_SECONDS, "start": START_SECONDS}
    while words and re.match(r"\w+=", words[0]):
        key, _, value = words.pop(0).partition("=")
        if key not in options or not re.fullmatch(r"\d*\.?\d+", value):
            raise SplendorError(
                f"agent {spec!r}: options before the command are time=SECONDS and start=SECONDS, "
                f"not {key}={value}"
            )
        options[key] = float(value)
    return ExternalAgent(
        words, name=spec, move_seconds=options["time"], start_seconds=options["start"]
    )
