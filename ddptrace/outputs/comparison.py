"""Two runs side by side for a terminal: the step's difference, its parts, what changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

from rich.console import Console
from rich.text import Text

from ddptrace.compare.comparison import Comparison, RankDifference, Side
from ddptrace.compare.facts import Change, Unknown
from ddptrace.compare.parts import Difference, Part, changes, grouped
from ddptrace.outputs.figures import UNKNOWN, ms, percent, signed
from ddptrace.outputs.terminal import Destination, empty_table, print_fitting
from ddptrace.wording import one_line, ranges

_MOST_RANKS = 16
_TOPICS = {"versions": "version of ", "ddp": "DDP's ", "options": "capture option "}
_NAMES = {
    "run.world_size": "world size",
    "buckets.count": "number of buckets",
    "buckets.total_bytes": "size of all buckets",
    "buckets.sizes": "sizes of the buckets",
    "recording.figures_from": "figures from",
    "recording.switches": "switches of the profiler",
    "steps.counted_steps": "steps that count",
}
_WHOLE_TOPICS = {
    "run": "ranks and device",
    "command": "command",
    "versions": "versions",
    "ddp": "DDP's settings",
    "buckets": "buckets",
    "recording": "profiler",
    "options": "capture options",
    "steps": "how many steps count",
}


def render(comparison: Comparison, destination: Destination) -> str:
    """Return a comparison as text: why not to trust it, headline, parts, ranks, what changed."""
    console = destination.console()
    for name, side in (("A", comparison.a), ("B", comparison.b)):
        console.print(Text(f"{name}: {side_line(side)}", style="dim"))
    console.print()
    for caution in comparison.cautions:
        if not caution.comparable:
            console.print(Text(f"not comparable: {caution.message}", style="bold red"))
    console.print(Text(comparison.headline, style="bold"))
    for caution in comparison.cautions:
        if caution.comparable:
            console.print(Text.assemble(("note: ", "yellow"), caution.message))
    _print_parts(console, comparison)
    if _ranks_say_more(comparison):
        _print_ranks(console, comparison.ranks)
    _print_changed(console, comparison)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]  # a StringIO
    return "\n".join(line.rstrip() for line in lines) + "\n"


def side_line(side: Side) -> str:
    """Return which step of which rank of a run is compared."""
    words = [one_line(side.name)]
    if side.step is not None:
        of = "" if side.counted_steps is None else f" of {side.counted_steps} that count"
        words.append(f"step {side.step}, the median{of}")
    if side.rank is not None:
        words.append(f"on rank {side.rank}{', where it took longest' if side.ranks[1:] else ''}")
    return f"{words[0]}: {', '.join(words[1:])}" if words[1:] else words[0]


# --- the parts of the step ---


def _print_parts(console: Console, comparison: Comparison) -> None:
    step = comparison.step_ns
    if step is None:
        return
    console.print()
    table = empty_table()
    table.add_column("ms", no_wrap=True)
    for title in ("A", "B", "difference", "share"):
        table.add_column(title, justify="right", no_wrap=True)
    rows = list(part_rows(step, comparison.parts))
    for row in rows:
        table.add_row(*row)
    print_fitting(console, table, [Text(_stacked(row)) for row in rows])
    if comparison.reason:
        console.print(Text(f"no parts: {comparison.reason}; the step is the median over the run"))


def part_rows(step: Difference, parts: Sequence[Part]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table of parts: words, ms in A, in B, the difference, its share."""
    for whole, mine in grouped(parts) if parts else ():
        yield _row(whole.words, whole, _share(step, whole))
        for part in mine if _is_divided(whole, mine) else ():
            yield _row(f"  {part.words}", part, _share(step, part))
    yield _row("step", step, percent(1.0) if step.is_listed else UNKNOWN)


def _is_divided(whole: Part, mine: Sequence[Part]) -> bool:
    """Tell whether parts say more than their sum."""
    return bool(mine) and [part.words for part in mine] != [whole.words]


def _row(words: str, times: Part | Difference, share: str) -> tuple[str, ...]:
    return words, ms(times.a_ns), ms(times.b_ns), signed(times.difference_ns), share


def _share(step: Difference, part: Part) -> str:
    """Return a part's share; a dash where the step hardly differs, so that shares say nothing."""
    if not step.is_listed or part.share_ratio is None:
        return UNKNOWN
    return percent(round(part.share_ratio, 3) + 0.0)  # which is never -0.0


