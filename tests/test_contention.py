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
    assert (beside.ratio, beside.low, beside.high) == (1, 1, 1 + UNSEEN)
    assert beside.compared_ratio == 0
