"""How the buckets fit the order of the gradients: not rebuilt, held up, ready all at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ddptrace.diagnosis.basis import Basis
from ddptrace.diagnosis.figures import middle
from ddptrace.diagnosis.finding import Evidence, Finding
from ddptrace.diagnosis.steps import Step
from ddptrace.intervals import Intervals
from ddptrace.kernels import Kind
from ddptrace.model import NEVER_NS

REBUILT_AFTER = 2
"""DDP lays its buckets out anew at the second step, so that a third one has them."""
LONG_RATIO = 0.25
"""A kernel of backward is uneven when it takes this part of all compute of backward at least."""
BUNCHED = 2
"""So many buckets at least become ready behind one kernel to be a bunch."""


def not_rebuilt(basis: Basis) -> Iterator[Finding]:
    """Give the finding that DDP still has the buckets that it began with."""
    buckets = basis.measured.buckets
    numbers = [step.causes.row.step for step in basis.steps]
    last = max((number for number in numbers if number is not None), default=0)
    if buckets.is_rebuilt is not False or buckets.layout is None or last < REBUILT_AFTER:
        return
    why = (
        "find_unused_parameters=True forbids it: leave that out, or set static_graph=True if the "
        "same parameters are used in each step"
        if _finds_unused(basis)
        else "its first steps may differ from each other, or static_graph does: see that all "
        "parameters get gradients"
    )
    yield Finding(
        code="not_rebuilt",
        cost_ns=None,
        ranks=[],
        evidence=[
            Evidence("step", last, REBUILT_AFTER),
            Evidence("buckets", len(buckets.layout), None),
        ],
        advice=f"DDP did not lay its buckets out in the order in which gradients are ready; {why}",
    )


def _finds_unused(basis: Basis) -> bool:
    manifest = basis.measured.run.manifest
    modules = [module for facts in manifest.ranks for module in facts.ddp] if manifest else []
    return any(module.find_unused_parameters for module in modules)


def head_of_line(basis: Basis) -> Iterator[Finding]:
    """Give the finding that buckets were complete and waited for the gradients of an earlier one.

    Its cost is the exposed transfer of these buckets, as far as a schedule could have hidden it.
    """
    cost = basis.listed(_held_up_ns)
    if cost is None:
        return
    mine = basis.of_rank(cost.rank)
    holders = Counter(number for step in mine for number in _holders(step))
    holder = holders.most_common(1)[0][0]
    names = _parameters(basis, holder)
    yield Finding(
        code="head_of_line",
        cost_ns=cost.ns,
        ranks=cost.ranks(basis.limit_ns),
        evidence=[
            Evidence("held_up_ns", cost.ns, basis.limit_ns),
            Evidence("blocked_buckets", middle(int(_blocked(step).sum()) for step in mine), 1),
            Evidence("bucket", holder, None),
        ],
        advice=f"buckets wait for bucket {holder}{names}, whose gradients are ready later: let DDP "
        "rebuild its buckets (find_unused_parameters=False, or static_graph=True), or order the "
        "parameters of the model as backward reaches them",
    )


def _held_up_ns(step: Step) -> int | None:
    if step.causes.transfer is None:
        return None
    held_ns = step.exposed_transfer_ns(_blocked(step))
    return None if held_ns is None else min(held_ns, step.causes.transfer.schedule_ns)


def _blocked(step: Step) -> NDArray[np.bool_]:
    blocked: NDArray[np.bool_] = step.is_bucket & (step.calls.is_blocked == 1)
    return blocked


def _holders(step: Step) -> list[int]:
    """Return for each blocked bucket which one held it up: the last before it that was not."""
    calls = step.calls.take(step.is_bucket)
    free = np.maximum.accumulate(np.where(calls.is_blocked == 1, 0, np.arange(len(calls))))
    return [int(number) for number in calls.bucket[free][calls.is_blocked == 1]]


def _parameters(basis: Basis, bucket: int) -> str:
    """Return the parameters of a bucket in words, where they are told."""
    layout = basis.measured.buckets.layout
    if layout is None or layout.parameters is None or bucket >= len(layout.parameters):
        return ""
    names = layout.parameters[bucket]
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f" ({names[0]}{more})"


def uneven_backward(basis: Basis) -> Iterator[Finding]:
    """Give the finding that buckets become ready in a bunch behind one long kernel of backward.

    Its cost is their exposed transfer, as far as a schedule could have hidden it and the kernel ran
    without any communication beside it: so much fits under it once its work is spread.
    """
    cost = basis.listed(_bunched_ns)
    if cost is None:
        return
    mine = basis.of_rank(cost.rank)
    found = [bunch for bunch in map(_bunch, mine) if bunch is not None]
    backward_ns = middle(bunch.backward_ns for bunch in found) or 0
    yield Finding(
        code="uneven_backward",
        cost_ns=cost.ns,
        ranks=cost.ranks(basis.limit_ns),
        evidence=[
            Evidence("bunched_ns", cost.ns, basis.limit_ns),
            Evidence(
                "longest_kernel_ns",
                middle(bunch.kernel_ns for bunch in found),
                round(LONG_RATIO * backward_ns),
            ),
            Evidence("buckets_behind", middle(bunch.behind for bunch in found), BUNCHED),
        ],
        advice=f"{found[0].name[:80]} takes much of backward, and the buckets behind it are ready "
        "all at once: make it faster or split it, so that transfers can start earlier",
    )


def is_uneven(basis: Basis) -> bool:
    """Tell whether a bunch behind one long kernel costs enough to be listed."""
    return basis.listed(_bunched_ns) is not None


def _bunched_ns(step: Step) -> int | None:
    bunch, transfer = _bunch(step), step.causes.transfer
    if bunch is None:
        return 0
    exposed_ns = step.exposed_transfer_ns(bunch.chosen)
    if exposed_ns is None or transfer is None:
        return None
    return min(exposed_ns, bunch.unused_ns, transfer.schedule_ns)


@dataclass(frozen=True, slots=True, eq=False)
class _Bunch:
    """The longest kernel of a step's backward, and the calls of the buckets ready behind it.

    `unused_ns` is how much of it ran without communication, `backward_ns` all compute of backward.
    """

    name: str
    kernel_ns: int
    backward_ns: int
    unused_ns: int
    chosen: NDArray[np.bool_]

    @property
    def behind(self) -> int:
        """How many buckets are ready behind the kernel."""
        return int(self.chosen.sum())


def _bunch(step: Step) -> _Bunch | None:
    """Return the bunch of a step; None without one, and where it is not known what was ready.

    The buckets that became ready before the kernel ended are none of it, nor those that waited for
    another one.
    """
    ops, busy = step.recorded.trace.ops, step.recorded.busy
    rows = step.own[(ops.kind[step.own] == Kind.COMPUTE) & ops.in_backward[step.own]]
    if not rows.size:
        return None
    length_ns = ops.end_ns[rows] - ops.start_ns[rows]
    longest = rows[length_ns.argmax()]
    start_ns, end_ns = int(ops.start_ns[longest]), int(ops.end_ns[longest])
    ready_ns = step.calls.ready_ns
    chosen = step.is_bucket & (ready_ns != NEVER_NS) & (ready_ns >= end_ns)
    if chosen.sum() < BUNCHED:
        return None
    backward_ns = Intervals.union_of(ops.start_ns[rows], ops.end_ns[rows]).total_ns
    if end_ns - start_ns < LONG_RATIO * backward_ns:
        return None
    return _Bunch(
        name=step.recorded.trace.name_of(ops.name[longest]),
        kernel_ns=end_ns - start_ns,
        backward_ns=backward_ns,
        unused_ns=end_ns - start_ns - busy.comm.clip(start_ns, end_ns).total_ns,
        chosen=chosen,
    )
