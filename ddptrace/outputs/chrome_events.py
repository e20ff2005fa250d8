"""The lines of a file in Chrome's trace event format, which Perfetto opens.

Times are written as µs with the digits of the ns behind the point: no float touches them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ddptrace.intervals import IntArray

_TRACKS_A_RANK = 1000
_DIGITS = [f"{ns:03d}" for ns in range(1000)]  # looked up much faster than formatted


@dataclass(frozen=True, slots=True)
class Track:
    """One row of slices of a rank; `number` counts the rows of the rank from 1."""

    rank: int
    number: int

    @property
    def key(self) -> str:
        """The start of each event on the track.

        Threads are told apart in the whole file, and none is the main one of its process, which
        viewers put first.
        """
        return f'"pid":{self.rank},"tid":{self.rank * _TRACKS_A_RANK + self.number}'


def us(ns: int) -> str:
    """Return ns as µs."""
    return f"{'-' if ns < 0 else ''}{abs(ns) // 1000}.{abs(ns) % 1000:03d}"


def ms(ns: int | None) -> str:
    """Return ns as ms, unknown as null."""
    if ns is None:
        return "null"
    return f"{'-' if ns < 0 else ''}{abs(ns) // 1_000_000}.{abs(ns) % 1_000_000:06d}"


def arguments(values: Iterable[tuple[str, str]]) -> str:
    """Return the arguments of an event; values are JSON already."""
    return "{" + ",".join(f'"{name}":{value}' for name, value in values) + "}"


def process(rank: int, name: str) -> Iterator[str]:
    """Yield what names a rank's process and puts it in its place."""
    for kind, values in (
        ("process_name", {"name": name}),
        ("process_sort_index", {"sort_index": rank}),
    ):
        yield f'{{"ph":"M","pid":{rank},"tid":0,"name":"{kind}","args":{json.dumps(values)}}}'


def named(track: Track, name: str) -> Iterator[str]:
    """Yield what names a track and puts it in its place."""
    for kind, values in (
        ("thread_name", {"name": name}),
        ("thread_sort_index", {"sort_index": track.number}),
    ):
        yield f'{{"ph":"M",{track.key},"name":"{kind}","args":{json.dumps(values)}}}'


def a_slice(track: Track, start_ns: int, end_ns: int, rest: str) -> str:
    """Return one slice; `rest` is its name and more, as JSON without braces."""
    return f'{{"ph":"X",{track.key},"ts":{us(start_ns)},"dur":{us(end_ns - start_ns)},{rest}}}'


def slices(
    track: Track, start_ns: IntArray, end_ns: IntArray, rests: Sequence[str], which: IntArray
) -> list[str]:
    """Return slices at times that are not negative; `which` of the `rests` each one has."""
    start_us, start_rest = np.divmod(start_ns, 1000)
    length_us, length_rest = np.divmod(end_ns - start_ns, 1000)
    head = f'{{"ph":"X",{track.key},"ts":'
    columns = (start_us, start_rest, length_us, length_rest, which)
    return [
        f'{head}{us}.{_DIGITS[ns]},"dur":{length}.{_DIGITS[more]},{rests[code]}}}'
        for us, ns, length, more, code in zip(*(each.tolist() for each in columns), strict=True)
    ]


def flow(track: Track, at_ns: int, phase: str, number: int) -> str:
    """Return one end ("s" or "f") or a middle ("t") of an arrow between slices of two tracks.

    It belongs to the slice that is open then and there, so it has to be written right behind it.
    """
    return (
        f'{{"ph":"{phase}",{track.key},"ts":{us(at_ns)},"id":{number},'
        '"cat":"collective","name":"collective","bp":"e"}'
    )


def counter(rank: int, at_ns: int, name: str, values: str) -> str:
    """Return the value of a counter from a moment on."""
    return (
        f'{{"ph":"C","pid":{rank},"tid":0,"ts":{us(at_ns)},"name":{json.dumps(name)},'
        f'"args":{values}}}'
    )


def lanes(start_ns: IntArray, end_ns: IntArray) -> NDArray[np.intp]:
    """Return a lane for each row, in which it overlaps no other; `start_ns` is rising.

    On one track slices may not overlap in part: Perfetto would drop them.
    """
    lane = np.zeros(start_ns.size, np.intp)
    if not start_ns.size or (start_ns[1:] >= np.maximum.accumulate(end_ns)[:-1]).all():
        return lane
    free_ns: list[int] = []
    for row, (start, end) in enumerate(zip(start_ns.tolist(), end_ns.tolist(), strict=True)):
        fitting = next((place for place, free in enumerate(free_ns) if free <= start), None)
        if fitting is None:
            fitting = len(free_ns)
            free_ns.append(end)
        free_ns[fitting] = end
        lane[row] = fitting
    return lane
