"""The web table's HTTP interface, as docs/web.md has it, and the guard before it.

Requests and answers only: games are in `tables`, what may be shown in `views`, agents in `players`.
"""

import asyncio
import ipaddress
import json
import logging
import socket
import webbrowser
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import uvicorn
from fastapi import FastAPI, Header, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, ConfigDict, Field
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from splendor_env.agents.analysis import RefusedError, analyse, shown_to_mover, win_shares
from splendor_env.core.state import PRESETS, SplendorError
from splendor_env.game import Game
from splendor_env.record import RecordError, append_records
from splendor_env.web.players import Agents
from splendor_env.web.replays import Replays, StoredReplay
from splendor_env.web.tables import MAX_DELAY_MS, MAX_TABLES, RequestError, Seat, Tables
from splendor_env.web.views import cards_and_nobles

_STATIC = Path(__file__).with_name("static")
_POLL_SECONDS = 20.0
_MAX_BODY = 64 << 10
_MAX_RECORD = 256 << 10
"""Bytes of a record; one of 100 rounds has about 30 thousand."""
_BODY_SECONDS = 20.0
"""In which a body must arrive."""
_MAX_CONNECTIONS = 4000
_BACKLOG = 1024
_MOST_WAITING = 20
"""Analyses that an agent has yet to make, with which it takes no more."""

_log = logging.getLogger(__name__)

_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; object-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


class _Answer(JSONResponse):
    """JSON in ASCII, since names in records may hold what UTF-8 cannot."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, separators=(",", ":"), allow_nan=False).encode("ascii")


# What requests hold.


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Person(_Body):
    kind: Literal["person"]
    name: str = Field("", max_length=40)


class _Agent(_Body):
    kind: Literal["agent"]
    agent: str


_Player = Annotated[_Person | _Agent, Field(discriminator="kind")]


class _NewTable(_Body):
    players: int = Field(ge=2, le=4)
    rules: str = "standard"
    target_points: int | None = None
    seed: int | None = None
    seats: list[_Player]
    delay_ms: int = Field(0, ge=0, le=MAX_DELAY_MS)


class _Move(_Body):
    move: str = Field(max_length=100)
    version: int


class _Question(_Body):
    agent: str


_Secret = Annotated[str | None, Header(alias="X-Seat-Secret")]


def create_app(
    more_agents: Sequence[str] = (),
    *,
    hosts: Sequence[str] = (),
    record: Path | None = None,
    max_tables: int = MAX_TABLES,
    version: str = "",
) -> FastAPI:
    """The web table as an ASGI application.

    Args:
        more_agents: Specs of agents besides those that are always there.
        hosts: Names, besides addresses and localhost, by which browsers may call the server.
        record: Games that are over are added to this file.
        max_tables: How many tables may be open.
        version: Of the package, for the page.

    Raises:
        SplendorError: One of the agents cannot be made.
    """
    agents = Agents(more_agents)
    tables = Tables(agents, partial(_keep, record), max_tables)
    replays = Replays()
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.state.close_tables = tables.close
    app.add_middleware(Guard, hosts=hosts)
    _handle_errors(app)
    # Objects and threads of their own, so that nobody waits for a move while another one asks.
    analysts = Agents(more_agents)
    _add_tables(app, tables, analysts)
    _add_replays(app, replays, analysts)

    @app.get("/api/setup")
    async def setup() -> Response:
        return _Answer(
            {
                "presets": _presets(),
                "agents": agents.meanings,
                "version": version,
                "max_delay_ms": MAX_DELAY_MS,
                **cards_and_nobles(),
            }
        )

    @app.get("/")
    async def page() -> Response:
        return FileResponse(_STATIC / "index.html")

    app.mount("/static", StaticFiles(directory=_STATIC))
    return app


def _presets() -> dict[str, str]:
    """What each preset means, in words for players."""
    meanings = {name: preset.__doc__ or "" for name, preset in PRESETS.items()}
    return meanings | {"standard": "Up to three different tokens, gold only for what is missing."}


def _keep(file: Path | None, record: dict[str, Any]) -> None:
    if file is None:
        return
    try:
        append_records(file, [record])
    except RecordError:  # a full disk must not spoil the players' last move
        _log.exception("a game was not recorded")


def _add_tables(app: FastAPI, tables: Tables, analysts: Agents) -> None:
    @app.post("/api/tables")
    async def open_table(body: _NewTable) -> Response:
        changes = {} if body.target_points is None else {"target_points": body.target_points}
        if body.rules not in PRESETS:
            raise SplendorError(f"unknown rules {body.rules!r}; presets are {', '.join(PRESETS)}")
        rules = PRESETS[body.rules](body.players, **changes)
        seats = [
            Seat(agent=player.agent)
            if isinstance(player, _Agent)
            else Seat(name=_checked_name(player.name) or f"player {number + 1}")
            for number, player in enumerate(body.seats)
        ]
        game = Game(rules, seed=body.seed)
        table = tables.open(game, body.rules, seats, body.delay_ms / 1000)
        secrets = {str(n): seat.secret for n, seat in enumerate(seats) if seat.secret is not None}
        return _Answer({"table": table.id, "secrets": secrets}, 201)

    @app.get("/api/tables/{table_id}")
    async def show(
        request: Request, table_id: str, since: int | None = None, secret: _Secret = None
    ) -> Response:
        table = tables.find(table_id)
        viewer = table.seat_of(secret)
        if since is not None:
            await _first_of(table.wait(since, _POLL_SECONDS), _disconnected(request))
        return _Answer(table.view(viewer))

    @app.post("/api/tables/{table_id}/moves")
    async def move(table_id: str, body: _Move, secret: _Secret = None) -> Response:
        table = tables.find(table_id)
        seat = table.seat_of(secret)
        table.move(seat, body.move, body.version)
        return _Answer(table.view(seat))

    @app.post("/api/tables/{table_id}/resign")
    async def resign(table_id: str, body: _Body, secret: _Secret = None) -> Response:
        table = tables.find(table_id)
        seat = table.seat_of(secret)
        table.resign(seat)
        return _Answer(table.view(seat))

    @app.post("/api/tables/{table_id}/seats/{number}")
    async def hand_over(
        table_id: str, number: int, body: _Player, secret: _Secret = None
    ) -> Response:
        table = tables.find(table_id)
        seat = table.seat_of(secret)
        table.hand_over(seat, number, body.agent if isinstance(body, _Agent) else None)
        return _Answer(table.view(seat))

    @app.post("/api/tables/{table_id}/analysis")
    async def analyse_table(table_id: str, body: _Question, secret: _Secret = None) -> Response:
        table = tables.find(table_id)
        table.check_turn(table.seat_of(secret))
        question = partial(analyse, shown=shown_to_mover(table.game))
        return _Answer(await _ask(analysts, body.agent, question))

    @app.get("/api/tables/{table_id}/record")
    async def record(table_id: str, viewer: int | None = None, secret: _Secret = None) -> Response:
        table = tables.find(table_id)
        return _Answer(table.record(table.seat_of(secret), viewer))


async def _first_of(*waits: Coroutine[Any, Any, None]) -> None:
    """Return as soon as one of them is done, and end the others."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _ask(agents: Agents, spec: str, question: Callable[[Any], Any]) -> Any:
    """The answer of an agent that others may be asking as well.

    Raises:
        RequestError: It is not asked; or it has failed, of which visitors hear no more than that.
        SplendorError: There is no such agent.
    """
    if agents.num_waiting(spec) >= _MOST_WAITING:
        raise RequestError(429, f"agent {spec!r} is too busy, try again later")
    try:
        return await agents.ask(spec, question)
    except RefusedError as error:
        raise RequestError(422, f"agent {spec!r}: {error}") from None
    except Exception:  # its words may be those of a program: paths, a traceback
        _log.exception("agent %s has failed", spec)
        raise RequestError(500, f"agent {spec!r} has failed; the log says more") from None


