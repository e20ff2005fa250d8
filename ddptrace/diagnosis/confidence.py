"""How sure a verdict is, and why."""

from __future__ import annotations

from collections.abc import Sequence

from ddptrace.diagnosis.basis import Basis
from ddptrace.diagnosis.finding import VERDICT_PART, Confidence, Finding
from ddptrace.diagnosis.ledger import Causes, total_ns
from ddptrace.metrics.recording import SLOWED_RATIO, figures_part, recording, run_parts
from ddptrace.metrics.stragglers import sharing_ranks
from ddptrace.wording import of_ranks

_OF_THE_HOST = frozenset({"launch_bound", "sync_wait", "input_stall"})
_OF_LINKS = frozenset({"comm_bandwidth", "comm_latency", "bucket_schedule"})
_UNEXPLAINED = ("comm_unknown_ns", "idle_unknown_ns")
_UNEXPLAINED_WAITS = (*_UNEXPLAINED, "straggler_ns")
NEAR_RATIO = 0.8
FEW_STEPS = 3


def confidence(
    basis: Basis, verdict: Finding, causes: Sequence[Finding]
) -> tuple[Confidence | None, str | None]:
    """Return how sure the verdict of a run is, with the reason; None where there is none."""
    if verdict.code == "unknown":
        return None, verdict.advice
    low = _why_low(basis, verdict)
    if low is not None:
        return "low", low
    medium = _why_medium(basis, verdict, causes)
    return ("high", "nothing speaks against it") if medium is None else ("medium", medium)


def _why_low(basis: Basis, verdict: Finding) -> str | None:
    run, late = basis.measured.run, basis.measured.stragglers
    if verdict.code == "straggler" and late.confidence == "low":
        return late.reason
    slowed = _slowed(basis)
    of_host = verdict.code in _OF_THE_HOST or (verdict.code == "straggler" and late.cause == "host")
    if slowed is not None and of_host:
        return f"recording made steps {100 * slowed:.0f} % longer, and the host is what it slows"
    unexplained_ns = _unexplained_ns(basis, verdict)
    if verdict.cost_ns is not None and unexplained_ns > verdict.cost_ns:
        return f"more of the step has no cause that could be told: {unexplained_ns / 1e6:.2f} ms"
    if run.partial_ranks:
        return f"the recording of {of_ranks(run.partial_ranks)} is not whole"
    shared = sharing_ranks(basis.measured.collected)
    if shared and verdict.code in _OF_LINKS:
        return f"{of_ranks(shared)} share one GPU, and transfers hold the turns of others"
    return None


def _why_medium(basis: Basis, verdict: Finding, causes: Sequence[Finding]) -> str | None:
    run = basis.measured.run
    if run.missing_ranks:
        return f"no recording of {of_ranks(run.missing_ranks)}"
    slowed = _slowed(basis)
    if slowed is not None:
        return f"recording made steps {100 * slowed:.0f} % longer"
    steps = {one.row.step for one in basis.counted}
    if len(steps) < FEW_STEPS:
        return f"{len(steps)} step{'' if len(steps) == 1 else 's'} counted, which are few"
    if verdict.cost_ns is None:
        return _why_not_high(basis, verdict, causes)
    costs = [one.cost_ns or 0 for one in causes]
    if len(costs) > 1 and costs[1] >= NEAR_RATIO * costs[0]:
        return f"{causes[1].code} costs nearly as much"
    return None


def _why_not_high(basis: Basis, verdict: Finding, causes: Sequence[Finding]) -> str | None:
    """Return why a verdict that names no cause is not sure: something else may be one."""
    limit_ns = VERDICT_PART * (basis.step_ns or 0)
    if causes and (causes[0].cost_ns or 0) >= NEAR_RATIO * limit_ns:
        return f"{causes[0].code} costs nearly enough to be the verdict"
    unexplained_ns = _unexplained_ns(basis, verdict)
    if unexplained_ns >= limit_ns:
        return f"{unexplained_ns / 1e6:.2f} ms of the step have no cause that could be told"
    copies = basis.cost(lambda one: None if one.ledger is None else one.ledger.exposed_mem_ns)
    if copies is not None and copies.ns >= limit_ns:
        return f"{copies.ns / 1e6:.2f} ms of the step are copies that nothing hides"
    return None


def _unexplained_ns(basis: Basis, verdict: Finding) -> int:
    """Return how much of a step is exposed communication or idle time without a known cause.

    What a late rank does is no other cause: it is why it is late.
    """
    parts = _UNEXPLAINED if basis.measured.stragglers.unknown is None else _UNEXPLAINED_WAITS
    late = verdict.ranks if verdict.code == "straggler" else []

    def unexplained_ns(one: Causes) -> int | None:
        if one.ledger is None or one.row.rank in late:
            return None
        return total_ns(one.ledger, parts)

    cost = basis.cost(unexplained_ns)
    return 0 if cost is None else cost.ns


def _slowed(basis: Basis) -> float | None:
    """Return by how much recording made the steps longer, where that is more than a little."""
    run = basis.measured.run
    cost, part = recording(run), figures_part(run_parts(run))
    if cost is None:
        return None
    ratios = [one.slowdown_ratio for one in cost.parts if one.part == part]
    known = [ratio for ratio in ratios if ratio is not None]
    return max(known) if known and max(known) > SLOWED_RATIO else None
