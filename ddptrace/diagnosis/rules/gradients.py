"""What parameters cost on the way: copies of their gradients, and many of them that are small."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ddptrace import kernels
from ddptrace.diagnosis.basis import Basis
from ddptrace.diagnosis.figures import middle
from ddptrace.diagnosis.finding import Evidence, Finding
from ddptrace.diagnosis.steps import Step, host_ranges
from ddptrace.intervals import Intervals
from ddptrace.kernels import Kind
from ddptrace.metrics.comm_table import NONE
from ddptrace.metrics.gradients import forward_launches
from ddptrace.model import Trace

FINE_BYTES = 2 << 20
"""Parameters are fine when a gradient has no more bytes on average: a GPU divides or copies so many
in less time than a host takes for the launch."""
MANY_RATIO = 0.3
"""Larger ones are fine, too, when there are so many to a kernel of the step: what is done for each
of them is then a good part of all that is launched."""
FEWEST_A_BUCKET = 2
"""A bucket has so many parameters on average when it is not for the buckets that they are fine."""


def grad_copies(basis: Basis) -> Iterator[Finding]:
    """Give the finding that reduced gradients are copied out of their buckets, which costs time.

    These are the copies that backward launches behind the last bucket. Those into the buckets look
    like other kernels, so what the setting costs is more rather than less.
    """
    if not any(_copies_back(basis, rank) for rank in basis.measured.recordings):
        return
    cost = basis.listed(lambda step: _copied(basis, step).total_ns)
    if cost is None:
        return
    mine = basis.of_rank(cost.rank)
    yield Finding(
        code="grad_copies",
        cost_ns=cost.ns,
        ranks=cost.ranks(basis.limit_ns),
        evidence=[
            Evidence("copies_ns", cost.ns, basis.limit_ns),
            Evidence("copies", middle(_copies(step).size for step in mine), None),
        ],
        advice="gradients are copied out of the buckets after each reduction: "
        "gradient_as_bucket_view=True, which saves their memory as well",
    )


def _copies_back(basis: Basis, rank: int) -> bool:
    """Tell whether the manifest or a recording of a rank says that DDP copies gradients back."""
    run = basis.measured.run
    facts = None if run.manifest is None else run.manifest.of_rank(rank)
    if facts is not None and facts.ddp:
        return any(module.gradient_as_bucket_view is False for module in facts.ddp)
    mine = [trace for trace in run.traces if trace.rank == rank]
    return any(kernels.is_copy_to_gradient(name) for trace in mine for name in trace.names)


def _copied(basis: Basis, step: Step) -> Intervals:
    """Return when a step copied gradients back and did nothing else on its GPU."""
    if not _copies_back(basis, step.rank):
        return Intervals.empty()
    ops, busy, rows = step.recorded.trace.ops, step.recorded.busy, _copies(step)
    if not rows.size:
        return Intervals.empty()
    copies = Intervals.union_of(ops.start_ns[rows], ops.end_ns[rows])
    first_ns, end_ns = int(copies.start[0]), int(copies.end[-1])
    compute_rows = step.own[ops.kind[step.own] == Kind.COMPUTE]
    others = np.setdiff1d(compute_rows, rows)
    compute = Intervals.union_of(ops.start_ns[others], ops.end_ns[others])
    return copies - compute - busy.comm.clip(first_ns, end_ns)


def _copies(step: Step) -> NDArray[np.intp]:
    """Return the copies on the GPU that a step's backward launched behind its last bucket."""
    ops, launch_ns = step.recorded.trace.ops, step.calls.launch_ns[step.is_bucket]
    if not launch_ns.size:
        return np.empty(0, np.intp)
    mine = step.own[ops.in_backward[step.own] & (ops.kind[step.own] != Kind.COMM)]
    rows = mine[ops.launch_ns[mine] > launch_ns.max()]
    copies = _copy_codes(step.recorded.trace, np.unique(ops.name[rows]).tolist())
    copied: NDArray[np.intp] = rows[np.isin(ops.name[rows], copies)]
    return copied


def _copy_codes(trace: Trace, codes: list[int]) -> list[int]:
    return [code for code in codes if code >= 0 and kernels.is_copy_kernel(trace.names[code])]


def fine_parameters(basis: Basis) -> Iterator[Finding]:
    """Give the finding that launching is the limit and parameters are small, at several a bucket.

    Its cost is known where the host's operators are recorded: the idle time while the host takes
    in gradients, each of which costs the same however small it is.
    """
    layout = basis.measured.buckets.layout
    launch = basis.cost(lambda one: None if one.idle is None else one.idle.launch_ns)
    if layout is None or launch is None or launch.ns < max(basis.limit_ns, 1):
        return
    count = _parameters(basis)
    if not count or NONE in layout.size_bytes:
        return
    mean_bytes, a_bucket = sum(layout.size_bytes) // count, count / len(layout)
    a_kernel = count / (_kernels(basis, launch.rank) or count)
    if (mean_bytes > FINE_BYTES and a_kernel < MANY_RATIO) or a_bucket < FEWEST_A_BUCKET:
        return
    taking = basis.once(lambda one: host_ranges(one.trace, kernels.is_gradient_range))
    cost = basis.listed(lambda step: _taking_in_ns(step, taking[id(step.recorded)]))
    if cost is None and any(map(len, taking.values())):
        return
    yield Finding(
        code="fine_parameters",
        cost_ns=None if cost is None else cost.ns,
        ranks=launch.ranks(basis.limit_ns),
        evidence=[
            Evidence("parameter_bytes", mean_bytes, FINE_BYTES),
            Evidence("parameters_a_kernel", a_kernel, MANY_RATIO),
            Evidence("parameters_a_bucket", a_bucket, FEWEST_A_BUCKET),
            Evidence("launch_bound_ns", launch.ns, basis.limit_ns),
        ],
        advice="each parameter costs the host the same, in backward and in the optimizer, however "
        "small it is: fewer and larger ones (fused projections, one flat parameter), "
        "torch.compile, a fused optimizer; other buckets change nothing of that",
    )


def _kernels(basis: Basis, rank: int) -> int | None:
    """Return how many kernels a step of a rank runs."""
    return middle(
        int((step.recorded.trace.ops.kind[step.own] != Kind.MEM).sum())
        for step in basis.of_rank(rank)
    )


def _parameters(basis: Basis) -> int | None:
    """Return how many parameters get a gradient in a step: the manifest tells, or the host."""
    layout = basis.measured.buckets.layout
    if layout is not None and layout.parameters is not None:
        return sum(map(len, layout.parameters))
    for trace in basis.measured.run.causes:
        gradient_ns = host_ranges(trace, kernels.is_gradient_operator).start
        # Between two backward passes something of a forward pass is launched.
        passes = np.searchsorted(forward_launches(trace), gradient_ns)
        if passes.size:
            return int(np.median(np.unique(passes, return_counts=True)[1]))
    return None


def _taking_in_ns(step: Step, taking: Intervals) -> int | None:
    """Return how long the GPU idled for its host while that took in gradients; None if untold."""
    row, idle, busy = step.causes.row, step.causes.idle, step.recorded.busy
    if idle is None or not len(taking):
        return None
    start_ns, end_ns = row.start_ns, row.end_ns
    clipped = [one.clip(start_ns, end_ns) for one in (busy.compute, busy.comm, busy.mem)]
    free = (clipped[0] | clipped[1] | clipped[2]).gaps(start_ns, end_ns)
    return min((taking.clip(start_ns, end_ns) & free).total_ns, idle.launch_ns)
