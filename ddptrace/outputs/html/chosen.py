"""Which steps and ranks a page holds and draws first, so that no run is too large for it."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ddptrace.diagnosis.ledger import Ledger
from ddptrace.metrics.steps import StepMetrics
from ddptrace.metrics.summary import longest_by_step
from ddptrace.report import Report

Role: TypeAlias = Literal["late", "pays most", "slowest", "typical", "fastest"]
StepNumber: TypeAlias = int | None

MOST_ROWS = 3_000
"""Of steps times ranks that a page holds."""
MOST_STEPS = 60
MOST_DRAWN = 8
"""With more ranks than this only the slowest and the typical ones are drawn at first."""
_SLOWEST, _TYPICAL, _FASTEST = 3, 3, 1


_PAYS = {
    "straggler": ("straggler_ns",),
    "bucket_schedule": ("bucket_schedule_ns",),
    "comm_bandwidth": ("comm_bandwidth_ns",),
    "comm_latency": ("comm_latency_ns",),
    "input_stall": ("input_stall_ns",),
    "sync_wait": ("sync_wait_ns",),
    "launch_bound": ("launch_bound_ns",),
}


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a page holds of a run, in order of time and rank.

    `rows` are those of the steps held: of every rank, or of a step with too many ranks those to
    draw and the longest. `first` is the step to show first, `drawn` are the ranks to draw then,
    `roles` says why where these are not all.
    """

    rows: Mapping[StepNumber, Sequence[StepMetrics]]
    first: StepNumber
    drawn: Sequence[int]
    roles: Mapping[int, Role]
    all_steps: int
    all_ranks: int

    @property
    def first_key(self) -> str:
        """The key of the step to show first."""
        return f"step-{list(self.rows).index(self.first)}"

    @property
    def by_urgency(self) -> list[StepNumber]:
        """The steps held, the one to show first before all others."""
        return [self.first, *(step for step in self.rows if step != self.first)]


def choose(report: Report) -> Chosen:
    """Return which steps and ranks of a report its page holds and draws first."""
    by_step = _by_step(report)
    steps = _by_interest(report, by_step)
    ranks = {row.rank for row in report.steps}
    roles = _roles(report) if len(ranks) > MOST_DRAWN else {}
    drawn = sorted(roles or ranks)
    most = max(min(MOST_ROWS // max(len(ranks), 1), MOST_STEPS), 1)
    held = [step for step in by_step if step in steps[:most]]
    return Chosen(
        rows={step: _longest(by_step[step], drawn) for step in held},
        first=steps[0],
        drawn=drawn,
        roles=roles,
        all_steps=len(by_step),
        all_ranks=len(ranks),
    )


def paying(report: Report) -> Ledger | None:
    """Return the median step of the rank that pays most for the verdict; else of the longest."""
    rows = report.diagnosis.ledger
    parts = _PAYS.get(report.diagnosis.bottleneck or "", ())
    return max(
        rows,
        key=lambda row: (sum(getattr(row, part) for part in parts), row.step_ns, -row.rank),
        default=None,
    )


def has_payer(report: Report) -> bool:
    """Tell whether the verdict is a part of the ledger, which some rank pays."""
    return report.diagnosis.bottleneck in _PAYS


def _by_step(report: Report) -> dict[StepNumber, list[StepMetrics]]:
    rows: dict[StepNumber, list[StepMetrics]] = {}
    for row in sorted(report.steps, key=lambda row: (row.step is None, row.step or 0, row.rank)):
        rows.setdefault(row.step, []).append(row)
    return rows


def _by_interest(
    report: Report, by_step: Mapping[StepNumber, Sequence[StepMetrics]]
) -> list[StepNumber]:
    """Return the steps with the median one first, then the longest and the shortest, the rest."""
    times = {step: max(row.step_ns or 0 for row in rows) for step, rows in by_step.items()}
    by_time = sorted(times, key=lambda step: -times[step])
    median = report.summary.median_step
    first = [median] if median in times else by_time[len(by_time) // 2 :][:1]
    return list(dict.fromkeys([*first, by_time[0], by_time[-1], *by_step]))


def _roles(report: Report) -> dict[int, Role]:
    """Return the ranks worth drawing of many: who is late, slow, typical and fast.

    What counts is a rank's own work: its step without waiting for others.
    """
    work = _own_work_ns(report)
    order = sorted(work, key=lambda rank: (-work[rank], rank))
    middle = statistics.median(work.values())
    typical = sorted(work, key=lambda rank: (abs(work[rank] - middle), rank))
    late = [] if report.stragglers is None else [report.stragglers.rank]
    found: dict[int, Role] = {rank: "late" for rank in late if rank in work}
    payer = paying(report) if has_payer(report) else None
    if payer is not None and payer.rank in work:
        found.setdefault(payer.rank, "pays most")
    longest = longest_by_step(report.steps).get(report.summary.median_step or 0)
    slow = [*([] if longest is None else [longest.rank]), *order[:_SLOWEST]]
    chosen: list[tuple[Role, Sequence[int]]] = [
        ("slowest", slow[:_SLOWEST]),
        ("fastest", order[-_FASTEST:]),
        ("typical", typical[: MOST_DRAWN // 2]),
    ]
    for role, ranks in chosen:
        for rank in ranks:
            if len(found) < MOST_DRAWN:
                found.setdefault(rank, role)
    return found


def _own_work_ns(report: Report) -> dict[int, float]:
    own: dict[int, list[int]] = {}
    for row in report.steps:
        own.setdefault(row.rank, []).append((row.step_ns or 0) - (row.exposed_wait_ns or 0))
    return {rank: statistics.median(times) for rank, times in own.items()}


def _longest(rows: Sequence[StepMetrics], drawn: Sequence[int]) -> list[StepMetrics]:
    """Return at most so many rows as a page holds, those to draw and then the longest."""
    if len(rows) <= MOST_ROWS:
        return list(rows)
    order = sorted(rows, key=lambda row: (row.rank not in drawn, -(row.step_ns or 0), row.rank))
    return sorted(order[:MOST_ROWS], key=lambda row: row.rank)
