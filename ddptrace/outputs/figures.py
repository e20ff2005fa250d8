"""How figures look where a person reads them: milliseconds and percent, unknown as a dash."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ddptrace.metrics.steps import StepMetrics
from ddptrace.report import Report

UNKNOWN = "-"
MEDIAN = "median"

COLUMNS = {
    "step": "step_ns",
    "compute": "compute_ns",
    "hidden": "hidden_comm_ns",
    "exposed": "exposed_comm_ns",
    "waiting": "exposed_wait_ns",
    "copies": "exposed_mem_ns",
    "idle": "idle_ns",
    "tail": "tail_ns",
}
"""The columns that a table of ranks may have, and the figures they show."""


def columns_of(steps: Mapping[int | None, Sequence[StepMetrics]]) -> dict[str, str]:
    """Return the columns for tables of these steps: waiting only where it is told of any time."""
    has_waiting = any(
        row.exposed_comm_ns and row.exposed_wait_ns is not None
        for rows in steps.values()
        for row in rows
    )
    return {title: name for title, name in COLUMNS.items() if has_waiting or title != "waiting"}


def ms(ns: int | None, *, at_least: bool = False, decimals: int = 2) -> str:
    """Return a time as milliseconds; partial ones are marked as lower bounds."""
    if ns is None:
        return UNKNOWN
    return f"{'>=' if at_least else ''}{ns / 1e6:.{decimals}f}"


def signed(ns: int) -> str:
    """Return a difference in ms with its sign, which a difference that rounds to 0 lacks."""
    text = f"{ns / 1e6:+.2f}"
    return "0.00" if text[1:] == "0.00" else text


def percent(ratio: float | None) -> str:
    """Return a ratio as percent."""
    return UNKNOWN if ratio is None else f"{100 * ratio:.1f} %"


def cells(row: StepMetrics, columns: Mapping[str, str]) -> list[str]:
    """Return the cells of one row, in the order of the columns."""
    return [ms(getattr(row, name), at_least=row.partial) for name in columns.values()]


def rows_by_step(report: Report, choice: str) -> dict[int | None, list[StepMetrics]]:
    """Return the rows to show for each step: those of the median step, or of all."""
    grouped: dict[int | None, list[StepMetrics]] = {}
    for row in sorted(report.steps, key=lambda row: (row.step is None, row.step or 0)):
        grouped.setdefault(row.step, []).append(row)
    median = report.summary.median_step
    if choice == MEDIAN and median in grouped:
        return {median: grouped[median]}
    return grouped


def longest(rows: Sequence[StepMetrics], most: int) -> list[StepMetrics]:
    """Return at most `most` rows, those with the longest steps, in the order of ranks."""
    by_length = sorted(rows, key=lambda row: -(row.step_ns or 0))
    return sorted(by_length[:most], key=lambda row: (row.rank, row.start_ns))
