"""Whether ranks launched the collectives of a step in one order."""

from dataclasses import replace

import numpy as np
import pytest
from traces import trace

from ddptrace.metrics.collectives import collect
from ddptrace.metrics.launch_order import launch_order_differs
from ddptrace.metrics.recorded import Recorded
from ddptrace.model import Group


def rank(number, *steps, groups=None):
    """State a rank whose steps launch all-reduces of these sizes, in groups of these numbers."""
    rows, sizes = [], []
    for place, mine in enumerate(steps):
        rows.append(("compute", 100 * place, 100 * place + 5))
        for nth, size in enumerate(mine):
            at = 100 * place + 10 * (nth + 1)
            rows.append(("comm", at, at + 5))
            sizes.append(size)
    marks = tuple((100 * place, 100 * place + 100) for place in range(len(steps)))
    found = trace(*rows, marks=marks, rank=number)
    columns = {"size_bytes": np.array(sizes, np.int64)}
    if groups is not None:
        columns["group"] = np.array(groups, np.int32)
        found = replace(found, groups=(Group("a", (0, 1)), Group("b", (0, 1))))
    return replace(found, collectives=replace(found.collectives, **columns))


def differs(*ranks):
    recordings = {one.rank: [Recorded.of(one)] for one in ranks}
    return launch_order_differs(collect(recordings, len(ranks)))


def test_the_same_collectives_in_another_order_differ_in_that_step_only():
    assert differs(rank(0, [1, 2, 3], [1, 2]), rank(1, [1, 3, 2], [1, 2])) == {0: True, 1: False}


def test_another_order_of_process_groups_differs():
    assert differs(rank(0, [1, 1], groups=[0, 1]), rank(1, [1, 1], groups=[1, 0])) == {0: True}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([1, 2, 3], [2, 3]),  # one of them is lost
        ([1, 2, 3], [1, 2, 4]),  # they do not do the same
        ([-1, -1], [-1, -1]),  # nothing tells them apart
    ],
)
def test_what_differs_in_more_than_the_order_is_no_matter_of_it(one, other):
    assert differs(rank(0, one), rank(1, other)) == {0: False}


def test_a_rank_among_several_that_launches_otherwise_is_enough():
    assert differs(rank(0, [1, 2]), rank(1, [1, 2]), rank(2, [2, 1])) == {0: True}


def test_a_step_that_a_rank_has_alone_differs_from_nothing():
    assert differs(rank(0, [1, 2], [2, 1]), rank(1, [1, 2])) == {0: False, 1: False}
