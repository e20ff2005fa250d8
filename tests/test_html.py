"""The HTML page, read back as data: what it draws, what it tables and what it refuses to say."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from traces import run, trace

from ddptrace import analyze
from ddptrace.intervals import Intervals
from ddptrace.metrics.timeline import RankTimeline
from ddptrace.model import Warn
from ddptrace.outputs.figures import COLUMNS
from ddptrace.outputs.html import render
from ddptrace.outputs.html_timeline import Bars, busy, timeline
from ddptrace.report import Report, Timeline, from_json

HOSTILE = "</script><img src=http://x/ onerror=alert(1)>\"'&lt;<!--"


class Page(HTMLParser):
    """The elements of a page in order, the text in those with an id, and its table's rows."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: dict[str, str] = {}
        self.rows: list[list[str | None]] = []
        self.all_text = ""
        self.selected: str | None = None
        self._id: str | None = None
        self._raw = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.append(f"{tag}#{found['id']}" if "id" in found else tag)
        self.attributes += attrs
        self._id, self._raw = found.get("id"), tag in ("script", "style")
        if tag == "tr":
            self.rows.append([])
        elif tag == "data":
            self.rows[-1][-1] = found["value"]
        elif "selected" in found:
            self.selected = found["value"]
        elif tag in ("td", "th"):
            self.rows[-1].append(None)

    def handle_endtag(self, tag):
        self._id, self._raw = None, False

    def handle_data(self, data):
        if self._id is not None:
            self.texts[self._id] = self.texts.get(self._id, "") + data
        if not self._raw:
            self.all_text += data

    @property
    def charts(self) -> list[dict]:
        return json.loads(self.texts["ddptrace-charts"])


def two_ranks() -> Report:
    """
    compute  ####....##..     ####....##..
    comm     ..####......     ...###......
    mem      ......#.....     ............
    """
    marks = [(0, 1200), (1200, 2400)]
    first = [("compute", 0, 400), ("comm", 200, 600), ("mem", 600, 700), ("compute", 800, 1000)]
    second = [("compute", 0, 400), ("comm", 300, 600), ("compute", 800, 1000)]
    later = [(kind, start + 1200, end + 1300) for kind, start, end in second]
    ranks = [
        trace(*rows, *later, marks=marks, rank=rank) for rank, rows in enumerate([first, second])
    ]
    return analyze(run(*ranks))


def one_rank(*rows, **facts) -> Report:
    return analyze(run(trace(*rows, **facts)))


def page(report: Report, step: str = "median") -> Page:
    return Page(render(report, step=step))


def bars(chart: dict, rank: int | None = None) -> dict[str, list[tuple[int, int]]]:
    """Return the bars of a timeline by kind, [start, end) in ns."""
    found: dict[str, list[tuple[int, int]]] = {}
    for one in chart["data"]:
        of, kind = one["name"].split(": ")
        if rank is None or of == f"rank {rank}":
            found[kind] = [
                (round(start * 1e6), round(start * 1e6) + round(length * 1e6))
                for start, length in zip(one["base"], one["x"], strict=True)
            ]
    return found


def test_the_page_holds_the_report_without_its_timeline():
    report = two_ranks()
    assert from_json(page(report).texts["ddptrace-report"]) == replace(report, timeline=None)


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
    assert [len(cells) for cells in shown] == [9, 1, 9, 9, 1, 9, 9]
    figures = [cells[1:] for cells in shown[2:4] + shown[5:7]]
    by_step = sorted(report.steps, key=lambda row: (row.step, row.rank))
    assert figures == [
        [str(getattr(row, name)) for name in (*COLUMNS.values(), "overlap_ratio")]
        for row in by_step
    ]


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
    assert found.rows[-1][1:] == [None, "300000", *[None] * 6]
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


def test_the_timeline_holds_what_ran_in_the_window_from_its_start():
    report = two_ranks()
    step = next(row.step for row in report.steps if row.start_ns > 0)
    (shown,) = page(replace(report, steps=[row for row in report.steps if row.step == step])).charts
    rows = [row for row in report.steps if row.step == step]
    origin = min(row.start_ns for row in rows)
    for row, recorded in zip(rows, report.timeline.recordings, strict=True):
        drawn = bars(shown["timeline"], row.rank)
        assert drawn["compute"] == [
            (max(start, row.start_ns) - origin, min(end, row.end_ns) - origin)
            for start, end in recorded.compute
            if end > row.start_ns and start < row.end_ns
        ]
        assert sum(end - start for start, end in drawn["idle"]) == row.idle_ns


def test_ranks_without_a_common_clock_start_with_their_own_windows():
    report = two_ranks()
    apart = replace(
        report,
        steps=[later(row) if row.rank else row for row in report.steps],
        timeline=Timeline([later(one) if one.rank else one for one in report.timeline.recordings]),
    )
    warned = replace(apart, run=replace(apart.run, warnings=[Warn("no_common_clock", "none")]))
    expected, on_one_clock, on_two = (page(one).charts[0] for one in (report, apart, warned))
    assert on_two["timeline"]["data"] == expected["timeline"]["data"]
    assert on_two["timeline"]["note"].startswith("The ranks have no clock in common")
    assert on_one_clock["timeline"]["data"] != expected["timeline"]["data"]


