"""Operations that outlast the whole next one on their stream are cut."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from traces import trace

from ddptrace.sources.streams import cut_impossible

_OPERATIONS = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(-1, 2), st.integers(0, 1)),
    min_size=1,
    max_size=12,
)


def operations(rows):
    """State operations: start and length in µs, stream, device."""
    ops = trace(*[("compute", start, start + length) for start, length, _, _ in rows]).ops
    ordered = sorted(rows, key=lambda row: row[0])
    return replace(
        ops,
        stream=np.array([row[2] for row in ordered]),
        device=np.array([row[3] for row in ordered]),
    )


@given(_OPERATIONS)
def test_each_operation_of_a_stream_is_held_against_the_next_one_only(rows):
    ops = operations(rows)
    ends = ops.end_ns.tolist()
    lanes = {}
    for row, (start, end) in enumerate(zip(ops.start_ns.tolist(), ends, strict=True)):
        if end > start and ops.stream[row] >= 0:
            lane = (int(ops.device[row]), int(ops.stream[row]))
            lanes.setdefault(lane, []).append((start, end, row))
    expected = list(ends)
    for lane in lanes.values():
        lane.sort()
        for (_, end, row), (following, its_end, _) in pairwise(lane):
            if end > its_end:
                expected[row] = following
    found, cut = cut_impossible(ops)
    assert found.end_ns.tolist() == expected
    assert cut.count == sum(end != was for end, was in zip(expected, ends, strict=True))


def test_of_two_that_start_together_the_shorter_one_is_first():
    """
    stream 0  ######
              ##....##   the long one outlasts no whole next one
    """
    found, cut = cut_impossible(operations([(0, 6, 0, 0), (0, 2, 0, 0), (6, 2, 0, 0)]))
    assert (cut.count, found.end_ns.tolist()) == (0, [6000, 2000, 8000])


def test_streams_of_one_number_on_two_devices_are_two():
    _, cut = cut_impossible(operations([(0, 9, 0, 0), (1, 2, 0, 1)]))
    assert cut.count == 0
