"""A report as one page that needs no network: verdict, timeline, ranks, buckets, findings."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from html import escape
from typing import Any

import msgspec
import numpy as np

from ddptrace.outputs.html import sections
from ddptrace.outputs.html.about import facts, glossary, rank_count
from ddptrace.outputs.html.budget import Budget, fitting
from ddptrace.outputs.html.chosen import Chosen, choose, paying
from ddptrace.outputs.html.document import Page, page_of
from ddptrace.outputs.html.findings import Place, findings, places
from ddptrace.outputs.html.held import Held, held
from ddptrace.outputs.html.lanes import Recorded
from ddptrace.outputs.html.lines import lines_of, timed_of
from ddptrace.outputs.html.looks import LOOKS
from ddptrace.outputs.html.timelines import (
    Block,
    Drawing,
    Names,
    blocks,
    note_of,
    packed,
    recordings_of,
    steps_of,
    title_of,
    urgency,
)
from ddptrace.outputs.html.top import top
from ddptrace.outputs.html.waits import waits_by_step
from ddptrace.outputs.predictions import bounds, grounds, headline, trust_line
from ddptrace.report import Report
from ddptrace.whatif.document import WhatIf

_MOST_POINTS = 2_000
_MOST_SPREADS = 1_024
_CONTENTS = {
    "ledger": "Step",
    "timeline-head": "Timeline",
    "ranks": "Ranks",
    "buckets": "Buckets",
    "findings": "Findings",
    "facts": "The run",
    "glossary": "Glossary",
}


def render(report: Report) -> str:
    """Return the report as one HTML page; the same report gives the same page, of 8 MB at most."""
    recordings = {"": recordings_of(report)}
    return fitting(lambda budget: _page(report, recordings, budget))


def _page(
    report: Report, recordings: Mapping[str, Mapping[int, Sequence[Recorded]]], budget: Budget
) -> str:
    chosen = choose(report)
    kept = held(report, chosen, budget.report_bytes)
    steps = steps_of(report, chosen)
    names = Names(budget.names)
    order = urgency(steps, chosen.drawn, [chosen.first_key])
    found = blocks(steps, recordings, Drawing(budget.rows, order, names))
    where = places(report, steps, chosen.first_key)
    return page_of(
        Page(
            title=f"ddptrace report: {rank_count(report.run)}",
            body=_body(report, kept, chosen, found, where),
            documents={
                "ddptrace-report": kept.json,
                "ddptrace-page": _about(report, kept.report, chosen, found, where),
            },
            blocks={
                "names": packed(msgspec.json.encode(names.words)),
                "waits": packed(_waits(report, chosen, budget)),
                **{block.step.key: block.data for block in found},
            },
        )
    )


def _body(
    whole: Report,
    kept: Held,
    chosen: Chosen,
    found: Sequence[Block],
    where: Sequence[Place | None],
) -> Iterator[str]:
    report = kept.report
    ranks = sorted({row.rank for row in report.steps})
    yield from _contents()
    yield from top(report)
    yield from sections.choice(_choices(chosen, found), chosen, ranks)
    yield from sections.timeline(found, title_of(chosen.rows[chosen.first][0]))
    yield from sections.ranks(report, whole.summary)
    yield from sections.buckets(report, ranks, _first_rank(report, ranks))
    yield from sections.link(lines_of(report.collectives), len(timed_of(report.whatif)))
    yield from _what_if(report)
    yield sections.collectives_table()
    yield "</section>"
    yield from findings(report, where)
    yield '<section><h2 id="facts">The run</h2>'
    yield from facts(report)
    yield "</section>"
    yield from glossary()
    yield from (f'<p class="quiet">{escape(line)}</p>' for line in kept.left_out)


def _choices(chosen: Chosen, found: Sequence[Block]) -> dict[str, str]:
    """Return the titles of the steps that can be shown by their keys."""
    figures = {f"step-{at}": title_of(rows[0]) for at, rows in enumerate(chosen.rows.values())}
    return figures | {block.step.key: block.step.title for block in found}


def _contents() -> Iterator[str]:
    links = "".join(f'<li><a href="#{name}">{words}</a></li>' for name, words in _CONTENTS.items())
    yield f'<nav aria-label="Contents"><ul>{links}</ul></nav>'


def _first_rank(report: Report, ranks: Sequence[int]) -> int | None:
    row = paying(report)
    return row.rank if row is not None else next(iter(ranks), None)


def _what_if(report: Report) -> Iterator[str]:
    yield "<h3>What another bucket size would do</h3>"
    if report.whatif is None:
        yield "<p>This report holds no prediction.</p>"
        return
    yield sections.figure(
        "whatif-chart",
        "The predicted step time by bucket_cap_mb with its interval, and what was measured.",
    )
    lines = [headline(report.whatif), trust_line(report.whatif), *bounds(report.whatif)]
    yield "".join(f"<p>{escape(line)}</p>" for line in lines)
    basis = "".join(f"<li>{escape(line)}</li>" for line in _basis(report.whatif))
    yield f"<details><summary>What this rests on</summary><ul class='plain'>{basis}</ul></details>"


def _basis(whatif: WhatIf) -> list[str]:
    return [*grounds(whatif), *whatif.notes]


def _about(
    report: Report,
    kept: Report,
    chosen: Chosen,
    found: Sequence[Block],
    where: Sequence[Place | None],
) -> str:
    """Return what the page's script needs to know beside the report."""
    by_key = {block.step.key: block for block in found}
    numbers = {f"step-{at}": step for at, step in enumerate(chosen.rows)}
    steps = [
        {
            "key": key,
            "title": title_of(rows[0]),
            "figures": True,
            "step": step,
            "note": note_of(by_key.get(key)),
        }
        for (key, step), rows in zip(numbers.items(), chosen.rows.values(), strict=True)
    ]
    steps += [
        {"key": key, "title": block.step.title, "figures": False, "note": note_of(block)}
        for key, block in by_key.items()
        if key not in numbers
    ]
    about: dict[str, Any] = {
        "kind": "report",
        "looks": {name: asdict(look) for name, look in LOOKS.items()},
        "steps": steps,
        "first": chosen.first_key,
        "ranks": sorted({row.rank for row in report.steps}),
        "drawn": chosen.drawn,
        "roles": {str(rank): role for rank, role in chosen.roles.items()},
        "places": [None if place is None else asdict(place) for place in where],
        "lines": [
            {"op": one.op, "group": one.group, **asdict(one.line)}
            for one in lines_of(report.collectives)
        ],
        "timed": [asdict(one) for one in timed_of(report.whatif)],
        "spread": _spread(report, chosen),
        "recorded": _recorded(report, kept),
        "measured_cap_mb": None if report.whatif is None else report.whatif.recorded_cap_mb,
    }
    return msgspec.json.encode(about).decode()


