"""Gradient buckets: which all-reduce is which bucket, with and without what the manifest tells."""

from dataclasses import replace

import numpy as np
import pytest
from traces import Kineto, run, trace

from ddptrace import analyze, load_run
from ddptrace.manifest import DdpModule, Manifest, RankFacts
from ddptrace.model import Group, HostKind, HostRanges, Trace
from ddptrace.report import from_json, to_json


def numbers(report):
    """Return step, backward pass and bucket of each collective, in the order of their starts."""
    return [(one.step, one.backward_pass, one.bucket) for one in report.collectives]


def sizes(report):
    return [one.size_bytes for one in report.collectives]


def told(recording: Trace, **columns) -> Trace:
    """Return a recording whose comm operations, by start, are told these things."""
    kinds = {name: getattr(recording.collectives, name).dtype for name in columns}
    changed = {name: np.array(values, kinds[name]) for name, values in columns.items()}
    return replace(recording, collectives=replace(recording.collectives, **changed))


def of_ddp(*modules, ranks=1) -> Manifest:
    """State a manifest that tells these DDP modules of each rank."""
    found = tuple(DdpModule(**module) for module in modules)
    return Manifest(ranks=tuple(RankFacts(rank=rank, ddp=found) for rank in range(ranks)))


def report_of(*traces, manifest=None):
    return analyze(replace(run(*traces), manifest=manifest))


def step(at, *more, count=2):
    """State a step: its forward kernel, and for each bucket a backward kernel and its all-reduce.

    compute  ffff bb bb          launches  f.b1.b2.
    comm             11 22
    """
    rows = [("compute", at, at + 10, at)]
    for number in range(count):
        launch = at + 10 * (number + 1)
        rows.append(("compute", launch, launch + 10, launch, True))
        rows.append(("comm", launch + 10, launch + 20, launch + 1, True))
    return [*rows, *more]


def two_steps(**options):
    return trace(*step(0), *step(100), marks=((0, 100), (100, 200)), **options)


# --- which all-reduce is which


def test_gradient_collectives_are_numbered_anew_in_each_step():
    report = report_of(two_steps())
    assert numbers(report) == [(0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 0, 1)]
    assert (report.run.buckets.count, report.run.buckets.total_bytes) == (2, None)


def test_the_number_is_that_of_the_launch_not_of_the_start():
    early = ("comm", 50, 60, 12, True)
    late = ("comm", 40, 45, 13, True)
    recording = trace(*step(0, early, late, count=0))
    streams = replace(recording.ops, stream=np.arange(3))
    assert numbers(report_of(replace(recording, ops=streams))) == [(0, 0, 1), (0, 0, 0)]


@pytest.mark.parametrize(
    "columns",
    [
        {"operation": [0, 1, 1]},  # something else than an all-reduce: a broadcast of buffers
        {"of_integers": [True, False, False]},  # which parameters were used
        # the size tells that the first one is no bucket, since its like is done in forward as well
        {"size_bytes": [7, 8, 9, 7]},
    ],
)
def test_what_is_no_gradient_collective_has_no_number(columns):
    rows = [("comm", 5, 6, 4, True), *step(10)]
    if len(next(iter(columns.values()))) == 4:
        rows.append(("comm", 90, 95, 90))
    report = report_of(told(trace(*rows), **columns))
    assert numbers(report)[:3] == [(0, None, None), (0, 0, 0), (0, 0, 1)]
    assert report.collectives[0].ranks[0].bucket is None


def test_an_all_reduce_outside_of_backward_is_no_bucket():
    report = report_of(trace(*step(0), ("comm", 60, 70, 60)))
    assert numbers(report)[-1] == (0, None, None)


def test_a_gradient_collective_of_no_step_is_no_bucket():
    recording = trace(*step(0), *step(200), marks=((0, 100),))
    assert numbers(report_of(recording))[2:] == [(None, None, None)] * 2


