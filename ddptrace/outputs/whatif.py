"""Predictions for a terminal: what they rest on, a table, a picture, and what limits the step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from ddptrace.outputs.figures import ms
from ddptrace.outputs.predictions import bounds, grounds, headline, is_loss, trust_line
from ddptrace.outputs.terminal import Destination, empty_table, print_fitting
from ddptrace.whatif.document import Prediction, WhatIf

_PICTURE = 56
_LEGEND = (
    "ms; exposed: communication without compute beside it; tail: from the last compute to its end"
)


def render(found: WhatIf, destination: Destination) -> str:
    """Return predictions as text, to be read in ten seconds."""
    console = destination.console()
    for line in grounds(found):
        console.print(Text(line, style="dim"))
    console.print()
    console.print(Text(headline(found), style="bold"))
    console.print(Text(trust_line(found)))
    console.print()
    _print_table(console, found)
    console.print(Text(_LEGEND, style="dim"))
    console.print()
    for line in _picture(found, min(_PICTURE, console.width - 24)):
        console.print(Text(line))
    console.print()
    for line in bounds(found):
        console.print(Text(line))
    for note in found.notes:
        console.print(Text.assemble(("note: ", "yellow"), note))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]  # a StringIO
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _print_table(console: Console, found: WhatIf) -> None:
    table = empty_table()
    for title in ("cap MiB", "buckets", "step", "from", "to", "exposed", "tail"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    mark = "least loss" if is_loss(found.best) else "best"
    rows = [(one, _cells(found, one)) for one in found.predictions]
    for one, cells in rows:
        is_best = one.bucket_cap_mb == found.best.bucket_cap_mb
        table.add_row(*cells, mark if is_best else "", style="bold" if is_best else None)
    print_fitting(console, table, [Text(_stacked(cells)) for _, cells in rows])


def _cells(found: WhatIf, one: Prediction) -> tuple[str, ...]:
    # Where little can be trusted the range is the answer, and no point in it.
    step = "-" if found.trust == "low" else ms(one.step_ns)
    return (
        f"{one.bucket_cap_mb:g}",
        str(one.buckets),
        step,
        ms(one.low_ns),
        ms(one.high_ns),
        ms(one.exposed_comm_ns),
        ms(one.tail_ns),
    )


def _stacked(cells: Sequence[str]) -> str:
    cap, buckets, step, low, high, exposed, tail = cells
    return (
        f"cap {cap} MiB, {buckets} buckets\n  step {step}, {low} to {high}\n"
        f"  exposed {exposed}, tail {tail}"
    )


def _picture(found: WhatIf, width: int) -> Iterator[str]:
    """Yield a line a cap: from `<` to `>` with the step at `o`, and `|` where the step is now."""
    ends = [each for one in found.predictions for each in (one.low_ns, one.high_ns)]
    low, high = min(*ends, found.measured_step_ns), max(*ends, found.measured_step_ns)
    width = max(width, 10)

    def place(ns: int) -> int:
        return round((ns - low) / max(high - low, 1) * (width - 1))

    for one in found.predictions:
        line = [" "] * width
        for at in range(place(one.low_ns), place(one.high_ns) + 1):
            line[at] = "-"
        line[place(one.low_ns)], line[place(one.high_ns)] = "<", ">"
        line[place(found.measured_step_ns)] = "|"
        if found.trust != "low":
            line[place(one.step_ns)] = "o"
        yield f"{one.bucket_cap_mb:>7g}  {''.join(line)}".rstrip()
    left, right = ms(low), ms(high)
    yield f"{'MiB':>7}  {left}{right:>{width - len(left)}} ms; | is the step as it is"
