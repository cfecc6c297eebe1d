"""What a long comparison has finished, in a file: after an interruption it goes on from there."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from splendor_env.record import cut_torn_end


class Kept:
    """What is finished, by what it was made from; a line of JSON for each in a file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        cut_torn_end(file)
        rows = map(json.loads, file.read_text(encoding="utf-8").splitlines())
        self._values = {digest(row["key"]): row["value"] for row in rows}

    def get(self, key: dict[str, Any], make: Callable[[], Any]) -> Any:
        """The value that the file has, or else make it and add it to the file."""
        name = digest(key)
        if name not in self._values:
            value = make()
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": key, "value": value}) + "\n")
            self._values[name] = value
        return self._values[name]


def digest(key: dict[str, Any]) -> str:
    """A short name for a key."""
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
