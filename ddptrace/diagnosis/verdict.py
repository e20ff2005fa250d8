"""The verdict: what holds the step back, what it costs, how sure that is, and what to try."""

from __future__ import annotations

from collections.abc import Sequence

from ddptrace.diagnosis.basis import Basis
from ddptrace.diagnosis.confidence import confidence
from ddptrace.diagnosis.finding import VERDICT_PART, Diagnosis, Finding
from ddptrace.diagnosis.headline import verdict_sentence, where
from ddptrace.diagnosis.ledger import Ledger
from ddptrace.diagnosis.rules import ADVICE, BOTTLENECKS
from ddptrace.diagnosis.rules.compute import without_cause
from ddptrace.diagnosis.rules.danger import DANGERS
from ddptrace.metrics.measured import Measured
from ddptrace.whatif.document import WhatIf


def diagnose(measured: Measured, whatif: WhatIf | None = None) -> Diagnosis:
    """Return the verdict of a run with its findings, the costliest first, and the ledger.

    `whatif` has the replays of its steps, where there are any.
    """
    basis = Basis.of(measured, whatif)
    causes = _sorted([finding for rule in BOTTLENECKS for finding in rule(basis)])
    # Without steps nothing can be weighed, and one piece of everything is no step.
    rules = () if basis.step_ns is None else ADVICE
    advice = _sorted([finding for rule in rules for finding in rule(basis)])
    dangers = [finding for finding in advice if finding.code in DANGERS]
    advice = [*dangers, *(finding for finding in advice if finding.code not in DANGERS)]
    first = _verdict(basis, causes)
    sure, reason = confidence(basis, first, causes)
    said = [first] if first not in causes else []
    return Diagnosis(
        bottleneck=first.code,
        headline=verdict_sentence(first, basis.step_ns, dangers, reason if sure == "low" else None),
        findings=[*causes, *said, *advice],
        where=where(measured.counted, measured.summary),
        step_ns=basis.step_ns,
        confidence=sure,
        reason=reason,
        ledger=_median_step(basis),
    )


def _sorted(findings: list[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: -(finding.cost_ns or 0))


def _verdict(basis: Basis, causes: Sequence[Finding]) -> Finding:
    """Return the costliest cause if it costs enough, else what the run is like without one."""
    limit_ns = VERDICT_PART * (basis.step_ns or 0)
    if basis.step_ns and causes and (causes[0].cost_ns or 0) >= limit_ns:
        return causes[0]
    return without_cause(basis)


def _median_step(basis: Basis) -> list[Ledger]:
    """Return the ledger of the median step on every rank; of the one row without steps."""
    step = basis.measured.summary.median_step
    found = [one.ledger for one in basis.counted if one.row.step == step]
    return [ledger for ledger in found if ledger is not None]
