"""A run's folder and what happens around training in it, whatever the trainer.

docs/training.md lists what a run keeps in its folder.
"""

import csv
import io
import json
import shlex
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from splendor_env.agents import make_agent
from splendor_env.core.state import Rules, SplendorError
from splendor_env.evaluation import play_match
from training.checkpoint import STEP_DIGITS, git_commit, library_versions, write_atomically
from training.config import RunConfig, dump_config, load_run_config
from training.figures import new_figure, write_figure
from training.networks import PolicyNetwork
from training.policy_agent import PolicyAgent

TRAINING_SEED = 2**40
EVALUATION_SEED = 2**41
"""The deals of training and of the evaluations during it start from these seeds, plus `seed` or the
step: other deals than those that people evaluate on, whose seeds are small."""

console = Console(stderr=True, highlight=False, soft_wrap=True, markup=False)

_SHARE = "win_share_"

_told: set[str] = set()
"""By `tell_once`, in this process."""

_HANGUP = getattr(signal, "SIGHUP", None)  # not on Windows
_SIGNALS = [one for one in (signal.SIGINT, signal.SIGTERM, _HANGUP) if one is not None]


def make_run(config: RunConfig) -> Path:
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
        console.print(f"{config.run_folder} exists (--resume goes on with it); this run is {run}")
    return run


def check_run(config: RunConfig, fixed: Sequence[str]) -> Path:
    """The existing folder, if it was trained by this algorithm and with these `fixed` settings.

    Raises:
        SplendorError: It was not, or is not the folder of a run.
    """
    run = config.run_folder
    before = load_run_config(run)
    for key in ("algorithm", *fixed):
        old, new = getattr(before, key), getattr(config, key)
        if old != new:
            raise SplendorError(
                f"{run} was trained with {key} = {old!r}: cannot resume with {new!r}"
            )
    return run


def write_settings(run: Path, config: RunConfig) -> None:
    """Write config.toml and versions.json, which also names the commit of this program."""
    versions = library_versions() | {"git_commit": git_commit()}
    write_atomically(run / "config.toml", dump_config(config).encode())
    write_atomically(run / "versions.json", json.dumps(versions, indent=2).encode())


def check_finished(run: Path, step: int, total_steps: int) -> bool:
    """Whether there is nothing to go on with; then it says so.

    To be called before `write_settings`.

    Args:
        run: The folder of the run.
        step: That it has reached.
        total_steps: That it shall reach.

    Raises:
        SplendorError: It shall stop at a step that it was to go beyond, and has gone beyond.
    """
    if step < total_steps:
        return False
    if total_steps < load_run_config(run).total_steps:
        raise SplendorError(f"{run} has reached step {step:,}: cannot stop at {total_steps:,}")
    console.print(f"{run} is finished at step {step:,}; --set total_steps=... goes on")
    return True


@contextmanager
def lock(run: Path) -> Iterator[None]:
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


@contextmanager
def caught_signals() -> Iterator[list[int]]:
    """Collect the first SIGINT, SIGTERM or SIGHUP; a second one acts as always.

    One that was ignored before stays so, as after `nohup`. A second SIGHUP is ignored: who closes a
    terminal sends one from the shell and one from the terminal.
    """
    caught: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield caught
        return
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    before = {
        number: handler
        for number, handler in handlers.items()
        if handler not in (signal.SIG_IGN, None)
    }

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def catch(number: int, frame: Any) -> None:
        caught.append(number)
        restore()
        if number == _HANGUP:
            signal.signal(number, signal.SIG_IGN)
            console.quiet = console.is_terminal  # which is gone, and saving must go on
        with suppress(OSError, RuntimeError):  # the latter in the middle of another print
            console.print("stopping after this update; once more to stop at once")

    for number in before:
        signal.signal(number, catch)
    try:
        yield caught
    finally:
        restore()


def exit_stopped(run: Path, step: int, number: int) -> NoReturn:
    """After the signal `number`: say how to go on, and exit with the status that shells expect."""
    how = f"splendor train {shlex.quote(str(run))} --resume"
    console.print(f"stopped at step {step:,}; go on with: {how}")
    raise SystemExit(128 + number)


