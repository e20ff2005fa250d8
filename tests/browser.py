"""Pages opened in Chromium, with all that it logs and asks for."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

CHROMIUM = next((found for name in _NAMES if (found := shutil.which(name))), None)


class Opened:
    """A page in the browser: `page` is Playwright's, `logged` and `requests` what it did."""

    def __init__(self, page, path: Path) -> None:
        self.page = page
        self.logged: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.logged.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.logged.append(str(error)))
        page.on("dialog", lambda dialog: self.logged.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready=yes]", state="attached", timeout=120_000)

    def text(self, selector: str) -> str:
        """Return the text of one element."""
        return self.page.locator(selector).inner_text()

    def run(self, script: str, *arguments):
        """Return what a script gives."""
        return self.page.evaluate(script, *arguments)

    def settled(self, script: str, *arguments) -> None:
        """Wait until a script gives something true."""
        self.page.wait_for_function(script, arg=arguments[0] if arguments else None, timeout=60_000)

    def column(self, table: str, at: int) -> list[str]:
        """Return what the rows of a table are sorted by, in one column."""
        return self.run(
            "([id, at]) => [...document.getElementById(id).tBodies[0].rows]"
            ".map((row) => row.cells[at].dataset.sort)",
            [table, at],
        )

    def bars(self, chart: str) -> list[dict]:
        """Return what plotly was given to draw in a chart."""
        return self.run(
            "(id) => JSON.parse(JSON.stringify(document.getElementById(id).data))", chart
        )

    def colours(self) -> int:
        """Return how many colours the timeline has."""
        return self.run(
            """() => {
              const canvas = document.getElementById("timeline");
              const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
              return new Set(new Uint32Array(data.data.buffer)).size;
            }"""
        )


@contextmanager
def chromium() -> Iterator:
    """Give a browser; the test is skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed: apt-get install chromium")
    with playwright.sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


def opened(browser, path: Path, *, width: int = 1200, **options) -> Opened:
    """Open a page in a window of its own."""
    context = browser.new_context(viewport={"width": width, "height": 900}, **options)
    return Opened(context.new_page(), path)
