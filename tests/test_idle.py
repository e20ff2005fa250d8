"""Why the GPU idled, on timelines stated in µs. In the pictures one character is 1 ms."""

from dataclasses import replace
from itertools import pairwise
from unittest import mock

import pytest
from hosts import PARTS, call, causes, loading, only, operator, parts, sync
from hypothesis import given, settings
from hypothesis import strategies as st
from traces import trace

from ddptrace.metrics import idle
from ddptrace.metrics.idle import ARRIVAL_NS, idle_causes
from ddptrace.metrics.launches import launching
from ddptrace.metrics.recorded import Recorded
from ddptrace.metrics.steps import step_metrics


def test_the_gpu_waits_for_a_host_that_runs_operators():
    """
    gpu      ##....##
    host     #ooooL..    o: operators, L: the launch of the second kernel
    """
    found = only(
        trace(
            ("compute", 0, 2000, 0),
            ("compute", 6000, 8000, 5990),
            host=[call(0, 5), operator(100, 5995), call(5990, 5998)],
        )
    )
    assert parts(found) == [0, 0, 4000, 0]
    assert (found.gaps, found.waits, found.told) == (1, 1, "operators")


@pytest.mark.parametrize(("returned", "expected"), [(2001, [0, 0, 3, 0]), (2000, [0, 0, 0, 3])])
def test_what_was_launched_before_the_gap_did_not_wait_for_the_host(returned, expected):
    """The launch had not returned when the kernel before ended, or it just had."""
    found = only(
        trace(
            ("compute", 0, 2000, 0),
            ("compute", 2003, 3000, 1990),
            host=[call(0, 5), call(1990, returned)],
        )
    )
    assert parts(found) == expected
    assert found.queued_ns == expected[3] * 1000


@pytest.mark.parametrize(("after", "queued"), [(0, 0), (1, 1), (500, 500)])
def test_an_operation_that_does_not_start_soon_waits_for_something_else(after, queued):
    """
    gpu      ##....##
    host     L.oL....    the second kernel could have started much earlier
    """
    start = 3010 + ARRIVAL_NS // 1000 + after
    found = only(
        trace(
            ("compute", 0, 2000, 0),
            ("compute", start, 8000, 3000),
            host=[call(0, 5), operator(1000, 3000), call(3000, 3010)],
        )
    )
    assert parts(found) == [0, 0, start - 2000 - queued, queued]


def test_gaps_inside_a_cuda_graph_do_not_wait_for_the_host():
    """One launch for all its nodes, which had returned long ago."""
    found = only(
        trace(
            *(("compute", start, start + 100, 0) for start in (10, 120, 230)),
            host=[call(0, 9, "cudaGraphLaunch")],
        )
    )
    assert parts(found) == [0, 0, 10, 20]


def test_a_forward_thread_is_silent_while_the_autograd_thread_launches():
    """
    gpu      ##....##..##
    forward  L...........    waits in backward(), which is no range of its own
    autograd .oooooL.ooL.
    """
    found = only(
        trace(
            ("compute", 0, 2000, 0),
            ("compute", 6000, 8000, 5990, True, 9),
            ("compute", 10000, 12000, 9990, True, 9),
            host=[
                call(0, 5),
                operator(0, 1000),
                operator(1000, 9990, thread=9),
                call(5990, 5999, thread=9),
                call(9990, 9999, thread=9),
            ],
        )
    )
    assert parts(found) == [0, 0, 6000, 0]


def test_the_autograd_thread_is_silent_while_the_forward_thread_runs():
    """
    gpu      ##.......##
    forward  Looooooo...
    autograd ........oL.
    """
    found = only(
        trace(
            ("compute", 0, 2000, 0),
            ("compute", 9000, 11000, 8990, True, 9),
            host=[
                call(0, 5),
                operator(10, 8000),
                operator(8000, 8990, thread=9),
                call(8990, 8999, thread=9),
            ],
        )
    )
    assert parts(found) == [0, 0, 7000, 0]


def test_waiting_for_another_rank_is_no_idle_time():
    found = only(
        trace(
            ("compute", 0, 2000, 0),
            ("comm", 2000, 6000, 1000),
            ("compute", 6000, 8000, 1500),
            host=[call(0, 5), call(1000, 1005), call(1500, 1505), sync(1600, 6100)],
        )
    )
    assert parts(found) == [0, 0, 0, 0]


