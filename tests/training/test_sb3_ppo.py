import csv
import os
import shlex
import signal
import threading
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("sb3_contrib")

import torch
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from splendor_env import cli
from splendor_env.agents import make_agent
from splendor_env.agents.builtin import RandomAgent
from splendor_env.agents.layouts import layouts
from splendor_env.core.state import SplendorError, standard
from splendor_env.envs.sb3 import SplendorVecEnv
from splendor_env.evaluation import play_match
from training import sb3_ppo
from training.checkpoint import load_policy, save_policy
from training.config import DivergedError, load_config, load_run_config
from training.networks import NetworkSizes
from training.run import as_text, lock
from training.sb3_ppo import Config

pytestmark = [
    pytest.mark.usefixtures("torch_as_before"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture
def config(tmp_path):
    return Config(
        run_name="test",
        runs_folder=str(tmp_path),
        num_games=16,
        rollout_steps=16,
        batch_size=128,
        total_steps=1024,
        layer_size=16,
        snapshot_every=256,
        max_snapshots=3,
        eval_every=512,
        eval_games=4,
        checkpoint_every=512,
    )


def read_metrics(run):
    with (run / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_config_file_trains_a_policy_that_plays(tmp_path):
    path = tmp_path / "short.toml"
    path.write_text(
        'algorithm = "sb3_ppo"\ntotal_steps = 8192\nnum_games = 64\nrollout_steps = 32\n'
        "batch_size = 1024\nlayer_size = 64\nsnapshot_every = 2048\neval_every = 4096\n"
        "eval_games = 50\ncheckpoint_every = 4096\n"
    )
    config = load_config(path, [f"runs_folder={tmp_path}"])
    assert isinstance(config, Config)
    run = sb3_ppo.train(config)
    assert run == tmp_path / "short"
    agent = make_agent(f"ppo:{run}")
    assert play_match(agent, RandomAgent(), standard(2), 4).illegal == 0
    _, about = load_policy(run)
    assert about["step"] == config.total_steps
    assert about["algorithm"] == "sb3_ppo"
    assert set(about["evaluation"]) == {"random", "greedy", "past"}
    assert [int(row["step"]) for row in read_metrics(run)] == [4096, 8192]
    assert (run / "learning_curve.png").read_bytes().startswith(b"\x89PNG")
    assert list(run.glob("events.out.tfevents.*"))
    assert load_run_config(run) == replace(config, runs_folder=str(run.parent))


def test_the_same_seed_trains_the_same_policy(config):
    def digest(seed):
        short = replace(config, total_steps=512, seed=seed)
        return load_policy(sb3_ppo.train(short))[1]["sha256"]

    first = digest(1)
    assert digest(1) == first
    assert digest(2) != first


@pytest.mark.parametrize("num_players", [3, 4])
def test_three_and_four_players_train(config, num_players):
    run = sb3_ppo.train(replace(config, num_players=num_players, total_steps=256, eval_games=3))
    _, about = load_policy(run)
    assert about["rules"]["num_players"] == num_players
    agent = make_agent(f"ppo:{run}")
    assert play_match(agent, RandomAgent(), standard(num_players), 4).illegal == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_players": 0}, "num_players must be 2, 3 or 4: sb3_ppo trains one number at a time"),
        ({"batch_size": 1000}, "batch_size 1000 must divide"),
        ({"algorithm": "ppo"}, "algorithm must be one of sb3_ppo, not 'ppo'"),
        (
            dict.fromkeys(("weight_current", "weight_past", "weight_greedy", "weight_random"), 0.0),
            "one of the weights",
        ),
    ],
)
def test_settings_that_cannot_be_trained_with_are_refused(config, settings, message):
    with pytest.raises(SplendorError, match=message):
        replace(config, **settings)


def test_an_old_run_is_not_touched(config, capsys):
    short = replace(config, total_steps=256)
    runs = [sb3_ppo.train(short) for _ in range(2)]
    assert [run.name for run in runs] == ["test", "test-2"]
    assert load_run_config(runs[1]).run_name == "test-2"


@pytest.mark.parametrize("num_players", [2, 3])
@pytest.mark.parametrize(
    "sizes",
    [("mlp", 16, 1, 1, 8), ("mlp", 16, 0, 2, 8), ("mlp", 16, 2, 0, 8), ("cards", 16, 1, 1, 8)],
)
def test_the_exported_network_is_the_trained_one(config, tmp_path, sizes, num_players):
    settings = NetworkSizes(*sizes)._asdict()
    config = replace(config, num_players=num_players, **settings)
    env = SplendorVecEnv(standard(num_players), 16, [RandomAgent()])
    model = sb3_ppo._make_model(config, env, seed=0)
    model.learn(256)
    opponents = sb3_ppo.Opponents(config, tmp_path / "pool", step=0)
    opponents.update(model.policy)
    save_policy(tmp_path, opponents.current.network, standard(num_players), step=256)
    network, _ = load_policy(tmp_path)
    observation = torch.from_numpy(env.reset())
    masks = env.action_masks()
    with torch.no_grad():
        logits, value_logits = network(observation)
        share = value_logits.softmax(1)[:, 0]
        distribution = model.policy.get_distribution(observation).distribution
        expected_value = model.policy.predict_values(observation)
    assert distribution is not None
    assert torch.allclose(torch.log_softmax(logits, 1), distribution.logits, atol=1e-5)
    # 1 for the winner, -1 / (N - 1) for each of the others, and the mean of all is 0.
    reward = share - (1 - share) / (num_players - 1)
    assert torch.allclose(reward, expected_value[:, 0], atol=1e-5)
    expected, _ = model.predict(observation.numpy(), action_masks=masks, deterministic=True)
    actions = logits.masked_fill(~torch.from_numpy(masks), -torch.inf).argmax(1)
    assert np.array_equal(actions.numpy(), expected)


def test_opponents_are_the_learner_its_past_selves_and_fixed_agents(config, tmp_path):
    opponents = sb3_ppo.Opponents(config, tmp_path / "pool", step=0)
    agents, weights = opponents.draw()
    assert [agent.name for agent in agents] == ["current", "current", "greedy", "random"]
    assert weights == [0.6, 0.2, 0.15, 0.05]
    for step in (256, 512):
        opponents.pool.add(step, opponents.current.network)
    agents, weights = opponents.draw()
    names = [agent.name for agent in agents]
    assert names == ["current", "step 256", "step 512", "greedy", "random"]
    assert weights == [0.6, 0.1, 0.1, 0.15, 0.05]


def test_the_current_opponent_follows_the_learner_and_past_selves_do_not(config, tmp_path):
    env = SplendorVecEnv(standard(2), 16, [RandomAgent()])
    model = sb3_ppo._make_model(config, env, seed=0)
    opponents = sb3_ppo.Opponents(config, tmp_path, step=0)
    opponents.update(model.policy)
    opponents.pool.add(256, opponents.current.network)
    for weight in model.policy.parameters():
        torch.nn.init.zeros_(weight)
    opponents.update(model.policy)
    assert not opponents.current.network.action_logits.weight.any()
    assert opponents.pool.networks[0].action_logits.weight.any()


def test_a_resumed_run_goes_on_with_steps_optimiser_rate_and_pool(config, capsys):
    run = sb3_ppo.train(config)
    first = read_metrics(run)
    assert [int(row["step"]) for row in first] == [512, 1024]
    pool = {path.name: path.read_bytes() for path in (run / "opponents").iterdir()}
    before = torch_state(run)
    seen = {}
    make_model = sb3_ppo._make_model

    def spy(*args, **kwargs):
        model = make_model(*args, **kwargs)
        learn = model.learn

        def start(*args, **kwargs):
            seen["step"] = model.num_timesteps
            seen["optimizer"] = deepcopy(model.policy.optimizer.state_dict())
            result = learn(*args, **kwargs)
            seen["rate"] = model.lr_schedule(model._current_progress_remaining)
            return result

        model.learn = start
        seen["model"] = model
        return model

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sb3_ppo, "_make_model", spy)
        patch.setattr("pickle.load", None)  # resuming reads tensors only
        longer = replace(config, total_steps=2048)
        assert sb3_ppo.train(longer, resume=True) == run
    assert seen["step"] == 1024
    assert torch.equal(
        seen["optimizer"]["state"][0]["exp_avg"], before["policy.optimizer"]["state"][0]["exp_avg"]
    )
    assert seen["model"].num_timesteps == 2048
    assert seen["rate"] == pytest.approx(0)
    assert [int(row["step"]) for row in read_metrics(run)] == [512, 1024, 1536, 2048]
    assert read_metrics(run)[:2] == first
    assert load_policy(run)[1]["step"] == 2048
    assert [path.name for path in run.glob("resume-*")] == ["resume-000000002048.pt"]
    survivors = {path.name for path in (run / "opponents").iterdir()} & set(pool)
    assert all((run / "opponents" / name).read_bytes() == pool[name] for name in survivors)
    assert f"steps 1,024 to 2,048, {len(pool)} past selves" in " ".join(
        capsys.readouterr().err.split()
    )