def _checked_name(name: str) -> str:
    if not name.isprintable():
        raise SplendorError(f"a name has printable characters only, not {name!r}")
    return name.strip()


def _add_replays(app: FastAPI, replays: Replays, analysts: Agents) -> None:
    @app.post("/api/replays")
    async def add(record: dict[str, Any]) -> Response:
        stored = await asyncio.to_thread(StoredReplay, record)
        replays.add(stored)
        return _Answer(stored.about(), 201)

    @app.get("/api/replays/{replay_id}/win_shares")
    async def shares(replay_id: str, agent: str) -> Response:
        stored = replays.find(replay_id)
        if agent not in stored.shares:
            question = partial(win_shares, positions=stored.positions, rules=stored.rules)
            stored.shares[agent] = await _ask(analysts, agent, question)
            replays.make_room()
        return _Answer({"win_shares": stored.known_shares(stored.shares[agent])})

    @app.get("/api/replays/{replay_id}/{decision}")
    async def show(replay_id: str, decision: int, viewer: str | None = None) -> Response:
        stored = replays.find(replay_id)
        return _Answer(stored.view(decision, stored.viewer_of(viewer)))

    @app.post("/api/replays/{replay_id}/{decision}/analysis")
    async def analyse_replay(replay_id: str, decision: int, body: _Question) -> Response:
        question = partial(analyse, shown=replays.find(replay_id).shown(decision))
        return _Answer(await _ask(analysts, body.agent, question))


# Errors: whatever is wrong, the answer is {"error": words}.


def _handle_errors(app: FastAPI) -> None:
    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        problems = error.errors()
        if any(problem["type"] == "json_invalid" for problem in problems):
            return _Answer({"error": "the body is not JSON"}, 400)
        return _Answer({"error": "; ".join(map(_in_words, problems))}, 422)

    @app.exception_handler(SplendorError)
    async def refused(request: Request, error: SplendorError) -> Response:
        if isinstance(error, RequestError):
            return _Answer({"error": str(error), **error.more}, error.status)
        return _Answer({"error": str(error)}, 422)

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        return _Answer({"error": error.detail}, error.status_code)

    @app.exception_handler(Exception)
    async def defect(request: Request, error: Exception) -> Response:
        return _Answer({"error": "the server has a defect; its log says more"}, 500)


