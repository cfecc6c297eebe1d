"""MaskablePPO of sb3-contrib on the batched environment, evaluated with masks.

    python examples/sb3_maskable_ppo.py --steps 300000 --seed 1

What is special here: `SplendorVecEnv` steps all games in compiled calls and gives MaskablePPO the
masks through its method `action_masks`, so no wrapper is needed. It is much faster than one
environment per game; where the opponents are slow (a search), processes may still pay:

    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv
    from splendor_env.envs.vector import SplendorEnv  # or gymnasium.make("Splendor-v0")

    env = SubprocVecEnv([lambda: SplendorEnv(mask_in="info", opponents="greedy")] * 8)

There too the masks are a method of the environment: do not wrap a VecEnv in `ActionMasker`.
`predict` and the evaluation must be given the masks: use `sb3_contrib`'s `evaluate_policy`, not
that of Stable-Baselines3, which ignores them.
"""

import argparse
import sys
import time

import numpy as np
import torch
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.evaluation import evaluate_policy

from splendor_env.agents import make_agent
from splendor_env.core.state import standard
from splendor_env.envs.sb3 import SplendorVecEnv

EVALUATION_SEED = 10**6


def win_rate(model: MaskablePPO, num_games: int) -> float:
    """Against random over the same deals at each call; seats take turns."""
    env = SplendorVecEnv(standard(2), 50, [make_agent("random", EVALUATION_SEED)])
    env.seed(EVALUATION_SEED)
    returns, _ = evaluate_policy(
        model, env, n_eval_episodes=num_games, return_episode_rewards=True, warn=False
    )
    return float((np.array(returns) + 1).mean() / 2)  # -1 to 1 for a share of the victory 0 to 1


def play_one_game(model: MaskablePPO) -> float:
    """By hand: masks are read before each decision and given to `predict`."""
    env = SplendorVecEnv(standard(2), 1, [make_agent("random", 1)])
    env.seed(EVALUATION_SEED - 1)
    observation, done = env.reset(), np.array([False])
    while not done[0]:
        action, _ = model.predict(observation, action_masks=env.action_masks(), deterministic=True)
        observation, reward, done, _ = env.step(action)
    return float(reward[0])


def main() -> int:
    """Train between two evaluations; 1 if a long enough run has not learned."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--eval-games", type=int, default=500)
    options = parser.parse_args()

    torch.set_num_threads(1)  # small matrices: a second thread mostly waits
    env = SplendorVecEnv(standard(2), 64, [make_agent("random", options.seed)])
    model = MaskablePPO(
        "MlpPolicy",
        env,
        n_steps=64,
        batch_size=1024,
        n_epochs=4,
        learning_rate=1e-3,
        ent_coef=0.01,
        policy_kwargs={"net_arch": [128, 128], "activation_fn": torch.nn.ReLU},
        seed=options.seed,
        device="cpu",
    )
    before = win_rate(model, options.eval_games)
    print(f"before: win rate against random {before:.1%} ({options.eval_games} games)", flush=True)
    start = time.monotonic()
    model.learn(options.steps)
    speed = model.num_timesteps / (time.monotonic() - start)
    after = win_rate(model, options.eval_games)
    print(
        f"after {model.num_timesteps} steps ({speed:,.0f}/s): win rate against random {after:.1%}"
    )
    print(f"one more game by `predict`: reward {play_one_game(model):+.0f}")
    return int(options.steps >= 100_000 and after <= before)


if __name__ == "__main__":
    sys.exit(main())
