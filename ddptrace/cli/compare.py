"""`ddptrace compare`: two runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ddptrace.cli.inputs import CommKernel, Jobs, Ranks, StepRange, read
from ddptrace.cli.saved import saved_report
from ddptrace.cli.terminal import stdout_destination, write
from ddptrace.errors import SavedReportError, UsageError

if TYPE_CHECKING:
    from ddptrace.compare.comparison import Comparison
    from ddptrace.report import Report  # numpy behind it would slow `--help` down

_WHAT = "A run's folder, a trace file, a glob pattern in quotes, or a report that --json saved."


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help=_WHAT)],
    b: Annotated[str, typer.Argument(metavar="B", help="The same: what is held against A.")],
    json: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the comparison as JSON; - for stdout.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write both as one offline page.")
    ] = None,
    ranks: Ranks = None,
    comm_kernel: CommKernel = None,
    step_range: StepRange = None,
    jobs: Jobs = None,
) -> None:
    """Compare two runs: where the step of B takes longer or shorter than A's, and what changed.

    The differences of the parts add up to the difference of the step. Options say how traces are
    read, of both runs. It is no judgement: exit codes are 0, and 2 for bad input.
    """
    from ddptrace.compare.comparison import compare as side_by_side
    from ddptrace.compare.comparison import to_json
    from ddptrace.outputs.comparison import render

    if str(html) == "-":
        raise UsageError("--html needs a file; only --json can go to standard output")
    _check_output("--json", json, (a, b))
    _check_output("--html", None if html is None else str(html), (a, b))
    options = {"--ranks": ranks, "--comm-kernel": comm_kernel, "--step-range": step_range}
    given = [name for name, value in options.items() if value]

    def report_of(place: str) -> Report:
        from ddptrace import analyze

        try:
            run = read([place], ranks, comm_kernel, step_range, jobs)
        except SavedReportError as found:
            if Path(place).is_dir():
                raise  # a run was meant
            return saved_report(Path(found.path), given)
        return analyze(run)

    first, second = report_of(a), report_of(b)
    found = side_by_side(first, second).named(a, b)
    if html is not None:
        write(str(html), _page(found, first, second))
    if json is not None:
        write(json, to_json(found))
    if json != "-":
        write("-", render(found, stdout_destination()))


def _page(found: Comparison, a: Report, b: Report) -> str:
    from ddptrace.outputs.html.comparison import render

    return render(found, a, b)


def _check_output(option: str, output: str | None, inputs: tuple[str, str]) -> None:
    """Refuse an output that would take the place of what is compared."""
    if output in (None, "-"):
        return
    if Path(str(output)).resolve() in [Path(one).resolve() for one in inputs]:
        raise UsageError(f"{option} {output}: is one of the two to compare; give another name")
