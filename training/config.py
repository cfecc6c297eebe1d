"""The settings of a training run: one flat TOML file, checked before anything starts.

`RunConfig` has what every trainer needs; the `Config` in a trainer's file adds its own. The setting
`algorithm` names that file.
"""

import importlib
import json
import tomllib
from collections.abc import Sequence
from dataclasses import Field, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from splendor_env.core.state import PRESETS, Rules, SplendorError, resolve_rules
from training.networks import NETWORKS, NetworkSizes

ALGORITHMS = ("ppo", "sb3_ppo", "expert_iteration")
"""The trainers: each is a module of `training` with a `Config` and a function `train`."""


class DivergedError(SplendorError):
    """Losses, weights or outputs are NaN, infinite or far too large: these settings do not work."""


def setting(
    default: Any,
    low: float | None = None,
    high: float | None = None,
    *,
    choices: Sequence[str] = (),
) -> Any:
    """A field of a config, with its range or its choices."""
    return field(default=default, metadata={"low": low, "high": high, "choices": choices})


@dataclass(frozen=True)
class RunConfig:
    """What every run has. A step is one decision that is learnt from, in one game.

    Raises:
        SplendorError: A value of the wrong type, out of its range or none of its choices.
    """

    algorithm: str = setting("ppo", choices=ALGORITHMS)
    run_name: str = "run"  # folder of the run; the config file's name if the file has none
    runs_folder: str = "runs"
    seed: int = setting(0, 0, 2**31 - 1)
    num_threads: int = setting(1, 1, 256)  # cores used

    rules: str = setting("standard", choices=tuple(PRESETS))
    num_players: int = setting(2, 0, 4)  # 0 for 2, 3 and 4 players in turn

    total_steps: int = setting(4_000_000, 1)
    num_games: int = setting(256, 1, 65_536)  # at once
    rollout_steps: int = setting(64, 2, 65_536)  # decisions per game between two updates

    network: str = setting("mlp", choices=NETWORKS)
    layer_size: int = setting(256, 8, 8192)
    num_shared_layers: int = setting(1, 0, 8)  # hidden layers of policy and value together
    num_separate_layers: int = setting(1, 0, 8)  # and then of each of them
    card_size: int = setting(32, 4, 1024)  # numbers that describe a card in the network "cards"

    learning_rate: float = setting(5e-4, 0, 1)  # falls linearly to 0 at total_steps
    batch_size: int = setting(4096, 2)
    vf_coef: float = setting(0.5, 0, 100)
    max_grad_norm: float = setting(0.5, 1e-6)

    eval_every: int = setting(500_000, 1)  # steps
    eval_games: int = setting(200, 1)  # against each opponent
    checkpoint_every: int = setting(500_000, 1)  # steps

    def __post_init__(self) -> None:
        for one in fields(self):
            _check(one, getattr(self, one.name))
        if not self.run_name or Path(self.run_name).name != self.run_name:
            raise SplendorError(f"run_name must be the name of a folder, not {self.run_name!r}")
        if self.num_players == 1:
            raise SplendorError("num_players must be 2, 3, 4, or 0 for these three in turn, not 1")

    @property
    def rollout_size(self) -> int:
        """Steps between two updates."""
        return self.num_games * self.rollout_steps

    @property
    def run_folder(self) -> Path:
        """Where the run keeps its files."""
        return Path(self.runs_folder) / self.run_name

    def rules_in_turn(self) -> list[Rules]:
        """The rules as the core takes them: one, or those of 2, 3 and 4 players."""
        counts = (self.num_players,) if self.num_players else (2, 3, 4)
        return [resolve_rules(self.rules, count) for count in counts]

    def network_sizes(self) -> NetworkSizes:
        """What the run's networks are built from."""
        return NetworkSizes(*(getattr(self, key) for key in NetworkSizes._fields))


@dataclass(frozen=True)
class PPOConfig(RunConfig):
    """What both trainers by PPO have."""

    num_epochs: int = setting(2, 1, 100)
    gae_lambda: float = setting(0.95, 0, 1)
    clip_coef: float = setting(0.2, 0, 1)
    ent_coef: float = setting(0.01, 0, 1)  # falls linearly to 0 at total_steps

    snapshot_every: int = setting(250_000, 1)  # steps between frozen copies of the policy
    max_snapshots: int = setting(6, 1, 1000)  # copies kept, the denser the younger


