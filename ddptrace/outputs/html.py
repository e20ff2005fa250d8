"""The report as one page that needs no network: two charts, and a table of the same figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import TypeAlias

import msgspec
from plotly.offline import get_plotlyjs

from ddptrace.metrics.steps import StepMetrics
from ddptrace.outputs.figures import UNKNOWN, cells, columns_of, longest, ms, percent, rows_by_step
from ddptrace.outputs.findings import confidence_line
from ddptrace.outputs.html_assets import SCRIPT, data, head
from ddptrace.outputs.html_charts import PARTS, Chart, Look, breakdown, ranks
from ddptrace.outputs.html_charts import UNKNOWN as UNKNOWN_TIME
from ddptrace.outputs.html_data import embedded, left_out
from ddptrace.outputs.html_timeline import busy, legend, timeline
from ddptrace.outputs.recording import why_missing
from ddptrace.outputs.said import said
from ddptrace.report import Report, to_json

Steps: TypeAlias = dict[int | None, list[StepMetrics]]

_MOST_RANKS = 64  # of a chart; the table has all
_MOST_BARS_A_STEP = 15_000  # more would zoom slowly
_MOST_BARS = 30_000  # of all timelines of a page: about 700 kB

_KEY = (
    "Times in ms; compute + exposed + copies + idle = step. Hidden: communication under compute; "
    "exposed: not. "
)
_WAITING = "Waiting: the part of exposed in which a rank waited for another one. "
_MORE_KEY = (
    "Tail: communication after the last compute before its end. Overlap: the hidden "
    f"part of communication. {UNKNOWN} is unknown (or no communication), >= a lower bound."
)


@dataclass(frozen=True, slots=True)
class Shown:
    """One step of the page: its title and its charts."""

    title: str
    breakdown: Chart
    timeline: Chart | None


def render(report: Report, *, step: str) -> str:
    """Return the report as one HTML page with the charts and figures of the steps to show."""
    steps = rows_by_step(report, step)
    shown = _shown(report, steps)
    numbers = list(steps)
    median = report.summary.median_step
    first = numbers.index(median) if median in steps else 0
    kept = embedded(report, numbers)
    parts = [
        head("ddptrace report", _rank_count(report)),
        *_top(report),
        *_charts(shown, first),
        *_table(steps),
        *_left_out_of_data(report, kept, numbers),
        "</main>",
        data("ddptrace-report", to_json(kept)),
        data("ddptrace-charts", msgspec.json.encode(shown).decode()),
        f"<script>{get_plotlyjs()}</script>",
        f"<script>{SCRIPT}</script>",
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _shown(report: Report, steps: Steps) -> list[Shown]:
    times = None if report.timeline is None else busy(report.timeline)
    codes = {warning.code for warning in report.run.warnings}
    draw = partial(
        timeline,
        common_clock="no_common_clock" not in codes,
        most_bars=min(_MOST_BARS_A_STEP, _MOST_BARS // len(steps)),
    )
    charted = [longest(rows, _MOST_RANKS) for rows in steps.values()]
    return [
        Shown(
            title=_title(every[0]) + _left_out(len(every), len(rows)),
            breakdown=breakdown(rows),
            timeline=None if times is None else draw(rows, times),
        )
        for rows, every in zip(charted, steps.values(), strict=True)
    ]


def _title(row: StepMetrics) -> str:
    """Return what a step is called: its number, and its name where that says more."""
    if row.step is None:
        return "whole recording"
    plain = row.name in (None, f"ProfilerStep#{row.step}", f"step {row.step}")
    return f"step {row.step}" if plain else f"step {row.step}: {row.name}"


def _left_out(rows: int, shown: int) -> str:
    return "" if shown == rows else f", the {shown} of {rows} ranks with the longest steps"


def _left_out_of_data(report: Report, kept: Report, shown: Sequence[int | None]) -> Iterator[str]:
    sentence = left_out(report, kept, shown)
    if sentence is not None:
        yield f'<p class="quiet">{escape(sentence)}</p>'


def _top(report: Report) -> Iterator[str]:
    facts = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
        for name, value in _facts(report).items()
    )
    yield f'<dl class="run">{facts}</dl>'
    yield f'<p class="headline">{escape(report.diagnosis.headline)}</p>'
    sure = confidence_line(report)
    yield f"<p>{escape(report.diagnosis.where)}{'.' if sure is None else f'; {escape(sure)}.'}</p>"
    times = report.summary.step_ns
    if times is not None:
        yield (
            f'<p class="quiet">Step time over the run: median {ms(times.median)}, '
            f"p95 {ms(times.p95)}, min {ms(times.min)}, max {ms(times.max)} ms "
            "(the longest rank's).</p>"
        )
    for sentence in said(report):
        yield f'<p class="quiet">{escape(sentence[0].upper() + sentence[1:])}.</p>'
    warnings = "".join(f"<li>{warning}</li>" for warning in _warnings(report))
    if warnings:
        yield f'<ul class="warnings" aria-label="Warnings">{warnings}</ul>'


def _rank_count(report: Report) -> str:
    here, world_size = len(report.run.ranks), report.run.world_size
    if world_size is None:
        return f"{here} rank{'' if here == 1 else 's'}, world size unknown"
    return f"{here} of {world_size} ranks"


def _facts(report: Report) -> dict[str, str]:
    """Return what is known of the run, by its name on the page."""
    run = report.run
    facts = {
        "recorded": _rank_count(report),
        "on": run.device or "unknown GPU",
        "backend": run.backend or "",
    }
    return {name: value for name, value in (facts | _versions(run.versions)).items() if value}


def _versions(versions: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", " "): version for name, version in versions.items()}


def _warnings(report: Report) -> Iterator[str]:
    run = report.run
    if run.missing_ranks:
        why = escape(" ".join(["No recording was found.", *why_missing(run)]))
        yield f"<strong>Missing: {ranks(run.missing_ranks)}.</strong> {why}"
    if run.partial_ranks:
        yield (
            f"<strong>PARTIAL: {ranks(run.partial_ranks)}.</strong> "
            "Figures of a partial rank are lower bounds and count in no total."
        )
    for warning in run.warnings:
        if warning.code == "missing_ranks":
            continue  # said above
        who = "" if warning.rank is None else f"rank {warning.rank}: "
        yield escape(who + warning.message)


def _charts(shown: Sequence[Shown], first: int) -> Iterator[str]:
    now = shown[first]
    if len(shown) > 1:
        yield _choice(shown, first)
    unknown = any(
        bars["name"] == UNKNOWN_TIME.title for one in shown for bars in one.breakdown.data
    )
    looks = [*PARTS.values(), *([UNKNOWN_TIME] if unknown else [])]
    yield _section("breakdown", "Where the step went", now.title, now.breakdown, looks)
    if now.timeline is not None:
        yield _section("timeline", "Timeline", now.title, now.timeline, legend(unknown=unknown))
    else:
        yield "<section><h2>Timeline</h2><p>This report holds no timeline.</p></section>"
    yield "<noscript><p>The charts need JavaScript; the table does not.</p></noscript>"


def _choice(shown: Sequence[Shown], first: int) -> str:
    marks = [" selected" if place == first else "" for place in range(len(shown))]
    options = "".join(
        f'<option value="{place}"{mark}>{escape(one.title)}</option>'
        for place, (one, mark) in enumerate(zip(shown, marks, strict=True))
    )
    return (
        '<p class="choice"><label for="step-choice">Charts of</label> '
        f'<select id="step-choice" autocomplete="off">{options}</select></p>'
    )


def _section(name: str, heading: str, step: str, chart: Chart, looks: Sequence[Look]) -> str:
    """Return a section with an empty chart, which the page's script fills."""
    swatches = "".join(
        f'<li><span class="swatch" style="background: {look.css}"></span>{look.title}</li>'
        for look in looks
    )
    return (
        f'<section><h2>{heading}: <span id="{name}-step">{escape(step)}</span></h2>'
        f'<ul class="legend">{swatches}</ul><figure><div id="{name}" class="chart"></div>'
        f'<figcaption id="{name}-note">{escape(chart.note)}</figcaption></figure></section>'
    )


