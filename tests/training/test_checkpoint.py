import hashlib
import json
import os
import pickle
import shutil
import stat
import subprocess
import warnings

import numpy as np
import pytest

pytest.importorskip("safetensors.torch")

import safetensors.torch
import torch

from splendor_env.agents import make_agent
from splendor_env.agents.builtin import RandomAgent
from splendor_env.agents.layouts import layouts
from splendor_env.core.actions import NUM_ACTIONS
from splendor_env.core.batch import Batch
from splendor_env.core.observation import LAYOUT_VERSION, OBSERVATION_SIZE
from splendor_env.core.state import SplendorError, standard
from splendor_env.evaluation import play_match
from training import checkpoint
from training.checkpoint import (
    CHECKPOINT_VERSION,
    PolicyWarning,
    check_layouts,
    git_commit,
    library_versions,
    load_policy,
    metadata,
    remove_leftovers,
    save_policy,
    state_version,
    weights_from_bytes,
    weights_to_bytes,
    write_atomically,
)
from training.networks import NETWORKS, NetworkSizes, PolicyNetwork, win_shares
from training.policy_agent import PolicyAgent

SIZES = NetworkSizes("mlp", 16, 1, 1, 8)


def make_network(seed=0, sizes=SIZES):
    torch.manual_seed(seed)
    return PolicyNetwork(sizes)


def save(folder, network, step=10):
    save_policy(folder, network, standard(2), step=step, evaluation={"random": 0.5})


def edit(folder, **changes):
    about = json.loads((folder / "policy.json").read_text())
    (folder / "policy.json").write_text(json.dumps(about | changes))


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("layers", [(1, 1), (0, 2), (2, 0), (0, 0)])
def test_a_policy_reads_back(tmp_path, kind, layers):
    network = make_network(sizes=NetworkSizes(kind, 16, *layers, 8))
    save(tmp_path, network)
    loaded, about = load_policy(tmp_path)
    observation = torch.rand(3, OBSERVATION_SIZE)
    for one, two in zip(network(observation), loaded(observation), strict=True):
        assert torch.equal(one, two)
    assert loaded(observation)[0].shape == (3, NUM_ACTIONS)
    assert loaded(observation)[1].shape == (3, 4)
    assert about["step"] == 10
    assert about["evaluation"] == {"random": 0.5}
    assert about["rules"] == standard(2)._asdict()
    assert about["num_players"] == [2]
    assert about["algorithm"] == "ppo"
    assert "torch" in about["versions"]


