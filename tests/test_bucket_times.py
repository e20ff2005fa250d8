"""What a bucket waited for: its gradients, an earlier bucket's gradients, earlier communication."""

from dataclasses import replace

import numpy as np
import pytest
from captured import figures_file, full_file, write_manifest
from test_buckets import of_ddp, report_of, step
from traces import Kineto, trace

from ddptrace import analyze, load_run
from ddptrace.metrics.bucket_times import BACKLOG_GAP_NS


def waits(recording, **options):
    """Return what each bucket of a recording waited for, by number."""
    report = report_of(recording, **options)
    found = {one.bucket: one.ranks[0].bucket for one in report.collectives}
    return [found[number] for number in range(len(found))]


KINDS = ("figures", "full")

# --- ready, released, start


def test_a_bucket_is_ready_when_what_was_launched_before_it_has_ended():
    """
    compute  ffbbbb..BBBBBB     launches  f b 1 B 2
    comm     ......11......22
    """
    first, second = waits(
        trace(
            ("compute", 0, 10, 0),
            ("compute", 10, 30, 1, True),
            ("comm", 33, 50, 2, True),
            ("compute", 40, 70, 3, True),
            ("comm", 71, 80, 4, True),
        )
    )
    assert (first.ready_ns, first.released_ns, first.queue_ns) == (30_000, 30_000, 3_000)
    assert (second.ready_ns, second.queue_ns, second.blocked, second.blocked_ns) == (
        70_000, 1_000, False, 0
    )  # fmt: skip
    assert (first.launch_order, second.launch_order) == (0, 1)


def test_a_copy_into_the_bucket_is_waited_for_too():
    rows = [("compute", 0, 10, 0, True), ("mem", 10, 14, 1, True), ("comm", 20, 30, 2, True)]
    recording = trace(*rows)
    on_one_stream = replace(recording.ops, stream=np.array([0, 0, 1]))
    (found,) = waits(replace(recording, ops=on_one_stream))
    assert found.ready_ns == 14_000
    (found,) = waits(recording)  # a copy on a stream of its own
    assert found.ready_ns == 10_000


def test_a_bucket_waits_for_what_was_launched_earlier_and_ends_later():
    rows = [("compute", 0, 18, 0, True), ("compute", 2, 10, 1, True), ("comm", 20, 30, 2, True)]
    (found,) = waits(trace(*rows))
    assert found.ready_ns == 18_000


@pytest.mark.parametrize(
    "rows",
    [
        # work that still runs when the all-reduce starts is nothing that it waited for
        (("compute", 0, 40, 0, True), ("comm", 30, 50, 1, True)),
        # nothing was launched before it
        (("comm", 10, 20, 1, True), ("compute", 20, 30, 2, True)),
    ],
)
def test_what_a_bucket_waited_for_is_unknown_where_the_trace_cannot_tell(rows):
    (found,) = waits(trace(*rows))
    assert (found.ready_ns, found.released_ns, found.queue_ns) == (None, None, None)
    assert (found.blocked_ns, found.ready_order, found.backlog) == (None, None, None)


def test_work_in_a_graph_is_launched_at_no_moment_of_its_own():
    recording = trace(*step(0, ("compute", 5, 9, 0, True), count=1))
    graph = recording.ops.in_graph | (recording.ops.start_ns >= 10_000)
    (found,) = waits(replace(recording, ops=replace(recording.ops, in_graph=graph)))
    assert (found.released_ns, found.ready_ns, found.blocked) == (None, None, None)


# --- behind an earlier bucket


def head_of_line():
    """State three buckets that were launched at once, when the first one's gradients came.

    compute  ffbbbbBBBB           launches  f b B 1 2 3
    comm     ..........112233
    """
    return trace(
        ("compute", 0, 10, 0),
        ("compute", 10, 30, 1, True),
        ("compute", 30, 50, 2, True),
        ("comm", 52, 60, 3, True),
        ("comm", 61, 70, 4, True),
        ("comm", 71, 80, 5, True),
    )


def test_buckets_launched_without_work_between_them_were_blocked_by_the_first():
    found = waits(head_of_line())
    assert [one.blocked for one in found] == [False, True, True]
    assert [one.released_ns for one in found] == [50_000] * 3
    # When their own gradients were ready, nothing tells; it was not later than that.
    assert [one.ready_ns for one in found] == [50_000, None, None]
    assert [one.blocked_ns for one in found] == [0, None, None]
    assert [one.queue_ns for one in found] == [2_000, None, None]
    assert [one.ready_order for one in found] == [None] * 3
    assert [one.end_order for one in found] == [0, 1, 2]


def test_a_hook_that_launches_work_of_its_own_hides_who_was_blocked():
    hooked = {"initial_bucket_bytes": (1, 2), "comm_hook": "fp16_compress_hook"}
    found = waits(trace(*step(0)), manifest=of_ddp(hooked))
    assert [(one.blocked, one.ready_ns) for one in found] == [(None, None), (None, None)]
    assert [one.released_ns for one in found] == [20_000, 30_000]


def test_who_was_blocked_is_unknown_without_knowing_what_is_of_backward():
    rows = [("compute", 0, 10, 0), ("comm", 20, 30, 1), ("comm", 30, 40, 2)]
    assert [one.blocked for one in waits(trace(*rows))] == [None, None]


