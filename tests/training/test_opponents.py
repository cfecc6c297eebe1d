import numpy as np
import pytest

pytest.importorskip("safetensors.torch")

import torch

from splendor_env.core.state import SplendorError
from training.config import PPOConfig
from training.networks import PolicyNetwork
from training.opponents import Pool

CONFIG = PPOConfig(layer_size=8, num_shared_layers=0, snapshot_every=100, max_snapshots=6)


@pytest.fixture(scope="module")
def network():
    return PolicyNetwork(CONFIG.network_sizes())


@pytest.fixture
def pool(tmp_path):
    return Pool(CONFIG, tmp_path / "opponents", step=0)


def fill(pool, network, last, every=100):
    for step in range(every, last + 1, every):
        pool.add(step, network)


def test_a_copy_is_due_at_an_interval(pool, network):
    assert [step for step in (0, 99, 100, 150) if pool.is_due(step)] == [100, 150]
    pool.add(150, network)
    assert [step for step in (150, 249, 250) if pool.is_due(step)] == [250]


def test_a_copy_does_not_change_with_the_learner_nor_learn(pool):
    learner = PolicyNetwork(CONFIG.network_sizes())
    pool.add(100, learner)
    for weight in learner.parameters():
        torch.nn.init.zeros_(weight)
    [copy] = pool.networks
    assert copy.action_logits.weight.any()
    assert not copy.training
    assert not any(weight.requires_grad for weight in copy.parameters())
    assert all(weight.requires_grad for weight in learner.parameters())


def test_files_are_read_up_to_a_step(pool, network, tmp_path):
    fill(pool, network, 400)
    again = Pool(CONFIG, tmp_path / "opponents", step=399)
    assert again.steps == [100, 200, 300]
    for weight, expected in zip(again.networks[2].parameters(), network.parameters(), strict=True):
        assert torch.equal(weight, expected) and not weight.requires_grad
    assert Pool(CONFIG, tmp_path / "nowhere", step=399).steps == []


@pytest.mark.parametrize("num_adds", [50, 400, 1000])
def test_ages_come_to_be_about_geometrically_spaced(pool, network, num_adds, monkeypatch):
    monkeypatch.setattr("training.opponents.write_atomically", lambda path, content: None)
    fill(pool, network, num_adds * 100)
    assert len(pool.steps) == len(pool.networks) == 6
    assert (pool.steps[0], pool.steps[-1]) == (100, num_adds * 100)
    ages = num_adds * 100 + 100 - np.array(pool.steps)
    ratios = ages[:-1] / ages[1:]
    even = num_adds ** (1 / 5)  # 1 to num_adds in five equal factors
    assert (ratios > even / 2).all() and (ratios < even * 2).all()


def names(tmp_path):
    return sorted(path.name for path in (tmp_path / "opponents").iterdir())


def test_the_oldest_and_the_newest_stay_and_files_go_when_told(pool, network, tmp_path):
    fill(pool, network, 2000)
    assert (pool.steps[0], pool.steps[-1]) == (100, 2000)
    assert names(tmp_path) == [f"step-{step:012d}.safetensors" for step in range(100, 2001, 100)]
    (tmp_path / "opponents" / "step-copy.safetensors").touch()
    pool.delete_dropped()
    kept = [f"step-{step:012d}.safetensors" for step in pool.steps]
    assert names(tmp_path) == [*kept, "step-copy.safetensors"]
    assert Pool(CONFIG, tmp_path / "opponents", step=2000).steps == pool.steps


def test_after_a_crash_the_pool_is_that_of_the_checkpoint(pool, network, tmp_path):
    fill(pool, network, 1000)
    pool.delete_dropped()
    state = pool.state()
    fill(pool, network, 2000)
    again = Pool(CONFIG, tmp_path / "opponents", step=1000)
    again.load_state(state)
    assert again.state() == state


def test_too_many_files_are_thinned_at_the_next_copy(pool, network, tmp_path):
    fill(pool, network, 2000)
    again = Pool(CONFIG, tmp_path / "opponents", step=2000)
    assert len(again.steps) == 20
    again.add(2100, network)
    assert len(again.steps) == 6


@pytest.mark.parametrize(("most", "steps"), [(1, [500]), (2, [100, 500]), (3, [100, 300, 500])])
def test_small_pools(tmp_path, network, most, steps):
    config = PPOConfig(layer_size=8, num_shared_layers=0, snapshot_every=100, max_snapshots=most)
    pool = Pool(config, tmp_path, step=0)
    fill(pool, network, 500)
    assert pool.steps[0] == steps[0] and pool.steps[-1] == steps[-1]
    assert len(pool.steps) == most


def test_whom_the_learner_is_even_with_it_meets_most(pool, network):
    assert pool.weights().tolist() == []
    fill(pool, network, 300)
    assert pool.weights() == pytest.approx(np.full(3, 1 / 3))
    pool.record(100, 1.0, 10_000)
    pool.record(200, 0.8, 10_000)
    pool.record(400, 0.8, 10_000)  # never there, or no more
    weights = pool.weights()
    assert weights == pytest.approx(np.array([0.02, 0.18, 0.27]) / 0.47, rel=1e-6)


def test_a_share_forgets_by_half_in_200_games_however_they_are_reported(pool, network):
    fill(pool, network, 200)
    pool.record(100, 1.0, 200)
    for _ in range(50):
        pool.record(200, 1.0, 4)
    assert pool.state() == {"steps": [100, 200], "shares": pytest.approx([0.75, 0.75])}
    pool.record(100, 0.0, 200)
    assert pool.state()["shares"][0] == pytest.approx(0.375)
    pool.record(100, 0.0, 0)
    assert pool.state()["shares"][0] == pytest.approx(0.375)


def test_a_new_copy_starts_even_and_shares_go_with_their_copies(tmp_path, network):
    pool = Pool(CONFIG, tmp_path, step=0)
    shares = {}
    for step in range(100, 3001, 100):
        pool.add(step, network)
        assert pool.state()["shares"][-1] == 0.5
        pool.record(step, step / 10_000, 10**9)
        shares[step] = step / 10_000
        assert pool.state()["shares"] == pytest.approx([shares[one] for one in pool.steps])


def test_a_resumed_run_has_the_same_shares(pool, network, tmp_path):
    fill(pool, network, 300)
    pool.record(100, 0.9, 100)
    pool.record(200, 0.2, 100)
    state = pool.state()
    again = Pool(CONFIG, tmp_path / "opponents", step=300)
    again.load_state(state)
    assert again.state() == state
    assert again.weights().tolist() == pool.weights().tolist()
    fewer = Pool(CONFIG, tmp_path / "opponents", step=299)
    with pytest.raises(SplendorError, match=r"past self .*step-000000000300.* is missing"):
        fewer.load_state(state)


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"steps": [100.0]},
        {"steps": [100.0], "shares": []},
        {"steps": [100.0], "shares": [1.5]},
        {"steps": [100.0], "shares": [float("nan")]},
        {"steps": [100.0], "shares": ["x"]},
        {"steps": 5, "shares": 5},
    ],
)
def test_a_broken_state_is_named(pool, network, state):
    pool.add(100, network)
    with pytest.raises(SplendorError, match="record of past selves is broken"):
        pool.load_state(state)
    assert pool.state()["shares"] == [0.5]
