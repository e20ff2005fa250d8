"""Steps that nobody recorded: gradients that come evenly, buckets of one size, one link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from ddptrace.errors import UsageError
from ddptrace.whatif.curves import straight
from ddptrace.whatif.packing import MIB
from ddptrace.whatif.replay import Bucket, Contention, Replayed, replay

SCHEMA = 1
MOST_BUCKETS = 100_000


@dataclass(frozen=True, slots=True)
class Plan:
    """What to simulate: `gradients_bytes` become ready evenly over `backward_ns`."""

    gradients_bytes: float
    backward_ns: float
    alpha_ns: float
    bandwidth_gb_s: float


@dataclass(frozen=True, slots=True)
class Reduced:
    """One bucket: when it is ready, and when it is reduced; ns from the start of backward."""

    size_bytes: int
    ready_ns: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Simulated:
    """The step with buckets of one size; `low_ns` and `high_ns` are the step, which is exact."""

    bucket_mib: float
    buckets: int
    step_ns: int
    low_ns: int
    high_ns: int
    exposed_comm_ns: int
    tail_ns: int
    step_without_overlap_ns: int
    timeline: list[Reduced]


@dataclass(frozen=True, slots=True)
class LinkModel:
    """What a collective costs: alpha + size ÷ bandwidth."""

    alpha_ns: int
    bandwidth_gb_s: float


@dataclass(frozen=True, slots=True)
class SimulatedBest:
    """The size with the shortest step, and what it gains against one bucket."""

    bucket_mib: float
    step_ns: int
    gain_ns: int


@dataclass(frozen=True, slots=True)
class SimulatedBounds:
    """What no size can beat: backward alone, and one transfer of everything alone."""

    free_communication_ns: int
    communication_only_ns: int


@dataclass(frozen=True, slots=True)
class Simulation:
    """Simulated steps, by the sizes of their buckets."""

    model: LinkModel
    gradients_bytes: int
    backward_ns: int
    predictions: list[Simulated]
    best: SimulatedBest
    bounds: SimulatedBounds
    measured_step_ns: None = None
    schema: int = SCHEMA


def simulate(plan: Plan, buckets_mib: Sequence[float]) -> Simulation:
    """Return the steps of a plan with buckets of these sizes; UsageError for what makes none."""
    found = [_simulated(plan, size) for size in dict.fromkeys(buckets_mib)]
    best = min(found, key=lambda one: one.step_ns)
    whole = _simulated(plan, plan.gradients_bytes / MIB)
    return Simulation(
        model=LinkModel(round(plan.alpha_ns), plan.bandwidth_gb_s),
        gradients_bytes=round(plan.gradients_bytes),
        backward_ns=round(plan.backward_ns),
        predictions=found,
        best=SimulatedBest(best.bucket_mib, best.step_ns, whole.step_ns - best.step_ns),
        bounds=SimulatedBounds(round(plan.backward_ns), whole.step_ns - round(plan.backward_ns)),
    )


def _simulated(plan: Plan, bucket_mib: float) -> Simulated:
    size = bucket_mib * MIB
    count = plan.gradients_bytes / size
    if count > MOST_BUCKETS:
        raise UsageError(
            f"--bucket-mib {bucket_mib:g}: makes {count:.0f} buckets; {MOST_BUCKETS} are the most"
        )
    full = int(count * (1 + 1e-12))
    ends = [min(size * (number + 1), plan.gradients_bytes) for number in range(full)]
    if not ends or plan.gradients_bytes - ends[-1] > 0.5:
        ends.append(plan.gradients_bytes)
    sizes = [end - before for end, before in zip(ends, [0.0, *ends[:-1]], strict=True)]
    ready = [plan.backward_ns * end / plan.gradients_bytes for end in ends]
    buckets = [Bucket(*each) for each in zip(sizes, ready, strict=True)]
    cost = straight(plan.alpha_ns, 1 / plan.bandwidth_gb_s)
    step = replay(buckets, plan.backward_ns, cost, Contention())
    step_ns = round(step.step_ns)
    return Simulated(
        bucket_mib=bucket_mib,
        buckets=len(buckets),
        step_ns=step_ns,
        low_ns=step_ns,
        high_ns=step_ns,
        exposed_comm_ns=round(step.exposed_comm_ns),
        tail_ns=round(step.tail_ns),
        step_without_overlap_ns=round(plan.backward_ns + sum(map(cost, sizes))),
        timeline=_timeline(buckets, step),
    )


def _timeline(buckets: Sequence[Bucket], step: Replayed) -> list[Reduced]:
    return [
        Reduced(
            round(one.size_bytes), round(one.ready_ns), round(span.start_ns), round(span.end_ns)
        )
        for one, span in zip(buckets, step.spans, strict=True)
    ]


def to_json(found: Simulation) -> str:
    """Return simulated steps as JSON."""
    document: dict[str, Any] = asdict(found)
    ordered = {"schema": document.pop("schema")} | document
    return msgspec.json.format(msgspec.json.encode(ordered), indent=2).decode() + "\n"
