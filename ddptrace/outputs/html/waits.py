"""Who waited in which collective, as small tables: the report's own records would be too large."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ddptrace.metrics.collective_rows import Collective
from ddptrace.outputs.html.chosen import Chosen, StepNumber
from ddptrace.report import Report


@dataclass(frozen=True, slots=True)
class Waits:
    """The waiting in ns of each rank in each collective of a step; None where it is not known.

    `collectives` are their names and short ones; `rows` has a list of them for each rank.
    """

    ranks: list[int]
    collectives: list[tuple[str, str]]
    rows: list[list[int | None]]


def waits_by_step(report: Report, chosen: Chosen, most: int) -> dict[StepNumber, Waits]:
    """Return the waiting in the steps of a page, the one to show first before others.

    Where it is too much only the ranks to draw and those that waited longest are there.
    """
    by_step: dict[StepNumber, list[Collective]] = {}
    for one in report.collectives:
        by_step.setdefault(one.step, []).append(one)
    found: dict[StepNumber, Waits] = {}
    room = most
    for step in chosen.by_urgency:
        waits = _fewer(_waits(by_step.get(step, [])), chosen.drawn, room)
        room -= len(waits.ranks) * len(waits.collectives)
        found[step] = waits
    return found


def _waits(collectives: Sequence[Collective]) -> Waits:
    known = [one for one in collectives if any(each.wait_ns is not None for each in one.ranks)]
    ranks = sorted({each.rank for one in known for each in one.ranks})
    columns = [{each.rank: each.wait_ns for each in one.ranks} for one in known]
    return Waits(
        ranks=ranks,
        collectives=[_names(one) for one in known],
        rows=[[column.get(rank) for column in columns] for rank in ranks],
    )


def _names(one: Collective) -> tuple[str, str]:
    if one.bucket is not None:
        return f"bucket {one.bucket}", f"b{one.bucket}"
    return f"{one.op or 'collective'} #{one.order}", f"#{one.order}"


def _fewer(waits: Waits, drawn: Sequence[int], most: int) -> Waits:
    """Return as many ranks as there is room for, those to draw and then those that wait longest."""
    columns = len(waits.collectives)
    if len(waits.ranks) * columns <= most:
        return waits
    totals = [sum(ns or 0 for ns in row) for row in waits.rows]
    order = sorted(
        range(len(waits.ranks)), key=lambda at: (waits.ranks[at] not in drawn, -totals[at])
    )
    kept = sorted(order[: most // max(columns, 1)])
    return Waits(
        [waits.ranks[at] for at in kept], waits.collectives, [waits.rows[at] for at in kept]
    )
