"""Our agents as an engine for any arena that speaks the protocol of docs/protocol.md.

The other side of `external`: positions come by name, without secrets, and moves go back. Whatever
is wrong with a line is told in a line; nothing that comes in ends the engine but its goodbye.
"""

import contextlib
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np

from splendor_env.agents.protocol import (
    MAX_LINE,
    MAX_NAME,
    PROTOCOL_VERSION,
    ProtocolError,
    check_hello,
    decode,
    encode,
    integer,
    shown,
)
from splendor_env.agents.registry import failure_of, make_agent
from splendor_env.core.actions import ACTION_NAMES
from splendor_env.core.random import HIDDEN_STREAM, check_seed, hash_seed
from splendor_env.core.state import SplendorError
from splendor_env.game import Game


class Engine:
    """Answers the messages of an arena with the moves of an agent.

    Args:
        spec: Of the agent.
        seed: Of the agent, and of the cards it imagines where its seat has seen none.

    Raises:
        SplendorError: There is no such agent.
    """

    def __init__(self, spec: str, seed: int = 0) -> None:
        self._seed = check_seed(seed)
        self._agent = make_agent(spec, seed)
        self._name = spec if spec.isprintable() and len(spec) <= MAX_NAME else "splendor_env"
        self._has_greeted = False
        self._rules: Any = None
        self._num_questions = 0
        # The first move of many agents compiles or loads for seconds, on the clock of the start
        # here; by another one, so that the seed gives the same moves as anywhere.
        with contextlib.suppress(Exception):
            _move(make_agent(spec, seed), Game(seed=0), 0)

    def serve(self, source: BinaryIO, sink: BinaryIO) -> None:
        """Answer line by line until the goodbye or the end of the input.

        Args:
            source: Lines are read from here.
            sink: Answers go here, unbuffered or flushed.
        """
        while line := _read_line(source):
            answer, is_last = self.answer(line)
            if answer:
                try:
                    sink.write(answer)
                    sink.flush()
                except BrokenPipeError:
                    return
            if is_last:
                return

    def answer(self, line: bytes) -> tuple[bytes, bool]:
        """The answering line, empty where none is due, and whether this was the goodbye."""
        message: dict[str, Any] = {}
        try:
            message = decode(line)
            return self._handle(message), message["type"] == "goodbye"
        except SplendorError as error:
            reason = str(error)
        except Exception as error:  # of an agent, or by a position of odd types
            reason = repr(error)
        asked = message.get("id")
        identity = {"id": asked} if type(asked) is int else {}
        return encode("error", **identity, message=reason), False

    def _handle(self, message: dict[str, Any]) -> bytes:
        handlers: dict[str, Callable[[dict[str, Any]], bytes]] = {
            "hello": self._greet,
            "rules": self._take_rules,
            "position": self._choose,
            "end": self._end,
        }
        # Nothing is to be done for the others: new_game and goodbye, those of later versions.
        handle = handlers.get(message["type"])
        return b"" if handle is None else handle(message)

    def _greet(self, message: dict[str, Any]) -> bytes:
        check_hello(message)
        self._has_greeted = True
        return encode("hello", protocol=PROTOCOL_VERSION, name=self._name)

    def _take_rules(self, message: dict[str, Any]) -> bytes:
        self._rules = None
        self._rules = Game.from_dict({"rules": message.get("rules")}).rules._asdict()
        return b""

    def _choose(self, message: dict[str, Any]) -> bytes:
        if not self._has_greeted or self._rules is None:
            raise ProtocolError("a position before hello and rules")
        asked, game_id = integer(message, "id"), integer(message, "game")
        game = self._imagine(message.get("position"))
        legal_moves = message.get("legal_moves", game.legal_moves)
        if not isinstance(legal_moves, list) or sorted(map(str, legal_moves)) != sorted(
            game.legal_moves
        ):
            raise ProtocolError(
                f"`legal_moves` must be {shown(game.legal_moves)} in this position, "
                f"not {shown(legal_moves)}"
            )
        return encode("answer", id=asked, move=_move(self._agent, game, game_id))

    def _end(self, message: dict[str, Any]) -> bytes:
        tell = getattr(self._agent, "end_games", None)
        if tell is not None:
            tell(np.array([integer(message, "game")]), [message.get("result")])
        return b""

    def _imagine(self, position: Any) -> Game:
        """The game of a position; what the seat to move has not seen is drawn anew."""
        if not isinstance(position, dict):
            raise ProtocolError(f"`position` must be an object, not {shown(position)}")
        self._num_questions += 1
        seed = int(hash_seed(self._seed, HIDDEN_STREAM, self._num_questions))
        game = Game.from_dict({**position, "rules": self._rules, "seed": seed})
        if game.is_over:
            raise ProtocolError("a position after the end of the game")
        return game


def _move(agent: Any, game: Game, game_id: int) -> str:
    """The agent's move in notation.

    Raises:
        SplendorError: It has none, or an illegal one.
    """
    action = int(agent.act(game.games.copy(), game.rules, np.array([game_id], np.int64))[0])
    if action not in game.legal_actions:
        reason = failure_of(agent, game_id, action) or f"illegal action {action}"
        raise SplendorError(f"agent {agent.name}: {reason}")
    return ACTION_NAMES[action]


def _read_line(source: BinaryIO) -> bytes:
    """The next line, cut if it is too long; empty at the end."""
    line = piece = source.readline(MAX_LINE + 1)
    while len(piece) > MAX_LINE and not piece.endswith(b"\n"):
        piece = source.readline(MAX_LINE + 1)
    return line
