"""Steps per second of `training.ppo` beside MaskablePPO, and beside what the bare network allows.

    python benchmarks/ppo_speed.py --seconds 40 --rounds 3 --threads 2

A step is one decision learnt from. Both trainers run as they are, in self-play against the current
policy alone, with the same network, games, rollout, minibatch and epochs; SB3 with one thread and
with `--threads`, of which the faster counts. The sides take turns, each in a process of its own.

The bare network makes one inference for each decision, in batches of a ply, and one pass of
training, in minibatches: forward, backward, clipping and the optimiser's step, on random
observations, by the same threads. It takes turns with the loop after each update, of one epoch.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from importlib.metadata import version
from typing import Any

import torch

from splendor_env.bench import machine
from splendor_env.core.observation import OBSERVATION_SIZE
from training import ppo, sb3_ppo

PRECISIONS = ("float32", "bfloat16")
NEVER = 10**9
"""Steps until something that is not measured: evaluations, checkpoints, past selves."""


class _TimeIsUp(Exception):  # noqa: N818  not an error
    pass


class Clock:
    """Counts steps and seconds of a trainer after its first update, which warms up."""

    def __init__(self, seconds: float) -> None:
        self._limit = seconds
        self._last: tuple[int, float] | None = None
        self.steps, self.seconds = 0, 0.0

    def stop(self, step: int) -> None:
        """Note that so many steps are behind the trainer.

        Raises:
            _TimeIsUp: After the time given, and at least one update.
        """
        now = time.perf_counter()
        if self._last is not None:
            self.steps += step - self._last[0]
            self.seconds += now - self._last[1]
        if self.seconds >= self._limit and self.steps:
            raise _TimeIsUp
        self.go_on(step)

    def go_on(self, step: int) -> None:
        """What was done since `stop` does not count."""
        self._last = (step, time.perf_counter())


class BareNetwork:
    """The network's own work for the decisions of one update, and the time that it takes."""

    def __init__(self, config: ppo.Config) -> None:
        self._config = config
        self._learner = ppo.Learner(config)
        self._num_batches = max(1, round(config.rollout_size / config.batch_size))
        dtype = getattr(torch, config.precision)
        threads = config.num_threads
        self._plies = torch.rand(config.num_games, OBSERVATION_SIZE).to(dtype).chunk(threads)
        rows = config.rollout_size // self._num_batches
        self._minibatch = torch.rand(rows, OBSERVATION_SIZE).to(dtype).chunk(threads)
        self.updates, self.seconds = 0, 0.0
        self.work()  # warms up
        self.updates, self.seconds = 0, 0.0

    def work(self) -> None:
        """Infer every ply, then learn from all minibatches."""
        start = time.perf_counter()
        self._learner.map(self._infer, self._plies)
        for _ in range(self._num_batches * self._config.num_epochs):
            self._train()
        self.seconds += time.perf_counter() - start
        self.updates += 1

    def _infer(self, observation: torch.Tensor) -> None:
        with torch.inference_mode():
            for _ in range(self._config.rollout_steps):
                self._learner.infer(self._learner.network, observation)

    def _train(self) -> None:
        learner = self._learner
        first, *others = learner.map(self._gradient, self._minibatch)
        for index, parameter in enumerate(learner.parameters):
            for other in others:
                first[index] += other[index]
            parameter.grad = first[index]
        torch.nn.utils.clip_grad_norm_(learner.parameters, self._config.max_grad_norm)
        learner.optimizer.step()

    def _gradient(self, observation: torch.Tensor) -> list[torch.Tensor]:
        outputs = self._learner.infer(self._learner.network, observation)
        ones = [torch.ones_like(output) for output in outputs]
        return list(torch.autograd.grad(outputs, self._learner.parameters, ones))


def measure_ppo(config: ppo.Config, seconds: float, with_bare: bool) -> dict[str, float]:
    """Steps per second of `training.ppo`, and of the bare network in turns with it, if asked."""
    clock = Clock(seconds)
    bare = BareNetwork(config) if with_bare else None

    class Run(ppo._Run):
        def _update(self, *args) -> None:
            if self.step:
                clock.stop(self.step)
                if bare is not None:
                    bare.work()
                clock.go_on(self.step)
            super()._update(*args)

    ppo._Run = Run  # type: ignore[misc]
    with suppress(_TimeIsUp):
        ppo.train(config)
    speeds = {"loop": clock.steps / clock.seconds}
    if bare is not None:
        speeds["bare"] = bare.updates * config.rollout_size / bare.seconds
    return speeds


