import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from splendor_env.envs.aec import raw_env

pytest.importorskip("torch")
pytest.importorskip("tianshou")

from tianshou.algorithm import MultiAgentOffPolicyAlgorithm
from tianshou.algorithm.random import MARLRandomDiscreteMaskedOffPolicyAlgorithm
from tianshou.data import Collector, CollectStats, VectorReplayBuffer
from tianshou.env import DummyVectorEnv, PettingZooEnv

EXAMPLE = Path(__file__).parents[2] / "examples" / "tianshou_dqn.py"

every_count = pytest.mark.parametrize("players", (2, 3, 4))


def play(wrapped, seed=0):
    """Random legal actions to the end: yields (agent, action, rewards, done)."""
    rng = np.random.default_rng(seed)
    seen, _ = wrapped.reset(seed=seed)
    done = False
    while not done:
        agent, action = seen["agent_id"], int(rng.choice(np.flatnonzero(seen["mask"])))
        seen, rewards, terminated, truncated, _ = wrapped.step(action)
        done = terminated or truncated
        yield agent, action, list(rewards), done


@every_count
def test_the_mask_is_that_of_the_seat_to_move(players):
    game = raw_env(num_players=players)
    wrapped = PettingZooEnv(game)
    for _, _, _, done in play(wrapped):
        seen = game.observe(game.agent_selection)["action_mask"]
        assert seen.any() != done


@every_count
@pytest.mark.parametrize("seed", range(3))
def test_rewards_sum_to_what_last_pays(players, seed):
    steps = list(play(PettingZooEnv(raw_env(num_players=players)), seed))
    totals = np.sum([rewards for _, _, rewards, _ in steps], axis=0)

    twin = raw_env(num_players=players)
    twin.reset(seed=seed)
    paid = dict.fromkeys(twin.possible_agents, 0.0)
    for agent, action, rewards, _ in steps:
        assert twin.agent_selection == agent
        paid[agent] += twin.last()[1]
        twin.step(action)
        # Both of PettingZoo's tables say the same: what a step pays is all that is outstanding.
        assert rewards == list(twin.rewards.values())
        assert twin._cumulative_rewards == twin.rewards
    while twin.agents:
        paid[twin.agent_selection] += twin.last()[1]
        twin.step(None)
    assert totals == pytest.approx(list(paid.values()))
    assert totals.sum() == pytest.approx(0)
    assert totals.max() > 0


@every_count
def test_a_collector_stores_legal_actions_and_the_result_of_every_seat(players):
    game = PettingZooEnv(raw_env(num_players=players))
    algorithm = MultiAgentOffPolicyAlgorithm(
        algorithms=[
            MARLRandomDiscreteMaskedOffPolicyAlgorithm(game.action_space) for _ in game.agents
        ],
        env=game,
    )
    envs = DummyVectorEnv([lambda: PettingZooEnv(raw_env(num_players=players))] * 2)
    collector = Collector[CollectStats](algorithm, envs, VectorReplayBuffer(4000, 2))
    collector.reset(gym_reset_kwargs={"seed": 0})
    np.random.seed(0)
    stats = collector.collect(n_episode=4)
    decisions, _ = collector.buffer.sample(0)
    rows = np.arange(len(decisions))
    assert decisions.obs.mask[rows, decisions.act].all()
    assert np.asarray(stats.returns).shape == (4, players)
    assert np.sum(stats.returns, axis=1) == pytest.approx(np.zeros(4))
    assert (np.max(stats.returns, axis=1) > 0).all()
    assert not decisions.rew[~decisions.done].any()


def test_the_example_trains(monkeypatch, capsys):
    spec = importlib.util.spec_from_file_location("tianshou_example", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    monkeypatch.setattr(sys, "argv", ["example", "--steps", "800"])
    example.main()
    assert re.search(r"after 800 decisions in \d+ s: win rate 0\.\d+", capsys.readouterr().out)
