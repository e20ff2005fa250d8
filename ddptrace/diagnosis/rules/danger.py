"""What may be wrong rather than slow: orders that differ, gradients used before they are there."""

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
from ddptrace.metrics.launch_order import launch_order_differs
from ddptrace.model import NEVER_NS, Trace

DANGERS = frozenset({"launch_order_mismatch", "optimizer_before_comm"})
"""What is said before any cost: a job that is wrong need not be fast."""
EARLY_NS = 1_000
"""An optimizer kernel that starts so long before the last gradients are there did not wait."""


def launch_order_mismatch(basis: Basis) -> Iterator[Finding]:
    """Give the finding that ranks launched the collectives of a step in different orders."""
    counted = {step.causes.row.step for step in basis.steps}
    found = launch_order_differs(basis.measured.collected)
    steps = [step for step, differs in found.items() if differs and step in counted]
    if not steps:
        return
    yield Finding(
        code="launch_order_mismatch",
        cost_ns=None,
        ranks=[],
        evidence=[
            Evidence("steps_in_another_order", len(steps), 1),
            Evidence("first_step", steps[0], None),
        ],
        advice="danger of a deadlock or of wrong sums: ranks launch the same collectives in "
        "different orders; make the order the same on all ranks (no set or dict order that "
        "differs, no collectives from several threads)",
    )


def optimizer_before_comm(basis: Basis) -> Iterator[Finding]:
    """Give the finding that the optimizer starts before its last gradients are reduced.

    DDP lets the stream of backward wait for its collectives, so this takes another stream, without
    a dependency. Only kernels launched behind all of backward count: those inside it belong to
    hooks, which wait for their own bucket.
    """
    ranges = basis.once(lambda one: host_ranges(one.trace, kernels.is_optimizer_range))
    early = [(step, _early_ns(step, ranges[id(step.recorded)])) for step in basis.steps]
    late = [(step, each) for step, each in early if each is not None and each >= EARLY_NS]
    if not late:
        return
    yield Finding(
        code="optimizer_before_comm",
        cost_ns=None,
        ranks=sorted({step.rank for step, _ in late}),
        evidence=[
            Evidence("early_ns", middle(each for _, each in late), EARLY_NS),
            Evidence("steps", len(late), 1),
        ],
        advice="danger of wrong parameters: the optimizer starts while gradients are still being "
        "reduced; let its stream wait for that of backward (wait_stream), unless it takes the "
        "gradients bucket by bucket and waits for each",
    )


def _early_ns(step: Step, ranges: Intervals) -> int | None:
    """Return how long before the end of a step's last bucket its first optimizer kernel starts.

    Below 0 when it starts behind it; None where there is none that is known to be one.
    """
    trace, ops = step.recorded.trace, step.recorded.trace.ops
    buckets = step.is_bucket
    if trace.device == "host" or not buckets.any():
        return None
    own = step.own[(ops.launch_ns[step.own] != NEVER_NS) & ~ops.in_graph[step.own]]
    backward = own[ops.in_backward[own]]
    if not backward.size:
        return None
    behind = own[ops.kind[own] == Kind.COMPUTE]
    rows = behind[ops.launch_ns[behind] > ops.launch_ns[backward].max()]
    rows = rows[_of_optimizer(trace, rows, ranges)]
    if not rows.size:
        return None
    return int(step.calls.end_ns[buckets].max()) - int(ops.start_ns[rows].min())


def _of_optimizer(trace: Trace, rows: NDArray[np.intp], ranges: Intervals) -> NDArray[np.bool_]:
    """Tell which operations an optimizer launched: inside its range, else by their names.

    Where ranges of optimizers are recorded, these alone tell.
    """
    if not len(ranges):
        named = [kernels.is_optimizer_kernel(trace.name_of(code)) for code in trace.ops.name[rows]]
        return np.array(named, np.bool_)
    launch_ns = trace.ops.launch_ns[rows]
    inside: NDArray[np.bool_] = ranges.length_in(launch_ns, launch_ns + 1) > 0
    return inside
