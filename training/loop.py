"""The course of a run, the same for every trainer of ours: update, save, evaluate, and go on.

A trainer derives from `Loop` and says what an update is. sb3_ppo has Stable-Baselines3's loop.
"""

import json
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import safetensors
import safetensors.torch
import torch
from rich.progress import Progress

from splendor_env.agents.layouts import PolicyWarning, layouts, rule_differences
from splendor_env.core.state import Rules, SplendorError
from training import run as runs
from training.checkpoint import (
    check_layouts,
    load_policy,
    metadata,
    remove_leftovers,
    save_policy,
    state_version,
    write_atomically,
)
from training.config import DivergedError, RunConfig, load_run_config, setting
from training.diagnostics import draw_calibration, draw_diagnostics, play_self, summarize
from training.learner import Learner, faster_precision
from training.networks import PolicyNetwork
from training.trackers import check_trackers, make_trackers, parse_trackers

OnEvaluation = Callable[[int, dict[str, float]], None]

_RESUME = ".safetensors"
_BROKEN = (safetensors.SafetensorError, LookupError, ValueError, TypeError, RuntimeError)
"""What reading a file may raise that is not what was written."""


def last_resume_file(run: Path) -> tuple[int, Path]:
    """The step of a run's newest checkpoint to go on from, and its path.

    Raises:
        SplendorError: There is none.
    """
    return runs.last_resume_file(run, _RESUME)


@dataclass(frozen=True)
class LoopConfig(RunConfig):
    """What the trainers have that run in this loop."""

    start: str = ""  # folder of a policy or a run whose weights to start from
    max_minutes: float = setting(0.0, 0)  # if not 0: the run and its schedules end by then too
    precision: str = setting("auto", choices=("auto", "float32", "bfloat16"))  # of hidden layers
    trackers: str = ""  # of "wandb,mlflow"; TensorBoard's files are always written

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_trackers(self.trackers)


C = TypeVar("C", bound=LoopConfig)
L = TypeVar("L", bound=Learner)


@contextmanager
def held(config: C, resume: bool, fixed: Sequence[str]) -> Iterator[tuple[Path, C]]:
    """The folder of a run, kept for this process, with torch set up for training.

    Args:
        config: The settings.
        resume: Go on with the run in `config.run_folder`; else it is a new one.
        fixed: Settings that a run which goes on cannot change.

    Yields:
        The folder, and the config with its name and with the precision that `auto` stands for.

    Raises:
        SplendorError: Nothing to resume, or not by these settings; no such weights to start from;
            or another process trains there.
    """
    check_trackers(config.trackers)  # before there is a folder
    if config.start and not resume:
        _check_start(config)
    if config.precision == "auto":
        before = load_run_config(config.run_folder) if resume else None
        is_known = isinstance(before, LoopConfig)
        precision = before.precision if is_known else faster_precision()
        config = replace(config, precision=precision)
    run = runs.check_run(config, fixed) if resume else runs.make_run(config)
    config = replace(config, run_name=run.name, runs_folder=str(run.parent))
    torch.set_flush_denormal(True)  # numbers next to 0 are many times slower
    try:
        with runs.lock(run):
            remove_leftovers(run)
            yield run, config
    finally:
        torch.set_flush_denormal(False)


def _check_start(config: LoopConfig) -> None:
    """Refuse a policy to start from that is not there or of another size; warn of other rules."""
    network, about = load_policy(config.start)
    if network.sizes != config.network_sizes():
        raise SplendorError(
            f"the network in {config.start} has {network.sizes}, the config asks for "
            f"{config.network_sizes()}"
        )
    for rules in config.rules_in_turn():
        differences = rule_differences(about["rules"], about["num_players"], rules)
        if differences:
            warnings.warn(f"{config.start} was trained for {differences}", PolicyWarning, 4)


