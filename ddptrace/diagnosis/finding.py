"""What every rule gives: a cause, what it costs, why we believe it, and what to try."""

from __future__ import annotations

from dataclasses import dataclass

LISTED_PART = 0.01
"""A finding is listed when it costs this part of the median step at least."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One figure that a finding rests on, beside the limit it was held against."""

    metric: str
    value: float | int | None
    limit: float | int | None


@dataclass(frozen=True, slots=True)
class Finding:
    """One cause that costs time, with what it costs a step and what to try."""

    code: str
    cost_ns: int | None
    ranks: list[int]
    evidence: list[Evidence]
    advice: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The sentence about the median step; `bottleneck` is None where no verdict was made."""

    bottleneck: str | None
    headline: str
    findings: list[Finding]
