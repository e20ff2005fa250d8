"""A check for a terminal: the outcome, each limit with its values, and which part grew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from ddptrace.check.figures import Source
from ddptrace.check.result import (
    CheckedRun,
    CheckResult,
    Growth,
    Interval,
    LimitResult,
    Outcome,
    PieceChange,
    Power,
)
from ddptrace.check.words import decimals, percent
from ddptrace.compare.parts import grouped
from ddptrace.outputs.figures import UNKNOWN, ms, signed
from ddptrace.outputs.terminal import Destination, empty_table, print_fitting
from ddptrace.wording import counted, of_ranks, one_line

_MOST_NAMES = 4
_STYLES: dict[Outcome, str] = {
    "pass": "bold green",
    "regression": "bold red",
    "inconclusive": "bold yellow",
    "not_comparable": "bold yellow",
}
_SOURCES: dict[Source, str] = {"recorded": "recorded", "timed": "timed without a profiler"}


def render(result: CheckResult, destination: Destination) -> str:
    """Return a check as text: the runs, the outcome, limits, what grew, notes, what to do."""
    console = destination.console()
    for name, side in (("baseline", result.baseline), ("current", result.current)):
        console.print(Text(f"{name}: {side_line(side)}", style="dim"))
    console.print()
    console.print(Text(result.headline, style=_STYLES[result.outcome]))
    if any(one.current_ns is not None for one in result.limits):
        _print_limits(console, result.limits)
    if (grown := shown_growth(result)) is not None:
        _print_growth(console, grown)
    _print_power(console, result.power)
    _print_notes(console, result)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]  # a StringIO
    return "\n".join(line.rstrip() for line in lines) + "\n"


def shown_growth(result: CheckResult) -> Growth | None:
    """Return which part grew, where a metric grew by more than its limit."""
    return result.growth if any(_is_above(one) for one in result.limits) else None


def _is_above(one: LimitResult) -> bool:
    """Tell whether a metric grew by more than its limit, surely or perhaps."""
    return (
        None not in (one.change_ns, one.allowed_ns)
        and one.outcome != "pass"
        and ((one.change_ns or 0) > (one.allowed_ns or 0))
    )


def _print_notes(console: Console, result: CheckResult) -> None:
    if result.notes or result.next_steps:
        console.print()
    for note in result.notes:
        console.print(Text.assemble(("note: ", "yellow"), note))
    for step in result.next_steps:
        console.print(Text.assemble("Next: ", (step, "cyan")), soft_wrap=True)


def side_line(side: CheckedRun) -> str:
    """Return which runs a side is of, and what of them counts."""
    told = [
        counted(number, f"{what} step")
        for number, what in ((side.recorded_steps, "recorded"), (side.timed_steps, "timed"))
        if number
    ]
    ranks = [of_ranks(side.ranks)] if side.ranks else []
    # In their order, which of a history is that of time.
    more = len(side.names) - _MOST_NAMES
    name = ", ".join(one_line(name) for name in side.names[:_MOST_NAMES])
    name += f" and {more} more" if more > 0 else ""
    runs = [counted(len(side.names), "run")] if side.names[1:] else []
    return f"{name}: {', '.join([*runs, *ranks, *told]) or 'no step that counts'}"


# --- limits ---


def _print_limits(console: Console, limits: Sequence[LimitResult]) -> None:
    console.print()
    table = empty_table()
    table.add_column("ms", no_wrap=True)
    for title in ("baseline", "current", "change", "99 % interval", "limit", "passes to"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    rows = [(one, _row(one)) for one in limits]
    for one, row in rows:
        table.add_row(*row, Text(_outcome_words(one), style=_STYLES[one.outcome]))
    print_fitting(console, table, [Text(_stacked(one, row)) for one, row in rows])
    for one in limits:
        console.print(Text(f"{one.place}: {_basis_words(one)}", style="dim"))


def shown_ms(one: LimitResult) -> tuple[str, str, str]:
    """Return baseline, current and the longest that passes, told apart where the limit is near."""
    most = None if one.allowed_ns is None else (one.baseline_ns or 0) + one.allowed_ns
    known = one.current_ns is not None and most is not None and one.outcome != "pass"
    places = decimals(one.current_ns or 0, most or 0) if known else 2
    baseline, current, longest = (
        ms(ns, decimals=places) for ns in (one.baseline_ns, one.current_ns, most)
    )
    return baseline, current, longest


def _row(one: LimitResult) -> tuple[str, ...]:
    baseline, current, longest = shown_ms(one)
    return (
        one.place,
        baseline,
        current,
        change_words(one),
        UNKNOWN if one.interval is None else interval_words(one.interval),
        limit_words(one),
        longest,
    )


def change_words(one: LimitResult) -> str:
    """Return a change as percent; from a baseline of zero as ms."""
    if one.change_ns is None:
        return UNKNOWN
    if one.change_ratio is None:
        return f"{one.change_ns / 1e6:+.2f}"
    return percent(one.change_ratio)


def interval_words(found: Interval) -> str:
    """Return an interval as percent; next to a baseline of zero as ms."""
    if found.low_ratio is None or found.high_ratio is None:
        return f"{found.low_ns / 1e6:+.2f} to {found.high_ns / 1e6:+.2f}"
    return f"{percent(found.low_ratio)} to {percent(found.high_ratio)}"


def limit_words(one: LimitResult) -> str:
    """Return a limit as it was stated, with its floor."""
    return one.limit.partition(":")[2].replace(",", ", ")


def _outcome_words(one: LimitResult) -> str:
    return one.outcome.replace("_", " ")


def _basis_words(one: LimitResult) -> str:
    """Return of which steps the values are, and how it went."""
    if one.source is None or one.over_runs is not None:
        return one.reason
    steps = f"medians of {one.baseline.steps} and {one.current.steps} steps"
    runs = (one.baseline.runs, one.current.runs)
    of_runs = f" in {runs[0]} and {runs[1]} runs" if max(runs) > 1 else ""
    rank = "" if one.rank is not None else ", each on the rank where it is largest"
    test = "" if one.p_value is None else f"; Mann-Whitney p = {one.p_value:.2g}"
    # The headline says why a limit did not pass.
    why = f"{one.reason}; " if one.outcome == "pass" else ""
    return f"{why}{steps}{of_runs}, {_SOURCES[one.source]}{rank}{test}"


def _stacked(one: LimitResult, row: Sequence[str]) -> str:
    place, before, after, change, interval, limit, allowed = row
    return (
        f"{place}: {_outcome_words(one)}\n  baseline {before}, current {after} ms\n"
        f"  change {change}\n  interval {interval}\n  limit {limit}: to {allowed} ms"
    )


# --- which part grew ---


def _print_growth(console: Console, found: Growth) -> None:
    console.print()
    console.print(
        Text(f"which part grew, in the median recorded steps of rank {found.rank}:", style="bold")
    )
    table = empty_table()
    table.add_column("ms", no_wrap=True)
    for title in ("baseline", "current", "change"):
        table.add_column(title, justify="right", no_wrap=True)
    rows = [*growth_rows(found)]
    for row in rows:
        table.add_row(*row)
    print_fitting(console, table, [Text(f"{row[0]}\n  {'  '.join(row[1:])}") for row in rows])


def growth_rows(found: Growth) -> Iterator[tuple[str, ...]]:
    """Yield what the step was made of: name, baseline, current and change in ms."""
    for whole, mine in grouped(found.parts):
        yield _times(whole.words, whole.a_ns, whole.b_ns)
        for part in mine if [part.words for part in mine] != [whole.words] else ():
            yield _times(f"  {part.words}", part.a_ns, part.b_ns)
        for piece in found.pieces:
            if piece.part == whole.part:
                yield _times(f"  {_piece_words(piece)}", piece.baseline_ns, piece.current_ns)
    yield _times("step", found.baseline_ns, found.current_ns)
    if found.rest_ns:
        yield "  + medians of all steps, not of these two", "", "", signed(found.rest_ns)
        yield "  = change that the limit found", "", "", signed(found.change_ns + found.rest_ns)


def _piece_words(piece: PieceChange) -> str:
    if piece.name is not None:
        return f"- {one_line(piece.name)[:60]}"
    return "- all else, less what overlaps"


def _times(words: str, a_ns: int, b_ns: int) -> tuple[str, ...]:
    return words, ms(a_ns), ms(b_ns), signed(b_ns - a_ns)


def _print_power(console: Console, power: Sequence[Power]) -> None:
    if not power:
        return
    console.print()
    console.print(Text("growth that is found in nine of ten runs, with the noise of these:"))
    for one in power:
        shown = UNKNOWN if one.detectable_ratio is None else percent(one.detectable_ratio)
        console.print(
            Text(f"  {one.limit}: {shown} with {one.baseline_steps} and {one.current_steps} steps")
        )
