"""What of the report the page holds as data: all of it, but for collectives beyond a limit."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ddptrace.metrics.collective_rows import Collective
from ddptrace.report import Report
from ddptrace.wording import counted, ranges

MOST_ROWS = 4_000
"""Of a rank's part in a collective: about 3 MB. A large run has a hundred times as many."""


def embedded(report: Report, shown: Collection[int | None]) -> Report:
    """Return the report with as many of its collectives as a page can hold.

    Those of the steps to show come first, then those with the most exposed time.
    """
    if sum(len(one.ranks) for one in report.collectives) <= MOST_ROWS:
        return report
    order = sorted(
        range(len(report.collectives)), key=lambda at: _place(report.collectives[at], shown)
    )
    kept, room = set(), MOST_ROWS
    for at in order:
        room -= len(report.collectives[at].ranks)
        if room < 0:
            break
        kept.add(at)
    collectives = [one for at, one in enumerate(report.collectives) if at in kept]
    return replace(report, collectives=collectives)


def _place(one: Collective, shown: Collection[int | None]) -> tuple[bool, int]:
    return one.step not in shown, -max((each.exposed_ns for each in one.ranks), default=0)


def left_out(report: Report, kept: Report, shown: Collection[int | None]) -> str | None:
    """Return what the page says of the collectives that it does not hold; None when it has all."""
    if len(kept.collectives) == len(report.collectives):
        return None
    numbers = [step for step in shown if step is not None]
    first = f"those of step {ranges(numbers)} before others, " if numbers else ""
    return (
        f"The data in this page holds {counted(len(kept.collectives), 'collective')} of "
        f"{len(report.collectives)}: {first}those with the most exposed time before the rest. "
        "The JSON report has all."
    )
