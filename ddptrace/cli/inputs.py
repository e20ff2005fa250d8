"""The options that say what is read, and how: the same of every command that reads a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from ddptrace.cli.chosen import rank_list
from ddptrace.cli.numbers import processes
from ddptrace.cli.progress import on_stderr

if TYPE_CHECKING:
    from ddptrace.model import Run as RunOfTraces  # numpy behind it would slow `--help` down

Runs: TypeAlias = Annotated[
    list[str],
    typer.Argument(metavar="RUN...", help="The run's folder, its trace files, or a glob pattern."),
]
Ranks: TypeAlias = Annotated[
    str | None, typer.Option(metavar="LIST", help="Only these ranks, such as 0,3 or 0-7.")
]
CommKernel: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="REGEX", help="Kernels whose name matches are communication, too. May be repeated."
    ),
]
StepRange: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="REGEX",
        help="NVTX ranges whose name matches are steps (default: the names usual for steps).",
    ),
]
Partial: TypeAlias = Annotated[
    bool, typer.Option("--partial", help="Exit with 0 although a rank could not be read whole.")
]
Jobs: TypeAlias = Annotated[
    int | None,
    typer.Option(
        parser=processes, metavar="N", help="Processes to read with (default: one a core)."
    ),
]


def read(
    runs: list[str],
    ranks: str | None,
    comm_kernel: list[str] | None,
    step_range: str | None,
    jobs: int | None,
) -> RunOfTraces:
    """Return the run that the options name, with progress on a terminal."""
    from ddptrace import load_run

    return load_run(
        runs,
        ranks=None if ranks is None else rank_list(ranks),
        comm_kernels=comm_kernel or (),
        step_range=step_range,
        jobs=jobs,
        progress=on_stderr("reading"),
    )