def measure_sb3(config: sb3_ppo.Config, seconds: float) -> dict[str, float]:
    """Steps per second of `training.sb3_ppo`."""
    clock = Clock(seconds)

    class Trainer(sb3_ppo._Trainer):
        def _on_rollout_start(self) -> None:
            if self.num_timesteps:
                clock.stop(self.num_timesteps)
            super()._on_rollout_start()

    sb3_ppo._Trainer = Trainer  # type: ignore[misc]
    with suppress(_TimeIsUp):
        sb3_ppo.train(config)
    return {"loop": clock.steps / clock.seconds}


def measure(side: str, options: argparse.Namespace) -> dict[str, float]:
    """Measure one side in this process, in a folder that does not stay."""
    trainer, detail, *with_bare = side.split()
    with tempfile.TemporaryDirectory() as folder:
        settings: dict[str, Any] = {
            "runs_folder": folder,
            "num_games": options.num_games,
            "rollout_steps": options.rollout_steps,
            "batch_size": options.batch_size,
            "num_epochs": 1 if with_bare else 2,
            "network": "mlp",
            "layer_size": options.layer_size,
            "num_shared_layers": 1,
            "num_separate_layers": 1,
            **dict.fromkeys(
                ("total_steps", "snapshot_every", "eval_every", "checkpoint_every"), NEVER
            ),
        }
        if trainer == "ppo":
            ppo_config = ppo.Config(
                num_threads=options.threads, precision=detail, past_share=0.0, **settings
            )
            return measure_ppo(ppo_config, options.seconds, bool(with_bare))
        sb3_config = sb3_ppo.Config(
            num_threads=int(detail),
            weight_current=1.0,
            weight_past=0.0,
            weight_greedy=0.0,
            weight_random=0.0,
            **settings,
        )
        return measure_sb3(sb3_config, options.seconds)


def measure_apart(side: str) -> dict[str, float]:
    """Measure one side in a new process with the options of this one."""
    command = [sys.executable, __file__, *sys.argv[1:], "--side", side]
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode:
        raise SystemExit(f"{side}: {process.stderr}")
    return json.loads(process.stdout)


def main() -> None:
    """Measure all sides in turn and print medians and ratios."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=40, help="of each side in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--num-games", type=int, default=256)
    parser.add_argument("--rollout-steps", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=4096)
    parser.add_argument("--layer-size", type=int, default=256)
    parser.add_argument("--side", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(measure(options.side, options)))
        return

    with_bare = [f"ppo {precision} bare" for precision in PRECISIONS]
    fast = [f"ppo {precision}" for precision in PRECISIONS]
    slow = [f"sb3_ppo {threads}" for threads in sorted({1, options.threads})]
    sides = [*fast, *slow, *with_bare]
    rounds = []
    for index in range(options.rounds):
        turns = sides if index % 2 == 0 else sides[::-1]  # a drift of the machine is fair to all
        rounds.append({side: measure_apart(side) for side in turns})
    median = {
        side: {key: statistics.median(one[side][key] for one in rounds) for key in rounds[0][side]}
        for side in sides
    }

    about = machine() | {name: version(name) for name in ("torch", "stable-baselines3")}
    print(", ".join(f"{name} {value}" for name, value in about.items()))
    print(
        f"{options.threads} threads, {options.num_games} games, rollouts of "
        f"{options.rollout_steps}, minibatches of {options.batch_size}, 2 layers of "
        f"{options.layer_size}; medians of {options.rounds} rounds of {options.seconds:g} s"
    )
    print("two epochs, the whole loop:")
    best = max(slow, key=lambda side: median[side]["loop"])
    for side in slow:
        threads = side.split()[1]
        print(f"  sb3_ppo, threads {threads:9}{median[side]['loop']:10,.0f} steps/s")
    for side, precision in zip(fast, PRECISIONS, strict=True):
        ratio = statistics.median(one[side]["loop"] / one[best]["loop"] for one in rounds)
        print(
            f"  ppo, {precision:20}{median[side]['loop']:10,.0f} steps/s, "
            f"{ratio:.2f} times the faster sb3_ppo"
        )
    print("one epoch, ppo's loop and the bare network:")
    for side, precision in zip(with_bare, PRECISIONS, strict=True):
        share = statistics.median(one[side]["loop"] / one[side]["bare"] for one in rounds)
        print(
            f"  {precision:25}{median[side]['loop']:10,.0f} steps/s of "
            f"{median[side]['bare']:,.0f}, a share of {share:.1%}"
        )


if __name__ == "__main__":
    main()
