import json
import sys
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace

import pytest

pytest.importorskip("torch")
pytest.importorskip("safetensors")
pytest.importorskip("tensorboard")

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from splendor_env.core.state import SplendorError
from training.trackers import check_trackers, make_trackers, parse_trackers

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@dataclass(frozen=True)
class Config:
    total_steps: int = 100
    rules: str = "standard"


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "some-run"
    folder.mkdir()
    return folder


def scalars(run, key):
    events = EventAccumulator(str(run)).Reload()
    return [(event.step, round(event.value, 3)) for event in events.Scalars(key)]


class Wandb(ModuleType):
    """Takes down what is called."""

    def __init__(self):
        super().__init__("wandb")
        self.calls = []

    def init(self, **options):
        self.calls.append(("init", options))
        return SimpleNamespace(
            define_metric=lambda *args, **options: self.calls.append(("define", args, options)),
            log=lambda values: self.calls.append(("log", values)),
            finish=lambda: self.calls.append(("finish",)),
        )


class Mlflow(ModuleType):
    """A store that keeps everything in dictionaries, and its client."""

    def __init__(self):
        super().__init__("mlflow")
        self.experiments = {}
        self.runs = {}
        self.is_down = False
        self.entities = SimpleNamespace(
            Metric=lambda key, value, timestamp, step: (key, value, step)
        )
        self.MlflowClient = lambda: self

    def get_experiment_by_name(self, name):
        return self.experiments.get(name)

    def create_experiment(self, name):
        self.experiments[name] = SimpleNamespace(experiment_id="7")
        return "7"

    def create_run(self, experiment_id, run_name):
        assert experiment_id == "7"
        identifier = f"id{len(self.runs)}"
        self.runs[identifier] = {"name": run_name, "params": {}, "metrics": [], "status": "RUNNING"}
        return SimpleNamespace(info=SimpleNamespace(run_id=identifier))

    def update_run(self, identifier, status):
        self.runs[identifier]["status"] = status

    def log_param(self, identifier, key, value):
        assert key not in self.runs[identifier]["params"]
        self.runs[identifier]["params"][key] = value

    def log_batch(self, identifier, metrics):
        if self.is_down:
            raise ConnectionError("no route")
        self.runs[identifier]["metrics"] += metrics

    def set_terminated(self, identifier):
        self.runs[identifier]["status"] = "FINISHED"


@pytest.fixture
def wandb(monkeypatch):
    module = Wandb()
    monkeypatch.setitem(sys.modules, "wandb", module)
    return module


@pytest.fixture
def mlflow(monkeypatch):
    module = Mlflow()
    monkeypatch.setitem(sys.modules, "mlflow", module)
    return module


def track(run, names, values, step, config=None, **options):
    for tracker in make_trackers(names, run, config or Config(), **options):
        tracker.log(values, step)
        tracker.close()


def test_tensorboard_is_always_written(run):
    track(run, "", {"rounds": 30.0, "entropy": 1.5}, 100)
    assert scalars(run, "rounds") == [(100, 30)]
    assert scalars(run, "entropy") == [(100, 1.5)]
    assert not (run / "trackers.json").exists()


def test_tensorboard_forgets_what_came_after_the_step_that_a_run_goes_on_from(run):
    (tracker,) = make_trackers("", run, Config())
    for step in (50, 100, 150, 200):
        tracker.log({"rounds": float(step)}, step)
    tracker.close()
    track(run, "", {"rounds": 1.0}, 120, resumed_at=100)
    assert scalars(run, "rounds") == [(50, 50), (100, 100), (120, 1)]


@pytest.mark.parametrize(
    ("names", "parsed"),
    [
        ("", []),
        (" , ", []),
        ("wandb", ["wandb"]),
        ("mlflow, wandb", ["mlflow", "wandb"]),
        ("wandb,wandb", ["wandb"]),
    ],
)
def test_names_are_separated_by_commas(names, parsed):
    assert parse_trackers(names) == parsed


