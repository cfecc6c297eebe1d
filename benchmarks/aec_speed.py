"""Microseconds of one AEC decision, beside PettingZoo's Connect Four.

A decision is `last()`, a masked random choice prepared beforehand, and `step()`; `last()` brings
observation and mask. The environments take turns; medians over whole games are reported.

    pip install "pettingzoo[classic]" && python benchmarks/aec_speed.py

Connect Four is left out where pygame, which it needs, is missing.
"""

import argparse
import platform
import statistics
import time
from collections.abc import Callable

import numpy as np
from pettingzoo import AECEnv

from splendor_env.envs import aec


def microseconds(env: AECEnv, seed: int) -> float:
    """Mean over the decisions of one random game; the choice itself is not counted."""
    rng = np.random.default_rng(seed)
    env.reset(seed=seed)
    counted = 0.0
    num_decisions = 0
    while True:
        start = time.perf_counter()
        observation, _, terminated, truncated, _ = env.last()
        counted += time.perf_counter() - start
        if terminated or truncated:
            return counted / num_decisions * 1e6
        action = int(rng.choice(np.flatnonzero(observation["action_mask"])))
        start = time.perf_counter()
        env.step(action)
        counted += time.perf_counter() - start
        num_decisions += 1


def environments() -> dict[str, Callable[[], AECEnv]]:
    """What is compared, by name."""
    compared: dict[str, Callable[[], AECEnv]] = {
        "splendor raw_env": aec.raw_env,
        "splendor env": aec.env,
    }
    try:
        from pettingzoo.classic import connect_four_v3
    except Exception as error:  # PettingZoo raises its own kind when pygame is missing
        print(f"without Connect Four: {error}")
    else:
        compared["connect_four_v3 raw_env"] = connect_four_v3.raw_env
        compared["connect_four_v3 env"] = connect_four_v3.env
    return compared


def main() -> None:
    """Play games in turn and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", type=int, default=40)
    options = parser.parse_args()
    envs = {name: make() for name, make in environments().items()}
    figures: dict[str, list[float]] = {name: [] for name in envs}
    for seed in range(options.games + 1):
        for name, env in envs.items():
            figure = microseconds(env, seed)
            if seed > 0:  # the first game warms up
                figures[name].append(figure)
    print(f"{platform.machine()}, Python {platform.python_version()}, {options.games} games each")
    for name, values in figures.items():
        print(f"{name:26} {statistics.median(values):6.1f} microseconds a decision")


if __name__ == "__main__":
    main()
