"""MaskablePPO in self-play: `python -m training.sb3_ppo configs/quickstart.toml`.

A run keeps everything in its folder:

    config.toml, versions.json      what was asked for, and by which libraries it was run
    policy/                         the last checkpoint, for `ppo:FOLDER` and for other programs
    metrics.csv, learning_curve.png, events.*   evaluations; the last is TensorBoard's
    resume-STEP.pt, opponents/      learner, optimiser and frozen copies, to go on from
    .lock                           held by the process that trains

Nothing here is unpickled: of `resume-STEP.pt` only tensors are read. SB3's own zip files are not
written, and those of others must not be loaded: `MaskablePPO.load` runs code that they contain.
"""

import csv
import io
import json
import shlex
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger, TensorBoardOutputFormat
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import Schedule
from torch import nn
from torch.distributions import Distribution

from splendor_env.agents import Agent, make_agent
from splendor_env.core.actions import NUM_ACTIONS
from splendor_env.core.observation import OBSERVATION_SIZE
from splendor_env.core.state import SplendorError
from splendor_env.envs.sb3 import SplendorVecEnv
from splendor_env.evaluation.arena import play_match
from training.checkpoint import (
    STEP_DIGITS,
    library_versions,
    save_policy,
    weights_from_bytes,
    weights_to_bytes,
    write_atomically,
)
from training.config import Config, dump_config, load_config, load_run_config
from training.networks import NetworkSizes, PolicyNetwork
from training.policy_agent import PolicyAgent

TRAINING_SEED = 2**40
EVALUATION_SEED = 2**41
"""The deals of training and of the evaluations during it start from these seeds, plus `seed` or the
step: other deals than those that people evaluate on, whose seeds are small."""

_FIXED = ("rules", "num_players", "layer_size", "num_shared_layers", "num_separate_layers")
"""Settings that a resumed run cannot change."""

_MAX_LOGIT = 1e6
"""SB3 masks an action by setting its logit to -1e8, which must be far below all others."""

_console = Console(stderr=True, highlight=False, soft_wrap=True, markup=False)


def train(config: Config, resume: bool = False) -> Path:
    """Train a policy and return the folder of the run, which then holds its last checkpoint.

    A new run does not touch an old one: where the folder exists, a number is added to its name.
    SIGINT and SIGTERM save all that is needed to go on, and exit.

    Args:
        config: The settings.
        resume: Go on with the run in `config.run_folder`.

    Raises:
        SplendorError: Nothing to resume, or not by these settings; another process trains in the
            folder; or the training diverged, which leaves the last good checkpoint.
        SystemExit: After a signal, with status 128 + its number.
    """
    run = _check_run(config) if resume else _make_run(config)
    config = replace(config, run_name=run.name, runs_folder=str(run.parent))
    with _lock(run):
        _train(config, run, resume)
    return run


def _train(config: Config, run: Path, resume: bool) -> None:
    if config.num_threads:
        torch.set_num_threads(config.num_threads)
    # Torch's check of every distribution costs time, and the agents check weights when they load.
    Distribution.set_default_validate_args(False)

    step, resume_file = _last_resume_file(run) if resume else (0, None)
    opponents = Opponents(config, run / "opponents", step)
    env = SplendorVecEnv(config.resolve_rules(), config.num_games, *opponents.draw())
    model = _make_model(config, env, seed=(config.seed + step) % 2**31)
    env.seed(TRAINING_SEED + config.seed + step)  # after SB3 has set its own
    if resume_file is not None:
        _load_parameters(model, resume_file)
        model.num_timesteps = step
    opponents.update(model.policy)
    write_atomically(run / "config.toml", dump_config(config).encode())
    write_atomically(run / "versions.json", json.dumps(library_versions(), indent=2).encode())
    _console.print(
        f"{'resuming' if resume else 'training'} {run}: steps {step:,} to {config.total_steps:,}, "
        f"{len(opponents.past)} past selves"
    )
    with _signals() as caught, _progress(config.total_steps, step) as progress:
        callback = _Trainer(config, run, opponents, env, progress, caught)
        model.set_logger(Logger(str(run), [TensorBoardOutputFormat(str(run))]))
        # SB3 adds the steps already done to this number.
        try:
            model.learn(max(0, config.total_steps - step), callback, reset_num_timesteps=False)
            callback.finish()
        finally:
            model.logger.close()
    if caught:
        how = f"splendor train {shlex.quote(str(run))} --resume"
        _console.print(f"stopped at step {model.num_timesteps:,}; go on with: {how}")
        raise SystemExit(128 + caught[0])


