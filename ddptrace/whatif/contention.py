"""How much longer compute takes beside communication: the same kernels alone and beside it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ddptrace.intervals import IntArray
from ddptrace.kernels import Kind
from ddptrace.metrics.recorded import Recorded
from ddptrace.metrics.slowdown import BESIDE, LEAST_RATIO, MOST_RATIO

FEWEST_CALLS = 2
"""A kernel is compared that ran so often alone, and so often beside communication."""
MOST_SPREAD = 0.25
"""Calls of one name are one kernel when eight in ten differ by no more, against the median."""
UNSEEN = 0.3
"""Kernels that nothing compares may take this part longer, or twice as much more as others do."""


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
    """Return what communication costs the compute beside it, over all these recordings."""
    known: list[tuple[float, float]] = []
    beside_ns = 0.0
    for recorded in recordings:
        calls = _calls(recorded)
        beside_ns += float(calls.length_ns[calls.beside].sum())
        known += _ratios(calls)
    if not known or beside_ns <= 0:
        return Slowed(1.0, 1.0, 1 + UNSEEN if beside_ns else 1.0, 0.0)
    times = np.array([time for _, time in known])
    ratios = np.array([ratio for ratio, _ in known])
    ratio = max(float(times.sum() / (times / ratios).sum()), 1.0)
    compared = float(times.sum() / beside_ns)
    unseen = max(UNSEEN, 2 * (ratio - 1))
    low = 1 + (ratio - 1) * compared
    high = ratio * compared + (1 + unseen) * (1 - compared)
    return Slowed(ratio, min(low, ratio), max(high, ratio), compared)


@dataclass(frozen=True, slots=True, eq=False)
class _Calls:
    """The compute kernels of a recording's steps; `place` counts those of a sort in its step."""

    sort: NDArray[np.intp]
    place: IntArray
    length_ns: IntArray
    beside: NDArray[np.bool_]
    alone: NDArray[np.bool_]


def _calls(recorded: Recorded) -> _Calls:
    ops, owner = recorded.trace.ops, recorded.steps.owner
    length_ns = ops.end_ns - ops.start_ns
    rows = np.flatnonzero((ops.kind == Kind.COMPUTE) & (length_ns > 0) & (owner >= 0))
    comm_ns = recorded.busy.comm.length_in(ops.start_ns[rows], ops.end_ns[rows])
    _, sort = np.unique(
        ops.name[rows].astype(np.int64) * 2 + ops.in_backward[rows], return_inverse=True
    )
    sort = sort.reshape(-1)
    return _Calls(
        sort=sort,
        place=_places(owner[rows], sort),
        length_ns=length_ns[rows],
        beside=comm_ns >= BESIDE * length_ns[rows],
        alone=comm_ns == 0,
    )


def _places(owner: NDArray[np.intp], sort: NDArray[np.intp]) -> IntArray:
    order = np.lexsort((np.arange(sort.size), sort, owner))
    new = np.ones(order.size, np.bool_)
    new[1:] = (np.diff(owner[order]) != 0) | (np.diff(sort[order]) != 0)
    at = np.arange(order.size)
    places = np.empty(order.size, np.int64)
    places[order] = at - np.maximum.accumulate(np.where(new, at, 0))
    return places


def _ratios(calls: _Calls) -> list[tuple[float, float]]:
    """Return for each sort of kernel its ratio, and how long it ran beside communication."""
    found = []
    order = np.argsort(calls.sort, kind="stable")
    borders = np.flatnonzero(np.diff(calls.sort[order])) + 1
    for rows in np.split(order, borders) if order.size else ():
        beside, alone = rows[calls.beside[rows]], rows[calls.alone[rows]]
        if min(beside.size, alone.size) < FEWEST_CALLS:
            continue
        ratio = _of_places(calls, beside, alone) or _of_lengths(calls, beside, alone)
        if ratio is not None and LEAST_RATIO <= ratio <= MOST_RATIO:
            found.append((ratio, float(calls.length_ns[beside].sum())))
    return found


def _of_places(calls: _Calls, beside: NDArray[np.intp], alone: NDArray[np.intp]) -> float | None:
    """Return the ratio of the calls at the same places of steps, which are the same kernels."""
    both = np.intersect1d(calls.place[beside], calls.place[alone])
    if not both.size:
        return None
    ratios = [
        np.median(calls.length_ns[beside[calls.place[beside] == place]])
        / np.median(calls.length_ns[alone[calls.place[alone] == place]])
        for place in both
    ]
    return float(np.median(ratios))


def _of_lengths(calls: _Calls, beside: NDArray[np.intp], alone: NDArray[np.intp]) -> float | None:
    """Return the ratio of the medians, where all calls of each kind have about one length."""
    middles = []
    for rows in (beside, alone):
        low, middle, high = np.percentile(calls.length_ns[rows], (10, 50, 90))
        if high - low > MOST_SPREAD * middle:
            return None
        middles.append(float(middle))
    return middles[0] / middles[1]
