"""By which rules a job's buckets were packed, and with which cap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ddptrace import kernels
from ddptrace.metrics.measured import Measured
from ddptrace.whatif.job import Job
from ddptrace.whatif.packing import (
    DEFAULT_CAP_MB,
    FIRST_BUCKET_BYTES,
    MIB,
    NO_FIRST_LIMIT_SINCE,
    Limits,
    Packing,
    limits_first,
)
from ddptrace.whatif.schedule import packed

_SINCE = ".".join(map(str, NO_FIRST_LIMIT_SINCE))


@dataclass(frozen=True, slots=True)
class RecordedCap:
    """The cap that a job has; `limits` are None where no cap gives the recorded buckets."""

    cap_mb: float | None
    limits: Limits | None


def packing_of(measured: Measured, job: Job) -> Packing:
    """Return the rules of a job's PyTorch and of its settings."""
    return Packing(limits_first(_version(measured)), _in_order(measured, job))


def _version(measured: Measured) -> str | None:
    manifest = measured.run.manifest
    told = {} if manifest is None else manifest.versions
    return told.get("torch")


def _in_order(measured: Measured, job: Job) -> bool:
    """Tell whether DDP keeps its first buckets, since it looks for unused parameters."""
    module = job.module
    if module is not None and module.find_unused_parameters is not None:
        return module.find_unused_parameters and not module.static_graph
    return (
        any(any(map(kernels.is_unused_search, trace.names)) for trace in measured.run.causes)
        and measured.buckets.is_rebuilt is not True
    )


def described(packing: Packing, measured: Measured, job: Job) -> str:
    """Return the rules in words."""
    version = _version(measured)
    is_known = job.pieces.registered is not None
    order = (
        "in the order of registration, the last bucket first (find_unused_parameters)"
        if packing.in_order and is_known
        else "as gradients come"
    )
    if packing.limits_first:
        return f"{order}; first bucket limited to 1 MiB, as PyTorch {version} always does"
    known = f"PyTorch {version}" if version else f"the PyTorch is not told; from {_SINCE} on it"
    return f"{order}; {known} limits the first bucket to 1 MiB only while the cap is the default"


def recorded_cap(job: Job, packing: Packing) -> RecordedCap:
    """Return the cap that packs gradients as they were recorded.

    What the manifest tells comes first, then the default, then what the sizes allow.
    """
    told = None if job.module is None else job.module.bucket_cap_bytes
    unknown = packing.in_order and job.pieces.registered is None
    if job.resolution == "buckets" or unknown:
        return RecordedCap(None if told is None else told / MIB, None)
    for cap_mb, is_default in _candidates(told, job.recorded_bytes):
        limits = packing.limits(cap_mb, is_default=is_default)
        found = packed(job.pieces, packing, limits)
        if tuple(found.size_bytes.tolist()) == job.recorded_bytes:
            return RecordedCap(cap_mb, limits)
    return RecordedCap(None if told is None else told / MIB, None)


def _candidates(told: int | None, sizes: Sequence[int]) -> Iterator[tuple[float, bool]]:
    caps = [DEFAULT_CAP_MB] if told is None else [told / MIB]
    yield from ((cap, is_default) for cap in caps for is_default in (False, True))
    # A closed bucket has its cap or more: the smallest one, but for a small first or last one.
    closed = sorted(size for size in sizes if size >= FIRST_BUCKET_BYTES)
    for size in closed[:3]:
        yield float(size // MIB), False
        yield size / MIB, False
