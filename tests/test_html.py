"""The HTML page: what it draws, what it tables and what it refuses to say."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from pages import HOSTILE, Page, bars, one_rank, page, two_ranks
from traces import run, trace

from ddptrace import analyze
from ddptrace.model import Warn
from ddptrace.outputs.figures import COLUMNS
from ddptrace.outputs.html import render
from ddptrace.outputs.html_data import MOST_ROWS
from ddptrace.report import Report, from_json, only_step


def test_the_page_holds_the_report_without_its_timeline():
    report = two_ranks()
    assert from_json(page(report).texts["ddptrace-report"]) == replace(report, timeline=None)


def many(count: int, ranks: int, *, steps: int = 2) -> Report:
    """State a report with so many collectives of each step; later ones are exposed for longer."""
    report = two_ranks()
    (one, *_) = report.collectives
    (part, *_) = one.ranks
    return replace(
        report,
        collectives=[
            replace(
                one,
                step=step,
                order=order,
                ranks=[replace(part, rank=rank, exposed_ns=order) for rank in range(ranks)],
            )
            for step in range(steps)
            for order in range(count)
        ],
    )


def held(found: Page) -> list[tuple[int, int]]:
    report = from_json(found.texts["ddptrace-report"])
    return [(one.step, one.order) for one in report.collectives]


def test_the_page_holds_all_collectives_up_to_the_limit():
    report = many(MOST_ROWS // 4, 2)
    found = page(report)
    assert from_json(found.texts["ddptrace-report"]) == replace(report, timeline=None)
    assert "The data in this page" not in found.all_text
    one_more = replace(report, collectives=[*report.collectives, report.collectives[0]])
    assert len(held(page(one_more))) == MOST_ROWS // 2


def test_beyond_the_limit_those_of_the_step_to_show_come_first_and_the_page_says_so():
    report = many(600, 4)
    shown = report.summary.median_step
    found = page(report)
    assert held(found) == sorted(
        [(shown, order) for order in range(600)]
        + [(1 - shown, order) for order in range(600 - 400, 600)]
    )
    assert (
        f"The data in this page holds 1000 collectives of 1200: those of step {shown} before "
        "others, those with the most exposed time before the rest. The JSON report has all."
    ) in found.all_text
    rest = from_json(found.texts["ddptrace-report"])
    assert replace(rest, collectives=[]) == replace(report, collectives=[], timeline=None)


def test_of_a_step_with_more_than_the_limit_the_most_exposed_are_held():
    report = many(1200, 4, steps=1)
    assert held(page(only_step(report, 0), "0")) == [(0, order) for order in range(200, 1200)]


def test_a_page_of_a_large_run_stays_small():
    assert len(render(many(5_000, 8), step="all").encode()) < 9_000_000


def test_two_renders_of_a_report_are_equal():
    assert render(two_ranks(), step="all") == render(two_ranks(), step="all")


def test_the_page_asks_for_nothing_and_offers_no_upload():
    found = page(two_ranks())
    links = {value for name, value in found.attributes if name in ("src", "href", "action")}
    assert links == {"data:,"}
    policy = dict(found.attributes)["content"]
    assert policy is not None
    text = render(two_ranks(), step="median")
    assert "default-src 'none'" in text
    assert "showSendToCloud: false" in text
    assert len(text.encode()) < 6_000_000


@pytest.mark.parametrize("where", ["warning", "device", "step name", "headline", "version"])
def test_no_text_of_a_trace_changes_the_page(where):
    def with_text(text: str) -> Report:
        report = two_ranks()
        facts = report.run
        return {
            "warning": replace(report, run=replace(facts, warnings=[Warn("code", text, 0)])),
            "device": replace(report, run=replace(facts, device=text)),
            "step name": replace(report, steps=[replace(row, name=text) for row in report.steps]),
            "headline": replace(report, diagnosis=replace(report.diagnosis, headline=text)),
            "version": replace(report, run=replace(facts, versions={text: text})),
        }[where]

    plain, hostile = page(with_text("plain"), "all"), page(with_text(HOSTILE), "all")
    assert hostile.tags == plain.tags
    assert HOSTILE in hostile.all_text
    assert from_json(hostile.texts["ddptrace-report"]).run == with_text(HOSTILE).run


def test_no_text_of_a_trace_reaches_plotly():
    report = two_ranks()
    named = replace(report, steps=[replace(row, name="<b>odd</b>") for row in report.steps])
    assert [one["breakdown"] for one in page(named, "all").charts] == [
        one["breakdown"] for one in page(report, "all").charts
    ]


def test_the_stacked_parts_are_those_of_the_report_and_add_up_to_the_step():
    report = two_ranks()
    (shown,) = page(report).charts
    rows = [row for row in report.steps if row.step == report.summary.median_step]
    stacks = {part["name"]: part["x"] for part in shown["breakdown"]["data"]}
    assert stacks == {
        "compute": [row.compute_ns / 1e6 for row in rows],
        "exposed communication": [row.exposed_comm_ns / 1e6 for row in rows],
        "exposed copies": [row.exposed_mem_ns / 1e6 for row in rows],
        "idle": [row.idle_ns / 1e6 for row in rows],
    }
    for place, row in enumerate(rows):
        assert sum(part[place] for part in stacks.values()) == pytest.approx(row.step_ns / 1e6)


def test_the_table_holds_the_exact_figures_of_every_rank():
    report = two_ranks()
    shown = page(report, "all").rows
    assert [len(cells) for cells in shown] == [10, 1, 10, 10, 1, 10, 10]
    figures = [cells[1:] for cells in shown[2:4] + shown[5:7]]
    by_step = sorted(report.steps, key=lambda row: (row.step, row.rank))
    assert figures == [
        [str(getattr(row, name)) for name in (*COLUMNS.values(), "overlap_ratio")]
        for row in by_step
    ]


def test_waiting_has_no_column_where_it_is_not_known():
    known = page(two_ranks())
    assert "waitingcopies" in known.all_text
    assert "Waiting: the part of exposed" in known.texts["figures-key"]
    report = two_ranks()
    steps = [replace(row, exposed_wait_ns=None) for row in report.steps]
    unknown = page(replace(report, steps=steps))
    assert [len(cells) for cells in unknown.rows] == [9, 1, 9, 9]
    assert "aiting" not in unknown.all_text


def test_all_steps_have_charts_and_a_choice_that_starts_at_the_median_step():
    steps = [("compute", 0, 300), ("compute", 1000, 1200), ("compute", 2000, 2900)]
    found = page(one_rank(*steps, marks=[(0, 1000), (1000, 2000), (2000, 3000)]), "all")
    assert [one["title"] for one in found.charts] == ["step 0", "step 1", "step 2"]
    assert found.all_text.count("Charts of") == 1
    assert found.texts["breakdown-step"] == "step 1"
    assert found.selected == "1"


def test_one_step_has_no_choice():
    assert "select#step-choice" not in page(two_ranks()).tags


def cut_and_whole() -> Report:
    rows = [("compute", 0, 300), ("comm", 200, 500)]
    return analyze(run(trace(*rows), trace(*rows, rank=1, partial="cut short")))


def test_a_partial_rank_has_no_bar_and_is_named():
    found = page(cut_and_whole())
    (shown,) = found.charts
    assert {place for part in shown["breakdown"]["data"] for place in part["y"]} == {0}
    assert [note["y"] for note in shown["breakdown"]["layout"]["annotations"]] == [1]
    assert bars(shown["timeline"], rank=1) == {}
    assert found.all_text.count("PARTIAL: rank 1.") == 1
    assert shown["breakdown"]["note"] == "PARTIAL and so without a bar: rank 1."


def test_figures_of_a_partial_rank_are_lower_bounds():
    found = page(cut_and_whole())
    assert found.rows[-1][1:] == [None, "300000", *[None] * 7]
    assert ">=0.30" in found.all_text


def test_missing_ranks_are_named_once():
    report = two_ranks()
    warning = Warn("missing_ranks", "2 of 4 ranks are here; missing: 2, 3")
    facts = replace(report.run, missing_ranks=[2, 3], warnings=[warning])
    found = page(replace(report, run=facts)).all_text
    assert "Missing: ranks 2, 3." in found
    assert warning.message not in found
    assert "Missing" not in page(report).all_text


def test_unknown_parts_are_no_zeros():
    """
    compute  ###..#
    comm     not recorded
    """
    report = one_rank(("compute", 0, 300), ("compute", 500, 600), comm_missing=True)
    found = page(report)
    (shown,) = found.charts
    stacks = {part["name"]: part["x"] for part in shown["breakdown"]["data"]}
    assert stacks == {
        "compute": [0.4],
        "exposed communication": [],
        "exposed copies": [],
        "idle": [],
        "unknown": [pytest.approx(0.2)],
    }
    assert "Unknown for rank 0: exposed communication, exposed copies, idle." in found.all_text
    assert found.rows[-1][3:] == [None] * 6
    assert bars(shown["timeline"]) == {
        "unknown": [(0, 600_000)],
        "compute": [(0, 300_000), (500_000, 600_000)],
    }


def test_only_idle_is_unknown_when_a_graph_was_lost():
    report = one_rank(("compute", 0, 300), ("comm", 500, 600), lost_graph_launch_ns=(1000,))
    (shown,) = page(report).charts
    assert shown["breakdown"]["note"] == "Unknown for rank 0: idle."
    assert shown["breakdown"]["data"][-1]["x"] == [pytest.approx(0.2)]
    assert "idle" not in bars(shown["timeline"])


def test_charts_show_the_64_longest_ranks_and_the_table_all():
    ranks = [trace(("compute", 0, 100 + rank), rank=rank) for rank in range(65)]
    found = page(analyze(run(*ranks)))
    (shown,) = found.charts
    assert shown["breakdown"]["layout"]["yaxis"]["ticktext"] == [f"rank {n}" for n in range(1, 65)]
    assert shown["title"] == "step 0, the 64 of 65 ranks with the longest steps"
    assert len(found.rows) == 2 + 65


def test_a_recording_without_marks_is_shown_whole():
    found = page(one_rank(("compute", 0, 300), ("comm", 200, 500), marks=()))
    assert [one["title"] for one in found.charts] == ["whole recording"]
    assert found.texts["breakdown-step"] == "whole recording"


def test_a_step_is_titled_with_its_name_where_that_says_more():
    report = two_ranks()
    named = replace(report, steps=[replace(row, name="epoch 1") for row in report.steps])
    assert [one["title"] for one in page(named, "all").charts] == [
        "step 0: epoch 1",
        "step 1: epoch 1",
    ]


def test_a_run_of_partial_ranks_only_has_a_page_without_bars():
    (shown,) = page(one_rank(("compute", 0, 300), partial="cut short")).charts
    assert all(part["x"] == [] for part in shown["breakdown"]["data"])
    assert shown["timeline"]["data"] == []


def test_overlap_is_unknown_without_communication():
    assert page(one_rank(("compute", 0, 300))).rows[-1][-1] is None


def test_headings_descend_in_order():
    tags = [tag.partition("#")[0] for tag in page(two_ranks()).tags]
    levels = [int(tag[1]) for tag in tags if tag in ("h1", "h2", "h3", "h4")]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
