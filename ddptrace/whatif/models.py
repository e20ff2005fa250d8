"""The cost models of a run: of DDP's buckets, and of all other collectives."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ddptrace.metrics.comm_table import NONE
from ddptrace.metrics.measured import Measured
from ddptrace.metrics.stragglers import sharing_ranks
from ddptrace.whatif.contention import Slowed
from ddptrace.whatif.cost import Fit, Samples, fit, nine_in_ten
from ddptrace.whatif.document import Line, Model, TimedSizes
from ddptrace.whatif.link_times import LinkTimes, link_times

DEFAULT_PAUSE_NS = 3_000.0
"""From the end of a collective to the start of the next one in line, where none waited."""
FEWEST_PAUSES = 5
"""A mean of fewer tells nothing."""


def bucket_fit(measured: Measured, alpha_ns: float | None = None) -> Fit | None:
    """Return what fits the reductions of buckets; None without any that is matched and sized."""
    rows = np.flatnonzero(measured.buckets.bucket != NONE)
    samples = _samples(measured, rows)
    if not samples.size_bytes.size:
        return None
    return fit(samples, alpha_ns, _timed(measured, int(rows[0])))


def _timed(measured: Measured, bucket: int) -> LinkTimes | None:
    """Return what the recorder timed in the group of a bucket.

    Nothing of ranks that share a GPU: their calls take whole turns on it, of any size.
    """
    manifest, found = measured.run.manifest, measured.collected.matching
    if manifest is None or sharing_ranks(measured.collected):
        return None
    group = found.lists[found.members[bucket]]
    return link_times(manifest.link, group.rows, group.size)


def _samples(measured: Measured, rows: NDArray[np.intp]) -> Samples:
    collected = measured.collected
    found = collected.matching
    rows = rows[found.is_matched[rows] & (found.size_bytes[rows] > 0)]
    rows = rows[collected.transfer_ns[rows] > 0]
    kept = _is_counted(measured)[rows]
    rows = rows[kept] if kept.any() else rows
    length = np.where(
        collected.is_there[rows], collected.end_ns[rows] - collected.start_ns[rows], 0
    )
    hidden = np.where(collected.is_there[rows], collected.hidden_ns[rows], 0)
    return Samples(
        size_bytes=found.size_bytes[rows],
        transfer_ns=collected.transfer_ns[rows].astype(np.float64),
        hidden=hidden.sum(axis=1) / np.maximum(length.sum(axis=1), 1),
    )


def _is_counted(measured: Measured) -> NDArray[np.bool_]:
    """Tell which collectives are of steps that count."""
    steps = np.array([row.step for row in measured.counted if row.step is not None])
    return np.isin(measured.collected.step, steps)


def other_models(measured: Measured) -> list[Model]:
    """Return the models of all collectives that are no buckets, one an operation and group."""
    collected = measured.collected
    found = collected.matching
    mine = (measured.buckets.bucket == NONE) & found.is_matched & _is_counted(measured)
    kinds = np.stack((found.members, collected.operation), axis=1)
    models = []
    for members, operation in np.unique(kinds[mine], axis=0).tolist():
        rows = np.flatnonzero(
            mine & (found.members == members) & (collected.operation == operation)
        )
        samples = _samples(measured, rows)
        if samples.size_bytes.size:
            models.append(_model(measured, rows, fit(samples)))
    return models


def bucket_model(measured: Measured, found: Fit, beside: Slowed) -> Model:
    """Return what a document says of the buckets' model."""
    rows = np.flatnonzero(measured.buckets.bucket != NONE)
    return replace(
        _model(measured, rows, found),
        compute_slowdown_ratio=round(beside.ratio, 4),
        compute_slowdown_low=round(beside.low, 4),
        compute_slowdown_high=round(beside.high, 4),
        compared_ratio=round(beside.compared_ratio, 4),
    )


