"""How the page's charts look, and the stacked bars of a step, as plotly's plain dicts.

Only numbers and ranks go into a chart, never text from a trace: plotly reads text as markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ddptrace.metrics.steps import StepMetrics


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart: plotly's traces and layout, and a sentence on what it leaves out."""

    data: list[dict[str, Any]]
    layout: dict[str, Any]
    note: str


@dataclass(frozen=True, slots=True)
class Look:
    """How one kind of time looks; `hatch` tells kinds apart without colour.

    `ink` is the colour of text on it; None lets the style sheet choose, for faint colours.
    """

    title: str
    colour: str
    hatch: str = ""
    ink: str | None = None

    @property
    def css(self) -> str:
        """The CSS background that looks like the bars, for a legend."""
        return f"{_CSS_HATCHES[self.hatch]}{self.colour}"


_CSS_HATCHES = {
    "": "",
    "/": "repeating-linear-gradient(135deg, #fff7 0 1.5px, transparent 1.5px 5px) ",
    "x": "repeating-linear-gradient(135deg, #fff7 0 1px, transparent 1px 5px), "
    "repeating-linear-gradient(45deg, #fff7 0 1px, transparent 1px 5px) ",
    ".": "radial-gradient(#808080 25%, transparent 30%) 0 0 / 5px 5px ",
}


_FONT = "system-ui, sans-serif"
FAINT = "ddptrace-faint"
"""A family that no font has: by it the style sheet finds text on a faint colour."""

# Okabe and Ito's colours, which readers with any colour vision can tell apart.
COMPUTE = Look("compute", "#0072b2", ink="#fff")
HIDDEN = Look("hidden communication", "#56b4e9")
EXPOSED = Look("exposed communication", "#d55e00", "/", ink="#000")
COPIES = Look("exposed copies", "#cc79a7", "x", ink="#000")
IDLE = Look("idle", "rgba(128,128,128,0.22)")
UNKNOWN = Look("unknown", "rgba(128,128,128,0.06)", ".")

PARTS = {
    "compute_ns": COMPUTE,
    "exposed_comm_ns": EXPOSED,
    "exposed_mem_ns": COPIES,
    "idle_ns": IDLE,
}
"""The parts that add up to a step, in the order of the stack."""


def breakdown(rows: Sequence[StepMetrics]) -> Chart:
    """Return one stacked bar for each whole row, as long as its step; partial ones get none."""
    bars = [(place, row) for place, row in enumerate(rows) if is_whole(row)]
    data = [
        _stack(look, [(place, row, getattr(row, name)) for place, row in bars])
        for name, look in PARTS.items()
    ]
    unexplained = [(place, row, _unexplained_ns(row)) for place, row in bars]
    if any(ns is not None for *_, ns in unexplained):
        data.append(_stack(UNKNOWN, unexplained) | {"texttemplate": "unknown"})
    chart = layout([f"rank {row.rank}" for row in rows], units=1, pixels=32, top=8)
    chart["barmode"] = "stack"
    chart["uniformtext"] = {"mode": "hide", "minsize": 10}
    chart["xaxis"] |= {"rangemode": "tozero", "fixedrange": True}
    chart["xaxis"]["title"] |= {"text": "ms"}
    chart["annotations"] = [
        annotation(place, "PARTIAL: no whole step")
        for place, row in enumerate(rows)
        if not is_whole(row)
    ]
    return Chart(data, chart, " ".join(_notes(rows)))


def is_whole(row: StepMetrics) -> bool:
    """Return whether the row's step was recorded from its start to its end."""
    return not row.partial and row.step_ns is not None


def layout(titles: Sequence[str], *, units: int, pixels: int, top: int) -> dict[str, Any]:
    """Return the layout of a chart in which each row is `units` long on the y axis."""
    clear = "rgba(0,0,0,0)"
    return {
        "height": pixels * len(titles) + top + 44,
        "margin": {"l": 56, "r": 12, "t": top, "b": 44},
        "showlegend": False,
        "hovermode": "closest",
        "hoverlabel": {"font": {"family": _FONT}},
        "paper_bgcolor": clear,
        "plot_bgcolor": clear,
        "font": {"family": _FONT, "size": 12},
        "modebar": {"bgcolor": clear, "color": "#808080", "activecolor": "#808080"},
        "xaxis": {"showgrid": True, "zeroline": False, "title": {"standoff": 8}},
        "yaxis": {
            "tickvals": [units * place for place in range(len(titles))],
            "ticktext": list(titles),
            "ticklabelstandoff": 6,
            "range": [units * (len(titles) - 0.5), -units * 0.5],
            "showgrid": False,
            "zeroline": False,
            "fixedrange": True,
        },
    }


def annotation(y: float, text: str) -> dict[str, Any]:
    """Return a text at the left end of a row."""
    place = {"x": 0, "y": y, "xref": "paper", "xanchor": "left"}
    return place | {"text": text, "showarrow": False}


def marker(look: Look) -> dict[str, Any]:
    """Return the fill of bars that look so."""
    if not look.hatch:
        return {"color": look.colour}
    on_colour = look.colour.startswith("#")
    pattern = {"shape": look.hatch, "fillmode": "overlay", "size": 7, "solidity": 0.2}
    pattern["fgcolor"] = "rgba(255,255,255,0.45)" if on_colour else "rgb(128,128,128)"
    return {"color": look.colour, "pattern": pattern}


def ranks(numbers: Sequence[int]) -> str:
    """Return ranks as words."""
    return f"rank{'' if len(numbers) == 1 else 's'} {', '.join(map(str, numbers))}"


def _stack(look: Look, parts: Iterable[tuple[int, StepMetrics, int | None]]) -> dict[str, Any]:
    """Return one part of the bars, without a piece where the part is unknown."""
    known = [(place, row, ns) for place, row, ns in parts if ns is not None]
    return {
        "type": "bar",
        "orientation": "h",
        "name": look.title,
        "y": [place for place, *_ in known],
        "x": [ns / 1e6 for *_, ns in known],
        "width": 0.75,
        "customdata": [[row.rank, 100 * ns / (row.step_ns or 1)] for _, row, ns in known],
        "marker": marker(look) | {"line": {"width": 1, "color": "rgba(128,128,128,0.7)"}},
        "texttemplate": "%{x:.2f}",
        "textfont": {"color": look.ink} if look.ink else {"family": f"{FAINT}, {_FONT}"},
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "hovertemplate": f"rank %{{customdata[0]}}<br>{look.title}: %{{x:.3f}} ms"
        "<br>%{customdata[1]:.1f} % of the step<extra></extra>",
    }


def _unknown_parts(row: StepMetrics) -> list[str]:
    return [look.title for name, look in PARTS.items() if getattr(row, name) is None]


def _unexplained_ns(row: StepMetrics) -> int | None:
    """Return the rest of a step beside its known parts; None when all parts are known."""
    if not _unknown_parts(row):
        return None
    return (row.step_ns or 0) - sum(getattr(row, name) or 0 for name in PARTS)


def _notes(rows: Sequence[StepMetrics]) -> list[str]:
    partial = [row.rank for row in rows if not is_whole(row)]
    unknown: dict[str, list[int]] = {}
    for row in rows:
        if is_whole(row) and (parts := _unknown_parts(row)):
            unknown.setdefault(", ".join(parts), []).append(row.rank)
    notes = [f"PARTIAL and so without a bar: {ranks(partial)}."] if partial else []
    return notes + [f"Unknown for {ranks(who)}: {parts}." for parts, who in unknown.items()]
