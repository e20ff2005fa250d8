"""The timeline of the page: when each rank computed, communicated and copied in one step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddptrace.intervals import Intervals
from ddptrace.metrics.steps import StepMetrics
from ddptrace.metrics.timeline import intervals
from ddptrace.outputs.html_charts import (
    COMPUTE,
    COPIES,
    EXPOSED,
    HIDDEN,
    IDLE,
    UNKNOWN,
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
    """Where one kind of time lies in a rank's row, how high its bars are, and how to say so."""

    look: Look
    y: float
    height: float
    place: str

    @property
    def legend(self) -> Look:
        """The look of the lane with its place in the title: colour is not the only sign."""
        return replace(self.look, title=f"{self.look.title} ({self.place})")


# Each kind has a lane of its own: on a narrow screen a bar takes at least a pixel, and one kind
# drawn over another would look like all of it.
_BUSY = {
    "compute": Lane(COMPUTE, -1.5, 0.9, "lane 1"),
    "hidden_comm": Lane(HIDDEN, -0.5, 0.9, "lane 2"),
    "exposed_comm": Lane(replace(EXPOSED, hatch=""), 0.5, 0.9, "lane 3"),
    "mem": Lane(replace(COPIES, hatch="", title="copies"), 1.5, 0.6, "lane 4"),
}
_REST = {
    "idle": Lane(IDLE, 0, 3.9, "all lanes"),
    "unknown": Lane(UNKNOWN, 0, 3.9, "behind the lanes"),
}
_LANES = _BUSY | _REST
_UNITS = 5  # a row: four lanes, and one unit that keeps the rows apart


def legend(*, unknown: bool) -> list[Look]:
    """Return what the lanes of a row mean, from top to bottom."""
    return [lane.legend for kind, lane in _LANES.items() if kind != "unknown" or unknown]


@dataclass(frozen=True, slots=True, eq=False)
class Bars:
    """What is drawn of one kind in one row: disjoint spans that hold `count` intervals each."""

    row: int
    kind: str
    spans: Intervals
    count: NDArray[np.int64]

    @classmethod
    def of(cls, row: int, kind: str, spans: Intervals) -> Bars:
        """Return a bar for each interval."""
        return cls(row, kind, spans, np.ones(len(spans), np.int64))

    def merged(self, gap_ns: float) -> Bars:
        """Return the bars with every gap narrower than `gap_ns` closed."""
        if not len(self.spans):
            return self
        apart = self.spans.start[1:] - self.spans.end[:-1] >= gap_ns
        first = np.flatnonzero(np.concatenate(([True], apart)))
        last = np.flatnonzero(np.concatenate((apart, [True])))
        spans = Intervals(self.spans.start[first], self.spans.end[last])
        return replace(self, spans=spans, count=np.add.reduceat(self.count, first))


def busy(recorded: Timeline) -> Busy:
    """Return the intervals of each rank and kind as sets of time, for `timeline`."""
    found: dict[tuple[int, str], Intervals] = {}
    for recording in recorded.recordings:
        for kind in _BUSY:
            key = (recording.rank, kind)
            known = found.get(key, Intervals.empty())
            found[key] = known | intervals(getattr(recording, kind))
    return found


def timeline(
    rows: Sequence[StepMetrics], times: Busy, *, common_clock: bool, most_bars: int
) -> Chart:
    """Return what filled the windows of one step's whole rows, in about `most_bars` at most.

    Without a common clock each row counts from the start of its own window.
    """
    whole = [row for row in rows if is_whole(row)] or rows
    first_ns = min(row.start_ns for row in whole)
    origins = [first_ns if common_clock else row.start_ns for row in rows]
    spans_ns = [row.end_ns - (first_ns if common_clock else row.start_ns) for row in whole]
    found = [bars for place, row in enumerate(rows) for bars in _inside(place, row, times)]
    drawn, gap_ns = _fewer(found, max(spans_ns) / _FINEST, most_bars)
    everything = [*_rest(rows, drawn, gap_ns), *drawn]
    return Chart(
        data=[_trace(bars, rows[bars.row].rank, origins[bars.row]) for bars in everything],
        layout=_layout(rows, max(spans_ns), common_clock),
        note=" ".join(_notes(found, drawn, gap_ns, common_clock)),
    )


