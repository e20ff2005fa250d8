"""What every rule gives: a cause, what it costs, why we believe it, and what to try."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ddptrace.diagnosis.ledger import Ledger

Confidence: TypeAlias = Literal["high", "medium", "low"]

LISTED_PART = 0.01
"""A finding is listed when it costs this part of the median step at least."""
KERNEL = "kernel_ns: "
"""What the metric of a kernel's time begins with; its name follows."""
VERDICT_PART = 0.05
"""The costliest finding is the verdict when it costs this part of the median step at least."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One figure that a finding rests on, beside the limit it was held against."""

    metric: str
    value: float | int | None
    limit: float | int | None


@dataclass(frozen=True, slots=True)
class Finding:
    """One cause, with what it costs a step in ns, where, and what to try.

    `cost_ns` is None for what costs nothing that can be told: advice, and what is no fault.
    """

    code: str
    cost_ns: int | None
    ranks: list[int]
    evidence: list[Evidence]
    advice: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The verdict on a run: `bottleneck` is the costliest cause, or how it is without one.

    `headline` says it in one sentence, `where` where the median step (or the chosen one) went;
    `step_ns` is the time of the median step, which costs are held against. `confidence` says how
    sure the verdict is, `reason` why. `ledger` has the median step of every rank.
    """

    bottleneck: str | None
    headline: str
    findings: list[Finding]
    where: str = ""
    step_ns: int | None = None
    confidence: Confidence | None = None
    reason: str | None = None
    ledger: list[Ledger] = field(default_factory=list)
