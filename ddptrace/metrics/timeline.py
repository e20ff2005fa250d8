"""The intervals of a run to draw: when each rank computed, communicated and idled, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar, overload

import numpy as np

from ddptrace.intervals import IntArray, Intervals
from ddptrace.manifest import Part
from ddptrace.metrics.idle import IdleTimes
from ddptrace.metrics.recorded import Recorded
from ddptrace.metrics.timebase import Timebase
from ddptrace.metrics.to_draw import Times, ToDraw

Pair: TypeAlias = tuple[int, int]
Named: TypeAlias = tuple[int, int, int]
"""[start_ns, end_ns), and the place of what it is called in `RankTimeline.names`; -1 for none."""

_Item = TypeVar("_Item")


class _Lazy(Sequence[_Item], Generic[_Item]):
    """A sequence that takes up memory and time when it is asked for; equal to a list of the same.

    As pairs of Python's own numbers the millions of a long recording would take eight times the
    memory.
    """

    __slots__ = ()

    def _items(self, place: slice) -> list[_Item]:
        raise NotImplementedError

    @overload
    def __getitem__(self, place: int) -> _Item: ...
    @overload
    def __getitem__(self, place: slice) -> list[_Item]: ...
    def __getitem__(self, place: int | slice) -> _Item | list[_Item]:
        if isinstance(place, slice):
            return self._items(place)
        at = range(len(self))[place]
        return self._items(slice(at, at + 1))[0]

    def __iter__(self) -> Iterator[_Item]:
        return iter(self[:])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and self[:] == list(other)

    __hash__ = None  # type: ignore[assignment]  # like that of a list

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self[:]})"


class Spans(_Lazy[Pair]):
    """Intervals as a sequence of [start_ns, end_ns) pairs."""

    __slots__ = ("_made",)

    def __init__(self, times: Intervals | Callable[[], Intervals]) -> None:
        self._made = times

    @property
    def intervals(self) -> Intervals:
        """The same as a set of time."""
        if not isinstance(self._made, Intervals):
            self._made = self._made()
        return self._made

    def __len__(self) -> int:
        return len(self.intervals)

    def _items(self, place: slice) -> list[Pair]:
        times = self.intervals
        return list(zip(times.start[place].tolist(), times.end[place].tolist(), strict=True))


class NamedRows(_Lazy[Named]):
    """Operations or ranges with their names, which may overlap, in order of their starts."""

    __slots__ = ("_made",)

    def __init__(self, times: Times | Callable[[], Times]) -> None:
        self._made = times

    @property
    def times(self) -> Times:
        """The same as columns."""
        if not isinstance(self._made, Times):
            self._made = self._made()
        return self._made

    def __len__(self) -> int:
        return len(self.times)

    def _items(self, place: slice) -> list[Named]:
        times = self.times
        columns = (times.start_ns, times.end_ns, times.name)
        return list(zip(*(column[place].tolist() for column in columns), strict=True))


class Made(_Lazy[_Item]):
    """A list that is made when it is asked for."""

    __slots__ = ("_made",)

    def __init__(self, make: Callable[[], list[_Item]]) -> None:
        self._made: Callable[[], list[_Item]] | list[_Item] = make

    def _all(self) -> list[_Item]:
        if not isinstance(self._made, list):
            self._made = self._made()
        return self._made

    def __len__(self) -> int:
        return len(self._all())

    def _items(self, place: slice) -> list[_Item]:
        return self._all()[place]


@dataclass(frozen=True, slots=True)
class Window:
    """The window of one step on the GPU; `step` is None without step marks."""

    step: int | None
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class RankTimeline:
    """One recording's busy times as [start_ns, end_ns) pairs from the run's origin.

    `kernels` and `copies` are its compute and mem operations one by one, with the place of their
    names in `names`. The `idle_` fields are the gaps by cause. `forward`, `backward`, `optimizer`,
    `data_loader` and `sync_calls` are ranges of the host, empty where it was not recorded.
    """

    rank: int
    compute: Sequence[Pair]
    hidden_comm: Sequence[Pair]
    exposed_comm: Sequence[Pair]
    mem: Sequence[Pair]
    # Last and with defaults, so that reports of before they were added can be read.
    part: Part | None = None
    windows: list[Window] = field(default_factory=list)
    names: Sequence[str] = ()
    kernels: Sequence[Named] = ()
    copies: Sequence[Named] = ()
    idle_input: Sequence[Pair] = ()
    idle_sync: Sequence[Pair] = ()
    idle_launch: Sequence[Pair] = ()
    idle_unknown: Sequence[Pair] = ()
    forward: Sequence[Named] = ()
    backward: Sequence[Named] = ()
    optimizer: Sequence[Named] = ()
    data_loader: Sequence[Named] = ()
    sync_calls: Sequence[Named] = ()


PAIRS = tuple(one.name for one in fields(RankTimeline) if one.type == "Sequence[Pair]")
"""The names of the fields that are sets of time."""
NAMED = tuple(one.name for one in fields(RankTimeline) if one.type == "Sequence[Named]")
"""The names of the fields of operations and ranges with names."""


def rank_timeline(
    recorded: Recorded, base: Timebase, number: int, idle: Callable[[], IdleTimes]
) -> RankTimeline:
    """Return the intervals of a rank's recording of that number, in times of the report.

    What is more than the busy times is worked out when it is asked for.
    """
    trace, times, steps = recorded.trace, recorded.busy, recorded.steps
    rank = trace.rank
    drawn = ToDraw(recorded, idle, partial(base.shift_ns, rank, number))

    def moved(times: Intervals) -> Spans:
        return Spans(lambda: base.moved_set(rank, number, times))

    def of_idle(cause: str) -> Spans:
        return Spans(lambda: base.moved_set(rank, number, getattr(drawn.idle, cause)))

    def named(what: str) -> NamedRows:
        return NamedRows(lambda: drawn.times(what))

    shift_ns = base.shift_ns(rank, number, steps.start_ns)
    return RankTimeline(
        rank,
        compute=moved(times.compute),
        hidden_comm=moved(times.hidden),
        exposed_comm=moved(times.exposed),
        mem=moved(times.mem),
        part=trace.part,
        windows=[
            Window(None if mark is None else mark.index, start_ns, end_ns)
            for mark, start_ns, end_ns in zip(
                steps.marks,
                (steps.start_ns - shift_ns).tolist(),
                (steps.end_ns - shift_ns).tolist(),
                strict=True,
            )
        ],
        names=Made(lambda: drawn.names),
        idle_input=of_idle("input"),
        idle_sync=of_idle("sync"),
        idle_launch=of_idle("launch"),
        idle_unknown=of_idle("unknown"),
        kernels=named("kernels"),
        copies=named("copies"),
        forward=named("forward"),
        backward=named("backward"),
        optimizer=named("optimizer"),
        data_loader=named("data_loader"),
        sync_calls=named("sync_calls"),
    )


def clipped(recording: RankTimeline, start_ns: int, end_ns: int) -> RankTimeline:
    """Return the part of a recording's intervals inside [start_ns, end_ns)."""

    def pairs(name: str) -> Spans:
        return Spans(lambda: intervals(getattr(recording, name)).clip(start_ns, end_ns))

    def named(name: str) -> NamedRows:
        return NamedRows(lambda: times_of(getattr(recording, name)).clip(start_ns, end_ns))

    inside: dict[str, Any] = {name: pairs(name) for name in PAIRS}
    inside |= {name: named(name) for name in NAMED}
    windows = [one for one in recording.windows if one.start_ns < end_ns and one.end_ns > start_ns]
    return replace(recording, windows=windows, **inside)


def intervals(pairs: Sequence[Pair]) -> Intervals:
    """Return pairs as a set of time."""
    if isinstance(pairs, Spans):
        return pairs.intervals
    table = _table(pairs, 2)
    return Intervals.union_of(table[:, 0], table[:, 1])


def times_of(rows: Sequence[Named]) -> Times:
    """Return operations or ranges as columns."""
    if isinstance(rows, NamedRows):
        return rows.times
    return Times(*_table(rows, 3).T)


def _table(rows: Sequence[tuple[int, ...]], columns: int) -> IntArray:
    return np.array(list(rows), np.int64).reshape(-1, columns)
