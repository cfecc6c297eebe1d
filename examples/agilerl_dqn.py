"""AgileRL: its DQN for a single agent with action masks, on many Gymnasium games at once.

    bash examples/run_isolated.sh agilerl_dqn

makes the environment that it needs: AgileRL 2.58 wants PettingZoo below 1.27, TensorDict 0.13 and,
though it does not say so, peft. What is special about AgileRL and this game:

* `get_action` takes the mask that `mask_in="info"` puts into `info["action_mask"]`. AgileRL's own
  `train_off_policy` reads it there as well.
* `DQN.learn` knows no mask: it bootstraps from the best of all next actions, illegal ones too,
  whose values were never learnt. Here each decision is stored with the result of its game, as if
  it had ended it: then nothing is bootstrapped. The result is all the reward there is.
* IPPO with masks crashes when seats share the prefix of their names, as player_0 and player_1 do.
"""

import argparse
import time

import numpy as np
import torch
from agilerl.algorithms import DQN
from agilerl.components.replay_buffer import ReplayBuffer
from tensordict import TensorDict

from splendor_env.agents import make_agent
from splendor_env.core.batch import observe_movers
from splendor_env.core.state import standard
from splendor_env.envs.vector import SplendorVectorEnv
from splendor_env.evaluation import play_match

# Games to 5 points instead of 15: shorter, and the result says more about each decision.
RULES = standard(2)._replace(target_points=5)


class AgileAgent:
    """An AgileRL agent for the arena: without exploration, many games in one call."""

    name = "agilerl"

    def __init__(self, agent):
        self.agent = agent

    def act(self, games, rules, game_id):
        """The action with the highest value, (B,) int32."""
        observation, action_mask = observe_movers(games, rules)
        return self.agent.get_action(observation, 0.0, action_mask).astype(np.int32)


def win_rate(agent, seed):
    """Share of the victory against random players, from both seats, over 400 games."""
    match = play_match(AgileAgent(agent), make_agent("random", seed), RULES, 400, seed)
    if match.illegal:
        raise SystemExit(f"{match.illegal} games lost by illegal actions: {match.first_illegal}")
    return match.win_share


def game_data(decisions, result):
    """The decisions of a finished game, each with its result."""
    observation, action = (np.stack(values) for values in zip(*decisions, strict=True))
    return TensorDict(
        {
            "obs": torch.from_numpy(observation),
            "action": torch.from_numpy(action),
            "reward": torch.full((len(action),), float(result)),
            "next_obs": torch.from_numpy(observation),  # not looked at: `done` is set
            "done": torch.ones(len(action)),
        },
        batch_size=[len(action)],
    )


def main():
    """Train, and compare the win rate before and after."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100_000, help="decisions of the learner")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    np.random.seed(arguments.seed)
    torch.manual_seed(arguments.seed)
    torch.set_num_threads(1)

    num_envs = 16
    env = SplendorVectorEnv(num_envs, rules=RULES, opponents="random", mask_in="info")
    agent = DQN(
        env.single_observation_space,
        env.single_action_space,
        net_config={"latent_dim": 128, "head_config": {"hidden_size": [128]}},
        batch_size=256,
        lr=1e-3,
    )
    buffer = ReplayBuffer(50_000)
    before = win_rate(agent, arguments.seed)
    print(f"before: win rate {before:.3f} against random")

    start = time.perf_counter()
    observation, info = env.reset(seed=arguments.seed)
    decisions = [[] for _ in range(num_envs)]
    for _ in range(0, arguments.steps, num_envs):
        action = agent.get_action(observation, 0.2, info["action_mask"])
        for row in range(num_envs):
            decisions[row].append((observation[row], action[row]))
        # An illegal action would raise here; finished games begin anew in the same step.
        observation, reward, terminated, truncated, info = env.step(action)
        for row in np.flatnonzero(terminated | truncated):
            buffer.add(game_data(decisions[row], reward[row]))
            decisions[row] = []
        if len(buffer) >= agent.batch_size:
            agent.learn(buffer.sample(agent.batch_size))
    seconds = time.perf_counter() - start
    after = win_rate(agent, arguments.seed)
    print(
        f"after {arguments.steps} decisions in {seconds:.0f} s: win rate {after:.3f}, "
        f"before {before:.3f}"
    )
    if arguments.steps >= 100_000 and after <= before:
        raise SystemExit("training should have raised the win rate")


if __name__ == "__main__":
    main()
