"""Two runs side by side as one page: aligned timelines, and what their steps differ in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from html import escape

import msgspec

from ddptrace.compare.comparison import Comparison, RankDifference, to_json
from ddptrace.compare.facts import compared
from ddptrace.metrics.collective_rows import Collective
from ddptrace.outputs.comparison import (
    change_lines,
    part_rows,
    rank_row,
    side_line,
    unknown_words,
)
from ddptrace.outputs.html import sections
from ddptrace.outputs.html.about import facts, glossary
from ddptrace.outputs.html.budget import Budget, fitting
from ddptrace.outputs.html.chosen import MOST_DRAWN, choose
from ddptrace.outputs.html.document import Page, page_of
from ddptrace.outputs.html.lanes import Recorded
from ddptrace.outputs.html.looks import LOOKS
from ddptrace.outputs.html.secrets import without_secrets
from ddptrace.outputs.html.timelines import (
    Block,
    Cell,
    Drawing,
    Names,
    Step,
    blocks,
    note_of,
    packed,
    recordings_of,
    steps_of,
    urgency,
)
from ddptrace.report import Report
from ddptrace.wording import one_line

_MOST_RANKS = 512
_MOST_PARTS = 1_500
"""Of a rank's part in a collective, of each run."""
_KEY = "both"


def render(comparison: Comparison, a: Report, b: Report) -> str:
    """Return two runs side by side as one HTML page, of 8 MB at most."""
    runs = {"A": without_secrets(a), "B": without_secrets(b)}
    recordings = {name: recordings_of(report) for name, report in runs.items()}
    return fitting(lambda budget: _page(comparison, runs, recordings, budget))


def _page(
    comparison: Comparison,
    runs: Mapping[str, Report],
    recordings: Mapping[str, Mapping[int, Sequence[Recorded]]],
    budget: Budget,
) -> str:
    changed, unknown = compared(runs["A"], runs["B"])
    found = replace(
        comparison,
        ranks=_most_different(comparison),
        changed=changed,
        unknown=unknown,
    )
    names = Names(budget.names)
    step = _step(comparison, runs)
    drawn = [] if step is None else _blocks(step, recordings, budget, names)
    return page_of(
        Page(
            title=f"ddptrace compare: A is {_name(comparison.a.name)}, "
            f"B is {_name(comparison.b.name)}",
            body=_body(found, runs, drawn, len(comparison.ranks)),
            documents={
                "ddptrace-comparison": msgspec.json.format(to_json(found), indent=-1),
                "ddptrace-page": _about(runs, drawn),
            },
            blocks={
                "names": packed(msgspec.json.encode(names.words)),
                "waits": packed(b"{}"),
                **{block.step.key: block.data for block in drawn},
            },
        )
    )


def _name(text: str) -> str:
    return one_line(text)[-80:]


def _most_different(comparison: Comparison) -> list[RankDifference]:
    by_difference = sorted(
        comparison.ranks, key=lambda one: (-abs(one.step_ns.difference_ns), one.rank)
    )
    return sorted(by_difference[:_MOST_RANKS], key=lambda one: one.rank)


# --- the timelines ---


def _step(comparison: Comparison, runs: Mapping[str, Report]) -> Step | None:
    """Return the median steps of both runs as one to draw; None where no run has a timeline."""
    cells: list[Cell] = []
    for side, (name, report) in zip((comparison.a, comparison.b), runs.items(), strict=True):
        cells += _cells(report, name, side.rank)
    if not cells:
        return None
    common = not any(
        one.code == "no_common_clock" for report in runs.values() for one in report.run.warnings
    )
    return Step(_KEY, "the median steps of A and B", cells, common)


