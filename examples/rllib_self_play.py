"""RLlib: PPO on the new API stack, a learner against frozen copies of an earlier self.

    bash examples/run_isolated.sh rllib_self_play

makes the environment that it needs: the extra `rllib` of Ray 2.60 demands Gymnasium 1.2.2, hence
do not install it beside other things. What is special about RLlib and this game:

* Its module for action masks expects the key "observations" and a float mask: `RLlibKeys`.
* Its PettingZoo wrapper shows only the seat to move, with the reward since that seat's last
  decision, and all seats at the end: each seat is its own trajectory, so GAE is right for any
  number of players.
* A policy that is not in `policies_to_train` keeps its weights, although metrics list it.
* `num_env_runners=0` samples in this process: on few cores a remote runner costs more than it
  gains.
"""

import argparse
import os
import time
import zlib

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # before the import: nothing is reported

import numpy as np
import ray
from gymnasium import spaces
from pettingzoo.utils.wrappers import BaseWrapper
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env.wrappers.pettingzoo_env import PettingZooEnv
from ray.rllib.examples.rl_modules.classes.action_masking_rlm import ActionMaskingTorchRLModule
from ray.tune.registry import register_env

from splendor_env.envs.aec import raw_env


class RLlibKeys(BaseWrapper):
    """The observation with the names and types that RLlib's action masking reads."""

    def __init__(self, env):
        super().__init__(env)
        space = env.observation_space(env.possible_agents[0])
        mask = spaces.Box(0, 1, space["action_mask"].shape, np.float32)
        self._space = spaces.Dict({"observations": space["observation"], "action_mask": mask})

    def observation_space(self, agent):
        """The same object for every seat."""
        return self._space

    def observe(self, agent):
        """What `agent` sees."""
        seen = self.env.observe(agent)
        mask = seen["action_mask"].astype(np.float32)
        return {"observations": seen["observation"], "action_mask": mask}


def make_algorithm(num_players, steps_per_iteration, seed):
    """PPO with the modules "learner" and "frozen"; the learner's seat changes with the episode."""

    def choose_module(agent_id, episode, **kwargs):
        seat = zlib.crc32(episode.id_.encode()) % num_players
        return "learner" if agent_id == f"player_{seat}" else "frozen"

    register_env("splendor", lambda _: PettingZooEnv(RLlibKeys(raw_env(num_players=num_players))))
    spec = RLModuleSpec(
        module_class=ActionMaskingTorchRLModule, model_config={"fcnet_hiddens": [128]}
    )
    config = (
        PPOConfig()
        .environment("splendor", disable_env_checking=True)  # the check plays unmasked actions
        .env_runners(num_env_runners=0)
        .multi_agent(
            policies={"learner", "frozen"},
            policy_mapping_fn=choose_module,
            policies_to_train=["learner"],
        )
        .rl_module(
            rl_module_spec=MultiRLModuleSpec(rl_module_specs={"learner": spec, "frozen": spec})
        )
        .training(
            train_batch_size_per_learner=steps_per_iteration,
            minibatch_size=128,
            num_epochs=2,
            gamma=1.0,
            lr=3e-4,
        )
        .debugging(seed=seed)
    )
    return config.build_algo()


def weights_of(algorithm, name):
    """A copy of the module's weights."""
    state = algorithm.get_module(name).get_state()
    return {key: np.array(value) for key, value in state.items()}


def is_same(weights, others):
    """Bit for bit."""
    return all(np.array_equal(weights[key], others[key]) for key in weights)


def main():
    """Train for a few iterations; an illegal action would raise in `raw_env`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=4000, help="decisions of all seats")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--players", type=int, default=3)
    arguments = parser.parse_args()

    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    per_iteration = min(1000, arguments.steps)
    algorithm = make_algorithm(arguments.players, per_iteration, arguments.seed)
    frozen, learner = (weights_of(algorithm, name) for name in ("frozen", "learner"))
    start, steps, episodes = time.perf_counter(), 0, 0
    while steps < arguments.steps:
        result = algorithm.train()["env_runners"]
        steps = int(result["num_env_steps_sampled_lifetime"])
        episodes += int(result.get("num_episodes", 0))
        returns = result.get("module_episode_returns_mean", {})
        print(f"{steps} decisions, {episodes} games, mean results {returns}")
    print(f"{steps / (time.perf_counter() - start):.0f} decisions per second, learning included")
    is_frozen = is_same(frozen, weights_of(algorithm, "frozen"))
    is_learning = not is_same(learner, weights_of(algorithm, "learner"))
    print(f"frozen weights unchanged: {is_frozen}; learner's weights changed: {is_learning}")
    algorithm.stop()
    ray.shutdown()
    if not (is_frozen and is_learning):
        raise SystemExit("only the learner may learn")


if __name__ == "__main__":
    main()
