"""The report for a terminal, to be read in ten seconds."""

from __future__ import annotations

import io
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ddptrace.metrics.steps import StepMetrics
from ddptrace.model import Warn
from ddptrace.outputs.figures import COLUMNS, cells, longest, ms, rows_by_step
from ddptrace.outputs.recording import sentences
from ddptrace.outputs.stragglers import straggler_lines
from ddptrace.report import Report
from ddptrace.wording import counted

_UNLIMITED = 10_000
_SHOWN = ("cuda", "hip", "nccl", "rccl")
_MOST_RANKS = 16
_MOST_OF_A_KIND = 4
_LEGEND = (
    "ms; compute + exposed + copies + idle = step. hidden: communication under compute, "
    "exposed: not; tail: communication after the last compute before its end"
)


@dataclass(frozen=True, slots=True)
class Destination:
    """Where the text goes: `width` is None where lines need not fit, as in a pipe."""

    width: int | None = None
    colour: bool = False


def render(report: Report, *, step: str, next_command: str, destination: Destination) -> str:
    """Return the report as text: headline, a table of ranks, warnings, the next command.

    `step` is "median" for the median step's table, "all" for one of every step in the report.
    """
    console = _console(destination)
    console.print(Text(_run_line(report), style="dim"))
    console.print()
    console.print(Text(report.diagnosis.headline, style="bold"))
    for number, rows in rows_by_step(report, step).items():
        console.print()
        _print_step(console, number, rows, destination)
    console.print()
    console.print(Text(_LEGEND, style="dim"))
    _print_summary(console, report)
    for sentence in (*straggler_lines(report), *sentences(report)):
        console.print(Text(sentence))
    _print_warnings(console, report)
    console.print()
    # Never wrapped, so that it can be copied.
    console.print(Text.assemble("Next: ", (next_command, "cyan")), soft_wrap=True)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]  # a StringIO
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _console(destination: Destination) -> Console:
    return Console(
        file=io.StringIO(),
        width=destination.width or _UNLIMITED,
        force_terminal=destination.colour,
        no_color=not destination.colour,
        color_system="standard" if destination.colour else None,
        highlight=False,
        soft_wrap=destination.width is None,
        legacy_windows=False,
    )


def _run_line(report: Report) -> str:
    run = report.run
    here = f"{len(run.ranks)} of {run.world_size} ranks" if run.world_size else _ranks(run.ranks)
    facts = [here, run.device or "unknown GPU", run.backend or "", *_versions(run.versions)]
    return "ddptrace: " + ", ".join(fact for fact in facts if fact)


def _ranks(ranks: list[int]) -> str:
    return f"{counted(len(ranks), 'rank')}, world size unknown"


def _versions(versions: dict[str, str]) -> list[str]:
    return [f"{name.upper()} {version}" for name, version in versions.items() if name in _SHOWN]


def _print_step(
    console: Console, number: int | None, rows: list[StepMetrics], destination: Destination
) -> None:
    shown = longest(rows, _MOST_RANKS)
    title = "whole recording" if number is None else f"step {number}"
    if len(shown) < len(rows):
        title += f", the {len(shown)} of {len(rows)} ranks with the longest steps"
    console.print(Text(title))
    table = _table(shown)
    needed = console.measure(table, options=console.options.update(width=_UNLIMITED)).maximum
    if destination.width is None or needed <= destination.width:
        console.print(table)
        return
    for row in shown:
        console.print(_stacked(row))


def _table(rows: list[StepMetrics]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("rank", justify="right", no_wrap=True)
    for name in COLUMNS:
        table.add_column(name, justify="right", no_wrap=True, min_width=7)
    table.add_column("", no_wrap=True)
    for row in rows:
        mark = Text("PARTIAL", style="bold red") if row.partial else ""
        table.add_row(str(row.rank), *cells(row), mark)
    return table


def _stacked(row: StepMetrics) -> Text:
    """Return one rank as several short lines."""
    lines = [f"rank {row.rank}{'  PARTIAL' if row.partial else ''}"]
    lines += [f"  {name:<8}{cell:>9}" for name, cell in zip(COLUMNS, cells(row), strict=True)]
    return Text("\n".join(lines))


def _print_summary(console: Console, report: Report) -> None:
    times = report.summary.step_ns
    if times is None:
        return
    console.print(
        Text(
            f"step time over the run: median {ms(times.median)}, p95 {ms(times.p95)}, "
            f"min {ms(times.min)}, max {ms(times.max)} ms (the longest rank's)"
        )
    )


def _print_warnings(console: Console, report: Report) -> None:
    if report.run.warnings:
        console.print()
    by_code: dict[str, list[Warn]] = {}
    for warning in report.run.warnings:
        by_code.setdefault(warning.code, []).append(warning)
    for same in by_code.values():
        for warning in same[:_MOST_OF_A_KIND]:
            who = "" if warning.rank is None else f"rank {warning.rank}: "
            console.print(Text.assemble(("warning: ", "yellow"), who + warning.message))
        if len(same) > _MOST_OF_A_KIND:
            more = f"{len(same) - _MOST_OF_A_KIND} more of this kind; all are in the JSON"
            console.print(Text.assemble(("warning: ", "yellow"), more))