_FIELDS = {one.name: one for one in fields(RunConfig)}


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> RunConfig:
    """Read a config file; each override is "key=value" and goes before the file.

    Returns:
        The `Config` of the trainer that the setting `algorithm` names.

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
    texts = {}
    for override in overrides:
        key, separator, text = override.partition("=")
        if not separator:
            raise SplendorError(f"a setting is given as key=value, not {override!r}")
        texts[key.strip()] = text.strip()
    trainer = _config_class((values | texts).get("algorithm", RunConfig.algorithm))
    settings = {one.name: one for one in fields(trainer)}
    for key in values | texts:
        if key not in settings:
            raise SplendorError(f"unknown setting {key!r}; settings are {', '.join(settings)}")
    values |= {key: _parse(settings[key], text) for key, text in texts.items()}
    values = {"run_name": path.stem} | values
    return trainer(**{key: _convert(settings[key], value) for key, value in values.items()})


def load_run_config(
    run_folder: str | Path, overrides: Sequence[str] = (), *, resume: bool = True
) -> RunConfig:
    """The config of an existing run, which counts as being in the folder it is in now.

    Args:
        run_folder: Of the run.
        overrides: As for `load_config`.
        resume: To go on with it: then its place cannot be changed. Else for a new run, beside it
            unless the overrides give another place.

    Raises:
        SplendorError: As `load_config`, or another place for a run that goes on.
    """
    folder = Path(run_folder).resolve()
    if not (folder / "config.toml").is_file():
        raise SplendorError(f"{run_folder} is not the folder of a run: it has no config.toml")
    place = {"run_name": folder.name, "runs_folder": str(folder.parent)}
    for key in place:
        if resume and any(override.partition("=")[0].strip() == key for override in overrides):
            raise SplendorError(
                f"{key} cannot be changed in a run that goes on: it stays in {run_folder}"
            )
    here = [f"{key}={value}" for key, value in place.items()]
    return load_config(folder / "config.toml", [*here, *overrides])


def dump_config(config: RunConfig) -> str:
    """The config as TOML that `load_config` reads back."""
    # JSON's strings, numbers and booleans are TOML's.
    return "".join(
        f"{key} = {json.dumps(value, ensure_ascii=False)}\n"
        for key, value in asdict(config).items()
    )


def check_setting(key: str, value: Any) -> None:
    """Raise unless `value` is one that the `RunConfig` may have under this key.

    Raises:
        SplendorError: It is not.
    """
    _check(_FIELDS[key], value)


def _config_class(algorithm: Any) -> type[RunConfig]:
    check_setting("algorithm", algorithm)
    try:
        return importlib.import_module(f"training.{algorithm}").Config
    except ModuleNotFoundError as error:
        raise SplendorError(
            f"algorithm {algorithm!r} needs the extra `train` installed ({error})"
        ) from error


def _check(one: Field, value: Any) -> None:
    key, kind, metadata = one.name, one.type, one.metadata
    assert isinstance(kind, type)
    choices = metadata.get("choices")
    if choices:
        if value not in choices:
            raise SplendorError(f"{key} must be one of {', '.join(choices)}, not {value!r}")
        return
    is_right = isinstance(value, kind) and isinstance(value, bool) == (kind is bool)
    low, high = metadata.get("low"), metadata.get("high")
    if is_right and kind in (int, float):
        # Written so that a NaN is out of range.
        is_right = (low is None or value >= low) and (high is None or value <= high)
        is_right = is_right and abs(value) != float("inf")
    if not is_right:
        bounds = "" if low is None else f" from {low}" + ("" if high is None else f" to {high}")
        raise SplendorError(f"{key} must be {kind.__name__}{bounds}, not {value!r}")


def _parse(one: Field, text: str) -> Any:
    """The text of an override as a value of the field's type."""
    if one.type is str:
        return text
    if one.type is bool:
        if text not in ("true", "false"):
            raise SplendorError(f"{one.name} must be true or false, not {text!r}")
        return text == "true"
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    raise SplendorError(f"{one.name} must be a number, not {text!r}")


def _convert(one: Field, value: Any) -> Any:
    """Whole floats such as 4e6 count as integers, integers as floats."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if one.type is float and is_number:
        return float(value)
    if one.type is int and isinstance(value, float) and value.is_integer():
        return int(value)
    return value
