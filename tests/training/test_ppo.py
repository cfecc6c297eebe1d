import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("torch")

import safetensors
import torch

from splendor_env.agents import make_agent
from splendor_env.agents.layouts import layouts
from splendor_env.core.state import SplendorError, standard
from splendor_env.evaluation import play_match
from training import loop, ppo
from training.checkpoint import load_policy
from training.config import dump_config, load_config, load_run_config
from training.networks import PolicyNetwork, masked_log_probs
from training.policy_agent import PolicyAgent
from training.rollout import Rollout, SelfPlay

pytestmark = pytest.mark.usefixtures("torch_as_before")

PROJECT = Path(__file__).parents[2]


@pytest.fixture
def config(tmp_path):
    return ppo.Config(
        run_name="test",
        runs_folder=str(tmp_path),
        precision="float32",
        num_games=32,
        rollout_steps=16,
        batch_size=128,
        total_steps=3_000,
        layer_size=16,
        network="cards",
        card_size=8,
        snapshot_every=600,
        max_snapshots=3,
        past_share=0.25,
        eval_every=1_000,
        eval_games=4,
        checkpoint_every=1_000,
    )


def play(config, num_players=2, num_steps=16):
    """A finished rollout of an untrained network, and the learner that made it."""
    learner = ppo.Learner(config)
    rules = standard(num_players)
    rollout = Rollout(num_steps, config.num_games, num_players)
    games = SelfPlay(rules, config.num_games, 0, 1)
    games.collect(learner.network, {}, np.empty(0), learner.infer, rollout)
    rollout.finish(config.gae_lambda)
    return learner, rollout


def read_metrics(run):
    with (run / "metrics.csv").open() as file:
        return list(csv.DictReader(file))


def files_of(run):
    """Content of everything that a run goes on from, but for the time that it took."""
    kept = [*run.glob("opponents/*"), *run.glob("policy/*.safetensors")]
    content = {str(path.relative_to(run)): path.read_bytes() for path in kept}
    for path in run.glob("resume-*"):
        with safetensors.safe_open(path, "pt") as file:
            values, keys = json.loads(file.metadata()["values"]), file.keys()
            content |= {
                f"{path.name} {key}": file.get_tensor(key).numpy().tobytes() for key in keys
            }
        del values["minutes"]
        for statistics in values["statistics"]:
            for key in [key for key in statistics if key.startswith("steps_per_second")]:
                del statistics[key]
        content[f"{path.name} values"] = values
    return content


def interrupt_at_first_evaluation(config, number=signal.SIGINT):
    """Train until the first evaluation; the run's folder."""
    seen = []

    def stop(step, evaluation):
        seen.append(step)
        os.kill(os.getpid(), number)

    with pytest.raises(SystemExit) as stopped:
        ppo.train(config, on_evaluation=stop)
    assert stopped.value.code == 128 + number
    assert len(seen) == 1
    return config.run_folder


def test_train_writes_everything_that_its_docstring_lists(config):
    run = ppo.train(config)
    names = {path.name for path in run.iterdir()}
    assert {"config.toml", "versions.json", "policy", "metrics.csv", "opponents"} <= names
    assert {"learning_curve.png", "calibration.png", "diagnostics.png"} <= names
    assert any(name.startswith("events.") for name in names)
    assert load_run_config(run) == replace(config, runs_folder=str(run.parent))
    about = json.loads((run / "policy/policy.json").read_bytes())
    assert about["algorithm"] == "ppo" and about["num_players"] == [2]
    assert about["step"] >= config.total_steps
    rows = read_metrics(run)
    assert len(rows) == 3 and int(rows[-1]["step"]) == about["step"]
    last = {key: float(value) for key, value in rows[-1].items() if value}
    assert about["evaluation"] == {
        name: last[f"win_share_{name}"] for name in ("random", "greedy", "past")
    }
    assert 0 < last["entropy"] < np.log(50) and last["approx_kl"] >= 0
    assert 0 <= last["clip_fraction"] <= 1 and last["explained_variance"] <= 1
    assert last["learning_rate"] < config.learning_rate and last["steps_per_second"] > 0
    assert 10 < last["rounds"] <= 100


