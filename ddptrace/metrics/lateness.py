"""What a rank did until it arrived at a collective, to compare with what the others did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddptrace.intervals import IntArray
from ddptrace.metrics.collectives import Collected
from ddptrace.metrics.comm_table import NONE
from ddptrace.metrics.recorded import Recorded
from ddptrace.model import NEVER_NS

Cause: TypeAlias = Literal["compute", "input", "host"]

HIDDEN_NS = 50_000
EXPLAINS = 0.5
"""A cause explains a delay when it makes up this part of it at least."""


@dataclass(frozen=True, slots=True, eq=False)
class Ways:
    """The ways of all ranks to some collectives: a row each, a column a rank; ns, 0 for no part.

    A way begins where the ranks were together before: at the end of the last collective of a step
    before, else of the collective before if nobody computed beside it; else, where nothing tells a
    common moment, at the start of the step's window. `idle_ns` is the time without any GPU work,
    `quiet_ns` that from the start of the step's mark to its first launch.
    """

    compute_ns: IntArray
    idle_ns: IntArray
    quiet_ns: IntArray


@dataclass(frozen=True, slots=True)
class Excess:
    """How much longer than the median of the others a rank took, in ns, until it arrived."""

    compute_ns: int
    idle_ns: int
    quiet_ns: int


def excess(ways: Ways, at: int, column: int, others: Sequence[int]) -> Excess:
    """Return the excess of one rank over some others on their way to one collective."""
    more = (
        int(values[at, column] - np.median(values[at, others]))
        for values in (ways.compute_ns, ways.idle_ns, ways.quiet_ns)
    )
    return Excess(*more)


def cause_of(late_ns: int, more: Excess) -> Cause | None:
    """Return what explains a delay; None when nothing does.

    It is compute when the GPU computed longer; else, when the GPU idled longer, it is the input if
    the host launched nothing at the start of the step for that long, and the host otherwise.
    """
    enough_ns = EXPLAINS * late_ns
    if more.compute_ns >= max(enough_ns, more.idle_ns):
        return "compute"
    if more.idle_ns < enough_ns:
        return None
    return "input" if more.quiet_ns >= enough_ns else "host"


def ways(collected: Collected, rows: NDArray[np.intp]) -> Ways:
    """Return the ways of the ranks to the collectives in some rows of the matching."""
    shape = (rows.size, len(collected.matching.ranks))
    compute_ns, idle_ns, quiet_ns = (np.zeros(shape, np.int64) for _ in range(3))
    anchor = anchors(collected)[rows]
    for column, rank in enumerate(collected.matching.ranks):
        table = collected.tables[rank]
        if not len(table):
            continue
        row = collected.matching.row[rows, column]
        before = np.where(anchor == NONE, NONE, collected.matching.row[anchor, column])
        for number, recorded in enumerate(collected.recordings[rank]):
            mine = (row != NONE) & (table.recording[row] == number)
            if not mine.any():
                continue
            end_ns = table.start_ns[row[mine]]
            step = _positions(recorded, collected.step[rows[mine]])
            start_ns = recorded.steps.start_ns[step]
            known = (before[mine] != NONE) & (table.recording[before[mine]] == number)
            start_ns = np.where(known, table.end_ns[before[mine]], start_ns)
            start_ns = np.minimum(start_ns, end_ns)
            busy = recorded.busy
            working = busy.compute | busy.comm | busy.mem
            compute_ns[mine, column] = busy.compute.length_in(start_ns, end_ns)
            idle_ns[mine, column] = end_ns - start_ns - working.length_in(start_ns, end_ns)
            quiet_ns[mine, column] = _quiet_ns(recorded)[step]
    return Ways(compute_ns, idle_ns, quiet_ns)


def anchors(collected: Collected) -> NDArray[np.intp]:
    """Return for each collective the one that its way begins with; -1 for none.

    It is the last one of the step before. Without that it is the one before, unless a rank computed
    beside that: those that wait compute ahead, and then have less to do than the late one.
    """
    found = collected.matching
    anchors = np.full(len(found), NONE, np.intp)
    for number in range(len(found.lists)):
        rows = np.flatnonzero((found.members == number) & found.is_matched)
        if not rows.size:
            continue
        step = collected.step[rows]
        is_first = np.concatenate(([True], step[1:] != step[:-1]))
        first = np.maximum.accumulate(np.where(is_first, np.arange(rows.size), 0))
        anchors[rows] = np.where(first > 0, rows[np.maximum(first - 1, 0)], NONE)
        idle = collected.hidden_ns[rows].max(axis=1) <= HIDDEN_NS
        near = np.flatnonzero((first == 0)[1:] & idle[:-1]) + 1
        anchors[rows[near]] = rows[near - 1]
    return anchors


def _positions(recorded: Recorded, step: IntArray) -> NDArray[np.intp]:
    """Return the position of the window of each step; the first one where it has no window."""
    known = {
        NONE if mark is None else mark.index: at for at, mark in enumerate(recorded.steps.marks)
    }
    return np.array([known.get(number, 0) for number in step.tolist()], np.intp)


def _quiet_ns(recorded: Recorded) -> IntArray:
    """Return for each window how long after the start of its mark the first launch came."""
    steps, launch_ns = recorded.steps, recorded.trace.ops.launch_ns
    latest = np.iinfo(np.int64).max
    first = np.full(len(steps.marks), latest)
    own = (steps.owner >= 0) & (launch_ns != NEVER_NS)
    np.minimum.at(first, steps.owner[own], launch_ns[own])
    start = np.array([NEVER_NS if mark is None else mark.start_ns for mark in steps.marks])
    return np.where((first == latest) | (start == NEVER_NS), 0, first - start)
