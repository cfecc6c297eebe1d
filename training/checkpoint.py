"""Policies on disk: weights as safetensors, everything about them as JSON. Nothing is unpickled.

A folder holds `policy.json` and the weights it names. Both are written in full beside their final
place and then moved there, weights first, so that a crash leaves the old pair or the new one.
"""

import functools
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import subprocess
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch

from splendor_env.agents.layouts import PolicyWarning, layouts
from splendor_env.core.state import GAME, Rules, SplendorError
from training.config import check_setting
from training.networks import NetworkSizes, PolicyNetwork

CHECKPOINT_VERSION = 2
"""Rises when `policy.json` changes its form."""

_JSON = "policy.json"

STEP_DIGITS = "[0-9]" * 12
"""A step in the pattern of a file's name: other files beside ours are left alone."""

_LEFTOVER = re.compile(r"\.[a-z0-9_-]+\.(csv|json|png|pt|safetensors|toml)-[a-z0-9_]{8}")
"""What a process that was killed in `write_atomically` leaves of a run's files."""


def library_versions() -> dict[str, str]:
    """Python and the packages that a run depends on."""
    packages = ("splendor-env", "torch", "stable-baselines3", "sb3-contrib", "numpy", "numba")
    versions = {"python": platform.python_version()}
    for package in packages:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return versions


@functools.cache
def git_commit() -> str | None:
    """The commit of the checkout that holds this program, with a "+" if tracked files differ.

    None without git or a repository. Asked once, as the program was read once.
    """
    command = ["git", "describe", "--always", "--exclude=*", "--abbrev=40", "--dirty=+"]
    folder = Path(__file__).parent
    environment = os.environ | {"GIT_OPTIONAL_LOCKS": "0"}  # only look
    try:
        process = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, check=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return process.stdout.decode().strip()


