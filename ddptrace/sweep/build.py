"""From the folder of a sweep to what it found: measurements beside predictions, and the winner."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ddptrace.check.statistics import middle
from ddptrace.errors import RunError, UsageError
from ddptrace.sweep.document import Configuration, Predicted, Sweep
from ddptrace.sweep.folder import SweepFile, read_sweep
from ddptrace.sweep.judge import Judged
from ddptrace.sweep.measure import Measurement, Read, measurements
from ddptrace.whatif.anchor import NOISE_RATIO
from ddptrace.whatif.document import WhatIf
from ddptrace.whatif.predict import predict


def sweep_of(folder: Path, read: Read, predict_from: float | None = None) -> Sweep:
    """Return what the sweep in a folder found.

    Predictions are made from one recording: that with the script's own cap, or with the cap
    `predict_from`. RunError when there is no sweep; UsageError when there is no such recording.
    """
    told = read_sweep(folder)
    found = measurements(folder, told, read)
    judged = Judged.of(found)
    notes = list(_notes(told, found, judged))
    source = _source(found, predict_from)
    prediction = None if source is None else _prediction(source, found, notes)
    own = next((one for one in found if one.manifests), None)
    return Sweep(
        command=told.command,
        world_size=None if own is None else own.manifests[0].world_size,
        device=None if own is None else _device(own),
        runs_each=told.repeat,
        configurations=[_configuration(one, judged, prediction, source) for one in found],
        winner=judged.winner(),
        predicted_from=None if source is None or prediction is None else source.folder,
        trust=None if prediction is None else prediction.trust,
        notes=notes,
    )


def _device(own: Measurement) -> str | None:
    devices = [facts.device for facts in own.manifests[0].ranks if facts.device is not None]
    return ", ".join(dict.fromkeys(devices)) or None


def _source(found: Sequence[Measurement], cap_mb: float | None) -> Measurement | None:
    """Return the configuration whose recording predictions are made from; None without one."""
    recorded = [one for one in found if one.measured is not None]
    if cap_mb is None:
        return next(iter(recorded), None)
    wanted = [one for one in recorded if one.cap_mb == cap_mb]
    if not wanted:
        there = ", ".join(f"{one.cap_mb:g}" for one in recorded if one.cap_mb is not None)
        raise UsageError(
            f"--predict-from {cap_mb:g}: no recording has that cap; there are {there or 'none'}"
        )
    return wanted[0]


def _prediction(
    source: Measurement, found: Sequence[Measurement], notes: list[str]
) -> WhatIf | None:
    caps = [one.cap_mb for one in found if one.cap_mb is not None]
    if source.measured is None or not caps:
        return None
    try:
        prediction = predict(source.measured, caps)
    except RunError as error:
        notes.append(f"nothing is predicted: {error}")
        return None
    notes.extend(f"prediction: {note}" for note in prediction.notes)
    return prediction


def _configuration(
    one: Measurement, judged: Judged, prediction: WhatIf | None, source: Measurement | None
) -> Configuration:
    step_ns = middle(one.times) if one.times else None
    replicas = one.replicas()
    return Configuration(
        bucket_cap_mb=one.cap_mb,
        is_own=one.is_own,
        asked_mb=one.asked_mb,
        status="done" if one.problem is None else "failed",
        problem=one.problem,
        folders=[run.folder for run in one.runs],
        steps=sum(map(len, one.times)),
        step_ns=step_ns,
        p95_ns=_p95(one),
        change=judged.change(one),
        buckets=one.buckets,
        comm_kernels=one.largest("comm_kernels"),
        exposed_comm_ns=one.largest("exposed_comm_ns"),
        tail_ns=one.largest("tail_ns"),
        replicas_equal=replicas.equal,
        replicas_reason=replicas.reason,
        predicted=None if prediction is None else _predicted(one, step_ns, prediction, source),
    )


def _p95(one: Measurement) -> int | None:
    """Return the 95th percentile of all steps, as `report` has it."""
    steps = [step for run in one.times for step in run]
    return round(float(np.percentile(steps, 95))) if steps else None


def _predicted(
    one: Measurement, step_ns: int | None, prediction: WhatIf, source: Measurement | None
) -> Predicted | None:
    mine = [each for each in prediction.predictions if each.bucket_cap_mb == one.cap_mb]
    if not mine:
        return None
    return Predicted(
        step_ns=mine[0].step_ns,
        low_ns=mine[0].low_ns,
        high_ns=mine[0].high_ns,
        exposed_comm_ns=mine[0].exposed_comm_ns,
        tail_ns=mine[0].tail_ns,
        buckets=mine[0].buckets,
        error_ratio=None if not step_ns else mine[0].step_ns / step_ns - 1,
        is_source=one is source,
    )


def _notes(told: SweepFile, found: Sequence[Measurement], judged: Judged) -> Iterator[str]:
    for one in found:
        if one.problem is not None:
            yield f"{one.folder}: {one.problem}"
        yield from one.notes
        replicas = one.replicas()
        if replicas.equal is False:
            yield f"{one.folder}: ranks do not train the same model: {replicas.reason}"
    if told.missing:
        yield f"not run yet: {', '.join(told.missing)}; the same command goes on with it"
    if any(one.is_own and one.asked_mb is None and one.cap_mb for one in found):
        yield (
            "your script leaves the cap to PyTorch, whose first bucket then has 1 MiB; predictions "
            "are for caps that are set"
        )
    yield from _of_chance(found, judged)


def _of_chance(found: Sequence[Measurement], judged: Judged) -> Iterator[str]:
    alike = [one.cap_mb for one in found if judged.is_like_own(one)]
    if alike:
        yield f"the same buckets as yours: {_listed(alike)}; what differs there is chance"
    thin = judged.thin()
    if thin:
        percent = f"{100 * NOISE_RATIO:.1f} %"
        yield (
            f"one run each: {_listed(thin)} differs by less than the {percent} that runs of one "
            "job may differ by anyway; --repeat 3 tells"
        )


def _listed(caps: Sequence[float | None]) -> str:
    return "bucket_cap_mb=" + ", ".join(f"{cap:g}" for cap in caps if cap is not None)