def torch_state(run):
    return torch.load(next(run.glob("resume-*.pt")), weights_only=True)


def test_resuming_needs_a_run_and_the_same_network(config):
    with pytest.raises(SplendorError, match="not the folder of a run"):
        sb3_ppo.train(config, resume=True)
    run = sb3_ppo.train(replace(config, total_steps=256))
    with pytest.raises(SplendorError, match="layer_size = 16: cannot resume with 32"):
        sb3_ppo.train(replace(config, layer_size=32), resume=True)
    resume = next(run.glob("resume-*.pt"))
    resume.write_bytes(resume.read_bytes()[:1000])
    with pytest.raises(SplendorError, match="cannot resume from"):
        sb3_ppo.train(config, resume=True)
    resume.unlink()
    with pytest.raises(SplendorError, match="no checkpoint to resume from"):
        sb3_ppo.train(config, resume=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_exits(config, tmp_path, number):
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    timer = threading.Timer(1.5, os.kill, (os.getpid(), number))
    timer.start()
    with pytest.raises(SystemExit) as exit_:
        sb3_ppo.train(replace(config, total_steps=10**7, eval_every=10**6, checkpoint_every=10**6))
    timer.cancel()
    assert exit_.value.code == 128 + number
    assert handlers == (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))
    _, about = load_policy(tmp_path / "test")
    assert 0 < about["step"] < 10**7
    resumed = replace(config, total_steps=about["step"] + 256)
    assert load_policy(sb3_ppo.train(resumed, resume=True))[1]["step"] >= about["step"] + 256


