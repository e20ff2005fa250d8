"""`ddptrace report`: where each rank's step went."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ddptrace.cli.chosen import MOST_DIGITS
from ddptrace.cli.inputs import (
    CommKernel,
    Jobs,
    Partial,
    Ranks,
    Runs,
    StepRange,
    read,
)
from ddptrace.cli.terminal import stdout_destination, write
from ddptrace.errors import UsageError

if TYPE_CHECKING:
    from ddptrace.report import Report  # numpy behind it would slow `--help` down


def report(
    runs: Runs,
    step: Annotated[
        str,
        typer.Option(metavar="N|all|median", help="The step to show; N narrows every output."),
    ] = "median",
    ranks: Ranks = None,
    comm_kernel: CommKernel = None,
    step_range: StepRange = None,
    collectives: Annotated[
        bool,
        typer.Option("--collectives", help="Print a table of the step's collectives, too."),
    ] = False,
    json: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the report as JSON; - for stdout.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the report as one offline page.")
    ] = None,
    timeline: Annotated[
        bool, typer.Option("--timeline", help="Put the intervals to draw into the JSON.")
    ] = False,
    partial: Partial = False,
    jobs: Jobs = None,
) -> None:
    """Report where each rank's step went: compute, communication hidden and exposed, idle.

    Reads traces of torch.profiler (.json, .json.gz) and exports of Nsight Systems (.sqlite) of all
    ranks. Exit codes: 0 fine, 2 bad input
    or a rank that could not be read whole.
    """
    from ddptrace import analyze
    from ddptrace.report import only_step, to_json

    if str(html) == "-":
        raise UsageError("--html needs a file; only --json can go to standard output")
    chosen = _step(step)
    found = analyze(read(runs, ranks, comm_kernel, step_range, jobs))
    if chosen is not None:
        found = only_step(found, chosen)
    if json is not None:
        write(json, to_json(found, timeline=timeline))
    if html is not None:
        write(str(html), _page(found))
    if json != "-":
        given = {
            "--ranks": [ranks] if ranks else [],
            "--comm-kernel": comm_kernel or [],
            "--step-range": [step_range] if step_range else [],
        }
        shown = ["--html", "report.html"] if html is None else ["--step", "all"]
        command = _command(runs, given, shown)
        write("-", _text(found, step, command, collectives=collectives))
    if not (found.is_whole or partial):
        raise typer.Exit(2)


def _step(text: str) -> int | None:
    if text in ("all", "median"):
        return None
    if not (text.isdecimal() and len(text) < MOST_DIGITS):
        raise UsageError(f"--step {text[:40]}: give a step's number, all, or median")
    return int(text)


def _command(runs: list[str], given: dict[str, list[str]], shown: list[str]) -> str:
    """Return the next command to type: the same run, read the same way, shown otherwise."""
    options = [word for name, values in given.items() for value in values for word in (name, value)]
    if any(run.startswith("-") for run in runs):
        return shlex.join(["ddptrace", "report", *options, *shown, "--", *runs])
    return shlex.join(["ddptrace", "report", *runs, *options, *shown])


def _text(found: Report, step: str, next_command: str, *, collectives: bool) -> str:
    from ddptrace.outputs.text import render

    return render(
        found,
        step=step,
        next_command=next_command,
        destination=stdout_destination(),
        collectives=collectives,
    )


def _page(found: Report) -> str:
    from ddptrace.outputs.html import render

    return render(found)
