"""The report for a terminal, to be read in ten seconds."""

from __future__ import annotations

from collections.abc import Collection

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ddptrace.metrics.steps import StepMetrics
from ddptrace.model import Warn
from ddptrace.outputs.collectives import print_collectives
from ddptrace.outputs.figures import cells, columns_of, longest, ms, rows_by_step
from ddptrace.outputs.findings import confidence_line
from ddptrace.outputs.said import said
from ddptrace.outputs.terminal import Destination, empty_table, print_fitting
from ddptrace.report import Report
from ddptrace.wording import counted, one_line

_SHOWN = ("cuda", "hip", "nccl", "rccl")
_MOST_RANKS = 16
_MOST_OF_A_KIND = 4
_LEGEND = "ms; compute + exposed + copies + idle = step. hidden: communication under compute, "
_WAITING = "exposed: not, of that waiting: for another rank; "
_TAIL = "tail: communication after the last compute before its end"


def render(
    report: Report,
    *,
    step: str,
    next_command: str,
    destination: Destination,
    collectives: bool = False,
) -> str:
    """Return the report as text: headline, a table of ranks, warnings, the next command.

    `step` is "median" for the median step's table, "all" for one of every step in the report.
    """
    console = destination.console()
    console.print(Text(one_line(_run_line(report)), style="dim"))
    console.print()
    console.print(Text(one_line(report.diagnosis.headline), style="bold"))
    sure = confidence_line(report)
    told = filter(None, (report.diagnosis.where, sure))
    console.print(Text("\n".join(map(one_line, told))))
    steps = rows_by_step(report, step)
    columns = columns_of(steps)
    for number, rows in steps.items():
        console.print()
        _print_step(console, number, rows, columns)
    console.print()
    console.print(Text(_legend(columns), style="dim"))
    _print_summary(console, report)
    for sentence in said(report):
        console.print(Text(sentence))
    if collectives:
        print_collectives(console, report, step)
    _print_warnings(console, report)
    console.print()
    # Never wrapped, so that it can be copied.
    console.print(Text.assemble("Next: ", (one_line(next_command), "cyan")), soft_wrap=True)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]  # a StringIO
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _run_line(report: Report) -> str:
    run = report.run
    here = f"{len(run.ranks)} of {run.world_size} ranks" if run.world_size else _ranks(run.ranks)
    facts = [here, run.device or "unknown GPU", run.backend or "", *_versions(run.versions)]
    return "ddptrace: " + ", ".join(fact for fact in facts if fact)


def _ranks(ranks: list[int]) -> str:
    return f"{counted(len(ranks), 'rank')}, world size unknown"


def _versions(versions: dict[str, str]) -> list[str]:
    return [f"{name.upper()} {version}" for name, version in versions.items() if name in _SHOWN]


def _legend(columns: Collection[str]) -> str:
    return _LEGEND + (_WAITING if "waiting" in columns else "exposed: not; ") + _TAIL


def _print_step(
    console: Console, number: int | None, rows: list[StepMetrics], columns: dict[str, str]
) -> None:
    shown = longest(rows, _MOST_RANKS)
    title = "whole recording" if number is None else f"step {number}"
    if len(shown) < len(rows):
        title += f", the {len(shown)} of {len(rows)} ranks with the longest steps"
    console.print(Text(title))
    print_fitting(console, _table(shown, columns), [_stacked(row, columns) for row in shown])


def _table(rows: list[StepMetrics], columns: dict[str, str]) -> Table:
    table = empty_table()
    table.add_column("rank", justify="right", no_wrap=True)
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True, min_width=7)
    table.add_column("", no_wrap=True)
    for row in rows:
        mark = Text("PARTIAL", style="bold red") if row.partial else ""
        table.add_row(str(row.rank), *cells(row, columns), mark)
    return table


def _stacked(row: StepMetrics, columns: dict[str, str]) -> Text:
    """Return one rank as several short lines."""
    lines = [f"rank {row.rank}{'  PARTIAL' if row.partial else ''}"]
    figures = zip(columns, cells(row, columns), strict=True)
    lines += [f"  {name:<8}{cell:>9}" for name, cell in figures]
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
            console.print(Text.assemble(("warning: ", "yellow"), one_line(who + warning.message)))
        if len(same) > _MOST_OF_A_KIND:
            more = f"{len(same) - _MOST_OF_A_KIND} more of this kind; all are in the JSON"
            console.print(Text.assemble(("warning: ", "yellow"), more))
