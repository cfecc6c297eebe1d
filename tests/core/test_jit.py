"""The cache of machine code: never stale, kept between processes, not needed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import splendor_env

PACKAGE = Path(splendor_env.__file__).parent
ANNOUNCEMENT = "compiling a part of the engine"
COMPUTE = """
import numpy as np
from splendor_env.core.rules import gold_needed
print(gold_needed(0, np.uint64(0), np.uint64(0)))
"""


@pytest.fixture
def checkout(tmp_path):
    """A copy of the package without caches."""
    shutil.copytree(
        PACKAGE, tmp_path / "splendor_env", ignore=shutil.ignore_patterns("__pycache__")
    )
    return tmp_path


def run(folder, code, **environment):
    """Run code on the package of a folder, apart from any other cache."""
    settings = {
        **{name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")},
        "PYTHONPATH": str(folder),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "PYTHONDONTWRITEBYTECODE": "1",
        **environment,
    }
    return subprocess.run(
        [sys.executable, "-c", code],
        env=settings,
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )


def cache_folders(folder):
    return sorted((folder / "splendor_env" / "__pycache__").glob("jit-*"))


def test_second_process_does_not_compile(checkout):
    """The first says once that it compiles; the second loads."""
    first = run(checkout, COMPUTE)
    assert first.stderr.count(ANNOUNCEMENT) == 1
    second = run(checkout, COMPUTE)
    assert second.stderr == ""
    assert first.stdout == second.stdout == "3\n"
    assert len(cache_folders(checkout)) == 1


def test_change_of_a_callee_in_another_module_takes_effect(checkout):
    """`gold_needed` in rules.py calls `total` in gems.py: no stale code, a second folder."""
    assert run(checkout, COMPUTE).stdout == "3\n"
    callee = checkout / "splendor_env" / "core" / "gems.py"
    source = callee.read_text()
    changed = source.replace("_BYTE = np.uint64(0xFF)", "_BYTE = np.uint64(0x01)")
    assert changed != source
    callee.write_text(changed)
    after = run(checkout, COMPUTE)
    assert after.stdout == "1\n"
    assert ANNOUNCEMENT in after.stderr
    assert len(cache_folders(checkout)) == 2


def test_change_of_a_table_takes_effect(checkout):
    """The costs are compiled in as constants."""
    assert run(checkout, COMPUTE).stdout == "3\n"
    table = checkout / "splendor_env" / "data" / "cards.csv"
    header, first, *rest = table.read_text().splitlines()
    assert first == "1,white,0,0,0,0,2,1"
    table.write_text("\n".join([header, "1,white,0,0,0,0,2,6", *rest]))
    assert run(checkout, COMPUTE).stdout == "8\n"


def test_works_without_a_cache_folder(checkout):
    """With files in the way of both folders every process compiles anew, and says so."""
    (checkout / "splendor_env" / "__pycache__").write_text("in the way")
    (checkout / "cache").write_text("in the way")
    for _ in range(2):
        result = run(checkout, COMPUTE)
        assert result.stdout == "3\n"
        assert ANNOUNCEMENT in result.stderr


def test_user_cache_where_the_package_cannot_be_written(checkout):
    """The second choice is used."""
    (checkout / "splendor_env" / "__pycache__").write_text("in the way")
    run(checkout, COMPUTE)
    assert len(list((checkout / "cache" / "splendor_env").glob("jit-*"))) == 1
    assert run(checkout, COMPUTE).stderr == ""


def test_unjitted_gives_the_same(checkout):
    """With NUMBA_DISABLE_JIT=1, and nothing is compiled."""
    result = run(checkout, COMPUTE, NUMBA_DISABLE_JIT="1")
    assert (result.stdout, result.stderr) == ("3\n", "")


def test_bounds_checks_have_a_cache_of_their_own(checkout):
    """Machine code without checks is not taken for code with them."""
    run(checkout, COMPUTE)
    out_of_range = COMPUTE.replace("gold_needed(0,", "gold_needed(90,")
    run(checkout, out_of_range)
    with pytest.raises(subprocess.CalledProcessError) as error:
        run(checkout, out_of_range, NUMBA_BOUNDSCHECK="1")
    assert "IndexError" in error.value.stderr
    assert len(cache_folders(checkout)) == 2
