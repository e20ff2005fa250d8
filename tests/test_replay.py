"""One step replayed: buckets in their order, one at a time, beside compute."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddptrace.whatif.replay import Bucket, Contention, replay


def fixed(time):
    return lambda _: time


def by_size(size):
    return size


def test_a_bucket_starts_when_it_is_ready():
    """
    compute  bbbbbbbbbb
    comm     ....aa....cc
    """
    step = replay([Bucket(2, 4), Bucket(2, 10)], 10, by_size, Contention())
    assert [(one.start_ns, one.end_ns) for one in step.spans] == [(4, 6), (10, 12)]
    assert (step.step_ns, step.compute_end_ns, step.tail_ns, step.exposed_comm_ns) == (12, 10, 2, 2)


def test_a_bucket_waits_for_the_one_before():
    """
    compute  bbbbbbbbbb
    comm     ..aaaaaacccccc
    """
    step = replay([Bucket(6, 2), Bucket(6, 4)], 10, by_size, Contention())
    assert [(one.start_ns, one.end_ns) for one in step.spans] == [(2, 8), (8, 14)]
    assert step.exposed_comm_ns == 4


def test_an_early_bucket_behind_a_late_one_is_late_too():
    step = replay([Bucket(1, 9), Bucket(1, 1)], 10, by_size, Contention())
    assert [one.start_ns for one in step.spans] == [9, 10]


def test_a_pause_lies_between_buckets_in_line_and_not_before_others():
    step = replay(
        [Bucket(4, 2), Bucket(4, 3), Bucket(1, 30)], 30, by_size, Contention(pause_ns=0.5)
    )
    assert [one.start_ns for one in step.spans] == [2, 6, 30]
    both = Contention(pause_ns=0.5, pause_beside_ns=2)
    step = replay([Bucket(4, 2), Bucket(4, 3), Bucket(1, 3), Bucket(1, 3)], 13, by_size, both)
    assert [one.start_ns for one in step.spans] == [2, 8, 14, 15.5]


def test_compute_goes_on_in_a_pause():
    """Of 10 of compute 6 are left when the first bucket ends, 3 after the pause, then 1 alone."""
    step = replay([Bucket(4, 2), Bucket(4, 2)], 10, by_size, Contention(2.0, 1.0, 0, 3))
    assert step.spans[1].start_ns == 9
    assert step.compute_end_ns == 14


def test_compute_beside_a_bucket_is_slower():
    """Of 10 of compute 4 are left when a bucket of 6 starts: at half speed 3 of them get done."""
    step = replay([Bucket(6, 6)], 10, by_size, Contention(compute=2.0))
    assert step.compute_end_ns == 13
    assert step.step_ns == 13
    assert step.exposed_comm_ns == 0


def test_a_bucket_beside_compute_is_slower():
    """It takes twice as long while the last 4 of compute run, so half of it is left then."""
    step = replay([Bucket(4, 6)], 10, by_size, Contention(comm=2.0))
    assert step.compute_end_ns == 10
    assert step.step_ns == 12
    assert step.exposed_comm_ns == 2


def test_compute_behind_the_last_bucket_ends_the_step():
    step = replay([Bucket(2, 4)], 10, by_size, Contention())
    assert (step.step_ns, step.tail_ns, step.exposed_comm_ns) == (10, 0, 0)


def test_nothing_to_communicate_leaves_compute():
    step = replay([], 10, by_size, Contention(compute=3.0))
    assert (step.step_ns, step.compute_end_ns, step.tail_ns) == (10, 10, 0)


@pytest.mark.parametrize(
    ("count", "alpha", "ends"), [(16, 6, 117), (8, 6, 88), (4, 6, 90), (2, 6, 94), (1, 6, 102)]
)
def test_the_teaching_table_of_the_field(count, alpha, ends):
    size = 80 / count
    buckets = [Bucket(size, size * (number + 1)) for number in range(count)]
    assert replay(buckets, 80, lambda each: alpha + each / 5, Contention()).step_ns == ends


BUCKETS = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 100)).map(lambda each: Bucket(*each)), max_size=12
)


@given(buckets=BUCKETS, slow=st.sampled_from([1.0, 1.3, 2.0]), comm=st.sampled_from([1.0, 1.5]))
def test_what_holds_of_every_replay(buckets, slow, comm):
    contention = Contention(slow, comm, 1.0)
    step = replay(buckets, 100, by_size, contention)
    total = sum(each.size_bytes for each in buckets)
    assert step.step_ns >= 100
    assert step.step_ns >= total
    assert step.step_ns <= 100 * slow + total * comm + len(buckets) + 1e-6
    assert 0 <= step.tail_ns <= step.exposed_comm_ns + len(buckets) + 1e-6
    assert all(a.end_ns <= b.start_ns for a, b in zip(step.spans, step.spans[1:], strict=False))
    dearer = replay(buckets, 100, lambda size: size + 1, contention)
    assert dearer.step_ns >= step.step_ns - 1e-6
