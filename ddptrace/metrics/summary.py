"""What is typical of a run: figures over its steps, without windows that may begin mid-step."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

import numpy as np

from ddptrace.metrics.steps import StepMetrics

_NOT_FIGURES = frozenset({"rank", "step", "name", "start_ns", "end_ns", "partial"})
FIGURES = tuple(field.name for field in fields(StepMetrics) if field.name not in _NOT_FIGURES)
"""The names of the figures of a step, in the order of `StepMetrics`."""


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Step times in ns over the steps of a run, each that of its longest rank."""

    median: int
    p95: int
    min: int
    max: int


@dataclass(frozen=True, slots=True)
class Summary:
    """Figures over the steps of a run; `ranks` has one dict of medians (and "rank") a rank.

    `median_step` is the recorded step whose time is the lower median; both it and `step_ns` are
    None without step marks. `counted_steps` is how many steps count; None in old reports.
    """

    step_ns: StepTimes | None
    median_step: int | None
    ranks: list[dict[str, int | float | None]]
    counted_steps: int | None = None


def summarize(recordings: Sequence[Sequence[StepMetrics]]) -> Summary:
    """Return the summary of the rows of all recordings; partial ones do not count."""
    rows = kept_rows(recordings)
    longest = longest_by_step(rows)
    times = sorted((row.step_ns or 0, step) for step, row in longest.items())
    return Summary(
        step_ns=_step_times([time for time, _ in times]) if times else None,
        median_step=times[(len(times) - 1) // 2][1] if times else None,
        ranks=[_medians(rank, mine) for rank, mine in sorted(_by_rank(rows).items())],
        counted_steps=len(times),
    )


def kept_rows(recordings: Sequence[Sequence[StepMetrics]]) -> list[StepMetrics]:
    """Return the rows that count: with three steps or more not the first of each recording."""
    steps_of_rank: dict[int, int] = defaultdict(int)
    whole = [rows for rows in recordings if rows and not rows[0].partial]
    for rows in whole:
        steps_of_rank[rows[0].rank] += len(rows)
    kept: list[StepMetrics] = []
    for rows in whole:
        enough = steps_of_rank[rows[0].rank] >= 3
        kept += rows[1:] if enough else rows
    return kept or [row for rows in whole for row in rows]


def longest_by_step(rows: Iterable[StepMetrics]) -> dict[int, StepMetrics]:
    """Return for each numbered step the row of the rank on which it took longest."""
    longest: dict[int, StepMetrics] = {}
    for row in rows:
        if row.step is None or row.step_ns is None:
            continue
        best = longest.get(row.step)
        if best is None or row.step_ns > (best.step_ns or 0):
            longest[row.step] = row
    return longest


def median_step_ns(rows: Iterable[StepMetrics], summary: Summary) -> int | None:
    """Return the time of the median step on its longest rank; None without step marks."""
    if summary.median_step is None:
        return None
    return longest_by_step(rows)[summary.median_step].step_ns


def _by_rank(rows: Iterable[StepMetrics]) -> dict[int, list[StepMetrics]]:
    found: dict[int, list[StepMetrics]] = defaultdict(list)
    for row in rows:
        found[row.rank].append(row)
    return found


def _step_times(times: Sequence[int]) -> StepTimes:
    return StepTimes(
        median=int(statistics.median(times)),
        p95=round(float(np.percentile(times, 95))),
        min=times[0],
        max=times[-1],
    )


def _medians(rank: int, rows: Sequence[StepMetrics]) -> dict[str, int | float | None]:
    return {"rank": rank} | {name: _median(rows, name) for name in FIGURES}


def _median(rows: Sequence[StepMetrics], name: str) -> int | float | None:
    values = [value for row in rows if (value := getattr(row, name)) is not None]
    if not values:
        return None
    middle = statistics.median(values)
    return middle if name.endswith("_ratio") else int(middle)
