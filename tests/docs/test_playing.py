"""The commands on the page about playing do what it says."""

import io
import re
from pathlib import Path

import pytest

from splendor_env.cli import main

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "playing.md").read_text(encoding="utf-8")


def commands(name):
    return [line.split() for line in re.findall(rf"^splendor ({name}.*)$", PAGE, re.MULTILINE)]


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_commands_for_playing(monkeypatch, capsys):
    pytest.importorskip("onnxruntime")
    assert len(commands("play")) == 5
    for command in commands("play"):
        monkeypatch.setattr("sys.stdin", io.StringIO("take W U G\n\n"))
        assert main(command) == 0
        assert "tokens " in capsys.readouterr().out


def test_commands_for_replays(monkeypatch, capsys, tmp_path):
    match = ["evaluate", "racer", "--against", "builder", "--games", "4"]
    assert main([*match, "--record", "games.jsonl"]) == 0
    assert len(commands("replay")) == 6
    for command in commands("replay"):
        monkeypatch.setattr("sys.stdin", io.StringIO("\nend\nquit\n"))
        assert main(command) == 0
    out = capsys.readouterr().out
    assert "4 of 4 games agree with the rules" in out and "games 4, deals 2" in out
    assert {path.name for path in tmp_path.iterdir()} >= {
        *("games.jsonl", "seen_by_0.jsonl", "game.gif", "table.png")
    }


def test_picture_of_the_table_is_there_and_small():
    image = pytest.importorskip("PIL.Image")
    [path] = re.findall(r"!\[[^]]+\]\(([^)]+)\)", PAGE)
    with image.open(DOCS / path) as picture:
        assert picture.size == (800, 564)
    assert (DOCS / path).stat().st_size < 120_000
