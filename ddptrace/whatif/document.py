"""What a prediction says, and its JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

import msgspec

SCHEMA = 1

Trust: TypeAlias = Literal["high", "medium", "low"]
Anchor: TypeAlias = Literal["unprofiled", "recorded"]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a cost model: it holds from a size on."""

    from_bytes: int
    alpha_ns: int
    bandwidth_gb_s: float | None


@dataclass(frozen=True, slots=True)
class TimedSizes:
    """How long a collective of each size took while nothing else ran.

    The transfers of steps took `ratio` times as long.
    """

    size_bytes: list[int]
    time_ns: list[int]
    ratio: float


@dataclass(frozen=True, slots=True)
class Model:
    """What collectives of one operation and group cost: alpha + size ÷ bandwidth.

    Low and high are nine in ten of fits to resampled transfers. `sizes` are how many different ones
    were seen, `residual_ratio` the median of how far off they are. `is_assumed`: one size tells no
    alpha. Where small and large messages follow different lines, `lines` has both, and the figures
    are those of the large ones. `comm_slowdown_ratio` is how many times longer a transfer takes
    beside compute, `compute_slowdown_ratio` what it does to that compute; of the latter
    `compared_ratio` is how much of the time it is known for, None for other groups.
    `timed` are the sizes that the recorder timed on the link alone, None without any; where it did,
    alpha and bandwidth are of those.
    """

    operation: str | None
    group_size: int | None
    alpha_ns: int
    alpha_low_ns: int
    alpha_high_ns: int
    bandwidth_gb_s: float | None
    bandwidth_low_gb_s: float | None
    bandwidth_high_gb_s: float | None
    is_assumed: bool
    samples: int
    sizes: int
    smallest_bytes: int
    largest_bytes: int
    residual_ratio: float
    lines: list[Line]
    comm_slowdown_ratio: float
    compute_slowdown_ratio: float | None = None
    compute_slowdown_low: float | None = None
    compute_slowdown_high: float | None = None
    compared_ratio: float | None = None
    timed: TimedSizes | None = None


@dataclass(frozen=True, slots=True)
class Prediction:
    """The step with one bucket cap, in MiB; it is expected between low and high.

    `is_outside` says that buckets are of sizes beyond those that were seen.
    """

    bucket_cap_mb: float
    buckets: int
    step_ns: int
    low_ns: int
    high_ns: int
    exposed_comm_ns: int
    tail_ns: int
    is_outside: bool = False


@dataclass(frozen=True, slots=True)
class Best:
    """The cap with the shortest step, and what it gains against the step as it is."""

    bucket_cap_mb: float
    step_ns: int
    gain_ns: int
    gain_low_ns: int
    gain_high_ns: int


@dataclass(frozen=True, slots=True)
class Bounds:
    """What no cap can beat: a step without communication, or with all of it in the best place.

    `communication_only_ns` is what the transfers alone take, one after another.
    """

    free_communication_ns: int
    perfect_overlap_ns: int
    communication_only_ns: int


@dataclass(frozen=True, slots=True)
class Costs:
    """What of the step as it is would go with the best cap, on a faster link, without alpha."""

    bucket_schedule_ns: int
    comm_bandwidth_ns: int
    comm_latency_ns: int


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Predictions from one recording.

    `measured_step_ns` is what they start from: the step without a profiler where that is known
    (`anchor`), else the recorded one. `replayed_step_ns` is the replay of the recorded buckets with
    what was recorded, beside `recorded_step_ns`. `recorded_cap_mb` is the cap that gives the
    recorded buckets, None where none does. `resolution` says what is known of gradients.
    `scenario` are the changes besides the cap. `trust` says how far to trust it, `notes` why.
    """

    model: Model
    measured_step_ns: int
    anchor: Anchor
    recorded_step_ns: int
    replayed_step_ns: int
    recorded_buckets: int
    recorded_cap_mb: float | None
    resolution: str
    packing: str
    scenario: list[str]
    predictions: list[Prediction]
    best: Best
    bounds: Bounds
    costs: Costs
    trust: Trust
    notes: list[str]
    other_models: list[Model] = field(default_factory=list)
    schema: int = SCHEMA


def to_json(found: WhatIf) -> str:
    """Return predictions as JSON."""
    document: dict[str, Any] = asdict(found)
    ordered = {"schema": document.pop("schema")} | document
    return msgspec.json.format(msgspec.json.encode(ordered), indent=2).decode() + "\n"
