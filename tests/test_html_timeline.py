"""The timelines of the HTML page: what is drawn, what is merged, and how its sums stand."""

from __future__ import annotations

import base64
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pages import decoded, one_rank, page, two_ranks
from traces import run, trace

from ddptrace import analyze, load_run
from ddptrace.metrics.timeline import RankTimeline
from ddptrace.metrics.to_draw import Times
from ddptrace.model import Warn
from ddptrace.outputs.html import timelines
from ddptrace.outputs.html.lanes import IDLE, Lane, fewer
from ddptrace.outputs.html.timelines import Cell, Drawing, Names, Step, blocks, urgency
from ddptrace.report import Report, Timeline, from_json, only_step, to_json

SAMPLES = Path(__file__).parent.parent / "sample_traces"


@pytest.mark.parametrize("sample", ["late-compute", "tiny-buckets", "item-in-forward", "two_gpus"])
def test_what_is_drawn_of_a_rank_adds_up_to_its_figures(sample):
    report = analyze(load_run(SAMPLES / sample))
    found = page(report)
    for step in found.about["steps"]:
        if not step["figures"]:
            continue
        drawn = found.timeline(step["key"])
        for row in (row for row in report.steps if row.step == step["step"]):
            assert drawn.total("hidden", row.rank) == row.hidden_comm_ns
            assert drawn.total("wait", row.rank) == row.exposed_wait_ns
            assert drawn.total("transfer", row.rank) == row.exposed_transfer_ns
            assert drawn.total("unclear", row.rank) == 0
            assert sum(drawn.total(kind, row.rank) for kind in IDLE) == row.idle_ns
            busy = drawn.of("kernels", row.rank)
            union = sum(
                max(end - max(start, reach), 0)
                for (start, end), reach in zip(
                    busy, np.maximum.accumulate([0, *(end for _, end in busy)])[:-1], strict=True
                )
            )
            assert union == row.compute_ns


def test_idle_time_is_drawn_with_its_cause():
    """
    host     launch|...loader...|launch
    compute  ####................####
    """
    report = one_rank(
        ("compute", 0, 1000),
        ("compute", 9000, 10000, 8990),
        ("compute", 10000, 11000, 9990),
        host=[
            ("call", "cudaLaunchKernel", 0, 5),
            ("annotation", "enumerate(DataLoader)#Iter.__next__", 900, 8900),
            ("call", "cudaLaunchKernel", 8990, 8995),
            ("operator", "aten::mm", 8985, 8996),
        ],
    )
    drawn = page(report).timeline()
    row = report.steps[0]
    assert drawn.of("idle_input") == [(1_000_000, 8_900_000)]
    assert sum(drawn.total(kind) for kind in IDLE) == row.idle_ns
    assert drawn.of("data_loader") == [(900_000, 8_900_000)]


def test_kernels_are_drawn_one_by_one_with_their_names():
    report = analyze(load_run(SAMPLES / "late-compute"))
    found = page(report)
    drawn = found.timeline()
    rows = drawn.lanes["", 1, "kernels"]
    longest = max(rows, key=lambda row: row[1] - row[0])
    assert "spin_kernel" in found.names[longest[2]]
    row = next(row for row in report.steps if row.step == 24 and row.rank == 1)
    inside = [
        (start, end)
        for start, end, _ in report.timeline.recordings[1].kernels
        if end > row.start_ns and start < row.end_ns
    ]
    assert len(rows) == len(inside)


def test_steps_with_the_host_can_be_chosen_beside_those_of_the_figures():
    report = analyze(load_run(SAMPLES / "late-compute"))
    found = page(report)
    hosts = [one for one in found.about["steps"] if not one["figures"]]
    assert [one["title"] for one in hosts] == [f"step {n} with the host" for n in (26, 27, 28)]
    assert "the figures of this page are of other steps" in hosts[0]["note"]
    drawn = found.timeline(hosts[1]["key"])
    for kind in ("forward", "backward", "optimizer", "data_loader"):
        assert drawn.of(kind, 0), kind
    assert found.names[drawn.lanes["", 0, "forward"][0][2]] == "DistributedDataParallel.forward"
    assert drawn.of("unclear", 0)  # nothing tells waiting from transfer
    assert not drawn.of("wait", 0)


