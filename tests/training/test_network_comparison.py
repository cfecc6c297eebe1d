import importlib.util
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

from training import ppo
from training.checkpoint import load_policy

FILE = Path(__file__).parents[2] / "benchmarks" / "network_comparison.py"


@pytest.fixture(scope="module")
def comparison():
    spec = importlib.util.spec_from_file_location("network_comparison", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def config(tmp_path):
    threads = torch.get_num_threads()
    yield ppo.Config(
        runs_folder=str(tmp_path),
        num_games=16,
        rollout_steps=16,
        past_share=0.0,
        layer_size=8,
        card_size=4,
        total_steps=1024,
        eval_games=2,
        max_snapshots=2,
        eval_every=10**6,
    )
    torch.set_num_threads(threads)


def test_only_the_updates_are_timed(comparison, config, monkeypatch):
    now = [0.0]

    class Run(ppo._Run):
        def _update(self, *args):
            now[0] += 3
            super()._update(*args)

        def _evaluate(self, *args):
            now[0] += 1000
            super()._evaluate(*args)

    monkeypatch.setattr(ppo, "_Run", Run)
    monkeypatch.setattr(comparison.time, "perf_counter", lambda: now[0])
    clock = comparison.Clock()
    run = clock.train(config)
    assert (clock.steps, clock.seconds) == (1024, 12)
    assert load_policy(run)[1]["step"] == 1024
    late = comparison.Clock(first=3)
    late.train(replace(config, run_name="late"))
    assert (late.steps, late.seconds) == (256, 3)
    assert comparison.measure_speed(config, seconds=7) == 256 / 3
    assert ppo._Run is Run


def test_a_run_lasts_for_the_time_at_its_speed_and_the_order_alternates(
    comparison, config, monkeypatch, capsys
):
    trained = []

    def train(clock, config):
        trained.append((config.seed, config.network, config.layer_size, config.total_steps))
        clock.seconds = 60.0
        return Path(config.runs_folder)

    monkeypatch.setattr(comparison, "measure_speed", lambda config, seconds: config.layer_size)
    monkeypatch.setattr(comparison.Clock, "train", train)
    monkeypatch.setattr(comparison, "load_policy", lambda run: (None, {"step": 5}))
    monkeypatch.setattr(comparison, "load_config", lambda path: config)
    shares = iter([0.1, 0.2, 0.4, 0.3])
    monkeypatch.setattr(
        comparison,
        "play_match",
        lambda *args: Namespace(win_share=next(shares), low=0.0, high=1.0),
    )
    networks = {name: comparison.NETWORKS[name] for name in list(comparison.NETWORKS)[1:3]}
    monkeypatch.setattr(comparison, "NETWORKS", networks)
    monkeypatch.setattr("sys.argv", ["", "x.toml", "--minutes", "2", "--seeds", "2"])
    comparison.main()
    large, cards = ("mlp", 512, 512 * 120), ("cards", 8, 8 * 120)
    assert trained == [(0, *large), (0, *cards), (1, *cards), (1, *large)]
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "mlp, layers of 512   20.0% (10.0% to 30.0%)",
        "cards of 32          30.0% (20.0% to 40.0%)",
    ]
