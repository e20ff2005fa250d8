"""What the host threads that launch kernels did, to tell why the GPU had nothing to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddptrace import kernels
from ddptrace.intervals import IntArray, Intervals
from ddptrace.kernels import Kind
from ddptrace.model import NEVER_NS, HostKind, HostRanges, Ops, Trace

Told: TypeAlias = Literal["operators", "calls", "launches"]
"""What the recording tells of the host: its operators and calls, its calls, or only launches."""

BLOCKING_COPY_NS = 50_000


@dataclass(frozen=True, slots=True, eq=False)
class Syncs:
    """The calls that blocked the host until work of the GPU had ended, sorted by start.

    `operator` is the outermost operator around the call; both it and `name` index `Trace.names`,
    -1 for no operator.
    """

    start_ns: IntArray
    end_ns: IntArray
    name: NDArray[np.int32]
    operator: NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class HostWork:
    """What the threads that launch kernels did, as one: one of them often waits for another.

    `active` is the time in operators and calls, `loader` that in a data loader's own ranges (None
    where none was recorded). `call_end_ns` holds for each operation the end of the call that
    launched it: its start where the call is not known, NEVER_NS where no launch is.
    """

    told: Told
    active: Intervals
    loader: Intervals | None
    syncs: Syncs
    operator_start_ns: IntArray
    call_end_ns: IntArray


def host_work(trace: Trace) -> HostWork:
    """Return what the threads that launch the kernels of a recording did."""
    ops, host = trace.ops, trace.host
    launched = ops.launch_ns != NEVER_NS
    threads = np.unique(ops.thread[launched & (ops.kind != Kind.MEM)])
    mine = np.isin(host.thread, threads)
    calls = _rows(host, mine & (host.kind == HostKind.CALL))
    operators = _rows(host, mine & (host.kind == HostKind.OPERATOR))
    operators = _rows(operators, ~_named(trace, kernels.is_wrapper, operators.name))
    active = Intervals.union_of(calls.start_ns, calls.end_ns)
    active |= Intervals.union_of(operators.start_ns, operators.end_ns)
    if not len(calls):
        active |= Intervals.union_of(ops.launch_ns[launched], ops.launch_ns[launched] + 1)
    call_end_ns = _call_ends(ops, host)
    loading = _rows(host, mine & _named(trace, kernels.is_loader, host.name))
    return HostWork(
        told="operators" if len(operators) else "calls" if len(calls) else "launches",
        active=active,
        loader=Intervals.union_of(loading.start_ns, loading.end_ns) if len(loading) else None,
        syncs=_syncs(trace, calls, operators, call_end_ns),
        operator_start_ns=operators.start_ns,
        call_end_ns=call_end_ns,
    )


def _rows(host: HostRanges, rows: NDArray[np.bool_]) -> HostRanges:
    return HostRanges(
        host.start_ns[rows],
        host.end_ns[rows],
        host.name[rows],
        host.thread[rows],
        host.kind[rows],
    )


def _named(trace: Trace, test: Callable[[str], bool], name: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Tell which of the names pass a test; each distinct one is asked once."""
    used, place = np.unique(name, return_inverse=True)
    passed = np.array([test(trace.names[code]) for code in used], np.bool_)
    return passed[place.reshape(-1)]


def _call_ends(ops: Ops, host: HostRanges) -> IntArray:
    """Return when the calls that launched the operations returned."""
    is_call = host.kind == HostKind.CALL
    start_ns, end_ns, thread = host.start_ns[is_call], host.end_ns[is_call], host.thread[is_call]
    end_of: IntArray = ops.launch_ns.copy()
    first = np.searchsorted(start_ns, ops.launch_ns)
    # Calls of other threads may begin in the same nanosecond: a few places are enough.
    for row in (first + 2, first + 1, first):
        inside = row < start_ns.size
        row = np.where(inside, row, 0)
        if start_ns.size:
            same = inside & (start_ns[row] == ops.launch_ns) & (thread[row] == ops.thread)
            end_of = np.where(same, end_ns[row], end_of)
    return end_of


def _syncs(trace: Trace, calls: HostRanges, operators: HostRanges, call_end_ns: IntArray) -> Syncs:
    blocking = _named(trace, kernels.is_sync_call, calls.name)
    blocking |= _blocking_copies(trace.ops, calls, call_end_ns)
    found = _rows(calls, blocking)
    return Syncs(found.start_ns, found.end_ns, found.name, _operators_around(found, operators))


def _blocking_copies(ops: Ops, calls: HostRanges, call_end_ns: IntArray) -> NDArray[np.bool_]:
    """Tell which calls returned only when the copy that they launched was over.

    Copies from and to pageable memory do so, under a name that says the opposite. Short ones are
    over before any call returns.
    """
    waited = (ops.kind == Kind.MEM) & (ops.launch_ns != NEVER_NS) & (call_end_ns >= ops.end_ns)
    waited &= call_end_ns - ops.launch_ns >= BLOCKING_COPY_NS
    return np.isin(calls.start_ns, ops.launch_ns[waited])


def _operators_around(found: HostRanges, operators: HostRanges) -> NDArray[np.int32]:
    """Return the outermost operator of the same thread around each range; -1 for none."""
    around = np.full(len(found), -1, np.int32)
    for thread in np.unique(found.thread):
        mine = _rows(operators, operators.thread == thread)
        if not len(mine):
            continue
        reach = np.maximum.accumulate(mine.end_ns)
        outer = np.flatnonzero(np.concatenate(([True], mine.start_ns[1:] >= reach[:-1])))
        here = np.flatnonzero(found.thread == thread)
        row = np.searchsorted(mine.start_ns[outer], found.start_ns[here], side="right") - 1
        place = outer[np.maximum(row, 0)]
        inside = (row >= 0) & (found.start_ns[here] < mine.end_ns[place])
        around[here] = np.where(inside, mine.name[place], -1)
    return around
