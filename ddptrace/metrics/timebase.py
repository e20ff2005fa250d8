"""How the times of each recording become times of the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ddptrace.intervals import IntArray, Intervals
from ddptrace.metrics.recorded import Recorded


@dataclass(frozen=True, slots=True)
class Correction:
    """How far a rank's clock is ahead: `offset_ns` at the base's 0, and what a second adds."""

    offset_ns: int = 0
    drift_ppb: int = 0

    def at(self, times: IntArray) -> IntArray:
        """Return how far the clock is ahead at moments of its own."""
        # In this order, since an hour in ns times a drift in ppb is more than 64 bits hold.
        return self.offset_ns + times // 1000 * self.drift_ppb // 1_000_000


@dataclass(frozen=True, slots=True)
class Timebase:
    """What the times of a report count from, for each recording of each rank on its own clock.

    `unix_origin_ns` is the same in Unix time; None where no recording tells the time of day.
    `corrections` has what clocks are ahead of that, by rank; `is_common` says that the times of
    all ranks can be compared.
    """

    origin_ns: Mapping[int, tuple[int, ...]]
    unix_origin_ns: int | None
    is_common: bool
    corrections: Mapping[int, Correction] = field(default_factory=dict)

    def shift_ns(self, rank: int, recording: int | NDArray[np.int32], at_ns: IntArray) -> IntArray:
        """Return what to take off the times of rows of a rank that start at `at_ns`.

        A row is shifted as a whole, so that its length stays what was recorded.
        """
        origin_ns = np.array(self.origin_ns[rank], np.int64)[recording]
        correction = self.corrections.get(rank, Correction())
        shift: IntArray = origin_ns + correction.at(at_ns - origin_ns)
        return shift

    def moved(self, rank: int, recording: int | NDArray[np.int32], times: IntArray) -> IntArray:
        """Return moments of a rank, each on the clock of the recording given beside it."""
        return times - self.shift_ns(rank, recording, times)

    def moved_set(self, rank: int, recording: int, times: Intervals) -> Intervals:
        """Return a set of time; the intervals keep their lengths.

        Where a clock drifts, one that would then reach into the next ends where that one starts.
        """
        start = self.moved(rank, recording, times.start)
        end = start + (times.end - times.start)
        end[:-1] = np.minimum(end[:-1], start[1:])
        return Intervals(start, end)


def timebase(recordings: Mapping[int, Sequence[Recorded]]) -> Timebase:
    """Return the time base that starts with the first work or window of all recordings.

    All recordings with the time of day share one; others only with those of their own file.
    """
    first: dict[str, int] = {}
    for mine in recordings.values():
        for one in mine:
            first[_clock(one)] = min(first.get(_clock(one), _begin_ns(one)), _begin_ns(one))
    origin_ns = {
        rank: tuple(first[_clock(one)] for one in mine) for rank, mine in recordings.items()
    }
    return Timebase(origin_ns, first.get(_UNIX), is_common=len(first) < 2)


def aligned(
    base: Timebase,
    recordings: Mapping[int, Sequence[Recorded]],
    corrections: Mapping[int, Correction],
    references: Mapping[int, int],
) -> Timebase:
    """Return a time base in which corrected clocks count as that of their reference rank does.

    It starts with the first work or window, as `timebase` does.
    """
    corrected = replace(base, corrections=corrections)
    kind = {rank: _clock(recordings[references.get(rank, rank)][0]) for rank in recordings}
    first: dict[str, int] = {}
    for rank, mine in recordings.items():
        for number, one in enumerate(mine):
            begin_ns = int(corrected.moved(rank, number, np.array([_begin_ns(one)]))[0])
            first[kind[rank]] = min(first.get(kind[rank], begin_ns), begin_ns)
    known = {rank: corrections.get(rank, Correction()) for rank in recordings}
    return replace(
        base,
        unix_origin_ns=None
        if base.unix_origin_ns is None
        else base.unix_origin_ns + first.get(_UNIX, 0),
        is_common=len(first) < 2,
        corrections={
            rank: replace(one, offset_ns=one.offset_ns + first[kind[rank]])
            for rank, one in known.items()
        },
    )


def counts_alike(one: Recorded, other: Recorded) -> bool:
    """Tell whether the times of two recordings count from the same moment, if clocks are right."""
    return _clock(one) == _clock(other)


_UNIX = ""


def _clock(one: Recorded) -> str:
    return _UNIX if one.trace.clock == "unix" else one.trace.path


def _begin_ns(one: Recorded) -> int:
    return int(min([one.trace.start_ns, *one.steps.start_ns[:1].tolist()]))
