"""A sweep for a terminal: the cap to take, what to write, and a table of all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from ddptrace.outputs.figures import UNKNOWN, ms
from ddptrace.outputs.terminal import Destination, empty_table, print_fitting
from ddptrace.sweep.document import Configuration, Outcome, Sweep
from ddptrace.wording import counted, one_line

_STYLES: dict[Outcome, str] = {
    "faster": "bold green",
    "keep": "bold green",
    "no_difference": "bold",
    "unknown": "bold yellow",
}
_TITLES = (
    "cap MiB", "step", "p95", "change", "99 % interval", "predicted", "error", "buckets",
    "kernels", "exposed", "tail", "replicas",
)  # fmt: skip
_LEGEND = (
    "ms; step, p95: without a profiler, on the slowest rank; kernels, exposed, tail: of the "
    "recording, a step; replicas: whether all ranks end with the same parameters"
)


def render(found: Sweep, destination: Destination) -> str:
    """Return a sweep as text."""
    console = destination.console()
    console.print(Text(_head(found), style="dim"))
    console.print()
    winner = found.winner
    console.print(Text(winner.sentence, style=_STYLES[winner.outcome]))
    if winner.line is not None:
        console.print(Text.assemble("paste: ", (winner.line, "cyan")), soft_wrap=True)
    if winner.as_good_mb and winner.outcome != "no_difference":
        others = ", ".join(f"{cap:g}" for cap in winner.as_good_mb)
        console.print(Text(f"as good, as far as these steps can tell: {others}"))
    console.print()
    _print_table(console, found.configurations)
    console.print(Text(_LEGEND, style="dim"))
    if found.predicted_from is not None:
        where, trust = one_line(found.predicted_from), found.trust
        console.print(Text(f"predicted from the recording in {where}; trust: {trust}", style="dim"))
    if found.notes:
        console.print()
    for note in found.notes:
        console.print(Text.assemble(("note: ", "yellow"), one_line(note)))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]  # a StringIO
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _head(found: Sweep) -> str:
    ranks = "" if found.world_size is None else f", {counted(found.world_size, 'rank')}"
    device = "" if found.device is None else f" of {one_line(found.device)}"
    runs = "" if found.runs_each == 1 else f", {found.runs_each} runs each"
    what = counted(len(found.configurations), "configuration")
    return f"sweep of {one_line(' '.join(found.command))}: {what}{ranks}{device}{runs}"


def _print_table(console: Console, configurations: Sequence[Configuration]) -> None:
    table = empty_table()
    for title in _TITLES:
        table.add_column(title, justify="right", no_wrap=True)
    rows = [tuple(_cells(one)) for one in configurations]
    for row in rows:
        table.add_row(*row)
    print_fitting(console, table, [Text(_stacked(row)) for row in rows])


def _cells(one: Configuration) -> Iterator[str]:
    yield _cap(one)
    yield ms(one.step_ns)
    yield ms(one.p95_ns)
    change, predicted = one.change, one.predicted
    yield UNKNOWN if change is None else f"{100 * change.ratio:+.1f} %"
    yield (
        UNKNOWN
        if change is None
        else f"{100 * change.low_ratio:+.1f} to {100 * change.high_ratio:+.1f} %"
    )
    yield UNKNOWN if predicted is None else ms(predicted.step_ns)
    yield (
        UNKNOWN
        if predicted is None or predicted.error_ratio is None
        else f"{100 * predicted.error_ratio:+.1f} %"
    )
    yield UNKNOWN if one.buckets is None else str(one.buckets)
    yield UNKNOWN if one.comm_kernels is None else str(one.comm_kernels)
    yield ms(one.exposed_comm_ns)
    yield ms(one.tail_ns)
    yield {True: "equal", False: "DIFFER", None: UNKNOWN}[one.replicas_equal]


def _cap(one: Configuration) -> str:
    if one.bucket_cap_mb is not None:
        cap = f"{one.bucket_cap_mb:g}"
    else:  # of a run that failed nothing tells the cap
        cap = "several" if isinstance(one.asked_mb, list) else UNKNOWN
    return f"{cap} (yours)" if one.is_own else cap


def _stacked(row: Sequence[str]) -> str:
    cap, *rest = row
    told = [f"{title} {cell}" for title, cell in zip(_TITLES[1:], rest, strict=True)]
    lines = [", ".join(told[start : start + 3]) for start in range(0, len(told), 3)]
    return "\n  ".join([f"cap {cap} MiB", *lines])
