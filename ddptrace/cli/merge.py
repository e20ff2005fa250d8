"""`ddptrace merge`: all ranks in one file for Perfetto."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ddptrace.cli.chosen import rank_list
from ddptrace.cli.progress import on_stderr
from ddptrace.cli.terminal import write, write_pieces
from ddptrace.errors import OutputError


def merge(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...", help="The run's folder, its trace files, or a glob pattern."
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", metavar="FILE", help="The file to write; gzipped if it ends in .gz."
        ),
    ],
    kernels: Annotated[
        bool, typer.Option("--kernels", help="Draw every kernel by name, however many there are.")
    ] = False,
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
    partial: Annotated[
        bool, typer.Option("--partial", help="Exit with 0 although a rank could not be read whole.")
    ] = False,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes to read with (default: one a core).")
    ] = None,
) -> None:
    """Write all ranks into one file for Perfetto (https://ui.perfetto.dev), on aligned clocks.

    A process a rank: steps, compute, communication hidden and exposed with its waiting, copies,
    collectives with arrows between their ranks. Exit codes: 0 fine, 2 bad input or a rank that
    could not be read whole.
    """
    from ddptrace import load_run
    from ddptrace.metrics.measured import Measured
    from ddptrace.outputs.clocks import clock_lines
    from ddptrace.outputs.perfetto import render, summary
    from ddptrace.report import report_of

    _check_output(output, runs)
    run = load_run(
        runs,
        ranks=None if ranks is None else rank_list(ranks),
        comm_kernels=comm_kernel or (),
        step_range=step_range,
        jobs=jobs,
        progress=on_stderr("reading"),
    )
    measured = Measured.of(run)
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