def _in_words(problem: Any) -> str:
    place = ".".join(str(part) for part in problem["loc"] if part != "body")
    return f"{place}: {problem['msg']}" if place else problem["msg"]


class Guard:
    """Refuses what other sites may make a browser send, and bodies that are too large or slow.

    A page of another site can send requests to this machine. Its posts are known by `Origin`, and
    by their type, since a plain form cannot say JSON. And it can point its own name at this machine
    (DNS rebinding); then `Host` has that name, which is no address and not in `hosts`.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str] = ()) -> None:
        self._app = app
        self._hosts = {"localhost", *map(str.lower, hosts)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        send = partial(_send_with_headers, send, scope["path"])
        try:
            headers = Headers(scope=scope)
            self._check(scope["method"], headers)
            most = _MAX_RECORD if scope["path"] == "/api/replays" else _MAX_BODY
            receive = await _read_body(headers, receive, most)
        except RequestError as error:
            await _Answer({"error": str(error)}, error.status)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _check(self, method: str, headers: Headers) -> None:
        host = headers.get("host", "").lower()
        name = _host_name(f"//{host}")
        if not (_is_address(name) or name in self._hosts):
            raise RequestError(403, f"this server is not called {name!r}; see --allow-host")
        origin = headers.get("origin")
        if origin is not None and origin.lower().partition("//")[2] != host:
            raise RequestError(403, f"requests from {origin!r} are refused")
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if method == "POST" and kind != "application/json":
            raise RequestError(415, f"the content type must be application/json, not {kind!r}")


def _host_name(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


async def _read_body(headers: Headers, receive: Receive, most: int) -> Receive:
    """Read the body, and return what gives it once more.

    Raises:
        RequestError: It has more bytes than `most`, or does not come.
    """
    too_large = RequestError(413, f"the body has more than {most} bytes")
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > most:
        raise too_large
    body = b""
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            while True:
                message = await receive()
                body += message.get("body", b"")
                if len(body) > most:
                    raise too_large
                if not message.get("more_body", False):
                    break
    except TimeoutError:
        raise RequestError(408, "the body did not come in time") from None
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return messages.pop() if messages else await receive()

    return again


async def _send_with_headers(send: Send, path: str, message: Message) -> None:
    if message["type"] == "http.response.start":
        headers = MutableHeaders(scope=message)
        headers.update(_HEADERS)
        # The page is asked for anew each time, and what a seat sees stays in no cache.
        headers["Cache-Control"] = "no-store" if path.startswith("/api/") else "no-cache"
    await send(message)


# The command.


def serve(
    host: str,
    port: int,
    more_agents: Sequence[str] = (),
    *,
    allowed_hosts: Sequence[str] = (),
    record: Path | None = None,
    open_page: bool = False,
    version: str = "",
) -> None:
    """Serve until the process is interrupted.

    Raises:
        SplendorError: An agent cannot be made, or the address cannot be used.
    """
    app = create_app(more_agents, hosts=[host, *allowed_hosts], record=record, version=version)
    asyncio.run(_warm_up())
    config = uvicorn.Config(
        app,
        log_level="warning",
        limit_concurrency=_MAX_CONNECTIONS,
        timeout_graceful_shutdown=1,
    )
    listening = _listen(host, port)
    port = listening.getsockname()[1]
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
    if not _is_loopback(host):
        print("warning: everybody who reaches this machine can open tables and use its processor")
    print(f"open {address} in a browser; Ctrl+C ends the server and its games", flush=True)
    if open_page:
        webbrowser.open(address)
    _Server(config, app.state.close_tables).run([listening])


class _Server(uvicorn.Server):
    """Tells those who wait for a change of a table when the server ends, else it would cut them."""

    def __init__(self, config: uvicorn.Config, close_tables: Callable[[], None]) -> None:
        super().__init__(config)
        self._close_tables = close_tables

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See `uvicorn.Server`."""
        self._close_tables()
        await super().shutdown(sockets)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Only where the protocol is named does asyncio send small packets at once; else a View waits
    # up to 40 ms for the acknowledgement of its own header.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(_BACKLOG)  # now, so that whoever comes before the server runs may wait
    except (OSError, OverflowError) as error:
        listening.close()
        raise SplendorError(f"cannot listen at {host} port {port}: {error}") from None
    return listening


def _is_loopback(host: str) -> bool:
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


async def _warm_up() -> None:
    """Play a game, so that all it needs is compiled before anybody waits for it."""
    tables = Tables(Agents(), lambda record: None)
    seats = [Seat(agent="greedy"), Seat(agent="greedy")]
    table = tables.open(Game(seed=0), "standard", seats, 0.0)
    while not table.game.is_over:
        await table.wait(table.version, _POLL_SECONDS)
    table.view(0)
