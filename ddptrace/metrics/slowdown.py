"""What communication costs the compute that hides it: the same kernels alone and beside it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ddptrace.intervals import IntArray
from ddptrace.kernels import Kind
from ddptrace.metrics.recorded import Recorded

BESIDE = 0.9
"""A kernel ran beside communication when that lasted for this part of its time at least."""
LEAST_PLACES = 3
"""At so many places of a step a kernel must run alone, and at so many beside communication."""
MOST_SPREAD_ALONE = 0.1
MOST_SPREAD_BESIDE = 0.25
"""Kernels of one name are one kernel when eight in ten differ by no more, against the median."""
LEAST_RATIO, MOST_RATIO = 0.95, 3.0
"""What communication does to a kernel; beyond that the two are not the same kernel."""


@dataclass(frozen=True, slots=True)
class SlowedKernel:
    """The kernels of one name that ran beside communication in a step, against those alone.

    `alone_ns` and `beside_ns` are medians over the recording; `extra_ns` is what the step's
    `calls` took longer than as many alone, below 0 when they were faster.
    """

    name: str
    calls: int
    alone_ns: int
    beside_ns: int
    extra_ns: int


@dataclass(frozen=True, slots=True)
class Slowdown:
    """What communication cost the compute beside it in one step.

    `extra_ns` is over all kernels that can be compared, `ratio` their time ÷ that of as many alone;
    None where there are none. `beside` kernels ran beside communication, `compared` of them could
    be compared. `kernels` are sorted by what they cost.
    """

    step: int | None
    extra_ns: int | None
    ratio: float | None
    beside: int
    compared: int
    kernels: tuple[SlowedKernel, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Compute:
    """The compute kernels of a recording's steps, a row each.

    `sort` numbers those of one name and direction, `place` counts them within a step. Forward and
    backward kernels of one name are kept apart: they are of other sizes, and only backward ones
    run beside gradients.
    """

    name: NDArray[np.int32]
    sort: NDArray[np.intp]
    place: IntArray
    length_ns: IntArray
    owner: NDArray[np.intp]
    beside: NDArray[np.bool_]
    alone: NDArray[np.bool_]


def slowdowns(recorded: Recorded) -> list[Slowdown]:
    """Return for each step of a recording how much longer compute took beside communication.

    Only kernels are compared that ran at enough places alone and at enough beside communication,
    all of about one length: sizes are not recorded, and one name may stand for many of them.
    """
    compute = _compute(recorded)
    sorts = int(compute.sort.max(initial=-1)) + 1
    alone_ns = _steady_medians(compute, compute.alone, sorts, MOST_SPREAD_ALONE)
    beside_ns = _steady_medians(compute, compute.beside, sorts, MOST_SPREAD_BESIDE)
    comparable = (alone_ns > 0) & (beside_ns >= LEAST_RATIO * alone_ns)
    comparable &= beside_ns <= MOST_RATIO * alone_ns
    found = []
    for position, mark in enumerate(recorded.steps.marks):
        mine = np.flatnonzero(compute.beside & (compute.owner == position))
        rows = mine[comparable[compute.sort[mine]]]
        # A single call that took far longer was held up by something else.
        rows = rows[compute.length_ns[rows] <= MOST_RATIO * alone_ns[compute.sort[rows]]]
        kernels = [
            _slowed(recorded, compute, rows[compute.sort[rows] == sort], alone_ns, beside_ns)
            for sort in np.unique(compute.sort[rows])
        ]
        expected_ns = int(alone_ns[compute.sort[rows]].sum())
        found.append(
            Slowdown(
                step=None if mark is None else mark.index,
                extra_ns=sum(kernel.extra_ns for kernel in kernels) if kernels else None,
                ratio=int(compute.length_ns[rows].sum()) / expected_ns if kernels else None,
                beside=mine.size,
                compared=rows.size,
                kernels=tuple(sorted(kernels, key=lambda kernel: -kernel.extra_ns)),
            )
        )
    return found


def _compute(recorded: Recorded) -> _Compute:
    ops, comm = recorded.trace.ops, recorded.busy.comm
    length_ns = ops.end_ns - ops.start_ns
    owner = recorded.steps.owner
    rows = np.flatnonzero((ops.kind == Kind.COMPUTE) & (length_ns > 0) & (owner >= 0))
    beside_ns = comm.length_in(ops.start_ns[rows], ops.end_ns[rows])
    what = ops.name[rows].astype(np.int64) * 2 + ops.in_backward[rows]
    used = np.bincount(what, minlength=1) > 0
    sort = (np.cumsum(used) - 1)[what]
    return _Compute(
        name=ops.name[rows],
        sort=sort,
        place=_places(owner[rows], sort),
        length_ns=length_ns[rows],
        owner=owner[rows],
        beside=beside_ns >= BESIDE * length_ns[rows],
        alone=beside_ns == 0,
    )


def _places(owner: NDArray[np.intp], sort: NDArray[np.intp]) -> IntArray:
    """Return how many of its sort ran before each kernel in its step."""
    order = np.argsort(owner * (int(sort.max(initial=0)) + 1) + sort, kind="stable")
    new = np.ones(order.size, np.bool_)
    new[1:] = (np.diff(owner[order]) != 0) | (np.diff(sort[order]) != 0)
    at = np.arange(order.size)
    places = np.empty(order.size, np.int64)
    places[order] = at - np.maximum.accumulate(np.where(new, at, 0))
    return places


def _steady_medians(
    compute: _Compute, rows: NDArray[np.bool_], sorts: int, most_spread: float
) -> IntArray:
    """Return the median length of each sort of kernel in some rows; 0 for few or uneven ones."""
    order = np.lexsort((compute.length_ns[rows], compute.sort[rows]))
    length_ns = compute.length_ns[rows][order]
    calls = np.bincount(compute.sort[rows], minlength=sorts)
    first = np.cumsum(calls) - calls
    places = compute.place.max(initial=0) + 1
    used = np.unique(compute.sort[rows] * places + compute.place[rows]) // places
    known = np.flatnonzero(np.bincount(used, minlength=sorts) >= LEAST_PLACES)
    low, middle, high = (
        length_ns[first[known] + (tenths * (calls[known] - 1)) // 10] for tenths in (1, 5, 9)
    )
    medians = np.zeros(sorts, np.int64)
    medians[known] = np.where(high - low <= most_spread * middle, middle, 0)
    return medians


def _slowed(
    recorded: Recorded,
    compute: _Compute,
    rows: NDArray[np.intp],
    alone_ns: IntArray,
    beside_ns: IntArray,
) -> SlowedKernel:
    sort = compute.sort[rows[0]]
    return SlowedKernel(
        name=recorded.trace.names[compute.name[rows[0]]],
        calls=rows.size,
        alone_ns=int(alone_ns[sort]),
        beside_ns=int(beside_ns[sort]),
        extra_ns=int((compute.length_ns[rows] - alone_ns[sort]).sum()),
    )
