"""The comparison of recipes: time, schedules, stages, what is kept, and the table."""

import json
from argparse import Namespace
from dataclasses import replace

import pytest

pytest.importorskip("torch")

from benchmarks import recipes
from benchmarks.recipes import Stage
from splendor_env.core.state import standard
from training import expert_iteration, ppo
from training.checkpoint import load_policy, save_policy
from training.networks import PolicyNetwork

pytestmark = pytest.mark.usefixtures("torch_as_before")

SMALL = {"num_games": 16, "layer_size": 8, "card_size": 4, "num_shared_layers": 0}
TAUGHT = {
    **SMALL,
    "lookahead_share": 1.0,
    "window_size": 2000,
    "warm_up": 200,
    "batch_size": 64,
    "gate_games": 2,
}


@pytest.fixture
def trial(monkeypatch):
    """A set of two recipes of a second, with the same first stage."""
    first = Stage("ppo", {**SMALL, "past_share": 0.0}, 0.5)
    trial = {
        "first": (first, Stage("expert_iteration", TAUGHT, 0.5)),
        "second": (first, Stage("expert_iteration", {**TAUGHT, "td_lambda": 0.5}, 0.5)),
    }
    monkeypatch.setitem(recipes.SETS, "auxiliary", trial)


def run(file, *more):
    recipes.main(
        [str(file), "--set", "auxiliary", "--minutes", "0.02", "--games", "20", *map(str, more)]
    )


def read(file):
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    return (
        [row for row in rows if "training" in row["key"]],
        [row for row in rows if "match" in row["key"]],
    )


@pytest.mark.slow
def test_recipes_share_a_stage_and_what_the_file_has_is_not_made_again(
    trial, tmp_path, monkeypatch, capsys
):
    file = tmp_path / "rows.jsonl"
    run(file)
    trainings, matches = read(file)
    assert [row["key"]["training"]["algorithm"] for row in trainings] == [
        "ppo",
        "expert_iteration",
        "expert_iteration",
    ]
    policies = {recipes.digest(row["key"]) for row in trainings}
    assert {path.name for path in (tmp_path / "rows.jsonl-policies").iterdir()} == policies
    assert {row["key"]["after"] for row in trainings} - {None} <= policies
    assert len(matches) == 5
    assert {(row["value"]["games"], row["value"]["seed"]) for row in matches} == {
        (20, recipes.MATCH_SEED)
    }
    printed = capsys.readouterr().out
    first, second = (line.split(" | ") for line in printed.splitlines()[2:4])
    assert first[0] == "| first" and first[-1] == "is it |"
    assert second[2] == " + ".join(
        f"{trainings[index]['value']['minutes']:.2f}" for index in (0, 2)
    )
    share = matches[-1]["value"]["win_share"]
    assert second[-1].startswith(f"{100 * share:.1f} % [")
    assert "--set auxiliary" in printed

    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:-1]) + lines[-1][:50])  # killed while it wrote
    monkeypatch.setattr(recipes.Comparison, "_train", None)
    run(file)
    assert len(read(file)[1]) == 5
    assert capsys.readouterr().out == printed


def test_a_given_policy_takes_the_place_of_ppo(trial, tmp_path, capsys):
    start = tmp_path / "start"
    network = PolicyNetwork(ppo.Config(**SMALL).network_sizes())
    save_policy(start, network, standard(2), step=0)
    run(tmp_path / "rows.jsonl", "--only", "second", "--start", start)
    trainings, matches = read(tmp_path / "rows.jsonl")
    (training,) = trainings
    assert training["key"]["training"]["algorithm"] == "expert_iteration"
    assert training["key"]["after"] == load_policy(start)[1]["sha256"][:16]
    assert training["key"]["training"]["max_minutes"] == 0.02
    folder = tmp_path / "rows.jsonl-policies" / recipes.digest(training["key"])
    about = load_policy(folder)[1]
    assert about["step"] == training["value"]["steps"] > 0  # whether the gate took it or not
    assert len(matches) == 5
    untrained, second = (line.split(" | ") for line in capsys.readouterr().out.splitlines()[2:4])
    assert untrained[0] == "| no training" and untrained[-1] == "is it |"
    assert second[0] == "| second"
    with pytest.raises(SystemExit):
        recipes.main(["x", "--set", "start", "--start", str(start)])
    with pytest.raises(SystemExit):
        run(tmp_path / "rows.jsonl", "--only", "third")
    assert "no recipe 'third'" in capsys.readouterr().err


