"""What a check found, and the versioned JSON of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import msgspec

from ddptrace.check.figures import Fact, Source
from ddptrace.compare.parts import Part

SCHEMA = 1

Outcome: TypeAlias = Literal["pass", "regression", "inconclusive", "not_comparable"]
ExitCode: TypeAlias = Literal[0, 1, 2]


@dataclass(frozen=True, slots=True)
class Interval:
    """Where the change lies with this confidence; the ratios are None from a baseline of zero."""

    confidence: float
    low_ns: int
    high_ns: int
    low_ratio: float | None
    high_ratio: float | None


@dataclass(frozen=True, slots=True)
class Steps:
    """How many steps (and of how many runs) a value is the median of."""

    steps: int
    runs: int


@dataclass(frozen=True, slots=True)
class LimitResult:
    """One limit and how it went: `limit` is its text, `reason` says the outcome in a sentence.

    Of `limit_percent` (as decimals) and `limit_ns` one is stated, and the other None.

    `rank` is None for the rank on which the metric is largest. `source` is None where no steps
    could be compared. The change is current − baseline; `change_ratio` is None from a baseline of
    zero. `allowed_ns` is the largest change that passes, the floor included. `p_value` is of
    Mann-Whitney's test, None with too few steps for it.

    `over_runs` is None for a limit held against the baseline. Else it is held against slow drift
    over so many runs of a history: the values are the lowest level and that of the last runs, and
    `p_value` is of Mann and Kendall's test.
    """

    limit: str
    metric: str
    rank: int | None
    outcome: Outcome
    reason: str
    floor_ns: int
    limit_percent: str | None = None
    limit_ns: int | None = None
    source: Source | None = None
    baseline_ns: int | None = None
    current_ns: int | None = None
    change_ns: int | None = None
    change_ratio: float | None = None
    interval: Interval | None = None
    allowed_ns: int | None = None
    baseline: Steps = Steps(0, 0)
    current: Steps = Steps(0, 0)
    p_value: float | None = None
    over_runs: int | None = None

    @property
    def place(self) -> str:
        """The metric, the rank where one was chosen, and the runs over which it may drift."""
        drift = "" if self.over_runs is None else f", drift over {self.over_runs} runs"
        return (self.metric if self.rank is None else f"{self.metric} of rank {self.rank}") + drift


@dataclass(frozen=True, slots=True)
class FactDifference:
    """Something of the fingerprint that is not the same: of each, or None where it is not told.

    Only what both tell makes runs unlike; `allowed` is what `--allow` names.
    """

    name: str
    baseline: Fact | None
    current: Fact | None
    allowed: bool


@dataclass(frozen=True, slots=True)
class PieceChange:
    """What of a part changed: a kernel, a bucket, or None for all of the part that is not named."""

    part: str
    name: str | None
    baseline_ns: int
    current_ns: int
    change_ns: int


@dataclass(frozen=True, slots=True)
class Growth:
    """Which part of the step changed, on one rank, from one median step to the other.

    `parts` add up to `change_ns` of the median steps, `pieces` of a part to that of the part.
    `rest_ns` is what the change that the limit on the step found has beyond that, since it is of
    medians over all steps, or of steps without a profiler; None without such a limit.
    """

    rank: int
    baseline_ns: int
    current_ns: int
    change_ns: int
    parts: list[Part]
    pieces: list[PieceChange]
    rest_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Power:
    """The smallest change of a metric that runs of so many steps can be expected to show."""

    limit: str
    baseline_steps: int
    current_steps: int
    detectable_ratio: float | None


@dataclass(frozen=True, slots=True)
class CheckedRun:
    """One side of a check: where its runs were read from, and the steps that count."""

    names: list[str]
    ranks: list[int]
    recorded_steps: int
    timed_steps: int


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Everything a check found; `exit_code` is 0 passed, 1 regression, 2 could not tell.

    `headline` says it in one sentence, `notes` what to know beside it, `next_steps` what to do.
    """

    outcome: Outcome
    exit_code: ExitCode
    headline: str
    baseline: CheckedRun
    current: CheckedRun
    limits: list[LimitResult]
    differences: list[FactDifference] = field(default_factory=list)
    growth: Growth | None = None
    power: list[Power] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    next_steps: list[str] = field(default_factory=list)
    schema: int = SCHEMA

    def of(self, outcome: Outcome) -> Sequence[LimitResult]:
        """Return the limits with an outcome."""
        return [one for one in self.limits if one.outcome == outcome]


def to_json(result: CheckResult) -> str:
    """Return the result as JSON."""
    built = msgspec.to_builtins(result)
    ordered = {"schema": built.pop("schema")} | built
    return msgspec.json.format(msgspec.json.encode(ordered), indent=2).decode() + "\n"
