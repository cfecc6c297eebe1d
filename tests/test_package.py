"""What is shipped: version, marker for types, tables."""

import importlib.metadata
import tomllib
from importlib import resources
from pathlib import Path

import pytest

import splendor_env
from splendor_env.core.cards import CARD_NAMES, CARD_POINTS, NOBLE_NAMES

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared" / "data"


def test_version_is_that_of_the_project_file():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert splendor_env.__version__ == project["version"]


def test_version_is_that_of_the_installed_package():
    try:
        installed = importlib.metadata.version("splendor-env")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("runs from the checkout, not installed")
    assert splendor_env.__version__ == installed


def test_every_public_name_exists():
    assert sorted(splendor_env.__all__) == sorted(set(splendor_env.__all__))
    for name in splendor_env.__all__:
        assert getattr(splendor_env, name) is not None


def test_files_beside_the_code_are_there():
    """Marker for type checkers and both tables, as a wheel has them too."""
    files = resources.files("splendor_env")
    assert files.joinpath("py.typed").is_file()
    assert len(files.joinpath("data", "cards.csv").read_text().splitlines()) == 91
    assert len(files.joinpath("data", "nobles.csv").read_text().splitlines()) == 11


def test_package_data_is_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    declared = project["tool"]["setuptools"]["package-data"]["splendor_env"]
    assert {"py.typed", "data/*.csv"} <= set(declared)


@pytest.mark.parametrize("name", ["cards.csv", "nobles.csv"])
def test_tables_equal_those_checked_against_public_ones(name):
    """Ten independent public tables agree on the shared files. A42."""
    if not SHARED.is_dir():
        pytest.skip("no shared/data beside the checkout")
    shipped = resources.files("splendor_env").joinpath("data", name).read_text()
    assert shipped.splitlines() == (SHARED / name).read_text().splitlines()


def test_well_known_cards_and_nobles_are_in_the_table():
    """A spot check that needs no file beside the checkout. A42."""
    points = dict(zip(CARD_NAMES, CARD_POINTS.tolist(), strict=True))
    known = {"R20023": 1, "K04000": 1, "W60000": 3, "U63003": 4, "K00073": 5, "W00021": 0}
    assert {name: points[name] for name in known} == known
    assert {"00044", "33300", "04400"} <= set(NOBLE_NAMES)
