"""Two runs side by side as one page."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from pages import HOSTILE, Page, one_rank, two_ranks

from ddptrace import analyze, load_run
from ddptrace.compare.comparison import RankDifference, compare
from ddptrace.compare.parts import Difference
from ddptrace.metrics.settings import Settings
from ddptrace.model import Warn
from ddptrace.outputs.html.comparison import render
from ddptrace.report import Report

SAMPLES = Path(__file__).parent.parent / "sample_traces"


def side_by_side(a: Report, b: Report, names=("before", "after")) -> Page:
    return Page(render(compare(a, b).named(*names), a, b))


def longer() -> Report:
    """State one rank whose step takes 200 µs more than that of `shorter`."""
    return one_rank(("compute", 0, 1000), ("comm", 1000, 1100), ("compute", 1100, 1300))


def shorter() -> Report:
    return one_rank(("compute", 0, 800), ("comm", 800, 900), ("compute", 900, 1100))


def test_the_page_holds_the_comparison():
    a, b = shorter(), longer()
    found = side_by_side(a, b)
    document = json.loads(found.texts["ddptrace-comparison"])
    assert document["step_ns"] == {
        "a_ns": 1_100_000,
        "b_ns": 1_300_000,
        "difference_ns": 200_000,
    }
    assert sum(part["difference_ns"] for part in document["parts"]) == 200_000
    assert document["headline"] in found.all_text
    assert "compute1.001.20+0.20100.0 %" in found.all_text.replace("\n", "")


def test_two_renders_are_equal():
    a, b = shorter(), longer()
    assert render(compare(a, b), a, b) == render(compare(a, b), a, b)


def test_the_timelines_of_both_begin_with_their_steps():
    """
    compute  ###.......##........#########   three steps of B, the second one is the median
    """
    steps = [("compute", 0, 300), ("compute", 1000, 1200), ("compute", 2000, 2900)]
    b = one_rank(*steps, marks=[(0, 1000), (1000, 2000), (2000, 3000)])
    (row,) = [row for row in b.steps if row.step == b.summary.median_step]
    assert (row.step, row.start_ns) == (1, 300_000)
    drawn = side_by_side(shorter(), b).timeline("both")
    assert drawn.of("kernels", 0, "A")[0] == (0, 800_000)
    assert drawn.of("kernels", 0, "B") == [(700_000, 900_000)]
    assert drawn.row(0, "B")["window"] == [0, 900_000]


def test_collectives_of_both_are_there_for_their_labels():
    found = side_by_side(two_ranks(), shorter())
    collectives = found.about["collectives"]
    assert len(collectives["A"]) == 1
    assert len(collectives["B"]) == 1
    assert [len(one["ranks"]) for one in collectives["A"]] == [2]


def test_a_saved_report_without_a_timeline_is_said_to_have_none():
    a, b = shorter(), longer()
    found = side_by_side(a, replace(b, timeline=None))
    assert "B is a saved report without a timeline" in found.all_text
    assert "A is a saved report" not in found.all_text
    assert [row["run"] for row in found.timeline("both").header["rows"]] == ["A"]
    none = side_by_side(replace(a, timeline=None), replace(b, timeline=None))
    assert "canvas#timeline" not in none.tags


def test_cautions_stand_before_the_figures():
    a, b = shorter(), replace(longer(), run=replace(longer().run, measured="host"))
    found = side_by_side(a, b)
    text = found.all_text
    assert "Not comparable:" in text
    assert text.index("Not comparable:") < text.index("How the step of A")


def test_without_steps_there_are_no_parts_and_the_page_says_why():
    none = one_rank(("compute", 0, 300), marks=())
    found = side_by_side(none, longer())
    assert "no step to compare: A has no step marks" in found.all_text


def test_no_text_of_a_run_changes_the_page():
    def with_text(text):
        report = longer()
        facts = replace(
            report.run,
            device=text,
            versions={"torch": text},
            settings=Settings(command=["python", text]),
            warnings=[Warn("no_common_clock", text)],
        )
        return replace(report, run=facts, steps=[replace(r, name=text) for r in report.steps])

    plain, hostile = (
        side_by_side(shorter(), with_text(text), (text, text)) for text in ("plain", HOSTILE)
    )
    assert hostile.tags == plain.tags
    assert HOSTILE in hostile.all_text


def test_secrets_of_neither_run_are_in_the_page():
    def with_token(value):
        report = longer()
        told = Settings(
            command=["train", f"--token={value}", f"https://h/x?a=1&sig={value}"],
            options={"password": value},
        )
        return replace(report, run=replace(report.run, settings=told))

    a, b = with_token("hunter2a"), with_token("hunter2b")
    text = render(compare(a, b).named("a", "b"), a, b)
    assert "hunter2" not in text
    assert "--token=***" in text


def test_many_ranks_leave_the_page_small():
    a, b = shorter(), longer()
    found = compare(a, b)
    many = [
        RankDifference(rank, Difference.of(1, 2 + rank), found.ranks[0].parts)
        for rank in range(5_000)
    ]
    page = Page(render(replace(found, ranks=many), a, b))
    document = json.loads(page.texts["ddptrace-comparison"])
    assert [one["rank"] for one in document["ranks"]] == list(range(5_000 - 512, 5_000))
    assert "The 512 of 5000 ranks that differ most." in page.all_text


def test_at_most_four_ranks_of_each_are_drawn_the_longest_among_them():
    report = analyze(load_run(SAMPLES / "late-compute"))
    rows = [replace(row, rank=rank) for row in report.steps for rank in range(6) if row.rank == 0]
    ledger = [replace(report.diagnosis.ledger[0], rank=rank) for rank in range(6)]
    ledger[5] = replace(ledger[5], step_ns=ledger[5].step_ns + 1)
    wide = replace(
        report, steps=rows, diagnosis=replace(report.diagnosis, ledger=ledger), stragglers=None
    )
    drawn = side_by_side(wide, report).timeline("both").header["rows"]
    ranks = [row["rank"] for row in drawn if row["run"] == "A"]
    assert len(ranks) == 4
    assert 5 in ranks


def test_headings_descend_in_order():
    tags = [tag.partition("#")[0] for tag in side_by_side(shorter(), longer()).tags]
    levels = [int(tag[1]) for tag in tags if tag in ("h1", "h2", "h3", "h4")]
    assert all(after - before <= 1 for before, after in pairwise(levels))
