"""The parts of the page that its script fills: the timeline, the charts, the tables."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape

from ddptrace.metrics.summary import Summary
from ddptrace.outputs.buckets import bucket_lines
from ddptrace.outputs.figures import COLUMNS, ms, percent
from ddptrace.outputs.html.chosen import MOST_DRAWN, Chosen
from ddptrace.outputs.html.lanes import LANES
from ddptrace.outputs.html.lines import KindLine
from ddptrace.outputs.html.looks import LOOKS
from ddptrace.outputs.html.timelines import Block
from ddptrace.outputs.stragglers import straggler_lines
from ddptrace.report import Report
from ddptrace.wording import capital, counted, ranges

_TOOLS = {
    "in": ("+", "Zoom in"),
    "out": ("−", "Zoom out"),
    "all": ("Whole step", "Show the whole step"),
    "left": ("←", "Earlier"),
    "right": ("→", "Later"),
    "before": ("Previous", "Select the previous interval of the lane"),
    "after": ("Next", "Select the next interval of the lane"),
}
_RANK_HEADS = (
    *("rank", "step", "compute", "hidden", "exposed", "waiting", "transfer", "copies", "idle"),
    *("tail", "overlap"),
)
_COLLECTIVE_HEADS = (
    *("bucket", "op", "group", "MB", "ranks", "transfer", "longest wait (rank)"),
    *("most exposed (rank)", "hidden", "busbw GB/s", "queue (rank)", "held up"),
)
_WORDS = ("bucket", "op", "group", "held up")


def choice(titles: Mapping[str, str], chosen: Chosen, ranks: Sequence[int]) -> Iterator[str]:
    """Yield the bar in which the step, by its key, and the ranks to draw are chosen."""
    yield '<div class="bar" role="group" aria-label="What is shown">'
    options = "".join(
        f'<option value="{key}"{" selected" if key == chosen.first_key else ""}>'
        f"{escape(title)}</option>"
        for key, title in titles.items()
    )
    yield f'<label>Step <select id="step-choice" autocomplete="off">{options}</select></label>'
    if len(ranks) > 1:
        shown = ranges(chosen.drawn)
        yield (
            f'<label>Ranks drawn <input id="rank-choice" autocomplete="off" value="{shown}" '
            f'aria-describedby="rank-help"></label>'
            '<button type="button" id="rank-choice-first">as at first</button>'
            f'<span id="rank-help" class="quiet">of {ranges(ranks)}{_why(chosen)}</span>'
        )
    yield "</div>"
    if len(chosen.rows) < chosen.all_steps:
        yield (
            f'<p class="quiet">The list holds {len(chosen.rows)} of {chosen.all_steps} steps: the '
            "median, the longest and the shortest one, then the first ones.</p>"
        )


def _why(chosen: Chosen) -> str:
    return "; at first the slowest, typical and fastest" if chosen.roles else ""


def timeline(found: Sequence[Block], title: str) -> Iterator[str]:
    """Yield the timeline, its tools, and how it is used."""
    kinds = frozenset[str]().union(*(block.kinds for block in found))
    yield (
        '<section id="timeline-section"><h2 id="timeline-head">Timeline: '
        f'<span class="step-title">{escape(title)}</span></h2>'
    )
    if not found:
        yield "<p>This report holds no timeline: save it with --timeline.</p></section>"
        return
    yield legend(name for name in LANES if name in kinds)
    buttons = "".join(
        f'<button type="button" data-act="{name}" aria-label="{words}" title="{words}">{sign}'
        "</button>"
        for name, (sign, words) in _TOOLS.items()
    )
    yield f'<div class="tools" role="toolbar" aria-label="Timeline">{buttons}</div>'
    yield (
        '<div class="timeline"><canvas id="timeline" tabindex="0" role="application" '
        'aria-label="Timeline of the ranks" aria-describedby="timeline-keys timeline-note">'
        '</canvas><div id="timeline-tip" class="tip" hidden></div></div>'
        '<p id="timeline-readout" class="readout" aria-live="polite"></p>'
        '<p id="timeline-note" class="quiet"></p>'
        '<p id="timeline-keys" class="quiet keys">Drag over a time to zoom into it, with Shift to '
        "move; double-click for the whole step; Ctrl and wheel zoom. Keys: <kbd>←</kbd> "
        "<kbd>→</kbd> move, <kbd>+</kbd> <kbd>−</kbd> zoom, <kbd>0</kbd> whole step, <kbd>↑</kbd> "
        "<kbd>↓</kbd> lane, <kbd>,</kbd> <kbd>.</kbd> previous and next interval.</p></section>"
    )


def legend(kinds: Iterable[str]) -> str:
    """Return what the colours and patterns of some kinds of time mean."""
    items = "".join(
        f'<li><span class="swatch look-{kind}"></span>{escape(LOOKS[kind].title)}</li>'
        for kind in kinds
    )
    return f'<ul class="legend">{items}</ul>'


def ranks(report: Report, summary: Summary) -> Iterator[str]:
    """Yield what each rank did: bars, waiting, step times, a table."""
    yield '<section><h2 id="ranks">Ranks: <span class="figures-title"></span></h2>'
    yield from (f"<p>{escape(capital(line))}.</p>" for line in straggler_lines(report))
    yield "<h3>Where the step of each rank went</h3>"
    yield legend(("compute", "hidden", "wait", "transfer", "copies", "idle"))
    yield figure(
        "ranks-chart",
        "A bar is as long as the step. Compute is divided into what ran alone and what hid "
        "communication under it.",
    )
    if len(summary.ranks) > MOST_DRAWN:
        yield over_ranks(summary)
    yield "<h3>Who waited</h3>"
    yield figure(
        "waits-chart",
        "The waiting of each rank in each collective. The rank with little waiting, beside others "
        "with much, is the one that came last.",
    )
    yield "<h3>Step times</h3>"
    yield figure(
        "spread-chart",
        "Over all recorded steps: the box holds the middle half, the line the rest, its middle "
        "stroke is the median. Diamonds are steps, where there are few.",
    )
    yield table("ranks-table", "Figures of each rank, in ms", _RANK_HEADS)
    yield "</section>"


def over_ranks(summary: Summary) -> str:
    """Return a table of the figures over all ranks: the least, the median and the largest."""
    rows = []
    for title, name in COLUMNS.items():
        known = [(ns, one["rank"]) for one in summary.ranks if (ns := one[name]) is not None]
        if not known:
            continue
        least, most = min(known), max(known)
        middle = statistics.median(ns for ns, _ in known)
        cells = [
            f'<td><data value="{ns}">{ms(int(ns))}</data> ({rank})</td>'
            for ns, rank in (least, most)
        ]
        cells.insert(1, f"<td>{ms(int(middle))}</td>")
        rows.append(f'<tr><th scope="row" class="word">{title}</th>{"".join(cells)}</tr>')
    return (
        f"<h3>Over all {len(summary.ranks)} ranks</h3>"
        '<p class="quiet">Medians of each rank over its steps, in ms; in brackets a rank.</p>'
        '<div class="scroll" role="region" tabindex="0" aria-label="Figures over all ranks"><table>'
        '<thead><tr><th scope="col" class="word">figure</th><th scope="col">least</th>'
        '<th scope="col">median</th><th scope="col">most</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def buckets(report: Report, ranks: Sequence[int], first: int | None) -> Iterator[str]:
    """Yield the buckets and collectives: when they ran, what the link gave, a table."""
    title = 'Buckets and collectives: <span class="figures-title"></span>'
    yield f'<section><h2 id="buckets">{title}</h2>'
    yield from (f"<p>{escape(capital(line))}.</p>" for line in bucket_lines(report))
    options = "".join(
        f'<option value="{rank}"{" selected" if rank == first else ""}>rank {rank}</option>'
        for rank in ranks
    )
    yield (
        '<h3>From ready gradients to the end</h3><p><label>On <select id="bucket-rank" '
        f'autocomplete="off">{options}</select></label></p>'
    )
    yield figure(
        "buckets-chart",
        "Each bucket from when its gradients were ready (where that is known) to its start, then "
        "waiting for other ranks, then transfer.",
    )


def link(lines: Sequence[KindLine], timed: int) -> Iterator[str]:
    """Yield the pictures of size against transfer and bandwidth; `timed` sizes were timed alone."""
    alone = "; small marks on a line were timed on the link alone, after the last step"
    yield '<div class="two"><div><h3>Size and transfer</h3>'
    yield figure(
        "link-chart",
        "Each mark is a collective of the run"
        f"{'; the dashed line is the fitted α + S/B' if lines else ''}{alone if timed else ''}.",
    )
    yield from _line_words(lines, timed)
    yield "</div><div><h3>Size and bus bandwidth</h3>"
    yield figure(
        "bandwidth-chart",
        "That of a small collective is an upper bound of the link's bandwidth.",
    )
    yield "</div></div>"


def _line_words(lines: Sequence[KindLine], timed: int) -> Iterator[str]:
    """Yield the fixed cost and the bandwidth of each line, or why there is none."""
    if timed:
        yield f"<p>Predictions rest on the {counted(timed, 'size')} timed on the link alone.</p>"
    elif not lines:
        yield "<p>No line is fitted: the sizes of the collectives are too much alike.</p>"
    for one in lines:
        line, bandwidth = one.line, one.line.bandwidth_gb_s
        rate = "not limited by the size" if bandwidth is None else f"B = {bandwidth:.2f} GB/s"
        group = f" of group {one.group}" if len({each.group for each in lines}) > 1 else ""
        yield (
            f"<p>{escape(one.op or 'collective')}{escape(group)}: α = "
            f"<data value='{line.fixed_ns}'>{line.fixed_ns / 1e3:.1f}</data> µs, {rate} "
            f"(from {line.sizes} sizes; half of them within "
            f"{percent(line.spread_ratio)} of the line).</p>"
        )


def table(name: str, title: str, heads: Sequence[str]) -> str:
    """Return an empty table whose columns can be sorted."""
    cells = "".join(
        f'<th scope="col"{" class=" + chr(34) + "word" + chr(34) if head in _WORDS else ""}>'
        f'<button type="button">{escape(head)}</button></th>'
        for head in heads
    )
    return (
        f'<h3 id="{name}-head">{escape(title)}</h3>'
        f'<div class="scroll" role="region" tabindex="0" aria-labelledby="{name}-head">'
        f'<table id="{name}" class="sortable" aria-labelledby="{name}-head"><thead><tr>{cells}</tr>'
        "</thead><tbody></tbody></table></div>"
    )


def collectives_table() -> str:
    """Return the table of collectives, empty."""
    return table("collectives-table", "Collectives of the step, times in ms", _COLLECTIVE_HEADS)


def figure(name: str, caption: str) -> str:
    """Return the place of a chart, with what it shows."""
    return (
        f'<figure><div id="{name}" class="chart" role="img" aria-labelledby="{name}-caption">'
        f'</div><figcaption id="{name}-caption">{escape(caption)}</figcaption></figure>'
    )