class Opponents:
    """Whom the learner meets: itself as it is, frozen copies of itself, and the fixed agents.

    The copies are files, so that a resumed run has them again.

    Attributes:
        current: Plays by the learner's weights, as of the last `update`.
        past: By training step, oldest first.
    """

    def __init__(self, config: Config, folder: Path, step: int) -> None:
        self._config = config
        self._folder = folder
        self._sizes = _network_sizes(config)
        self.current = PolicyAgent(
            PolicyNetwork(self._sizes), "current", sample=True, seed=config.seed
        )
        self.past: dict[int, PolicyAgent] = {}
        self._fixed = [make_agent("greedy", config.seed), make_agent("random", config.seed)]
        for path in sorted(folder.glob(f"step-{STEP_DIGITS}.safetensors")):
            its_step = int(path.stem.removeprefix("step-"))
            if its_step <= step:
                network = PolicyNetwork(self._sizes)
                weights_from_bytes(_read(path), network, path)
                self.past[its_step] = self._freeze(network, its_step)

    def update(self, policy: BasePolicy) -> None:
        """Take over the learner's weights."""
        self.current.network.load_state_dict(policy.get_submodule("mlp_extractor").state_dict())

    def add(self, step: int) -> None:
        """Freeze the current weights; when there are too many copies, drop every second one."""
        network = PolicyNetwork(self._sizes)
        network.load_state_dict(self.current.network.state_dict())
        self.past[step] = self._freeze(network, step)
        write_atomically(self._file(step), weights_to_bytes(network))
        if len(self.past) > self._config.max_snapshots:
            for its_step in list(self.past)[-2::-2]:
                del self.past[its_step]
                self._file(its_step).unlink(missing_ok=True)

    def draw(self) -> tuple[list[Agent], list[float]]:
        """The agents to draw from, and the weight of each."""
        config = self._config
        past = list(self.past.values()) or [self.current]
        agents: list[Agent] = [self.current, *past, *self._fixed]
        weights = [config.weight_current] + [config.weight_past / len(past)] * len(past)
        return agents, [*weights, config.weight_greedy, config.weight_random]

    def is_due(self, step: int) -> bool:
        """Whether the last copy is old enough for another; the interval grows with the pool's."""
        steps = list(self.past)
        gap = steps[1] - steps[0] if len(steps) > 1 else self._config.snapshot_every
        return step - (steps[-1] if steps else 0) >= gap

    def _freeze(self, network: PolicyNetwork, step: int) -> PolicyAgent:
        return PolicyAgent(
            network.eval(), f"step {step}", sample=True, seed=self._config.seed + step
        )

    def _file(self, step: int) -> Path:
        return self._folder / f"step-{step:012d}.safetensors"


