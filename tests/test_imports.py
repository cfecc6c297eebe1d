"""Imports point one way, and importing the package is light."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import splendor_env

PACKAGE = Path(splendor_env.__file__).parent

CORE = {
    "_jit": set(),
    "gems": {"_jit"},
    "cards": {"gems"},
    "state": {"cards"},
    "actions": {"cards", "gems", "state"},
    "random": {"_jit", "state"},
    "rules": {"_jit", "actions", "cards", "gems", "random", "state"},
    "hidden": {"_jit", "actions", "cards", "random", "state"},
    "observation": {"_jit", "actions", "cards", "gems", "hidden", "rules", "state"},
    "replay": {"_jit", "actions", "rules", "state"},
    "batch": {"_jit", "actions", "hidden", "observation", "random", "rules", "state"},
}
"""Core modules and what they may import: gems, cards, state <- actions, random <- rules ..."""

ABOVE = {
    "position": {"core"},
    "render": {"core"},
    "game": {"core", "position", "render"},
    "record": {"core", "position", "game"},
    "heuristics": {"core"},
    "search": {"core", "heuristics"},
    "agents": {"core", "game", "heuristics", "search"},
    "evaluation": {"core", "game", "record", "search", "agents"},
    "envs": {"core", "game", "render", "agents", "heuristics"},
    "bench": {"core", "heuristics", "search", "envs"},
    "terminal": {"core", "game", "record", "render", "search", "agents"},
    "web": {"core", "position", "game", "record", "search", "agents"},
}
"""The same above the core, by module or folder; `cli` and the package itself may import all."""


def module_name(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imported(path, *, only_top_level=False):
    """Full names of what a file imports; `from a import b` gives a.b where that is a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = tree.body if only_top_level else ast.walk(tree)
    names = []
    for node in nodes:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                names.append(full if full in MODULES else node.module)
    return names


def unit(name):
    """splendor_env.envs.aec -> envs; splendor_env -> splendor_env."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else parts[0]


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_one_way(module):
    """Any edge that the table of the architecture does not have is a fault."""
    used = [name for name in imported(MODULES[module]) if name.split(".")[0] == "splendor_env"]
    if module in ("splendor_env", "splendor_env.cli"):
        return
    if module.startswith("splendor_env.core."):
        own = module.removeprefix("splendor_env.core.")
        assert own in CORE, f"{module}: new core modules need a place in the table"
        allowed = {f"splendor_env.core.{name}" for name in CORE[own]} | {"splendor_env.core"}
        assert set(used) <= allowed
        return
    if module == "splendor_env.core":
        assert used == []
        return
    own = unit(module)
    assert own in ABOVE, f"{module}: new modules need a place in the table"
    assert {unit(name) for name in used} <= ABOVE[own] | {own}


def test_tables_have_no_cycle():
    """Each unit is below all that may import it."""
    for table in (CORE, {**ABOVE, "core": set()}):
        left = dict(table)
        while left:
            lowest = [name for name, below in left.items() if not below & set(left)]
            assert lowest, left
            for name in lowest:
                del left[name]


@pytest.mark.parametrize("module", MODULES)
def test_training_is_never_imported(module):
    """`agents/registry.py` finds it at run time by name; nothing imports it."""
    assert "training" not in {name.split(".")[0] for name in imported(MODULES[module])}


@pytest.mark.parametrize("module", MODULES)
def test_learning_libraries_stay_out_of_module_level(module):
    """Only an adapter that derives from a class of its library needs it at import."""
    heavy = {"torch", "stable_baselines3", "sb3_contrib", "tensorboard", "matplotlib"}
    heavy |= {"onnxruntime", "torchrl", "tensordict", "ray", "pyspiel", "tianshou"}
    found = {name.split(".")[0] for name in imported(MODULES[module], only_top_level=True)} & heavy
    optional = {
        "splendor_env.envs.sb3": {"stable_baselines3"},
        "splendor_env.envs.openspiel": {"pyspiel"},
    }
    assert found <= optional.get(module, set())


IMPORT = """
import sys
from numba.core import event

class Counter(event.Listener):
    def __init__(self):
        self.number = 0
    def on_start(self, event):
        self.number += 1
    def on_end(self, event):
        pass

counter = Counter()
event.register("numba:compile", counter)
import splendor_env
heavy = {"torch", "stable_baselines3", "matplotlib", "training", "PIL", "typer", "fastapi"}
print(counter.number, sorted(heavy & set(sys.modules)))
"""


def test_importing_the_package_compiles_nothing_and_loads_no_torch(tmp_path):
    """With an empty cache: no compilation has begun and none is announced."""
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    for path in MODULES.values():
        copy = tmp_path / path.relative_to(PACKAGE.parent)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    (tmp_path / "splendor_env" / "data").mkdir(exist_ok=True)
    for path in PACKAGE.glob("data/*.csv"):
        (tmp_path / "splendor_env" / "data" / path.name).write_bytes(path.read_bytes())
    result = subprocess.run(
        [sys.executable, "-c", IMPORT],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert result.stdout == "0 []\n"
    assert result.stderr == ""