def test_nothing_is_known_of_operations_without_launches():
    recording = trace(("compute", 0, 2000, None), ("compute", 6000, 8000, None), marks=())
    found = only(recording)
    assert (found.told, parts(found)) == ("launches", [0, 0, 0, 4000])
    (launched,) = launching(Recorded.of(recording))
    assert (launched.interval_ns, launched.call_ns) == (None, None)


def test_a_gap_before_an_operation_of_no_length_has_no_known_reason():
    found = only(trace(("compute", 0, 2000, 0), ("compute", 6000, 6000, 5990)))
    assert parts(found) == [0, 0, 0, 4000]
    assert found.longest is not None
    assert found.longest.ended_by is None


def test_cpu_runs_have_no_idle_gpu():
    assert causes(trace(("compute", 0, 2000), marks=[(0, 5000)], device="host")) == [None]


def test_no_causes_where_the_idle_time_is_not_known():
    recording = trace(
        ("compute", 0, 2000, 0),
        ("compute", 6000, 8000, 5990),
        ("compute", 9000, 10000, 8990),
        marks=[(0, 8500), (8500, 20000)],
        lost_graph_launch_ns=(9_000_000,),
    )
    first, second = causes(recording)
    assert (parts(first), second) == ([0, 0, 10, 3990], None)
    assert causes(replace(recording, partial="cut short")) == [None, None]


def test_how_a_step_was_launched():
    """Three launches 100 and 300 µs apart, calls of 5, 5 and 9 µs."""
    recorded = Recorded.of(
        trace(
            ("compute", 0, 20, 0),
            ("compute", 110, 150, 100),
            ("mem", 200, 210, 190),
            ("compute", 410, 440, 400),
            marks=[(0, 1000)],
            host=[
                call(0, 5),
                call(100, 105),
                call(190, 199),
                call(400, 409),
                operator(90, 110),
                operator(95, 105),
                operator(1000, 1100),
                ("operator", "Optimizer.step#SGD.step", 300, 500),
            ],
        )
    )
    (found,) = launching(recorded)
    assert (found.kernels, found.kernel_ns, found.operators) == (3, 30_000, 2)
    assert (found.interval_ns, found.call_ns) == (200_000, 5_000)


def test_launches_are_apart_on_one_thread_and_graphs_are_launched_once():
    """Three nodes of a graph, a kernel 400 µs later, and one of another thread."""
    recorded = Recorded.of(
        trace(
            *(("compute", start, start + 10, 100) for start in (110, 120, 130)),
            ("compute", 510, 520, 500),
            ("compute", 1510, 1520, 1500, True, 9),
        )
    )
    (found,) = launching(recorded)
    assert found.interval_ns == 400_000


@st.composite
def recordings(draw):
    """State steps of kernels and copies, launched by two threads that do other things, too."""
    length = st.integers(1, 4000)
    kernels, host, now, gpu = [], [], 0, 0
    for _ in range(draw(st.integers(1, 14))):
        thread = draw(st.sampled_from([0, 9]))
        what = draw(st.sampled_from(["nothing", "operator", "sync", "loader"]))
        end = now + draw(length)
        if what == "operator":
            host.append(operator(now, end, thread=thread))
        elif what == "sync":
            host.append(sync(now, max(end, gpu), thread=thread))
            end = max(end, gpu)
        elif what == "loader":
            host.append(loading(now, end))
        now = end
        start = max(gpu, now) + draw(st.integers(0, 200))
        gpu = start + draw(st.integers(0, 3000))
        kind = draw(st.sampled_from(["compute", "comm", "mem"]))
        kernels.append((kind, start, gpu, now, False, thread))
        host.append(call(now, now + draw(st.integers(1, 20)), thread=thread))
        now += 20
    borders = sorted({0, *draw(st.lists(st.integers(1, now), max_size=3)), now + 1})
    marks = list(pairwise(borders)) if draw(st.booleans()) else []
    return trace(*kernels, marks=marks, host=host)


