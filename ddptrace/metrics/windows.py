"""The window of each step on the GPU's clock, and which operations belong to it.

The definitions are those of docs/metrics.md, "One rank, one step".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddptrace.manifest import Mark
from ddptrace.metrics.by_code import rows_by_code
from ddptrace.model import NEVER_NS, Ops, Trace

IntArray: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """The steps of one recording that have operations: disjoint windows that leave no gap.

    `marks` holds None for the one window of a recording without step marks; `owner` holds for
    each operation the position of the step it belongs to, -1 for none. `by_owner` are the
    operations in the order of their steps, which begin at `borders`.
    """

    marks: tuple[Mark | None, ...]
    start_ns: IntArray
    end_ns: IntArray
    owner: NDArray[np.intp]
    by_owner: NDArray[np.int32]
    borders: NDArray[np.intp]

    def own(self, position: int) -> NDArray[np.int32]:
        """Return the operations that belong to one step, in order of their starts."""
        return self.by_owner[self.borders[position] : self.borders[position + 1]]


def _windows(
    marks: tuple[Mark | None, ...], start_ns: IntArray, end_ns: IntArray, owner: NDArray[np.intp]
) -> Windows:
    counts = np.bincount(owner + 1, minlength=len(marks) + 1)  # first those that no step owns
    by_owner = rows_by_code(owner + 1).astype(np.int32)
    borders = np.cumsum(counts)
    return Windows(marks, start_ns, end_ns, owner, by_owner, borders)


def windows(trace: Trace) -> Windows:
    """Return the windows of a recording's steps; without marks one window over everything."""
    if not trace.marks:
        return _windows(
            marks=(None,),
            start_ns=np.array([trace.start_ns]),
            end_ns=np.array([trace.end_ns]),
            owner=np.zeros(len(trace.ops), np.intp),
        )
    return _host_windows(trace) if trace.device == "host" else _gpu_windows(trace)


def _owners(marks: tuple[Mark, ...], moment_ns: IntArray) -> NDArray[np.intp]:
    """Return for each moment the last mark whose half-open range holds it; -1 for none."""
    start = np.array([mark.start_ns for mark in marks])
    end = np.array([mark.end_ns for mark in marks])
    index = np.searchsorted(start, moment_ns, side="right") - 1
    return np.where((index >= 0) & (moment_ns < end[np.maximum(index, 0)]), index, -1)


def _gpu_windows(trace: Trace) -> Windows:
    ops, marks = trace.ops, trace.marks
    owner = _owners(marks, ops.launch_ns)
    if not (owner >= 0).any():
        return _windows((), np.empty(0, np.int64), np.empty(0, np.int64), owner)
    is_used = np.bincount(owner + 1, minlength=len(marks) + 1)[1:] > 0
    used = np.flatnonzero(is_used)
    owner = np.append(np.where(is_used, np.cumsum(is_used) - 1, -1), -1)[owner]
    last = np.full(used.size + 1, NEVER_NS)
    np.maximum.at(last, owner, ops.end_ns)  # the last place is for what no step owns
    end = np.maximum.accumulate(last[:-1])
    first = _first_start(ops, marks[int(used[0])], int(ops.start_ns[owner == 0].min()))
    return _windows(
        marks=tuple(marks[int(index)] for index in used),
        start_ns=np.concatenate((np.array([min(first, int(end[0]))]), end[:-1])),
        end_ns=end,
        owner=owner,
    )


def _first_start(ops: Ops, mark: Mark, first_own_ns: int) -> int:
    """Return where the first window begins: at its mark, or where earlier work ended, if later."""
    unknown = ops.launch_ns == NEVER_NS
    earlier = np.where(unknown, ops.start_ns < first_own_ns, ops.launch_ns < mark.start_ns)
    return max(mark.start_ns, int(ops.end_ns[earlier].max(initial=mark.start_ns)))


def _host_windows(trace: Trace) -> Windows:
    """Return the windows of a CPU run: from mark to mark, the last one to its mark's own end."""
    start = np.array([mark.start_ns for mark in trace.marks])
    end = np.append(start[1:], trace.marks[-1].end_ns)
    index = np.searchsorted(start, trace.ops.start_ns, side="right") - 1
    inside = (index >= 0) & (trace.ops.start_ns < end[np.maximum(index, 0)])
    return _windows(
        marks=trace.marks,
        start_ns=start,
        end_ns=end,
        owner=np.where(inside, index, -1),
    )
