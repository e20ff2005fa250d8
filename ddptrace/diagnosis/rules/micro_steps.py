"""Gradients that are reduced in each micro-step although one optimizer step needs them once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from ddptrace import kernels
from ddptrace.diagnosis.basis import Basis
from ddptrace.diagnosis.figures import middle
from ddptrace.diagnosis.finding import Evidence, Finding
from ddptrace.diagnosis.steps import Step, host_ranges
from ddptrace.metrics.comm_table import NONE
from ddptrace.model import Trace

FEWEST_REDUCTIONS = 2
"""So often at least the same buckets are reduced in a step for all but the last to be avoidable."""


def reduce_each_microstep(basis: Basis) -> Iterator[Finding]:
    """Give the finding that a step reduces the same buckets several times.

    What could be avoided is the exposed transfer of all but the last reduction. A step in which the
    optimizer runs as often needs them all, and with several DDP modules each may reduce its own.
    """
    if _modules(basis) > 1:
        return
    cost = basis.listed(lambda step: _avoidable_ns(basis, step))
    if cost is None:
        return
    mine = basis.of_rank(cost.rank)
    times = middle(_reductions(step) for step in mine)
    yield Finding(
        code="reduce_each_microstep",
        cost_ns=cost.ns,
        ranks=cost.ranks(basis.limit_ns),
        evidence=[
            Evidence("avoidable_ns", cost.ns, basis.limit_ns),
            Evidence("reductions", times, FEWEST_REDUCTIONS),
            Evidence("exposed_bucket_ns", middle(_exposed_ns(step) for step in mine), None),
            Evidence("optimizer_steps", middle(_optimizer_steps(basis, s) for s in mine), None),
        ],
        advice=f"the same buckets are reduced {times} times a step: put forward and backward of "
        "all micro-batches but the last into `with model.no_sync():` (backward alone in it does "
        "nothing)",
    )


def _modules(basis: Basis) -> int:
    manifest = basis.measured.run.manifest
    return max((len(facts.ddp) for facts in manifest.ranks), default=0) if manifest else 0


def _avoidable_ns(basis: Basis, step: Step) -> int | None:
    """Return what reducing all but the last time costs a step; 0 where each is needed."""
    times = _reductions(step)
    if times < FEWEST_REDUCTIONS or (_optimizer_steps(basis, step) or 1) >= times:
        return 0
    last = int(step.calls.backward_pass.max())
    return step.exposed_transfer_ns(step.is_bucket & (step.calls.backward_pass < last))


def _exposed_ns(step: Step) -> int | None:
    return step.exposed_transfer_ns(step.is_bucket)


def _reductions(step: Step) -> int:
    """Return how often a step reduces the same buckets; 0 when the passes are not alike."""
    calls = step.calls.take(step.is_bucket)
    passes = [
        calls.size_bytes[calls.backward_pass == number].tolist()
        for number in np.unique(calls.backward_pass)
    ]
    is_alike = all(sizes == passes[0] and NONE not in sizes for sizes in passes)
    return len(passes) if is_alike else 0


def _optimizer_steps(basis: Basis, step: Step) -> int | None:
    """Return how often the optimizer ran in a step; None where no recording of the rank tells.

    A recording of CUDA alone does not: then the rank's other one does, by its own steps.
    """
    traces = [step.recorded.trace]
    traces += [one for one in basis.measured.run.causes if one.rank == step.rank]
    for trace in traces:
        counts = _optimizers(trace)
        if counts:
            return middle(counts.get(mark.index, 0) for mark in trace.marks)
    return None


def _optimizers(trace: Trace) -> Counter[int]:
    """Return how many optimizer ranges began in each mark of a recording."""
    start_ns = host_ranges(trace, kernels.is_optimizer_range).start
    counts: Counter[int] = Counter()
    for mark in trace.marks:
        first, after = np.searchsorted(start_ns, (mark.start_ns, mark.end_ns))
        counts[mark.index] += int(after - first)
    return +counts
