"""What waiting for a late rank costs the compute beside it: a collective that waits is a kernel.

It holds processors of the GPU and looks for its peers all the time, so that kernels beside it take
longer. The late rank, for which nobody waited, ran the same kernels without.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ddptrace.diagnosis.steps import Step
from ddptrace.intervals import IntArray, Intervals
from ddptrace.kernels import Kind
from ddptrace.metrics.slowdown import MOST_RATIO


def slowed_by_waiting_ns(one: Step, late: Step) -> int:
    """Return how much longer a step's kernels took beside waiting than the same of the late rank.

    The n-th kernel of a name on one rank is the n-th on the other, where both have as many; one
    that takes more than `MOST_RATIO` times the other does other work. Of a kernel that was beside
    waiting for part of its time that part counts. At least 0.
    """
    if "host" in (one.recorded.trace.device, late.recorded.trace.device):
        return 0
    mine, other = _pairs(one, late)
    start_ns, end_ns, length_ns = _times(one, mine)
    usual_ns = _times(late, other)[2]
    calls = one.calls.take(one.calls.is_matched)
    waiting = Intervals.union_of(calls.start_ns, calls.moving_ns)
    part = waiting.length_in(start_ns, end_ns) / np.maximum(length_ns, 1)
    is_alike = np.maximum(length_ns, usual_ns) <= MOST_RATIO * np.minimum(length_ns, usual_ns)
    return max(round(float(((length_ns - usual_ns) * part)[is_alike].sum())), 0)


def _times(step: Step, rows: NDArray[np.intp]) -> tuple[IntArray, IntArray, IntArray]:
    """Return start, end and length of some operations of a step."""
    ops = step.recorded.trace.ops
    return ops.start_ns[rows], ops.end_ns[rows], ops.end_ns[rows] - ops.start_ns[rows]


def _pairs(one: Step, late: Step) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the kernels of two steps that are the same, as operations of their recordings."""
    names: dict[str, int] = {}
    sides = [_sorted(step, names) for step in (one, late)]
    counts = [np.bincount(name, minlength=len(names)) for _, name in sides]
    alike = counts[0] == counts[1]
    mine, other = (rows[alike[name]] for rows, name in sides)
    return mine, other


def _sorted(step: Step, names: dict[str, int]) -> tuple[NDArray[np.intp], IntArray]:
    """Return a step's kernels by name, each name's as they started; and the numbers of the names.

    `names` numbers them alike for several recordings.
    """
    ops, told = step.recorded.trace.ops, step.recorded.trace.names
    rows = step.own[ops.kind[step.own] == Kind.COMPUTE].astype(np.intp)
    codes, place = np.unique(ops.name[rows], return_inverse=True)
    known = [told[code] if code >= 0 else "" for code in codes.tolist()]
    number = np.array([names.setdefault(name, len(names)) for name in known], np.int64)
    number = number[place.reshape(-1)]
    order = np.lexsort((ops.start_ns[rows], number))
    return rows[order], number[order]
