"""`ddptrace history`: runs over time in one database."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from ddptrace.cli.check_inputs import Reading, figures_at, step_times
from ddptrace.cli.check_outputs import write_whole
from ddptrace.cli.inputs import CommKernel, Jobs, Ranks, StepRange
from ddptrace.cli.terminal import stdout_destination, write
from ddptrace.errors import HistoryError, RunError, UsageError
from ddptrace.wording import one_line

if TYPE_CHECKING:
    from ddptrace.check.figures import RunFigures
    from ddptrace.history.runs import Choice  # numpy behind it would slow `--help` down

Db: TypeAlias = Annotated[
    Path, typer.Option("--db", "--history", metavar="FILE", help="The history, such as history.db.")
]
Branch: TypeAlias = Annotated[
    str | None, typer.Option(metavar="NAME", help="Only runs of this branch.")
]
Tags: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="TAG", help="Only runs with this tag. May be repeated."),
]
Json: TypeAlias = Annotated[
    str | None, typer.Option(metavar="FILE", help="Write it as JSON; - for stdout.")
]

commands = typer.Typer(
    help="Keep runs over time in one SQLite database: add, list, show, plot.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@commands.command()
def add(
    db: Db,
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN",
            help="A run's folder, a trace, a glob pattern in quotes, a saved report or baseline, "
            "or a CSV file of step times.",
        ),
    ] = None,
    steps: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CSV",
            help="In the place of RUN: step times alone, a CSV file a run. May be repeated.",
        ),
    ] = None,
    commit: Annotated[
        str | None,
        typer.Option(metavar="SHA", help="The commit (default: from the CI system, else git)."),
    ] = None,
    branch: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The branch (default: from the CI system, else git)."),
    ] = None,
    tags: Annotated[
        list[str] | None,
        typer.Option("--tag", metavar="TAG", help="A word to find the run by. May be repeated."),
    ] = None,
    new_start: Annotated[
        bool,
        typer.Option("--new-start", help="From here on earlier runs are not compared with."),
    ] = False,
    ranks: Ranks = None,
    comm_kernel: CommKernel = None,
    step_range: StepRange = None,
    jobs: Jobs = None,
) -> None:
    """Add a run, with all of its ranks or not at all; make the database if there is none.

    When it is said to be added, it is on the disk. A run that is there already is not added again.
    Of a rank that could not be read whole nothing is added, which is noted. Several jobs may add at
    once. Exit codes: 0 added, or there already; 2 bad input.
    """
    from ddptrace.history.revision import revision
    from ddptrace.history.runs import Entry
    from ddptrace.history.runs import add as put
    from ddptrace.history.store import check_place, writing

    check_place(db)
    if not all(tag.strip() for tag in tags or ()):
        raise UsageError("--tag: a tag without a character finds nothing; leave it out")
    found = _given(run, steps, Reading(ranks, comm_kernel, step_range, jobs))
    for figures in found:
        if not figures.is_usable:
            raise RunError(f"{figures.name}: has no usable step, so there is nothing to add")
        for note in figures.notes:
            sys.stderr.write(f"note: {one_line(note)}\n")
    of = revision(commit, branch)
    with writing(db) as writer:
        if writer.notice:
            sys.stderr.write(f"{writer.notice}\n")
        for place, figures in enumerate(found):
            anew = new_start and place == 0
            added = put(writer, Entry(figures, of, tuple(tags or ()), starts_anew=anew))
            said = "added" if added.is_new else "nothing added: the same steps are there already"
            marked = ", which is a new start now" if anew and not added.is_new else ""
            write("-", f"{said} as run {added.number} of {one_line(db)}{marked}\n")


@commands.command("list")
def list_runs(
    db: Db,
    branch: Branch = None,
    tags: Tags = None,
    last: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Only the last N of them.")
    ] = None,
    json: Json = None,
) -> None:
    """List runs in the order in which they were added: step time, commit, branch, tags.

    Exit codes: 0 fine, 2 no usable history.
    """
    from ddptrace.history.document import list_json
    from ddptrace.history.runs import stored_runs
    from ddptrace.history.store import reading
    from ddptrace.outputs.history import render_list

    _refuse_itself("--json", json, db)
    choice = _choice(branch, tags)
    with reading(db) as database:
        found = stored_runs(database, choice)
    shown = found if last is None else found[-last:]
    if json is not None:
        write(json, list_json(shown))
    if json != "-":
        write("-", render_list(shown, len(found), choice, stdout_destination()))


@commands.command()
def show(
    number: Annotated[int, typer.Argument(metavar="RUN", help="A run's number, as `list` tells.")],
    db: Db,
    json: Json = None,
) -> None:
    """Show one run: how it was set up, and the figures of each of its ranks.

    Exit codes: 0 fine, 2 no usable history, or no such run.
    """
    from ddptrace.history.document import show_json
    from ddptrace.history.runs import rank_rows, stored_run
    from ddptrace.history.store import reading
    from ddptrace.outputs.history import render_run

    _refuse_itself("--json", json, db)
    with reading(db) as database:
        run = stored_run(database, number)
        rows = rank_rows(database, number)
    if json is not None:
        write(json, show_json(run, rows))
    if json != "-":
        write("-", render_run(run, rows, stdout_destination()))


@commands.command()
def plot(
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="The page to write (.html).")
    ],
    db: Db,
    branch: Branch = None,
    tags: Tags = None,
) -> None:
    """Write one offline page with the step time of every run, and what each step was made of.

    Exit codes: 0 fine, 2 no usable history, or no run to draw.
    """
    from ddptrace.history.runs import slowest_ledgers, stored_runs
    from ddptrace.history.store import reading
    from ddptrace.outputs.history_page import render

    if str(output) == "-":
        raise UsageError("--output needs a file; only --json of list and show can go to stdout")
    _refuse_itself("--output", str(output), db)
    choice = _choice(branch, tags)
    with reading(db) as database:
        found = stored_runs(database, choice)
        ledgers = slowest_ledgers(database)
    if not found:
        raise HistoryError(f"{one_line(db)}: has no run{choice.words}, so there is nothing to draw")
    write_whole(str(output), render(found, ledgers, choice))


def _refuse_itself(option: str, output: str | None, db: Path) -> None:
    """Raise UsageError for an output that would take the place of the history."""
    if output not in (None, "-") and Path(str(output)).resolve() == db.resolve():
        raise UsageError(f"{option} {one_line(output)}: is the history itself; give another name")


def _given(run: str | None, steps: list[str] | None, reading: Reading) -> list[RunFigures]:
    if run is not None and not steps:
        return figures_at(run, reading)
    if run is None and steps:
        return step_times(steps, reading)
    raise UsageError("give the RUN to add, or --steps with a CSV file of its step times")


def _choice(branch: str | None, tags: list[str] | None) -> Choice:
    from ddptrace.history.runs import Choice

    return Choice(branch, tuple(tags or ()))
