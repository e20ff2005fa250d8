"""One step replayed: compute runs until gradients are ready, buckets are reduced one at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Cost = Callable[[float], float]
"""How many ns the collective of a bucket of so many bytes takes while nothing runs beside it."""


@dataclass(frozen=True, slots=True)
class Contention:
    """What computing and communicating at once costs: both are ratios of at least 1.

    `compute` is how much longer compute takes beside a collective, `comm` the other way round.
    `pause_ns` is from the end of one collective to the start of the next one that was waiting,
    `pause_beside_ns` that while compute runs.
    """

    compute: float = 1.0
    comm: float = 1.0
    pause_ns: float = 0.0
    pause_beside_ns: float = 0.0


@dataclass(frozen=True, slots=True)
class Bucket:
    """One bucket: its size, and how much of the step's compute has run when it is ready."""

    size_bytes: float
    ready_ns: float


@dataclass(frozen=True, slots=True)
class Span:
    """When one bucket was reduced, from the start of the step."""

    start_ns: float
    end_ns: float


@dataclass(frozen=True, slots=True)
class Replayed:
    """A step that was replayed; times count from its start.

    `step_ns` is when both compute and communication have ended, `tail_ns` how long only
    communication ran at the end, `exposed_comm_ns` that and what of it was exposed before.
    """

    step_ns: float
    compute_end_ns: float
    exposed_comm_ns: float
    tail_ns: float
    spans: tuple[Span, ...]


def replay(
    buckets: Sequence[Bucket], compute_ns: float, cost: Cost, contention: Contention
) -> Replayed:
    """Return the step in which these buckets, in their fixed order, share one communicator.

    `compute_ns` is all compute up to the end of backward, in the same measure as `ready_ns`: the
    time that it takes while nothing is communicated.
    """
    now = done = 0.0  # when the last collective ended, and how much compute had run by then
    exposed = compute_end = 0.0
    spans = []
    for number, bucket in enumerate(buckets):
        if number:
            pause_ns = contention.pause_beside_ns if done < compute_ns else contention.pause_ns
            now, done = now + pause_ns, min(done + pause_ns, compute_ns)
        if done < bucket.ready_ns:
            now, done = now + bucket.ready_ns - done, bucket.ready_ns
        start, left = now, cost(bucket.size_bytes)
        # Beside compute, as long as there is any; then alone.
        beside = min(left * contention.comm, (compute_ns - done) * contention.compute)
        done = compute_ns if beside < left * contention.comm else done + beside / contention.compute
        alone = left - beside / contention.comm
        if done >= compute_ns and not compute_end:
            compute_end = start + beside
        now = start + beside + alone
        exposed += alone
        spans.append(Span(start, now))
    if not compute_end:
        compute_end = now + compute_ns - done
    end = max(now, compute_end)
    return Replayed(
        step_ns=end,
        compute_end_ns=compute_end,
        exposed_comm_ns=exposed,
        tail_ns=max(end - compute_end, 0.0),
        spans=tuple(spans),
    )