def test_train_steps_are_the_decisions_of_the_learner(config):
    run = ppo.train(replace(config, past_share=0.0, total_steps=512))
    assert json.loads((run / "policy/policy.json").read_bytes())["step"] == 512  # 32 x 16


@pytest.mark.parametrize("num_threads", [1, 2])
def test_train_resumed_run_equals_an_uninterrupted_one_bit_for_bit(config, num_threads):
    config = replace(config, num_threads=num_threads)
    whole = ppo.train(replace(config, run_name="whole"))
    part = interrupt_at_first_evaluation(replace(config, run_name="part"))
    assert files_of(part) != files_of(whole)
    ppo.train(replace(config, run_name="part"), resume=True)
    assert files_of(part) == files_of(whole)
    timed = ("minutes", "steps_per_second")
    untimed = [
        [{key: row[key] for key in row if key not in timed} for row in read_metrics(run)]
        for run in (part, whole)
    ]
    assert untimed[0] == untimed[1]
    assert len(untimed[0]) >= 3


def test_train_resumed_run_of_all_player_counts_equals_an_uninterrupted_one(config):
    config = replace(config, num_players=0, total_steps=4_000)
    whole = ppo.train(replace(config, run_name="whole"))
    part = interrupt_at_first_evaluation(replace(config, run_name="part"))
    ppo.train(replace(config, run_name="part"), resume=True)
    assert files_of(part) == files_of(whole)


def test_train_on_all_player_counts_evaluates_and_names_each(config):
    run = ppo.train(replace(config, num_players=0))
    about = json.loads((run / "policy/policy.json").read_bytes())
    assert about["num_players"] == [2, 3, 4] and "num_players" not in about["rules"]
    assert {"random_2p", "greedy_3p", "past_4p"} <= set(about["evaluation"])
    assert (run / "calibration_4p.png").exists()


def test_train_sigterm_saves_and_exits_with_143(config):
    run = interrupt_at_first_evaluation(config, signal.SIGTERM)
    _, about = load_policy(run)
    assert about["step"] == int(read_metrics(run)[-1]["step"])


def test_train_same_seed_same_weights_and_another_seed_others(config):
    config = replace(config, total_steps=600)
    runs = [
        ppo.train(replace(config, run_name=name, seed=seed))
        for name, seed in (("a", 5), ("b", 5), ("c", 6))
    ]
    first, same, other = map(files_of, runs)
    assert first == same
    assert first != other