class _Trainer(BaseCallback):
    """What happens between SB3's updates: opponents, evaluations, checkpoints, stopping."""

    def __init__(
        self,
        config: Config,
        run: Path,
        opponents: Opponents,
        env: SplendorVecEnv,
        progress: Progress,
        caught: list[int],
    ) -> None:
        super().__init__()
        self._config = config
        self._run = run
        self._opponents = opponents
        self._env = env
        self._progress = progress
        self._caught = caught
        self._evaluation: dict[str, float] = {}
        self._metrics = _read_metrics(run)

    def _on_training_start(self) -> None:
        self._start = time.monotonic()
        self._first_step = self._saved = self.num_timesteps
        self._metrics = [row for row in self._metrics if row["step"] <= self.num_timesteps]
        last = self._metrics[-1] if self._metrics else {"step": 0, "minutes": 0.0}
        self._evaluated, self._minutes = int(last["step"]), last["minutes"]
        self._evaluation = _shares(last)

    def _on_rollout_start(self) -> None:
        """SB3 has just updated the policy: `num_timesteps` are behind it."""
        step = self.num_timesteps
        remaining = max(0.0, 1 - step / self._config.total_steps)
        self.model.ent_coef = self._config.ent_coef * remaining  # type: ignore[attr-defined]
        self._take_over_weights()
        if step > 0 and self._opponents.is_due(step):
            self._opponents.add(step)
            self._env.set_opponents(*self._opponents.draw())
        if step - self._evaluated >= self._config.eval_every:
            self._evaluate()
        if step - self._saved >= self._config.checkpoint_every:
            self._save()
        self.logger.dump(step)  # else SB3 would put these values after the next rollout

    def _on_step(self) -> bool:
        return not self._caught

    def _on_rollout_end(self) -> None:
        self.logger.record("time/steps_per_second", self._show_status())

    def _show_status(self) -> float:
        """Update the line of the progress bar and return the steps per second."""
        speed = (self.num_timesteps - self._first_step) / (time.monotonic() - self._start)
        self._progress.update(
            self._progress.task_ids[0],
            completed=self.num_timesteps,
            status=f"{speed:,.0f} steps/s  {_as_text(self._evaluation)}",
        )
        return speed

    def finish(self) -> None:
        """Evaluate, unless stopped, and save."""
        self._take_over_weights()
        if not self._caught and self._evaluated < self.num_timesteps:
            self._evaluate()
            self._show_status()
        self._save()
        self.logger.dump(self.num_timesteps)

    def _take_over_weights(self) -> None:
        """Give the learner's weights to `current`, from which all else is made, if they are sane.

        Weights may be finite and outputs not.
        """
        self._opponents.update(self.model.policy)
        network = self._opponents.current.network
        with torch.no_grad():
            logits, value = network(torch.as_tensor(self.model._last_obs))  # type: ignore[attr-defined]
        is_sane = all(torch.isfinite(tensor).all() for tensor in (*network.parameters(), value))
        if not is_sane or not (logits.abs() < _MAX_LOGIT).all():  # nor is NaN smaller
            raise SplendorError(
                f"the training diverged: at step {self.num_timesteps:,} weights or outputs are NaN "
                f"or far too large; nothing is saved since step {self._saved:,}; "
                "try a smaller learning_rate"
            )

    def _evaluate(self) -> None:
        """Measure the arg-max policy; nothing is chosen by the outcome."""
        start = time.monotonic()
        step = self.num_timesteps
        agent = PolicyAgent(self._opponents.current.network, "learner")
        rules, num_games = self._config.resolve_rules(), self._config.eval_games
        against = {name: make_agent(name, EVALUATION_SEED) for name in ("random", "greedy")}
        if self._opponents.past:
            past = list(self._opponents.past.values())  # each in turn, as an arg-max policy too
            against["past"] = PolicyAgent(past[len(self._metrics) % len(past)].network, "past")
        self._evaluation = {
            name: play_match(agent, opponent, rules, num_games, EVALUATION_SEED + step).win_share
            for name, opponent in against.items()
        }
        self._evaluated = step
        minutes = self._minutes + (time.monotonic() - self._start) / 60
        train = {
            name: round(float(self.logger.name_to_value[f"train/{name}"]), 5)
            for name in ("entropy_loss", "approx_kl", "clip_fraction", "explained_variance")
            if f"train/{name}" in self.logger.name_to_value
        }
        shares = {f"win_share_{name}": share for name, share in self._evaluation.items()}
        self._metrics.append({"step": step, "minutes": round(minutes, 2), **shares, **train})
        _write_metrics(self._run, self._metrics)
        _draw_learning_curve(self._run, self._metrics, rules.num_players)
        for name, share in self._evaluation.items():
            self.logger.record(f"eval/win_share_{name}", share)
        self._progress.console.print(
            f"step {step:,}  {minutes:.1f} min  {_as_text(self._evaluation)}  "
            f"({num_games} games each, {time.monotonic() - start:.1f} s)"
        )

    def _save(self) -> None:
        step = self.num_timesteps
        network = self._opponents.current.network
        save_policy(
            self._run / "policy",
            network,
            self._config.resolve_rules(),
            step=step,
            evaluation=self._evaluation if self._evaluated == step else {},
        )
        content = io.BytesIO()
        torch.save(self.model.get_parameters(), content)
        path = self._run / f"resume-{step:012d}.pt"
        write_atomically(path, content.getvalue())
        for old in _resume_files(self._run):
            if old != path:
                old.unlink(missing_ok=True)
        self._saved = step