def test_the_command_named_after_a_signal_resumes_the_run(config, capsys, monkeypatch):
    monkeypatch.setattr(sb3_ppo, "caught_signals", lambda: nullcontext([signal.SIGTERM]))
    config = replace(config, run_name="my [run]", seed=3)
    with pytest.raises(SystemExit):
        sb3_ppo.train(config)
    command = shlex.split(capsys.readouterr().err.splitlines()[-1].partition("go on with: ")[2])
    assert command[0] == "splendor"
    seen = []

    def train(config, resume):
        seen.append((config, resume))
        raise SplendorError("enough")

    monkeypatch.setattr(sb3_ppo, "train", train)
    cli.main(command[1:])
    assert seen == [(config, True)]


def test_a_finished_run_says_so_and_stays_as_it_is(config, capsys):
    run = sb3_ppo.train(replace(config, total_steps=300))
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    capsys.readouterr()
    assert sb3_ppo.train(replace(config, total_steps=300), resume=True) == run
    assert f"{run} is finished at step 512; --set total_steps" in capsys.readouterr().err
    with pytest.raises(SplendorError, match="has reached step 512: cannot stop at 200"):
        sb3_ppo.train(replace(config, total_steps=200), resume=True)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_resuming_removes_what_a_kill_has_left_and_needs_the_same_layouts(config, monkeypatch):
    run = sb3_ppo.train(replace(config, total_steps=256))
    left = run / "policy" / ".policy.json-abcd1234"
    left.touch()
    with monkeypatch.context() as patch:
        other = {"observation_layout": 99}
        patch.setattr("training.checkpoint.layouts", lambda: layouts() | other)
        with pytest.raises(SplendorError, match=r"cannot resume.*observation_layout.*has 99"):
            sb3_ppo.train(config, resume=True)
    assert not left.exists()
    sb3_ppo.train(replace(config, total_steps=512), resume=True)


def test_a_full_disk_under_tensorboard_stops_nothing(config, monkeypatch):
    def full(*args):
        raise OSError("No space left on device")

    monkeypatch.setattr("training.run._told", set())
    monkeypatch.setattr("torch.utils.tensorboard.SummaryWriter.add_scalar", full)
    with pytest.warns(UserWarning, match="TensorBoard failed.*No space left") as warned:
        run = sb3_ppo.train(replace(config, total_steps=512))
    assert len([one for one in warned if "No space" in str(one.message)]) == 1
    assert load_policy(run)[1]["step"] == 512


