"""How the times of each recording become times of the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ddptrace.intervals import IntArray
from ddptrace.metrics.recorded import Recorded


@dataclass(frozen=True, slots=True)
class Timebase:
    """What the times of a report count from, for each recording of each rank on its own clock.

    `unix_origin_ns` is the same in Unix time; None where no recording tells the time of day.
    """

    origin_ns: Mapping[int, tuple[int, ...]]
    unix_origin_ns: int | None

    def moved(self, rank: int, recording: NDArray[np.int32], times: IntArray) -> IntArray:
        """Return times of a rank, each on the clock of the recording given beside it."""
        return times - np.array(self.origin_ns[rank], np.int64)[recording]


def timebase(recordings: Mapping[int, Sequence[Recorded]]) -> Timebase:
    """Return the time base that starts with the first work or window of all recordings.

    All recordings with the time of day share one; others only with those of their own file.
    """
    first: dict[str, int] = {}
    for mine in recordings.values():
        for one in mine:
            begin_ns = int(min([one.trace.start_ns, *one.steps.start_ns[:1].tolist()]))
            first[_clock(one)] = min(first.get(_clock(one), begin_ns), begin_ns)
    origin_ns = {
        rank: tuple(first[_clock(one)] for one in mine) for rank, mine in recordings.items()
    }
    return Timebase(origin_ns, first.get(_UNIX))


_UNIX = ""


def _clock(one: Recorded) -> str:
    return _UNIX if one.trace.clock == "unix" else one.trace.path
