"""What of a run is held against another one: its steps, their parts, how it was set up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from ddptrace.diagnosis.ledger import PARTS, Ledger
from ddptrace.metrics.summary import FIGURES

_LARGEST = 1 << 62

Ns: TypeAlias = Annotated[int, Meta(ge=0, le=_LARGEST)]
"""A length of time; what a file holds beyond it is damage."""
Rank: TypeAlias = Annotated[int, Meta(ge=0, le=1_000_000)]
Fact: TypeAlias = int | str | list[int]
"""A value of a fingerprint."""
Source: TypeAlias = Literal["recorded", "timed"]
"""Where steps come from: windows of a recording, or times that were taken without a profiler."""

_SOURCES: tuple[Source, ...] = ("recorded", "timed")
STEP = "step"
_OF_STEPS = [name.removesuffix("_ns") for name in FIGURES if name.endswith("_ns")]
METRICS = tuple(dict.fromkeys([*_OF_STEPS, *(name.removesuffix("_ns") for name in PARTS)]))
"""The metrics that limits can be set on: times of a step, and the parts of its ledger."""


@dataclass(frozen=True, slots=True)
class Series:
    """Steps of one rank that count, in their order: `values[metric]` has a value for each, in ns.

    A value is None where it could not be measured. Step times alone have the one metric `step`.
    """

    rank: Rank
    steps: list[Annotated[int, Meta(ge=0, le=_LARGEST)]]
    values: dict[str, list[Ns | None]]

    def __post_init__(self) -> None:
        for name, values in self.values.items():
            if len(values) != len(self.steps):
                raise ValueError(f"{name} of rank {self.rank} has other steps than the rest")


@dataclass(frozen=True, slots=True)
class KernelTime:
    """The compute kernels of one name in the median step of a rank: their sum, overlap or not."""

    rank: Rank
    name: str
    calls: Ns
    total_ns: Ns


@dataclass(frozen=True, slots=True)
class BucketTime:
    """One gradient bucket in the median step of a rank; `exposed_ns` may be waiting, too."""

    rank: Rank
    bucket: Ns
    size_bytes: Ns | None
    exposed_ns: Ns


@dataclass(frozen=True, slots=True)
class RunFigures:
    """What of one run is held against another one; `name` is where it was read from.

    `fingerprint` is how the run was set up, by the names that `--allow` takes; what is not known
    is not there. `recorded` are windows of steps, `timed` steps without a profiler; each has a
    series for each rank that has any. `ledgers`, `kernels` and `buckets` are of the median step.
    `notes` say what to know of the figures.
    """

    name: str
    fingerprint: dict[str, Fact] = field(default_factory=dict)
    recorded: list[Series] = field(default_factory=list)
    timed: list[Series] = field(default_factory=list)
    ledgers: list[Ledger] = field(default_factory=list)
    kernels: list[KernelTime] = field(default_factory=list)
    buckets: list[BucketTime] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def series(self, source: Source) -> list[Series]:
        """Return the series of a source."""
        return self.timed if source == "timed" else self.recorded

    @property
    def ranks(self) -> list[int]:
        """The ranks with steps, rising."""
        return sorted({one.rank for one in [*self.recorded, *self.timed]})

    @property
    def is_usable(self) -> bool:
        """Whether there is the time of any step."""
        return any(longest(self.series(source), STEP) for source in ("recorded", "timed"))


def distinct(runs: Sequence[RunFigures]) -> list[RunFigures]:
    """Return runs without those whose steps are those of an earlier one: they are the same run."""
    found: dict[bytes, RunFigures] = {}
    for run in runs:
        series = [
            [source, one.rank, one.steps, one.values.get(STEP)]
            for source in _SOURCES
            for one in run.series(source)
        ]
        # A run without any step is like no other one.
        key = msgspec.json.encode([run.fingerprint, series] if series else len(found))
        found.setdefault(key, run)
    return list(found.values())


def most_steps(runs: Sequence[RunFigures]) -> int:
    """Return how many steps of runs count, of the source that has more."""
    return max(sum(len(longest(run.series(source), STEP)) for run in runs) for source in _SOURCES)


def longest(series: Sequence[Series], metric: str) -> dict[int, int]:
    """Return a metric of each step on the rank where it is largest, by the number of the step.

    A step of which one of the ranks does not tell it is left out: the largest may be that one's.
    A step that took no time at all is none.
    """
    told: dict[int, dict[int, int]] = defaultdict(dict)
    unknown: set[int] = set()
    for one in series:
        for step, value in zip(one.steps, one.values.get(metric) or (), strict=False):
            if value is None or (metric == STEP and not value):
                unknown.add(step)
            else:
                told[step][one.rank] = max(value, told[step].get(one.rank, 0))
    ranks = {one.rank for one in series}
    return {
        step: max(values.values())
        for step, values in sorted(told.items())
        if values.keys() == ranks and step not in unknown
    }