@given(recordings())
@settings(max_examples=200, deadline=None)
def test_the_parts_are_the_idle_time(recording):
    recorded = Recorded.of(recording)
    rows = step_metrics(recorded)
    for row, found in zip(rows, idle_causes(recorded, rows), strict=True):
        assert found is not None
        values = [getattr(found, name) for name in PARTS]
        assert sum(values) == row.idle_ns
        assert min(values) >= 0
        assert found.queued_ns + found.silent_ns == found.unknown_ns
        assert found.loader_ns <= found.input_ns
        assert sum(one.idle_ns for one in found.sync_calls) == found.sync_ns
        assert (found.longest is None) == (row.idle_ns == 0)


@given(recordings())
@settings(max_examples=200, deadline=None)
def test_how_many_steps_are_looked_at_together_changes_nothing(recording):
    together = causes(recording)
    with mock.patch.object(idle, "OPERATIONS_AT_ONCE", 1):
        assert causes(recording) == together


def test_a_call_may_cause_idle_time_in_the_next_of_steps_that_are_looked_at_apart(monkeypatch):
    """
    gpu      ######|....####    the step ends with its work
    host     ..SSSS|SS..L...
    """
    monkeypatch.setattr(idle, "OPERATIONS_AT_ONCE", 1)
    recording = trace(
        ("compute", 0, 6000, 0),
        ("compute", 10_000, 14_000, 9000),
        marks=[(0, 8500), (8500, 20_000)],
        host=[call(0, 5), sync(2000, 8000), call(9000, 9005)],
    )
    first, second = causes(recording)
    assert (parts(first), parts(second)) == ([0, 0, 0, 0], [0, 3055, 0, 945])


def test_a_call_causes_idle_time_where_the_gpu_first_ran_dry_and_not_again(monkeypatch):
    """
    gpu       ###.##|...#####
    host      ..SSSS|SSSSSS..
    autograd  ...L..|..L.....
    """
    recording = trace(
        ("compute", 0, 3000, 0),
        ("compute", 4000, 6000, 3900, True, 9),
        ("compute", 9000, 14_000, 8900, True, 9),
        marks=[(0, 7000), (7000, 20_000)],
        host=[
            call(0, 5),
            sync(2000, 12_000),
            call(3900, 3905, thread=9),
            call(8900, 8905, thread=9),
        ],
    )
    together = causes(recording)
    monkeypatch.setattr(idle, "OPERATIONS_AT_ONCE", 1)
    assert causes(recording) == together
    assert [parts(one) for one in together] == [[0, 955, 0, 45], [0, 0, 2955, 45]]


@given(recordings(), st.integers(-(10**15), 10**15))
@settings(max_examples=50, deadline=None)
def test_shifting_the_clock_changes_nothing(recording, shift_ns):
    ops, host = recording.ops, recording.host
    moved = replace(
        recording,
        ops=replace(
            ops,
            start_ns=ops.start_ns + shift_ns,
            end_ns=ops.end_ns + shift_ns,
            launch_ns=ops.launch_ns + shift_ns,
        ),
        host=replace(host, start_ns=host.start_ns + shift_ns, end_ns=host.end_ns + shift_ns),
        marks=tuple(
            replace(mark, start_ns=mark.start_ns + shift_ns, end_ns=mark.end_ns + shift_ns)
            for mark in recording.marks
        ),
    )
    for one, other in zip(causes(recording), causes(moved), strict=True):
        assert one is not None
        assert other is not None
        longest = other.longest and replace(
            other.longest, start_ns=other.longest.start_ns - shift_ns
        )
        assert replace(other, longest=longest) == one


def test_a_large_recording_takes_no_time_for_each_kernel():
    """The work is vectorised: no Python loop over 20,000 kernels and twice as many ranges."""
    starts = range(0, 20_000 * 30, 30)
    recording = trace(
        *(("compute", start + 8, start + 25, start) for start in starts),
        marks=[(0, 300_000), (300_000, 600_000)],
        host=[
            each
            for start in starts
            for each in (operator(start, start + 20), call(start, start + 5))
        ],
    )
    found = causes(recording)
    assert [one and one.waits for one in found] == [10_000, 10_000]
    assert sum(one.launch_ns for one in found if one) == 20_000 * 13_000 - 5_000
