"""The timeline of the HTML page: its intervals, its gaps, and what is merged away."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from pages import Page, bars, one_rank, page, two_ranks

from ddptrace.intervals import Intervals
from ddptrace.metrics.timeline import RankTimeline
from ddptrace.model import Warn
from ddptrace.outputs.html import render
from ddptrace.outputs.html_timeline import Bars, busy, timeline
from ddptrace.report import Report, Timeline


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
