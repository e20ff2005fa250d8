"""The kernels that compute spends its time in: what is left to look at when nothing else costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ddptrace.kernels import Kind
from ddptrace.metrics.recorded import Recorded


@dataclass(frozen=True, slots=True)
class Hotspot:
    """The compute kernels of one name in a step; `share_ratio` is their part of all their time."""

    name: str
    calls: int
    total_ns: int
    share_ratio: float


def hotspots(recorded: Recorded, position: int, most: int = 5) -> list[Hotspot]:
    """Return the compute kernels of the step at one position that took longest, the longest first.

    Times are sums over the kernels that belong to the step, whether or not they overlap.
    """
    ops = recorded.trace.ops
    mine = (recorded.steps.owner == position) & (ops.kind == Kind.COMPUTE)
    names, place, calls = np.unique(ops.name[mine], return_inverse=True, return_counts=True)
    total_ns = np.zeros(names.size, np.int64)
    np.add.at(total_ns, place.reshape(-1), (ops.end_ns - ops.start_ns)[mine])
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
