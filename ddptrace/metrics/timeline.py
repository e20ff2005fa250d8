"""The intervals of a run to draw: when each rank computed and communicated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ddptrace.intervals import Intervals
from ddptrace.metrics.steps import busy
from ddptrace.model import Trace

Pairs: TypeAlias = list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class RankTimeline:
    """One recording's busy times as [start_ns, end_ns) pairs from the run's origin."""

    rank: int
    compute: Pairs
    hidden_comm: Pairs
    exposed_comm: Pairs
    mem: Pairs


def rank_timeline(trace: Trace, origin_ns: int) -> RankTimeline:
    """Return the intervals of one recording, counted from `origin_ns` of its clock."""
    times = busy(trace)
    return RankTimeline(
        rank=trace.rank,
        compute=_pairs(times.compute, origin_ns),
        hidden_comm=_pairs(times.hidden, origin_ns),
        exposed_comm=_pairs(times.exposed, origin_ns),
        mem=_pairs(times.mem, origin_ns),
    )


def clipped(recording: RankTimeline, start_ns: int, end_ns: int) -> RankTimeline:
    """Return the part of a recording's intervals inside [start_ns, end_ns)."""
    return RankTimeline(
        rank=recording.rank,
        compute=_inside(recording.compute, start_ns, end_ns),
        hidden_comm=_inside(recording.hidden_comm, start_ns, end_ns),
        exposed_comm=_inside(recording.exposed_comm, start_ns, end_ns),
        mem=_inside(recording.mem, start_ns, end_ns),
    )


def _inside(pairs: Pairs, start_ns: int, end_ns: int) -> Pairs:
    cut = ((max(start, start_ns), min(end, end_ns)) for start, end in pairs)
    return [(start, end) for start, end in cut if end > start]


def _pairs(times: Intervals, origin_ns: int) -> Pairs:
    start, end = (times.start - origin_ns).tolist(), (times.end - origin_ns).tolist()
    return list(zip(start, end, strict=True))