class _Policy(MaskableActorCriticPolicy):
    """SB3's policy around a `PolicyNetwork`, which gives logits and value itself."""

    def __init__(self, *args: Any, sizes: NetworkSizes, **kwargs: Any) -> None:
        self._sizes = sizes
        super().__init__(*args, **kwargs)

    def _build(self, lr_schedule: Schedule) -> None:
        self.mlp_extractor = PolicyNetwork(self._sizes)  # type: ignore[assignment]
        self.action_net = nn.Identity()  # type: ignore[assignment]
        self.value_net = nn.Identity()  # type: ignore[assignment]
        self.optimizer = torch.optim.Adam(self.mlp_extractor.parameters(), lr_schedule(1), eps=1e-5)


def _make_model(config: Config, env: SplendorVecEnv, seed: int) -> MaskablePPO:
    return MaskablePPO(
        _Policy,
        env,
        learning_rate=lambda remaining: config.learning_rate * max(0.0, remaining),
        n_steps=config.rollout_steps,
        batch_size=config.batch_size,
        n_epochs=config.num_epochs,
        gamma=config.gamma,
        gae_lambda=config.gae_lambda,
        clip_range=config.clip_coef,
        ent_coef=config.ent_coef,
        vf_coef=config.vf_coef,
        max_grad_norm=config.max_grad_norm,
        policy_kwargs={"sizes": _network_sizes(config)},
        seed=seed,
        device="cpu",
    )


def _network_sizes(config: Config) -> NetworkSizes:
    return NetworkSizes(
        OBSERVATION_SIZE,
        NUM_ACTIONS,
        config.layer_size,
        config.num_shared_layers,
        config.num_separate_layers,
    )


def _make_run(config: Config) -> Path:
    """Make a new folder, with a number where the name is taken."""
    number = 1
    run = config.run_folder
    while True:
        try:
            run.mkdir(parents=True)
        except FileExistsError:
            number += 1
            run = config.run_folder.with_name(f"{config.run_name}-{number}")
        except OSError as error:
            raise SplendorError(f"cannot make the run's folder {run}: {error}") from error
        else:
            break
    if number > 1:
        _console.print(f"{config.run_folder} exists (--resume goes on with it); this run is {run}")
    return run


def _check_run(config: Config) -> Path:
    """The existing folder, if the settings allow to go on with it."""
    run = config.run_folder
    before = load_run_config(run)
    for key in _FIXED:
        old, new = getattr(before, key), getattr(config, key)
        if old != new:
            raise SplendorError(
                f"{run} was trained with {key} = {old!r}: cannot resume with {new!r}"
            )
    return run


