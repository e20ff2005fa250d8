"""A history as one page that needs no network: the step over the runs, and what it was made of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import cycle
from typing import Any

import msgspec
from plotly.offline import get_plotlyjs

from ddptrace.compare.parts import grouped, parts_of
from ddptrace.diagnosis.ledger import Ledger
from ddptrace.history.runs import Choice, StoredRun
from ddptrace.outputs.figures import UNKNOWN, ms
from ddptrace.outputs.html.document import data, head
from ddptrace.outputs.html.looks import LOOKS
from ddptrace.wording import counted, ranges

_GROUPS = {
    "compute": LOOKS["compute"],
    "exposed_comm": LOOKS["exposed"],
    "exposed_mem": LOOKS["exposed_copies"],
    "idle": LOOKS["idle"],
}
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_CLEAR = "rgba(0,0,0,0)"
_COMMIT = 12
_FEW_RUNS = 12  # of fewer each has its tick: else plotly puts some between them

# Plotly writes colours into its elements; these follow the reader's scheme instead.
_STYLE = """
.chart .xtick text, .chart .ytick text, .chart .xtitle, .chart .ytitle,
.chart .hovertext text { fill: var(--ink) !important; }
.chart .hovertext path { fill: var(--paper) !important; stroke: var(--quiet) !important; }
.chart .gridlayer path { stroke: var(--rule) !important; }
@media print { .modebar-container { display: none; } }
"""

_SCRIPT = """
(() => {
  "use strict";
  const charts = JSON.parse(document.getElementById("ddptrace-charts").textContent);
  // Without these, plotly offers to upload the chart.
  const config = { responsive: true, displaylogo: false, showSendToCloud: false,
    plotlyServerURL: "", modeBarButtons: [["zoomIn2d", "zoomOut2d", "resetScale2d"]] };
  const touch = window.matchMedia("(pointer: coarse)").matches;
  for (const [name, chart] of Object.entries(charts))
    Plotly.newPlot(name, chart.data, { ...chart.layout, dragmode: touch ? false : "zoom" }, config);
  const resize = (size) => {
    for (const name of Object.keys(charts)) Plotly.relayout(name, size);
  };
  window.addEventListener("beforeprint", () => resize({ width: 660 }));
  window.addEventListener("afterprint", () => resize({ width: null, autosize: true }));
})();
"""


def render(runs: Sequence[StoredRun], ledgers: Mapping[int, Ledger], choice: Choice) -> str:
    """Return runs as one HTML page; of the same runs the same bytes."""
    setups = _setups(runs)
    # Not from zero: slow drift would not be seen.
    charts = {"steps": {"data": list(_lines(setups)), "layout": _layout(runs, "normal")}}
    known = [(run, ledgers[run.number]) for run in runs if run.number in ledgers]
    if known:
        charts["parts"] = {
            "data": _stacks(known),
            "layout": _layout(runs, "tozero") | {"barmode": "stack"},
        }
    parts = [
        head(
            f"ddptrace history: {counted(len(runs), 'run')}{choice.words}",
            [get_plotlyjs(), _SCRIPT],
        ),
        f"<style>{_STYLE}</style><h1>ddptrace history</h1>",
        f'<p class="headline">{escape(counted(len(runs), "run") + choice.words)}</p>',
        *_section("steps", "Step time", _swatches(setups), _key(runs)),
        *(_section("parts", "What the median step was made of", _looks(), "") if known else ()),
        "<noscript><p>The charts need JavaScript; the table does not.</p></noscript>",
        *_table(runs, setups),
        "</main>",
        data("ddptrace-charts", msgspec.json.encode(charts).decode(), "application/json"),
        f"<script>{get_plotlyjs()}</script>",
        f"<script>{_SCRIPT}</script>",
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _setups(runs: Sequence[StoredRun]) -> list[list[StoredRun]]:
    """Return the runs that were set up alike, which alone a line may join."""
    found: dict[bytes, list[StoredRun]] = {}
    for run in runs:
        key = msgspec.json.encode(run.fingerprint, order="sorted")
        found.setdefault(key, []).append(run)
    return list(found.values())


# --- the charts: of text only what can be no markup, which plotly would read ---


def _lines(setups: Sequence[Sequence[StoredRun]]) -> Iterator[dict[str, Any]]:
    """Return lines of step times: one for each setup and way in which steps were timed."""
    for (colour, _), runs in zip(_styles(), setups, strict=False):
        for title, name, dash in (
            ("step", "step_ns", "solid"), ("step without a profiler", "timed_step_ns", "dot")
        ):  # fmt: skip
            known = [(run, getattr(run, name)) for run in runs if getattr(run, name) is not None]
            if known:
                yield {
                    "type": "scatter",
                    "mode": "lines+markers",
                    "name": title,
                    "x": [run.number for run, _ in known],
                    "y": [ns / 1e6 for _, ns in known],
                    "customdata": [[_plain(run.commit), run.added_at[:10]] for run, _ in known],
                    "line": {"color": colour, "dash": dash},
                    "marker": {"color": colour, "size": 7},
                    "hovertemplate": f"run %{{x}}<br>{title}: %{{y:.3f}} ms<br>"
                    "%{customdata[0]} %{customdata[1]}<extra></extra>",
                }


def _styles() -> Iterator[tuple[str, int]]:
    return zip(cycle(_COLOURS), range(1_000_000), strict=False)


def _plain(commit: str | None) -> str:
    return re.sub(r"[^0-9A-Za-z._-]", "", commit or "")[:_COMMIT]


def _stacks(known: Sequence[tuple[StoredRun, Ledger]]) -> list[dict[str, Any]]:
    """Return a stacked bar a run: the groups of the ledger, which add up to its median step."""
    rows = [
        (run.number, {whole.part: whole.b_ns for whole, _ in grouped(parts_of(ledger, ledger))})
        for run, ledger in known
    ]
    return [
        {
            "type": "bar",
            "name": look.title,
            "x": [number for number, _ in rows],
            "y": [times[group] / 1e6 for _, times in rows],
            "customdata": [ledger.rank for _, ledger in known],
            "marker": look.marker | {"line": {"width": 1, "color": "rgba(128,128,128,0.7)"}},
            "hovertemplate": f"run %{{x}}, rank %{{customdata}}<br>{look.title}: %{{y:.3f}} ms"
            "<extra></extra>",
        }
        for group, look in _GROUPS.items()
    ]


def _layout(runs: Sequence[StoredRun], range_mode: str) -> dict[str, Any]:
    axis = {"showgrid": True, "zeroline": False}
    first, last = runs[0].number, runs[-1].number
    return {
        "height": 320,
        "margin": {"l": 56, "r": 12, "t": 8, "b": 44},
        "showlegend": False,
        "hovermode": "closest",
        "paper_bgcolor": _CLEAR,
        "plot_bgcolor": _CLEAR,
        "font": {"family": "system-ui, sans-serif", "size": 12},
        "modebar": {"bgcolor": _CLEAR, "color": "#808080", "activecolor": "#808080"},
        "xaxis": axis
        | {"title": {"text": "run"}, "range": [first - 0.7, last + 0.7], "tickformat": "d"}
        | ({"dtick": 1} if last - first < _FEW_RUNS else {}),
        "yaxis": axis | {"title": {"text": "ms"}, "rangemode": range_mode},
        "shapes": [_start(run.number) for run in runs[1:] if run.starts_anew],
    }


def _start(number: int) -> dict[str, Any]:
    """Return a line before a run that starts anew."""
    place = {"x0": number - 0.5, "x1": number - 0.5, "y0": 0, "y1": 1, "yref": "paper"}
    return place | {"type": "line", "line": {"color": "#808080", "width": 1, "dash": "dash"}}


# --- the text ---


def _section(name: str, heading: str, swatches: str, key: str) -> Iterator[str]:
    yield (
        f'<section><h2>{heading}</h2><ul class="legend">{swatches}</ul>'
        f'<figure><div id="{name}" class="chart"></div><figcaption>{key}</figcaption></figure>'
        "</section>"
    )


def _key(runs: Sequence[StoredRun]) -> str:
    """Return what the kinds of lines mean that are there."""
    said = [
        "The axis does not begin at zero.",
        *(["Dotted: steps without a profiler."] if any(run.timed_steps for run in runs) else []),
        *(
            ["Dashed: here a run starts anew, and is not compared with earlier ones."]
            if any(run.starts_anew for run in runs[1:])
            else []
        ),
    ]
    return " ".join(said)


def _swatches(setups: Sequence[Sequence[StoredRun]]) -> str:
    """Return the legend of the lines: which setup has which colour, by its number in the table."""
    return "".join(
        f'<li><span class="swatch" style="background: {colour}"></span>setup {place + 1}: '
        f"{escape(_setup_words(runs[0]))}</li>"
        for (colour, place), runs in zip(_styles(), setups, strict=False)
    )


def _setup_words(run: StoredRun) -> str:
    facts = run.fingerprint
    size = facts.get("world_size")
    words = [str(facts.get("gpu", "unknown GPU"))]
    words += [] if size is None else [f"{size} ranks"]
    words += [f"{name.removesuffix('_version')} {value}" for name, value in facts.items()
              if name in ("torch_version", "nccl_version")]  # fmt: skip
    return ", ".join(words)


def _looks() -> str:
    return "".join(
        f'<li><span class="swatch" style="background: {look.css}"></span>{look.title}</li>'
        for look in _GROUPS.values()
    )


def _table(runs: Sequence[StoredRun], setups: Sequence[Sequence[StoredRun]]) -> Iterator[str]:
    setup_of = {run.number: place for place, mine in enumerate(setups, 1) for run in mine}
    names = ("run", "added (UTC)", "step", "without profiler", "ranks", "setup", "commit",
             "branch", "tags", "from")  # fmt: skip
    titles = "".join(f'<th scope="col">{name}</th>' for name in names)
    yield (
        '<section><h2 id="runs">Runs</h2><p class="quiet" id="runs-key">Times in ms, medians of '
        f"the steps on the rank where each took longest. {UNKNOWN} is unknown.</p>"
        '<div class="scroll" role="region" tabindex="0" aria-labelledby="runs">'
        '<table aria-labelledby="runs" aria-describedby="runs-key">'
        f"<thead><tr>{titles}</tr></thead><tbody>"
    )
    for run in runs:
        cells = [
            run.added_at[:19].replace("T", " "), ms(run.step_ns), ms(run.timed_step_ns),
            ranges(run.ranks), str(setup_of[run.number]), (run.commit or UNKNOWN)[:_COMMIT],
            run.branch or UNKNOWN, ", ".join(run.tags), run.name,
        ]  # fmt: skip
        row = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        yield f'<tr><th scope="row">{run.number}</th>{row}</tr>'
    yield "</tbody></table></div></section>"
