"""The one sentence on what holds a run back, and where a step went."""

from __future__ import annotations

from collections.abc import Sequence

from ddptrace.diagnosis.finding import VERDICT_PART, Finding
from ddptrace.metrics.steps import StepMetrics
from ddptrace.metrics.summary import Summary, longest_by_step
from ddptrace.wording import of_ranks

ALL_PARTIAL = "no whole recording: every rank here is partial, so there is no step to show"


def where(rows: Sequence[StepMetrics], summary: Summary) -> str:
    """Return one sentence on where the median step went, on the rank on which it took longest."""
    longest = longest_by_step(rows)
    if summary.median_step is not None:
        return f"median step {of_step(longest[summary.median_step], rows)}"
    if not rows:
        return ALL_PARTIAL
    row = max(rows, key=lambda row: row.step_ns or 0)
    return f"step time is not available; the recording of rank {row.rank} took {_parts(row)}"


def of_step(row: StepMetrics, rows: Sequence[StepMetrics]) -> str:
    """Return where one step went; `row` is the one of the rank that took longest, of `rows`."""
    several = len({row.rank for row in rows}) > 1
    where = f"rank {row.rank}, its longest" if several else f"rank {row.rank}"
    return f"{row.step} ({where}) took {_parts(row)}"


def _parts(row: StepMetrics) -> str:
    parts = {
        "compute": row.compute_ns,
        "exposed communication": row.exposed_comm_ns,
        "exposed copies": row.exposed_mem_ns,
        "idle": row.idle_ns,
    }
    step_ns = row.step_ns or 0
    known = {name: ns for name, ns in parts.items() if ns is not None}
    whole = len(known) == len(parts) and step_ns > 0
    words = [
        f"{name} {ns / 1e6:.2f} ms" + (f" ({100 * ns / step_ns:.1f} %)" if whole else "")
        for name, ns in known.items()
    ]
    words += [f"{name} unknown" for name in parts if name not in known]
    return f"{step_ns / 1e6:.2f} ms: {', '.join(words)}"


def verdict_sentence(
    verdict: Finding, step_ns: int | None, dangers: Sequence[Finding] = (), doubt: str | None = None
) -> str:
    """Return what holds the step back, what that costs and where, and what to try.

    What may make the job wrong is said before it, and behind it why it is hardly to be believed.
    """
    before = "".join(f"{one.advice.partition(':')[0]} ({one.code}); " for one in dangers)
    behind = f" (confidence low: {doubt})" if doubt else ""
    return f"{before}{of_cost(verdict, step_ns)}: {verdict.advice}{behind}"


def of_cost(finding: Finding, step_ns: int | None) -> str:
    """Return what a finding costs and where; its code alone where it has no cost."""
    if finding.cost_ns is None:
        return finding.code
    cost = f"{finding.cost_ns / 1e6:.2f} ms"
    if step_ns:
        share = _percent(finding.cost_ns, step_ns)
        cost = f"{finding.cost_ns / 1e6:.2f} of {step_ns / 1e6:.2f} ms a step ({share} %)"
    return f"{finding.code} costs {cost}{_on(finding)}"


def _percent(cost_ns: int, step_ns: int) -> str:
    """Return a cost in percent of the step: too little for the verdict is not rounded up to it."""
    share, digits = cost_ns / step_ns, 1
    while share < VERDICT_PART <= round(share, digits + 2):
        digits += 1
    return f"{100 * share:.{digits}f}"


def _on(verdict: Finding) -> str:
    """Return the ranks that it costs; those that wait for a late one are all others."""
    if verdict.code == "straggler" or not verdict.ranks:
        return ""
    return f" on {of_ranks(verdict.ranks)}"
