"""What communication costs the compute beside it, from few calls and any overlap; times in µs."""

from __future__ import annotations

import pytest
from traces import trace

from ddptrace.metrics.recorded import Recorded
from ddptrace.whatif.contention import UNSEEN, slowed


def kernels(*spans):
    return [("compute", start, end, start, True) for start, end in spans]


def found(*rows, marks=((0, 10_000),)):
    return slowed([Recorded.of(trace(*rows, marks=marks))])


def test_calls_beside_communication_are_held_against_those_alone():
    """
    compute  aa.aa.bbb.bbb   100 µs alone, 150 µs beside communication
    comm     ......rrrrrrr
    """
    rows = kernels((0, 100), (100, 200), (300, 450), (450, 600))
    beside = found(*rows, ("comm", 300, 600))
    assert beside.ratio == pytest.approx(1.5)
    assert beside.compared_ratio == 1
    assert (beside.low, beside.high) == (beside.ratio, beside.ratio)


def test_a_part_of_the_time_beside_tells_as_well():
    """50 µs beside communication get 25 µs of work done, which would have ended at 100 µs."""
    rows = kernels((0, 100), (100, 200), (300, 425), (500, 625))
    assert found(*rows, ("comm", 375, 425), ("comm", 575, 625)).ratio == pytest.approx(2)


def test_the_same_place_of_steps_is_the_same_kernel():
    """Two kernels of one name, 100 and 300 µs: each place is held against itself."""
    rows = kernels((0, 100), (100, 400), (1000, 1100), (1100, 1400))
    rows += kernels((2000, 2150), (2150, 2600), (3000, 3150), (3150, 3600))
    comm = [("comm", 2000, 2600), ("comm", 3000, 3600)]
    marks = [(0, 1000), (1000, 2000), (2000, 3000), (3000, 4000)]
    assert found(*rows, *comm, marks=marks).ratio == pytest.approx(1.5)


def test_kernels_of_one_name_and_many_lengths_tell_nothing():
    rows = kernels((0, 100), (100, 400), (400, 450), (500, 650), (650, 800))
    beside = found(*rows, ("comm", 500, 800))
    assert beside.compared_ratio == 0
    assert (beside.ratio, beside.low, beside.high) == (1 + UNSEEN / 2, 1, 1 + UNSEEN)


def test_a_kernel_that_is_shorter_beside_communication_is_another_one():
    rows = kernels((0, 600), (600, 1200), (1300, 1400), (1400, 1500))
    assert found(*rows, ("comm", 1300, 1500)).compared_ratio == 0


def test_one_call_is_too_few():
    rows = kernels((0, 100), (100, 200), (300, 450))
    assert found(*rows, ("comm", 300, 450)).compared_ratio == 0


def test_what_hardly_any_kernel_tells_is_unsure():
    """2 of 12 calls beside communication can be compared: it may be less or more for the rest."""
    rows = kernels((0, 100), (100, 200), (300, 450), (450, 600))
    others = [("compute", at, at + 150, at) for at in range(600, 2100, 150)]
    beside = found(*rows, *others, ("comm", 300, 2100))
    assert beside.compared_ratio == pytest.approx(1 / 6)
    assert beside.ratio == pytest.approx(1.5 * 5 / 6 + (1 + UNSEEN / 2) / 6)
    assert beside.low < 1.15
    assert beside.high > 1.8


def test_without_compute_beside_communication_it_may_be_slower_there():
    rows = kernels((0, 100), (100, 200))
    beside = found(*rows, ("comm", 300, 600))
    assert (beside.ratio, beside.low, beside.high) == (1 + UNSEEN / 2, 1, 1 + UNSEEN)
    assert beside.compared_ratio == 0


def steps_of(count, *kernels_of_step, comm):
    """Return what steps of 10 ms tell, each of (name, start, end) kernels and one collective."""
    rows = [
        (name, ("compute", at + start, at + end, at + start, True))
        for at in range(0, count * 10_000, 10_000)
        for name, start, end in kernels_of_step
    ]
    rows += [(0, ("comm", at + comm[0], at + comm[1])) for at in range(0, count * 10_000, 10_000)]
    rows.sort(key=lambda row: row[1][1])
    marks = [(at, at + 10_000) for at in range(0, count * 10_000, 10_000)]
    stated = trace(*(row for _, row in rows), marks=marks)
    stated.ops.name[:] = [name for name, _ in rows]
    return slowed([Recorded.of(stated)])


MATMUL, NORM, COPY, LOSS = range(4)


def layer(start, matmul, norm=50):
    """Return the kernels of a layer's backward, one after another."""
    ends = [start + norm, start + norm + matmul, start + norm + matmul + 20]
    return [(NORM, start, ends[0]), (MATMUL, ends[0], ends[1]), (COPY, ends[1], ends[2])]


def test_the_head_of_a_model_does_not_stand_for_its_layers():
    """
    compute  loss head(290).layer(200 → 300) layer layer    the matrix products have one name
    comm     ..............rrrrrrrrrrrrrrrrrrrrrrrrrrrrr
    """
    head = [(LOSS, 0, 30), (MATMUL, 30, 320), (LOSS, 320, 350)]
    layers = [each for at in (500, 900, 1300, 1700) for each in layer(at, 300)]
    beside = steps_of(3, *head, *layers, comm=(500, 2100))
    assert beside.compared_ratio == 0
    assert (beside.ratio, beside.low, beside.high) == (1 + UNSEEN / 2, 1, 1 + UNSEEN)


def test_layers_alone_stand_for_those_beside_communication():
    """Four layers run alone and four beside communication; the head has its matrix product, too."""
    head = [(LOSS, 0, 30), (MATMUL, 30, 830), (LOSS, 830, 860)]
    alone = [each for at in range(1000, 2200, 300) for each in layer(at, 200)]
    slow = [each for at in range(2200, 3800, 400) for each in layer(at, 300, 75)]
    beside = steps_of(3, *head, *alone, *slow, comm=(2200, 3800))
    assert beside.compared_ratio > 0.7
    assert beside.ratio == pytest.approx((300 + 75 + 20) / (200 + 50 + 20), rel=0.03)