def test_a_step_begins_a_pass_whether_or_not_its_forward_work_is_seen():
    rows = [("compute", 0, 5, 0, True), ("comm", 10, 20, 1, True)]
    rows += [("comm", 110, 120, 101, True)]
    report = report_of(trace(*rows, marks=((0, 100), (100, 200))))
    assert numbers(report) == [(0, 0, 0), (1, 0, 0)]


def test_a_forward_kernel_between_two_gradient_collectives_begins_a_new_pass():
    report = report_of(trace(*step(0), *step(100)))
    assert numbers(report) == [(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1)]


def test_kernels_of_a_thread_beside_the_loop_begin_no_pass():
    recording = trace(*step(0), ("compute", 15, 16, 15), ("compute", 3, 4, 3))
    ops = recording.ops
    loader = np.where(ops.start_ns == 15_000, 5, ops.thread)
    report = report_of(replace(recording, ops=replace(ops, thread=loader)))
    assert numbers(report) == [(0, 0, 0), (0, 0, 1)]


# --- where nothing tells of backward


def microstep(at):
    """State forward and backward of a micro-batch and its all-reduce, untold which is which."""
    return ("compute", at, at + 10), ("comm", at + 20, at + 30, at + 15)


def test_a_step_that_does_the_same_several_times_has_as_many_passes():
    rows = [row for at in (0, 100, 200, 300) for row in microstep(at)]
    report = report_of(trace(*rows, ("compute", 400, 410)))
    assert numbers(report) == [(0, 0, 0), (0, 1, 0), (0, 2, 0), (0, 3, 0)]


def test_each_step_is_looked_at_for_itself():
    rows = [row for at in (0, 100, 200, 300) for row in microstep(at)]
    report = report_of(trace(*rows, marks=((0, 200), (200, 400))))
    assert numbers(report) == [(0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 1, 0)]


def test_buckets_that_follow_each_other_are_one_pass():
    rows = [("compute", 0, 10), ("comm", 20, 30, 15), ("comm", 30, 40, 16), ("comm", 40, 50, 17)]
    assert numbers(report_of(trace(*rows))) == [(0, 0, 0), (0, 0, 1), (0, 0, 2)]


def test_without_a_forward_pass_of_its_own_a_bucket_begins_no_pass():
    rows = [("compute", 0, 5), *(row for at in (10, 100) for row in microstep(at))]
    assert numbers(report_of(trace(*rows))) == [(0, 0, 0), (0, 0, 1)]


def test_all_reduces_without_step_marks_or_backward_are_not_known_to_be_buckets():
    assert numbers(report_of(trace(*microstep(0), marks=()))) == [(None, None, None)]


def host_of(recording, name, kind=HostKind.OPERATOR):
    one = np.zeros(1, np.int64)
    code = np.array([len(recording.names)], np.int32)
    host = HostRanges(one, one + 5, code, one, np.array([kind], np.int8))
    return replace(recording, host=host, names=(*recording.names, name))


def test_a_recorded_host_without_backward_had_none():
    assert numbers(report_of(host_of(trace(*microstep(0)), "aten::mm"))) == [(0, None, None)]


@pytest.mark.parametrize(
    ("names", "bucket"), [((), None), (("DistributedDataParallel.forward",), 0)]
)
def test_where_the_engine_was_recorded_ddp_must_be_too(names, bucket):
    recording = host_of(
        trace(*step(0, count=1)), "autograd::engine::evaluate_function: MmBackward0"
    )
    report = report_of(replace(recording, names=(*recording.names, *names)))
    assert [one.bucket for one in report.collectives] == [bucket]


@pytest.mark.parametrize(
    ("dtype", "name", "bucket"),
    [
        ("Int", "ncclDevKernel_Generic(x)", None),
        (None, "ncclDevKernel_AllReduce_Sum_u32_RING_LL(x)", None),
        # the type tells more than the name
        ("Float", "ncclDevKernel_AllReduce_Sum_u32_RING_LL(x)", 0),
    ],
)
def test_an_all_reduce_of_whole_numbers_is_no_bucket(tmp_path, dtype, name, bucket):
    told = {"Collective name": "allreduce", "In msg nelems": 4, "Out msg nelems": 4}
    told |= {} if dtype is None else {"dtype": dtype}
    kineto = Kineto(rank=0, world_size=1).step(0, 0, 1000).gpu(100, 300)
    kineto.comm(450, 600, name=name, **told).write(tmp_path / "rank0.json")
    (found,) = analyze(load_run(tmp_path)).collectives
    assert found.bucket == bucket


