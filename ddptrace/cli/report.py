"""`ddptrace report`: where each rank's step went."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ddptrace.cli.chosen import MOST_DIGITS, rank_list
from ddptrace.cli.progress import on_stderr
from ddptrace.cli.terminal import stdout_destination, write
from ddptrace.errors import UsageError

if TYPE_CHECKING:
    from ddptrace.report import Report  # numpy behind it would slow `--help` down


def report(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...", help="The run's folder, its trace files, or a glob pattern."
        ),
    ],
    step: Annotated[
        str,
        typer.Option(metavar="N|all|median", help="The step to show; N narrows every output."),
    ] = "median",
    ranks: Annotated[
        str | None, typer.Option(metavar="LIST", help="Only these ranks, such as 0,3 or 0-7.")
    ] = None,
    comm_kernel: Annotated[
        list[str] | None,
        typer.Option(
            metavar="REGEX",
            help="Kernels whose name matches are communication, too. May be repeated.",
        ),
    ] = None,
    step_range: Annotated[
        str | None,
        typer.Option(
            metavar="REGEX",
            help="NVTX ranges whose name matches are steps (default: the names usual for steps).",
        ),
    ] = None,
    json: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the report as JSON; - for stdout.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the report as one offline page.")
    ] = None,
    timeline: Annotated[
        bool, typer.Option("--timeline", help="Put the intervals to draw into the JSON.")
    ] = False,
    partial: Annotated[
        bool, typer.Option("--partial", help="Exit with 0 although a rank could not be read whole.")
    ] = False,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes to read with (default: one a core).")
    ] = None,
) -> None:
    """Report where each rank's step went: compute, communication hidden and exposed, idle.

    Reads traces of torch.profiler (.json, .json.gz) and exports of Nsight Systems (.sqlite) of all
    ranks. Exit codes: 0 fine, 2 bad input
    or a rank that could not be read whole.
    """
    from ddptrace import analyze, load_run
    from ddptrace.report import only_step, to_json

    if str(html) == "-":
        raise UsageError("--html needs a file; only --json can go to standard output")
    chosen = _step(step)
    run = load_run(
        runs,
        ranks=None if ranks is None else rank_list(ranks),
        comm_kernels=comm_kernel or (),
        step_range=step_range,
        jobs=jobs,
        progress=on_stderr("reading"),
    )
    found = analyze(run)
    if chosen is not None:
        found = only_step(found, chosen)
    if json is not None:
        write(json, to_json(found, timeline=timeline))
    if html is not None:
        write(str(html), _page(found, step))
    if json != "-":
        given = {
            "--ranks": [ranks] if ranks else [],
            "--comm-kernel": comm_kernel or [],
            "--step-range": [step_range] if step_range else [],
        }
        shown = ["--html", "report.html"] if html is None else ["--step", "all"]
        write("-", _text(found, step, _command(runs, given, shown)))
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


def _text(found: Report, step: str, next_command: str) -> str:
    from ddptrace.outputs.text import render

    return render(found, step=step, next_command=next_command, destination=stdout_destination())


def _page(found: Report, step: str) -> str:
    from ddptrace.outputs.html import render

    return render(found, step=step)
