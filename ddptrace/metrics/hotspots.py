"""The kernels and copies that a step spends its time in."""

from __future__ import annotations

from dataclasses import dataclass

from ddptrace.kernels import Kind
from ddptrace.metrics.by_code import sums_by_code
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
    lengths = sums_by_code(mine.name, mine.end_ns - mine.start_ns)
    whole_ns = sum(total_ns for _, _, total_ns in lengths)
    found = [
        Hotspot(recorded.trace.name_of(name), calls, total_ns, total_ns / whole_ns)
        for name, calls, total_ns in lengths
        if total_ns
    ]
    return sorted(found, key=lambda one: -one.total_ns)[:most]


def copies(recorded: Recorded, position: int, most: int = 5) -> list[Copies]:
    """Return the copies of the step at one position that were exposed longest, the longest first.

    Times are sums over the copies that belong to the step, whether or not they overlap.
    """
    mine = _own(recorded, position, Kind.MEM)
    if not len(mine):
        return []
    compute, comm = (
        one.clip(int(mine.start_ns[0]), int(mine.end_ns.max()))
        for one in (recorded.busy.compute, recorded.busy.comm)
    )
    length_ns = mine.end_ns - mine.start_ns
    exposed_ns = length_ns - (compute | comm).length_in(mine.start_ns, mine.end_ns)
    found = [
        Copies(recorded.trace.name_of(name), *figures)
        for name, *figures in sums_by_code(mine.name, length_ns, exposed_ns)
    ]
    exposed = [one for one in found if one.exposed_ns]
    return sorted(exposed, key=lambda one: -one.exposed_ns)[:most]


def _own(recorded: Recorded, position: int, kind: Kind) -> Ops:
    ops, own = recorded.trace.ops, recorded.steps.own(position)
    return ops.take(own[ops.kind[own] == kind])
