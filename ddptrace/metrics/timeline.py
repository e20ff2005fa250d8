"""The intervals of a run to draw: when each rank computed and communicated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, overload

import numpy as np

from ddptrace.intervals import Intervals
from ddptrace.metrics.recorded import Recorded
from ddptrace.metrics.timebase import Timebase

Pair: TypeAlias = tuple[int, int]


class Spans(Sequence[Pair]):
    """Intervals as a sequence of [start_ns, end_ns) pairs, each made when it is asked for.

    As pairs of Python's own numbers the millions of a long recording would take eight times the
    memory. `moved` gives the intervals on the clock of the report; it is not asked before they are.
    """

    __slots__ = ("_moved", "_times")

    def __init__(
        self, times: Intervals, moved: Callable[[Intervals], Intervals] | None = None
    ) -> None:
        self._times = times
        self._moved = moved

    @property
    def intervals(self) -> Intervals:
        """The pairs as a set of time."""
        if self._moved is not None:
            self._times, self._moved = self._moved(self._times), None
        return self._times

    def __len__(self) -> int:
        return len(self._times)

    @overload
    def __getitem__(self, place: int) -> Pair: ...
    @overload
    def __getitem__(self, place: slice) -> list[Pair]: ...
    def __getitem__(self, place: int | slice) -> Pair | list[Pair]:
        start, end = self.intervals.start[place].tolist(), self.intervals.end[place].tolist()
        return list(zip(start, end, strict=True)) if isinstance(place, slice) else (start, end)

    def __iter__(self) -> Iterator[Pair]:
        return iter(self[:])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and self[:] == list(other)

    __hash__ = None  # type: ignore[assignment]  # like that of a list

    def __repr__(self) -> str:
        return f"Spans({self[:]})"


@dataclass(frozen=True, slots=True)
class RankTimeline:
    """One recording's busy times as [start_ns, end_ns) pairs from the run's origin."""

    rank: int
    compute: Sequence[Pair]
    hidden_comm: Sequence[Pair]
    exposed_comm: Sequence[Pair]
    mem: Sequence[Pair]


def rank_timeline(recorded: Recorded, base: Timebase, number: int) -> RankTimeline:
    """Return the intervals of a rank's recording of that number, in times of the report."""
    rank, times = recorded.trace.rank, recorded.busy
    moved = partial(base.moved_set, rank, number)
    compute, hidden, exposed, mem = (
        Spans(one, moved) for one in (times.compute, times.hidden, times.exposed, times.mem)
    )
    return RankTimeline(rank, compute=compute, hidden_comm=hidden, exposed_comm=exposed, mem=mem)


def clipped(recording: RankTimeline, start_ns: int, end_ns: int) -> RankTimeline:
    """Return the part of a recording's intervals inside [start_ns, end_ns)."""
    return RankTimeline(
        rank=recording.rank,
        compute=_inside(recording.compute, start_ns, end_ns),
        hidden_comm=_inside(recording.hidden_comm, start_ns, end_ns),
        exposed_comm=_inside(recording.exposed_comm, start_ns, end_ns),
        mem=_inside(recording.mem, start_ns, end_ns),
    )


def intervals(pairs: Sequence[Pair]) -> Intervals:
    """Return pairs as a set of time."""
    if isinstance(pairs, Spans):
        return pairs.intervals
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return Intervals.union_of(table[:, 0], table[:, 1])


def _inside(pairs: Sequence[Pair], start_ns: int, end_ns: int) -> Spans:
    return Spans(intervals(pairs).clip(start_ns, end_ns))
