"""How the clocks of ranks stand to each other, in sentences and as a table of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ddptrace.metrics.clocks import APPLIED_ABOVE_NS, RankClock
from ddptrace.outputs.figures import UNKNOWN
from ddptrace.report import Report
from ddptrace.wording import ranges

_HEADS = ("rank", "against", "ahead ms", "drift ppm", "spread ms", "collectives")


def clock_sentences(report: Report) -> Iterator[str]:
    """Give a line on the ranks whose clocks were aligned, and one on what is odd about others."""
    for reference in sorted({one.reference for one in report.run.clocks}):
        mine = [one for one in report.run.clocks if one.reference == reference]
        aligned = [one for one in mine if one.applied]
        odd = [one for one in mine if one.shares_clock and abs(one.offset_ns) > APPLIED_ABOVE_NS]
        if aligned:
            yield (
                f"clocks: the times of rank {_ranks(aligned)} are moved by {_most(aligned)} ms "
                f"onto the clock of rank {reference}, so that the ends of collectives meet"
                f"{_within(aligned)}"
            )
        if odd:
            yield (
                f"clocks: collectives of rank {_ranks(odd)} end {_most(odd)} ms apart from those "
                f"of rank {reference}, on one clock: times are left as they are"
            )


def clock_lines(report: Report) -> list[str]:
    """Return the offset of each rank as the lines of a table; none where nothing was compared."""
    if not report.run.clocks:
        return []
    rows = [_HEADS, *map(_cells, report.run.clocks)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    ends = ["", *map(_what, report.run.clocks)]
    lines = [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) + end
        for row, end in zip(rows, ends, strict=True)
    ]
    return ["clocks, from the ends of collectives; nine of ten end within the spread", *lines]


def _cells(one: RankClock) -> tuple[str, ...]:
    return (
        str(one.rank),
        f"rank {one.reference}",
        f"{one.offset_ns / 1e6:+.3f}",
        UNKNOWN if one.drift_ppb is None else f"{one.drift_ppb / 1e3:+.3f}",
        UNKNOWN if one.spread_ns is None else f"{one.spread_ns / 1e6:.3f}",
        str(one.collectives),
    )


def _what(one: RankClock) -> str:
    if one.applied:
        return "  aligned"
    return "  one clock" if one.shares_clock else "  not moved"


def _ranks(rows: Sequence[RankClock]) -> str:
    return ranges([one.rank for one in rows])


def _most(rows: Sequence[RankClock]) -> str:
    least, most = (end(abs(one.offset_ns) for one in rows) for end in (min, max))
    least_ms, most_ms = f"{least / 1e6:.3f}", f"{most / 1e6:.3f}"
    return most_ms if least_ms == most_ms else f"{least_ms} to {most_ms}"


def _within(rows: Sequence[RankClock]) -> str:
    spreads = [one.spread_ns for one in rows if one.spread_ns is not None]
    return f" (nine of ten within {max(spreads) / 1e6:.3f} ms)" if spreads else ""