def _recorded(report: Report, kept: Report) -> list[int]:
    """Return how many ranks have a record of each collective that the page holds."""
    recorded = {(one.step, one.group, one.order): len(one.ranks) for one in report.collectives}
    return [recorded[one.step, one.group, one.order] for one in kept.collectives]


def _waits(report: Report, chosen: Chosen, budget: Budget) -> bytes:
    """Return the waiting by the keys of steps, as JSON."""
    by_step = waits_by_step(report, chosen, budget.waits)
    return msgspec.json.encode({f"step-{at}": by_step[step] for at, step in enumerate(chosen.rows)})


def _spread(report: Report, chosen: Chosen) -> list[dict[str, Any]]:
    """Return how the step times of each rank are spread, with the steps where they are few."""
    times: dict[int, list[tuple[int | None, int]]] = {}
    for row in report.steps:
        if row.step_ns is not None and not row.partial:
            times.setdefault(row.rank, []).append((row.step, row.step_ns))
    ranks = sorted(times, key=lambda rank: (rank not in chosen.drawn, rank))[:_MOST_SPREADS]
    few = sum(map(len, times.values())) <= _MOST_POINTS
    return [_spread_of(rank, times[rank], few=few) for rank in sorted(ranks)]


def _spread_of(rank: int, times: Sequence[tuple[int | None, int]], *, few: bool) -> dict[str, Any]:
    lengths = sorted(ns for _, ns in times)
    q1, q3 = np.percentile(lengths, (25, 75)).tolist()
    return {
        "rank": rank,
        "min": lengths[0],
        "q1": q1,
        "median": statistics.median(lengths),
        "q3": q3,
        "max": lengths[-1],
        "steps": times if few else [],
    }