@contextmanager
def _lock(run: Path) -> Iterator[None]:
    """Keep other processes out of the run's folder; the lock goes when this process does."""
    path = run / ".lock"
    try:
        file = path.open("w")
    except OSError as error:
        raise SplendorError(f"cannot write {path}: {error}") from error
    with file:
        if sys.platform != "win32":
            import fcntl

            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise SplendorError(f"another process trains in {run}") from error
            except OSError:
                pass  # a file system without locks
        yield


def _resume_files(run: Path) -> list[Path]:
    return sorted(run.glob(f"resume-{STEP_DIGITS}.pt"))


def _last_resume_file(run: Path) -> tuple[int, Path]:
    files = _resume_files(run)
    if not files:
        raise SplendorError(f"{run} has no checkpoint to resume from")
    return int(files[-1].stem.removeprefix("resume-")), files[-1]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SplendorError(f"cannot read {path}: {error}") from error


def _load_parameters(model: MaskablePPO, path: Path) -> None:
    try:
        model.set_parameters(torch.load(path, weights_only=True))
    except Exception as error:  # torch raises many kinds
        raise SplendorError(f"cannot resume from {path}: {error}") from error


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM; a second one acts as always."""
    caught: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield caught
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def catch(number: int, frame: Any) -> None:
        caught.append(number)
        restore()

    for number in before:
        signal.signal(number, catch)
    try:
        yield caught
    finally:
        restore()


@contextmanager
def _progress(total_steps: int, step: int) -> Iterator[Progress]:
    columns = (
        BarColumn(20),
        TextColumn("{task.completed:,}/{task.total:,}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
        TextColumn("{task.fields[status]}"),
    )
    with Progress(*columns, console=_console) as progress:
        progress.add_task("", total=total_steps, completed=step, status="")
        yield progress


def _as_text(evaluation: dict[str, float]) -> str:
    return "  ".join(f"{name} {share:.1%}" for name, share in evaluation.items())


def _shares(row: dict[str, float]) -> dict[str, float]:
    return {
        key.removeprefix("win_share_"): value
        for key, value in row.items()
        if key.startswith("win_share_")
    }


def _read_metrics(run: Path) -> list[dict[str, float]]:
    path = run / "metrics.csv"
    if not path.exists():
        return []
    content = _read(path)
    try:
        rows = [
            {key: float(value) for key, value in row.items() if value}
            for row in csv.DictReader(content.decode().splitlines())
        ]
        return [row | {"step": int(row["step"]), "minutes": row["minutes"]} for row in rows]
    except (ValueError, KeyError, TypeError, OverflowError, csv.Error) as error:
        raise SplendorError(f"{path} is broken: {error!r}; without it the run can go on") from error


def _write_metrics(run: Path, rows: list[dict[str, float]]) -> None:
    keys = dict.fromkeys(key for row in rows for key in row)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(keys), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(run / "metrics.csv", text.getvalue().encode())


def _draw_learning_curve(run: Path, rows: list[dict[str, float]], num_players: int) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    for name in ("random", "greedy", "past"):
        points = [(row["step"] / 1e6, _shares(row)[name]) for row in rows if name in _shares(row)]
        if points:
            axes.plot(*zip(*points, strict=True), marker=".", label=f"against {name}")
    axes.axhline(1 / num_players, color="grey", linewidth=0.8, linestyle=":")
    axes.set(
        xlabel="million steps", ylabel="share of the victories", ylim=(0, 1.02), title=run.name
    )
    axes.legend(loc="lower right")
    content = io.BytesIO()
    FigureCanvasAgg(figure).print_png(content)
    write_atomically(run / "learning_curve.png", content.getvalue())


def main(arguments: list[str]) -> None:
    """`python -m training.sb3_ppo CONFIG [key=value ...] [--resume]`."""
    settings = [argument for argument in arguments if argument != "--resume"]
    if not settings:
        raise SystemExit(main.__doc__)
    try:
        train(load_config(settings[0], settings[1:]), resume="--resume" in arguments)
    except SplendorError as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main(sys.argv[1:])
