"""Where a run's figures go beside `metrics.csv`: TensorBoard always, others by the setting.

A tracker that cannot start stops the run before it begins; one that fails later is told of once and
stops nothing. The services' own identifiers of a run are kept in its folder, so that a resumed run
goes on there too, and a new run under an old name does not.
"""

import json
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from splendor_env.core.state import SplendorError
from training.checkpoint import write_atomically
from training.run import tell_once

TRACKERS = ("wandb", "mlflow")
"""What can be asked for; TensorBoard need not."""

_PROJECT = "splendor"
_IDS = "trackers.json"


class Tracker(Protocol):
    """Takes figures of a run as they come."""

    def log(self, values: dict[str, float], step: int) -> None:
        """Record figures that hold after `step` training steps."""
        ...

    def close(self) -> None:
        """Send or write all that is left."""
        ...


def make_trackers(names: str, run: Path, config: Any, *, resumed_at: int = 0) -> list[Tracker]:
    """TensorBoard in the folder `run`, and the trackers named.

    Args:
        names: Some of `TRACKERS`, separated by commas.
        run: The existing folder of the run.
        config: A dataclass, recorded beside the figures.
        resumed_at: Step from which the run goes on: TensorBoard forgets what came after it.

    Raises:
        SplendorError: An unknown name, a library that is missing, or a service that cannot start.
    """
    services = {"wandb": _Wandb, "mlflow": _Mlflow}
    makers: dict[str, Callable[[], Tracker]] = {
        "TensorBoard": partial(_TensorBoard, run, resumed_at)
    }
    for name, library in check_trackers(names).items():
        makers[name] = partial(services[name], library, run, asdict(config))
    trackers: list[Tracker] = []
    for name, make in makers.items():
        try:
            trackers.append(_Forgiving(make(), name))
        except Exception as error:  # each has many kinds
            for tracker in trackers:
                tracker.close()
            raise SplendorError(f"the tracker {name} cannot start: {error}") from error
    return trackers


def check_trackers(names: str) -> dict[str, ModuleType]:
    """The libraries of the trackers named, by their names.

    Raises:
        SplendorError: An unknown name, or a library that is missing.
    """
    return {name: _import(name) for name in parse_trackers(names)}


def parse_trackers(names: str) -> list[str]:
    """The names in a setting such as "wandb,mlflow"; none in an empty one.

    Raises:
        SplendorError: An unknown name.
    """
    parsed = list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    for name in parsed:
        if name not in TRACKERS:
            raise SplendorError(
                f"trackers must be some of {', '.join(TRACKERS)}, separated by commas, not {name!r}"
            )
    return parsed


def _import(name: str) -> ModuleType:
    try:
        return __import__(name)
    except ImportError as error:
        raise SplendorError(
            f"the tracker {name} needs its library ({error}): pip install {name}"
        ) from error


class _Forgiving:
    """A tracker whose failures are told once: no disk or server may end a training of days."""

    def __init__(self, tracker: Tracker, name: str) -> None:
        self._tracker = tracker
        self._name = name
        self._told: set[str] = set()

    def log(self, values: dict[str, float], step: int) -> None:
        with tell_once(self._name, Exception, self._told):
            self._tracker.log(values, step)

    def close(self) -> None:
        with tell_once(self._name, Exception, self._told):
            self._tracker.close()


class _TensorBoard:
    def __init__(self, run: Path, resumed_at: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(run), purge_step=resumed_at + 1 if resumed_at else None)

    def log(self, values: dict[str, float], step: int) -> None:
        for key, value in values.items():
            self._writer.add_scalar(key, value, step)

    def close(self) -> None:
        self._writer.close()


class _Wandb:
    def __init__(self, wandb: Any, run: Path, settings: dict[str, Any]) -> None:
        identifier = _read_ids(run).get("wandb") or secrets.token_hex(8)
        self._run = wandb.init(
            project=_PROJECT,
            name=run.name,
            id=identifier,
            resume="allow",
            config=settings,
            allow_val_change=True,  # a resumed run may have other settings
            dir=str(run),
        )
        _write_id(run, "wandb", identifier)
        # Its own counter drops all that comes at an earlier step than the last, as after a resume.
        self._run.define_metric("*", step_metric="step")

    def log(self, values: dict[str, float], step: int) -> None:
        self._run.log({**values, "step": step})

    def close(self) -> None:
        self._run.finish()


class _Mlflow:
    """By default in `mlflow.db` of the working folder; `MLFLOW_TRACKING_URI` names another store.

    The client and not the module's functions, which know one run only in a whole process.
    """

    def __init__(self, mlflow: Any, run: Path, settings: dict[str, Any]) -> None:
        self._make_metric = mlflow.entities.Metric
        self._client = mlflow.MlflowClient()
        identifier = _read_ids(run).get("mlflow")
        if identifier is not None:
            self._client.update_run(identifier, status="RUNNING")
        else:
            experiment = self._client.get_experiment_by_name(_PROJECT)
            experiment_id = (
                experiment.experiment_id
                if experiment is not None
                else self._client.create_experiment(_PROJECT)
            )
            identifier = self._client.create_run(experiment_id, run_name=run.name).info.run_id
            for key, value in settings.items():  # which cannot be changed later
                self._client.log_param(identifier, key, value)
            _write_id(run, "mlflow", identifier)
        self._id = identifier

    def log(self, values: dict[str, float], step: int) -> None:
        now = int(time.time() * 1000)
        metrics = [
            self._make_metric(_mlflow_key(key), float(value), now, step)
            for key, value in values.items()
        ]
        self._client.log_batch(self._id, metrics=metrics)

    def close(self) -> None:
        self._client.set_terminated(self._id)


def _mlflow_key(key: str) -> str:
    """The key without characters that MLflow refuses; the part before a slash makes a group."""
    return "/".join(re.sub(r"[^A-Za-z0-9_.-]", "_", part) for part in key.split("/", 1))


def _read_ids(run: Path) -> dict[str, str]:
    path = run / _IDS
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise SplendorError(f"{path} is broken: {error}; without it a new record begins") from error


def _write_id(run: Path, name: str, identifier: str) -> None:
    content = json.dumps(_read_ids(run) | {name: identifier}, indent=2)
    write_atomically(run / _IDS, content.encode())
