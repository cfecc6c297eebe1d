"""A headless Chromium that looks at the web table; tests skip where there is none."""

import os
import shutil
from pathlib import Path

import pytest

from tests.web.client import running

SCREENSHOTS = "SPLENDOR_SCREENSHOTS"
"""Names the folder where screenshots are kept; without it they go to the test's own."""


@pytest.fixture(scope="module")
def table_server():
    """A client of a running server."""
    pytest.importorskip("uvicorn")
    pytest.importorskip("fastapi")
    with running() as client:
        yield client


@pytest.fixture(scope="module")
def chromium():
    """The browser."""
    sync_api = pytest.importorskip("playwright.sync_api")
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    if program is None:
        pytest.skip("there is no chromium on the path")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program)
        yield browser
        browser.close()


class Visitor:
    """One person at one browser; keeps what the browser was sent and what went wrong in it."""

    def __init__(self, chromium, client, **options):
        self.base = f"http://127.0.0.1:{client.port}"
        self.asked, self.bodies, self.complaints = [], [], []
        options = {"viewport": {"width": 1280, "height": 800}, "reduced_motion": "reduce"} | options
        self.context = chromium.new_context(**options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(10_000)
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request))
        self.page.on("requestfinished", self._keep)

    def _hear(self, message):
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _keep(self, request):
        if "/api/" in request.url:
            self.bodies.append((request.url, request.response().text()))

    def open(self, route=""):
        """Go to a route of the page, such as `#/replay`."""
        self.page.goto(f"{self.base}/{route}")
        return self.page

    def sit(self, path, seat, secret):
        """Go to a seat of the table at an API path, and wait until it is shown."""
        return self._wait(self.open(f"#/table/{path.split('/')[-1]}/{seat}/{secret}"))

    def watch(self, path):
        """Go to a table without a seat."""
        return self._wait(self.open(f"#/watch/{path.split('/')[-1]}"))

    @staticmethod
    def _wait(page):
        page.wait_for_selector(".market .card")
        return page


@pytest.fixture
def visit(chromium, table_server, tmp_path, request):
    """Makes visitors; at the end keeps a picture of what each sees, and checks their browsers."""
    visitors = []

    def new(**options):
        visitors.append(Visitor(chromium, table_server, **options))
        return visitors[-1]

    yield new
    folder = Path(os.environ.get(SCREENSHOTS) or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    for number, visitor in enumerate(visitors):
        name = request.node.name.replace("/", "-")
        visitor.page.screenshot(path=folder / f"{name}-{number}.png", full_page=True)
        visitor.context.close()
    for visitor in visitors:
        assert visitor.complaints == []
        for asked in visitor.asked:
            assert asked.url.startswith((visitor.base, f"blob:{visitor.base}")), asked.url
