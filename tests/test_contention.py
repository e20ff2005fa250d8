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


@pytest.mark.parametrize(
    ("beside", "compared", "ratio"),
    [(94, 0, 1 + UNSEEN / 2), (95, 1, 1), (300, 1, 3), (301, 0, 1 + UNSEEN / 2)],
)
def test_a_kernel_that_is_too_short_or_long_beside_communication_is_another_one(
    beside, compared, ratio
):
    rows = kernels((0, 100), (100, 200), (300, 300 + beside), (700, 700 + beside))
    found_here = found(*rows, ("comm", 300, 1200))
    assert (found_here.compared_ratio, found_here.ratio) == (compared, pytest.approx(ratio))


def test_a_call_with_little_communication_beside_it_is_no_call_alone():
    rows = kernels((0, 100), (100, 200), (300, 450), (450, 600))
    assert found(*rows, ("comm", 95, 105), ("comm", 300, 600)).compared_ratio == 0


def test_kernels_outside_the_steps_tell_nothing():
    rows = kernels((0, 100), (100, 200), (300, 450), (450, 600))
    assert found(*rows, ("comm", 300, 600), marks=((250, 1000),)).compared_ratio == 0


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


def told(*steps):
    """Return what steps of 10 ms tell, each of (name, start, end[, stream]), also of `COMM`."""
    rows = [
        (name, stream[0] if stream else 0, (kind_of(name), at + start, at + end, at + start, True))
        for at, step in zip(range(0, len(steps) * 10_000, 10_000), steps, strict=True)
        for name, start, end, *stream in step
    ]
    rows.sort(key=lambda row: row[2][1])
    marks = [(at, at + 10_000) for at in range(0, len(steps) * 10_000, 10_000)]
    stated = trace(*(row for *_, row in rows), marks=marks)
    stated.ops.name[:] = [name for name, *_ in rows]
    stated.ops.stream[:] = [stream for _, stream, _ in rows]
    return slowed([Recorded.of(stated)])


def kind_of(name):
    return "comm" if name == COMM else "compute"


def steps_of(count, *kernels_of_step, comm):
    """Return what steps tell that are all the same, with one collective each."""
    return told(*[[*kernels_of_step, (COMM, *comm)]] * count)


MATMUL, NORM, COPY, LOSS, ADD, SUM, COMM = range(7)


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
    assert 0.7 < beside.compared_ratio <= 1
    assert beside.ratio == pytest.approx((300 + 75 + 20) / (200 + 50 + 20), rel=0.03)


def test_what_runs_behind_a_kernel_tells_which_it_is_too():
    """The head's matrix product has the same kernel in front of it as those of the layers."""
    head = [(NORM, 0, 50), (MATMUL, 50, 340), (LOSS, 340, 370)]
    layers = [each for at in (500, 900, 1300) for each in layer(at, 300)]
    assert steps_of(3, *head, *layers, comm=(500, 1700)).compared_ratio == 0


def test_one_neighbour_on_each_side_is_enough():
    """
    compute  norm matmul(100) copy loss.add norm matmul(150) copy
    comm     ...............................rrrrrrrrrrr
    """
    alone = [(NORM, 0, 50), (MATMUL, 50, 150), (COPY, 150, 200), (LOSS, 200, 250)]
    beside = [(ADD, 300, 350), (NORM, 350, 400), (MATMUL, 400, 550), (COPY, 550, 600)]
    known = steps_of(2, *alone, *beside, comm=(400, 550))
    assert (known.compared_ratio, known.ratio) == (1, pytest.approx(1.5))


@pytest.mark.parametrize(
    ("alone", "beside", "compared"),
    [
        ((100, 120), (150, 150), 1),
        ((100, 121), (150, 150), 0),
        ((100, 100), (150, 205), 1),
        ((100, 100), (150, 206), 0),
    ],
)
def test_where_only_the_name_is_the_same_calls_must_be_of_one_length(alone, beside, compared):
    step = [(MATMUL, 0, alone[0]), (NORM, 150, 160), (MATMUL, 200, 200 + alone[1])]
    step += [(COPY, 350, 360), (MATMUL, 400, 400 + beside[0]), (LOSS, 600, 610)]
    step += [(MATMUL, 700, 700 + beside[1]), (ADD, 1000, 1010)]
    assert told([*step, (COMM, 400, 600), (COMM, 700, 1000)]).compared_ratio == compared


def test_a_place_without_a_call_alone_is_not_held_against_another_place():
    """Alone the first takes 100 µs, the second 300; a second and a third beside communication."""
    alone = [(MATMUL, 0, 100), (NORM, 100, 110), (MATMUL, 110, 410), (COPY, 410, 420)]
    beside = [(MATMUL, 0, 100), (NORM, 100, 110), (MATMUL, 110, 560), (LOSS, 560, 570)]
    beside += [(MATMUL, 570, 1020), (ADD, 1020, 1030), (COMM, 110, 560), (COMM, 570, 1020)]
    assert told(alone, alone, beside, beside).compared_ratio == 0


def test_the_step_before_is_no_neighbour():
    """The first kernel of a step is the same whatever the step before ended with."""
    alone = [(MATMUL, 0, 100), (NORM, 100, 150), (COPY, 150, 200)]
    beside = [(MATMUL, 0, 150), (NORM, 150, 200), (COPY, 200, 250), (LOSS, 250, 300)]
    beside += [(MATMUL, 300, 700), (COMM, 0, 150), (COMM, 300, 700)]
    known = told(alone, alone, beside, beside)
    assert (known.compared_ratio, known.ratio) == (pytest.approx(150 / 550), pytest.approx(1.5))


def test_another_stream_is_no_neighbour():
    """The last kernel of a stream is the same whatever another stream begins with."""
    alone = [(NORM, 500, 550), (COPY, 550, 600), (MATMUL, 600, 700)]
    beside = [(MATMUL, 0, 400), (LOSS, 400, 450), (NORM, 500, 550), (COPY, 550, 600)]
    beside += [(MATMUL, 600, 750), (COMM, 0, 400), (COMM, 600, 750)]
    sides = [(ADD, 800, 810, 1)], [(SUM, 800, 810, 1)]
    known = told(*([*step, *sides[one]] for step in (alone, beside) for one in (0, 1)))
    assert (known.compared_ratio, known.ratio) == (pytest.approx(150 / 550), pytest.approx(1.5))