def test_the_tail_of_a_rank_is_marked_where_it_is():
    """
    compute  ####....##
    comm     ..####....
    """
    report = one_rank(("compute", 0, 400), ("comm", 200, 600), ("compute", 800, 1000))
    assert report.steps[0].tail_ns == 200_000
    assert page(report).timeline().row(0)["tail"] == [400_000, 600_000]


def test_a_hidden_end_leaves_no_tail_to_mark():
    report = one_rank(("compute", 0, 700), ("comm", 200, 600))
    assert report.steps[0].tail_ns == 0
    assert page(report).timeline().row(0)["tail"] is None


def later(one):
    """Return a row, a recording or a part of a collective whose clock shows a second more."""
    if isinstance(one, RankTimeline):
        lanes = {}
        for name in ("compute", "hidden_comm", "exposed_comm", "mem", "kernels", "copies", *IDLE):
            lanes[name] = [(a + 10**9, b + 10**9, *c) for a, b, *c in getattr(one, name)]
        return replace(one, windows=[], **lanes)
    return replace(one, start_ns=one.start_ns + 10**9, end_ns=one.end_ns + 10**9)


def apart(report: Report) -> Report:
    return replace(
        report,
        steps=[later(row) if row.rank else row for row in report.steps],
        collectives=[
            replace(one, ranks=[later(each) if each.rank else each for each in one.ranks])
            for one in report.collectives
        ],
        timeline=Timeline([later(one) if one.rank else one for one in report.timeline.recordings]),
    )


def test_ranks_without_a_common_clock_start_with_their_own_windows():
    report = two_ranks()
    warned = replace(apart(report), run=replace(report.run, warnings=[Warn("no_common_clock", "")]))
    found = page(warned)
    expected, on_two, on_one = (page(one).timeline() for one in (report, warned, apart(report)))
    assert on_two.lanes["", 1, "kernels"] == expected.lanes["", 1, "kernels"]
    assert on_one.of("kernels", 1)[0][0] == expected.of("kernels", 1)[0][0] + 10**9
    assert "no clock in common" in found.about["steps"][0]["note"]
    assert "no clock in common" not in page(report).about["steps"][0]["note"]


def test_a_partial_rank_is_not_drawn():
    rows = [("compute", 0, 300), ("comm", 200, 500)]
    report = analyze(run(trace(*rows), trace(*rows, rank=1, partial="cut short")))
    drawn = page(report).timeline()
    assert [drawn.row(rank)["partial"] for rank in (0, 1)] == [False, True]
    assert drawn.of("kernels", 0)
    assert not drawn.of("kernels", 1)


def test_unknown_idle_time_is_not_drawn():
    report = one_rank(("compute", 0, 300), ("comm", 500, 600), lost_graph_launch_ns=(1000,))
    drawn = page(report).timeline()
    assert not any(drawn.of(kind) for kind in IDLE)
    assert drawn.of("kernels") == [(0, 300_000)]


def test_a_saved_report_gives_the_same_page():
    report = analyze(load_run(SAMPLES / "two_gpus"))
    saved = from_json(to_json(report, timeline=True))
    assert page(saved).timeline().lanes == page(report).timeline().lanes


def test_a_report_saved_before_it_told_of_kernels_is_drawn_as_busy_times():
    report = two_ranks()
    old = [
        RankTimeline(one.rank, one.compute, one.hidden_comm, one.exposed_comm, one.mem)
        for one in report.timeline.recordings
    ]
    drawn = page(replace(report, timeline=Timeline(old))).timeline()
    assert drawn.of("kernels") == page(report).timeline().of("kernels")
    assert drawn.lanes["", 0, "kernels"][0][2] == -1


def test_one_step_is_drawn_of_a_report_of_one_step():
    report = two_ranks()
    found = page(only_step(report, 1))
    assert [one["title"] for one in found.about["steps"]] == ["step 1"]
    every = page(report).timeline("step-1")
    assert found.timeline().lanes == every.lanes


def test_a_step_longer_than_32_bits_of_ns_is_drawn_in_ticks():
    report = one_rank(("compute", 0, 3_000_000), ("compute", 4_000_000, 5_000_000))
    drawn = page(report).timeline()
    assert drawn.header["tick_ns"] == 3
    (first, second) = drawn.of("kernels")
    assert first[0] == 0
    for moment, expected in zip((first[1], *second), (3e9, 4e9, 5e9), strict=True):
        assert abs(moment - expected) <= 3


# --- merging ---


