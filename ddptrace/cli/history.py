"""`ddptrace history`: runs over time in one database."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from ddptrace.cli.inputs import CommKernel, Jobs, Partial, Ranks, StepRange, read
from ddptrace.cli.terminal import stdout_destination, write
from ddptrace.errors import HistoryError, RunError, UsageError
from ddptrace.wording import of_ranks, one_line

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
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="A run's folder, a trace file, a glob pattern in quotes, or a saved report.",
        ),
    ],
    db: Db,
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
    ranks: Ranks = None,
    comm_kernel: CommKernel = None,
    step_range: StepRange = None,
    partial: Partial = False,
    jobs: Jobs = None,
) -> None:
    """Add a run, with all of its ranks or not at all; make the database if there is none.

    When it is said to be added, it is on the disk. A run that is there already is not added again.
    Several jobs may add at once. Exit codes: 0 added, or there already; 2 bad input.
    """
    from ddptrace.history.revision import revision
    from ddptrace.history.runs import Entry
    from ddptrace.history.runs import add as put
    from ddptrace.history.store import check_place, writing

    check_place(db)
    if not all(tag.strip() for tag in tags or ()):
        raise UsageError("--tag: a tag without a character finds nothing; leave it out")
    figures = _figures(run, ranks, comm_kernel, step_range, jobs, partial=partial)
    with writing(db) as writer:
        if writer.notice:
            sys.stderr.write(f"{writer.notice}\n")
        added = put(writer, Entry(figures, revision(commit, branch), tuple(tags or ())))
    said = "added" if added.is_new else "nothing added: the same steps are there already"
    write("-", f"{said} as run {added.number} of {one_line(db)}\n")


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
    if output.resolve() == db.resolve():
        raise UsageError(f"--output {one_line(output)}: is the history itself; give another name")
    choice = _choice(branch, tags)
    with reading(db) as database:
        found = stored_runs(database, choice)
        ledgers = slowest_ledgers(database)
    if not found:
        raise HistoryError(f"{one_line(db)}: has no run{choice.words}, so there is nothing to draw")
    write(str(output), render(found, ledgers, choice))


def _choice(branch: str | None, tags: list[str] | None) -> Choice:
    from ddptrace.history.runs import Choice

    return Choice(branch, tuple(tags or ()))


def _figures(
    place: str,
    ranks: str | None,
    comm_kernel: list[str] | None,
    step_range: str | None,
    jobs: int | None,
    *,
    partial: bool,
) -> RunFigures:
    """Return the figures of a run, or of a saved report; RunError when it has no usable step."""
    from ddptrace.check.measured import figures_of

    run = read([place], ranks, comm_kernel, step_range, jobs)
    found = figures_of(run, place)
    if run.partial_ranks and not partial:
        raise RunError(
            f"{one_line(place)}: {of_ranks(run.partial_ranks)} could not be read whole; "
            "--partial adds the run without"
        )
    if not found.is_usable:
        raise RunError(f"{one_line(place)}: has no usable step, so there is nothing to add")
    return found
