"""Tianshou: DQN in one seat against a masked random player in the other, on the PettingZoo game.

    pip install torch==2.13.0
    pip install -e . tianshou==2.0.1
    python examples/tianshou_dqn.py

What is special about Tianshou and this game:

* `PettingZooEnv(raw_env())` works as it is. Only policies of the DQN family use the mask; with PPO
  mask the logits in your network.
* A buffer holds the decisions of both seats in turn: the "next observation" of a decision is often
  that of the other seat, and so would be the value that one-step DQN bootstraps from. An n-step
  return longer than a game with a discount of 1 never bootstraps: it is the seat's own result.
* The reward is one number for each seat, and the result arrives on the last decision, whoever
  makes it. Tianshou picks the seat's column; `multi_agent_return_reduction` is for its log only.
"""

import argparse
import logging
import time

import numpy as np
import torch
from tianshou.algorithm import DQN, MultiAgentOffPolicyAlgorithm
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.algorithm.random import MARLRandomDiscreteMaskedOffPolicyAlgorithm
from tianshou.data import Batch, Collector, CollectStats, VectorReplayBuffer
from tianshou.env import DummyVectorEnv, PettingZooEnv
from tianshou.trainer import OffPolicyTrainerParams
from tianshou.utils.net.common import Net

from splendor_env.agents import make_agent
from splendor_env.core.actions import NUM_ACTIONS
from splendor_env.core.batch import observe_movers
from splendor_env.core.observation import OBSERVATION_SIZE
from splendor_env.core.state import standard
from splendor_env.envs.aec import raw_env
from splendor_env.evaluation import play_match

# Games to 5 points instead of 15: 90 decisions instead of 160, and the result says more about each.
RULES = standard(2)._replace(target_points=5)
LONGER_THAN_A_GAME = 200  # decisions of both seats


class TianshouAgent:
    """A Tianshou policy for the arena: without exploration, many games in one call."""

    name = "tianshou"

    def __init__(self, policy):
        self.policy = policy

    def act(self, games, rules, game_id):
        """The action with the highest value, (B,) int32."""
        observation, action_mask = observe_movers(games, rules)
        batch = Batch(obs=Batch(obs=observation, mask=action_mask == 1), info=Batch())
        with torch.no_grad():
            return self.policy(batch).act.astype(np.int32)


def win_rate(policy, seed):
    """Share of the victory against random players, from both seats, over 400 games."""
    match = play_match(TianshouAgent(policy), make_agent("random", seed), RULES, 400, seed)
    if match.illegal:
        raise SystemExit(f"{match.illegal} games lost by illegal actions: {match.first_illegal}")
    return match.win_share


class WithoutInfo(PettingZooEnv):
    """Drops the infos: that at the end of a game leaves holes in a buffer, an error in Tianshou."""

    def step(self, action):
        """As in `PettingZooEnv`, with an empty info."""
        return *super().step(action)[:4], {}


def make_env():
    """One game; the learner is player_0, but the network sees itself first in every seat."""
    return WithoutInfo(raw_env(rules=RULES))


def main():
    """Train, and compare the win rate before and after."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=40_000, help="decisions of both seats")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    np.random.seed(arguments.seed)
    torch.manual_seed(arguments.seed)
    torch.set_num_threads(1)
    logging.getLogger("tianshou").setLevel(logging.ERROR)  # it warns of rewards for two seats

    num_envs = 16
    envs = DummyVectorEnv([make_env] * num_envs)
    envs.seed(arguments.seed)
    game = make_env()
    policy = DiscreteQLearningPolicy(
        model=Net(state_shape=OBSERVATION_SIZE, action_shape=NUM_ACTIONS, hidden_sizes=(256,)),
        action_space=game.action_space,
        observation_space=game.observation_space,
        eps_training=0.2,
    )
    learner = DQN(
        policy=policy,
        optim=AdamOptimizerFactory(lr=1e-3),
        gamma=1.0,
        n_step_return_horizon=LONGER_THAN_A_GAME,
    )
    opponent = MARLRandomDiscreteMaskedOffPolicyAlgorithm(game.action_space)
    algorithm = MultiAgentOffPolicyAlgorithm(algorithms=[learner, opponent], env=game)
    before = win_rate(policy, arguments.seed)
    print(f"before: win rate {before:.3f} against random")

    start = time.perf_counter()
    collector = Collector[CollectStats](
        algorithm, envs, VectorReplayBuffer(25_000, num_envs), exploration_noise=True
    )
    algorithm.run_training(
        OffPolicyTrainerParams(
            training_collector=collector,
            max_epochs=1,
            epoch_num_steps=arguments.steps,
            collection_step_num_env_steps=16 * num_envs,
            update_step_num_gradient_steps_per_sample=1 / 16,
            batch_size=256,
            multi_agent_return_reduction=lambda returns: returns[:, 0],
            show_progress=False,
            verbose=False,
        )
    )
    seconds = time.perf_counter() - start
    after = win_rate(policy, arguments.seed)
    print(
        f"after {arguments.steps} decisions in {seconds:.0f} s: win rate {after:.3f}, "
        f"before {before:.3f}"
    )
    if arguments.steps >= 40_000 and after <= before:
        raise SystemExit("training should have raised the win rate")


if __name__ == "__main__":
    main()
