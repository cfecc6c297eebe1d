"""A real server on loopback, and requests to it."""

import http.client
import json
import threading
import time
from contextlib import contextmanager

SECRET = "X-Seat-Secret"


class Client:
    """Sends requests to a port of this machine."""

    def __init__(self, port):
        self.port = port

    def raw(self, method, path, body=b"", headers=()):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, dict(headers))
            response = connection.getresponse()
            return response.status, response.read(), response.headers
        finally:
            connection.close()

    def call(self, method, path, body=None, secret=None):
        headers = {} if secret is None else {SECRET: secret}
        content = b""
        if body is not None:
            headers["Content-Type"] = "application/json"
            content = json.dumps(body).encode()
        status, answer, _ = self.raw(method, path, content, headers)
        return status, json.loads(answer)

    def get(self, path, secret=None, status=200):
        found, answer = self.call("GET", path, secret=secret)
        assert found == status, answer
        return answer

    def post(self, path, body, secret=None, status=200):
        found, answer = self.call("POST", path, body, secret)
        assert found == status, answer
        return answer

    def open(self, *seats, **options):
        """A new table's path, and its secrets by seat; a seat is an agent's spec or None."""
        players = [
            {"kind": "person", "name": f"person {number}"}
            if agent is None
            else {"kind": "agent", "agent": agent}
            for number, agent in enumerate(seats)
        ]
        body = {"players": len(seats), "rules": "standard", "seats": players, "delay_ms": 0}
        answer = self.post("/api/tables", body | options, status=201)
        secrets = {int(seat): secret for seat, secret in answer["secrets"].items()}
        return f"/api/tables/{answer['table']}", secrets

    def wait(self, path, view, secret=None):
        """The next view by the long poll."""
        return self.get(f"{path}?since={view['version']}", secret)

    def finish(self, path, secret, choose=lambda moves: moves[0]):
        """Play a person's seat to the end, and return the last view."""
        view = self.get(path, secret)
        while not view["is_over"]:
            if view["legal_moves"]:
                body = {"move": choose(view["legal_moves"]), "version": view["version"]}
                view = self.post(f"{path}/moves", body, secret)
            else:
                view = self.wait(path, view, secret)
        return view


@contextmanager
def running(**options):
    import uvicorn

    from splendor_env.web.server import create_app

    app = create_app(**options)
    config = uvicorn.Config(app, "127.0.0.1", 0, log_level="warning", timeout_graceful_shutdown=1)
    one = uvicorn.Server(config)
    thread = threading.Thread(target=one.run)
    thread.start()
    while not one.started:
        time.sleep(0.01)
    try:
        yield Client(one.servers[0].sockets[0].getsockname()[1])
    finally:
        one.should_exit = True
        thread.join()