def lane(*spans) -> Lane:
    start, end, name = np.array([(*span, n) for n, span in enumerate(spans)], np.int64).T
    return Lane.of(Times(start, end, name))


def rows(one: Lane) -> list[tuple[int, ...]]:
    columns = (one.start_ns, one.end_ns, one.name, one.count, one.busy_ns)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_merging_closes_gaps_below_the_limit_and_names_the_longest():
    """
    ##.###...#   gaps of 1 and 3
    """
    one = lane((0, 2), (3, 6), (9, 10))
    assert rows(one.merged(1)) == rows(one)
    assert rows(one.merged(2)) == [(0, 6, 1, 2, 5), (9, 10, 2, 1, 1)]
    assert rows(one.merged(4)) == [(0, 10, 1, 3, 6)]


def test_an_interval_inside_another_one_adds_no_end():
    assert rows(lane((0, 10), (2, 3), (10, 12)).merged(1)) == [(0, 12, 0, 3, 13)]


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50)), min_size=1, max_size=60),
    st.integers(1, 70),
)
@settings(max_examples=60, deadline=None)
def test_fewer_rows_cover_all_count_all_and_are_few_enough(lengths, most):
    moments = np.cumsum(np.array(lengths).ravel())
    one = lane(*zip(moments[::2].tolist(), moments[1::2].tolist(), strict=True))
    found = fewer({"kernels": one}, most, window_ns=0)["kernels"]
    assert len(found) <= max(most, 1)
    assert found.count.sum() == len(one)
    assert found.busy_ns.sum() == one.busy_ns.sum()
    assert (found.start_ns[0], found.end_ns[-1]) == (one.start_ns[0], one.end_ns[-1])
    if len(one) <= most:
        assert rows(found) == rows(one)
    else:  # the longest gaps stay open
        open_ns, closed = found.gaps_ns, np.sort(one.gaps_ns)[: len(one) - len(found)]
        assert not open_ns.size or open_ns.min() > closed.max()


def dense(intervals: int) -> Report:
    """State one rank whose compute comes in as many pieces as asked, half of the time."""
    whole = one_rank(("compute", 0, 10 * intervals))
    pieces = [(10_000 * at, 10_000 * at + 5_000 + at % 7, 0) for at in range(intervals)]
    (recorded,) = whole.timeline.recordings
    return replace(whole, timeline=Timeline([replace(recorded, kernels=pieces)]))


def test_100_000_intervals_of_a_step_are_all_in_the_page():
    found = page(dense(100_000 - 2))
    assert len(found.timeline().of("kernels")) == 100_000 - 2
    assert found.about["steps"][0]["note"] == ""


def test_more_intervals_than_a_page_holds_are_merged_and_the_page_says_so():
    found = page(dense(150_000))
    kept = found.timeline().lanes["", 0, "kernels"]
    assert len(kept) <= timelines.MOST_OF_CELL
    assert sum(row[3] for row in kept) == 150_000
    assert "of this step's 150,000 intervals" in found.about["steps"][0]["note"]


def test_the_rows_of_a_page_go_to_the_step_and_the_ranks_shown_first(monkeypatch):
    monkeypatch.setattr(timelines, "_FLOOR", 10)
    one = dense(200)
    recorded = timelines.recordings_of(one)
    (row,) = one.steps
    cells = [Cell(rank, row.start_ns, row.end_ns) for rank in range(3)]
    steps = [Step("a", "a", cells), Step("b", "b", cells)]
    recordings = {"": dict.fromkeys(range(3), recorded[0])}
    found = blocks(steps, recordings, Drawing(300, urgency(steps, [2], ["b"]), Names(10)))
    rows_of = {
        (block.step.key, row["rank"]): sum(count for count, _ in row["lanes"].values())
        for block in found
        for row in decoded(zlib.decompress(base64.b64decode(block.data))).header["rows"]
    }
    assert max(rows_of, key=rows_of.get) == ("b", 2)  # the rank to draw in the step to show
    assert 150 < rows_of["b", 2] <= 300 - 5 * 10
    assert sum(rows_of.values()) <= 300


def test_names_of_any_length_and_number_leave_the_page_small():
    report = dense(3)
    (recorded,) = report.timeline.recordings
    names = [f"{n} " + "x" * 10_000 for n in range(30_000)]
    many = replace(report, timeline=Timeline([replace(recorded, names=names)]))
    found = page(many)
    assert len(found.names) == 20_000
    assert max(map(len, found.names)) == 160