def _model(measured: Measured, rows: NDArray[np.intp], found: Fit) -> Model:
    collected = measured.collected
    curve = found.curve.lines
    lines = [
        Line(round(size), round(alpha), _bandwidth(slope))
        for size, alpha, slope in zip(
            curve.from_bytes, curve.alpha_ns, curve.ns_per_byte, strict=True
        )
    ]
    others = [one.lines for one in found.others]
    alphas = nine_in_ten([one.alpha_ns[-1] for one in others], curve.alpha_ns[-1])
    slopes = nine_in_ten([one.ns_per_byte[-1] for one in others], curve.ns_per_byte[-1])
    sizes = collected.is_there[rows].sum(axis=1)
    return Model(
        operation=collected.words.operation(int(collected.operation[rows[0]])),
        group_size=int(sizes.max()) if sizes.size else None,
        alpha_ns=lines[-1].alpha_ns,
        alpha_low_ns=round(alphas[0]),
        alpha_high_ns=round(alphas[1]),
        bandwidth_gb_s=lines[-1].bandwidth_gb_s,
        bandwidth_low_gb_s=_bandwidth(slopes[1]),
        bandwidth_high_gb_s=_bandwidth(slopes[0]),
        is_assumed=found.is_assumed,
        samples=found.samples,
        sizes=found.sizes,
        smallest_bytes=found.smallest_bytes,
        largest_bytes=found.largest_bytes,
        residual_ratio=round(found.residual_ratio, 4),
        lines=lines,
        comm_slowdown_ratio=round(found.contention, 4),
        timed=_timed_sizes(found),
    )


def _timed_sizes(found: Fit) -> TimedSizes | None:
    timed, ratio = found.timed, found.timed_ratio
    if timed is None or ratio is None:
        return None
    times = np.rint(timed.time_ns).astype(np.int64)
    return TimedSizes(timed.size_bytes.tolist(), times.tolist(), round(ratio, 4))


def _bandwidth(ns_per_byte: float) -> float | None:
    return round(1 / ns_per_byte, 4) if ns_per_byte > 0 else None


@dataclass(frozen=True, slots=True)
class Pauses:
    """From the end of a bucket to the start of one that waited for it, in ns.

    Beside compute it is longer: a collective starts once a kernel that fills the GPU has made room.
    """

    beside_ns: float = DEFAULT_PAUSE_NS
    alone_ns: float = DEFAULT_PAUSE_NS


def pauses(measured: Measured) -> Pauses:
    """Return the mean pause beside compute and the usual one without."""
    collected, buckets = measured.collected, measured.buckets
    there, end_ns = collected.is_there, collected.end_ns
    released_ns = collected.wide({rank: one.released_ns for rank, one in buckets.times.items()})
    mine = np.flatnonzero(buckets.bucket != NONE)
    rows = np.flatnonzero(collected.matching.is_matched & (buckets.bucket > 0))
    before = mine[np.searchsorted(mine, rows) - 1]
    follow = buckets.bucket[before] == buckets.bucket[rows] - 1
    # One that the host launched later waited for it, and perhaps only while it was recorded.
    launch_ns = collected.wide({rank: one.launch_ns for rank, one in collected.tables.items()})
    waited = there[before] & (np.maximum(released_ns, launch_ns)[rows] <= end_ns[before])
    kept = follow & (waited | ~there[rows]).all(axis=1)
    rows, before = rows[kept], before[kept]
    # A transfer begins when the last rank comes, and ends on all ranks at once.
    between_ns = np.where(there[rows], end_ns[rows] - end_ns[before], 0).sum(axis=1)
    pause_ns = between_ns / np.maximum(there[rows].sum(axis=1), 1) - collected.transfer_ns[rows]
    is_beside = np.where(there[rows], collected.hidden_ns[rows], 0).sum(axis=1) > 0
    beside, alone = (np.maximum(pause_ns[which], 0) for which in (is_beside, ~is_beside))
    return Pauses(
        float(np.mean(beside)) if beside.size >= FEWEST_PAUSES else DEFAULT_PAUSE_NS,
        float(np.median(alone)) if alone.size else DEFAULT_PAUSE_NS,
    )
