"""Sets of time on one clock: union, intersection, difference and length, vectorised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

IntArray: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """Instants as half-open [start, end) runs: int64 ns, disjoint, rising, not touching."""

    start: IntArray
    end: IntArray

    @classmethod
    def empty(cls) -> Intervals:
        """Return the set without an instant."""
        nothing = np.empty(0, np.int64)
        return cls(nothing, nothing)

    @classmethod
    def union_of(cls, start: IntArray, end: IntArray, nearest_ns: int = 1) -> Intervals:
        """Return the union of any half-open intervals; those without a length add nothing.

        Runs that are nearer to each other than `nearest_ns` become one, with the time between them.
        """
        real = end > start
        if not real.all():
            start, end = start[real], end[real]
        if start.size == 0:
            return cls.empty()
        if np.any(start[1:] < start[:-1]):
            order = np.argsort(start, kind="stable")
            start, end = start[order], end[order]
        reach = np.maximum.accumulate(end)
        first = np.ones(start.size, np.bool_)
        np.greater_equal(start[1:], reach[:-1] + nearest_ns, out=first[1:])
        last = np.append(first[1:], True)
        return cls(start[first], reach[last])

    @property
    def total_ns(self) -> int:
        """The length of the whole set."""
        return int((self.end - self.start).sum())

    def __len__(self) -> int:
        return int(self.start.size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Intervals):
            return NotImplemented
        return np.array_equal(self.start, other.start) and np.array_equal(self.end, other.end)

    def __or__(self, other: Intervals) -> Intervals:
        if not len(self) or not len(other):
            return self if len(self) else other
        return Intervals.union_of(
            np.concatenate((self.start, other.start)), np.concatenate((self.end, other.end))
        )

    def __and__(self, other: Intervals) -> Intervals:
        """Return the instants of both: each run of one is cut by the runs of the other it meets."""
        if len(other) < len(self):
            return other & self  # few searches among many, not many among few
        first = np.searchsorted(other.end, self.start, side="right")
        after = np.searchsorted(other.start, self.end, side="left")
        meetings = after - first
        mine = np.repeat(np.arange(self.start.size), meetings)
        nth = np.arange(mine.size) - np.repeat(np.cumsum(meetings) - meetings, meetings)
        theirs = first[mine] + nth
        return Intervals(
            np.maximum(self.start[mine], other.start[theirs]),
            np.minimum(self.end[mine], other.end[theirs]),
        )

    def __sub__(self, other: Intervals) -> Intervals:
        if not len(self) or not len(other):
            return self
        if len(self) < len(other):
            other = self & other  # the rest of it does not matter, and is much
        return self & other.gaps(int(self.start[0]), int(self.end[-1]))

    def gaps(self, start_ns: int, end_ns: int) -> Intervals:
        """Return the instants of [start_ns, end_ns) that are not in the set."""
        inner = self.clip(start_ns, end_ns)
        start = np.concatenate((np.array([start_ns], np.int64), inner.end))
        end = np.concatenate((inner.start, np.array([end_ns], np.int64)))
        # Runs do not touch, so that only the first and the last of the gaps may be of no length.
        first = int(end[0] <= start[0])
        last = start.size - int(start.size > first and end[-1] <= start[-1])
        return Intervals(start[first:last], end[first:last])

    def clip(self, start_ns: int, end_ns: int) -> Intervals:
        """Return the part of the set inside [start_ns, end_ns)."""
        if end_ns <= start_ns:
            return Intervals.empty()
        first = np.searchsorted(self.end, start_ns, side="right")
        after = np.searchsorted(self.start, end_ns, side="left")
        start, end = self.start[first:after].copy(), self.end[first:after].copy()
        start[:1] = np.maximum(start[:1], start_ns)
        end[-1:] = np.minimum(end[-1:], end_ns)
        return Intervals(start, end)

    def length_before(self, instants: IntArray) -> IntArray:
        """Return, for each instant, the length in ns of the part of the set that lies before it."""
        return self._lengths_before(instants)[0]

    def length_in(self, start: IntArray, end: IntArray) -> IntArray:
        """Return, for each window [start, end), the length in ns of the set inside it."""
        if not start.size or not len(self):
            return np.zeros(start.size, np.int64)
        first = np.searchsorted(self.end, start.min(), side="right")
        after = np.searchsorted(self.start, end.max())
        near = Intervals(self.start[first:after], self.end[first:after])
        before_start, before_end = near._lengths_before(start, end)
        return before_end - before_start

    def _lengths_before(self, *instants: IntArray) -> list[IntArray]:
        whole = np.zeros(len(self) + 1, np.int64)
        np.cumsum(self.end - self.start, out=whole[1:])
        lengths = []
        for each in instants:
            index = np.searchsorted(self.start, each, side="right")
            before = whole[index]
            if len(self):
                index -= 1
                # What of the last run that has begun lies behind the instant.
                behind = np.maximum(self.end[index] - each, 0)
                behind[index < 0] = 0
                before -= behind
            lengths.append(before)
        return lengths
