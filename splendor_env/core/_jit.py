"""The one place that calls Numba: `jit` compiles a core function and caches its machine code.

Numba's own cache looks only at the file of the compiled function, so a change to a callee or a
table in another file leaves stale code running. Here the cache folder is named by a digest of
every source file that holds jitted code and of the tables frozen into it.
"""

import hashlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core import config, event

F = TypeVar("F", bound=Callable[..., Any])

_CONFIG = cast(Any, config)  # its settings are set at run time and have no types
_PACKAGE = Path(__file__).parents[1]


def _digest() -> str:
    """Digest of all jitted sources, the card tables and the settings that change machine code."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted([*_PACKAGE.rglob("*.py"), *_PACKAGE.glob("data/*.csv")]):
        content = path.read_bytes()
        if path.suffix == ".csv" or b"import jit" in content or path.parent.name == "core":
            digest.update(content)
    digest.update(repr((numba.__version__, np.__version__, _CONFIG.BOUNDSCHECK)).encode())
    return digest.hexdigest()


def _cache_folder() -> str:
    """First writable folder for the cache, or "" for none (then every process compiles anew)."""
    user_cache = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser()
    for base in (_PACKAGE / "__pycache__", user_cache / "splendor_env"):
        folder = base / f"jit-{_digest()}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return str(folder)
    return ""


class _Announcer(event.Listener):
    """Says once per process that compilation is what takes the time."""

    def __init__(self) -> None:
        self.is_silent = False

    def on_start(self, event: event.Event) -> None:
        dispatcher = (event.data or {}).get("dispatcher")
        module = getattr(getattr(dispatcher, "py_func", None), "__module__", "")
        if not self.is_silent and module.startswith("splendor_env"):
            self.is_silent = True
            print(
                "splendor_env: compiling a part of the engine for its first use (seconds; kept for "
                "later) ...",
                file=sys.stderr,
                flush=True,
            )

    def on_end(self, event: event.Event) -> None:
        """Nothing to do: the listener interface asks for both."""


_CACHE_FOLDER = _cache_folder()
event.register("numba:compile", _Announcer())

if _CONFIG.DISABLE_JIT:
    # Unjitted, the hash of `random.py` wraps around as intended, but NumPy warns about it.
    np.seterr(over="ignore")


def jit(function: F) -> F:
    """Compile `function` on first use, without the interpreter lock, cached on disk."""
    previous = _CONFIG.CACHE_DIR
    _CONFIG.CACHE_DIR = _CACHE_FOLDER
    try:
        return cast(F, numba.njit(cache=bool(_CACHE_FOLDER), nogil=True)(function))
    finally:
        _CONFIG.CACHE_DIR = previous