def test_orders_are_of_launch_and_end_each():
    recording = trace(
        ("compute", 0, 10, 0, True),
        ("comm", 20, 90, 1, True),
        ("compute", 20, 40, 2, True),
        ("comm", 50, 60, 3, True),
    )
    two_streams = replace(recording.ops, stream=np.array([0, 1, 0, 2]))
    found = waits(replace(recording, ops=two_streams))
    assert [one.ready_order for one in found] == [0, 1]
    assert [one.launch_order for one in found] == [0, 1]
    assert [one.end_order for one in found] == [1, 0]


def test_gloo_tells_nothing_of_what_a_bucket_waited_for():
    manifest = of_ddp({"initial_bucket_bytes": (10, 20)})
    (found, _) = waits(trace(*step(0), device="host"), manifest=manifest)
    assert (found.ready_ns, found.blocked, found.backlog) == (None, None, None)


# --- behind earlier communication


def backlog(*, ready, gap_ns):
    """State two buckets, the second `gap_ns` after the end of the first, which ends at 100 µs."""
    recording = trace(
        ("compute", 0, 10, 0, True),
        ("comm", 20, 100, 1, True),
        ("compute", ready - 5, ready, 2, True),
        ("comm", 200, 300, 3, True),
    )
    start_ns = recording.ops.start_ns.copy()
    start_ns[-1] = 100_000 + gap_ns
    _, second = waits(replace(recording, ops=replace(recording.ops, start_ns=start_ns)))
    return second.backlog


def test_a_bucket_that_follows_the_one_before_without_a_gap_was_in_its_backlog():
    assert backlog(ready=50, gap_ns=BACKLOG_GAP_NS) is True
    assert backlog(ready=50, gap_ns=BACKLOG_GAP_NS + 1) is False


def test_a_bucket_that_became_ready_when_the_one_before_had_ended_was_in_no_backlog():
    assert backlog(ready=99, gap_ns=1_000) is True
    assert backlog(ready=100, gap_ns=1_000) is False


# --- the first gradient, of which only the full part tells


def part(at_us, *, full, gradients=(12, 22, 32), kernels=("b", "c", "d")):
    """State a step: forward, three backward kernels, a gradient after each, buckets of 2 and 1.

    compute  ffbbccdd
    comm     ......1122
    """
    autograd = 77
    kineto = Kineto(rank=0, world_size=1).step(0 if full else 22, at_us, at_us + 1000)
    kineto.gpu(at_us, at_us + 100, launch=at_us + 1, name="f")
    for place, name in enumerate(kernels):
        start = at_us + 100 * (place + 1)
        launch = at_us + 10 * (place + 1)
        kineto.gpu(start, start + 100, launch=launch, name=name, thread=autograd)
    kineto.comm(at_us + 310, at_us + 400, launch=at_us + 25, thread=autograd)
    kineto.comm(at_us + 410, at_us + 500, launch=at_us + 35, thread=autograd)
    if full:
        engine = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
        kineto.event("user_annotation", "DistributedDataParallel.forward", at_us, 5)
        kineto.event("cpu_op", engine, at_us + 8, 50, tid=autograd)
        for moment in gradients:
            kineto.event(
                "cpu_op", "torch::autograd::AccumulateGrad", at_us + moment, 1, tid=autograd
            )
    return kineto


def first_ready(folder, *, figures=None, **options):
    """Return when the first gradient of each bucket of the figures part was ready, in µs."""
    (figures or part(0, full=False)).write(figures_file(folder))
    part(10_000, full=True, **options).write(full_file(folder))
    names = [path(folder).name for path in (figures_file, full_file)]
    parts = [{"part": kind, "file": name} for kind, name in zip(KINDS, names, strict=True)]
    ddp = {"rebuilt_bucket_bytes": [20, 10], "bucket_parameters": [["a", "b"], ["c"]]}
    told = {"rank": 0, "files": names, "parts": parts, "ddp": [ddp]}
    write_manifest(folder, told)
    loop = int(load_run(folder).figures[0].ops.thread[0])
    write_manifest(folder, told | {"loop_thread": loop})
    report = analyze(load_run(folder))
    assert [one.size_bytes for one in report.collectives] == [20, 10]
    found = [one.ranks[0].bucket.first_ready_ns for one in report.collectives]
    return [None if moment is None else moment / 1000 for moment in found]


def test_the_first_gradient_was_ready_after_the_same_kernel_as_in_the_full_part(tmp_path):
    assert first_ready(tmp_path) == [200, 400]


@pytest.mark.parametrize(
    "gradients",
    [
        (12, 22),  # one is missing
        (12, 26, 32),  # the second one came behind the launch of its bucket: it is of another
        (12, 22, 24),
    ],
)
def test_gradients_that_do_not_come_in_the_buckets_order_tell_nothing(tmp_path, gradients):
    assert first_ready(tmp_path, gradients=gradients) == [None, None]


def test_another_sequence_of_kernels_tells_nothing(tmp_path):
    assert first_ready(tmp_path, kernels=("b", "x", "d")) == [None, None]
