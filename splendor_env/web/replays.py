"""Records that were sent in to be looked at, position by position."""

import secrets
import sys
from typing import Any

import numpy as np

from splendor_env.agents.analysis import shown_to_mover
from splendor_env.core.state import EndReason, Rules
from splendor_env.game import Game
from splendor_env.record import replay
from splendor_env.web.tables import RequestError
from splendor_env.web.views import ALL_SEATS, SPECTATOR, event, view

_MOST_BYTES = 32 << 20
"""Of all that is kept."""


class StoredReplay:
    """A verified record.

    Attributes:
        id: By which it is found.
        viewer: The seat of a redacted record, or None.
        shares: Win shares (T + 1, N) found so far, by agent.

    Args:
        record: As it was sent.

    Raises:
        RecordError: It is none, or does not verify.
    """

    def __init__(self, record: dict[str, Any]) -> None:
        self.id = secrets.token_urlsafe(16)
        self.shares: dict[str, np.ndarray] = {}
        self._replay = replay(record)
        self.viewer = self._replay.viewer
        self._seats, self._result = record["seats"], record["result"]
        positions = self._replay.positions
        self._history = [
            event(positions[index], int(action), positions[index + 1])
            for index, action in enumerate(self._replay.actions)
        ]
        arrays = sum(one.nbytes for one in self._replay if isinstance(one, np.ndarray))
        self._size = arrays + _size([self._history, self._seats, self._result])

    @property
    def positions(self) -> np.ndarray:
        """(T + 1,) GAME."""
        return self._replay.positions

    @property
    def size(self) -> int:
        """Bytes, nearly."""
        return self._size + sum(shares.nbytes for shares in self.shares.values())

    @property
    def rules(self) -> Rules:
        """The variant."""
        return self._replay.rules

    def about(self) -> dict[str, Any]:
        """What is told when it was sent."""
        return {
            "replay": self.id,
            "decisions": len(self._replay.actions),
            "seats": self._seats,
            "viewer": self.viewer,
            "result": self._result,
        }

    def viewer_of(self, text: str | None) -> int:
        """The viewer that a request asks for: a seat, "all", or nothing for a spectator.

        Raises:
            RequestError: There is no such viewer, or a redacted record does not know what it saw.
        """
        seats = [str(seat) for seat in range(self.rules.num_players)]
        if text not in (None, "all", *seats):
            raise RequestError(
                422, f"viewer must be one of {', '.join(seats)} or all, not {text!r}"
            )
        if self.viewer is not None and text not in (None, str(self.viewer)):
            raise RequestError(403, f"this record tells only what seat {self.viewer} saw")
        if text is None:
            return SPECTATOR
        return ALL_SEATS if text == "all" else int(text)

    def game(self, decision: int) -> Game:
        """The position after so many decisions.

        Raises:
            RequestError: There were not so many.
        """
        most = len(self._replay.actions)
        if not 0 <= decision <= most:
            raise RequestError(404, f"the record has decisions 0 to {most}, not {decision}")
        return self._replay.game(decision)

    def view(self, decision: int, viewer: int) -> dict[str, Any]:
        """What a viewer was shown after so many decisions."""
        game = self.game(decision)
        forfeited_by = self._forfeited_by(decision)
        return view(game, viewer, self._history[:decision], forfeited_by) | {
            "table": None,
            "replay": self.id,
            "record_viewer": self.viewer,
            "version": decision,
            "decision": decision,
            "decisions": len(self._replay.actions),
            "preset": None,
            "seats": [{"kind": "person", "name": name} for name in self._seats],
            "delay_ms": 0,
            "thinking": False,
            "notice": None,
        }

    def _forfeited_by(self, decision: int) -> int | None:
        """The seat that has given up after so many decisions."""
        forfeit = (self._result or {}).get("forfeit")
        is_end = decision == len(self._replay.actions)
        return forfeit["seat"] if forfeit is not None and is_end else None

    def shown(self, decision: int) -> Game:
        """The position after so many decisions as its mover saw it.

        Raises:
            RequestError: The game was over, or the record does not know what the mover saw.
        """
        game = self.game(decision)
        if game.is_over or self._forfeited_by(decision) is not None:
            raise RequestError(409, "the game is over, there is nothing to choose")
        if self.viewer not in (None, game.player):
            raise RequestError(403, f"this record tells only what seat {self.viewer} saw")
        return shown_to_mover(game)

    def known_shares(self, shares: np.ndarray) -> list[list[float] | None]:
        """Win shares (T + 1, N) without those that judge what nobody has recorded."""
        is_known = self.positions["end_reason"] != EndReason.RUNNING
        # The mover judges, and a redacted record knows only what its own seat saw.
        is_known |= self.viewer is None or self.positions["player"] == self.viewer
        rows = zip(shares.tolist(), is_known, strict=True)
        known = [row if is_known else None for row, is_known in rows]
        if self._forfeited_by(len(known) - 1) is not None:
            known[-1] = self._result["share"]
        return known


class Replays:
    """The replays of a server; the oldest give way to new ones."""

    def __init__(self) -> None:
        self._replays: dict[str, StoredReplay] = {}

    def add(self, stored: StoredReplay) -> None:
        """Keep a replay."""
        self._replays[stored.id] = stored
        self.make_room()

    def make_room(self) -> None:
        """Drop the oldest, if more is kept than there should be."""
        size = sum(one.size for one in self._replays.values())
        while size > _MOST_BYTES and len(self._replays) > 1:
            size -= self._replays.pop(next(iter(self._replays))).size

    def find(self, replay_id: str) -> StoredReplay:
        """The replay of an id.

        Raises:
            RequestError: There is none.
        """
        if replay_id not in self._replays:
            raise RequestError(404, "there is no such replay, or it gave way to newer ones")
        return self._replays[replay_id]


def _size(value: Any) -> int:
    """Bytes of JSON in memory, at most: what stands twice is counted twice."""
    parts: list[Any] = []
    if isinstance(value, dict):
        parts = [*value.keys(), *value.values()]
    elif isinstance(value, list):
        parts = value
    return sys.getsizeof(value) + sum(map(_size, parts))
