"""`ddptrace check`: fail when a run became slower than its baseline."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ddptrace.cli.check_against import Against
from ddptrace.cli.check_inputs import Reading, all_figures, step_times
from ddptrace.cli.check_outputs import Outputs
from ddptrace.cli.history import Branch, Tags
from ddptrace.cli.inputs import CommKernel, Jobs, Ranks, StepRange
from ddptrace.errors import UsageError
from ddptrace.wording import counted

if TYPE_CHECKING:
    from ddptrace.check.figures import RunFigures  # numpy behind it would slow `--help` down
    from ddptrace.check.judge import Rules

_RUN = (
    "The run: its folder, a trace, a glob pattern in quotes, or a report that --json saved. "
    "Several are runs of the same job."
)
_BASELINE = "What it is held against: a saved baseline, or whatever RUN may be. May be repeated."
_FAIL_ON = (
    "A limit, such as step:5% or exposed_comm@0:20%,min=1ms. May be repeated "
    "(default: step:3%,min=50us)."
)


def check(
    runs: Annotated[list[str] | None, typer.Argument(metavar="RUN...", help=_RUN)] = None,
    baseline: Annotated[list[str] | None, typer.Option(metavar="FILE", help=_BASELINE)] = None,
    fail_on: Annotated[list[str] | None, typer.Option(metavar="LIMIT", help=_FAIL_ON)] = None,
    save_baseline: Annotated[
        str | None, typer.Option(metavar="FILE", help="Save the run as a baseline, if it passes.")
    ] = None,
    steps: Annotated[
        list[str] | None,
        typer.Option(metavar="CSV", help="In the place of RUN: step times alone, in a CSV file."),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="NAMES", help="What may be unlike, such as gpu,torch_version."),
    ] = None,
    inconclusive: Annotated[
        str,
        typer.Option(metavar="error|pass|fail", help="Exit with 2, 0 or 1 when it may be chance."),
    ] = "error",
    power: Annotated[
        bool, typer.Option("--power", help="Say what growth a number of steps can show.")
    ] = False,
    history: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A history: the last comparable runs of it, and drift."),
    ] = None,
    window: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="How many runs of the history count (default: 10)."),
    ] = None,
    branch: Branch = None,
    tags: Tags = None,
    json: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the result as JSON; - for stdout.")
    ] = None,
    junit: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the result as JUnit XML.")
    ] = None,
    gitlab: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write it as GitLab's Code Quality report.")
    ] = None,
    markdown: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write it as Markdown.")
    ] = None,
    github: Annotated[
        bool, typer.Option("--github", help="Print annotations; fill the step's summary.")
    ] = False,
    ranks: Ranks = None,
    comm_kernel: CommKernel = None,
    step_range: StepRange = None,
    jobs: Jobs = None,
) -> None:
    """Fail when a run became slower than its baseline, never on noise, and say which part grew.

    Exit codes: 0 passed, 1 a change of more than a limit, 2 could not tell.
    """
    rules = rules_of(fail_on, allow, inconclusive, power=power)
    reading = Reading(ranks, comm_kernel, step_range, jobs)
    outputs = Outputs(json, junit, gitlab, markdown, github=github)
    places = [*(runs or []), *(steps or [])]
    against = Against(baseline or [], history, window, branch, tuple(tags or ()))
    if bool(runs) == bool(steps):
        raise UsageError("give the RUN to check, or --steps with a CSV file of its step times")
    if not against.is_given and save_baseline is None:
        raise UsageError(
            "give --baseline with what to hold the run against, or --history, or --save-baseline "
            "to begin"
        )
    if save_baseline == "-":
        raise UsageError("--save-baseline needs a file, such as baseline.json")
    if not against.is_given and (asked := outputs.asked):
        raise UsageError(
            f"{asked[0]}: --save-baseline alone checks nothing, so there is no result to write"
        )
    against.check()
    outputs.check([*places, *against.files])
    code = 0
    with outputs.told_of_errors(rules, against.files, places):
        judge = against.opened(reading)
        current = all_figures(runs, reading) if runs else step_times(steps or [], reading)
        result = judge(current, rules) if against.is_given else None
    if result is not None:
        code = result.exit_code
        if not outputs.write(result, rules.inconclusive):
            code = code or 2
    if save_baseline is not None and code == 0:
        _save(current, Path(save_baseline))
    raise typer.Exit(code)


def rules_of(
    fail_on: Sequence[str] | None,
    allow: Sequence[str] | None,
    inconclusive: str,
    *,
    power: bool = False,
) -> Rules:
    """Return what the options ask for; UsageError, in one line, for what none can mean."""
    from ddptrace.check.judge import Rules, on_inconclusive
    from ddptrace.check.limits import DEFAULT, parse

    return Rules(
        limits=tuple(map(parse, fail_on or [DEFAULT])),
        allowed=frozenset(
            name.strip() for names in allow or () for name in names.split(",") if name.strip()
        ),
        inconclusive=on_inconclusive(inconclusive),
        power=power,
    )


def _save(runs: list[RunFigures], path: Path) -> None:
    from ddptrace.check.baseline import Baseline, save
    from ddptrace.check.figures import distinct, most_steps
    from ddptrace.check.statistics import FEW_STEPS

    kept = distinct(runs)
    save(Baseline(kept), path)
    sys.stderr.write(f"saved the baseline {path}\n")
    if (steps := most_steps(kept)) < FEW_STEPS:
        sys.stderr.write(
            f"note: it holds {counted(steps, 'step')} that count, and a check needs {FEW_STEPS}\n"
        )
