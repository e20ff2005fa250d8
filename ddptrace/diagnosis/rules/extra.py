"""Collectives that come with a setting: broadcasts of buffers, the search for unused parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ddptrace import kernels
from ddptrace.diagnosis.basis import Basis
from ddptrace.diagnosis.figures import middle
from ddptrace.diagnosis.finding import Evidence, Finding
from ddptrace.diagnosis.steps import Step
from ddptrace.intervals import Intervals
from ddptrace.model import HostKind, Trace

_UNKNOWN = -2


def buffer_broadcast(basis: Basis) -> Iterator[Finding]:
    """Give the finding that each step broadcasts outside of backward, as DDP does with buffers."""
    chosen = {id(step): _broadcasts(basis, step) for step in basis.steps}
    if not all(rows.any() for rows in chosen.values()):
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


def _broadcasts(basis: Basis, step: Step) -> NDArray[np.bool_]:
    """Tell which calls of a step may broadcast buffers of DDP.

    A recording with the host's operators that has no forward of DDP broadcasts something else.
    """
    trace = step.recorded.trace
    operators = (trace.host.kind == HostKind.OPERATOR).any()
    if operators and not any(map(kernels.is_ddp_range, trace.names)):
        return np.zeros(len(step.calls), np.bool_)
    code = basis.measured.collected.words.operations.get("broadcast", _UNKNOWN)
    outside: NDArray[np.bool_] = (step.calls.operation == code) & ~step.calls.in_backward
    return outside


def unused_search(basis: Basis) -> Iterator[Finding]:
    """Give the finding that each step looks for unused parameters, and tells the others.

    Its cost is the exposed transfer of the small all-reduce of integers, and the GPU's idle time
    while the host searches, where that is recorded.
    """
    chosen = {id(step): _of_integers(basis, step) for step in basis.steps}
    if not basis.steps or not all(_searches(basis, step) for step in basis.steps):
        return
    if not all(rows.any() for rows in chosen.values()):
        return
    cost = basis.listed(lambda step: _search_ns(step, chosen[id(step)]))
    if cost is None:
        return
    mine = basis.of_rank(cost.rank)
    searched = [_idle_in_search_ns(step) for step in mine]
    yield Finding(
        code="unused_search",
        cost_ns=cost.ns,
        ranks=cost.ranks(basis.limit_ns),
        evidence=[
            Evidence("search_ns", cost.ns, basis.limit_ns),
            Evidence("idle_in_search_ns", middle(searched), None),
            Evidence("integer_all_reduces", middle(int(chosen[id(s)].sum()) for s in mine), 1),
        ],
        advice="find_unused_parameters=True walks the graph and reduces a map in each step: leave "
        "it out if all parameters are used, or set static_graph=True",
    )


def _of_integers(basis: Basis, step: Step) -> NDArray[np.bool_]:
    code = basis.measured.collected.words.operations.get("all_reduce", _UNKNOWN)
    reduces: NDArray[np.bool_] = step.calls.operation == code
    return reduces & step.calls.of_integers & step.calls.in_backward


def _searches(basis: Basis, step: Step) -> bool:
    """Tell whether the manifest or the host's ranges say that DDP searches in each step."""
    manifest = basis.measured.run.manifest
    facts = None if manifest is None else manifest.of_rank(step.rank)
    if facts is not None and facts.ddp:
        return any(one.find_unused_parameters and not one.static_graph for one in facts.ddp)
    return _search(step).total_ns > 0


def _search_ns(step: Step, chosen: NDArray[np.bool_]) -> int | None:
    exposed_ns = step.exposed_transfer_ns(chosen)
    return None if exposed_ns is None else exposed_ns + (_idle_in_search_ns(step) or 0)


def _idle_in_search_ns(step: Step) -> int | None:
    """Return how long the GPU idled in a step's window while the host searched; None if untold."""
    search, busy = _search(step), step.recorded.busy
    if not len(search):
        return None
    first_ns, end_ns = int(search.start[0]), int(search.end[-1])
    clipped = [one.clip(first_ns, end_ns) for one in (busy.compute, busy.comm, busy.mem)]
    return (search - (clipped[0] | clipped[1] | clipped[2])).total_ns


def _search(step: Step) -> Intervals:
    """Return when the host searched in the mark of a step."""
    mark, trace = step.recorded.steps.marks[step.at], step.recorded.trace
    codes = _codes(trace)
    if mark is None or not codes:
        return Intervals.empty()
    first, after = np.searchsorted(trace.host.start_ns, (mark.start_ns, mark.end_ns))
    rows = first + np.flatnonzero(np.isin(trace.host.name[first:after], codes))
    return Intervals.union_of(trace.host.start_ns[rows], trace.host.end_ns[rows])


def _codes(trace: Trace) -> Sequence[int]:
    return [code for code, name in enumerate(trace.names) if kernels.is_unused_search(name)]
