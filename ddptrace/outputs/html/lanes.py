"""What a timeline draws of one rank in one step: rows of times, lane by lane."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from ddptrace.intervals import IntArray, Intervals
from ddptrace.metrics.collective_rows import Collective
from ddptrace.metrics.timeline import NAMED, PAIRS, RankTimeline, intervals, times_of
from ddptrace.metrics.to_draw import Times

IDLE = ("idle_input", "idle_sync", "idle_launch", "idle_unknown")
HOST = ("data_loader", "forward", "backward", "optimizer", "sync_calls")
Waited: TypeAlias = tuple[int, int, int]
"""When a collective started and ended on a rank, and for how long it waited, from its start on."""

LANES = ("kernels", "hidden", "transfer", "wait", "unclear", "copies", *IDLE, *HOST)
"""The lanes as the page names them: of communication what it was for the step."""


_FINEST = 20_000  # a gap shorter than this part of the window is never seen without zooming


@dataclass(frozen=True, slots=True, eq=False)
class Lane:
    """Times of one kind in order of their starts; each row stands for `count` of them.

    `busy_ns` is how long those were, together; `name` is a place among the names, -1 for none: the
    name of the longest where a row stands for several.
    """

    start_ns: IntArray
    end_ns: IntArray
    name: IntArray
    count: IntArray
    busy_ns: IntArray

    @classmethod
    def of(cls, times: Times) -> Lane:
        """Return a lane with a row for each of some times."""
        ones = np.ones(len(times), np.int64)
        return cls(times.start_ns, times.end_ns, times.name, ones, times.end_ns - times.start_ns)

    @classmethod
    def of_set(cls, times: Intervals) -> Lane:
        """Return a lane with a row for each interval of a set of time."""
        return cls.of(Times(times.start, times.end, np.full(len(times), -1, np.int64)))

    def __len__(self) -> int:
        return int(self.start_ns.size)

    @property
    def gaps_ns(self) -> IntArray:
        """The time from the end of all before each row but the first to its start."""
        gaps: IntArray = self.start_ns[1:] - np.maximum.accumulate(self.end_ns)[:-1]
        return gaps

    def merged(self, gap_ns: int) -> Lane:
        """Return the lane with all gaps shorter than `gap_ns` closed."""
        if len(self) < 2:
            return self
        apart = self.gaps_ns >= gap_ns
        first = np.flatnonzero(np.concatenate(([True], apart)))
        group = np.cumsum(np.concatenate(([0], apart)))
        order = np.lexsort((self.end_ns - self.start_ns, group))
        longest = order[np.append(first[1:], len(self)) - 1]
        return Lane(
            self.start_ns[first],
            np.maximum.reduceat(self.end_ns, first),
            self.name[longest],
            np.add.reduceat(self.count, first),
            np.add.reduceat(self.busy_ns, first),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """What is drawn of one recording: its busy times and names, and its exposed communication."""

    timeline: RankTimeline
    sets: Mapping[str, Intervals]
    named: Mapping[str, Times]

    @classmethod
    def of(cls, timeline: RankTimeline, waits: Sequence[Waited] = ()) -> Recorded:
        """Return a recording; `waits` of its rank tell which communication was waiting."""
        sets = {name: intervals(getattr(timeline, name)) for name in PAIRS}
        named = {name: times_of(getattr(timeline, name)) for name in NAMED}
        split = _exposed(sets["exposed_comm"], waits)
        return cls(timeline, sets | {"hidden": sets["hidden_comm"]} | split, named)

    def lanes(self, start_ns: int, end_ns: int, *, idle_known: bool) -> dict[str, Lane]:
        """Return what ran in a window; nothing is said of idle time that is not known."""
        found = {}
        for name in LANES:
            if name in IDLE and not idle_known:
                continue
            if name in self.named and (name != "kernels" or len(self.named["kernels"])):
                lane = Lane.of(self.named[name].clip(start_ns, end_ns))
            elif name == "kernels":  # of a report that was saved before it told of them
                lane = Lane.of_set(self.sets["compute"].clip(start_ns, end_ns))
            else:
                lane = Lane.of_set(self.sets[name].clip(start_ns, end_ns))
            if len(lane):
                found[name] = lane
        return found | self._old_copies(found, start_ns, end_ns)

    def _old_copies(self, found: Mapping[str, Lane], start_ns: int, end_ns: int) -> dict[str, Lane]:
        inside = self.sets["mem"].clip(start_ns, end_ns)
        return {"copies": Lane.of_set(inside)} if "copies" not in found and len(inside) else {}


def waits_of(collectives: Iterable[Collective]) -> dict[int, list[Waited]]:
    """Return for each rank when its collectives ran, as far as their waiting is known."""
    found: dict[int, list[Waited]] = {}
    for one in collectives:
        for each in one.ranks:
            if each.wait_ns is not None:
                mine = found.setdefault(each.rank, [])
                mine.append((each.start_ns, each.end_ns, each.wait_ns))
    return found


def _exposed(times: Intervals, waits: Sequence[Waited]) -> dict[str, Intervals]:
    """Divide exposed communication as `metrics.exposure` does: what is not known stays unclear."""
    start_ns, end_ns, wait_ns = np.array(waits, np.int64).reshape(-1, 3).T
    transfer = times & Intervals.union_of(start_ns + wait_ns, end_ns)
    known = Intervals.union_of(start_ns, end_ns)
    unclear = (times - known) - transfer
    return {"transfer": transfer, "unclear": unclear, "wait": times - transfer - unclear}


def fewer(lanes: Mapping[str, Lane], most: int, window_ns: int) -> dict[str, Lane]:
    """Return lanes of about `most` rows: gaps are closed, the shortest ones first."""
    if rows_of([lanes]) <= max(most, len(lanes)):
        return dict(lanes)
    gaps_ns = np.concatenate([lane.gaps_ns for lane in lanes.values()])
    kept = max(most - len(lanes), 0)  # of gaps: each leaves a row more than the lane's first
    at = max(gaps_ns.size - kept - 1, 0)
    longest_closed_ns = int(np.partition(gaps_ns, at)[at]) if gaps_ns.size else 0
    gap_ns = max(longest_closed_ns + 1, window_ns // _FINEST)
    return {name: lane.merged(gap_ns) for name, lane in lanes.items()}


def renamed(lanes: Mapping[str, Lane], places: IntArray) -> dict[str, Lane]:
    """Return lanes whose names are `places` of the former ones."""
    known = np.append(places, -1)
    return {name: replace(lane, name=known[lane.name]) for name, lane in lanes.items()}


def rows_of(lanes: Sequence[Mapping[str, Lane]]) -> int:
    """Return how many rows some lanes have."""
    return sum(len(lane) for one in lanes for lane in one.values())
