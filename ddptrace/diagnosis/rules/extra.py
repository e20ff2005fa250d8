"""Collectives that come with a setting: broadcasts of buffers, the search for unused parameters."""

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
from ddptrace.metrics.recorded import Recorded
from ddptrace.model import HostKind

_UNKNOWN = -2


def buffer_broadcast(basis: Basis) -> Iterator[Finding]:
    """Give the finding that each step broadcasts outside of backward, as DDP does with buffers."""
    chosen = {id(step): _broadcasts(basis, step) for step in basis.steps}
    if not chosen or not all(rows.any() for rows in chosen.values()):
        return
    if not all(basis.once(_may_be_ddp).values()):
        return
    cost = basis.listed(lambda step: step.exposed_transfer_ns(chosen[id(step)]))
    if cost is None:
        return
    mine = basis.of_rank(cost.rank)
    yield Finding(
        code="buffer_broadcast",
        cost_ns=cost.ns,
        ranks=cost.ranks(basis.limit_ns),
        evidence=[
            Evidence("exposed_broadcast_ns", cost.ns, basis.limit_ns),
            Evidence("broadcasts", middle(int(chosen[id(step)].sum()) for step in mine), 1),
        ],
        advice="buffers, such as batch norm's, are broadcast before each forward: "
        "broadcast_buffers=False where ranks may differ in them, or SyncBatchNorm",
    )


def _may_be_ddp(recorded: Recorded) -> bool:
    """Tell whether DDP may be at work: its forward is seen where the host's operators are."""
    trace = recorded.trace
    has_operators = bool((trace.host.kind == HostKind.OPERATOR).any())
    return not has_operators or any(map(kernels.is_ddp_range, trace.names))


def _broadcasts(basis: Basis, step: Step) -> NDArray[np.bool_]:
    code = basis.measured.collected.words.operations.get("broadcast", _UNKNOWN)
    outside: NDArray[np.bool_] = (step.calls.operation == code) & ~step.calls.in_backward
    return outside


def unused_search(basis: Basis) -> Iterator[Finding]:
    """Give the finding that each step looks for unused parameters, and tells the others.

    Its cost is the exposed transfer of the small all-reduce of integers, and the GPU's idle time
    while the host searches; a recording of CUDA alone does not tell when that is, and then the full
    one of the rank does.
    """
    chosen = {id(step): _of_integers(basis, step) for step in basis.steps}
    if not chosen or not all(rows.any() for rows in chosen.values()):
        return
    ranges = basis.once(lambda one: host_ranges(one.trace, kernels.is_unused_search))
    search = {id(step): ranges[id(step.recorded)] for step in basis.steps}
    if not all(_searches(basis, step, search[id(step)]) for step in basis.steps):
        return
    elsewhere = {rank: _idle_elsewhere_ns(basis, rank) for rank in basis.measured.recordings}

    def idle_in_search_ns(step: Step) -> int | None:
        idle_ns = _idle_in_search_ns(step, search[id(step)])
        return _launching_ns(step, elsewhere[step.rank]) if idle_ns is None else idle_ns

    def search_ns(step: Step) -> int | None:
        exposed_ns = step.exposed_transfer_ns(chosen[id(step)])
        return None if exposed_ns is None else exposed_ns + (idle_in_search_ns(step) or 0)

    cost = basis.listed(search_ns)
    if cost is None:
        return
    mine = basis.of_rank(cost.rank)
    idle_ns = middle(map(idle_in_search_ns, mine))
    yield Finding(
        code="unused_search",
        cost_ns=cost.ns,
        ranks=cost.ranks(basis.limit_ns),
        evidence=[
            Evidence("search_ns", cost.ns, basis.limit_ns),
            Evidence("idle_in_search_ns", idle_ns, None),
            Evidence("integer_all_reduces", middle(int(chosen[id(s)].sum()) for s in mine), 1),
        ],
        advice="find_unused_parameters=True walks the graph and reduces a map in each step: leave "
        "it out if all parameters are used, or set static_graph=True",
    )


def _of_integers(basis: Basis, step: Step) -> NDArray[np.bool_]:
    code = basis.measured.collected.words.operations.get("all_reduce", _UNKNOWN)
    reduces: NDArray[np.bool_] = step.calls.operation == code
    return reduces & step.calls.of_integers & step.calls.in_backward


def _searches(basis: Basis, step: Step, search: Intervals) -> bool:
    """Tell whether the manifest or the host's ranges say that DDP searches in a step."""
    manifest = basis.measured.run.manifest
    facts = None if manifest is None else manifest.of_rank(step.rank)
    if facts is not None and facts.ddp:
        return any(one.find_unused_parameters and not one.static_graph for one in facts.ddp)
    return len(_in_step(step, search)) > 0


def _idle_in_search_ns(step: Step, search: Intervals) -> int | None:
    """Return how long the GPU idled while the host searched in a step; None if that is not told."""
    mine = _in_step(step, search)
    return _idle_ns(step.recorded, mine) if len(mine) else None


def _idle_elsewhere_ns(basis: Basis, rank: int) -> int | None:
    """Return how long the GPU idled in a search, the median of a rank's other recordings."""
    run, found = basis.measured.run, []
    figures = {id(one.trace) for one in basis.measured.recordings[rank]}
    for trace in run.causes:
        if trace.rank == rank and id(trace) not in figures:
            recorded, search = Recorded.of(trace), host_ranges(trace, kernels.is_unused_search)
            mine = (search.clip(mark.start_ns, mark.end_ns) for mark in trace.marks)
            found += [_idle_ns(recorded, one) for one in mine if len(one)]
    return middle(found)


def _launching_ns(step: Step, idle_ns: int | None) -> int | None:
    """Return what of an idle time seen in other steps this one can have: none is where none is."""
    idle = step.causes.idle
    return None if idle is None or idle_ns is None else min(idle_ns, idle.launch_ns)


def _idle_ns(recorded: Recorded, moments: Intervals) -> int:
    """Return for how long of these moments, of which there are some, the GPU did nothing."""
    busy, first_ns, end_ns = recorded.busy, int(moments.start[0]), int(moments.end[-1])
    clipped = [one.clip(first_ns, end_ns) for one in (busy.compute, busy.comm, busy.mem)]
    return (moments - (clipped[0] | clipped[1] | clipped[2])).total_ns


def _in_step(step: Step, search: Intervals) -> Intervals:
    """Return when the host searched in the mark of a step."""
    mark = step.recorded.steps.marks[step.at]
    return Intervals.empty() if mark is None else search.clip(mark.start_ns, mark.end_ns)
