"""`ddptrace export`: the report as tables, for SQL, notebooks and spreadsheets."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ddptrace.cli.inputs import CommKernel, Jobs, Partial, Ranks, Runs, StepRange, read
from ddptrace.wording import counted, one_line, ranges

if TYPE_CHECKING:
    from ddptrace.report import Report  # numpy behind it would slow `--help` down


def export(
    runs: Runs,
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="FILE", help="What to write: .db (SQLite), .parquet or .csv."
        ),
    ],
    replace: Annotated[bool, typer.Option("--replace", help="Write over files of before.")] = False,
    ranks: Ranks = None,
    comm_kernel: CommKernel = None,
    step_range: StepRange = None,
    partial: Partial = False,
    jobs: Jobs = None,
) -> None:
    """Write the report as tables: the run, its ranks, steps and collectives.

    A .db is one SQLite database, ready for Datasette. Of .parquet and .csv there is a file a table:
    out.csv becomes out.steps.csv, out.collectives.csv, and so on. Exit codes: 0 fine, 2 bad input
    or a rank that could not be read whole.
    """
    from ddptrace import analyze
    from ddptrace.outputs.exports import Target, write

    target = Target.of(output, replace=replace)
    run = read(runs, ranks, comm_kernel, step_range, jobs)
    target.check_not_among(trace.path for trace in run.traces)
    found = analyze(run)
    for path in write(found, target):
        sys.stderr.write(f"wrote {one_line(path)}\n")
    for line in _notes(found, partial=partial):
        sys.stderr.write(f"{line}\n")
    if not (found.is_whole or partial):
        raise typer.Exit(2)


def _notes(found: Report, *, partial: bool) -> list[str]:
    """Return what a user should know who does not look into the table of warnings."""
    notes = []
    if found.run.warnings:
        notes.append(f"the table `warnings` has {counted(len(found.run.warnings), 'warning')}")
    if not (found.is_whole or partial):
        what = [f"rank {ranges(found.run.partial_ranks)}"] if found.run.partial_ranks else []
        what += [counted(len(found.run.unreadable), "file")] if found.run.unreadable else []
        notes.append(f"not read whole: {', '.join(what)}; --partial exits with 0 all the same")
    return notes
