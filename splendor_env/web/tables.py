"""Tables with games under way: seats, their secrets, moves, and agents that move by themselves.

All of it lives in the thread of the event loop, so that nothing here needs a lock: only the
thoughts of agents are elsewhere, and a thought counts only if the table is still as it was. Nothing
here knows HTTP.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

from splendor_env.agents.analysis import choose, end_game, ending, shown_to_mover
from splendor_env.core.state import MAX_PLAYERS, SplendorError
from splendor_env.game import Game, parse_move
from splendor_env.record import record_game, redact
from splendor_env.web.players import Agents
from splendor_env.web.views import SPECTATOR, event, view

MAX_TABLES = 500
MAX_DELAY_MS = 10_000
_AWAY_SECONDS = 60.0
"""After so long without a word from a person the others may let an agent play on."""
_IDLE_SECONDS = 600.0
"""After so long without a request a game may give way to a new one."""
_SUBSTITUTE = "greedy"
"""Plays on for an agent that has failed, or for a person who has left."""

_log = logging.getLogger(__name__)


class RequestError(SplendorError):
    """A request that is refused.

    Attributes:
        status: As HTTP has it.
        more: What the answer says besides the message.
    """

    def __init__(self, status: int, message: str, **more: Any) -> None:
        super().__init__(message)
        self.status = status
        self.more = more


@dataclass
class Seat:
    """One seat of a table.

    Attributes:
        name: Of the person whose seat it is; None if it never is a person's.
        agent: Name of the agent that plays it now; None for the person.
        secret: By which the person is known.
        seen: When it was last used, in seconds of a clock that never goes back.
        played: Those who have played it so far, each once.
        asked: Agents that were asked for a move.
    """

    name: str | None = None
    agent: str | None = None
    secret: str | None = None
    seen: float = field(default_factory=time.monotonic)
    played: list[str] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)

    @property
    def player(self) -> str:
        """Who plays it."""
        return self.agent or self.name or ""

    @property
    def players(self) -> str:
        """Who has played it, for the record."""
        return ", then ".join(self.played) or self.player

    def note_player(self) -> None:
        """Remember who has just played."""
        if self.player not in self.played:
            self.played.append(self.player)

    @property
    def is_away(self) -> bool:
        """Whether its person has left: an open page asks at least every 20 seconds."""
        return self.agent is None and time.monotonic() - self.seen > _AWAY_SECONDS


class Table:
    """One game, who plays it, and who waits for its next change.

    Attributes:
        id: By which it is found; whoever knows it may watch.
        game: The game.
        seats: By seat.
        version: Rises with every change that a viewer can see.
        touched: When somebody last asked for it, in seconds of a clock that never goes back.
        forfeited_by: The seat that has given up.

    Args:
        game: As dealt.
        preset: Name of its rules.
        seats: By seat.
        agents: Those that may play.
        delay: Seconds between a thought and the agent's move.
        number: Different for every table of a server.
        on_end: Is called with the record when the game is over.
    """

    def __init__(
        self,
        game: Game,
        preset: str,
        seats: Sequence[Seat],
        agents: Agents,
        delay: float,
        number: int,
        on_end: Callable[[dict[str, Any]], None],
    ) -> None:
        self.id = secrets.token_urlsafe(16)
        self.game = game
        self.seats = seats
        self.version = 0
        self.touched = time.monotonic()
        self.forfeited_by: int | None = None
        self._preset = preset
        self._deal = game.games.copy()
        self._actions: list[int] = []
        self._history: list[dict[str, Any]] = []
        self._agents = agents
        self._delay = delay
        self._number = number
        self._on_end = on_end
        self._notice: str | None = None
        self._changed = asyncio.Event()
        self._playing: asyncio.Task[None] | None = None
        self._ending: list[asyncio.Task[None]] = []
        self._record: dict[str, Any] | None = None
        self._let_agents_play()

    @property
    def is_over(self) -> bool:
        """Whether no further move is possible."""
        return self.game.is_over or self.forfeited_by is not None

    def seat_of(self, secret: str | None) -> int:
        """The seat that a secret belongs to; without any, the spectator.

        Raises:
            RequestError: It is the secret of no seat.
        """
        self.touched = time.monotonic()
        if secret is None:
            return SPECTATOR
        for number, seat in enumerate(self.seats):
            # Equal times for all wrong secrets; bytes, since texts must be ASCII there.
            if seat.secret and secrets.compare_digest(seat.secret.encode(), secret.encode()):
                seat.seen = self.touched
                return number
        raise RequestError(403, "wrong secret: it belongs to no seat of this table")

    def view(self, viewer: int) -> dict[str, Any]:
        """What a viewer is shown; see `views.view`."""
        shown = view(self.game, viewer, self._history, self.forfeited_by)
        if viewer >= 0 and self.seats[viewer].agent is not None:
            shown["legal_moves"] = []
        return shown | {
            "table": self.id,
            "version": self.version,
            "preset": self._preset,
            "seats": [
                {"kind": "person", "name": seat.name, "away": seat.is_away}
                if seat.agent is None
                else {"kind": "agent", "agent": seat.agent, "name": seat.name}
                for seat in self.seats
            ],
            "delay_ms": round(1000 * self._delay),
            "thinking": self._agent_to_move() is not None,
            "notice": self._notice,
        }

    async def wait(self, version: int, seconds: float) -> None:
        """Return when the table's version is another one, or when the time is over."""
        changed = self._changed
        if self.version == version:
            try:
                await asyncio.wait_for(changed.wait(), seconds)
            except TimeoutError:
                return

    def move(self, seat: int, move: str, version: int) -> None:
        """Make a person's move.

        Args:
            seat: Whose it is, of `seat_of`.
            move: In notation.
            version: Of the table for which the move was meant.

        Raises:
            RequestError: The table has changed since, the seat is not to move, or the move is
                illegal.
        """
        self.check_turn(seat)
        if version != self.version:
            raise RequestError(
                409, f"the table is at version {self.version}, the move was for {version}"
            )
        try:
            self._push(parse_move(move))
        except SplendorError as error:
            raise RequestError(422, str(error), legal=self.game.legal_moves) from None

    def check_turn(self, seat: int) -> None:
        """Refuse all but the person who is to move.

        Raises:
            RequestError: It is somebody else.
        """
        self._check_goes_on()
        if seat == SPECTATOR:
            raise RequestError(403, "only a seat may do that: its secret is missing")
        if seat != self.game.player:
            raise RequestError(
                403, f"it is the turn of seat {self.game.player}, not of seat {seat}"
            )
        if self.seats[seat].agent is not None:
            raise RequestError(403, f"seat {seat} is played by an agent: take it back first")

    def _check_goes_on(self) -> None:
        if self.is_over:
            raise RequestError(409, "the game is over")

    def resign(self, seat: int) -> None:
        """End the game as lost by the person who is to move.

        Args:
            seat: Whose it is, of `seat_of`.

        Raises:
            RequestError: The seat is not to move: a record knows only of those who give up then.
        """
        self.check_turn(seat)
        self.seats[seat].note_player()
        self.forfeited_by = seat
        self._change()
        self._end()

    def hand_over(self, asking: int, seat: int, agent: str | None) -> None:
        """Let an agent play a person's seat, or the person again.

        Args:
            asking: Who wants it, of `seat_of`: the person; or another one if the person is away,
                who may not choose the agent.
            seat: Which seat.
            agent: Name; None for the person.

        Raises:
            RequestError: That is not for `asking` to say, or the game is over.
            SplendorError: There is no such agent.
        """
        self._check_goes_on()
        is_abandoned = 0 <= seat < len(self.seats) and self.seats[seat].is_away
        may_ask = seat == asking or (is_abandoned and agent == _SUBSTITUTE)
        if asking == SPECTATOR or not may_ask:
            raise RequestError(
                403,
                f"seat {seat} is handed over by its own person; while they are away, by others to "
                f"{_SUBSTITUTE}",
            )
        self.seats[seat].agent = None if agent is None else self._agents.check(agent)
        if seat == self.game.player:
            self._stop_thought()
        self._change()

    def record(self, asking: int, viewer: int | None) -> dict[str, Any]:
        """The record of the game, while it goes on only what the asking seat knows of it.

        Args:
            asking: Who wants it, of `seat_of`.
            viewer: Whose knowledge; None for the asking seat's, or all once the game is over.

        Raises:
            RequestError: The game goes on, and `asking` is not the viewer.
        """
        goes_on = not self.is_over
        if goes_on and (asking == SPECTATOR or viewer not in (None, asking)):
            raise RequestError(403, "while the game goes on, a seat gets its own record only")
        record = self._record or self._recorded()
        viewer = asking if goes_on else viewer
        return record if viewer is None else redact(record, viewer)

    def _recorded(self) -> dict[str, Any]:
        seats = [seat.players for seat in self.seats]
        forfeit = None
        if self.forfeited_by is not None:
            detail = "abandoned by a person"
            forfeit = {"seat": self.forfeited_by, "reason": "failed", "detail": detail}
        return record_game(
            self._deal,
            self._actions,
            self.game.rules,
            seats,
            forfeit=forfeit,
            unfinished=not self.is_over,
        )

    def close(self) -> None:
        """End what goes on by itself; who waits is told."""
        self._stop_thought()
        self._changed.set()

    def _push(self, action: int) -> None:
        before = self.game.games[0].copy()
        mover = self.seats[self.game.player]
        self.game.push(action)
        mover.note_player()
        self._actions.append(action)
        self._history.append(event(before, action, self.game.games[0]))
        self._change()
        if self.game.is_over:
            self._end()

    def _change(self) -> None:
        self.version += 1
        self._changed.set()
        self._changed = asyncio.Event()
        self._let_agents_play()

    def _agent_to_move(self) -> str | None:
        return None if self.is_over else self.seats[self.game.player].agent

    def _let_agents_play(self) -> None:
        if self._agent_to_move() is not None and self._playing is None:
            self._playing = asyncio.create_task(self._play_agents())

    def _stop_thought(self) -> None:
        if self._playing is not None:
            self._playing.cancel()
            self._playing = None

    async def _play_agents(self) -> None:
        try:
            while (spec := self._agent_to_move()) is not None:
                await self._play_agent(spec)
        finally:
            if self._playing is asyncio.current_task():  # else another one plays already
                self._playing = None

    async def _play_agent(self, spec: str) -> None:
        version, seat = self.version, self.game.player
        shown = shown_to_mover(self.game)
        self.seats[seat].asked.add(spec)
        try:
            question = partial(choose, shown=shown, game_id=self._game_id(seat))
            action = await self._agents.ask(spec, question)
        except Exception:  # whatever is wrong with an agent, the others want to play on
            _log.exception("agent %s has failed", spec)
            if spec == _SUBSTITUTE:
                raise  # there is nobody else
            if self.version == version:
                self._notice = f"{spec} has failed in seat {seat}; {_SUBSTITUTE} plays on"
                self.seats[seat].note_player()
                self.seats[seat].agent = _SUBSTITUTE
                self._change()
            return
        await asyncio.sleep(self._delay)
        if self.version == version:
            self._push(action)

    def _game_id(self, seat: int) -> int:
        """Under which an agent keeps what it knows: each seat for itself."""
        return self._number * MAX_PLAYERS + seat

    def _end(self) -> None:
        self._record = self._recorded()
        told = self._record["result"]
        result = ending(self.game, told["end_reason"], told["winners"])
        self._ending = [
            asyncio.create_task(
                self._agents.ask(
                    agent, partial(end_game, game_id=self._game_id(number), result=result)
                )
            )
            for number, seat in enumerate(self.seats)
            for agent in seat.asked
        ]
        self._on_end(self._record)


