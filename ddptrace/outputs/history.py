"""A history for a terminal: its runs, or one of them with its ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from ddptrace.history.runs import Choice, StoredRun
from ddptrace.outputs.figures import UNKNOWN, ms
from ddptrace.outputs.terminal import Destination, empty_table, print_fitting
from ddptrace.wording import counted, one_line, ranges

_COMMIT = 12
_SECONDS = len("2026-01-01T00:00:00")
_RANK_COLUMNS = {
    "step": "step_ns",
    "untraced": "timed_step_ns",
    "compute": "compute_ns",
    "hidden": "hidden_comm_ns",
    "exposed": "exposed_comm_ns",
    "waiting": "exposed_wait_ns",
    "copies": "exposed_mem_ns",
    "idle": "idle_ns",
    "tail": "tail_ns",
}


def render_list(
    runs: Sequence[StoredRun], of: int, choice: Choice, destination: Destination
) -> str:
    """Return some runs as a table, the last of `of` that are meant by the choice."""
    console = destination.console()
    if not runs:
        console.print(Text(f"no run{choice.words}"))
        return _text(console)
    has_times = any(run.timed_step_ns is not None for run in runs)
    columns = ["run", "added (UTC)", "step", *(["untraced"] if has_times else [])]
    columns += ["steps", "ranks", "commit", "branch", "tags", "from"]
    table = empty_table()
    for column in columns:
        right = column in ("run", "step", "untraced", "steps", "ranks")
        table.add_column(column, justify="right" if right else "left", no_wrap=True)
    rows = [_run_cells(run, has_times=has_times) for run in runs]
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    narrow = [
        Text("  ".join(f"{name} {cell}" for name, cell in zip(columns, row, strict=True) if cell))
        for row in rows
    ]
    print_fitting(console, table, narrow)
    left_out = f", the last {len(runs)} shown" if len(runs) < of else ""
    untraced = "; untraced: steps without a profiler" if has_times else ""
    console.print(
        Text(
            f"{counted(of, 'run')}{choice.words}{left_out}; ms, medians of the steps{untraced}",
            style="dim",
        )
    )
    return _text(console)


def render_run(run: StoredRun, ranks: Sequence[dict[str, Any]], destination: Destination) -> str:
    """Return one run: what is told of it, how it was set up, and a table of its ranks."""
    console = destination.console()
    for name, value in _facts(run):
        console.print(Text.assemble((f"{name}: ", "bold"), one_line(value)))
    console.print()
    known = {
        title: name
        for title, name in _RANK_COLUMNS.items()
        if any(row[name] is not None for row in ranks)
    }
    table = empty_table()
    for title in ("rank", *known):
        table.add_column(title, justify="right", no_wrap=True)
    for row in ranks:
        table.add_row(str(row["rank"]), *(ms(row[name]) for name in known.values()))
    lines = [
        Text(
            f"rank {row['rank']}\n"
            + "\n".join(f"  {title:<8}{ms(row[name]):>9}" for title, name in known.items())
        )
        for row in ranks
    ]
    print_fitting(console, table, lines)
    console.print(Text("ms, medians of the steps", style="dim"))
    return _text(console)


def _run_cells(run: StoredRun, *, has_times: bool) -> list[str]:
    return [
        str(run.number),
        _when(run),
        ms(run.step_ns),
        *([ms(run.timed_step_ns)] if has_times else []),
        str(run.counted_steps or run.timed_steps),
        ranges(run.ranks),
        UNKNOWN if run.commit is None else run.commit[:_COMMIT],
        UNKNOWN if run.branch is None else run.branch,
        ", ".join([*run.tags, *(["(new start)"] if run.starts_anew else [])]),
        run.name,
    ]


def _when(run: StoredRun) -> str:
    return run.added_at[:_SECONDS].replace("T", " ")


def _facts(run: StoredRun) -> Iterator[tuple[str, str]]:
    yield "run", f"{run.number}, added {_when(run)} UTC from {run.name} (ddptrace {run.tool})"
    yield "commit", run.commit or UNKNOWN
    yield "branch", run.branch or UNKNOWN
    yield "tags", ", ".join(run.tags) or UNKNOWN
    if run.starts_anew:
        yield "new start", "earlier runs are not compared with this one and later ones"
    if run.step_ns is not None:
        yield "step", f"{ms(run.step_ns)} ms, the median of {counted(run.counted_steps, 'step')}"
    if run.timed_step_ns is not None:
        many = counted(run.timed_steps, "step")
        yield "step without a profiler", f"{ms(run.timed_step_ns)} ms, the median of {many}"
    for name, value in run.fingerprint.items():
        shown = ranges(value) if name == "ranks" and isinstance(value, list) else value
        yield name.replace("_", " "), str(shown)


def _text(console: Console) -> str:
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]  # a StringIO
    return "\n".join(line.rstrip() for line in lines) + "\n"
