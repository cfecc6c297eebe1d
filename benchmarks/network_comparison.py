"""Which network plays best after the same wall-clock time? Trains each in turn and plays a match.

    python benchmarks/network_comparison.py configs/quickstart.toml --minutes 4 --seeds 1

Before each run its speed is measured, so that the schedules, which follow the steps, end about when
the time does. The match is against greedy, on deals that nothing else uses.
"""

import argparse
import tempfile
import time
from pathlib import Path

from splendor_env.agents import make_agent
from splendor_env.bench import machine
from splendor_env.evaluation import play_match
from training import ppo
from training.checkpoint import load_policy
from training.config import load_config
from training.policy_agent import PolicyAgent

NETWORKS = {
    "mlp, layers of 256": ["network=mlp"],
    "mlp, layers of 512": ["network=mlp", "layer_size=512"],
    "cards of 32": ["network=cards"],
    "cards of 64": ["network=cards", "card_size=64"],
}
NEVER = "1000000000"
MATCH_SEED = 3 * 2**40


def train(config_file: str, settings: list[str]) -> tuple[Path, float, int]:
    """The run, the minutes that it took and the steps that it made."""
    config = load_config(config_file, [*settings, f"eval_every={NEVER}"])
    assert isinstance(config, ppo.Config)
    start = time.monotonic()
    run = ppo.train(config)
    step = load_policy(run)[1]["step"]
    return run, (time.monotonic() - start) / 60, step


def main() -> None:
    """Train, play and print one line for each run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config")
    parser.add_argument("--minutes", type=float, default=4)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--games", type=int, default=4000)
    options = parser.parse_args()
    print(", ".join(f"{key} {value}" for key, value in machine().items()))
    print("network              seed  minutes  million steps  against greedy, 95 % interval")
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(options.seeds):
            for name, settings in NETWORKS.items():
                settings = [*settings, f"runs_folder={folder}", f"seed={seed}"]
                _, minutes, step = train(options.config, [*settings, "total_steps=600000"])
                steps = int(step * options.minutes / minutes)
                run, minutes, step = train(options.config, [*settings, f"total_steps={steps}"])
                network, _ = load_policy(run)
                rules = load_config(options.config).rules_in_turn()[0]
                agent, greedy = PolicyAgent(network, name), make_agent("greedy")
                result = play_match(agent, greedy, rules, options.games, MATCH_SEED)
                print(
                    f"{name:20} {seed:4} {minutes:8.1f} {step / 1e6:14.1f}  "
                    f"{result.win_share:.1%} [{result.low:.1%}, {result.high:.1%}]",
                    flush=True,
                )


if __name__ == "__main__":
    main()
