"""Communication and compute on one GPU: on one stream, or one slowing the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from ddptrace.diagnosis.basis import Basis
from ddptrace.diagnosis.figures import middle
from ddptrace.diagnosis.finding import Evidence, Finding
from ddptrace.diagnosis.steps import Step
from ddptrace.intervals import IntArray
from ddptrace.kernels import Kind
from ddptrace.metrics.slowdown import Slowdown, slowdowns

SHARED_RATIO = 0.5
"""A step's gradients are reduced on the compute stream when more than this part of them is."""
_NAME_LENGTH = 80


def same_stream(basis: Basis) -> Iterator[Finding]:
    """Give the finding that gradients are reduced on the stream that computes.

    What that costs is known where backward was still launching behind such a collective: its
    exposed transfer, as far as it fits under that compute. Else only that nothing can overlap is.
    """
    shared = [step for step in basis.steps if reduces_on_compute_stream(step)]
    exposed_ns = max((step.causes.row.exposed_comm_ns or 0 for step in shared), default=0)
    if not shared or exposed_ns < max(basis.limit_ns, 1):
        return
    cost = basis.listed(_could_overlap_ns)
    ranks = sorted({step.rank for step in shared})
    mine = [step for step in shared if step.rank == ranks[0]]
    yield Finding(
        code="same_stream",
        cost_ns=None if cost is None else cost.ns,
        ranks=ranks,
        evidence=[
            Evidence("shared_ratio", _shared_ratio(mine[0]), SHARED_RATIO),
            Evidence("stream", _compute_stream(mine[0]), None),
            Evidence("exposed_comm_ns", exposed_ns, basis.limit_ns),
        ],
        advice="communication and compute share a stream, so that they cannot overlap whatever the "
        "buckets are: let DDP launch the collectives (async_op=True, which uses NCCL's own "
        "stream), and look for a communication hook or a custom all-reduce that does not",
    )


def reduces_on_compute_stream(step: Step) -> bool:
    """Tell whether most gradient collectives of a step ran on the stream of its compute."""
    return (_shared_ratio(step) or 0) > SHARED_RATIO


def _could_overlap_ns(step: Step) -> int | None:
    """Return the exposed transfer on the compute stream that later compute of backward could hide.

    None where nothing tells of backward; 0 for a step that reduces elsewhere.
    """
    ops = step.recorded.trace.ops
    if not reduces_on_compute_stream(step):
        return 0
    calls = step.calls
    chosen = step.is_bucket & (_streams(step) == _compute_stream(step))
    rows = step.own[(ops.kind[step.own] == Kind.COMPUTE) & ops.in_backward[step.own]]
    later = rows[ops.launch_ns[rows] > calls.launch_ns[chosen].min()]
    exposed_ns = step.exposed_transfer_ns(chosen)
    if not rows.size or exposed_ns is None:
        return None
    return min(exposed_ns, int((ops.end_ns[later] - ops.start_ns[later]).sum()))


def _shared_ratio(step: Step) -> float | None:
    """Return which part of a step's gradient collectives ran on the stream of its compute."""
    mine = _streams(step)[step.is_bucket]
    stream = _compute_stream(step)
    return None if stream is None or not mine.size else float((mine == stream).mean())


def _streams(step: Step) -> IntArray:
    return step.recorded.trace.ops.stream[step.calls.operations]


def _compute_stream(step: Step) -> int | None:
    """Return the stream that computed longest in a step; None where streams are not told.

    Others may run a few kernels beside it: a hook's on the stream of the collectives, too.
    """
    ops = step.recorded.trace.ops
    rows = step.own[(ops.kind[step.own] == Kind.COMPUTE) & (ops.stream[step.own] >= 0)]
    if step.recorded.trace.device == "host" or not rows.size:
        return None
    stream, length_ns = ops.stream[rows], ops.end_ns[rows] - ops.start_ns[rows]
    streams = np.unique(stream).tolist()
    longest: int = max(streams, key=lambda one: int(length_ns[stream == one].sum()))
    return longest


_OF_GPU = "fewer NCCL channels (NCCL_MAX_CTAS)"
_OF_HOST = "cores that are left for gloo's threads (OMP_NUM_THREADS)"


def comm_slows_compute(basis: Basis) -> Iterator[Finding]:
    """Give the finding that kernels take longer beside communication than alone."""
    found = _slowdowns(basis)
    cost = basis.listed(lambda step: found[id(step)].extra_ns)
    if cost is None:
        return
    mine = [found[id(step)] for step in basis.of_rank(cost.rank)]
    extra_ns: Counter[str] = Counter()
    for one in mine:
        for kernel in one.kernels:
            extra_ns[kernel.name] += kernel.extra_ns
    name = extra_ns.most_common(1)[0][0]
    yield Finding(
        code="comm_slows_compute",
        cost_ns=cost.ns,
        ranks=cost.ranks(basis.limit_ns),
        evidence=[
            Evidence("extra_ns", cost.ns, basis.limit_ns),
            Evidence("slowdown_ratio", _ratio(mine), 1),
            Evidence("compared", middle(one.compared for one in mine), None),
            Evidence("beside", middle(one.beside for one in mine), None),
        ],
        advice="what hides communication runs longer for it, so hiding is not free: "
        f"{_OF_HOST if basis.is_of_host else _OF_GPU}, fewer bytes; {name[:_NAME_LENGTH]} loses "
        "most",
    )


def _slowdowns(basis: Basis) -> dict[int, Slowdown]:
    """Return the slowdown of each step, by its `id`."""
    known = basis.once(slowdowns)
    return {id(step): known[id(step.recorded)][step.at] for step in basis.steps}


def _ratio(found: list[Slowdown]) -> float | None:
    ratios = sorted(one.ratio for one in found if one.ratio is not None)
    return ratios[len(ratios) // 2] if ratios else None