@contextmanager
def progress_bar(total_steps: int, step: int) -> Iterator[Progress]:
    """A bar with one task, `task_ids[0]`, whose field `status` is a line of text."""
    columns = (
        BarColumn(20),
        TextColumn("{task.completed:,}/{task.total:,}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
        TextColumn("{task.fields[status]}", markup=False),
    )
    with Progress(*columns, console=console) as progress:
        progress.add_task("", total=total_steps, completed=step, status="")
        yield progress


def resume_files(run: Path, suffix: str) -> list[Path]:
    """The files `resume-STEP` with this suffix, such as ".pt", oldest first."""
    return sorted(run.glob(f"resume-{STEP_DIGITS}{suffix}"))


def last_resume_file(run: Path, suffix: str) -> tuple[int, Path]:
    """The step of the newest one, and its path.

    Raises:
        SplendorError: There is none.
    """
    files = resume_files(run, suffix)
    if not files:
        raise SplendorError(f"{run} has no checkpoint to resume from")
    return int(files[-1].stem.removeprefix("resume-")), files[-1]


def read(path: Path) -> bytes:
    """The content of a file of the run.

    Raises:
        SplendorError: It cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise SplendorError(f"cannot read {path}: {error}") from error


def evaluate(network: PolicyNetwork, rules: Rules, num_games: int, seed: int) -> dict[str, float]:
    """The arg-max policy's share of the victories against random and greedy, by name.

    The seed is that of the deals and of the agents.
    """
    agent = PolicyAgent(network, "learner")
    return {
        name: play_match(agent, make_agent(name, seed), rules, num_games, seed).win_share
        for name in ("random", "greedy")
    }


def as_text(evaluation: dict[str, float]) -> str:
    """An evaluation in one line."""
    return "  ".join(f"{name} {share:.1%}" for name, share in evaluation.items())


def shares(row: dict[str, float]) -> dict[str, float]:
    """The evaluation in a row of the metrics: its columns `win_share_*` by what follows."""
    return {key.removeprefix(_SHARE): row[key] for key in row if key.startswith(_SHARE)}


@contextmanager
def tell_once(
    what: str, kinds: type[Exception] = OSError, told: set[str] | None = None
) -> Iterator[None]:
    """Turn an error in what training can do without into a warning, the first time.

    Args:
        what: Fails; begins the warning.
        kinds: Of the errors.
        told: Remembers what has failed before; without it, the whole process does.
    """
    told = _told if told is None else told
    try:
        yield
    except kinds as error:
        if what not in told:
            told.add(what)
            # Two levels are those of `contextlib`.
            warnings.warn(f"{what} failed, this is told once: {error}", stacklevel=3)


class Metrics:
    """The rows of metrics.csv, one for each evaluation, with at least `step` and `minutes`.

    Args:
        run: The folder, which may have the file already.
        chance: Shares that blind chance would win, one for each number of players: lines in the
            learning curve.

    Raises:
        SplendorError: The file is broken.
    """

    def __init__(self, run: Path, chance: Sequence[float] = ()) -> None:
        self._run = run
        self._chance = chance
        self.rows = _read_metrics(run / "metrics.csv")

    def keep_until(self, step: int) -> None:
        """Forget what came after a checkpoint that training goes on from."""
        kept = [row for row in self.rows if row["step"] <= step]
        if len(kept) < len(self.rows):
            self.rows = kept
            self._write()

    def append(self, row: dict[str, float]) -> None:
        """Add a row, write the file and draw the learning curve."""
        self.rows.append(row)
        self._write()
        with tell_once("drawing"):
            draw_learning_curve(self._run, self.rows, self._chance)

    def _write(self) -> None:
        keys = dict.fromkeys(key for row in self.rows for key in row)
        text = io.StringIO()
        writer = csv.DictWriter(text, list(keys), lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        write_atomically(self._run / "metrics.csv", text.getvalue().encode())


def _read_metrics(path: Path) -> list[dict[str, float]]:
    if not path.exists():
        return []
    content = read(path)
    try:
        rows = [
            {
                key: int(value) if value.isdecimal() else float(value)
                for key, value in row.items()
                if value
            }
            for row in csv.DictReader(content.decode().splitlines())
        ]
        return [row | {"step": int(row["step"]), "minutes": row["minutes"]} for row in rows]
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, csv.Error) as error:
        raise SplendorError(f"{path} is broken: {error!r}; without it the run can go on") from error


def draw_learning_curve(
    run: Path, rows: Sequence[dict[str, float]], chance: Sequence[float] = ()
) -> None:
    """Draw learning_curve.png: each win share over the steps, the minutes along the top.

    A dotted line stands at each share in `chance`.
    """
    from matplotlib.ticker import MaxNLocator

    figure = new_figure(7, 4)
    axes = figure.add_subplot()
    for name in dict.fromkeys(name for row in rows for name in shares(row)):
        points = [(row["step"] / 1e6, shares(row)[name]) for row in rows if name in shares(row)]
        axes.plot(*zip(*points, strict=True), marker=".", label=f"against {name}")
    for share in chance:
        axes.axhline(share, color="grey", linewidth=0.8, linestyle=":")
    axes.set(
        xlabel="million steps", ylabel="share of the victories", ylim=(0, 1.02), title=run.name
    )
    axes.grid(alpha=0.3)
    if any(map(shares, rows)):
        axes.legend(loc="lower right")
    # Whole minutes stand where they were reached: the speed need not be even.
    steps = [0.0] + [row["step"] / 1e6 for row in rows]
    minutes = [0.0] + [row["minutes"] for row in rows]
    ticks = [tick for tick in MaxNLocator(6).tick_values(0, minutes[-1]) if tick <= minutes[-1]]
    top = axes.secondary_xaxis("top")
    top.set_xticks(np.interp(ticks, minutes, steps), [f"{tick:g}" for tick in ticks])
    top.set_xlabel("minutes")
    write_figure(figure, run / "learning_curve.png")