def test_a_locked_run_is_left_alone(config):
    pytest.importorskip("fcntl")
    run = sb3_ppo.train(replace(config, total_steps=256))
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    with lock(run), pytest.raises(SplendorError, match="another process"):
        sb3_ppo.train(config, resume=True)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_tensorboard_has_every_evaluation_and_update_at_its_step(config):
    run = sb3_ppo.train(config)
    scalars = EventAccumulator(str(run)).Reload()
    rows = read_metrics(run)
    for name in ("random", "greedy", "past"):
        expected = [(int(row["step"]), float(row[f"win_share_{name}"])) for row in rows]
        seen = [(event.step, event.value) for event in scalars.Scalars(f"eval/win_share_{name}")]
        assert seen == expected  # multiples of 1/8
    for name in ("train/loss", "time/steps_per_second"):
        assert [event.step for event in scalars.Scalars(name)] == [256, 512, 768, 1024]


def test_the_last_status_shows_the_last_evaluation(config, capsys, monkeypatch):
    monkeypatch.setattr("training.run.console", Console(stderr=True, width=200))
    _, about = load_policy(sb3_ppo.train(replace(config, total_steps=512)))
    status = capsys.readouterr().err.splitlines()[-1]
    assert status.rstrip().endswith(as_text(about["evaluation"]))
    assert "512/512" in status


def test_other_files_in_the_folder_are_left_alone(config):
    run = sb3_ppo.train(replace(config, total_steps=512))
    others = [
        run / "resume-old.pt",
        run / "opponents" / "step-copy.safetensors",
        run / "policy" / "weights-best.safetensors",
    ]
    for path in others:
        path.write_bytes(b"mine")
    sb3_ppo.train(config, resume=True)
    assert [path.read_bytes() for path in others] == [b"mine"] * 3
    assert load_policy(run)[1]["step"] == 1024


def test_broken_metrics_are_named(config):
    run = sb3_ppo.train(replace(config, total_steps=256))
    (run / "metrics.csv").write_bytes(b"step,minutes\nabc,1\n")
    with pytest.raises(SplendorError, match=r"metrics\.csv is broken"):
        sb3_ppo.train(config, resume=True)


def test_an_unreadable_past_self_is_named(config):
    run = sb3_ppo.train(replace(config, total_steps=512))
    (run / "opponents" / "step-000000000001.safetensors").mkdir()
    with pytest.raises(SplendorError, match=r"cannot read .*step-000000000001"):
        sb3_ppo.train(config, resume=True)


@pytest.mark.parametrize("num_layers", [4, 8])  # outputs become too large, weights NaN
def test_a_diverged_training_stops_and_keeps_the_last_checkpoint(config, num_layers):
    config = replace(
        config, layer_size=64, num_shared_layers=num_layers, num_separate_layers=num_layers
    )
    run = sb3_ppo.train(replace(config, total_steps=512))
    suffixes = (".pt", ".safetensors", ".json", ".csv")
    before = {path: path.read_bytes() for path in run.rglob("*") if path.suffix in suffixes}
    wild = ["learning_rate=1", "max_grad_norm=1e30", "vf_coef=100", "total_steps=10000"]
    wild += ["checkpoint_every=1", "snapshot_every=1", "eval_every=1"]
    with pytest.raises(DivergedError, match=r"diverged: at step 768 .* since step 512"):
        sb3_ppo.train(load_run_config(run, wild), resume=True)
    assert {path: path.read_bytes() for path in before} == before
    sb3_ppo.train(replace(config, total_steps=768), resume=True)


def test_training_learns_to_beat_random(tmp_path):
    config = Config(
        run_name="learner",
        runs_folder=str(tmp_path),
        total_steps=65_536,
        num_games=64,
        batch_size=1024,
        layer_size=128,
        learning_rate=2e-3,
        ent_coef=0.02,
        eval_every=1_000_000,
        eval_games=100,
    )
    run = sb3_ppo.train(config)
    _, about = load_policy(run)
    before = play_match(RandomAgent(1), RandomAgent(2), standard(2), 200).win_share
    result = play_match(make_agent(f"ppo:{run}"), RandomAgent(3), standard(2), 200, seed=99)
    assert result.low > before + 0.1, (result, about["evaluation"])