def _table(steps: Steps) -> Iterator[str]:
    columns = columns_of(steps)
    names = "".join(f'<th scope="col">{name}</th>' for name in ("rank", *columns, "overlap"))
    key = _KEY + (_WAITING if "waiting" in columns else "") + _MORE_KEY
    yield (
        '<section><h2 id="figures">Figures</h2>'
        f'<p class="quiet" id="figures-key">{key}</p>'
        '<div class="scroll" role="region" tabindex="0" aria-labelledby="figures">'
        '<table aria-labelledby="figures" aria-describedby="figures-key">'
        f"<thead><tr>{names}</tr></thead>"
    )
    for rows in steps.values():
        title = escape(_title(rows[0]))
        yield f'<tbody><tr><th scope="rowgroup" colspan="{len(columns) + 2}">{title}</th></tr>'
        for row in rows:
            yield _table_row(row, columns)
        yield "</tbody>"
    yield "</table></div></section>"


def _table_row(row: StepMetrics, columns: Mapping[str, str]) -> str:
    mark = ' <strong class="partial">PARTIAL</strong>' if row.partial else ""
    values = [getattr(row, name) for name in columns.values()]
    overlap = percent(row.overlap_ratio), row.overlap_ratio
    figures = [*zip(cells(row, columns), values, strict=True), overlap]
    data = "".join(f"<td>{_figure(text, value)}</td>" for text, value in figures)
    return f'<tr><th scope="row">{row.rank}{mark}</th>{data}</tr>'


def _figure(text: str, value: float | None) -> str:
    """Return a figure for readers with its exact value for programs."""
    shown = escape(text)
    return shown if value is None else f'<data value="{value}">{shown}</data>'