class Loop(ABC, Generic[C, L]):
    """A run under way.

    A trainer sets up whatever else it needs, calls `restore`, and defines the abstract methods.

    Args:
        config: The settings; its `run_folder` is `run`.
        run: The folder.
        learner: Is closed in the end.
        on_evaluation: Called with the step and the shares of the victories after each evaluation.
            What it raises ends the run.
    """

    def __init__(self, config: C, run: Path, learner: L, on_evaluation: OnEvaluation) -> None:
        self.config = config
        self.learner = learner
        self.run = run
        self.on_evaluation = on_evaluation
        self.step, self.num_updates, self.minutes = 0, 0, 0.0
        self.statistics: list[dict[str, float]] = []  # of the updates since the last evaluation
        self.rules_in_turn = config.rules_in_turn()
        chance = [1 / rules.num_players for rules in self.rules_in_turn]
        self.metrics = runs.Metrics(run, chance)
        self.trackers: list[Any] = []
        self.evaluated, self.evaluation, self.saved = 0, {}, 0

    @abstractmethod
    def describe(self) -> str:
        """What a run tells of itself when it starts, beside its folder and steps."""

    @abstractmethod
    def update(self, rules: Rules) -> tuple[int, dict[str, float]]:
        """Play on by these rules and learn; the steps made, and how it went."""

    def player(self) -> PolicyNetwork:
        """The network that an evaluation measures."""
        return self.learner.network

    def policy(self) -> tuple[PolicyNetwork, int]:
        """The network that the run's policy is, and the step it was trained to."""
        return self.player(), self.step

    def policies(self) -> dict[str, tuple[PolicyNetwork, int]]:
        """The networks that can be played, by the folder for each, and the steps they have seen."""
        return {"policy": self.policy()}

    def compare(self) -> dict[str, float]:
        """At an evaluation: win shares against others than the built-in agents, by name."""
        return {}

    def tidy(self) -> None:
        """After each update: whatever else is due."""

    def state(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """All that is needed to go on, beside the loop's own: tensors, and JSON's types."""
        return self.learner.state()

    def load_state(self, tensors: dict[str, torch.Tensor], values: dict[str, Any]) -> None:
        """Go on from what `state` gave."""
        self.learner.load_state(tensors, values)

    def start_from(self, network: PolicyNetwork) -> None:
        """Begin with its weights."""
        self.learner.network.load_state_dict(network.state_dict())

    def after_saving(self) -> None:
        """After a checkpoint: older ones are no longer needed."""

    def after_evaluation(self) -> None:
        """What is kept of the outcome, beside the metrics."""
        self._save_policies()

    def restore(self, resume: bool) -> None:
        """Go on from the last checkpoint; a new run begins with the weights asked for, if any."""
        if self.config.start and not resume:
            self.start_from(load_policy(self.config.start)[0])
        if resume:
            self.step, path = last_resume_file(self.run)
            self._load(path)
        self.metrics.keep_until(self.step)
        rows = self.metrics.rows
        self.evaluated = int(rows[-1]["step"]) if rows else 0
        self.evaluation = runs.shares(rows[-1]) if rows else {}
        if self.evaluated == self.step:
            self.statistics = []  # they were saved before the evaluation
        self.saved = self.step

    def go(self) -> None:
        """Train until `total_steps`, for `max_minutes`, or until a signal."""
        config = self.config
        try:
            if self.step and runs.check_finished(self.run, self.step, config.total_steps):
                return
            if self.is_over():
                runs.console.print(
                    f"{self.run} is finished after {self.minutes:.1f} minutes; "
                    "--set max_minutes=... goes on"
                )
                return
            self.trackers = make_trackers(config.trackers, self.run, config, resumed_at=self.step)
            runs.write_settings(self.run, config)
            runs.console.print(
                f"training {self.run}: steps {self.step:,} to {config.total_steps:,}, "
                + (f"at most {config.max_minutes:g} minutes, " if config.max_minutes else "")
                + self.describe()
            )
            with (
                runs.caught_signals() as caught,
                runs.progress_bar(config.total_steps, self.step) as bar,
            ):
                self._between_updates(bar)  # an evaluation may have been broken off
                while not (self.is_over() or caught):
                    self._update(bar)
                    self._between_updates(bar)
            if not self.is_over():
                self._save()
                runs.exit_stopped(self.run, self.step, caught[0])
        finally:
            for tracker in self.trackers:
                tracker.close()
            self.close()

    def close(self) -> None:
        """Let the threads go."""
        self.learner.close()

    def progress(self) -> float:
        """Part of the training that is done, from 0 to 1."""
        config = self.config
        part = self.step / config.total_steps
        if config.max_minutes:
            part = max(part, self.minutes / config.max_minutes)
        return min(1.0, part)

    def is_over(self) -> bool:
        """Whether all is done; not before the first step, without which there is no policy."""
        return self.step > 0 and self.progress() == 1

    def _update(self, bar: Progress) -> None:
        start = time.monotonic()
        rules = self.rules_in_turn[self.num_updates % len(self.rules_in_turn)]
        steps, statistics = self.update(rules)
        self.num_updates += 1
        self.step += steps
        self._check_sanity(statistics)
        seconds = time.monotonic() - start
        statistics["steps_per_second"] = steps / seconds
        self.minutes += seconds / 60
        statistics = {f"{key}{self.suffix(rules)}": value for key, value in statistics.items()}
        self.statistics.append(statistics)
        figures = {f"train/{key}": value for key, value in statistics.items()}
        for tracker in self.trackers:
            tracker.log(figures, self.step)
        speed = self.step / (self.minutes * 60)
        total = self.config.total_steps
        if self.config.max_minutes and self.step:
            total = round(self.step / self.progress())  # as far as one can tell
        bar.update(
            bar.task_ids[0],
            completed=min(self.step, total),
            total=total,
            status=f"{speed:,.0f} steps/s  {runs.as_text(self.evaluation)}",
        )

    def _check_sanity(self, statistics: dict[str, float]) -> None:
        is_sane = all(np.isfinite(value) for value in statistics.values())
        if not is_sane or not all(one.isfinite().all() for one in self.learner.parameters):
            raise DivergedError(
                f"the training diverged: at step {self.step:,} losses or weights are NaN or "
                f"infinite; nothing is saved since step {self.saved:,}; "
                "try a smaller learning_rate"
            )

    def _between_updates(self, bar: Progress) -> None:
        """Checkpoints and evaluations that are due."""
        config, step = self.config, self.step
        if step == 0:
            return
        self.tidy()
        is_evaluation_due = step - self.evaluated >= config.eval_every or self.is_over()
        is_save_due = step - self.saved >= config.checkpoint_every
        if self.saved < step and (is_save_due or is_evaluation_due):
            self._save()  # before the evaluation: what breaks that off costs no training
        if self.evaluated < step and is_evaluation_due:
            self._evaluate(bar.console.print)

    def _evaluate(self, show: Callable[[str], None]) -> None:
        """Measure the arg-max policy, watch the sampled one."""
        start = time.monotonic()
        num_games, seed = self.config.eval_games, runs.EVALUATION_SEED + self.step
        network = self.player()
        others, evaluation, facts = self.compare(), {}, {}
        for rules in self.rules_in_turn:
            suffix = self.suffix(rules)
            shares = runs.evaluate(network, rules, num_games, seed)
            evaluation |= {f"{name}{suffix}": share for name, share in shares.items()}
            games = play_self(network, rules, num_games, seed)
            facts |= {f"{name}{suffix}": value for name, value in summarize(games).items()}
            with runs.tell_once("drawing"):
                draw_calibration(self.run / f"calibration{suffix}.png", games)
        evaluation |= others
        seconds = time.monotonic() - start
        self.minutes += seconds / 60
        shares = {f"win_share_{name}": share for name, share in evaluation.items()}
        policy_step = self.policy()[1]
        row = {
            "step": self.step,
            "minutes": round(self.minutes, 2),
            "policy_step": policy_step,
        }
        for key, value in (shares | _means(self.statistics) | facts).items():
            row[key] = float(f"{value:.6g}")
        self.metrics.append(row)
        with runs.tell_once("drawing"):
            draw_diagnostics(self.run / "diagnostics.png", self.metrics.rows)
        self.evaluated, self.evaluation, self.statistics = self.step, evaluation, []
        self.after_evaluation()
        for tracker in self.trackers:
            tracker.log(
                {f"eval/{key}": value for key, value in (shares | facts).items()}, self.step
            )
        kept = "" if policy_step == self.step else f"  the policy is that of step {policy_step:,}"
        show(
            f"step {self.step:,}  {self.minutes:.1f} min  {runs.as_text(evaluation)}  "
            f"(at least {num_games} games each, {seconds:.1f} s){kept}"
        )
        self.on_evaluation(self.step, evaluation)

    def suffix(self, rules: Rules) -> str:
        """What the names of figures end in: nothing for a single number of players."""
        return f"_{rules.num_players}p" if len(self.rules_in_turn) > 1 else ""

    def _save_policies(self) -> None:
        """Write them, each with how it did at its step."""
        evaluations = {row["step"]: runs.shares(row) for row in self.metrics.rows}
        for name, (network, step) in self.policies().items():
            save_policy(
                self.run / name,
                network,
                self.rules_in_turn,
                algorithm=self.config.algorithm,
                step=step,
                evaluation=evaluations.get(step, {}),
            )

    def _save(self) -> None:
        """Write the policy for others, then all that is needed to go on."""
        tensors, values = self.state()
        values |= {
            "layouts": layouts(),
            "state_version": state_version(),
            "num_updates": self.num_updates,
            "minutes": self.minutes,
            "statistics": self.statistics,
        }
        path = self.run / f"resume-{self.step:012d}{_RESUME}"
        try:
            self._save_policies()
            write_atomically(path, safetensors.torch.save(tensors, {"values": json.dumps(values)}))
        except OSError as error:
            raise SplendorError(
                f"cannot write {path}: {error}; nothing is saved since step {self.saved:,}"
            ) from error
        for old in runs.resume_files(self.run, _RESUME):
            if old != path:
                old.unlink(missing_ok=True)
        self.after_saving()
        self.saved = self.step

    def _load(self, path: Path) -> None:
        try:
            content = runs.read(path)
            tensors = safetensors.torch.load(content)
            values = json.loads(metadata(content)["values"])
            check_layouts(values["layouts"], path)
            if values["state_version"] != state_version():
                raise SplendorError(f"{path} was made by a program with other records of games")
            self.num_updates, self.minutes = values["num_updates"], values["minutes"]
            self.statistics = values["statistics"]
            self.load_state(tensors, values)
        except SplendorError:
            raise
        except _BROKEN as error:
            raise SplendorError(f"cannot resume from {path}: {error!r}") from error


def _means(statistics: list[dict[str, float]]) -> dict[str, float]:
    """The mean of each figure over the updates that have it."""
    keys = dict.fromkeys(key for one in statistics for key in one)
    return {key: float(np.mean([one[key] for one in statistics if key in one])) for key in keys}
