"""Speed of the engine on this machine: what `splendor bench` runs and prints.

Every figure is for one core and the median of several repetitions. The loops play uniformly random
moves; they are compiled, as a trainer's or a search's are.
"""

import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from splendor_env.core import observation, rules
from splendor_env.core._jit import jit
from splendor_env.core.actions import NUM_ACTIONS
from splendor_env.core.batch import write_action_mask
from splendor_env.core.observation import OBSERVATION_SIZE
from splendor_env.core.random import SEED_STREAM, hash_seed
from splendor_env.core.state import GAME, EndReason, Rules, SplendorError, standard
from splendor_env.heuristics import choose_random

_SEED = np.uint64(0)

_FIRST_DECISION = """
import time
start = time.perf_counter()
from splendor_env.envs.aec import raw_env
env = raw_env()
env.reset(seed=0)
ready = time.perf_counter()
env.step(env.last()[0]["action_mask"].argmax())
print(ready - start, time.perf_counter() - start)
"""


@jit
def play_random_games(games, rules_, num_games, seed):
    """Play `num_games` random games, one after the other in games[0]; return the decisions."""
    game = games[0]
    num_decisions = 0
    for index in range(num_games):
        rules.deal(game, rules_, hash_seed(seed, SEED_STREAM, index))
        while game.end_reason == EndReason.RUNNING:
            action = choose_random(game, rules_, seed, num_decisions)
            rules.step(game, action, rules_, -1)
            num_decisions += 1
    return num_decisions


@jit
def play_random_games_observed(games, rules_, num_games, seed, observation_, action_mask):
    """The same with the observation (D,) and the mask (A,) of the mover written out each time."""
    game = games[0]
    num_decisions = 0
    for index in range(num_games):
        rules.deal(game, rules_, hash_seed(seed, SEED_STREAM, index))
        while game.end_reason == EndReason.RUNNING:
            write_action_mask(game, rules_, action_mask)
            observation.observe(game, rules_, game.player, observation_)
            action = choose_random(game, rules_, seed, num_decisions)
            rules.step(game, action, rules_, -1)
            num_decisions += 1
    return num_decisions


def measure_engine(num_players: int, num_games: int = 10_000, repeats: int = 5) -> dict[str, float]:
    """Speed of the engine with standard rules.

    Returns:
        `random_games_per_s` and `decisions_per_s`: rules, legal actions as a bit set and choice.
        `decisions_per_s_observed`: the mask and the observation are written out each time too.
        `aec_step_us`: microseconds of `last()`, reading the mask and `step()` in PettingZoo's API.

    Raises:
        SplendorError: Not 2 to 4 players.
    """
    rules_ = standard(num_players)
    games = np.zeros(1, GAME)
    observation_ = np.zeros(OBSERVATION_SIZE, np.float32)
    action_mask = np.zeros(NUM_ACTIONS, np.int8)
    num_decisions = play_random_games(games, rules_, num_games, _SEED)
    seconds = _median_seconds(lambda: play_random_games(games, rules_, num_games, _SEED), repeats)
    observed_seconds = _median_seconds(
        lambda: play_random_games_observed(
            games, rules_, num_games, _SEED, observation_, action_mask
        ),
        repeats,
    )
    return {
        "random_games_per_s": num_games / seconds,
        "decisions_per_s": num_decisions / seconds,
        "decisions_per_s_observed": num_decisions / observed_seconds,
        "aec_step_us": 1e6 * _median_aec_step(rules_, num_steps=max(100, num_games // 5)),
    }


def _median_seconds(run: Callable[[], object], repeats: int) -> float:
    run()  # compiles
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def _median_aec_step(rules_: Rules, num_steps: int) -> float:
    from splendor_env.envs.aec import raw_env

    rng = np.random.default_rng(0)
    env: Any = raw_env(rules=rules_)
    env.reset(seed=0)
    seconds = []
    for _ in range(num_steps):
        start = time.perf_counter()
        seen, _, terminated, truncated, _ = env.last()
        action_mask = seen["action_mask"]
        looked = time.perf_counter()
        if terminated or truncated:
            env.reset()
            continue
        action = rng.choice(np.flatnonzero(action_mask))
        chosen = time.perf_counter()
        env.step(action)
        seconds.append(time.perf_counter() - chosen + looked - start)
    return statistics.median(seconds)


def measure_start(repeats: int = 3) -> dict[str, float]:
    """Seconds that a fresh process takes, by its own clock from its first import.

    They do not depend on the number of players: the same machine code serves 2 to 4.

    Returns:
        `cold_compile_s`: until the first decision of an environment, with no compiled code cached.
        `warm_import_s`: until an environment is made and reset, with the cache filled.
    """
    with tempfile.TemporaryDirectory() as folder:
        # The cache lies inside the package, hence a copy of the package has none.
        package = Path(__file__).parent
        shutil.copytree(
            package, Path(folder, package.name), ignore=shutil.ignore_patterns("__pycache__")
        )
        _, cold = _start_process(folder)
        warm = [_start_process(folder)[0] for _ in range(repeats)]
    return {"cold_compile_s": cold, "warm_import_s": statistics.median(warm)}


def _start_process(folder: str) -> tuple[float, float]:
    """Seconds to an environment that is reset, and to its first decision."""
    process = subprocess.run(
        [sys.executable, "-c", _FIRST_DECISION],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": folder},
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode:
        raise SplendorError(f"the engine does not start in a copy: {process.stderr.strip()}")
    ready, decided = map(float, process.stdout.split())
    return ready, decided


def machine() -> dict[str, str | int]:
    """What the figures were measured on: processor, cores, versions."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count() or 1,
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": version("numba"),
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()
