"""What the page shows of a link whose recorder timed it, beside the collectives of steps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from browser import chromium, opened

from ddptrace import analyze, load_run
from ddptrace.outputs.html import render
from ddptrace.outputs.html.lines import timed_of

SAMPLES = Path(__file__).parent.parent / "sample_traces"


@pytest.fixture(scope="module")
def report():
    return analyze(load_run(SAMPLES / "one-bucket-shm"))


def test_each_size_that_was_timed_is_a_mark(report, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(render(report), encoding="utf-8")
    timed = report.whatif.model.timed
    with chromium() as browser:
        page = opened(browser, path)
        page.page.locator("#link-chart").scroll_into_view_if_needed()
        page.settled("() => document.getElementById('bandwidth-chart').data !== undefined")
        marks, alone = page.bars("link-chart")
        rates = page.bars("bandwidth-chart")[1]
        words = page.text("section:has(#link-chart)")
        assert page.logged == []
    assert set(marks["x"]) == {746.921984}
    assert alone["x"] == [size / 1e6 for size in timed.size_bytes]
    assert alone["y"] == [time_ns / 1e6 for time_ns in timed.time_ns]
    # Of two ranks an all-reduce carries as many bytes as it reduces.
    assert rates["y"] == pytest.approx(
        [size / time_ns for size, time_ns in zip(timed.size_bytes, timed.time_ns, strict=True)]
    )
    assert "Predictions rest on the 14 sizes timed on the link alone." in words
    assert "No line is fitted" not in words


def test_without_a_timed_link_there_is_no_word_of_it(report):
    model = replace(report.whatif.model, timed=None)
    untimed = replace(report, whatif=replace(report.whatif, model=model))
    assert timed_of(untimed.whatif) == timed_of(None) == []
    page = render(untimed)
    assert "Predictions rest on" not in page
    assert "small marks on a line" not in page
    assert "No line is fitted" in page


def test_caps_in_the_evidence_are_whole_numbers(report):
    """The recorded cap is 1000 MiB; what is predicted to be best has fewer digits."""
    page = render(report)
    assert '<data value="1000.0">1,000</data>' in page
    assert "1e+03" not in page