class Tables:
    """The open tables of a server.

    Args:
        agents: Those that may play.
        on_end: Is called with the record of each game that is over.
        most: How many there may be.
    """

    def __init__(
        self,
        agents: Agents,
        on_end: Callable[[dict[str, Any]], None],
        most: int = MAX_TABLES,
    ) -> None:
        self._agents = agents
        self._on_end = on_end
        self._most = most
        self._tables: dict[str, Table] = {}
        self._numbers = count()

    def open(self, game: Game, preset: str, seats: Sequence[Seat], delay: float) -> Table:
        """Open a table; a person gets a secret for each seat.

        Raises:
            SplendorError: The seats are not as many as the rules say, or there is no such agent.
            RequestError: There are too many tables, and all are in use.
        """
        if len(seats) != game.rules.num_players:
            raise SplendorError(f"{len(seats)} seats for {game.rules.num_players} players")
        for seat in seats:
            if seat.agent is None:
                seat.secret = secrets.token_urlsafe(16)
            else:
                self._agents.check(seat.agent)
        self._make_room()
        number = next(self._numbers)
        table = Table(game, preset, seats, self._agents, delay, number, self._on_end)
        self._tables[table.id] = table
        return table

    def find(self, table_id: str) -> Table:
        """The table of an id.

        Raises:
            RequestError: There is none.
        """
        if table_id not in self._tables:
            raise RequestError(404, "there is no such table, or it was closed")
        return self._tables[table_id]

    def _make_room(self) -> None:
        if len(self._tables) < self._most:
            return
        now = time.monotonic()
        free = [
            table
            for table in self._tables.values()
            if table.is_over or now - table.touched > _IDLE_SECONDS
        ]
        if not free:
            raise RequestError(429, f"all {self._most} tables are in use, try again later")
        oldest = min(free, key=lambda table: (not table.is_over, table.touched))
        oldest.close()
        del self._tables[oldest.id]

    def close(self) -> None:
        """Close all."""
        for table in self._tables.values():
            table.close()
        self._tables.clear()
