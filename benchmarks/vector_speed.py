"""Speed of the native Gymnasium vector environment beside SyncVectorEnv copies of the single one.

    python benchmarks/vector_speed.py --num-envs 1024

Both play the learner's seat against random opponents and choose its actions by the same masked
random method, in one process by turns. Figures are medians; a step is one of one game.
"""

import argparse
import statistics
import time

import gymnasium
import numpy as np

import splendor_env  # noqa: F401  registers the environments
from splendor_env.bench import machine

NUM_COPIES = 8
STEPS_PER_TURN = 10_000


def choose(action_mask: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A uniformly random legal action for each row of masks (B, A)."""
    return (rng.random(action_mask.shape, np.float32) * action_mask).argmax(1)


class Player:
    """Plays on in one vector environment and takes the time."""

    def __init__(self, envs: gymnasium.vector.VectorEnv) -> None:
        self.envs = envs
        self.rng = np.random.default_rng(0)
        self.observation = envs.reset(seed=0)[0]
        self.step_us: list[float] = []
        self.choice_us: list[float] = []

    def play(self) -> None:
        """Play about `STEPS_PER_TURN` steps and note microseconds per step and per choice."""
        num_calls = -(-STEPS_PER_TURN // self.envs.num_envs)
        choosing = 0.0
        start = time.perf_counter()
        for _ in range(num_calls):
            asked = time.perf_counter()
            actions = choose(self.observation["action_mask"], self.rng)
            choosing += time.perf_counter() - asked
            self.observation = self.envs.step(actions)[0]
        seconds = time.perf_counter() - start
        per_step = 1e6 / (num_calls * self.envs.num_envs)
        self.step_us.append((seconds - choosing) * per_step)
        self.choice_us.append(choosing * per_step)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--num-envs", type=int, default=1024, help="games of the native one")
    parser.add_argument("--num-players", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=15)
    arguments = parser.parse_args()
    native = Player(
        gymnasium.make_vec(
            "Splendor-v0", num_envs=arguments.num_envs, num_players=arguments.num_players
        )
    )
    copies = Player(
        gymnasium.make_vec(
            "Splendor-v0",
            num_envs=NUM_COPIES,
            num_players=arguments.num_players,
            vectorization_mode="sync",
            vector_kwargs={"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP},
            disable_env_checker=True,
        )
    )
    for player in (native, copies):  # compile and warm up
        player.play()
        player.step_us.clear()
        player.choice_us.clear()
    for _ in range(arguments.repeats):
        native.play()
        copies.play()
    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    print(f"{'':30}{'steps/s':>12}{'us/step':>10}{'us/choice':>11}{'steps/s with choice':>21}")
    for name, player in (
        (f"native, {arguments.num_envs} games", native),
        (f"SyncVectorEnv of {NUM_COPIES} copies", copies),
    ):
        step, choice = statistics.median(player.step_us), statistics.median(player.choice_us)
        print(
            f"{name:30}{1e6 / step:12,.0f}{step:10.2f}{choice:11.2f}{1e6 / (step + choice):21,.0f}"
        )
    turns = list(
        zip(native.step_us, native.choice_us, copies.step_us, copies.choice_us, strict=True)
    )
    ratio = statistics.median(slow / fast for fast, _, slow, _ in turns)
    whole = statistics.median((slow + c) / (fast + b) for fast, b, slow, c in turns)
    print(
        f"native over copies: {ratio:.1f} times the steps per second, {whole:.1f} with the choices"
    )


if __name__ == "__main__":
    main()
