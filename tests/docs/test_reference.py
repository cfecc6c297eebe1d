import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_reference_page_is_what_the_code_generates():
    script = ROOT / "docs" / "make_reference.py"
    page = runpy.run_path(str(script))["reference"]()
    assert (ROOT / "docs" / "reference.md").read_text(encoding="utf-8") == page, (
        "run python docs/make_reference.py"
    )
    assert page.count("\n| ") > 30