@pytest.mark.slow
def test_train_killed_at_any_moment_can_be_used_and_resumed(config, tmp_path):
    # Nearly all of the time goes into saving, so that most kills hit it.
    config = replace(
        config, total_steps=10_000_000, checkpoint_every=1, snapshot_every=1, eval_every=10_000_000
    )
    file = tmp_path / "killed.toml"
    file.write_text(dump_config(config))
    rng = random.Random(1)
    arguments, steps = [str(file)], []
    for _ in range(4):
        command = [sys.executable, "-m", "splendor_env.cli", "train", *arguments]
        process = subprocess.Popen(command, cwd=PROJECT, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 120
        before = steps[-1] if steps else 0
        while time.monotonic() < deadline and process.poll() is None:
            found = [*config.run_folder.glob("resume-*.safetensors")]
            if any(int(path.stem.removeprefix("resume-")) > before for path in found):
                break
            time.sleep(0.01)
        time.sleep(rng.random())
        assert process.poll() is None, process.stderr.read().decode()
        process.kill()
        process.communicate()
        network, about = load_policy(config.run_folder)
        assert about["step"] > before
        assert all(torch.isfinite(parameter).all() for parameter in network.parameters())
        steps.append(about["step"])
        arguments = [str(config.run_folder), "--resume"]
    last = load_run_config(config.run_folder, [f"total_steps={steps[-1] + 1000}"])
    ppo.train(last, resume=True)
    assert load_policy(config.run_folder)[1]["step"] >= steps[-1] + 1000


def test_train_evaluation_broken_off_costs_no_training(config):
    class BrokenOffError(Exception):
        pass

    def break_off(step, evaluation):
        raise BrokenOffError

    whole = ppo.train(replace(config, run_name="whole"))
    with pytest.raises(BrokenOffError):
        ppo.train(config, on_evaluation=break_off)
    _, about = load_policy(config.run_folder)
    assert about["step"] >= 1000 and set(about["evaluation"]) >= {"random", "greedy"}
    ppo.train(config, resume=True)
    assert files_of(config.run_folder) == files_of(whole)


def test_train_resume_of_a_finished_run_changes_nothing(config):
    run = ppo.train(replace(config, total_steps=600))
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert ppo.train(replace(config, total_steps=600), resume=True) == run
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_train_with_a_limit_of_minutes_ends_by_then_and_so_do_the_schedules(
    config, monkeypatch, capsys
):
    """A clock that every update moves on by 12 seconds, and every evaluation by none."""
    now = [0.0]
    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: now[0]))
    update = ppo._Run.update

    def slowly(run, rules):
        now[0] += 12
        return update(run, rules)

    monkeypatch.setattr(ppo._Run, "update", slowly)
    limited = replace(config, max_minutes=1.0, total_steps=10**6, eval_every=10**6)
    run = ppo.train(limited)
    [row] = read_metrics(run)
    assert float(row["minutes"]) == 1.0
    assert float(row["learning_rate"]) == pytest.approx(limited.learning_rate * (0.2 + 1) / 2)
    assert load_policy(run)[1]["step"] == int(row["step"]) < 10**6
    assert "to 1,000,000, at most 1 minutes, " in " ".join(capsys.readouterr().err.split())
    ppo.train(limited, resume=True)
    assert "is finished after 1.0 minutes; --set max_minutes=... goes on" in (
        " ".join(capsys.readouterr().err.split())
    )
    ppo.train(replace(limited, max_minutes=1.5), resume=True)
    assert [float(row["minutes"]) for row in read_metrics(run)] == [1.0, 1.6]


def test_train_starts_from_the_weights_of_a_policy(config):
    run = ppo.train(replace(config, total_steps=600))
    before = load_policy(run)[0].state_dict()
    other = replace(config, run_name="other", total_steps=600, start=str(run), learning_rate=0.0)
    after = load_policy(ppo.train(other))[0].state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    with pytest.raises(SplendorError, match="the config asks for"):
        ppo.train(replace(other, layer_size=8))


def test_train_resume_takes_the_precision_that_auto_had_found(config, monkeypatch):
    run = interrupt_at_first_evaluation(config)
    monkeypatch.setattr(loop, "faster_precision", lambda: "bfloat16")
    ppo.train(replace(config, precision="auto"), resume=True)
    assert load_run_config(run).precision == "float32"


def test_train_past_selves_have_their_share_of_the_games_on_any_number_of_threads(config):
    for num_threads in (1, 2, 8):
        tables = ppo._Table(replace(config, num_threads=num_threads), standard(2))
        num_past = sum(len(games._opponent) - games._first_past for games in tables.games)
        assert num_past == 8  # a quarter of 32


def test_train_resume_without_a_checkpoint_says_so(config):
    config.run_folder.mkdir()
    (config.run_folder / "config.toml").write_text(dump_config(config))
    with pytest.raises(SplendorError, match="no checkpoint to resume from"):
        ppo.train(config, resume=True)


@pytest.mark.parametrize("what", ["layouts", "state_version"])
def test_train_resume_from_a_program_of_another_layout_is_refused(config, monkeypatch, what):
    other = {"layouts": layouts() | {"observation_layout": 999}, "state_version": "999"}
    with monkeypatch.context() as patch:
        patch.setattr(loop, what, lambda: other[what])
        run = interrupt_at_first_evaluation(config)
    before = files_of(run)
    with pytest.raises(SplendorError, match="999" if what == "layouts" else "other records"):
        ppo.train(config, resume=True)
    assert files_of(run) == before


