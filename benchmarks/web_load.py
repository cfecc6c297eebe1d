"""How quickly the web table answers moves, and how many open games it holds.

    python benchmarks/web_load.py
    python benchmarks/web_load.py --games 50 --open-games 200 --seconds 20

The server runs in a process of its own on loopback, and so do all players here, who share the
processor with it. Everybody plays a random move against `greedy` after a pause, and waits for the
answer by long poll. A move is answered when its own View has come, and replied to when it is the
player's turn again.
"""

import argparse
import http.client
import json
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import numpy as np
from rich.console import Console
from rich.table import Table

from splendor_env.bench import machine


@dataclass
class Measured:
    """What all players of a run have seen together."""

    answers: list[float] = field(default_factory=list)  # seconds
    replies: list[float] = field(default_factory=list)
    games_over: int = 0
    errors: list[str] = field(default_factory=list)


class Player(threading.Thread):
    """Plays games against greedy, one after the other or just one.

    Args:
        address: Host and port.
        number: Seed of the moves and pauses.
        pause: Seconds between a reply and the next move, on average.
        end: Time of `perf_counter` at which to stop.
        is_endless: Begin another game when one is over.
        measured: Is added to.
    """

    def __init__(
        self,
        address: str,
        number: int,
        pause: float,
        end: float,
        is_endless: bool,
        measured: Measured,
    ) -> None:
        super().__init__()
        self._connection = http.client.HTTPConnection(address, timeout=60)
        self._random = random.Random(number)
        self._pause = pause
        self._end = end
        self._is_endless = is_endless
        self._measured = measured

    def run(self) -> None:
        """Play until the time is over, or the game."""
        try:
            self._play()
            while self._is_endless and time.perf_counter() < self._end:
                self._play()
        except (OSError, http.client.HTTPException, RuntimeError) as error:
            self._measured.errors.append(repr(error))

    def _play(self) -> None:
        seats = [{"kind": "person", "name": "load"}, {"kind": "agent", "agent": "greedy"}]
        table = self._call("POST", "/api/tables", {"players": 2, "seats": seats})
        path, secret = f"/api/tables/{table['table']}", table["secrets"]["0"]
        view = self._call("GET", path, secret=secret)
        while not view["is_over"]:
            time.sleep(self._random.uniform(0, 2 * self._pause))
            if time.perf_counter() >= self._end:
                return
            buys = [move for move in view["legal_moves"] if move.startswith("buy")]
            move = self._random.choice(buys or view["legal_moves"])
            start = time.perf_counter()
            body = {"move": move, "version": view["version"]}
            view = self._call("POST", f"{path}/moves", body, secret)
            self._measured.answers.append(time.perf_counter() - start)
            while not (view["is_over"] or view["legal_moves"]):
                view = self._call("GET", f"{path}?since={view['version']}", secret=secret)
            self._measured.replies.append(time.perf_counter() - start)
        self._measured.games_over += 1

    def _call(self, method: str, path: str, body: object = None, secret: str = "") -> dict:
        headers = {"Content-Type": "application/json"}
        if secret:
            headers["X-Seat-Secret"] = secret
        content = None if body is None else json.dumps(body)
        self._connection.request(method, path, content, headers)
        response = self._connection.getresponse()
        answer = json.loads(response.read())
        if response.status >= 400:
            raise RuntimeError(f"{response.status}: {answer['error']}")
        return answer


def measure(address: str, games: int, pause: float, seconds: float, is_endless: bool) -> Measured:
    """Let so many players play at once."""
    measured = Measured()
    end = time.perf_counter() + seconds
    players = [Player(address, n, pause, end, is_endless, measured) for n in range(games)]
    for player in players:
        player.start()
    for player in players:
        player.join()
    return measured


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--games", type=int, default=50, help="under way at once")
    parser.add_argument("--open-games", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=20.0, help="for each row at most")
    options = parser.parse_args()
    command = [sys.executable, "-m", "splendor_env.cli", "serve", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        address = urlsplit(server.stdout.readline().split()[1]).netloc
        runs = {
            f"{options.games} games, no pause": (options.games, 0.0, True),
            f"{options.games} games, pause 0.5 s": (options.games, 0.5, True),
            f"{options.open_games} open games, pause 1 s": (options.open_games, 1.0, False),
        }
        table = Table("median and 95th percentile in ms")
        for title in ("moves", "moves/s", "answer", "95 %", "reply", "95 %", "over", "errors"):
            table.add_column(title, justify="right")
        for name, (games, pause, is_endless) in runs.items():
            start = time.perf_counter()
            measured = measure(address, games, pause, options.seconds, is_endless)
            seconds = time.perf_counter() - start
            answers, replies = (1000 * np.array(t) for t in (measured.answers, measured.replies))
            table.add_row(
                name,
                f"{len(answers):,}",
                f"{len(answers) / seconds:,.0f}",
                *(f"{np.percentile(t, p):.1f}" for t in (answers, replies) for p in (50, 95)),
                str(measured.games_over),
                str(len(measured.errors)),
            )
            for error in measured.errors[:3]:
                print(f"{name}: {error}")
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(10)
    print(", ".join(f"{key} {value}" for key, value in machine().items()))
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
