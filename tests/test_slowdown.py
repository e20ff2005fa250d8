"""Compute beside communication against the same alone, in µs; one character is 100 µs."""

from dataclasses import replace

import numpy as np
import pytest
from traces import run, trace

from ddptrace import analyze
from ddptrace.metrics.hotspots import copies, hotspots
from ddptrace.metrics.recorded import Recorded
from ddptrace.metrics.slowdown import Slowdown, slowdowns

ALONE = [("compute", at, at + 100) for at in (0, 100, 200)]


def beside(length, start=1000, *, backward=False):
    """State three kernels under a collective that lasts longer."""
    starts = [start + number * length for number in range(3)]
    kernels = [("compute", at, at + length, at, backward) for at in starts]
    return [("comm", start, start + 3 * length + 200), *kernels]


def only(*rows, **facts) -> Slowdown:
    (found,) = slowdowns(Recorded.of(trace(*rows, **facts)))
    return found


def named(recording, *names: str):
    """Name the operations of a recording, in their order."""
    words = (*recording.names, *dict.fromkeys(names))
    codes = np.array([words.index(name) for name in names], np.int32)
    return replace(recording, names=words, ops=replace(recording.ops, name=codes))


def test_the_same_kernel_takes_longer_while_communication_runs():
    """
    compute  ###.......######
    comm     ..........########    1.76 times longer, three times
    """
    found = only(*ALONE, *beside(176))
    assert (found.extra_ns, found.ratio) == (228_000, pytest.approx(1.76))
    assert (found.beside, found.compared) == (3, 3)
    (kernel,) = found.kernels
    assert (kernel.name, kernel.calls, kernel.extra_ns) == ("kernel", 3, 228_000)
    assert (kernel.alone_ns, kernel.beside_ns) == (100_000, 176_000)


def test_a_kernel_that_takes_no_longer_costs_nothing():
    assert only(*ALONE, *beside(100)).extra_ns == 0


@pytest.mark.parametrize(("length", "compared"), [(94, 0), (95, 3), (300, 3), (301, 0)])
def test_kernels_of_other_lengths_are_other_kernels(length, compared):
    found = only(*ALONE, *beside(length))
    assert (found.beside, found.compared) == (3, compared)
    assert (found.extra_ns is None) == (compared == 0)


@pytest.mark.parametrize("few", ["alone", "beside"])
def test_two_places_are_too_few_to_compare(few):
    rows = [*ALONE, *beside(176)]
    del rows[0 if few == "alone" else -1]
    assert only(*rows).extra_ns is None


def test_one_place_in_many_steps_is_one_place():
    """Each of three steps has one kernel alone: that may be another size of the same name."""
    rows, marks = [], []
    for step in range(3):
        start = step * 3000
        rows += [("compute", start, start + 100), *beside(176, start + 1000)]
        marks.append((start, start + 3000))
    found = slowdowns(Recorded.of(trace(*rows, marks=marks)))
    assert [one.compared for one in found] == [0, 0, 0]


@pytest.mark.parametrize(("last", "compared"), [(109, 3), (111, 0)])
def test_uneven_kernels_are_not_compared(last, compared):
    """Sizes are not recorded: a name whose kernels differ much stands for several of them."""
    uneven = [("compute", at * 200, at * 200 + (100 if at < 5 else last)) for at in range(10)]
    assert only(*uneven, *beside(176, 5000)).compared == compared


def test_a_call_that_was_held_up_by_something_else_does_not_count():
    """Ten kernels beside communication, the last of which takes six times as long as the others."""
    kernels = [("compute", at, at + 100) for at in range(1000, 1900, 100)]
    found = only(*ALONE, *kernels, ("compute", 1900, 2500), ("comm", 1000, 2600))
    assert (found.beside, found.compared, found.extra_ns) == (10, 9, 0)


@pytest.mark.parametrize(("comm", "beside"), [(90, 1), (89, 0)])
def test_most_of_a_kernel_must_be_beside_communication(comm, beside):
    found = only(("compute", 0, 100), ("comm", 0, comm))
    assert found.beside == beside