@pytest.mark.parametrize("damage", ["cut", "other"])
def test_train_resume_from_a_broken_file_names_it(config, damage):
    run = interrupt_at_first_evaluation(config)
    (path,) = run.glob("resume-*.safetensors")
    path.write_bytes(path.read_bytes()[:1000] if damage == "cut" else b"not a safetensors file")
    with pytest.raises(SplendorError, match=f"cannot resume from .*{path.name}"):
        ppo.train(config, resume=True)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("layer_size", 32),
        ("num_games", 64),
        ("num_players", 3),
        ("seed", 1),
        ("precision", "bfloat16"),
    ],
)
def test_train_resume_with_another_shape_is_refused(config, key, value):
    interrupt_at_first_evaluation(config)
    with pytest.raises(SplendorError, match=f"{key} = .*cannot resume with {value!r}"):
        ppo.train(replace(config, **{key: value}), resume=True)


@pytest.mark.parametrize("where", ["loss", "weights"])
def test_train_diverged_says_so_and_keeps_the_last_good_checkpoint(config, monkeypatch, where):
    def update(learner, rollout, progress):
        if where == "weights":
            learner.parameters[0].data[0] = torch.inf
        return {"policy_loss": float("nan") if where == "loss" else 0.0}

    run = interrupt_at_first_evaluation(config)
    before = files_of(run)
    monkeypatch.setattr(ppo.Learner, "update", update)
    with pytest.raises(SplendorError, match="the training diverged"):
        ppo.train(config, resume=True)
    assert files_of(run) == before


@pytest.mark.slow
def test_train_learns_to_beat_random(config):
    config = replace(
        config,
        num_games=256,
        rollout_steps=32,
        batch_size=1024,
        layer_size=64,
        learning_rate=3e-3,
        total_steps=150_000,
        eval_every=1_000_000,
        checkpoint_every=1_000_000,
    )
    network, _ = load_policy(ppo.train(config))
    torch.manual_seed(config.seed)  # the weights that the training has begun with
    untrained = PolicyAgent(PolicyNetwork(config.network_sizes()), "new")
    trained, random = PolicyAgent(network, "ppo"), make_agent("random")
    assert play_match(trained, random, standard(2), 400, 5).low > 0.85
    assert play_match(trained, untrained, standard(2), 400, 5).low > 0.85


def test_learner_gradient_is_that_of_the_written_out_loss(config):
    learner, rollout = play(config)
    # As if an update had moved the policy: some ratios are clipped, on both sides.
    rollout.log_prob += np.random.default_rng(0).normal(0, 0.4, rollout.log_prob.shape)
    data = ppo._Data(rollout)
    rows = data.rows[5:40]
    loss, statistics = learner._loss(data, 0.03, rows)
    gradient = torch.autograd.grad(loss, learner.parameters)
    expected = torch.zeros(())
    entropies = []
    advantage = rollout.advantage.ravel()
    mean, std = advantage.mean(), advantage.std()
    for row in rows.tolist():
        observation = rollout.observation.flatten(0, 1)[row : row + 1]
        logits, value_logits = learner.network(observation)
        legal = torch.from_numpy(np.flatnonzero(rollout.action_mask.reshape(-1, 78)[row]))
        probs = torch.softmax(logits[0, legal], 0)
        index = legal.tolist().index(rollout.action.ravel()[row])
        ratio = probs[index] / float(np.exp(rollout.log_prob.ravel()[row]))
        own = (advantage[row] - mean) / (std + 1e-8)
        surrogate = torch.minimum(ratio * own, ratio.clamp(0.8, 1.2) * own)
        entropy = -(probs * probs.log()).sum()
        entropies.append(entropy.item())
        target = torch.from_numpy(rollout.value_target.reshape(-1, 4)[row, :2])
        cross_entropy = -(target * torch.log_softmax(value_logits[0, :2], 0)).sum()
        loss = -surrogate - 0.03 * entropy + config.vf_coef * cross_entropy
        expected = expected + loss / len(rows)
    expected.backward()
    for ours, parameter in zip(gradient, learner.parameters, strict=True):
        torch.testing.assert_close(ours, parameter.grad, atol=2e-6, rtol=1e-3)
    assert statistics[2].item() == pytest.approx(np.mean(entropies), rel=1e-4)


