"""The timeline of the page: when each rank computed, communicated and copied in one step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddptrace.intervals import Intervals
from ddptrace.metrics.steps import StepMetrics
from ddptrace.outputs.html_charts import (
    COMPUTE,
    EXPOSED,
    HIDDEN,
    IDLE,
    MEM,
    Chart,
    Look,
    annotation,
    is_whole,
    layout,
    marker,
)
from ddptrace.report import Timeline

Busy: TypeAlias = Mapping[tuple[int, str], Intervals]

_FINEST = 2000  # a gap narrower than this part of the window is less than a pixel wide


@dataclass(frozen=True, slots=True)
class Lane:
    """Where one kind of interval lies in a rank's row, and how high its bars are."""

    look: Look
    y: float
    height: float


# Hidden and exposed communication are pieces of the same kernels: one lane, two heights.
LANES = {
    "compute": Lane(COMPUTE, -1, 0.9),
    "hidden_comm": Lane(HIDDEN, 0, 0.45),
    "exposed_comm": Lane(replace(EXPOSED, hatch=""), 0, 0.9),
    "mem": Lane(MEM, 1, 0.6),
}
LEGEND = (
    replace(COMPUTE, title="compute (top lane)"),
    replace(HIDDEN, title="hidden communication (middle lane, low)"),
    replace(EXPOSED, hatch="", title="exposed communication (middle lane, high)"),
    replace(MEM, title="copies (bottom lane)"),
    replace(IDLE, title="window: idle where nothing covers it"),
)
"""What the lanes of a row mean, from top to bottom."""

_UNITS = 4  # three lanes, and one unit that keeps the rows apart


@dataclass(frozen=True, slots=True, eq=False)
class Bars:
    """What is drawn of one kind in one row: disjoint spans that hold `count` intervals each."""

    row: int
    kind: str
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    count: NDArray[np.int64]

    def merged(self, gap_ns: float) -> Bars:
        """Return the bars with every gap narrower than `gap_ns` closed."""
        apart = self.start_ns[1:] - self.end_ns[:-1] >= gap_ns
        first = np.flatnonzero(np.concatenate(([True], apart)))
        last = np.flatnonzero(np.concatenate((apart, [True])))
        count = np.add.reduceat(self.count, first)
        return Bars(self.row, self.kind, self.start_ns[first], self.end_ns[last], count)


def busy(recorded: Timeline) -> Busy:
    """Return the intervals of each rank and kind as sets of time, for `timeline`."""
    pairs: dict[tuple[int, str], list[tuple[int, int]]] = {}
    for recording in recorded.recordings:
        for kind in LANES:
            pairs.setdefault((recording.rank, kind), []).extend(getattr(recording, kind))
    tables = {key: np.array(found, np.int64).reshape(-1, 2) for key, found in pairs.items()}
    return {key: Intervals.union_of(table[:, 0], table[:, 1]) for key, table in tables.items()}


def timeline(
    rows: Sequence[StepMetrics], times: Busy, *, common_clock: bool, most_bars: int
) -> Chart:
    """Return the windows of one step's rows and what filled them, in at most about `most_bars`.

    Without a common clock each row counts from the start of its own window.
    """
    first_ns = min(row.start_ns for row in [row for row in rows if is_whole(row)] or rows)
    origins = [first_ns if common_clock else row.start_ns for row in rows]
    window_ns = max(row.end_ns - origin for row, origin in zip(rows, origins, strict=True))
    found = [bars for place, row in enumerate(rows) for bars in _inside(row, place, times)]
    drawn, gap_ns = _fewer(found, window_ns / _FINEST, most_bars)
    chart = layout([f"rank {row.rank}" for row in rows], units=_UNITS, pixels=44)
    start = "the first window's start" if common_clock else "the start of each rank's own window"
    chart["xaxis"] |= {"title": {"text": f"ms from {start}"}, "range": [0, window_ns / 1e6]}
    chart["barmode"] = "overlay"
    chart["annotations"] = [
        annotation(_UNITS * place, "PARTIAL: not drawn")
        for place, row in enumerate(rows)
        if not is_whole(row)
    ]
    data = [_windows(rows, origins)]
    data += [_trace(bars, rows[bars.row].rank, origins[bars.row]) for bars in drawn]
    return Chart(data, chart, " ".join(_notes(found, drawn, gap_ns, common_clock)))


def _inside(row: StepMetrics, place: int, times: Busy) -> Iterator[Bars]:
    if not is_whole(row):
        return  # what of its communication was hidden is not known either
    for kind in LANES:
        inside = times.get((row.rank, kind), Intervals.empty()).clip(row.start_ns, row.end_ns)
        if len(inside):
            ones = np.ones(len(inside), np.int64)
            yield Bars(place, kind, inside.start, inside.end, ones)


def _fewer(found: Sequence[Bars], gap_ns: float, most: int) -> tuple[list[Bars], float]:
    """Return the merged bars and the gap that was closed: a wider one when too many stay."""
    drawn = [bars.merged(gap_ns) for bars in found]
    while sum(bars.count.size for bars in drawn) > max(most, len(drawn)):
        gap_ns *= 2
        drawn = [bars.merged(gap_ns) for bars in drawn]
    return drawn, gap_ns


def _notes(
    found: Sequence[Bars], drawn: Sequence[Bars], gap_ns: float, common_clock: bool
) -> Iterator[str]:
    if not common_clock:
        yield "The ranks have no clock in common: each row starts with its own window."
    intervals, bars = (sum(part.count.size for part in parts) for parts in (found, drawn))
    if bars == intervals:
        yield f"All {intervals:,} intervals are drawn."
    else:
        yield (
            f"Gaps narrower than {gap_ns / 1e3:,.3g} µs are closed: {bars:,} bars stand for "
            f"{intervals:,} intervals, {intervals - bars:,} were merged away. "
            "The table's totals are exact."
        )


def _windows(rows: Sequence[StepMetrics], origins: Sequence[int]) -> dict[str, Any]:
    """Return the ground of each whole row: what stays visible of it is idle time."""
    shown = [
        (place, row, row.start_ns - origin)
        for place, (row, origin) in enumerate(zip(rows, origins, strict=True))
        if is_whole(row)
    ]
    return {
        "type": "bar",
        "orientation": "h",
        "name": "window",
        "y": [_UNITS * place for place, *_ in shown],
        "base": [start / 1e6 for *_, start in shown],
        "x": [(row.end_ns - row.start_ns) / 1e6 for _, row, _ in shown],
        "width": 3,
        "count": [1] * len(shown),
        "marker": marker(IDLE),
        "hovertemplate": "window: idle where no bar is<br>start %{base:.4f} ms"
        "<br>length %{customdata[0]:.4f} ms<extra></extra>",
    }


def _trace(bars: Bars, rank: int, origin_ns: int) -> dict[str, Any]:
    lane = LANES[bars.kind]
    y = _UNITS * bars.row + lane.y
    return {
        "type": "bar",
        "orientation": "h",
        "name": f"rank {rank}: {lane.look.title}",
        "y": np.full(bars.count.size, y).tolist(),
        "base": ((bars.start_ns - origin_ns) / 1e6).tolist(),
        "x": ((bars.end_ns - bars.start_ns) / 1e6).tolist(),
        "width": lane.height,
        "count": bars.count.tolist(),
        "marker": marker(lane.look),
        "hovertemplate": f"rank {rank}: {lane.look.title}"
        "<br>start %{base:.4f} ms<br>length %{customdata[0]:.4f} ms"
        "<br>intervals %{customdata[1]}<extra></extra>",
    }