def later(one):
    """Return a row or a recording whose clock shows a second more."""
    if isinstance(one, RankTimeline):
        kinds = ("compute", "hidden_comm", "exposed_comm", "mem")
        pairs = [[(a + 10**9, b + 10**9) for a, b in getattr(one, kind)] for kind in kinds]
        return RankTimeline(one.rank, *pairs)
    return replace(one, start_ns=one.start_ns + 10**9, end_ns=one.end_ns + 10**9)


def test_idle_time_is_drawn_where_no_lane_is_busy_unless_the_gap_is_closed():
    """
    compute  ####....#   the gaps that no lane fills: of 1 µs in a window of 2,000 µs, and less
    comm     ....####.
    """
    report = one_rank(("compute", 0, 999), ("comm", 1000, 1990), ("compute", 1990, 2000))
    assert bars(page(report).charts[0]["timeline"])["idle"] == [(999_000, 1_000_000)]

    (recorded,) = report.timeline.recordings
    longer = replace(recorded, exposed_comm=[(999_999, 1_990_000)])
    (chart,) = page(replace(report, timeline=Timeline([longer]))).charts
    assert bars(chart["timeline"])["idle"] == []


def test_a_report_without_a_timeline_says_so():
    found = page(replace(two_ranks(), timeline=None))
    assert "This report holds no timeline." in found.all_text
    assert "div#timeline" not in found.tags
    assert [one["timeline"] for one in found.charts] == [None]


def test_a_gap_is_closed_below_one_part_in_2000_of_the_window():
    """
    compute  #.#.....#   the window is 2,000 µs long; the gaps are of 1 µs, and of 1 µs less 1 ns
    """
    kept = one_rank(("compute", 0, 10), ("compute", 11, 20), ("compute", 1990, 2000))
    (chart,) = page(kept).charts
    assert len(bars(chart["timeline"])["compute"]) == 3
    assert chart["timeline"]["note"] == "All 3 intervals are drawn."

    (recorded,) = kept.timeline.recordings
    nearer = [(0, 10_001), *recorded.compute[1:]]
    closed = replace(kept, timeline=Timeline([replace(recorded, compute=nearer)]))
    (chart,) = page(closed).charts
    assert bars(chart["timeline"])["compute"] == [(0, 20_000), (1_990_000, 2_000_000)]
    assert [one["count"] for one in chart["timeline"]["data"] if "compute" in one["name"]] == [
        [2, 1]
    ]
    assert "2 bars stand for 3 intervals (1 merged away)" in chart["timeline"]["note"]


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50)), min_size=1, max_size=60),
    st.floats(0, 60),
)
def test_merging_keeps_the_ends_covers_all_and_counts_all(lengths, gap_ns):
    moments = np.cumsum(np.array(lengths).ravel())
    spans = Intervals(moments[::2], moments[1::2])
    found = Bars.of(0, "compute", spans).merged(gap_ns)
    merged = found.spans
    assert (merged.start[0], merged.end[-1]) == (spans.start[0], spans.end[-1])
    assert (spans - merged).total_ns == 0
    assert set(merged.start) <= set(spans.start)
    assert set(merged.end) <= set(spans.end)
    assert all(b - a >= gap_ns for a, b in zip(merged.end[:-1], merged.start[1:], strict=True))
    held = [int(((spans.start >= a) & (spans.end <= b)).sum()) for a, b in pairs(merged)]
    assert found.count.tolist() == held
    assert sum(held) == len(spans)


def pairs(spans: Intervals) -> list[tuple[int, int]]:
    return list(zip(spans.start.tolist(), spans.end.tolist(), strict=True))


def dense(intervals: int) -> Report:
    """State one rank whose compute comes in as many pieces as asked, half of the time."""
    whole = one_rank(("compute", 0, 10 * intervals))
    pieces = [(10_000 * place, 10_000 * place + 5_000) for place in range(intervals)]
    (recorded,) = whole.timeline.recordings
    return replace(whole, timeline=Timeline([replace(recorded, compute=pieces)]))


def test_the_page_stays_small_with_100_000_intervals():
    text = render(dense(100_000), step="median")
    assert len(text.encode()) < 6_000_000
    assert "stand for 100,000 intervals" in Page(text).texts["timeline-note"]


def test_wider_gaps_are_closed_when_too_many_foundstay():
    report = dense(1000)

    def drawn(most_bars: int) -> int:
        times = busy(report.timeline)
        chart = timeline(report.steps, times, common_clock=True, most_bars=most_bars)
        return len(bars({"data": chart.data})["compute"])

    assert (drawn(1000), drawn(999)) == (1000, 1)


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
