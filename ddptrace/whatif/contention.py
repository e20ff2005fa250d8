"""How much longer compute takes beside communication: the same kernels alone and beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ddptrace.intervals import IntArray
from ddptrace.kernels import Kind
from ddptrace.metrics.recorded import Recorded
from ddptrace.metrics.slowdown import LEAST_RATIO, MOST_RATIO

FEWEST_CALLS = 2
"""A kernel is compared that ran so often alone, and so often beside communication."""
OVERLAPPED = 0.2
"""A call ran beside communication that did so for this part of its time at least."""
MOST_SPREAD = 0.25
"""Calls of one name are one kernel when eight in ten differ by no more, against the median."""
UNSEEN = 0.3
"""Kernels that nothing compares may take this part longer, or twice as much more as others do.

Half of it is what is taken for likely.
"""
ENOUGH_RATIO = 0.2
"""Kernels of so much of the time beside communication stand for all of them."""


@dataclass(frozen=True, slots=True)
class Slowed:
    """How many times longer compute takes beside communication, at least and at most.

    `compared_ratio` is the part of the time beside communication of which that is known; without
    any the value is an assumption.
    """

    ratio: float
    low: float
    high: float
    compared_ratio: float


def slowed(recordings: Iterable[Recorded]) -> Slowed:
    """Return what communication costs the compute beside it, over all these recordings.

    A call that ran beside communication for some time took longer than alone by the part of that
    time which it lost.
    """
    beside_ns = known_ns = lost_ns = 0.0
    for recorded in recordings:
        calls = _calls(recorded)
        beside_ns += float(calls.beside_ns.sum())
        for overlap_ns, excess_ns in _compared(calls):
            known_ns += overlap_ns
            lost_ns += excess_ns
    if not beside_ns:
        return Slowed(1.0, 1.0, 1 + UNSEEN, 0.0)
    ratio = max(_ratio(known_ns, lost_ns), 1.0) if known_ns else 1.0
    compared = known_ns / beside_ns
    unseen = max(UNSEEN, 2 * (ratio - 1))
    low = 1 + (ratio - 1) * compared
    high = ratio * compared + (1 + unseen) * (1 - compared)
    # A few kernels say little of all the others.
    weight = min(compared / ENOUGH_RATIO, 1.0)
    likely = weight * ratio + (1 - weight) * (1 + UNSEEN / 2)
    return Slowed(likely, min(low, likely), max(high, likely), compared)


def _ratio(overlap_ns: float, excess_ns: float) -> float:
    """Return how many times longer that takes of which so much is excess."""
    return overlap_ns / max(overlap_ns - excess_ns, overlap_ns / (2 * MOST_RATIO))


@dataclass(frozen=True, slots=True, eq=False)
class _Calls:
    """The compute kernels of a recording's steps; `place` counts those of a sort in its step."""

    sort: NDArray[np.intp]
    place: IntArray
    length_ns: IntArray
    beside_ns: IntArray


def _calls(recorded: Recorded) -> _Calls:
    ops, owner = recorded.trace.ops, recorded.steps.owner
    length_ns = ops.end_ns - ops.start_ns
    rows = np.flatnonzero((ops.kind == Kind.COMPUTE) & (length_ns > 0) & (owner >= 0))
    # Forward and backward kernels of one name are of other sizes.
    what = ops.name[rows].astype(np.int64) * 2 + ops.in_backward[rows]
    _, sort = np.unique(what, return_inverse=True)
    sort = sort.reshape(-1)
    return _Calls(
        sort=sort,
        place=_places(owner[rows], sort),
        length_ns=length_ns[rows],
        beside_ns=recorded.busy.comm.length_in(ops.start_ns[rows], ops.end_ns[rows]),
    )


def _places(owner: NDArray[np.intp], sort: NDArray[np.intp]) -> IntArray:
    order = np.lexsort((np.arange(sort.size), sort, owner))
    new = np.ones(order.size, np.bool_)
    new[1:] = (np.diff(owner[order]) != 0) | (np.diff(sort[order]) != 0)
    at = np.arange(order.size)
    places = np.empty(order.size, np.int64)
    places[order] = at - np.maximum.accumulate(np.where(new, at, 0))
    return places


def _compared(calls: _Calls) -> Iterator[tuple[float, float]]:
    """Yield for each sort how long it ran beside communication, and what it took longer for that.

    Only sorts count of which it is known how long they take alone, and that are slower by no more
    than communication can do: others are not the same kernels.
    """
    order = np.argsort(calls.sort, kind="stable")
    borders = np.flatnonzero(np.diff(calls.sort[order])) + 1
    for rows in np.split(order, borders) if order.size else ():
        length, overlap = calls.length_ns[rows], calls.beside_ns[rows]
        alone, beside = rows[overlap == 0], rows[overlap >= OVERLAPPED * length]
        if min(alone.size, beside.size) < FEWEST_CALLS:
            continue
        overlap_ns, excess_ns = _excess(calls, alone, beside)
        if overlap_ns and LEAST_RATIO <= _ratio(overlap_ns, excess_ns) <= MOST_RATIO:
            yield overlap_ns, excess_ns


def _excess(
    calls: _Calls, alone: NDArray[np.intp], beside: NDArray[np.intp]
) -> tuple[float, float]:
    """Return how long calls ran beside communication, and how much longer than alone they took.

    At one place of all steps they are the same kernel. Others count where all calls alone have
    about one length.
    """
    alone = alone[np.lexsort((calls.length_ns[alone], calls.place[alone]))]
    places, first, count = np.unique(calls.place[alone], return_index=True, return_counts=True)
    middle_ns = calls.length_ns[alone][first + (count - 1) // 2].astype(np.float64)
    at = np.minimum(np.searchsorted(places, calls.place[beside]), places.size - 1)
    same = places[at] == calls.place[beside]
    low, middle, high = np.percentile(calls.length_ns[alone], (10, 50, 90))
    is_steady = high - low <= MOST_SPREAD * middle
    alone_ns = np.where(same, middle_ns[at], middle if is_steady else np.nan)
    known = ~np.isnan(alone_ns)
    excess_ns = (calls.length_ns[beside] - alone_ns)[known]
    return float(calls.beside_ns[beside][known].sum()), float(excess_ns.sum())
