"""Transfers that are exposed: the schedule's matter, the link's bandwidth, or fixed cost."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from statistics import median

import numpy as np

from ddptrace.diagnosis.basis import Basis, Cost
from ddptrace.diagnosis.figures import middle
from ddptrace.diagnosis.finding import Evidence, Finding
from ddptrace.diagnosis.rules.beside import reduces_on_compute_stream
from ddptrace.diagnosis.rules.layout import is_uneven
from ddptrace.metrics.transfers import links

_LINK = "check that NCCL uses NVLink or RDMA (NCCL_DEBUG=INFO) rather than shared memory or TCP"
_LINK_OF_HOST = "check which interface gloo uses (GLOO_SOCKET_IFNAME), or train on GPUs with NCCL"


def comm_bandwidth(basis: Basis) -> Iterator[Finding]:
    """Give the finding that transfers take longer than what they could be hidden under."""
    cost = _cost(basis, "comm_bandwidth_ns")
    if cost is None:
        return
    rank = cost.rank
    yield Finding(
        code="comm_bandwidth",
        cost_ns=cost.ns,
        ranks=cost.ranks(basis.limit_ns),
        evidence=[
            Evidence("comm_bandwidth_ns", cost.ns, basis.limit_ns),
            Evidence("transfer_ns", _of_rank(basis, rank, "transfer_ns"), None),
            Evidence("available_ns", _of_rank(basis, rank, "available_ns"), None),
            Evidence("bandwidth_gb_s", _bandwidth(basis), None),
            *_backlog(basis, rank),
            *_predicted(basis),
        ],
        advice="send less or over a faster link: gradients as bf16 (a communication hook), "
        f"reduce every few micro-batches (no_sync), {_LINK_OF_HOST if basis.is_of_host else _LINK}",
    )


def comm_latency(basis: Basis) -> Iterator[Finding]:
    """Give the finding that collectives cost time however little they carry."""
    cost = _cost(basis, "comm_latency_ns")
    if cost is None:
        return
    rank = cost.rank
    sizes = basis.measured.collected.matching.size_bytes
    yield Finding(
        code="comm_latency",
        cost_ns=cost.ns,
        ranks=cost.ranks(basis.limit_ns),
        evidence=[
            Evidence("comm_latency_ns", cost.ns, basis.limit_ns),
            Evidence("collectives", _of_rank(basis, rank, "collectives"), None),
            Evidence("median_size_bytes", _median(sizes[sizes > 0].tolist()), None),
            Evidence("fixed_ns", _fixed(basis), None),
            *_backlog(basis, rank),
            *_predicted(basis),
        ],
        advice="send fewer, larger messages: "
        f"{_cap(basis, larger=True) or 'raise bucket_cap_mb'}, or group small collectives",
    )


def bucket_schedule(basis: Basis) -> Iterator[Finding]:
    """Give the finding that buckets could have been hidden, and came too late for it."""
    cost = _cost(basis, "bucket_schedule_ns")
    if cost is None:
        return
    rank = cost.rank
    layout = basis.measured.buckets.layout
    count = None if layout is None else len(layout.size_bytes)
    yield Finding(
        code="bucket_schedule",
        cost_ns=cost.ns,
        ranks=cost.ranks(basis.limit_ns),
        evidence=[
            Evidence("bucket_schedule_ns", cost.ns, basis.limit_ns),
            Evidence("transfer_ns", _of_rank(basis, rank, "transfer_ns"), None),
            Evidence("available_ns", _of_rank(basis, rank, "available_ns"), None),
            Evidence("buckets", count, None),
            *_first_delay(basis, rank),
            *_predicted(basis),
        ],
        advice=_schedule_advice(basis, count),
    )


def _schedule_advice(basis: Basis, buckets: int | None) -> str:
    if any(map(reduces_on_compute_stream, basis.steps)):
        return (
            "communication and compute share a stream, so that they cannot overlap whatever the "
            "buckets are: let DDP launch the collectives on NCCL's own stream"
        )
    if _is_blocked(basis):
        return (
            "a bucket waits for a parameter that is ready late: let DDP rebuild its buckets "
            "(find_unused_parameters=False, or static_graph=True), or order the parameters of the "
            "model as backward reaches them"
        )
    cap = _cap(basis)
    if buckets == 1:
        return f"one bucket cannot overlap with backward: {cap or 'lower bucket_cap_mb'}"
    if is_uneven(basis):
        return (
            "buckets are ready all at once behind one long kernel of backward (uneven_backward): "
            "make that faster or split it, since other buckets would be as late"
        )
    if cap is not None:
        return f"let the buckets fit backward better: {cap}"
    return (
        "let the buckets start earlier: a smaller bucket_cap_mb starts the first one sooner and "
        "leaves less for the end"
    )


def _cost(basis: Basis, name: str) -> Cost | None:
    """Return what a cause costs: by replays where they can tell, else by the ledgers of steps."""
    if basis.replayed is not None:
        return basis.of_replay(attrgetter(name))
    return basis.cost(lambda one: getattr(one.ledger, name) if one.ledger else None)


def _cap(basis: Basis, *, larger: bool = False) -> str | None:
    """Return the best cap with what it is predicted to save; None where that is too little.

    A `larger` one is asked for: then it must be that, too.
    """
    found = basis.whatif
    if found is None or found.trust == "low" or found.best.gain_ns < basis.limit_ns:
        return None
    best = found.best
    if larger and not best.bucket_cap_mb > (found.recorded_cap_mb or 0):
        return None
    return (
        f"bucket_cap_mb={best.bucket_cap_mb:g} is predicted to save {best.gain_ns / 1e6:.1f} ms a "
        f"step ({best.gain_low_ns / 1e6:.1f} to {best.gain_high_ns / 1e6:.1f})"
    )


def _predicted(basis: Basis) -> list[Evidence]:
    """Return the step with the best cap against the step as it is, where replays told the cost."""
    found = basis.replayed
    if found is None:
        return []
    return [
        Evidence("predicted_step_ns", found.best.step_ns, found.measured_step_ns),
        Evidence("predicted_bucket_cap_mb", found.best.bucket_cap_mb, found.recorded_cap_mb),
    ]


def _is_blocked(basis: Basis) -> bool:
    """Tell whether most buckets wait for the gradients of an earlier one."""
    times = basis.measured.buckets.times.values()
    known = [each for one in times for each in one.is_blocked.tolist() if each >= 0]
    return bool(known) and sum(known) * 2 > len(known)


def _backlog(basis: Basis, rank: int) -> list[Evidence]:
    """Return which part of a rank's buckets was ready and waited for the one before, if told."""
    flags = basis.measured.buckets.times[rank].has_backlog
    known = flags[flags >= 0]
    return [Evidence("backlog_ratio", float(known.mean()), None)] if known.size else []


