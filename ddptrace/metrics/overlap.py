"""Whether the recordings of ranks overlap in time once their clocks are aligned."""

from __future__ import annotations

import numpy as np

from ddptrace.metrics.clocks import APPLIED_ABOVE_NS
from ddptrace.metrics.measured import Measured
from ddptrace.metrics.unmatched import unmatched_warnings
from ddptrace.model import FAR_APART_NS


def overlap_when_aligned(measured: Measured) -> bool:
    """Tell whether aligned clocks show that all ranks recorded the same time.

    Only where that is beyond doubt: every collective of a step has its partners, and the ends of
    those that moved a clock agree. Ranks far apart may still be of two runs of one program.
    """
    moved = [clock for clock in measured.clocks if clock.applied]
    is_sure = all(
        clock.spread_ns is not None
        and clock.spread_ns <= APPLIED_ABOVE_NS
        and abs(clock.offset_ns) <= FAR_APART_NS
        for clock in moved
    )
    if not moved or not is_sure or unmatched_warnings(measured.collected):
        return False
    reference, *others = (_windows(measured, rank) for rank in sorted(measured.recordings))
    return measured.base.is_common and all(_overlap(reference, other) for other in others)


def _windows(measured: Measured, rank: int) -> list[tuple[int, int]]:
    """Return when each recording of a rank begins and ends, in the times of the report."""
    times = [[one.trace.start_ns, one.trace.end_ns] for one in measured.recordings[rank]]
    moved = [
        measured.base.moved(rank, number, np.array(window)).tolist()
        for number, window in enumerate(times)
    ]
    return [(begin, end) for begin, end in moved]


def _overlap(some: list[tuple[int, int]], others: list[tuple[int, int]]) -> bool:
    return any(one[0] < other[1] and other[0] < one[1] for one in some for other in others)