def write_atomically(path: Path, content: bytes) -> None:
    """Replace the file in one move once all of `content` is on the disk; then the move is, too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    if os.name == "posix":
        with suppress(OSError):  # not every file system can
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


def remove_leftovers(run: Path) -> None:
    """Delete what writes that were cut off by a kill have left in the folder of a run.

    Nobody else may be writing there.
    """
    for folder in (run, run / "policy", run / "opponents"):
        for path in folder.glob(".*"):
            if _LEFTOVER.fullmatch(path.name):
                path.unlink(missing_ok=True)


def state_version() -> str:
    """A digest of how a game lies in memory; must be equal to go on with games from a file."""
    return hashlib.sha256(json.dumps(GAME.descr).encode()).hexdigest()[:16]


def save_policy(
    folder: Path,
    network: PolicyNetwork,
    rules: Rules | Sequence[Rules],
    *,
    step: int,
    evaluation: dict[str, float] | None = None,
    algorithm: str = "ppo",
) -> None:
    """Write the policy into `folder`, in place of an older one.

    Args:
        rules: What it was trained for; several for several numbers of players, of which the file
            keeps what they have in common beside those numbers.
        step: Training steps it has seen.
        evaluation: Share of the victories against each opponent, by name.
        algorithm: The trainer.
    """
    several = [rules] if isinstance(rules, Rules) else list(rules)
    common = set.intersection(*(set(one._asdict().items()) for one in several))
    content = weights_to_bytes(network)
    weights = f"weights-{step:012d}.safetensors"
    about = {
        "checkpoint_version": CHECKPOINT_VERSION,
        "weights": weights,
        "sha256": hashlib.sha256(content).hexdigest(),
        **layouts(),
        "network": network.sizes._asdict(),
        "num_players": [one.num_players for one in several],
        "rules": {
            key: value for key, value in several[0]._asdict().items() if (key, value) in common
        },
        "step": step,
        "evaluation": evaluation or {},
        "algorithm": algorithm,
        "git_commit": git_commit(),
        "versions": library_versions(),
    }
    write_atomically(folder / weights, content)
    write_atomically(folder / _JSON, json.dumps(about, indent=2).encode())
    for old in folder.glob(f"weights-{STEP_DIGITS}.safetensors"):
        if old.name != weights:
            old.unlink(missing_ok=True)


def load_policy(folder: str | Path) -> tuple[PolicyNetwork, dict[str, Any]]:
    """Read a policy's network, ready to use, and the content of its `policy.json`.

    A `PolicyWarning` says if it was made by another release of torch or of this package.

    Args:
        folder: Of the policy, or of the run that has it in `policy/`.

    Raises:
        SplendorError: Missing, broken, or made for another layout of observations or actions.
    """
    folder = Path(folder)
    if not (folder / _JSON).is_file() and (folder / "policy" / _JSON).is_file():
        folder = folder / "policy"
    try:
        about = json.loads((folder / _JSON).read_bytes())
    except OSError as error:
        raise SplendorError(f"no policy in {folder}: {error}") from error
    except ValueError as error:
        raise SplendorError(f"{folder / _JSON} is broken: {error}") from error
    try:
        _check_version(about, folder / _JSON)
        check_layouts(about, folder / _JSON)
        sizes = _check_sizes(NetworkSizes(**about["network"]), folder / _JSON)
        weights = folder / Path(about["weights"]).name
        digest = about["sha256"]
        differences = _differing_versions(about["versions"])
        if not isinstance(about["rules"], dict) or not isinstance(about["num_players"], list):
            raise TypeError("rules must be an object and num_players a list")
    except (KeyError, TypeError, AttributeError) as error:
        raise SplendorError(f"{folder / _JSON} is broken: {error!r}") from error
    try:
        content = weights.read_bytes()
    except (OSError, ValueError) as error:  # the latter for a null character in the name
        raise SplendorError(f"cannot read the weights {weights}: {error}") from error
    if hashlib.sha256(content).hexdigest() != digest:
        raise SplendorError(f"{weights} is broken: its digest is not the one in {_JSON}")
    network = PolicyNetwork(sizes)
    weights_from_bytes(content, network, weights)
    if differences:
        warnings.warn(f"{folder} was made by {differences}", PolicyWarning, stacklevel=2)
    return network, about


def weights_to_bytes(network: PolicyNetwork) -> bytes:
    """The weights as the content of a safetensors file."""
    # One key: safetensors writes several in a random order, and equal weights shall be equal bytes.
    return safetensors.torch.save(network.state_dict(), {"layouts": json.dumps(layouts())})


def weights_from_bytes(content: bytes, network: PolicyNetwork, path: Path) -> None:
    """Load the content of a safetensors file into `network`.

    Raises:
        SplendorError: It is not one, was made for another layout of observations or actions, does
            not fit, or holds NaN or infinity.
    """
    try:
        weights = safetensors.torch.load(content)
        check_layouts(json.loads(metadata(content).get("layouts", "{}")), path)
        network.load_state_dict(weights)
    except (safetensors.SafetensorError, RuntimeError, ValueError) as error:
        raise SplendorError(f"{path} does not hold the weights of this network: {error}") from error
    if not all(torch.isfinite(weight).all() for weight in weights.values()):
        raise SplendorError(f"{path} holds weights that are not finite")
    network.eval()


def metadata(content: bytes) -> dict[str, str]:
    """The texts that the content of a valid safetensors file holds beside its tensors."""
    size = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + size]).get("__metadata__", {})


def check_layouts(found: Mapping[str, Any], path: Path) -> None:
    """Raise unless a network's inputs and outputs meant the same where the file was made.

    Args:
        found: What `layouts` gave there; other keys do not matter.
        path: Of the file.

    Raises:
        SplendorError: They did not, or `found` does not say.
    """
    found = found if isinstance(found, Mapping) else {}
    for key, ours in layouts().items():
        if key not in found:
            raise SplendorError(f"{path} is broken: it does not say for which {key} it was made")
        if found[key] != ours:
            versions = f" ({found['versions']})" if "versions" in found else ""
            raise SplendorError(
                f"{path} was made for {key} {found[key]!r}, this program has {ours!r}: "
                f"train anew, or use the program it was made with{versions}"
            )


def _check_version(about: dict[str, Any], path: Path) -> None:
    version = about["checkpoint_version"]
    if version != CHECKPOINT_VERSION:
        raise SplendorError(
            f"{path} has checkpoint_version {version!r}, this program reads {CHECKPOINT_VERSION}"
        )


def _check_sizes(sizes: NetworkSizes, path: Path) -> NetworkSizes:
    """Before a network is built: no file may ask for one that a config may not."""
    try:
        for key, value in sizes._asdict().items():
            check_setting(key, value)
    except SplendorError as error:
        raise SplendorError(f"{path} is broken: {error}") from error
    return sizes


def _differing_versions(versions: dict[str, str]) -> str:
    """The packages of another major or minor version, those that can change what a policy does."""
    ours = library_versions()
    return ", ".join(
        f"{package} {versions[package]} (here {ours[package]})"
        for package in ("splendor-env", "torch")
        if package in versions and versions[package].split(".")[:2] != ours[package].split(".")[:2]
    )
