"""What communication costs the compute that hides it: the same kernels alone and beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddptrace.intervals import IntArray
from ddptrace.kernels import Kind
from ddptrace.metrics.by_code import rows_by_code, sums_by_code
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
    """Compute kernels of a recording's steps, a row each, by the position of their step.

    `sort` is the same for those of one name and direction, `place` counts them within a step.
    Forward and backward kernels of one name are kept apart: they are of other sizes, and only
    backward ones run beside gradients.
    """

    step: NDArray[np.int32]
    sort: NDArray[np.int32]
    place: NDArray[np.int32]
    length_ns: IntArray
    beside: NDArray[np.bool_]
    alone: NDArray[np.bool_]

    def take(self, rows: NDArray[Any] | slice) -> _Compute:
        """Return the rows that a mask, an index array or a slice selects."""
        return _Compute(*(getattr(self, column.name)[rows] for column in fields(self)))


def slowdowns(recorded: Recorded) -> list[Slowdown]:
    """Return for each step of a recording how much longer compute took beside communication.

    Only kernels are compared that ran at enough places alone and at enough beside communication,
    all of about one length: sizes are not recorded, and one name may stand for many of them.
    """
    steps = range(len(recorded.steps.marks))
    compute = _joined([_of_step(recorded, position) for position in steps])
    beside = compute.take(compute.beside)
    beside_ns = _steady_medians(beside, 2 * len(recorded.trace.names), MOST_SPREAD_BESIDE)
    # Most kernels run alone: only those count that have something to be compared with.
    alone = compute.take(compute.alone & (beside_ns > 0)[compute.sort])
    alone_ns = _steady_medians(alone, beside_ns.size, MOST_SPREAD_ALONE)
    comparable = (alone_ns > 0) & (beside_ns >= LEAST_RATIO * alone_ns)
    comparable &= beside_ns <= MOST_RATIO * alone_ns
    borders = np.searchsorted(beside.step, np.arange(len(steps) + 1))
    found = []
    for mark, first, end in zip(recorded.steps.marks, borders, borders[1:], strict=False):
        mine = beside.take(slice(first, end))
        rows = mine.take(comparable[mine.sort])
        # A single call that took far longer was held up by something else.
        rows = rows.take(rows.length_ns <= MOST_RATIO * alone_ns[rows.sort])
        expected_ns = alone_ns[rows.sort]
        kernels = [
            SlowedKernel(
                name=recorded.trace.names[sort // 2],
                calls=calls,
                alone_ns=int(alone_ns[sort]),
                beside_ns=int(beside_ns[sort]),
                extra_ns=extra_ns,
            )
            for sort, calls, extra_ns in sums_by_code(rows.sort, rows.length_ns - expected_ns)
        ]
        found.append(
            Slowdown(
                step=None if mark is None else mark.index,
                extra_ns=sum(kernel.extra_ns for kernel in kernels) if kernels else None,
                ratio=int(rows.length_ns.sum()) / int(expected_ns.sum()) if kernels else None,
                beside=mine.step.size,
                compared=rows.step.size,
                kernels=tuple(sorted(kernels, key=lambda kernel: -kernel.extra_ns)),
            )
        )
    return found


def _of_step(recorded: Recorded, position: int) -> _Compute:
    ops, own = recorded.trace.ops, recorded.steps.own(position)
    start_ns, end_ns = ops.start_ns[own], ops.end_ns[own]
    mine = (ops.kind[own] == Kind.COMPUTE) & (end_ns > start_ns)
    mine &= ops.name[own] >= 0  # without a name nothing tells which kernels are the same
    rows, start_ns, end_ns = own[mine], start_ns[mine], end_ns[mine]
    length_ns = end_ns - start_ns
    beside_ns = recorded.busy.comm.length_in(start_ns, end_ns)
    sort = ops.name[rows] * np.int32(2) + ops.in_backward[rows]
    return _Compute(
        step=np.full(rows.size, position, np.int32),
        sort=sort,
        place=_places(sort),
        length_ns=length_ns,
        beside=beside_ns >= BESIDE * length_ns,
        alone=beside_ns == 0,
    )


def _joined(pieces: Sequence[_Compute]) -> _Compute:
    columns = ([getattr(piece, column.name) for piece in pieces] for column in fields(_Compute))
    return _Compute(*(np.concatenate(column) for column in columns))


def _places(sort: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return how many of its sort ran before each kernel of a step."""
    order = rows_by_code(sort)
    new = np.ones(order.size, np.bool_)
    new[1:] = np.diff(sort[order]) != 0
    at = np.arange(order.size, dtype=np.int32)
    places = np.empty(order.size, np.int32)
    places[order] = at - np.maximum.accumulate(np.where(new, at, 0))
    return places


def _steady_medians(compute: _Compute, sorts: int, most_spread: float) -> IntArray:
    """Return the median length of each sort of kernel; 0 where they are few or uneven."""
    order = rows_by_code(compute.sort)
    calls = np.bincount(compute.sort, minlength=sorts)
    end = np.cumsum(calls)
    medians = np.zeros(sorts, np.int64)
    for sort in np.flatnonzero(calls >= LEAST_PLACES).tolist():
        rows = order[end[sort] - calls[sort] : end[sort]]
        if np.count_nonzero(np.bincount(compute.place[rows])) < LEAST_PLACES:
            continue
        length_ns = np.sort(compute.length_ns[rows])
        low, middle, high = (
            int(length_ns[(tenths * (rows.size - 1)) // 10]) for tenths in (1, 5, 9)
        )
        if high - low <= most_spread * middle:
            medians[sort] = middle
    return medians
