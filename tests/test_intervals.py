"""The algebra of time agrees with sets of ticks."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ddptrace.intervals import Intervals

PAIRS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=12)


def intervals(pairs) -> Intervals:
    start = np.array([start for start, _ in pairs], np.int64)
    return Intervals.union_of(start, start + np.array([length for _, length in pairs], np.int64))


def ticks(pairs) -> set[int]:
    return {tick for start, length in pairs for tick in range(start, start + length)}


def ticks_of(found: Intervals) -> set[int]:
    return {
        tick
        for start, end in zip(found.start, found.end, strict=True)
        for tick in range(start, end)
    }


def assert_canonical(found: Intervals) -> None:
    assert np.all(found.end > found.start)
    assert np.all(found.start[1:] > found.end[:-1])


@given(PAIRS)
def test_union_holds_the_same_ticks_in_canonical_form(pairs):
    found = intervals(pairs)
    assert_canonical(found)
    assert ticks_of(found) == ticks(pairs)
    assert found.total_ns == len(ticks(pairs))


@given(PAIRS, PAIRS)
def test_set_operations_agree_with_sets_of_ticks(left, right):
    a, b = intervals(left), intervals(right)
    for found, expected in (
        (a & b, ticks(left) & ticks(right)),
        (a | b, ticks(left) | ticks(right)),
        (a - b, ticks(left) - ticks(right)),
    ):
        assert_canonical(found)
        assert ticks_of(found) == expected


@given(PAIRS, PAIRS)
def test_a_set_is_its_intersection_and_its_difference(left, right):
    a, b = intervals(left), intervals(right)
    assert (a & b).total_ns + (a - b).total_ns == a.total_ns
    assert (a & b) | (a - b) == a


@given(PAIRS, st.integers(-2, 60), st.integers(0, 30))
def test_length_in_a_window_is_that_of_the_clipped_set(pairs, start, length):
    found = intervals(pairs)
    window = np.array([start]), np.array([start + length])
    expected = ticks(pairs) & set(range(start, start + length))
    assert int(found.length_in(*window)[0]) == len(expected)
    assert ticks_of(found.clip(start, start + length)) == expected
    assert (
        ticks_of(found.gaps(start, start + length)) == set(range(start, start + length)) - expected
    )


@given(PAIRS, st.lists(st.tuples(st.integers(-2, 60), st.integers(0, 30)), max_size=4))
def test_windows_are_measured_each_for_itself(pairs, windows):
    found = intervals(pairs)
    start = np.array([start for start, _ in windows], np.int64)
    end = start + np.array([length for _, length in windows], np.int64)
    each = [
        found.clip(*window).total_ns for window in zip(start.tolist(), end.tolist(), strict=True)
    ]
    assert found.length_in(start, end).tolist() == each
    assert found.length_before(start).tolist() == [found.clip(-9, at).total_ns for at in start]


@given(PAIRS, st.integers(1, 12))
def test_runs_nearer_than_a_limit_become_one_with_the_time_between(pairs, nearest):
    runs = intervals(pairs)
    start = np.array([start for start, _ in pairs], np.int64)
    end = start + np.array([length for _, length in pairs], np.int64)
    joined = Intervals.union_of(start, end, nearest)
    assert_canonical(joined)
    holes = runs.gaps(int(runs.start[0]), int(runs.end[-1])) if len(runs) else runs
    short = holes.end - holes.start < nearest
    assert joined == runs | Intervals(holes.start[short], holes.end[short])


def test_touching_intervals_become_one():
    assert len(intervals([(0, 5), (5, 5)])) == 1


def test_half_open_intervals_that_touch_do_not_meet():
    assert len(intervals([(0, 5)]) & intervals([(5, 5)])) == 0


def test_nothing_equals_only_nothing():
    assert Intervals.empty() == intervals([(3, 0)])
    assert Intervals.empty() != intervals([(3, 1)])
    assert Intervals.empty() != "nothing"
