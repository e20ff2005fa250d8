"""The report that a page holds as data: all of it, or as much as leaves the page small."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec

from ddptrace.metrics.bucket_summary import Bucket
from ddptrace.metrics.collective_rows import Collective
from ddptrace.outputs.html.chosen import Chosen
from ddptrace.outputs.html.secrets import without_secrets
from ddptrace.report import Report, to_json

_MOST_PARTS = 4_000
"""Of a rank's part in a collective, or in a bucket: about 2 MB."""
_MOST_OF_RANKS = 1_024
_MOST_WARNINGS = 400
_FEWEST = 8


@dataclass(frozen=True, slots=True)
class Held:
    """The report that a page holds, its JSON, and sentences on what that leaves out."""

    report: Report
    json: str
    left_out: list[str]


def held(report: Report, chosen: Chosen, most_bytes: int) -> Held:
    """Return what a page holds of a report: fewer records of each kind until it is small enough.

    Texts that a run may have at any length are cut before the last records go.
    """
    clean = without_secrets(report)
    divisor = 1
    while True:
        kept = _kept(clean, chosen, divisor)
        text = _compact(kept)
        if len(text.encode()) <= most_bytes or divisor > _MOST_PARTS:
            break
        divisor *= max(2, len(text) // most_bytes)
    if len(text.encode()) > most_bytes:
        kept = _bare(kept)
        text = _compact(kept)
    return Held(kept, text, list(_left_out(report, kept)))


def _compact(report: Report) -> str:
    return msgspec.json.format(to_json(report), indent=-1)


def _kept(report: Report, chosen: Chosen, divisor: int) -> Report:
    parts, of_ranks = _MOST_PARTS // divisor, max(_MOST_OF_RANKS // divisor, _FEWEST)
    drawn = set(chosen.drawn)
    rows = [row for step in chosen.by_urgency for row in chosen.rows[step]]
    most_rows = max(len(rows) // divisor, _FEWEST)
    kept_rows = sorted(rows[:most_rows], key=lambda row: (row.rank, row.start_ns))
    run, diagnosis = report.run, report.diagnosis
    return replace(
        report,
        steps=kept_rows,
        collectives=_collectives(report, chosen, parts),
        buckets=_buckets(report.buckets, drawn, parts),
        summary=replace(
            report.summary,
            ranks=[
                one
                for place, one in enumerate(report.summary.ranks)
                if place < of_ranks or one["rank"] in drawn
            ],
        ),
        diagnosis=replace(
            diagnosis,
            ledger=[
                one
                for place, one in enumerate(diagnosis.ledger)
                if place < of_ranks or one.rank in drawn
            ],
        ),
        run=replace(
            run,
            warnings=run.warnings[: max(_MOST_WARNINGS // divisor, _FEWEST)],
            clocks=run.clocks[:of_ranks],
            unreadable=run.unreadable[:of_ranks],
            missing_reasons=dict(list(run.missing_reasons.items())[:of_ranks]),
            unmatched_collectives=dict(list(run.unmatched_collectives.items())[:of_ranks]),
        ),
        stragglers=None
        if report.stragglers is None
        else replace(report.stragglers, steps=report.stragglers.steps[:of_ranks]),
    )


def _collectives(report: Report, chosen: Chosen, most: int) -> list[Collective]:
    """Return the collectives to hold, with fewer ranks in each before there are fewer of them.

    Those of the steps held come first, then the most exposed.
    """
    found = report.collectives
    if _parts(found) <= most:
        return list(found)
    drawn = set(chosen.drawn)
    found = [_with_fewer_ranks(one, drawn) for one in found]
    urgency = {step: place for place, step in enumerate(chosen.by_urgency)}

    def place(at: int) -> tuple[int, int]:
        one = found[at]
        exposed_ns = max((each.exposed_ns for each in one.ranks), default=0)
        return urgency.get(one.step, len(urgency)), -exposed_ns

    kept, room = set(), most
    for at in sorted(range(len(found)), key=place):
        room -= len(found[at].ranks)
        if room < 0:
            break
        kept.add(at)
    return [one for at, one in enumerate(found) if at in kept]


def _parts(collectives: Sequence[Collective]) -> int:
    return sum(len(one.ranks) for one in collectives)


def _with_fewer_ranks(one: Collective, drawn: Collection[int]) -> Collective:
    """Return a collective with the ranks to draw, and those that a table names."""
    ranks = one.ranks
    if not ranks:
        return one
    named = {
        max(ranks, key=lambda each: each.wait_ns or 0).rank,
        min(ranks, key=lambda each: each.wait_ns or 0).rank,
        max(ranks, key=lambda each: each.exposed_ns).rank,
        max(ranks, key=lambda each: (each.bucket and each.bucket.queue_ns) or 0).rank,
    }
    return replace(one, ranks=[each for each in ranks if each.rank in drawn or each.rank in named])


def _buckets(buckets: Sequence[Bucket], drawn: set[int], most: int) -> list[Bucket]:
    """Return buckets with the figures of all ranks, or of those to draw where that is too much."""
    if sum(len(one.ranks) for one in buckets) <= most:
        return list(buckets)
    few = [
        replace(one, ranks=[each for each in one.ranks if each.rank in drawn]) for one in buckets
    ]
    return few[: max(most, _FEWEST)]


def _bare(report: Report) -> Report:
    """Return a report without what may be of any length: names, parameters, warnings, options."""
    return replace(
        report,
        steps=[replace(row, name=None) for row in report.steps],
        collectives=[],
        buckets=[replace(one, parameters=None) for one in report.buckets],
        run=replace(report.run, warnings=[], settings=None, versions={}, missing_reasons={}),
        whatif=None,
    )


def _left_out(report: Report, kept: Report) -> Iterator[str]:
    """Yield what a page says of the records that it does not hold."""
    records = {
        "rows of steps and ranks": (len(report.steps), len(kept.steps)),
        "collectives": (len(report.collectives), len(kept.collectives)),
        "ranks' parts in collectives": (_parts(report.collectives), _parts(kept.collectives)),
        "warnings": (len(report.run.warnings), len(kept.run.warnings)),
        "ledgers": (len(report.diagnosis.ledger), len(kept.diagnosis.ledger)),
    }
    few = [
        f"{some:,} of {every:,} {noun}" for noun, (every, some) in records.items() if some < every
    ]
    if few:
        yield (
            f"To stay small this page holds {', '.join(few)}: those of the steps in its list and "
            "of the ranks drawn at first before others, then the most exposed. "
            "ddptrace report --json has all."
        )