# --- process groups


def in_groups(*codes):
    groups = (Group("0", (0, 1)), Group("1", (0, 2)))
    return replace(told(trace(*step(0, count=len(codes))), group=codes), groups=groups)


@pytest.mark.parametrize(
    ("groups", "found"),
    [
        ((1, 0, 1), [0, None, 1]),
        ((1, 0, 0, 1, 0), [0, None, None, 1, None]),
        ((1, 0, 0, 1), [None] * 4),  # both fit
    ],
)
def test_of_several_groups_the_only_one_that_fits_the_manifest_is_of_ddp(groups, found):
    manifest = of_ddp({"rebuilt_bucket_bytes": (1, 2), "initial_bucket_bytes": (0, 0, 1, 2)})
    report = report_of(in_groups(*groups), manifest=manifest)
    assert [one.bucket for one in report.collectives] == found


def test_of_several_groups_none_is_of_ddp_where_nothing_tells_which():
    assert [one.bucket for one in report_of(in_groups(1, 0, 1)).collectives] == [None] * 3


# --- layouts


LAYOUT = {"initial_bucket_bytes": (30,), "rebuilt_bucket_bytes": (10, 20),
          "bucket_parameters": (("b", "c"), ("a",)), "has_rebuilt_buckets": True}  # fmt: skip


def test_sizes_that_the_trace_does_not_tell_are_those_of_the_manifest():
    report = report_of(two_steps(), manifest=of_ddp(LAYOUT))
    assert sizes(report) == [10, 20, 10, 20]
    assert [one.parameters for one in report.buckets] == [["b", "c"], ["a"]]
    assert (report.run.buckets.total_bytes, report.run.buckets.rebuilt) == (30, True)
    assert report.run.warnings == []


def test_a_report_with_buckets_survives_json():
    report = report_of(two_steps(), manifest=of_ddp(LAYOUT))
    assert from_json(to_json(report, timeline=True)) == report


def test_the_first_step_may_have_the_layout_from_before_the_rebuild():
    rows = (*step(0, count=1), *step(100), *step(200))
    marks = ((0, 100), (100, 200), (200, 300))
    report = report_of(trace(*rows, marks=marks), manifest=of_ddp(LAYOUT))
    assert numbers(report)[:2] == [(0, 0, 0), (1, 0, 0)]
    assert sizes(report) == [30, 10, 20, 10, 20]


def test_sizes_of_the_trace_count_before_those_of_the_manifest():
    recording = told(two_steps(), size_bytes=[10, 21] * 2)
    report = report_of(recording, manifest=of_ddp(LAYOUT))
    assert sizes(report) == [10, 21, 10, 21]
    assert [one.bucket for one in report.collectives] == [0, 1, 0, 1]
    assert [warning.code for warning in report.run.warnings] == ["bucket_sizes_differ"]


def test_other_all_reduces_of_backward_are_told_apart_by_their_sizes():
    recording = told(trace(*step(0, count=4)), size_bytes=[3, 10, 3, 20])
    report = report_of(recording, manifest=of_ddp(LAYOUT))
    assert [one.bucket for one in report.collectives] == [None, 0, None, 1]


def test_more_all_reduces_than_buckets_of_unknown_sizes_are_not_numbered():
    report = report_of(trace(*step(0, count=4)), manifest=of_ddp(LAYOUT))
    assert [one.bucket for one in report.collectives] == [None] * 4
    (warning,) = report.run.warnings
    assert warning.code == "buckets_unknown"
    assert "have 4 all-reduces and DDP has 1 or 2 buckets" in warning.message


@pytest.mark.parametrize(("finds", "found"), [(True, [0, 1, None]), (False, [None] * 3)])
def test_the_search_for_unused_parameters_is_behind_the_last_bucket(finds, found):
    module = {"initial_bucket_bytes": (10, 20), "find_unused_parameters": finds}
    report = report_of(trace(*step(0, count=3)), manifest=of_ddp(module))
    assert [one.bucket for one in report.collectives] == found


