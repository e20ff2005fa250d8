"""NCCL on the compute stream, and kernels that it slows; in µs."""

import pytest
from findings import STEP, backward, costs, figures, findings, on_streams, reduce
from test_slowdown import ALONE, beside
from traces import trace

FORWARD = [("compute", 0, 10)]

# --- one stream


def behind(*, length=2000, streams=(7, 7, 7), rest=0):
    """State a step whose all-reduce runs behind backward, or before a rest of it.

    compute  ffff bbbb      (BB) OO
    comm              11111
    """
    end = 4000 + length
    rows = [("compute", 0, 3000), backward(3000, 4000), reduce(4000, end, 3001)]
    if rest:
        rows.append(backward(end, end + rest, 3002))
    rows.append(("compute", end + rest, STEP, 9000))
    recording = trace(*rows, marks=((0, STEP),))
    return on_streams(recording, *streams, *(7,) * (len(rows) - 3))


def test_one_stream_for_both_is_said_without_a_cost_where_nothing_could_overlap():
    (found,) = findings("same_stream", behind())
    assert (found.cost_ns, found.ranks) == (None, [0])
    assert figures(found) == {
        "shared_ratio": (1.0, 0.5),
        "stream": (7, None),
        "exposed_comm_ns": (2_000_000, 100_000),
    }


@pytest.mark.parametrize(
    ("rest", "cost"), [(99, None), (100, 100_000), (1500, 1_500_000), (3000, 2_000_000)]
)
def test_what_backward_launched_behind_it_could_have_run_beside_it(rest, cost):
    assert costs("same_stream", behind(rest=rest)) == [cost]


def test_nccl_on_a_stream_of_its_own_is_as_it_should_be():
    assert costs("same_stream", behind(streams=(7, 7, 20))) == []


def test_streams_that_are_not_told_say_nothing():
    recording = on_streams(behind(), -1, -1, -1, -1)
    assert costs("same_stream", recording) == []


@pytest.mark.parametrize(("length", "count"), [(99, 0), (100, 1)])
def test_one_stream_is_no_matter_when_nothing_is_exposed(length, count):
    assert len(costs("same_stream", behind(length=length))) == count


def test_small_kernels_on_the_stream_of_the_collectives_do_not_make_it_that_of_compute():
    """A hook compresses gradients there."""
    rows = [*FORWARD, backward(10, 4000), backward(4000, 4010, 3000), reduce(4010, 6000, 3001)]
    recording = trace(*rows, ("compute", 6000, STEP, 9000), marks=((0, STEP),))
    assert costs("same_stream", on_streams(recording, 7, 7, 20, 20, 7)) == []


def test_half_of_the_gradients_on_the_compute_stream_are_not_most():
    rows = [*FORWARD, backward(10, 4000), reduce(4000, 5000, 11), reduce(5000, 6000, 12)]
    recording = trace(*rows, ("compute", 6000, STEP, 9000), marks=((0, STEP),))
    assert costs("same_stream", on_streams(recording, 7, 7, 7, 20, 7)) == []
    assert costs("same_stream", on_streams(recording, 7, 7, 7, 7, 7)) == [None]


def test_an_all_reduce_outside_of_backward_may_run_on_the_compute_stream():
    """That of a loss, which PyTorch runs there when the caller waits for it anyway."""
    rows = [*FORWARD, backward(10, 4000), reduce(4000, 5000, 11)]
    rows += [reduce(at, at + 1000, backward=False, size=4) for at in (5000, 6000, 7000)]
    recording = trace(*rows, ("compute", 8000, STEP, 9000), marks=((0, STEP),))
    assert costs("same_stream", on_streams(recording, 7, 7, 20, 7, 7, 7, 7)) == []


def test_the_schedule_is_not_blamed_for_one_stream():
    rows = [*FORWARD, backward(10, 1000), reduce(1000, 3000, 11), backward(3000, 7000, 12)]
    rows += [reduce(7000, 7010, 13), ("compute", 9990, STEP, 9000)]
    recording = trace(*rows, marks=((0, STEP),))
    (found,) = findings("bucket_schedule", on_streams(recording, *(7,) * 6))
    assert "share a stream" in found.advice
    assert "bucket_cap_mb" not in found.advice
    (found,) = findings("bucket_schedule", on_streams(recording, 7, 7, 20, 7, 20, 7))
    assert "share a stream" not in found.advice


# --- slowed kernels


def test_kernels_that_are_slower_beside_communication_cost_the_difference():
    """Three of 100 µs take 176."""
    (found,) = findings("comm_slows_compute", trace(*ALONE, *beside(176), marks=((0, STEP),)))
    assert (found.cost_ns, found.ranks) == (228_000, [0])
    evidence = figures(found)
    assert evidence["slowdown_ratio"] == (pytest.approx(1.76), 1)
    assert evidence["compared"] == evidence["beside"] == (3, None)
    assert "kernel loses most" in found.advice


@pytest.mark.parametrize(("length", "found"), [(132, []), (134, [102_000])])
def test_slowed_kernels_are_listed_from_one_percent_of_the_step(length, found):
    rows = [*ALONE, *beside(length), backward(9999, STEP)]
    assert costs("comm_slows_compute", trace(*rows, marks=((0, STEP),))) == found


def test_kernels_that_cannot_be_compared_cost_nothing():
    assert costs("comm_slows_compute", trace(*beside(176), marks=((0, STEP),))) == []
    assert costs("comm_slows_compute", trace(*ALONE, *beside(100), marks=((0, STEP),))) == []
