"""Where a step went, on timelines stated in µs. In the pictures one character is 100 µs."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from traces import step_rows, trace

from ddptrace.metrics.steps import StepMetrics
from ddptrace.metrics.summary import FIGURES
from ddptrace.model import NEVER_NS


def only(recording) -> StepMetrics:
    (row,) = step_rows(recording)
    return row


def in_us(row: StepMetrics, *names: str) -> list[int | None]:
    return [None if getattr(row, name) is None else getattr(row, name) // 1000 for name in names]


def test_a_step_is_compute_exposed_communication_exposed_copies_and_idle():
    """
    compute  ###....#...
    comm     ..###......
    mem      ....##.....
    """
    row = only(
        trace(
            ("compute", 0, 300),
            ("comm", 200, 500),
            ("mem", 400, 600),
            ("compute", 700, 800),
            marks=[(0, 1000)],
        )
    )
    assert in_us(row, "step_ns", "compute_ns", "exposed_comm_ns", "exposed_mem_ns", "idle_ns") == [
        800,
        400,
        200,
        100,
        100,
    ]
    assert in_us(row, "comm_ns", "hidden_comm_ns", "mem_ns") == [300, 100, 200]
    assert row.overlap_ratio == pytest.approx(1 / 3)
    assert (row.comm_kernels, row.compute_kernels) == (1, 2)


def test_copies_do_not_hide_communication():
    """
    compute  ###.....
    comm     ..####..
    mem      ...##...
    """
    row = only(trace(("compute", 0, 300), ("comm", 200, 600), ("mem", 300, 500)))
    assert in_us(row, "hidden_comm_ns", "exposed_comm_ns", "exposed_mem_ns") == [100, 300, 0]


def test_the_tail_is_from_the_last_compute_before_the_end_of_communication():
    """
    compute  #####...#
    comm     ...####..
    """
    row = only(trace(("compute", 0, 500), ("comm", 300, 700), ("compute", 800, 900)))
    assert in_us(row, "tail_ns") == [200]


def test_no_tail_when_the_last_collective_is_hidden():
    """
    compute  ####....############
    comm     ..####...###........
    """
    row = only(
        trace(("compute", 0, 400), ("comm", 200, 600), ("compute", 800, 2000), ("comm", 900, 1200))
    )
    assert in_us(row, "tail_ns") == [0]


def test_compute_that_starts_in_the_instant_the_tail_ends_does_not_count():
    """
    compute  ###..##
    comm     ...##..
    """
    row = only(trace(("compute", 0, 300), ("comm", 300, 500), ("compute", 500, 700)))
    assert in_us(row, "tail_ns") == [200]


def test_compute_that_ends_with_the_last_collective_leaves_no_tail():
    row = only(trace(("compute", 0, 500), ("comm", 300, 500)))
    assert in_us(row, "tail_ns") == [0]


def test_a_kernel_of_no_length_ran_at_no_moment():
    """
    compute  #####...|..
    comm     ...#######.
    """
    row = only(trace(("compute", 0, 500), ("comm", 300, 1000), ("compute", 800, 800)))
    assert in_us(row, "tail_ns") == [500]


@pytest.mark.parametrize("rows", [[("compute", 0, 100)], [("comm", 0, 100), ("compute", 100, 200)]])
def test_no_tail_without_communication_or_without_compute_before_its_end(rows):
    assert only(trace(*rows)).tail_ns is None


def test_without_communication_there_is_no_ratio():
    row = only(trace(("compute", 0, 100)))
    assert row.overlap_ratio is None
    assert row.comm_ns == 0


def test_an_operation_belongs_to_the_step_it_was_launched_in():
    """The GPU runs behind: step 1 is launched while the GPU still works on step 0."""
    first, second = step_rows(
        trace(
            ("compute", 100, 500, 10),
            ("comm", 500, 700, 20),
            ("compute", 700, 1100, 410),
            ("comm", 1100, 1300, 420),
            marks=[(0, 400), (400, 800)],
        )
    )
    assert in_us(first, "start_ns", "end_ns", "compute_ns", "comm_ns") == [0, 700, 400, 200]
    assert in_us(second, "start_ns", "end_ns", "compute_ns", "comm_ns") == [700, 1300, 400, 200]


def test_a_launch_at_the_end_of_a_mark_belongs_to_the_next_one():
    first, second = step_rows(
        trace(("compute", 0, 100, 0), ("compute", 200, 300, 50), marks=[(0, 50), (50, 100)])
    )
    assert (first.compute_kernels, second.compute_kernels) == (1, 1)


def test_the_first_window_begins_where_earlier_work_ended_when_that_is_later_than_its_mark():
    row = only(trace(("compute", 0, 300, 50), ("compute", 300, 500, 150), marks=[(100, 200)]))
    assert in_us(row, "start_ns", "compute_ns", "compute_span_ns") == [300, 200, 200]


def test_the_first_window_begins_at_its_mark_when_earlier_work_ended_before():
    row = only(trace(("compute", 0, 50, 0), ("compute", 300, 500, 150), marks=[(100, 200)]))
    assert in_us(row, "start_ns", "idle_ns") == [100, 200]


def test_work_without_launch_event_before_the_first_own_operation_is_of_before():
    row = only(trace(("compute", 0, 250, None), ("compute", 300, 500, 150), marks=[(100, 200)]))
    assert in_us(row, "start_ns", "compute_ns") == [250, 200]


def test_later_work_without_launch_event_is_busy_time_of_nobody():
    row = only(
        trace(
            ("compute", 100, 200),
            ("compute", 300, 400, None),
            ("compute", 500, 600),
            marks=[(100, 700)],
        )
    )
    assert in_us(row, "compute_ns") == [300]
    assert row.compute_kernels == 2


def test_a_step_that_ends_before_an_earlier_one_gets_an_empty_window():
    first, second = step_rows(
        trace(("compute", 0, 900, 0), ("mem", 300, 400, 150), marks=[(0, 100), (100, 200)])
    )
    assert (first.end_ns, second.start_ns, second.end_ns) == (900_000, 900_000, 900_000)
    assert second.step_ns == 0


def test_a_step_without_work_has_no_row_and_leaves_no_gap():
    rows = step_rows(
        trace(
            ("compute", 0, 100, 0),
            ("compute", 500, 600, 250),
            marks=[(0, 100), (100, 200), (200, 300)],
        )
    )
    assert [row.step for row in rows] == [0, 2]
    assert rows[0].end_ns == rows[1].start_ns


def test_without_marks_the_whole_recording_is_one_row_without_a_step():
    row = only(trace(("compute", 100, 300), ("comm", 200, 500), marks=()))
    assert (row.step, row.name) == (None, None)
    assert in_us(row, "start_ns", "end_ns", "step_ns") == [100, 500, 400]


def test_marks_that_no_work_was_launched_in_give_no_row():
    assert step_rows(trace(("compute", 0, 100, 0), marks=[(500, 600)])) == []


def test_missing_communication_is_unknown_and_compute_stays():
    row = only(trace(("compute", 0, 100), comm_missing=True))
    assert (
        in_us(row, "comm_ns", "hidden_comm_ns", "exposed_comm_ns", "idle_ns", "tail_ns")
        == [None] * 5
    )
    assert row.exposed_mem_ns is None
    assert in_us(row, "compute_ns", "step_ns") == [100, 100]


def test_a_lost_graph_makes_idle_unknown_in_its_step_only():
    first, second = step_rows(
        trace(
            ("compute", 0, 100, 0),
            ("compute", 300, 400, 250),
            marks=[(0, 200), (200, 400)],
            lost_graph_launch_ns=(50_000,),
        )
    )
    assert first.idle_ns is None
    assert second.idle_ns is not None


def test_a_partial_recording_gives_lower_bounds_and_no_share():
    row = only(trace(("compute", 0, 100), ("comm", 50, 150), partial="is cut short"))
    assert in_us(row, "compute_ns", "comm_ns") == [100, 100]
    for name in (
        "step_ns",
        "hidden_comm_ns",
        "exposed_comm_ns",
        "idle_ns",
        "overlap_ratio",
        "tail_ns",
    ):
        assert getattr(row, name) is None
    assert row.partial


def test_the_first_gradient_collective_is_measured_from_the_first_backward_kernel():
    row = only(
        trace(
            ("comm", 0, 50, 0),
            ("compute", 100, 200, 100, False),
            ("compute", 300, 500, 300, True),
            ("comm", 420, 600, 420, True),
        )
    )
    assert in_us(row, "first_comm_delay_ns") == [120]


def test_a_cpu_run_goes_from_mark_to_mark():
    first, second = step_rows(
        trace(
            ("compute", 10, 90),
            ("comm", 95, 120),
            ("compute", 130, 180),
            marks=[(0, 100), (110, 200)],
            device="host",
        )
    )
    assert in_us(first, "start_ns", "end_ns", "comm_ns") == [0, 110, 15]
    assert in_us(second, "start_ns", "end_ns", "comm_ns", "compute_ns") == [110, 200, 10, 50]


ROWS = st.lists(
    st.tuples(
        st.sampled_from(["compute", "comm", "mem"]),
        st.integers(0, 300),
        st.integers(0, 80),
        st.one_of(st.none(), st.integers(0, 60)),
    ),
    min_size=1,
    max_size=25,
)
MARKS = st.lists(st.integers(1, 120), min_size=1, max_size=5)


def timeline(rows, lengths, **facts):
    ops = [
        (kind, start, start + length, None if lead is None else start - lead)
        for kind, start, length, lead in rows
    ]
    marks, at = [], 0
    for length in lengths:
        marks.append((at, at + length))
        at += length
    return trace(*ops, marks=marks, **facts)


@given(ROWS, MARKS)
@settings(max_examples=300)
def test_the_parts_of_every_step_add_up(rows, lengths):
    steps = step_rows(timeline(rows, lengths))
    for row in steps:
        assert (
            row.compute_ns + row.exposed_comm_ns + row.exposed_mem_ns + row.idle_ns == row.step_ns
        )
        assert row.hidden_comm_ns + row.exposed_comm_ns == row.comm_ns
        assert min(row.step_ns, row.idle_ns, row.compute_ns, row.exposed_mem_ns) >= 0
    for before, after in pairwise(steps):
        assert before.end_ns == after.start_ns


@given(ROWS, MARKS, st.integers(-(10**9), 10**9))
def test_shifting_the_clock_changes_no_figure(rows, lengths, shift_ns):
    recording = timeline(rows, lengths)
    shifted = replace(
        recording,
        ops=_shifted(recording.ops, shift_ns),
        marks=tuple(_shifted(mark, shift_ns) for mark in recording.marks),
    )
    for before, after in zip(step_rows(recording), step_rows(shifted), strict=True):
        assert [getattr(before, name) for name in FIGURES] == [
            getattr(after, name) for name in FIGURES
        ]


@given(ROWS, MARKS)
def test_splitting_a_launched_kernel_in_two_changes_no_time(rows, lengths):
    rows = [(kind, start, length, lead or 0) for kind, start, length, lead in rows]
    halves = []
    for kind, start, length, lead in rows:
        half = length // 2
        halves.append((kind, start, half, lead))
        halves.append((kind, start + half, length - half, lead + half))
    times = [name for name in FIGURES if name.endswith("_ns")]
    whole, split = step_rows(timeline(rows, lengths)), step_rows(timeline(halves, lengths))
    assert [[getattr(row, name) for name in times] for row in whole] == [
        [getattr(row, name) for name in times] for row in split
    ]


@given(ROWS)
def test_adding_hidden_communication_leaves_exposed_alone(rows):
    compute = [row for row in rows if row[0] == "compute"]
    hidden = [("comm", start, length, lead) for _, start, length, lead in compute]
    (before,) = step_rows(trace(*_plain(rows), marks=()))
    (after,) = step_rows(trace(*_plain(rows + hidden), marks=()))
    assert before.exposed_comm_ns == after.exposed_comm_ns
    assert before.idle_ns == after.idle_ns


def _plain(rows):
    return [(kind, start, start + length) for kind, start, length, _ in rows]


def _shifted(timed, by_ns):
    """Move operations or a mark in time; a launch that is not known stays unknown."""
    moved = replace(timed, start_ns=timed.start_ns + by_ns, end_ns=timed.end_ns + by_ns)
    if not hasattr(timed, "launch_ns"):
        return moved
    known = timed.launch_ns != NEVER_NS
    return replace(moved, launch_ns=np.where(known, timed.launch_ns + by_ns, NEVER_NS))
