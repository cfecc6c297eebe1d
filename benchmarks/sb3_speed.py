"""Steps per second of MaskablePPO: the native `VecEnv` against copies in a `DummyVecEnv`.

The same network, one epoch, random opponents; the two sides take turns, medians are reported.

    python benchmarks/sb3_speed.py --num-games 256 --copies 8 --repeats 5
"""

import argparse
import platform
import statistics
import time

import torch
from sb3_contrib import MaskablePPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

from splendor_env.agents import make_agent
from splendor_env.core.state import standard
from splendor_env.envs.sb3 import SplendorVecEnv
from splendor_env.envs.vector import SplendorEnv


def make_model(env: VecEnv, num_steps: int) -> MaskablePPO:
    """One epoch over `num_steps` decisions of each game in minibatches of 1,024 at most."""
    batch_size = min(1024, num_steps * env.num_envs)
    return MaskablePPO("MlpPolicy", env, n_steps=num_steps, batch_size=batch_size, n_epochs=1)


def steps_per_second(model: MaskablePPO, num_steps: int) -> float:
    """Of the whole loop: decisions, opponents, masks and updates."""
    before = model.num_timesteps
    start = time.perf_counter()
    model.learn(num_steps, reset_num_timesteps=False)
    return (model.num_timesteps - before) / (time.perf_counter() - start)


def main() -> None:
    """Measure both sides in turn and print the medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--num-games", type=int, default=256)
    parser.add_argument("--copies", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    native = make_model(
        SplendorVecEnv(standard(2), options.num_games, [make_agent("random")]), num_steps=32
    )
    copies = make_model(
        DummyVecEnv([lambda: SplendorEnv(mask_in="info")] * options.copies), num_steps=128
    )
    speeds = []
    for repeat in range(options.repeats + 1):
        pair = (
            steps_per_second(native, 2 * 32 * options.num_games),
            steps_per_second(copies, 2 * 128 * options.copies),
        )
        if repeat > 0:  # the first one warms up
            speeds.append(pair)
    native_median, copies_median = (statistics.median(side) for side in zip(*speeds, strict=True))
    ratio = statistics.median(a / b for a, b in speeds)
    print(f"{platform.machine()}, one torch thread, medians of {len(speeds)}")
    print(f"native VecEnv, {options.num_games} games: {native_median:,.0f} steps/s")
    print(f"DummyVecEnv, {options.copies} copies: {copies_median:,.0f} steps/s")
    print(f"ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