def test_a_policy_for_several_numbers_of_players_keeps_what_they_have_in_common(tmp_path):
    several = [standard(number)._replace(target_points=9) for number in (2, 3, 4)]
    save_policy(tmp_path, make_network(), several, step=1, algorithm="mine")
    _, about = load_policy(tmp_path)
    assert about["num_players"] == [2, 3, 4]
    assert about["algorithm"] == "mine"
    rules = several[0]._asdict()
    del rules["num_players"], rules["num_nobles"]
    assert about["rules"] == rules
    agent = make_agent(f"ppo:{tmp_path}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for one in several:
            agent.act(Batch(one, 1).games, one, np.arange(1))
    with pytest.warns(PolicyWarning, match=r"trained for target_points 9 \(here 15\)$"):
        agent.act(Batch(standard(3), 1).games, standard(3), np.arange(1))


def git(folder, *arguments):
    identity = ["-c", "user.name=Test", "-c", "user.email=test@example.org"]
    return subprocess.run(
        ["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A repository in which the program is made to think that it lies."""
    if shutil.which("git") is None:
        pytest.skip("needs git")
    folder = tmp_path / "checkout"
    (folder / "training").mkdir(parents=True)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    monkeypatch.setattr(checkpoint, "__file__", str(folder / "training" / "checkpoint.py"))
    git_commit.cache_clear()
    yield folder
    git_commit.cache_clear()


def test_the_commit_of_the_program_is_saved(checkout, tmp_path):
    git(checkout, "init")
    (checkout / "file").write_text("one")
    git(checkout, "add", "file")
    git(checkout, "commit", "--message", "first")
    git(checkout, "tag", "--annotate", "v1", "--message", "tagged")
    commit = git(checkout, "rev-parse", "HEAD")
    assert git_commit() == commit
    save(tmp_path, make_network())
    assert load_policy(tmp_path)[1]["git_commit"] == commit
    git_commit.cache_clear()
    (checkout / "runs").mkdir()
    (checkout / "runs" / "metrics.csv").touch()
    assert git_commit() == commit
    git_commit.cache_clear()
    (checkout / "file").write_text("two")
    assert git_commit() == f"{commit}+"


def test_without_a_repository_or_git_there_is_no_commit(checkout, tmp_path, monkeypatch):
    assert git_commit() is None
    git(checkout, "init")
    git_commit.cache_clear()
    assert git_commit() is None  # nothing is committed
    git_commit.cache_clear()
    monkeypatch.setenv("PATH", "")
    assert git_commit() is None
    save(tmp_path, make_network())
    assert load_policy(tmp_path)[1]["git_commit"] is None


def test_a_newer_policy_takes_the_place_of_the_older(tmp_path):
    save(tmp_path, make_network(0), step=1)
    save(tmp_path, make_network(1), step=2)
    assert load_policy(tmp_path)[1]["step"] == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "policy.json",
        "weights-000000000002.safetensors",
    ]


def test_a_crash_between_the_two_files_leaves_the_old_pair(tmp_path, monkeypatch):
    save(tmp_path, make_network(0), step=1)

    def crash(path, content):
        if path.suffix == ".json":
            raise KeyboardInterrupt
        write_atomically(path, content)

    monkeypatch.setattr("training.checkpoint.write_atomically", crash)
    with pytest.raises(KeyboardInterrupt):
        save(tmp_path, make_network(1), step=2)
    network, about = load_policy(tmp_path)
    assert about["step"] == 1
    assert torch.equal(network.policy[0].weight, make_network(0).policy[0].weight)


def test_an_unfinished_write_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_atomically(tmp_path / "file", b"new")
    assert list(tmp_path.iterdir()) == []


def test_the_move_of_a_file_is_on_the_disk_too(tmp_path, monkeypatch):
    synced = []

    def fsync(handle):
        is_folder = stat.S_ISDIR(os.fstat(handle).st_mode)
        synced.append((is_folder, (tmp_path / "file").exists()))
        if is_folder:
            raise OSError("this file system cannot")

    monkeypatch.setattr("os.fsync", fsync)
    write_atomically(tmp_path / "file", b"new")
    assert synced == [(False, False), (True, True)] if os.name == "posix" else [(False, False)]
    assert (tmp_path / "file").read_bytes() == b"new"


def test_what_a_kill_has_left_is_removed_and_nothing_else(tmp_path, monkeypatch):
    (tmp_path / "policy").mkdir()
    (tmp_path / "opponents").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lambda *names: None)
        patch.setattr(os, "chmod", lambda *names: None)
        for name in (
            "config.toml",
            "versions.json",
            "metrics.csv",
            "learning_curve.png",
            "calibration_2p.png",
            "resume-000000000512.safetensors",
            "resume-000000000512.pt",
            "policy/weights-000000000512.safetensors",
            "policy/policy.json",
            "opponents/step-000000000512.safetensors",
        ):
            write_atomically(tmp_path / name, b"half")
    others = [".lock", "config.toml", ".notes.txt-12345678", ".config.toml", ".config.toml-1234567"]
    for name in others:
        (tmp_path / name).touch()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / ".config.toml-12345678").touch()
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 16
    remove_leftovers(tmp_path)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {*others, "mine/.config.toml-12345678"}


def test_the_state_of_games_has_a_version(monkeypatch):
    version = state_version()
    assert version == state_version() and len(version) == 16
    fields = checkpoint.GAME.descr
    monkeypatch.setattr(checkpoint, "GAME", np.dtype([fields[1], fields[0], *fields[2:]]))
    assert state_version() != version


@pytest.mark.parametrize("key", layouts())
def test_weights_of_another_layout_are_refused_with_both(tmp_path, key):
    network = make_network()
    content = weights_to_bytes(network)
    assert json.loads(metadata(content)["layouts"]) == layouts()
    weights_from_bytes(content, make_network(1), tmp_path)
    ours = layouts()[key]
    content = safetensors.torch.save(
        network.state_dict(), {"layouts": json.dumps(layouts() | {key: 98765})}
    )
    with pytest.raises(SplendorError, match=f"{tmp_path} was made for {key} 98765.*{ours!r}"):
        weights_from_bytes(content, make_network(1), tmp_path)
    check_layouts(layouts() | {"more": 1}, tmp_path)
    with pytest.raises(SplendorError, match=f"{key} 98765.* has {ours!r}.*with ..'torch': '9'"):
        check_layouts(layouts() | {key: 98765, "versions": {"torch": "9"}}, tmp_path)


