"""How much longer compute takes beside communication: the same kernels alone and beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ddptrace.intervals import IntArray
from ddptrace.kernels import Kind
from ddptrace.metrics.by_code import medians_by_code
from ddptrace.metrics.recorded import Recorded
from ddptrace.metrics.slowdown import LEAST_RATIO, MOST_RATIO

FEWEST_CALLS = 2
"""A kernel is compared that ran so often alone, and so often beside communication."""
OVERLAPPED = 0.2
"""A call ran beside communication that did so for this part of its time at least."""
MOST_SPREAD = 0.15
"""Calls are of one kernel when eight in ten of those alone differ by no more, of their median."""
NEIGHBOURS = 2
"""Calls are of one kernel when so many before and behind them have the same names, too.

A matrix product of a layer and that of the model's head have one name: what is around tells which
it is. Without that the large ones, which run first, would stand for small ones in all layers.
"""
FEWEST_PLACES = 2
"""Where only its own name is the same, a kernel is compared that ran alone at so many places."""
MOST_SPREAD_BESIDE = 0.25
"""And of which eight in ten calls beside communication differ by no more."""
MOST_CALLS = 100_000
"""So many calls of a recording tell enough."""
UNSEEN = 0.4
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
        return Slowed(1 + UNSEEN / 2, 1.0, 1 + UNSEEN, 0.0)
    ratio = max(_ratio(known_ns, lost_ns), 1.0) if known_ns else 1.0
    compared = known_ns / beside_ns
    unseen = max(UNSEEN, 2 * (ratio - 1))
    low = 1 + (ratio - 1) * compared
    high = ratio * compared + (1 + unseen) * (1 - compared)
    # A few kernels say little of all the others.
    weight = min(compared / ENOUGH_RATIO, 1.0)
    likely = weight * ratio + (1 - weight) * (1 + UNSEEN / 2)
    return Slowed(likely, low, high, compared)


def _ratio(overlap_ns: float, excess_ns: float) -> float:
    """Return how many times longer that takes of which so much is excess."""
    return overlap_ns / max(overlap_ns - excess_ns, overlap_ns / (2 * MOST_RATIO))


@dataclass(frozen=True, slots=True, eq=False)
class _Calls:
    """The compute kernels of a recording's steps, those of a step and stream one after another.

    `sort` is the same for those of one name and direction, `line` for those of one step and
    stream, `place` counts those of a sort in their line.
    """

    sort: IntArray
    line: IntArray
    place: IntArray
    length_ns: IntArray
    beside_ns: IntArray


def _calls(recorded: Recorded) -> _Calls:
    ops, owner = recorded.trace.ops, recorded.steps.owner
    length_ns = ops.end_ns - ops.start_ns
    rows = np.flatnonzero((ops.kind == Kind.COMPUTE) & (length_ns > 0) & (owner >= 0))
    rows = rows[:MOST_CALLS]
    rows = rows[np.lexsort((ops.stream[rows], owner[rows]))]  # by start within that, as they are
    # Forward and backward kernels of one name are of other sizes.
    sort = ops.name[rows].astype(np.int64) * 2 + ops.in_backward[rows]
    new = (np.diff(owner[rows], prepend=-1) != 0) | (np.diff(ops.stream[rows], prepend=-2) != 0)
    line = np.cumsum(new)
    return _Calls(
        sort=sort,
        line=line,
        place=_places(line, sort),
        length_ns=length_ns[rows],
        beside_ns=recorded.busy.comm.length_in(ops.start_ns[rows], ops.end_ns[rows]),
    )


def _places(line: IntArray, sort: IntArray) -> IntArray:
    order = np.lexsort((sort, line))
    new = (np.diff(line[order], prepend=-1) != 0) | (np.diff(sort[order], prepend=-1) != 0)
    at = np.arange(order.size)
    places = np.empty(order.size, np.int64)
    places[order] = at - np.maximum.accumulate(np.where(new, at, 0))
    return places


def _compared(calls: _Calls) -> Iterator[tuple[float, float]]:
    """Yield of groups of calls how long they ran beside communication, and what that cost them.

    The more calls have in common with those alone, the earlier they are compared with them.
    """
    beside = calls.beside_ns >= np.maximum(OVERLAPPED * calls.length_ns, 1)
    alone = calls.beside_ns == 0
    for neighbours in range(NEIGHBOURS, -1, -1):
        kernel = _kernels(calls, neighbours)
        for rows in _groups(kernel, alone, beside):
            mine = rows[beside[rows]]
            alone_ns = _alone_ns(calls, rows[alone[rows]], mine, is_sure=neighbours > 0)
            if alone_ns is None:
                continue
            overlap_ns = float(calls.beside_ns[mine].sum())
            excess_ns = float((calls.length_ns[mine] - alone_ns).sum())
            if LEAST_RATIO <= _ratio(overlap_ns, excess_ns) <= MOST_RATIO:
                beside[mine] = False
                yield overlap_ns, excess_ns


def _kernels(calls: _Calls, neighbours: int) -> IntArray:
    """Return a number for each call that those share which have the same names around them."""
    around = [calls.sort]
    for far in range(1, neighbours + 1):
        same = calls.line[far:] == calls.line[:-far]
        before, behind = np.full((2, calls.sort.size), -1, np.int64)
        before[far:][same] = calls.sort[:-far][same]
        behind[:-far][same] = calls.sort[far:][same]
        around += [before, behind]
    kernel = np.zeros(calls.sort.size, np.int64)
    for each in around:
        # Pairs of numbers made one, and small again, so that the next product is no overflow.
        _, kernel = np.unique(kernel * (int(each.max(initial=0)) + 2) + each, return_inverse=True)
        kernel = kernel.reshape(-1)
    return kernel


def _groups(
    kernel: IntArray, alone: NDArray[np.bool_], beside: NDArray[np.bool_]
) -> Iterator[NDArray[np.intp]]:
    """Yield the calls of each kernel that has enough of both kinds."""
    enough = np.bincount(kernel[alone], minlength=kernel.max(initial=0) + 1) >= FEWEST_CALLS
    enough &= np.bincount(kernel[beside], minlength=enough.size) >= FEWEST_CALLS
    rows = np.flatnonzero(enough[kernel] & (alone | beside))
    rows = rows[np.argsort(kernel[rows], kind="stable")]
    borders = np.flatnonzero(np.diff(kernel[rows])) + 1
    return (each for each in np.split(rows, borders) if each.size)


def _alone_ns(
    calls: _Calls, alone: NDArray[np.intp], beside: NDArray[np.intp], *, is_sure: bool
) -> float | NDArray[np.float64] | None:
    """Return how long calls beside communication would take alone; None where nothing tells.

    At one place of all steps they are the same kernel. Others count where all calls alone have
    about one length; where only the name is the same, those beside communication, too.
    """
    places = calls.place[alone]
    if np.isin(calls.place[beside], places).all():
        return _of_places(calls, alone, beside)
    if not _is_steady(calls.length_ns[alone], MOST_SPREAD):
        return None
    if not is_sure and (
        np.unique(places).size < FEWEST_PLACES
        or not _is_steady(calls.length_ns[beside], MOST_SPREAD_BESIDE)
    ):
        return None
    return float(np.median(calls.length_ns[alone]))


def _of_places(
    calls: _Calls, alone: NDArray[np.intp], beside: NDArray[np.intp]
) -> NDArray[np.float64]:
    places, at = np.unique(calls.place[alone], return_inverse=True)
    middle = medians_by_code(at.reshape(-1), calls.length_ns[alone], places.size)
    return np.array(middle, np.float64)[np.searchsorted(places, calls.place[beside])]


def _is_steady(length_ns: IntArray, most_spread: float) -> bool:
    low, middle, high = np.percentile(length_ns, (10, 50, 90))
    return bool(high - low <= most_spread * middle)
