import json

import pytest

from splendor_env import bench
from splendor_env.cli import main

SPEED = {"random_games_per_s", "decisions_per_s", "decisions_per_s_observed", "aec_step_us"}
START = {"cold_compile_s", "warm_import_s"}


@pytest.mark.parametrize("num_players", [2, 3, 4])
def test_the_engine_is_measured(num_players):
    figures = bench.measure_engine(num_players, num_games=20, repeats=1)
    assert set(figures) == SPEED
    assert all(figure > 0 for figure in figures.values())
    assert figures["decisions_per_s"] > figures["random_games_per_s"]


def test_the_measured_loops_play_the_same_games():
    import numpy as np

    from splendor_env.core.state import GAME, standard

    games, seen = np.zeros((2, 1), GAME)
    observation = np.zeros(bench.OBSERVATION_SIZE, np.float32)
    mask = np.zeros(bench.NUM_ACTIONS, np.int8)
    seed = np.uint64(3)
    num_decisions = bench.play_random_games(games, standard(2), 5, seed)
    assert num_decisions == bench.play_random_games_observed(
        seen, standard(2), 5, seed, observation, mask
    )
    assert (games == seen).all()
    assert mask.any() and observation.any()


def test_a_start_with_an_empty_cache_compiles_and_one_with_a_full_cache_does_not():
    figures = bench.measure_start(repeats=1)
    assert set(figures) == START
    assert figures["cold_compile_s"] > figures["warm_import_s"] > 0


def test_the_command_prints_and_writes_all_figures(monkeypatch, tmp_path, capsys):
    measure_engine = bench.measure_engine
    monkeypatch.setattr(bench, "measure_start", lambda: dict.fromkeys(START, 1.0))
    monkeypatch.setattr(bench, "measure_engine", lambda players: measure_engine(players, 20, 1))
    file = tmp_path / "bench.json"
    assert main(["bench", "--players", "4,2", "--json", str(file)]) == 0
    content = json.loads(file.read_text())
    assert set(content) == {"2", "4", "machine"}
    assert set(content["2"]) == set(content["4"]) == SPEED | START
    assert content["machine"]["cpu"] and content["machine"]["cores"] >= 1
    out = capsys.readouterr().out
    assert content["machine"]["cpu"] in out
    assert all(key in out for key in SPEED | START)