def test_learner_two_threads_take_the_same_step_as_one(config):
    weights = []
    for num_threads in (1, 2):
        learner, rollout = play(replace(config, num_threads=num_threads))
        learner.update(rollout, 0.0)
        weights.append([parameter.detach().clone() for parameter in learner.parameters])
        learner.close()
    for one, two in zip(*weights, strict=True):
        torch.testing.assert_close(one, two, atol=2e-5, rtol=1e-3)


def test_learner_update_raises_the_chance_of_better_actions(config):
    learner, rollout = play(replace(config, learning_rate=1e-2, ent_coef=0.0, num_epochs=4))
    data = ppo._Data(rollout)

    def log_prob():
        with torch.no_grad():
            logits, _ = learner.infer(learner.network, data.observation)
        log_probs = masked_log_probs(logits, data.action_mask)
        return log_probs.gather(1, data.action[:, None])[:, 0].numpy()

    before = log_prob()
    np.testing.assert_allclose(before, data.log_prob.numpy(), atol=1e-5)
    learner.update(rollout, 0.0)
    change, advantage = log_prob() - before, data.advantage.numpy()
    assert change[advantage > 1].mean() > 0 > change[advantage < -1].mean()


def test_learner_update_does_not_learn_from_past_selves(config):
    _, rollout = play(config)
    rollout.is_learner[:, ::2] = False
    data = ppo._Data(rollout)
    assert len(data.rows) == rollout.action.size // 2
    assert rollout.is_learner.ravel()[data.rows].all()
    own = data.advantage.numpy()[data.rows]
    assert own.mean() == pytest.approx(0, abs=1e-5) and own.std() == pytest.approx(1, abs=1e-3)


def test_learner_update_schedules_fall_to_zero(config):
    learner, rollout = play(config)
    assert learner.update(rollout, 0.0)["learning_rate"] == config.learning_rate
    before = [parameter.detach().clone() for parameter in learner.parameters]
    assert learner.update(rollout, 1.0)["learning_rate"] == 0
    for old, new in zip(before, learner.parameters, strict=True):
        assert torch.equal(old, new)


def test_learner_statistics_of_an_unchanged_policy(config):
    learner, rollout = play(replace(config, learning_rate=0.0, num_epochs=1))
    statistics = learner.update(rollout, 0.0)
    assert statistics["approx_kl"] == pytest.approx(0, abs=1e-6)
    assert statistics["clip_fraction"] == 0
    target, value = rollout.value_target[..., 0], rollout.value[..., 0]
    expected = 1 - (target - value).var() / target.var()
    assert statistics["explained_variance"] == pytest.approx(expected, rel=1e-5)


def test_faster_precision_follows_the_instructions_of_the_processor(monkeypatch):
    for found, expected in (
        ({"avx512_bf16": True}, "bfloat16"),
        ({"amx_bf16": True}, "bfloat16"),
        ({"avx512_bf16": False, "avx2": True}, "float32"),
        ({}, "float32"),
    ):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda found=found: found, raising=False)
        assert loop.faster_precision() == expected


def test_config_checks_its_own_settings(config):
    for key, value in (("past_share", 1.5), ("precision", "float16"), ("trackers", "neptune")):
        with pytest.raises(SplendorError, match=f"{key}.*{value}"):
            replace(config, **{key: value})
    with pytest.raises(SplendorError, match="num_games 4 must be at least num_threads = 8"):
        replace(config, num_games=4, num_threads=8)


RUNS = [p for p in sorted((PROJECT / "configs").glob("*.toml")) if "league" not in p.stem]


@pytest.mark.parametrize("path", RUNS, ids=lambda p: p.stem)
def test_configs_are_valid(path):
    config = load_config(path)
    assert config.run_name == path.stem
    others = {"sb3": "sb3_ppo", "expert": "expert_iteration"}
    assert config.algorithm == others.get(path.stem.partition("_")[0], "ppo")