def _cells(report: Report, name: str, longest: int | None) -> list[Cell]:
    """Return the ranks of a run to draw in its median step, that of the comparison first."""
    chosen = choose(report)
    steps = {step.key: step for step in steps_of(report, chosen)}
    shown = steps.get(chosen.first_key)
    if shown is None:
        return []
    ranks = [*([] if longest is None else [longest]), *chosen.drawn]
    kept = list(dict.fromkeys(ranks))[: MOST_DRAWN // 2]
    found = {cell.rank: replace(cell, run=name) for cell in shown.cells}
    return [found[rank] for rank in sorted(kept) if rank in found]


def _blocks(
    step: Step,
    recordings: Mapping[str, Mapping[int, Sequence[Recorded]]],
    budget: Budget,
    names: Names,
) -> list[Block]:
    every = [cell.rank for cell in step.cells]
    order = urgency([step], every, [_KEY])
    return blocks([step], recordings, Drawing(budget.rows, order, names))


def _about(runs: Mapping[str, Report], drawn: Sequence[Block]) -> str:
    about = {
        "kind": "comparison",
        "looks": {name: asdict(look) for name, look in LOOKS.items()},
        "steps": [
            {
                "key": _KEY,
                "title": "median steps",
                "figures": True,
                "step": None,
                "note": note_of(drawn[0] if drawn else None),
            }
        ],
        "first": _KEY,
        "ranks": [],
        "drawn": [],
        "roles": {},
        "places": [],
        "collectives": {name: _collectives(report) for name, report in runs.items()},
    }
    return msgspec.json.encode(about).decode()


def _collectives(report: Report) -> list[Collective]:
    """Return the collectives of the median step, the most exposed where there are many."""
    step = report.summary.median_step
    mine = [one for one in report.collectives if one.step == step]
    mine.sort(key=lambda one: -max((each.exposed_ns for each in one.ranks), default=0))
    kept, room = [], _MOST_PARTS
    for one in mine:
        room -= len(one.ranks)
        if room < 0:
            break
        kept.append(one)
    return kept


# --- what is said ---


def _body(
    found: Comparison, runs: Mapping[str, Report], drawn: Sequence[Block], ranks: int
) -> Iterator[str]:
    yield from _top(found)
    yield '<section><h2 id="waterfall">How the step of A becomes that of B</h2>'
    yield sections.figure(
        "waterfall-chart",
        "From the step of A, part by part, to the step of B: a plus makes B longer, a minus "
        "shorter. The parts add up to the difference.",
    )
    yield from _parts(found)
    yield "</section>"
    yield from sections.timeline(drawn, "median steps, each from its start")
    lacking = [name for name, report in runs.items() if report.timeline is None]
    yield from (
        f"<p>{name} is a saved report without a timeline: save it with --timeline.</p>"
        for name in lacking
    )
    yield from _ranks(found, ranks)
    yield from _changed(found)
    for name, report in runs.items():
        yield f"<section><h2>Run {name}</h2>"
        yield from facts(report)
        yield "</section>"
    yield from glossary()


def _top(found: Comparison) -> Iterator[str]:
    yield '<section class="answer" aria-label="Difference">'
    yield f'<p class="headline">{escape(found.headline)}</p>'
    against = [one.message for one in found.cautions if not one.comparable]
    doubts = [one.message for one in found.cautions if one.comparable]
    if against or doubts:
        items = [f"<strong>Not comparable:</strong> {escape(words)}" for words in against]
        items += [escape(words) for words in doubts]
        yield f'<ul class="warnings" aria-label="Cautions">{_items(items)}</ul>'
    sides = [f"{name}: {side_line(side)}" for name, side in (("A", found.a), ("B", found.b))]
    yield f'<ul class="plain">{_items(map(escape, sides))}</ul></section>'


def _items(words: Iterable[str]) -> str:
    return "".join(f"<li>{one}</li>" for one in words)


def _parts(found: Comparison) -> Iterator[str]:
    if found.step_ns is None:
        yield f"<p>{escape(found.headline)}</p>"
        return
    rows = part_rows(found.step_ns, found.parts)
    yield _table("Parts of the step, in ms", ("part", "A", "B", "difference", "share"), rows)


def _ranks(found: Comparison, ranks: int) -> Iterator[str]:
    if not found.ranks:
        return
    yield '<section><h2 id="ranks">Rank by rank</h2>'
    heads = ("rank", "A", "B", "difference", "of that")
    yield _table("Median step of each rank, in ms", heads, map(rank_row, found.ranks))
    if len(found.ranks) < ranks:
        yield f"<p>The {len(found.ranks)} of {ranks} ranks that differ most.</p>"
    yield "</section>"


def _table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table whose first column, and a last one in words, are read from the left."""
    left = {0, len(heads) - 1} if heads[-1] == "of that" else {0}
    marks = ["word" if at in left else "" for at in range(len(heads))]
    head = "".join(
        f'<th scope="col" class="{mark}">{escape(name)}</th>'
        for name, mark in zip(heads, marks, strict=True)
    )
    body = "".join(f"<tr>{_cells_of(row, marks)}</tr>" for row in rows)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(title)}">'
        f'<table class="evidence"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _cells_of(row: Sequence[str], marks: Sequence[str]) -> str:
    first, *rest = zip(row, marks, strict=True)
    indent = " indent" if first[0].startswith(" ") else ""
    cells = "".join(f'<td class="{mark}">{escape(text)}</td>' for text, mark in rest)
    return f'<th scope="row" class="{first[1]}{indent}">{escape(first[0].strip())}</th>{cells}'


def _changed(found: Comparison) -> Iterator[str]:
    lines = [line for change in found.changed for line in change_lines(change)]
    yield '<section><h2 id="changed">What changed beside the times</h2>'
    if not lines:
        yield "<p>Nothing that is known of both runs.</p>"
    yield f'<ul class="plain">{_items(map(escape, lines))}</ul>'
    for names, words in unknown_words(found.unknown).items():
        yield f'<p class="quiet">Not known of {names}: {escape(", ".join(words))}.</p>'
    yield "</section>"
