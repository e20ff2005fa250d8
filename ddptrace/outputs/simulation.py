"""Simulated steps for a terminal and as a page: the timeline of each size of buckets."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from rich.text import Text

from ddptrace.outputs.figures import ms
from ddptrace.outputs.html.looks import LOOKS, Look
from ddptrace.outputs.terminal import Destination, empty_table, print_fitting
from ddptrace.whatif.packing import MIB
from ddptrace.whatif.simulate import Reduced, Simulated, Simulation

_WIDTH = 72
_MOST_DRAWN = 2_000


def render(found: Simulation, destination: Destination) -> str:
    """Return simulated steps as text: a table, and a timeline of each."""
    console = destination.console()
    console.print(Text(said(found), style="dim"))
    console.print()
    table = empty_table()
    for title in ("bucket MiB", "buckets", "step", "without overlap", "exposed", "tail"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for one in found.predictions:
        is_best = one.bucket_mib == found.best.bucket_mib
        table.add_row(*_cells(one), "best" if is_best else "", style="bold" if is_best else None)
    print_fitting(console, table, [Text("  ".join(_cells(one))) for one in found.predictions])
    console.print(Text("ms; step: from the start of backward to the last bucket", style="dim"))
    for line in _timelines(found, min(_WIDTH, console.width - 12)):
        console.print(Text(line))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]  # a StringIO
    return "\n".join(line.rstrip() for line in lines) + "\n"


def said(found: Simulation) -> str:
    """Return what is simulated, in a sentence."""
    model = found.model
    return (
        f"{found.gradients_bytes / MIB:g} MiB of gradients over {ms(found.backward_ns)} ms of "
        f"backward; a bucket takes {model.alpha_ns / 1e3:g} µs + bytes ÷ "
        f"{model.bandwidth_gb_s:.4g} GB/s"
    )


def _cells(one: Simulated) -> tuple[str, ...]:
    return (
        f"{one.bucket_mib:g}",
        str(one.buckets),
        ms(one.step_ns),
        ms(one.step_without_overlap_ns),
        ms(one.exposed_comm_ns),
        ms(one.tail_ns),
    )


def _timelines(found: Simulation, width: int) -> Iterator[str]:
    """Yield two lines a size: compute as `#`; buckets as `1`, `2`, … in turn, `.` while waiting."""
    longest = max(max(one.step_ns for one in found.predictions), 1)
    width = max(width, 10)

    def place(ns: int) -> int:
        return round(ns / longest * width)

    for one in found.predictions:
        yield ""
        yield f"{one.bucket_mib:>7g} MiB  compute  {'#' * place(found.backward_ns)}"
        line = [" "] * place(one.step_ns)
        for number, bucket in enumerate(one.timeline):
            _draw(line, place(bucket.start_ns), place(bucket.end_ns), str((number + 1) % 10))
        yield f"{'':>11}  buckets  {''.join(line).rstrip()}  {ms(one.step_ns)}"


def _draw(line: list[str], start: int, end: int, sign: str) -> None:
    for at in range(start, min(max(end, start + 1), len(line))):
        line[at] = sign


def page(found: Simulation) -> str:
    """Return simulated steps as one page that needs no network."""
    from plotly import graph_objects, io  # imported at its first use: it is slow

    figure = graph_objects.Figure(_bars(found))
    rows = [f"{_name(one)}: {what}" for one in found.predictions for what in ("compute", "buckets")]
    figure.update_layout(
        barmode="overlay",
        height=180 + 90 * len(found.predictions),
        xaxis={"title": "ms from the start of backward", "rangemode": "tozero"},
        yaxis={
            "autorange": "reversed",
            "automargin": True,
            "type": "category",
            "categoryorder": "array",
            "categoryarray": rows,
        },
        legend={"orientation": "h"},
        margin={"t": 20, "r": 10},
    )
    chart: str = io.to_html(
        figure,
        full_html=False,
        include_plotlyjs=True,
        config=_OFFLINE,
        div_id="simulation",  # else a random one, and two pages of one plan would differ
    )
    return _PAGE.format(said=escape(said(found)), chart=chart)


# The sentence is text of the page, which wraps on a narrow screen; a chart's title is cut there.
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>ddptrace simulate</title>
</head>
<body style="font-family: sans-serif">
<h1 style="font-size: 1.1rem">{said}</h1>
{chart}
</body>
</html>
"""


# Without these, plotly offers to upload the chart.
_OFFLINE = {
    "responsive": True,
    "displaylogo": False,
    "showSendToCloud": False,
    "plotlyServerURL": "",
}


def _bars(found: Simulation) -> list[dict[str, Any]]:
    names = [_name(one) for one in found.predictions]
    count = len(found.predictions)
    compute = _bar(LOOKS["compute"], [f"{name}: compute" for name in names], [0] * count)
    compute |= {"x": [found.backward_ns / 1e6] * count, "hovertemplate": "%{x} ms<extra></extra>"}
    return [compute, *(_of_buckets(found, look) for look in (LOOKS["hidden"], LOOKS["exposed"]))]


def _of_buckets(found: Simulation, look: Look) -> dict[str, Any]:
    """Return the parts of the buckets under compute, or those behind it."""
    rows, bases, lengths, texts = [], [], [], []
    for one in found.predictions:
        for number, bucket in enumerate(one.timeline[:_MOST_DRAWN]):
            start, end = _part(bucket, found.backward_ns, look)
            if end > start:
                rows.append(f"{_name(one)}: buckets")
                bases.append(start / 1e6)
                lengths.append((end - start) / 1e6)
                texts.append(f"bucket {number}, ready at {ms(bucket.ready_ns)} ms")
    bar = _bar(look, rows, bases)
    return bar | {"x": lengths, "text": texts, "hovertemplate": "%{text}<br>%{x} ms<extra></extra>"}


def _part(bucket: Reduced, compute_end_ns: int, look: Look) -> tuple[int, int]:
    if look is LOOKS["hidden"]:
        return bucket.start_ns, min(bucket.end_ns, compute_end_ns)
    return max(bucket.start_ns, compute_end_ns), bucket.end_ns


def _bar(look: Look, rows: list[str], bases: list[float] | list[int]) -> dict[str, Any]:
    line = {"width": 1, "color": "rgba(64,64,64,0.8)"}
    return {
        "type": "bar",
        "orientation": "h",
        "name": look.title,
        "y": rows,
        "base": bases,
        "textposition": "none",
        "marker": look.marker | {"line": line},
    }


def _name(one: Simulated) -> str:
    return f"{one.bucket_mib:g} MiB, {ms(one.step_ns)} ms"