def _first_delay(basis: Basis, rank: int) -> list[Evidence]:
    """Return how long after backward began the first bucket did, if told."""
    delays = [one.row.first_comm_delay_ns for one in basis.counted if one.row.rank == rank]
    delay_ns = middle(delays)
    return [] if delay_ns is None else [Evidence("first_comm_delay_ns", delay_ns, None)]


def _of_rank(basis: Basis, rank: int, name: str) -> int | None:
    """Return the median of a figure of the transfers of a rank's steps."""
    known = [one.transfer for one in basis.counted if one.row.rank == rank]
    return _median([getattr(one, name) for one in known if one is not None])


def _median(values: list[int]) -> int | None:
    return int(median(values)) if values else None


def _bandwidth(basis: Basis) -> float | None:
    """Return the bandwidth of the slowest line; without lines that of the largest collectives."""
    collected = basis.measured.collected
    found = [line.bandwidth_gb_s for line in links(collected).values()]
    known = [each for each in found if each is not None]
    if known:
        return min(known)
    matching = collected.matching
    size_bytes = np.where(matching.is_matched, matching.size_bytes, 0)
    largest_bytes = int(size_bytes.max(initial=0))
    if largest_bytes <= 0:
        return None
    transfer_ns = float(np.median(collected.transfer_ns[size_bytes == largest_bytes]))
    return largest_bytes / transfer_ns if transfer_ns > 0 else None


def _fixed(basis: Basis) -> int | None:
    found = [round(line.fixed_ns) for line in links(basis.measured.collected).values()]
    return max(found) if found else None
