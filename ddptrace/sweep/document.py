"""What a sweep found, and its JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

import msgspec

SCHEMA = 1

Status: TypeAlias = Literal["done", "failed"]
Outcome: TypeAlias = Literal["faster", "keep", "no_difference", "unknown"]


@dataclass(frozen=True, slots=True)
class Change:
    """How much longer the median step is than with the script's own cap: 0.1 is 10 % longer.

    It lies between low and high with this confidence.
    """

    ratio: float
    low_ratio: float
    high_ratio: float
    confidence: float


@dataclass(frozen=True, slots=True)
class Predicted:
    """The step that was predicted from one recording; `error_ratio` is how far off it is.

    It is (predicted − measured) ÷ measured. `is_source`: it was predicted from this very run.
    """

    step_ns: int
    low_ns: int
    high_ns: int
    exposed_comm_ns: int
    tail_ns: int
    buckets: int
    error_ratio: float | None
    is_source: bool


@dataclass(frozen=True, slots=True)
class Configuration:
    """One bucket cap and what was measured with it; None is what could not be measured.

    `bucket_cap_mb` is the cap that DDP had, None where its models have several. Of the script's own
    `asked_mb` is what it asks for: None is PyTorch's default. `step_ns` and `p95_ns` are over the
    steps timed without a profiler, each on its slowest rank; the rest is of the recording: medians
    over its steps, each on the rank where that is largest. `problem` says why a run is missing.
    """

    bucket_cap_mb: float | None
    is_own: bool
    asked_mb: float | list[float] | None
    status: Status
    problem: str | None
    folders: list[str]
    steps: int
    step_ns: int | None
    p95_ns: int | None
    change: Change | None
    buckets: int | None
    comm_kernels: int | None
    exposed_comm_ns: int | None
    tail_ns: int | None
    replicas_equal: bool | None
    replicas_reason: str | None
    predicted: Predicted | None = None


@dataclass(frozen=True, slots=True)
class Winner:
    """Which cap to take, and why in `sentence`; `line` is what to write in the script.

    The cap is None where the script's own is kept or nothing can be said. `as_good_mb` are further
    caps that these steps cannot tell from the one to take.
    """

    outcome: Outcome
    bucket_cap_mb: float | None
    sentence: str
    line: str | None
    gain_ns: int | None
    as_good_mb: list[float]


@dataclass(frozen=True, slots=True)
class Sweep:
    """Measurements of one job with several caps, the script's own first.

    `predicted_from` is the folder whose recording the predictions are made of, `trust` how far they
    can be trusted; both None without any.
    """

    command: list[str]
    world_size: int | None
    device: str | None
    runs_each: int
    configurations: list[Configuration]
    winner: Winner
    predicted_from: str | None
    trust: str | None
    notes: list[str]
    schema: int = SCHEMA

    @property
    def is_measured(self) -> bool:
        """Whether any configuration was."""
        return any(one.step_ns is not None for one in self.configurations)


def to_json(found: Sweep) -> str:
    """Return a sweep as JSON."""
    document = asdict(found)
    ordered = {"schema": document.pop("schema")} | document
    return msgspec.json.format(msgspec.json.encode(ordered), indent=2).decode() + "\n"
