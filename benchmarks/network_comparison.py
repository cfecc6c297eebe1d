"""Which network plays best after the same time of training? Trains each in turn and plays a match.

    python benchmarks/network_comparison.py configs/quickstart.toml --minutes 4 --seeds 2

The time is that of the updates alone: playing, with all past selves that the config allows, and
learning. Before each run its speed is measured so, and its steps are those of the minutes given, so
that the schedules, which follow the steps, end when the time does. The order of the networks is
reversed from seed to seed: a drift of the machine is fair to all. The match is against greedy, on
deals that nothing else uses.
"""

import argparse
import statistics
import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from splendor_env.agents import make_agent
from splendor_env.bench import machine
from splendor_env.evaluation import MatchResult, play_match
from training import ppo
from training.checkpoint import load_policy
from training.config import load_config
from training.policy_agent import PolicyAgent

NETWORKS = {
    "mlp, layers of 256": {"network": "mlp"},
    "mlp, layers of 512": {"network": "mlp", "layer_size": 512},
    "cards of 32": {"network": "cards"},
    "cards of 64": {"network": "cards", "card_size": 64},
}
NEVER = 10**9
"""Steps until something that is not measured."""
MATCH_SEED = 3 * 2**40


class _TimeIsUp(Exception):  # noqa: N818  not an error
    pass


class Clock:
    """Steps and seconds of a trainer's updates.

    Args:
        first: The update, from 0, with which it starts.
        limit: Seconds after which it ends the training.
    """

    def __init__(self, first: int = 0, limit: float = float("inf")) -> None:
        self._first = first
        self._limit = limit
        self.steps, self.seconds = 0, 0.0

    def train(self, config: ppo.Config) -> Path:
        """Train with every update timed; the run."""
        clock = self

        class Run(ppo._Run):
            def _update(self, *args) -> None:
                number, before, start = self.num_updates, self.step, time.perf_counter()
                super()._update(*args)
                if number >= clock._first:
                    clock.seconds += time.perf_counter() - start
                    clock.steps += self.step - before
                if clock.seconds >= clock._limit:
                    raise _TimeIsUp

        original = ppo._Run
        ppo._Run = Run  # type: ignore[misc]
        try:
            with suppress(_TimeIsUp):
                ppo.train(config)
        finally:
            ppo._Run = original  # type: ignore[misc]
        return config.run_folder


def measure_speed(config: ppo.Config, seconds: float) -> float:
    """Steps per second once there are as many past selves as there may be."""
    clock = Clock(first=config.max_snapshots + 1, limit=seconds)
    often = {"snapshot_every": 1, "total_steps": NEVER, "checkpoint_every": NEVER}
    clock.train(replace(config, run_name="speed", **often))
    return clock.steps / clock.seconds


def compare(config: ppo.Config, name: str, options: argparse.Namespace) -> MatchResult:
    """Train one network for the time given, let it play, and print a line."""
    with tempfile.TemporaryDirectory() as folder:
        config = replace(config, runs_folder=folder, eval_every=NEVER, **NETWORKS[name])
        speed = measure_speed(config, options.seconds)
        clock = Clock()
        steps = max(1, round(speed * 60 * options.minutes))
        run = clock.train(replace(config, run_name="run", total_steps=steps))
        network, about = load_policy(run)
    agent, greedy = PolicyAgent(network, name), make_agent("greedy")
    result = play_match(agent, greedy, config.rules_in_turn()[0], options.games, MATCH_SEED)
    print(
        f"{name:20} {config.seed:4} {clock.seconds / 60:8.2f} {about['step'] / 1e6:14.2f}  "
        f"{result.win_share:.1%} [{result.low:.1%}, {result.high:.1%}]",
        flush=True,
    )
    return result


def main() -> None:
    """Compare all networks and print means over the seeds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config")
    parser.add_argument("--minutes", type=float, default=4, help="of each training")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--games", type=int, default=4000)
    parser.add_argument("--seconds", type=float, default=20, help="of measuring a speed")
    options = parser.parse_args()
    config = load_config(options.config)
    assert isinstance(config, ppo.Config)
    print(", ".join(f"{key} {value}" for key, value in machine().items()))
    print("network              seed  minutes  million steps  against greedy, 95 % interval")
    results: dict[str, list[MatchResult]] = {name: [] for name in NETWORKS}
    for seed in range(options.seeds):
        for name in list(NETWORKS)[:: 1 if seed % 2 == 0 else -1]:
            results[name].append(compare(replace(config, seed=seed), name, options))
    print(f"mean over {options.seeds} seeds, from the lowest to the highest:")
    for name, matches in results.items():
        shares = [match.win_share for match in matches]
        print(f"{name:20} {statistics.mean(shares):.1%} ({min(shares):.1%} to {max(shares):.1%})")


if __name__ == "__main__":
    main()