def test_a_kernel_that_is_partly_beside_communication_tells_nothing():
    """
    compute  ###......######.##
    comm     .........########.    the last kernel is longer, and half of it beside
    """
    partly = [("compute", at, at + 150) for at in (3000, 4000, 5000)]
    rows = [*ALONE, *beside(176), *partly, *(("comm", at, at + 75) for _, at, _ in partly)]
    assert only(*rows).compared == 3


def test_forward_kernels_are_not_compared_with_backward_ones():
    assert only(*ALONE, *beside(176, backward=True)).compared == 0


def test_steps_have_their_own_cost():
    rows = [*ALONE, *beside(176), *beside(150, 3000), ("compute", 5000, 5100)]
    first, second, third = slowdowns(
        Recorded.of(trace(*rows, marks=[(0, 2900), (2900, 4900), (4900, 6000)]))
    )
    assert (first.step, first.extra_ns, second.extra_ns) == (0, 228_000, 150_000)
    assert (third.extra_ns, third.ratio, third.kernels) == (None, None, ())


def test_hotspots_are_the_names_with_the_most_time():
    recording = named(
        trace(
            ("compute", 0, 100),
            ("comm", 300, 900),
            ("compute", 900, 1000),
            ("compute", 1000, 1100),
            ("compute", 1100, 1200),
            ("compute", 2000, 9000),
            marks=[(0, 1500), (1500, 10000)],
        ),
        *("norm", "all_reduce", "gemm", "gemm", "gemm", "other"),
    )
    recorded = Recorded.of(recording)
    found = hotspots(recorded, 0)
    assert [(one.name, one.calls, one.total_ns) for one in found] == [
        ("gemm", 3, 300_000),
        ("norm", 1, 100_000),
    ]
    assert [one.share_ratio for one in found] == [0.75, 0.25]
    assert [one.name for one in hotspots(recorded, 1)] == ["other"]
    assert len(hotspots(recorded, 0, most=1)) == 1


def test_a_step_without_compute_has_no_hotspots():
    assert hotspots(Recorded.of(trace(("comm", 0, 100))), 0) == []


def test_copies_are_told_by_what_of_them_nothing_hides():
    """
    compute  ####.......
    comm     .......##..
    mem      ..####.####    the first is exposed for 200 µs, the second for 200
    """
    recording = named(
        trace(("compute", 0, 400), ("mem", 200, 600), ("comm", 700, 900), ("mem", 700, 1100)),
        *("gemm", "DtoH", "all_reduce", "DtoH"),
    )
    (found,) = copies(Recorded.of(recording), 0)
    assert (found.name, found.calls) == ("DtoH", 2)
    assert (found.total_ns, found.exposed_ns) == (800_000, 400_000)


def test_hidden_copies_are_not_told():
    recording = trace(("compute", 0, 400), ("mem", 100, 300))
    assert copies(Recorded.of(recording), 0) == []


def unnamed(recording, *rows: int):
    """Take the names of some operations of a recording away."""
    codes = recording.ops.name.copy()
    codes[list(rows)] = -1
    return replace(recording, ops=replace(recording.ops, name=codes))


@pytest.mark.parametrize("rows", [range(7), range(3), range(4, 7), [0], [4]])
def test_kernels_without_a_name_are_not_compared(rows):
    recording = unnamed(trace(*ALONE, *beside(176)), *rows)
    (found,) = slowdowns(Recorded.of(recording))
    assert (found.extra_ns, found.kernels) == (None, ())
    assert analyze(run(recording)).diagnosis.bottleneck is not None


def test_kernels_without_a_name_do_not_take_that_of_others():
    recording = trace(
        ("compute", 0, 400), ("compute", 400, 500), ("mem", 600, 700), ("comm", 800, 900)
    )
    (longest, other) = hotspots(Recorded.of(unnamed(recording, 0, 2)), 0)
    assert [(one.name, one.total_ns) for one in (longest, other)] == [
        ("unknown", 400_000),
        ("kernel", 100_000),
    ]
    (copy,) = copies(Recorded.of(unnamed(recording, 0, 2)), 0)
    assert copy.name == "unknown"