def test_the_order_alternates_and_means_are_over_the_seeds(tmp_path, monkeypatch, capsys):
    trained = []
    shares = {"greedy": 0.1, "racer": 0.2}

    def train(self, config, folder):
        trained.append((config.seed, config.layer_size, config.max_minutes))
        figures = {"minutes": 2.0, "core_minutes": 1.5, "steps": 5000}
        return {**figures, "made_by": {"cpu": "any"}}

    def play(self, policy, opponent):
        share = shares[opponent] if isinstance(opponent, str) else 0.5
        share += 0.1 * trained[-1][0]
        return {"win_share": share, "low": 0.0, "high": 1.0}

    monkeypatch.setattr(recipes.Comparison, "_train", train)
    monkeypatch.setattr(recipes.Comparison, "play", play)
    file = tmp_path / "rows.jsonl"
    names = ("mlp, layers of 512", "mlp, layers of 256")
    recipes.main(
        [str(file), "--set", "networks", "--minutes", "2", "--seeds", "2", "--only", *names]
    )
    assert trained == [(0, 512, 2.0), (0, 256, 2.0), (1, 256, 2.0), (1, 512, 2.0)]
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == (
        "| mlp, layers of 512 | 0 | 2.00 | 1.50 | 5,000 "
        "| 10.0 % [0.0, 100.0] | 20.0 % [0.0, 100.0] | is it |"
    )
    assert lines[11:13] == [
        "| mlp, layers of 512 | 15.0 % (10.0 to 20.0) | 25.0 % (20.0 to 30.0) | is it |",
        "| mlp, layers of 256 | 15.0 % (10.0 to 20.0) | 25.0 % (20.0 to 30.0) "
        "| 55.0 % (50.0 to 60.0) |",
    ]
    assert lines[-1] == "cpu any"


def test_every_stage_of_every_set_has_valid_settings():
    options = Namespace(players=3, threads=2)
    for recipe in [recipe for kind in recipes.SETS.values() for recipe in kind.values()]:
        assert sum(stage.share for stage in recipe) == 1
        for stage in recipe:
            config = recipes.configure(stage, 10, 1, options, {})
            assert (config.num_players, config.num_threads, config.seed) == (3, 2, 1)
    for kind in set(recipes.SETS) - set(recipes.ABOUT_THE_START):
        for recipe in recipes.SETS[kind].values():
            (stage,) = recipes.without_start(recipe)
            assert stage == recipe[-1]._replace(share=1.0)


def test_short_stages_begin_sooner():
    config = expert_iteration.Config(num_games=1024, window_size=400_000, ema_decay=0.998)
    for minutes, games, window, decay in (
        (600, 1024, 400_000, 0.998),
        (15, 256, 100_000, 0.992),
        (0.1, 128, 20_000, 0.0),
    ):
        shrunk = recipes.shrunk(config, minutes)
        assert shrunk == {
            "num_games": games,
            "window_size": window,
            "warm_up": window // 8,
            "ema_decay": pytest.approx(decay),
        }
        replace(config, **shrunk)


def test_what_a_recipe_sets_is_shrunk_too():
    options = Namespace(players=2, threads=1)
    stage = Stage("expert_iteration", {"ema_decay": 0.998, "num_games": 1024}, 1.0)
    config = recipes.configure(stage, 15, 0, options, {})
    assert config.ema_decay == pytest.approx(0.992) and config.num_games == 256
    assert config.gate_games == 1  # nobody asks who is better


@pytest.mark.parametrize("option", ["--minutes", "--seeds", "--games", "--threads"])
def test_an_option_of_zero_is_refused_before_hours_of_training(option, tmp_path, capsys):
    with pytest.raises(SystemExit):
        recipes.main([str(tmp_path / "rows"), "--set", "start", option, "0"])
    assert f"argument {option}: must be above 0, not 0" in capsys.readouterr().err
    assert not (tmp_path / "rows").exists()
