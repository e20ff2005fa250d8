"""The kernels and copies that a step spends its time in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ddptrace.intervals import IntArray
from ddptrace.kernels import Kind
from ddptrace.metrics.recorded import Recorded
from ddptrace.model import Ops


@dataclass(frozen=True, slots=True)
class Hotspot:
    """The compute kernels of one name in a step; `share_ratio` is their part of all their time."""

    name: str
    calls: int
    total_ns: int
    share_ratio: float


@dataclass(frozen=True, slots=True)
class Copies:
    """The copies and sets of one name in a step; `exposed_ns` is without compute and comm."""

    name: str
    calls: int
    total_ns: int
    exposed_ns: int


def hotspots(recorded: Recorded, position: int, most: int = 5) -> list[Hotspot]:
    """Return the compute kernels of the step at one position that took longest, the longest first.

    Times are sums over the kernels that belong to the step, whether or not they overlap.
    """
    mine = _own(recorded, position, Kind.COMPUTE)
    names, calls, (total_ns,) = _by_name(mine, mine.end_ns - mine.start_ns)
    whole_ns = int(total_ns.sum())
    return [
        Hotspot(
            name=recorded.trace.names[names[row]],
            calls=int(calls[row]),
            total_ns=int(total_ns[row]),
            share_ratio=int(total_ns[row]) / whole_ns,
        )
        for row in np.argsort(-total_ns, kind="stable")[:most]
        if total_ns[row]
    ]


def copies(recorded: Recorded, position: int, most: int = 5) -> list[Copies]:
    """Return the copies of the step at one position that were exposed longest, the longest first.

    Times are sums over the copies that belong to the step, whether or not they overlap.
    """
    mine = _own(recorded, position, Kind.MEM)
    work = recorded.busy.compute | recorded.busy.comm
    length_ns = mine.end_ns - mine.start_ns
    exposed = length_ns - work.length_in(mine.start_ns, mine.end_ns)
    names, calls, (total_ns, exposed_ns) = _by_name(mine, length_ns, exposed)
    return [
        Copies(
            name=recorded.trace.names[names[row]],
            calls=int(calls[row]),
            total_ns=int(total_ns[row]),
            exposed_ns=int(exposed_ns[row]),
        )
        for row in np.argsort(-exposed_ns, kind="stable")[:most]
        if exposed_ns[row]
    ]


def _own(recorded: Recorded, position: int, kind: Kind) -> Ops:
    ops = recorded.trace.ops
    return ops.take((recorded.steps.owner == position) & (ops.kind == kind))


def _by_name(
    ops: Ops, *values: IntArray
) -> tuple[NDArray[np.int32], NDArray[np.intp], list[IntArray]]:
    """Return the names of some operations, how many have each, and the sums of their values."""
    names, place, calls = np.unique(ops.name, return_inverse=True, return_counts=True)
    sums = [np.zeros(names.size, np.int64) for _ in values]
    for total, each in zip(sums, values, strict=True):
        np.add.at(total, place.reshape(-1), each)
    return names, calls, sums
