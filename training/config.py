"""The settings of a training run: one flat TOML file, checked before anything starts."""

import json
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from splendor_env.core.state import PRESETS, Rules, SplendorError, resolve_rules


def _setting(default: Any, low: float | None = None, high: float | None = None) -> Any:
    return field(default=default, metadata={"low": low, "high": high})


@dataclass(frozen=True)
class Config:
    """MaskablePPO in self-play. A step is one decision of the learner in one game.

    Raises:
        SplendorError: A value of the wrong type or out of its range.
    """

    run_name: str = "run"  # folder of the run; the config file's name if the file has none
    runs_folder: str = "runs"
    seed: int = _setting(0, 0, 2**31 - 1)
    num_threads: int = _setting(0, 0, 256)  # of torch; 0 leaves torch's choice

    rules: str = "standard"  # a preset
    num_players: int = _setting(2, 2, 4)

    total_steps: int = _setting(4_000_000, 1)
    num_games: int = _setting(256, 1, 65_536)  # at once
    rollout_steps: int = _setting(64, 2, 65_536)  # decisions per game between two updates

    layer_size: int = _setting(256, 8, 8192)
    num_shared_layers: int = _setting(1, 0, 8)  # hidden layers of policy and value together
    num_separate_layers: int = _setting(1, 0, 8)  # and then of each of them

    learning_rate: float = _setting(5e-4, 0, 1)  # falls linearly to 0 at total_steps
    batch_size: int = _setting(4096, 2)
    num_epochs: int = _setting(2, 1, 100)
    gamma: float = _setting(1.0, 0, 1)
    gae_lambda: float = _setting(0.95, 0, 1)
    clip_coef: float = _setting(0.2, 0, 1)
    ent_coef: float = _setting(0.01, 0, 1)  # falls linearly to 0 at total_steps
    vf_coef: float = _setting(0.5, 0, 100)
    max_grad_norm: float = _setting(0.5, 0)

    # Relative frequencies with which a seat is given to
    weight_current: float = _setting(0.6, 0)  # the learner's policy as of the last update
    weight_past: float = _setting(0.2, 0)  # frozen copies of it, evenly over the run
    weight_greedy: float = _setting(0.15, 0)
    weight_random: float = _setting(0.05, 0)
    snapshot_every: int = _setting(250_000, 1)  # steps between frozen copies at first
    max_snapshots: int = _setting(6, 1, 1000)  # then every second one goes, the interval doubles

    eval_every: int = _setting(500_000, 1)  # steps
    eval_games: int = _setting(200, 1)  # against each opponent
    checkpoint_every: int = _setting(500_000, 1)  # steps

    def __post_init__(self) -> None:
        for setting in fields(self):
            check_setting(setting.name, getattr(self, setting.name))
        if self.rules not in PRESETS:
            raise SplendorError(f"rules must be one of {', '.join(PRESETS)}, not {self.rules!r}")
        if not self.run_name or Path(self.run_name).name != self.run_name:
            raise SplendorError(f"run_name must be the name of a folder, not {self.run_name!r}")
        if self.rollout_size % self.batch_size:
            raise SplendorError(
                f"batch_size {self.batch_size} must divide num_games * rollout_steps = "
                f"{self.rollout_size}"
            )
        if self.weight_current + self.weight_past + self.weight_greedy + self.weight_random == 0:
            raise SplendorError("one of the weights of the opponents must be more than 0")

    @property
    def rollout_size(self) -> int:
        """Steps between two updates."""
        return self.num_games * self.rollout_steps

    @property
    def run_folder(self) -> Path:
        """Where the run keeps its files."""
        return Path(self.runs_folder) / self.run_name

    def resolve_rules(self) -> Rules:
        """The rules as the core takes them."""
        return resolve_rules(self.rules, self.num_players)


_FIELDS = {setting.name: setting for setting in fields(Config)}


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Read a config file; each override is "key=value" and goes before the file.

    Raises:
        SplendorError: No such file, not TOML, an unknown key or a bad value.
    """
    path = Path(path)
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SplendorError(f"cannot read the config {path}: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise SplendorError(f"{path} is not TOML: {error}") from error
    values = {"run_name": path.stem} | values
    for override in overrides:
        key, separator, text = override.partition("=")
        if not separator:
            raise SplendorError(f"a setting is given as key=value, not {override!r}")
        values[key.strip()] = _parse(key.strip(), text.strip())
    for key in values:
        _check_key(key)
    return Config(**{key: _convert(key, value) for key, value in values.items()})


def load_run_config(run_folder: str | Path, overrides: Sequence[str] = ()) -> Config:
    """The config of an existing run, to resume it; it stays in the folder it is in now.

    Raises:
        SplendorError: As `load_config`.
    """
    folder = Path(run_folder).resolve()
    if not (folder / "config.toml").is_file():
        raise SplendorError(f"{run_folder} is not the folder of a run: it has no config.toml")
    place = [f"run_name={folder.name}", f"runs_folder={folder.parent}"]
    return load_config(folder / "config.toml", [*overrides, *place])


def dump_config(config: Config) -> str:
    """The config as TOML that `load_config` reads back."""
    # JSON's strings, numbers and booleans are TOML's.
    return "".join(
        f"{key} = {json.dumps(value, ensure_ascii=False)}\n"
        for key, value in asdict(config).items()
    )


def check_setting(key: str, value: Any) -> None:
    """Raise unless `value` has the type of the setting and is in its range.

    Raises:
        SplendorError: It is not.
    """
    kind: Any = _FIELDS[key].type
    low, high = _FIELDS[key].metadata.get("low"), _FIELDS[key].metadata.get("high")
    is_right = isinstance(value, kind) and not isinstance(value, bool)
    if is_right and kind is not str:
        # Written so that a NaN is out of range.
        is_right = (low is None or value >= low) and (high is None or value <= high)
        is_right = is_right and abs(value) != float("inf")
    if not is_right:
        bounds = "" if low is None else f" from {low}" + ("" if high is None else f" to {high}")
        raise SplendorError(f"{key} must be {kind.__name__}{bounds}, not {value!r}")


def _check_key(key: str) -> None:
    if key not in _FIELDS:
        raise SplendorError(f"unknown setting {key!r}; settings are {', '.join(_FIELDS)}")


def _parse(key: str, text: str) -> Any:
    """The text of an override as a value of the field's type."""
    _check_key(key)
    if _FIELDS[key].type is str:
        return text
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    raise SplendorError(f"{key} must be a number, not {text!r}")


def _convert(key: str, value: Any) -> Any:
    """Whole floats such as 4e6 count as integers, integers as floats."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if _FIELDS[key].type is float and is_number:
        return float(value)
    if _FIELDS[key].type is int and isinstance(value, float) and value.is_integer():
        return int(value)
    return value
