"""`ddptrace merge`: all ranks in one file for Perfetto."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ddptrace.cli.inputs import CommKernel, Jobs, Partial, Ranks, Runs, StepRange, read
from ddptrace.cli.progress import on_stderr
from ddptrace.cli.terminal import write, write_pieces
from ddptrace.errors import OutputError


def merge(
    runs: Runs,
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", metavar="FILE", help="The file to write; gzipped if it ends in .gz."
        ),
    ],
    kernels: Annotated[
        bool, typer.Option("--kernels", help="Draw every kernel by name, however many there are.")
    ] = False,
    ranks: Ranks = None,
    comm_kernel: CommKernel = None,
    step_range: StepRange = None,
    partial: Partial = False,
    jobs: Jobs = None,
) -> None:
    """Write all ranks into one file for Perfetto (https://ui.perfetto.dev), on aligned clocks.

    A process a rank: steps, compute, communication hidden and exposed with its waiting, copies,
    collectives with arrows between their ranks. Exit codes: 0 fine, 2 bad input or a rank that
    could not be read whole.
    """
    from ddptrace.metrics.measured import Measured
    from ddptrace.outputs.clocks import clock_lines
    from ddptrace.outputs.perfetto import render, summary
    from ddptrace.report import report_of

    _check_output(output, runs)
    measured = Measured.of(read(runs, ranks, comm_kernel, step_range, jobs))
    found = report_of(measured)
    progress = on_stderr("writing", "ranks")
    write_pieces(output, render(measured, found, every_kernel=kernels, progress=progress))
    lines = [*summary(measured, found, every_kernel=kernels), *clock_lines(found)]
    write("-", "\n".join([*lines, f"Open {output} in https://ui.perfetto.dev"]) + "\n")
    if not (found.is_whole or partial):
        raise typer.Exit(2)


def _check_output(output: Path, runs: list[str]) -> None:
    """Refuse an output that cannot be made, or that would take the place of a trace."""
    from ddptrace.sources.discovery import is_input

    if str(output) == "-":
        raise OutputError("-o -: give a file; Perfetto opens files")
    if output.is_dir():
        raise OutputError(f"{output}: is a folder; name a file in it")
    if not output.absolute().parent.is_dir():
        raise OutputError(f"{output}: its folder does not exist; make it first")
    if is_input(output, runs):
        raise OutputError(f"{output}: is a file of the run itself; give another name")