def _layout(rows: Sequence[StepMetrics], window_ns: int, common_clock: bool) -> dict[str, Any]:
    chart = layout([f"rank {row.rank}" for row in rows], units=_UNITS, pixels=52, top=32)
    start = "the first window's start" if common_clock else "the start of each rank's own window"
    chart["barmode"] = "overlay"
    chart["xaxis"]["range"] = [0, window_ns / 1e6]
    chart["xaxis"]["title"] |= {"text": f"ms from {start}"}
    chart["annotations"] = [
        annotation(_UNITS * place, "PARTIAL: not drawn")
        for place, row in enumerate(rows)
        if not is_whole(row)
    ]
    return chart


def _inside(place: int, row: StepMetrics, times: Busy) -> Iterator[Bars]:
    """Return the intervals in a row's window; none of a partial row, which may lack some."""
    if not is_whole(row):
        return
    for kind in _BUSY:
        inside = times.get((row.rank, kind), Intervals.empty()).clip(row.start_ns, row.end_ns)
        if len(inside):
            yield Bars.of(place, kind, inside)


def _fewer(found: Sequence[Bars], gap_ns: float, most: int) -> tuple[list[Bars], float]:
    """Return the merged bars and the gap that was closed: a wider one when too many stay."""
    drawn = [bars.merged(gap_ns) for bars in found]
    while sum(len(bars.spans) for bars in drawn) > max(most, len(drawn)):
        gap_ns *= 2
        drawn = [bars.merged(gap_ns) for bars in drawn]
    return drawn, gap_ns


def _rest(rows: Sequence[StepMetrics], drawn: Sequence[Bars], gap_ns: float) -> Iterator[Bars]:
    """Return the gaps that stay open in all lanes; the whole window where idle is unknown."""
    for place, row in enumerate(rows):
        if not is_whole(row):
            continue
        known = row.idle_ns is not None
        mine = [bars.spans for bars in drawn if bars.row == place and known]
        bare = reduce(Intervals.__or__, mine, Intervals.empty()).gaps(row.start_ns, row.end_ns)
        wide = bare.end - bare.start >= gap_ns
        spans = Intervals(bare.start[wide], bare.end[wide])
        yield Bars.of(place, "idle" if known else "unknown", spans)


def _notes(
    found: Sequence[Bars], drawn: Sequence[Bars], gap_ns: float, common_clock: bool
) -> Iterator[str]:
    if not common_clock:
        yield "The ranks have no clock in common: each row starts with its own window."
    intervals, bars = (sum(len(part.spans) for part in parts) for parts in (found, drawn))
    if bars == intervals:
        yield f"All {intervals:,} intervals are drawn."
    else:
        yield (
            f"Gaps narrower than {gap_ns / 1e3:,.4g} µs are closed: {bars:,} bars stand for "
            f"{intervals:,} intervals ({intervals - bars:,} merged away). "
            "The totals above and below are exact."
        )


def _trace(bars: Bars, rank: int, origin_ns: int) -> dict[str, Any]:
    lane = _LANES[bars.kind]
    lines = [
        f"rank {rank}: {lane.look.title}",
        "start %{base:.4f} ms",
        "length %{customdata[0]:.4f} ms",
    ]
    if bars.kind in _BUSY:
        lines.append("intervals in it: %{customdata[1]}")
    return {
        "type": "bar",
        "orientation": "h",
        "name": f"rank {rank}: {lane.look.title}",
        "y": [_UNITS * bars.row + lane.y] * len(bars.spans),
        "base": ((bars.spans.start - origin_ns) / 1e6).tolist(),
        "x": ((bars.spans.end - bars.spans.start) / 1e6).tolist(),
        "count": bars.count.tolist(),
        "width": lane.height,
        "marker": marker(lane.look),
        "hovertemplate": "<br>".join(lines) + "<extra></extra>",
    }
