"""The NVTX ranges that say something about a rank: its number, its steps, its collectives."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ddptrace import kernels
from ddptrace.expressions import Expression
from ddptrace.kernels import Patterns
from ddptrace.manifest import Mark
from ddptrace.sources.marks import distinct
from ddptrace.sources.nsys_store import Store

_RECORDER_MARK = re.compile(r"ddptrace rank=\d")
_FIELD = re.compile(r"(\w+)=(\S+)")
_INITIALS = kernels.STEP_RANGE_INITIALS + "dn"
_MARK = 34
_LARGEST = 1 << 61
_RANGES = frozenset({59, 60, 70, 71})  # push and pop, start and end; the latter from a text file
_COLUMNS = (
    *("start", "end", "eventType", "globalTid", "domainId"),
    *("jsonText", "jsonTextId", "binaryData"),
)


@dataclass(frozen=True, slots=True)
class Range:
    """One NVTX range or mark, in ns of the file.

    `end_ns` is None for a mark, and for a range that the recording ended in. `json` and `binary`
    hold what the library that made it attached to it.
    """

    name: str
    start_ns: int
    end_ns: int | None
    is_mark: bool
    thread: int
    domain: int | None
    json: str | None
    binary: bytes | None

    def moved(self, shift_ns: int) -> Range:
        """Return the range with its times moved."""
        end_ns = None if self.end_ns is None else self.end_ns + shift_ns
        return replace(self, start_ns=self.start_ns + shift_ns, end_ns=end_ns)


@dataclass(frozen=True, slots=True)
class RecorderMark:
    """What our own recorder says at the start of the recorded steps."""

    rank: int | None = None
    world_size: int | None = None
    offset_ns: int | None = None
    """What to add to times of the file to have Unix time; less exact than the session's start."""


def read_ranges(store: Store, steps: Patterns, *, usual: bool) -> list[Range]:
    """Return the ranges of interest of all processes, in order of their start.

    `usual` says that `steps` are the patterns that hold when the user names none.
    """

    def is_wanted(name: str) -> bool:
        return (
            kernels.is_collective_range(name)
            or _RECORDER_MARK.match(name) is not None
            or any(pattern.search(name) for pattern in steps)
        )

    rows = store.ranges(_COLUMNS, is_wanted, _INITIALS if usual else None)
    json_of = store.texts(row[7] for row in rows if row[6] is None and row[7] is not None)
    found = [
        Range(name, start, end, kind == _MARK, thread, domain, json or json_of.get(json_id), binary)
        for name, start, end, kind, thread, domain, json, json_id, binary in rows
        if _is_time(start)
        and (end is None or _is_time(end))
        and isinstance(thread, int)
        and (kind is None or kind == _MARK or kind in _RANGES)
    ]
    return sorted(found, key=lambda range_: range_.start_ns)


def _is_time(value: object) -> bool:
    """Tell whether a value is a whole number that can be moved and stays one of 64 bits."""
    return isinstance(value, int) and abs(value) < _LARGEST


def recorder_mark(ranges: Iterable[Range]) -> RecorderMark:
    """Return what our recorder's mark says; nothing where there is none."""
    for range_ in ranges:
        if _RECORDER_MARK.match(range_.name):
            fields = dict(_FIELD.findall(range_.name))
            utc_ns = _whole(fields.get("utc_ns"))
            return RecorderMark(
                rank=_whole(fields.get("rank")),
                world_size=_whole(fields.get("world_size")),
                offset_ns=None if utc_ns is None else utc_ns - range_.start_ns,
            )
    return RecorderMark()


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() and len(text) < 20 else None


def step_marks(
    ranges: Sequence[Range], patterns: Patterns, calls: Mapping[int, int]
) -> tuple[list[Mark], int]:
    """Return a process's steps, and how many of them the recording ended in.

    They are those of the first pattern that any range has. A range inside another one of them is
    no step of its own. Where several threads name steps at the same time, such as one that fetches
    data, they are those of the thread that calls the GPU most often.
    """
    still_open = 0
    for pattern in patterns:
        named = [one for one in ranges if not one.is_mark and pattern.search(one.name)]
        if any(range_.end_ns is not None for range_ in named):
            return _marks(_of_one_thread(named, calls), pattern)
        still_open = still_open or len(named)
    return [], still_open


def _of_one_thread(named: Sequence[Range], calls: Mapping[int, int]) -> Sequence[Range]:
    closed = sorted(filter(_is_closed, named), key=lambda one: one.start_ns)
    beside = any(
        one.thread != other.thread and other.start_ns < (one.end_ns or 0)
        for one, other in pairwise(closed)
    )
    if not beside:
        return named
    busiest = max({one.thread for one in closed}, key=lambda thread: (calls.get(thread, 0), thread))
    return [one for one in named if one.thread == busiest]


def _is_closed(range_: Range) -> bool:
    return range_.end_ns is not None and range_.end_ns > range_.start_ns


def _marks(named: Sequence[Range], pattern: Expression) -> tuple[list[Mark], int]:
    closed = [one for one in named if _is_closed(one)]
    marks: list[Mark] = []
    numbers: list[int] = []
    for range_ in sorted(closed, key=lambda one: (one.start_ns, -(one.end_ns or 0))):
        end_ns = range_.end_ns or 0
        if marks and end_ns <= marks[-1].end_ns:
            continue
        number = kernels.range_number(pattern, range_.name)
        numbers += [] if number is None else [number]
        marks.append(Mark(len(marks), range_.name, range_.start_ns, end_ns))
    if len(numbers) == len(marks):
        told = zip(numbers, marks, strict=True)
        marks = distinct([replace(mark, index=number) for number, mark in told])
    return marks, sum(one.end_ns is None for one in named)
