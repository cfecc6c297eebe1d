"""Games per second of the arena: a network against the heuristic, and against another network.

    python benchmarks/arena_speed.py --games 10000 --jobs 1 2

The time is all that `splendor evaluate` needs after its start: making the agents, starting the
processes, playing, and with `--record` writing the records. Compilation is not in it: a few games
go before.
"""

import argparse
import tempfile
import time
from pathlib import Path

from splendor_env.agents.onnx import PRETRAINED_FOLDER
from splendor_env.bench import machine
from splendor_env.core.state import standard
from splendor_env.evaluation import play_specs

MATCHES = (
    ("pretrained", "greedy"),
    ("pretrained", f"onnx:{PRETRAINED_FOLDER / '2p.onnx'}"),
)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--games", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--record", action="store_true", help="write records too")
    options = parser.parse_args()
    print(", ".join(f"{key} {value}" for key, value in machine().items()))
    with tempfile.TemporaryDirectory() as folder:
        for agent, against in MATCHES:
            play_specs(agent, against, standard(), 20, record=Path(folder, "first.jsonl.gz"))
            Path(folder, "first.jsonl.gz").unlink()
            for jobs in options.jobs:
                record = Path(folder, f"{jobs}.jsonl.gz") if options.record else None
                start = time.perf_counter()
                result = play_specs(
                    agent, against, standard(), options.games, jobs=jobs, record=record
                )
                seconds = time.perf_counter() - start
                print(
                    f"{agent} against {against.partition(':')[0]}, {jobs} processes: "
                    f"{result.games:,} games in {seconds:.1f} s, {result.games / seconds:,.0f} "
                    f"games/s, win share {result.win_share:.1%}"
                )
                if record is not None:
                    print(f"  records: {record.stat().st_size / result.games:,.0f} bytes a game")
                    record.unlink()


if __name__ == "__main__":
    main()
