"""Each example runs as a user runs it, and says what it should."""

import os
import re
import shlex
import subprocess
import sys
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import pytest

from splendor_env.cli import main as splendor
from splendor_env.record import load_dataset, read_records

CHECKOUT = Path(__file__).parents[2]
GUIDE = CHECKOUT / "docs" / "own_agent.md"


def example(name, *arguments):
    """What an example prints; it must succeed."""
    script = CHECKOUT / "examples" / f"{name}.py"
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    result = subprocess.run(
        [sys.executable, str(script), *map(str, arguments)],
        env=environment,
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def needs(*modules):
    missing = [module for module in modules if find_spec(module) is None]
    return pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}")


@pytest.mark.parametrize("num_players", [2, 4])
def test_random_match(num_players):
    output = example("random_match", "--games", 3, "--players", num_players, "--seed", 5)
    assert re.search(r"games 3, decisions \d{3,}, illegal actions 0\n", output)
    assert output.count("player_") == num_players


def test_random_match_stops_after_its_steps():
    assert "games 0, decisions 50, illegal actions 0" in example("random_match", "--steps", 50)


def test_make_dataset(tmp_path):
    sizes = ["--games", 3, "--players", 3, "--agent", "racer", "--seed", 5]
    output = example("make_dataset", *sizes, "--out", tmp_path / "data")
    records = list(read_records(tmp_path / "data" / "games.jsonl.gz"))
    assert [record["seats"] for record in records] == [["racer"] * 3] * 3
    assert len({str(record["deal"]) for record in records}) == 3
    dataset = load_dataset(tmp_path / "data" / "games.jsonl.gz")
    card = (tmp_path / "data" / "README.md").read_text(encoding="utf-8")
    assert output.startswith("# Splendor self-play: racer, 3 players")
    assert f"| decisions | {len(dataset.action):,} |" in card
    shares = [sum(record["result"]["share"][seat] for record in records) / 3 for seat in range(3)]
    assert f"| win shares by seat | {', '.join(f'{share:.1%}' for share in shares)} |" in card
    digest = sha256((tmp_path / "data" / "games.jsonl.gz").read_bytes()).hexdigest()
    assert f"SHA-256 `{digest}`" in card and "**Licence.** MIT" in card
    assert 'load_dataset("games.jsonl.gz")' in card


def test_make_dataset_refuses_no_games_in_words():
    with pytest.raises(AssertionError, match="--games must be at least 1, not -1"):
        example("make_dataset", "--games", -1)


def test_own_agent():
    output = example("own_agent", "--games", 40)
    assert "examples.own_agent:2.0: 2 players" in output
    assert re.search(r"illegal +│ +0 ", output)


def test_the_commands_of_the_guide_to_own_agents(capsys, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(CHECKOUT))  # also where `examples` is not installed
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"^splendor (.*)$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    commands = [command for command in commands if "external_engine" not in command]
    assert len(commands) == 4
    assert splendor([*commands[0].split(), "--games", "40"]) == 0
    assert "examples.own_agent:2.0: 2 players" in capsys.readouterr().out
    messages = (
        "no policy in runs/quickstart|needs a checkout",
        r"no policy in runs/quickstart\.onnx|need onnxruntime",
        "no file 'runs/own.onnx'|needs onnxruntime",
    )
    for command, message in zip(commands[1:], messages, strict=True):
        assert splendor(command.split()) == 2
        assert re.search(message, capsys.readouterr().err)


def test_external_engine_by_the_command_of_the_guide(capsys, monkeypatch):
    monkeypatch.chdir(CHECKOUT)
    command = re.search(
        r"^splendor (.*external_engine.*)$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert command is not None
    arguments = shlex.split(command[1].replace("external:python", f"external:{sys.executable}"))
    assert splendor([*arguments, "--games", "20", "--players", "3"]) == 0
    output = capsys.readouterr().out
    assert re.search(r"illegal +│ +0 ", output) and re.search(r"failed +│ +0 ", output)
    assert float(re.search(r"win share +│ +([0-9.]+)%", output)[1]) > 80


def test_external_engine_needs_nothing_of_ours():
    source = (CHECKOUT / "examples" / "external_engine.py").read_text(encoding="utf-8")
    assert re.findall(r"^(?:import|from) (\w+)", source, re.MULTILINE) == ["json", "sys"]
    assert len(source.splitlines()) < 60


@needs("torch", "onnx", "onnxscript", "onnxruntime")
@pytest.mark.slow
def test_own_onnx_agent(tmp_path, capsys):
    path = tmp_path / "own.onnx"
    output = example("own_onnx_agent", "--steps", 20, "--games", 20, "--file", path)
    assert "illegal actions 0" in output
    spec = f"examples.own_onnx_agent:{path}"
    assert splendor(["evaluate", spec, "--against", "random", "--games", "20"]) == 0
    assert re.search(r"illegal +│ +0 ", capsys.readouterr().out)


@needs("torch", "tensorboard")
@pytest.mark.slow
def test_cleanrl_style_ppo(tmp_path):
    sizes = ["--steps", 1024, "--num-envs", 16, "--num-steps", 32, "--eval-games", 20]
    output = example("cleanrl_style_ppo", *sizes, "--logdir", tmp_path)
    assert re.search(r"before: win share against random \d+\.\d%", output)
    assert re.search(r"after 1024 steps: win share against random \d+\.\d%", output)
    events = next(tmp_path.glob("seed_1/events.*")).read_bytes()
    assert b"charts/SPS" in events
    assert b"losses/policy_loss" in events


@needs("torch", "stable_baselines3", "sb3_contrib")
@pytest.mark.slow
def test_sb3_maskable_ppo():
    output = example("sb3_maskable_ppo", "--steps", 1, "--eval-games", 20)
    assert re.search(r"after 4096 steps .*: win rate against random \d+\.\d%", output)
    assert re.search(r"one more game by `predict`: reward [+-]\d", output)


@needs("torch", "stable_baselines3", "sb3_contrib", "optuna")
@pytest.mark.slow
def test_optuna_tune_keeps_its_study_in_a_file(tmp_path):
    path = tmp_path / "study.db"
    output = example(
        *("optuna_tune", "--trials", 2, "--steps", 3, "--eval-games", 5, "--storage", path)
    )
    assert "trial 0: complete" in output
    assert "best of 2: " in output
    assert path.read_bytes().startswith(b"SQLite format 3")
