"""The collectives of a step for a terminal: what each of them cost, and whom it kept waiting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from rich.console import Console
from rich.text import Text

from ddptrace.metrics.collective_rows import Collective, CollectiveOnRank
from ddptrace.metrics.steps import StepMetrics
from ddptrace.outputs.clocks import clock_lines
from ddptrace.outputs.figures import MEDIAN, UNKNOWN, percent, rows_by_step
from ddptrace.outputs.figures import ms as _ms
from ddptrace.outputs.terminal import empty_table, print_fitting
from ddptrace.report import Report
from ddptrace.wording import counted, one_line

_MOST_ROWS = 50
_MOST_SUMS = 4
_LEGEND = (
    "times in ms, sizes in 10^6 bytes, busbw in GB/s, in brackets a rank. transfer: the shortest "
    "duration; wait: the longest; exposed: the most; hidden: how much was on that rank"
)
_PLACE = "#: its place in its process group; "
_BUCKETS = (
    "queue: from when its gradients were ready to its start, the longest; held: blocked "
    "behind an earlier bucket's gradients, or by a backlog behind the all-reduce before"
)

ms = partial(_ms, decimals=3)  # a small collective takes a few µs

_Cell = Callable[[Collective], str]


def print_collectives(console: Console, report: Report, step: str) -> None:
    """Print the collectives of the steps to show, their sums, and how many were matched.

    `step` is what `rows_by_step` takes.
    """
    by_step = _by_step(report, step)
    columns = _columns([one for rows in by_step.values() for one in rows])
    for number, rows in by_step.items():
        console.print()
        _print_step(console, _title(report, number), rows, columns)
        _print_sums(console, rows, [row for row in report.steps if row.step == number])
    console.print()
    if any(by_step.values()):
        first = _PLACE if "#" in columns else ""
        console.print(Text(first + _LEGEND, style="dim"))
        if "queue" in columns:
            console.print(Text(_BUCKETS, style="dim"))
    console.print(Text(_matching(report, "run" if step in (MEDIAN, "all") else "step")))
    for line in clock_lines(report):
        console.print(Text(line))


def _by_step(report: Report, choice: str) -> dict[int | None, list[Collective]]:
    """Return the collectives of each step to show; with all steps also those of none."""
    shown = list(rows_by_step(report, choice))
    if choice == "all" and any(one.step is None for one in report.collectives):
        shown = [*(number for number in shown if number is not None), None]
    return {number: [one for one in report.collectives if one.step == number] for number in shown}


def _title(report: Report, number: int | None) -> str:
    if number is not None:
        return f"step {number}"
    numbered = any(row.step is not None for row in report.steps)
    return "outside the steps" if numbered else "whole recording"


def _print_step(
    console: Console, title: str, rows: list[Collective], columns: dict[str, _Cell]
) -> None:
    shown = _costliest(rows)
    title += f": {counted(len(rows), 'collective')}"
    if len(shown) < len(rows):
        title += f", the {len(shown)} with the most exposed time"
    console.print(Text(title))
    if not shown:
        return
    table = empty_table()
    for name in columns:
        table.add_column(name, justify="left" if name in _WORDS else "right", no_wrap=True)
    cells = [[cell(one) for cell in columns.values()] for one in shown]
    for row in cells:
        table.add_row(*map(Text, row))
    print_fitting(console, table, [_stacked(list(columns), row) for row in cells])


def _costliest(rows: Sequence[Collective]) -> list[Collective]:
    """Return at most so many collectives, those with the most exposed time, in their order."""
    order = sorted(range(len(rows)), key=lambda at: -_worst(rows[at]).exposed_ns)
    return [rows[at] for at in sorted(order[:_MOST_ROWS])]


def _stacked(names: Sequence[str], cells: Sequence[str]) -> Text:
    """Return one collective as several short lines, the first of what it is."""
    told = [(name, cell) for name, cell in zip(names, cells, strict=True) if name in _TITLE]
    first = ", ".join(cell if name in _WORDS else f"{name} {cell}" for name, cell in told)
    rest = [(name, cell) for name, cell in zip(names, cells, strict=True) if name not in _TITLE]
    return Text("\n".join([first, *(f"  {name:<8}{cell:>12}" for name, cell in rest)]))


def _columns(rows: Sequence[Collective]) -> dict[str, _Cell]:
    """Return the columns, and what they say of a collective.

    The first is what tells the collectives of a step apart: the bucket where any is known. Where
    all are buckets, all are all-reduces.
    """
    is_bucket = [one.bucket is not None for one in rows]
    first: dict[str, _Cell] = {"bucket": _bucket} if any(is_bucket) else {"#": _order}
    group: dict[str, _Cell] = {"group": _group} if len({one.group for one in rows}) > 1 else {}
    op: dict[str, _Cell] = {} if rows and all(is_bucket) else {"op": _op}
    return first | group | op | _FIGURES | (_OF_BUCKETS if any(is_bucket) else {})


def _bucket(one: Collective) -> str:
    return UNKNOWN if one.bucket is None else str(one.bucket)


def _order(one: Collective) -> str:
    return str(one.order)


def _group(one: Collective) -> str:
    return one_line(one.group or UNKNOWN)


def _op(one: Collective) -> str:
    return one_line(one.op or UNKNOWN)


def _size(one: Collective) -> str:
    return UNKNOWN if one.size_bytes is None else f"{one.size_bytes / 1e6:.2f}"


def _rank_count(one: Collective) -> str:
    here = len(one.ranks)
    return str(here) if one.group_size in (None, here) else f"{here} of {one.group_size}"


def _wait(one: Collective) -> str:
    return _longest((each.wait_ns, each.rank) for each in one.ranks)


def _queue(one: Collective) -> str:
    return _longest((each.bucket.queue_ns, each.rank) for each in one.ranks if each.bucket)


def _held(one: Collective) -> str:
    """Return what held a bucket up on any rank once its own gradients were ready."""
    found = [each.bucket for each in one.ranks if each.bucket]
    marks = {
        "blocked": any(each.blocked for each in found),
        "backlog": any(each.backlog for each in found),
    }
    if all(each.blocked is None and each.backlog is None for each in found):
        return UNKNOWN
    return "both" if all(marks.values()) else "".join(mark for mark in marks if marks[mark])


def _longest(times: Iterable[tuple[int | None, int]]) -> str:
    """Return the longest of some times that are known, with its rank: the lowest of several."""
    known = [(ns, -rank) for ns, rank in times if ns is not None]
    if not known:
        return UNKNOWN
    ns, rank = max(known)
    return _of_rank(ns, -rank) if ns else ms(0)


def _worst(one: Collective) -> CollectiveOnRank:
    return max(one.ranks, key=lambda each: (each.exposed_ns, -each.rank))


def _exposed(one: Collective) -> str:
    worst = _worst(one)
    return _of_rank(worst.exposed_ns, worst.rank)


def _hidden(one: Collective) -> str:
    worst = _worst(one)
    whole = worst.hidden_ns + worst.exposed_ns
    return percent(worst.hidden_ns / whole if whole else None)


def _bandwidth(one: Collective) -> str:
    return UNKNOWN if one.busbw_gb_s is None else f"{one.busbw_gb_s:.2f}"


def _of_rank(ns: int, rank: int) -> str:
    return f"{ms(ns)} ({rank})"


_FIGURES: dict[str, _Cell] = {
    "MB": _size,
    "ranks": _rank_count,
    "transfer": lambda one: ms(one.transfer_ns),
    "wait": _wait,
    "exposed": _exposed,
    "hidden": _hidden,
    "busbw": _bandwidth,
}
_OF_BUCKETS: dict[str, _Cell] = {"queue": _queue, "held": _held}
_WORDS = ("group", "op", "held")
_TITLE = ("bucket", "#", "group", "op")


def _print_sums(console: Console, rows: Sequence[Collective], steps: Sequence[StepMetrics]) -> None:
    if not rows:
        return
    known = [one.transfer_ns for one in rows if one.transfer_ns is not None]
    total_ns = sum(known) if known else None
    words = [f"transfer {ms(total_ns, at_least=len(known) < len(rows))} ms", *_exposed_sums(steps)]
    console.print(Text(f"sums: {'; '.join(words)}"))


@dataclass(frozen=True, slots=True)
class _Exposed:
    """The exposed communication of a step on one rank."""

    rank: int
    wait_ns: int
    transfer_ns: int

    @classmethod
    def of(cls, row: StepMetrics) -> _Exposed | None:
        """Return it; None where it is not known what of it is waiting."""
        if row.exposed_wait_ns is None or row.exposed_transfer_ns is None:
            return None
        return cls(row.rank, row.exposed_wait_ns, row.exposed_transfer_ns)


def _exposed_sums(steps: Sequence[StepMetrics]) -> Iterator[str]:
    """Give what was exposed on each rank: on many of those with the most, in order of ranks."""
    known = [found for row in steps if (found := _Exposed.of(row)) is not None]
    most = sorted(known, key=lambda one: -(one.wait_ns + one.transfer_ns))[:_MOST_SUMS]
    for one in sorted(most, key=lambda one: one.rank):
        yield (
            f"exposed on rank {one.rank}: waiting {ms(one.wait_ns)}, "
            f"transfer {ms(one.transfer_ns)} ms"
        )
    if len(most) < len(known):
        yield f"less on {counted(len(known) - len(most), 'more rank')}"


def _matching(report: Report, whole: str) -> str:
    """Return a line on how many collectives of the run, or step, have a record of every rank."""
    total = len(report.collectives)
    if not total:
        return f"the {whole} has no collectives"
    matched = sum(one.transfer_ns is not None for one in report.collectives)
    line = f"{matched} of {total} collectives of the {whole} matched"
    unmatched = (one for one in report.collectives if one.transfer_ns is None)
    alone = Counter(each.rank for one in unmatched for each in one.ranks)
    if alone:
        line += (
            f"; unmatched: {', '.join(f'rank {rank}: {n}' for rank, n in sorted(alone.items()))}"
        )
    if len(report.run.ranks) == 1 and not matched:
        line += "; one rank alone does not tell what of its time is waiting"
    return line