def _stacked(row: tuple[str, ...]) -> str:
    words, a, b, difference, share = row
    return f"{words}\n  A {a}  B {b}\n  {difference}  {share}"


# --- the ranks ---


def _ranks_say_more(comparison: Comparison) -> bool:
    """Tell whether the ranks that both runs have are not just the one that is shown already."""
    found = {one.rank for one in comparison.ranks}
    return bool(found) and not found == {comparison.a.rank} == {comparison.b.rank}


def _print_ranks(console: Console, ranks: Sequence[RankDifference]) -> None:
    shown = sorted(ranks, key=lambda one: -abs(one.step_ns.difference_ns))[:_MOST_RANKS]
    console.print()
    table = empty_table()
    for title in ("rank", "A", "B", "difference"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("of that", no_wrap=True)
    rows = [rank_row(one) for one in sorted(shown, key=lambda one: one.rank)]
    for row in rows:
        table.add_row(*row)
    print_fitting(console, table, [Text(f"rank {row[0]}\n{_stacked(row)}") for row in rows])
    if len(shown) < len(ranks):
        console.print(Text(f"the {len(shown)} of {len(ranks)} ranks that differ most"))


def rank_row(one: RankDifference) -> tuple[str, ...]:
    """Return a row of the table of ranks: rank, ms in A, in B, the difference, what it is of."""
    found = [
        f"{part.words} {signed(part.difference_ns)}" for part in changes(one.step_ns, one.parts)
    ]
    step = one.step_ns
    return (
        str(one.rank),
        ms(step.a_ns),
        ms(step.b_ns),
        signed(step.difference_ns),
        ", ".join(found),
    )


# --- what changed ---


def _print_changed(console: Console, comparison: Comparison) -> None:
    console.print()
    lines = [line for change in comparison.changed for line in change_lines(change)]
    if not lines:
        console.print(Text("changed: nothing that is known of both runs"))
    for line in lines:
        console.print(Text.assemble(("changed: ", "bold"), line))
    for runs, words in unknown_words(comparison.unknown).items():
        console.print(Text(f"not known of {runs}: {', '.join(words)}"))


def _name(topic: str, what: str) -> str:
    return _NAMES.get(f"{topic}.{what}", f"{_TOPICS.get(topic, '')}{what}")


def change_lines(change: Change) -> Iterator[str]:
    """Yield what is not the same in two runs, in words."""
    name = _name(change.topic, change.what)
    if change.topic == "command":
        yield f"command: {_words_changed(change.a, change.b)}"
    elif change.what == "sizes":
        if len(change.a) == len(change.b):  # else their count says it
            sizes = [
                ", ".join(_megabytes(size) for size in found) for found in (change.a, change.b)
            ]
            yield f"{name}: {sizes[0]} MB in A, {sizes[1]} MB in B"
    else:
        yield f"{name}: {_value(change.what, change.a)} in A, {_value(change.what, change.b)} in B"


def _words_changed(a: Sequence[str], b: Sequence[str]) -> str:
    """Return the words that only one of two commands has."""
    only: dict[str, list[str]] = {"A": [], "B": []}
    for _, start_a, end_a, start_b, end_b in (
        block
        for block in SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
        if block[0] != "equal"
    ):
        only["A"] += a[start_a:end_a]
        only["B"] += b[start_b:end_b]
    found = [f"only in {run}: {one_line(' '.join(words))}" for run, words in only.items() if words]
    return "; ".join(found)


def _value(what: str, value: Any) -> str:  # noqa: ANN401  # whatever a manifest may hold
    if what == "ranks":
        return ranges(value)
    if "bytes" in what and isinstance(value, int):
        return f"{_megabytes(value)} MB"
    if isinstance(value, bool) or value is None:
        return {True: "on", False: "off", None: "not set"}[value]
    if isinstance(value, list):
        return one_line(", ".join(map(str, value))) or "none"
    return one_line(value)


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.2f}"


def unknown_words(unknown: Sequence[Unknown]) -> dict[str, list[str]]:
    """Return what is not known, by the runs of which it is not."""
    found: dict[str, list[str]] = {}
    for one in unknown:
        words = _WHOLE_TOPICS[one.topic] if one.what is None else _name(one.topic, one.what)
        found.setdefault(" and ".join(run.upper() for run in one.runs), []).append(words)
    return found
