"""Take the screenshots of the documentation: `make screenshots`.

They show pages of the recordings in sample_traces/, opened in Chromium.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from PIL import Image
from playwright.sync_api import sync_playwright

from ddptrace import analyze, load_run
from ddptrace.compare.comparison import compare
from ddptrace.outputs.html import comparison, render

if TYPE_CHECKING:
    from playwright.sync_api import Browser

HERE = Path(__file__).parent
SAMPLES = HERE.parent.parent / "sample_traces"
_COLOURS = 200  # of a picture: more make it larger, and nothing clearer


@dataclass(frozen=True, slots=True)
class Shot:
    """One picture: of which page, from the top of one element to the bottom of another."""

    name: str
    page: str
    first: str
    last: str
    width: int = 1100
    scheme: str = "light"
    step: str | None = None


SHOTS = (
    Shot("report", "report", "h1", "#timeline-note"),
    Shot("ranks", "report", "#ranks", "#spread-chart"),
    Shot("buckets", "report", "#buckets", ".two"),
    Shot("host", "report", "#timeline-head", "#timeline-note", step="step 27 with the host"),
    Shot("findings", "report", "#findings", ".finding", scheme="dark"),
    Shot("compare", "compare", "h1", "#timeline-note"),
    Shot("narrow", "report", "h1", "#timeline-note", width=360),
)


def pages(folder: Path) -> None:
    """Write the pages that are shown."""
    late = analyze(load_run(SAMPLES / "late-compute"))
    healthy = analyze(load_run(SAMPLES / "healthy"))
    (folder / "report.html").write_text(render(late), encoding="utf-8")
    found = compare(healthy, late).named("sample_traces/healthy", "sample_traces/late-compute")
    (folder / "compare.html").write_text(comparison.render(found, healthy, late), encoding="utf-8")


def take(browser: Browser, folder: Path, shot: Shot) -> None:
    """Write one picture."""
    scheme = "dark" if shot.scheme == "dark" else "light"
    page = browser.new_page(
        viewport={"width": shot.width, "height": 900}, device_scale_factor=1.25, color_scheme=scheme
    )
    page.goto((folder / f"{shot.page}.html").as_uri())
    page.wait_for_selector("html[data-ready=yes]", state="attached", timeout=120_000)
    if shot.step is not None:
        page.select_option("#step-choice", label=shot.step)
        page.wait_for_timeout(500)
    page.add_style_tag(content=".bar { position: static !important; }")
    boxes = [page.locator(one).first.bounding_box() for one in (shot.first, shot.last)]
    top, bottom = (box for box in boxes if box is not None)
    clip = {
        "x": 0,
        "y": max(top["y"] - 10, 0),
        "width": shot.width,
        "height": bottom["y"] + bottom["height"] + 20 - top["y"],
    }
    data = page.screenshot(full_page=True, clip=clip)
    page.close()
    # This way of choosing colours keeps the rare ones, which have a meaning.
    few = Image.open(BytesIO(data)).convert("RGB")
    few = few.quantize(_COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(HERE / f"{shot.name}.png", optimize=True)


def main() -> None:
    """Take all of them."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with TemporaryDirectory() as name, sync_playwright() as play:
        folder = Path(name)
        pages(folder)
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for shot in SHOTS:
            take(browser, folder, shot)
        browser.close()


if __name__ == "__main__":
    main()