def test_modules_of_as_many_buckets_leave_the_sizes_unknown():
    modules = ({"initial_bucket_bytes": (10, 20)}, {"initial_bucket_bytes": (5, 6)})
    report = report_of(trace(*step(0)), manifest=of_ddp(*modules))
    assert [(one.bucket, one.size_bytes) for one in report.collectives] == [(0, None), (1, None)]


def test_modules_of_different_numbers_of_buckets_are_told_by_them():
    modules = ({"initial_bucket_bytes": (10, 20)}, {"initial_bucket_bytes": (5,)})
    report = report_of(trace(*step(0), *step(100, count=1)), manifest=of_ddp(*modules))
    assert sizes(report) == [10, 20, 5]
    assert report.run.buckets.rebuilt is None


# --- the edges of a recording


def begun_in_backward(**options):
    """State a recording of three steps that began behind the first bucket of the first one."""
    rows = [("comm", 2, 8, None), *step(0, count=2)[3:], *step(100), *step(200)]
    return trace(*rows, marks=((0, 100), (100, 200), (200, 300)), **options)


def test_where_the_first_buckets_were_lost_the_others_keep_their_numbers():
    for manifest in (None, of_ddp(LAYOUT)):
        report = report_of(begun_in_backward(), manifest=manifest)
        assert numbers(report)[:4] == [(None, None, None), (0, 0, 1), (1, 0, 0), (1, 0, 1)]
    assert sizes(report)[:2] == [None, 20]


def test_lost_buckets_are_no_other_layout_and_leave_orders_unknown():
    report = report_of(begun_in_backward())
    assert report.run.buckets.rebuilt is None
    assert report.collectives[1].ranks[0].bucket.launch_order is None


def test_a_lone_step_that_began_in_backward_has_no_numbers():
    recording = trace(*step(0)[3:], ("compute", 90, 95, 90))
    assert [one.bucket for one in report_of(recording).collectives] == [None]


def test_a_recording_that_was_cut_lacks_the_last_buckets():
    rows = (*step(0, count=3), *step(100, count=2))
    recording = trace(*rows, marks=((0, 100), (100, 200)), partial="cut")
    report = report_of(recording, manifest=of_ddp({"initial_bucket_bytes": (10, 20, 30)}))
    assert numbers(report)[-2:] == [(1, 0, 0), (1, 0, 1)]
    assert sizes(report) == [10, 20, 30, 10, 20]
    assert report.run.buckets.count == 3


# --- CPU runs, where only times and the manifest tell which all-reduce is of which pass


def gloo(*passes, **options):
    """State passes of a step on the host: backward operators, and as many all-reduces behind."""
    rows = [("comm", 1, 2), ("compute", 3, 8)]
    for place, count in enumerate(passes):
        at = 100 * (place + 1)
        rows.append(("compute", at, at + 10, at, True))
        rows += [("comm", at + 10 * n + 20, at + 10 * n + 25) for n in range(count)]
    return trace(*rows, device="host", **options)


def test_all_reduces_behind_the_first_backward_operator_are_buckets_on_a_cpu_run():
    report = report_of(gloo(2), manifest=of_ddp(LAYOUT))
    assert numbers(report) == [(0, None, None), (0, 0, 0), (0, 0, 1)]
    assert sizes(report) == [None, 10, 20]


def test_a_multiple_of_the_buckets_is_as_many_passes_on_a_cpu_run():
    report = report_of(gloo(2, 2), manifest=of_ddp(LAYOUT))
    assert numbers(report)[1:] == [(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1)]


@pytest.mark.parametrize(("counts", "manifest"), [((2,), None), ((3,), of_ddp(LAYOUT))])
def test_buckets_of_a_cpu_run_are_unknown_where_the_manifest_does_not_tell(counts, manifest):
    assert {bucket for *_, bucket in numbers(report_of(gloo(*counts), manifest=manifest))} == {None}
