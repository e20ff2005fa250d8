"""Predicts the step with other buckets from one recorded run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ddptrace.errors import RunError
from ddptrace.metrics.measured import Measured
from ddptrace.model import Run
from ddptrace.whatif.anchor import anchoring
from ddptrace.whatif.contention import slowed
from ddptrace.whatif.document import WhatIf
from ddptrace.whatif.job import Job, job_of
from ddptrace.whatif.known import Known
from ddptrace.whatif.models import bucket_fit, bucket_model, other_models, pauses
from ddptrace.whatif.packing import Packing
from ddptrace.whatif.rules import described, packing_of, recorded_cap
from ddptrace.whatif.scenario import Scenario
from ddptrace.whatif.scenes import Scenes
from ddptrace.whatif.schedule import Packed, Physics, Schedule, packed, packed_as_recorded
from ddptrace.whatif.trust import Grounds, judged

CAPS_MB = (1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0)
"""The caps that are predicted when none are asked for."""


def predict(
    run: Run | Measured, caps: Sequence[float] | None = None, scenario: Scenario | None = None
) -> WhatIf:
    """Return the step that a run would take with these bucket caps, in MiB.

    RunError says in a sentence why the steps of a run cannot be replayed.
    """
    measured = run if isinstance(run, Measured) else Measured.of(run)
    return _predicted(measured, sorted(set(caps or CAPS_MB)), scenario or Scenario())


def predicted(measured: Measured) -> WhatIf | None:
    """Return the step with the usual caps; None where the steps of a run cannot be replayed."""
    try:
        return predict(measured)
    except RunError:
        return None


def _predicted(measured: Measured, caps: Sequence[float], scenario: Scenario) -> WhatIf:
    job = job_of(measured)
    fitted = bucket_fit(measured, scenario.alpha_ns)
    if fitted is None:
        raise RunError("no bucket could be matched over its ranks: what one costs is not known")
    fitted = fitted.with_line(scenario.alpha_ns, scenario.bandwidth_gb_s)
    beside = slowed(one for mine in measured.recordings.values() for one in mine)
    physics = Known(fitted, beside, pauses(measured), scenario.link)
    start = anchoring(measured, lambda host: _recorded_ns(job, physics.point(host)))
    packing = packing_of(measured, job)
    current = recorded_cap(job, packing)
    now = None if current.limits is None else packed(job.pieces, packing, current.limits)
    scenes = Scenes(job, physics, start, scenario, now)
    buckets = {
        cap: packed(job.pieces, packing, packing.limits(cap), compressed=scenario.is_compressed)
        for cap in caps
    }
    if job.resolution == "buckets" and current.cap_mb in buckets:
        recorded = packed_as_recorded(job, compressed=scenario.is_compressed)
        buckets[current.cap_mb] = recorded
    replayed_ns = _recorded_ns(job, physics.point(1.0))
    misfit = replayed_ns / start.recorded_ns - 1
    found = [scenes.predicted(cap, each, abs(misfit)) for cap, each in buckets.items()]
    grounds = Grounds(
        measured, job, fitted, beside, start, packing, misfit,
        is_reproduced=now is not None, is_line_given=scenario.is_line_given,
    )  # fmt: skip
    trust, notes = judged(grounds, found)
    best = scenes.best(found, buckets, current.cap_mb)
    return WhatIf(
        model=bucket_model(measured, fitted, beside),
        measured_step_ns=round(start.step_ns),
        anchor=start.kind,
        recorded_step_ns=round(start.recorded_ns),
        replayed_step_ns=round(replayed_ns),
        recorded_buckets=len(job.recorded_bytes),
        recorded_cap_mb=current.cap_mb,
        resolution=job.resolution,
        packing=described(packing, measured, job),
        scenario=scenario.words,
        predictions=found,
        best=best,
        bounds=scenes.bounds(buckets[best.bucket_cap_mb], found),
        costs=scenes.costs([*buckets.values(), *_rebuilt(job, packing, caps)]),
        trust=trust,
        notes=notes,
        other_models=other_models(measured),
    )


def _rebuilt(job: Job, packing: Packing, caps: Sequence[float]) -> list[Packed]:
    """Return the buckets that DDP would rebuild if the job let it; none where it does already."""
    if not packing.in_order:
        return []
    free = replace(packing, in_order=False)
    return [packed(job.pieces, free, free.limits(cap)) for cap in caps]


def _recorded_ns(job: Job, physics: Physics) -> float:
    return Schedule.of(job, physics, Scenario()).recorded().step_ns