@pytest.mark.parametrize("about", [None, {}, {"layouts": "[]"}, {"layouts": "{}"}])
def test_weights_that_do_not_say_their_layout_are_refused(tmp_path, about):
    content = safetensors.torch.save(make_network().state_dict(), about)
    with pytest.raises(SplendorError, match="does not say for which observation_layout"):
        weights_from_bytes(content, make_network(), tmp_path)


def test_loading_unpickles_nothing(tmp_path, monkeypatch):
    save(tmp_path, make_network())

    def fail(*args, **kwargs):
        raise AssertionError("something was unpickled")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, fail)
    monkeypatch.setattr(torch, "load", fail)
    network, about = load_policy(tmp_path)
    assert about["network"] == network.sizes._asdict()


def test_missing_files_are_named(tmp_path):
    with pytest.raises(SplendorError, match=r"no policy in .*nowhere"):
        load_policy(tmp_path / "nowhere")
    save(tmp_path, make_network())
    next(tmp_path.glob("weights-*")).unlink()
    with pytest.raises(SplendorError, match="cannot read the weights"):
        load_policy(tmp_path)


def test_broken_files_are_named(tmp_path):
    save(tmp_path, make_network())
    weights = next(tmp_path.glob("weights-*"))
    content = weights.read_bytes()
    weights.write_bytes(content[: len(content) // 2])
    with pytest.raises(SplendorError, match="digest"):
        load_policy(tmp_path)
    (tmp_path / "policy.json").write_text('{"checkpoint_version": 1')
    with pytest.raises(SplendorError, match=r"policy\.json is broken"):
        load_policy(tmp_path)
    for text in ("[]", "{}", '"x"', "null"):
        (tmp_path / "policy.json").write_text(text)
        with pytest.raises(SplendorError, match="broken"):
            load_policy(tmp_path)


def test_a_weights_file_that_is_no_safetensors_file_is_refused(tmp_path):
    save(tmp_path, make_network())
    content = pickle.dumps({"not": "weights"})
    next(tmp_path.glob("weights-*")).write_bytes(content)
    edit(tmp_path, sha256=hashlib.sha256(content).hexdigest())
    with pytest.raises(SplendorError, match="does not hold the weights"):
        load_policy(tmp_path)


def test_weights_of_another_network_or_not_finite_are_refused(tmp_path):
    save(tmp_path, make_network())
    edit(tmp_path, network=SIZES._replace(layer_size=32)._asdict())
    with pytest.raises(SplendorError, match="does not hold the weights"):
        load_policy(tmp_path)
    edit(tmp_path, network=SIZES._replace(network="cards")._asdict())
    with pytest.raises(SplendorError, match="does not hold the weights"):
        load_policy(tmp_path)
    edit(tmp_path, network={"width": 3})
    with pytest.raises(SplendorError, match="broken"):
        load_policy(tmp_path)
    network = make_network()
    torch.nn.init.constant_(network.value_logits.bias, torch.nan)
    save(tmp_path, network)
    with pytest.raises(SplendorError, match="not finite"):
        load_policy(tmp_path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_shared_layers", 10**9),
        ("num_shared_layers", -1),
        ("num_separate_layers", 9),
        ("num_separate_layers", True),
        ("layer_size", 7),
        ("layer_size", 8193),
        ("layer_size", 16.0),
        ("card_size", 10**9),
        ("network", "deep"),
        ("network", None),
    ],
)
def test_sizes_that_no_config_may_have_are_refused_before_building(
    tmp_path, monkeypatch, key, value
):
    save(tmp_path, make_network())
    edit(tmp_path, network=SIZES._asdict() | {key: value})
    monkeypatch.setattr("training.checkpoint.PolicyNetwork", None)
    with pytest.raises(SplendorError, match=rf"policy\.json is broken: .*{key}"):
        load_policy(tmp_path)


def test_the_digest_is_checked_before_building(tmp_path, monkeypatch):
    save(tmp_path, make_network())
    edit(tmp_path, sha256="0" * 64)
    monkeypatch.setattr("training.checkpoint.PolicyNetwork", None)
    with pytest.raises(SplendorError, match="digest"):
        load_policy(tmp_path)


@pytest.mark.parametrize(
    "changes",
    [{"rules": 5}, {"rules": None}, {"versions": None}, {"versions": {"torch": 2}}],
)
def test_broken_rules_and_versions_are_named(tmp_path, changes):
    save(tmp_path, make_network())
    edit(tmp_path, **changes)
    with pytest.raises(SplendorError, match=r"policy\.json is broken"):
        load_policy(tmp_path)


def test_a_name_of_the_weights_that_no_file_has_is_refused(tmp_path):
    save(tmp_path, make_network())
    edit(tmp_path, weights="a\0b")
    with pytest.raises(SplendorError, match="cannot read the weights"):
        load_policy(tmp_path)


@pytest.mark.parametrize("package", ["torch", "splendor-env"])
def test_another_minor_release_is_warned_of(tmp_path, package):
    save(tmp_path, make_network())
    ours = library_versions()
    major, minor, _ = ours[package].split(".", 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_policy(tmp_path)
        edit(tmp_path, versions=ours | {package: f"{major}.{minor}.99", "numpy": "1.0"})
        load_policy(tmp_path)
    other = f"{major}.{minor}9.0"
    edit(tmp_path, versions=ours | {package: other})
    with pytest.warns(PolicyWarning, match=f"made by {package} {other} .here {major}.{minor}"):
        load_policy(tmp_path)


def test_an_agent_warns_once_of_rules_that_it_was_not_trained_for(tmp_path):
    save(tmp_path, make_network())
    agent = make_agent(f"ppo:{tmp_path}")

    def act(rules):
        agent.act(Batch(rules, 1).games, rules, np.arange(1))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        act(standard(2))
    with pytest.warns(PolicyWarning, match=r"trained for num_players 2 \(here 3\)"):
        act(standard(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        act(standard(4))
    agent = make_agent(f"ppo:{tmp_path}")
    with pytest.warns(PolicyWarning, match=r"trained for target_points 15 \(here 9\)$"):
        act(standard(2)._replace(target_points=9))


@pytest.mark.parametrize(
    ("key", "value", "ours"),
    [
        ("observation_layout", LAYOUT_VERSION + 1, LAYOUT_VERSION),
        ("observation_size", 999, OBSERVATION_SIZE),
        ("num_actions", 42, NUM_ACTIONS),
        ("checkpoint_version", 99, CHECKPOINT_VERSION),
    ],
)
def test_another_layout_is_refused_with_both_versions(tmp_path, key, value, ours):
    save(tmp_path, make_network())
    edit(tmp_path, **{key: value})
    with pytest.raises(SplendorError, match=f"{key} {value}.* {ours}"):
        load_policy(tmp_path)


def test_weights_outside_the_folder_are_not_read(tmp_path):
    save(tmp_path / "other", make_network())
    save(tmp_path / "mine", make_network())
    name = next((tmp_path / "other").glob("weights-*")).name
    (tmp_path / "mine" / name).unlink()
    edit(tmp_path / "mine", weights=f"../other/{name}")
    with pytest.raises(SplendorError, match="cannot read the weights"):
        load_policy(tmp_path / "mine")


def test_the_agent_plays_the_likeliest_legal_action(tmp_path):
    save(tmp_path / "policy", make_network())
    agent = make_agent(f"ppo:{tmp_path}")
    assert agent.name == f"ppo:{tmp_path}"
    batch = Batch(standard(2), 32, check=True)
    network = load_policy(tmp_path)[0]
    for _ in range(60):
        actions = agent.act(batch.games, batch.rules, np.arange(32))
        assert actions.dtype == np.int32
        with torch.inference_mode():
            logits, value_logits = network(torch.from_numpy(batch.observation))
        assert np.array_equal(actions, np.where(batch.action_mask, logits, -np.inf).argmax(1))
        said = agent.evaluate(batch.observation)
        assert np.array_equal(said[0], logits)
        assert np.array_equal(said[1], win_shares(value_logits))
        batch.step(actions)
    # Through the arena too, which lets it see nothing hidden.
    result = play_match(agent, RandomAgent(), standard(2), 4)
    assert result.illegal == 0


def test_a_sampling_agent_is_seeded_and_follows_the_probabilities():
    network = make_network()
    torch.nn.init.zeros_(network.action_logits.weight)
    games = np.repeat(Batch(standard(2), 1).games, 4000)
    game_id = np.arange(4000)

    def choose(seed):
        agent = PolicyAgent(network, "", sample=True, seed=seed)
        return agent.act(games, standard(2), game_id)

    first = choose(1)
    assert np.array_equal(first, choose(1))
    assert not np.array_equal(first, choose(2))
    counts = np.bincount(first, minlength=NUM_ACTIONS)
    legal = Batch(standard(2), 1).action_mask[0] == 1
    assert (counts[~legal] == 0).all()
    expected = 4000 / legal.sum()
    assert (abs(counts[legal] - expected) < 5 * expected**0.5).all()


def test_a_missing_policy_is_an_error_of_the_user(tmp_path):
    with pytest.raises(SplendorError, match="no policy in"):
        make_agent(f"ppo:{tmp_path}")
