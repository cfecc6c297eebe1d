"""The command `splendor serve`."""

import http.client
import json
import signal
import socket
import subprocess
import sys

import pytest

from splendor_env.cli import main

pytest.importorskip("uvicorn")
pytest.importorskip("fastapi")


def test_serve_prints_its_address_and_ends_on_an_interrupt():
    command = [sys.executable, "-m", "splendor_env.cli", "serve", "--port", "0"]
    command += ["--allow-host", "table.example"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        assert line.startswith("open http://127.0.0.1:")
        connection = http.client.HTTPConnection(line.split("/")[2], timeout=60)
        connection.request("GET", "/api/setup", headers={"Host": "table.example"})
        assert "greedy" in json.loads(connection.getresponse().read())["agents"]
        connection.close()
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130


def test_serve_without_its_extra_names_it(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "splendor_env.web.server", None)
    assert main(["serve"]) == 2
    assert "error: the web table needs the extra `web`" in capsys.readouterr().err


def test_serve_refuses_what_cannot_be(capsys, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["serve", "--port", port]) == 2
    assert f"cannot listen at 127.0.0.1 port {port}" in capsys.readouterr().err
    assert main(["serve", "--port", "99999"]) == 2
    assert main(["serve", "--agent", "nobody"]) == 2
    assert "unknown agent 'nobody'" in capsys.readouterr().err
    assert main(["serve", "--agent", "external:./engine --key 1"]) == 2
    assert "--agent NAME=external:./engine --key 1" in " ".join(capsys.readouterr().err.split())
    assert main(["serve", "--record", str(tmp_path)]) == 2