def test_an_unknown_name_is_told_the_choices(run):
    with pytest.raises(SplendorError, match=r"some of wandb, mlflow.*not 'comet'"):
        make_trackers("wandb,comet", run, Config())
    assert not list(run.iterdir())


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_a_missing_library_is_told_how_to_install(run, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(SplendorError, match=f"pip install {name}"):
        make_trackers(name, run, Config())
    assert not list(run.iterdir())


def test_wandb_gets_the_config_and_the_figures_at_their_steps(run, wandb):
    track(run, "wandb", {"rounds": 30.0}, 100)
    (_, options), define, log, finish = wandb.calls
    identifier = options.pop("id")
    assert options == {
        "project": "splendor",
        "name": "some-run",
        "resume": "allow",
        "config": {"total_steps": 100, "rules": "standard"},
        "allow_val_change": True,
        "dir": str(run),
    }
    assert define == ("define", ("*",), {"step_metric": "step"})
    assert log == ("log", {"rounds": 30.0, "step": 100})
    assert finish == ("finish",)
    assert json.loads((run / "trackers.json").read_text()) == {"wandb": identifier}


def test_wandb_goes_on_with_the_run_of_the_folder_and_no_other(run, wandb, tmp_path):
    def identifier(folder):
        folder.mkdir(exist_ok=True, parents=True)
        track(folder, "wandb", {}, 0)
        return [call[1]["id"] for call in wandb.calls if call[0] == "init"][-1]

    first = identifier(run)
    assert identifier(run) == first
    assert identifier(tmp_path / "elsewhere" / run.name) != first


def test_mlflow_gets_the_config_and_the_figures_at_their_steps(run, mlflow):
    track(run, "mlflow", {"win_share_greedy": 0.5, "eval/ppo:a/b, c é": 0.25}, 100)
    assert mlflow.runs == {
        "id0": {
            "name": "some-run",
            "params": {"total_steps": 100, "rules": "standard"},
            "metrics": [("win_share_greedy", 0.5, 100), ("eval/ppo_a_b__c__", 0.25, 100)],
            "status": "FINISHED",
        }
    }


def test_mlflow_goes_on_with_the_run_of_the_folder(run, mlflow):
    track(run, "mlflow", {"rounds": 30.0}, 100)
    (_, tracker) = make_trackers("mlflow", run, Config(total_steps=200), resumed_at=100)
    assert mlflow.runs["id0"]["status"] == "RUNNING"
    tracker.log({"rounds": 29.0}, 150)
    tracker.close()
    assert list(mlflow.runs) == ["id0"]
    assert mlflow.runs["id0"]["metrics"] == [("rounds", 30.0, 100), ("rounds", 29.0, 150)]
    assert mlflow.runs["id0"]["params"]["total_steps"] == 100  # MLflow lets no one change it


def test_mlflow_uses_the_experiment_that_is_there(run, mlflow, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    track(run, "mlflow", {}, 0)
    track(other, "mlflow", {}, 0)
    assert [one["name"] for one in mlflow.runs.values()] == ["some-run", "other"]
    assert list(mlflow.experiments) == ["splendor"]


def test_a_server_that_is_away_is_told_of_once_and_stops_nothing(run, mlflow):
    (_, tracker) = make_trackers("mlflow", run, Config())
    mlflow.is_down = True
    with pytest.warns(UserWarning, match="no route") as warned:
        tracker.log({"rounds": 30.0}, 100)
        tracker.log({"rounds": 30.0}, 200)
    assert len(warned) == 1
    mlflow.is_down = False
    tracker.log({"rounds": 30.0}, 300)
    assert mlflow.runs["id0"]["metrics"] == [("rounds", 30.0, 300)]


@pytest.mark.parametrize("names", ["", "wandb", "mlflow"])
def test_whatever_fails_later_is_told_once_and_stops_nothing(run, wandb, mlflow, names):
    tracker = make_trackers(names, run, Config())[-1]
    close = tracker._tracker.close

    def fail(*args, **options):
        raise OSError("No space left on device")

    tracker._tracker.log = tracker._tracker.close = fail
    message = f"{names or 'TensorBoard'} failed.*No space left on device"
    with pytest.warns(UserWarning, match=message) as warned:
        tracker.log({"rounds": 30.0}, 100)
        tracker.log({"rounds": 30.0}, 200)
        tracker.close()
    assert len(warned) == 1
    close()


def test_a_full_disk_under_tensorboard_stops_nothing(run, monkeypatch):
    (tracker,) = make_trackers("", run, Config())
    writer = tracker._tracker._writer.file_writer.event_writer

    def full(event):
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(writer, "add_event", full)
        with pytest.warns(UserWarning, match="TensorBoard failed.*No space left") as warned:
            for step in (100, 200):
                tracker.log({"rounds": 30.0}, step)
    tracker.log({"rounds": 29.0}, 300)
    tracker.close()
    assert len(warned) == 1
    assert scalars(run, "rounds") == [(300, 29)]


def test_trackers_can_be_checked_before_there_is_a_folder(wandb, monkeypatch):
    assert check_trackers("") == {}
    assert check_trackers("wandb") == {"wandb": wandb}
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(SplendorError, match="pip install mlflow"):
        check_trackers("wandb,mlflow")
    with pytest.raises(SplendorError, match="not 'comet'"):
        check_trackers("comet")
    assert wandb.calls == []


def test_a_service_that_cannot_start_stops_the_run_and_closes_the_others(run, wandb, mlflow):
    def fail(**options):
        raise RuntimeError("no key")

    wandb.init = fail
    with pytest.raises(SplendorError, match="wandb cannot start: no key"):
        make_trackers("mlflow,wandb", run, Config())
    assert mlflow.runs["id0"]["status"] == "FINISHED"


def test_both_may_be_asked_for(run, wandb, mlflow):
    track(run, "wandb,mlflow", {"rounds": 30.0}, 100)
    assert set(json.loads((run / "trackers.json").read_text())) == {"wandb", "mlflow"}
    assert scalars(run, "rounds") == [(100, 30)]


def test_broken_identifiers_are_told_of(run, wandb):
    (run / "trackers.json").write_text("{")
    with pytest.raises(SplendorError, match=r"trackers\.json is broken"):
        make_trackers("wandb", run, Config())
