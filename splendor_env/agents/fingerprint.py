"""What an agent is made from, so that games of another one are not taken for its own."""

import hashlib
import importlib
import os
import re
import shlex
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from splendor_env.agents.onnx import PRETRAINED_FOLDER
from splendor_env.core.state import SplendorError

_DIGITS = 16


def fingerprint(spec: str) -> str:
    """A text that changes when the agent of a spec is made from something else.

    For a policy it is a digest of its weights; for an own module of its source file, and of the
    file that its argument names; for a program of all files that its command names; for a search
    the version of this package, and that of the agent it judges by; for anything else the version.
    What a module or a program reads or imports itself is not in it.

    Args:
        spec: As `make_agent` takes it.

    Raises:
        SplendorError: A file cannot be read.
    """
    kind, _, argument = spec.partition(":")
    if kind == "pretrained" and argument:
        return f"{_package()} {fingerprint(kind)}"
    if kind in ("mcts", "lookahead"):
        judge = re.search("eval=([^,]+)", argument)
        return " ".join([_package(), *([fingerprint(judge[1])] if judge else [])])
    digest = hashlib.sha256()
    try:
        files = _files(kind, argument)
        for file in files:
            digest.update(Path(file).read_bytes())
    except (OSError, ImportError, TypeError, ValueError, SyntaxError) as error:
        raise SplendorError(f"agent {spec!r}: {error}") from error
    return digest.hexdigest()[:_DIGITS] if files else _package()


def _files(kind: str, argument: str) -> Sequence[str | Path]:
    """What the agent is made from beside the package."""
    if kind == "pretrained":
        return sorted(PRETRAINED_FOLDER.glob("*.onnx"))
    if kind == "onnx":
        return [argument]
    if kind == "ppo":
        folders = (Path(argument), Path(argument, "policy"))  # of the policy, or of its run
        return sorted(file for folder in folders for file in folder.glob("weights-*.safetensors"))
    names: list[str] = []
    if kind == "external":
        names = shlex.split(argument)
    elif "." in kind:
        names = [getattr(importlib.import_module(kind), "__file__", None) or "", argument]
    return [name for name in names if os.path.isfile(name)]


def _package() -> str:
    try:
        return f"splendor_env {version('splendor-env')}"
    except PackageNotFoundError:
        return "splendor_env, not installed"
