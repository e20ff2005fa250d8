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
SHORT_SILENCE_NS = 1_000_000
"""A silence of the host below this is that of Python between two operators, and no pause."""
_AT_ONCE = 1 << 15  # operations: their columns then fit the cache
_MOST_CALLS_AT_ONCE = 3  # of other threads, that begin in the same nanosecond


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

    `active` is the time in operators and calls, short silences included; `loader` is that in a
    data loader's own ranges (None where none was recorded). `call_end_ns` holds for each operation
    the end of the call that launched it: its start where the call is not known, NEVER_NS where no
    launch is.
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
    mine = np.isin(host.thread, _distinct(ops.thread[launched & (ops.kind != Kind.MEM)]))
    used = np.bincount(host.name, minlength=1) > 0
    is_call = mine & (host.kind == HostKind.CALL)
    is_operator = mine & (host.kind == HostKind.OPERATOR)
    is_operator &= ~_named(trace, used, kernels.is_wrapper)
    at_work = is_call | is_operator
    active = Intervals.union_of(host.start_ns[at_work], host.end_ns[at_work], SHORT_SILENCE_NS)
    if not is_call.any():
        launch_ns = ops.launch_ns[launched]
        active |= Intervals.union_of(launch_ns, launch_ns + 1, SHORT_SILENCE_NS)
    call_end_ns = _call_ends(ops, host)
    blocking = _named(trace, used, kernels.is_sync_call)
    blocking |= _blocking_copies(ops, host, call_end_ns)
    loading = _rows(host, mine & _named(trace, used, kernels.is_loader))
    return HostWork(
        told="operators" if is_operator.any() else "calls" if is_call.any() else "launches",
        active=active,
        loader=Intervals.union_of(loading.start_ns, loading.end_ns) if len(loading) else None,
        syncs=_syncs(host, blocking & is_call, is_operator),
        operator_start_ns=host.start_ns[is_operator],
        call_end_ns=call_end_ns,
    )


def _distinct(values: IntArray) -> IntArray:
    """Return the distinct values of a column in which they seldom change."""
    return np.unique(values[np.flatnonzero(np.diff(values, prepend=values[:1] - 1))])


def _rows(host: HostRanges, selected: NDArray[np.bool_]) -> HostRanges:
    rows = np.flatnonzero(selected)  # which is faster than the mask, used five times
    return HostRanges(
        host.start_ns[rows],
        host.end_ns[rows],
        host.name[rows],
        host.thread[rows],
        host.kind[rows],
    )


def _named(trace: Trace, used: NDArray[np.bool_], test: Callable[[str], bool]) -> NDArray[np.bool_]:
    """Tell which host ranges have a name that passes a test; each that is used is asked once."""
    codes = np.flatnonzero(used)
    passed = np.zeros(used.size, np.bool_)
    passed[codes] = [test(trace.names[code]) for code in codes]
    if not passed.any():
        return np.zeros(len(trace.host), np.bool_)
    return passed[trace.host.name]


def _call_ends(ops: Ops, host: HostRanges) -> IntArray:
    """Return when the calls that launched the operations returned."""
    calls = np.flatnonzero(host.kind == HostKind.CALL).astype(np.int32)
    start_ns = host.start_ns[calls]
    end_ns: IntArray = ops.launch_ns.copy()
    for first in range(0, len(ops), _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        launch_ns, thread = ops.launch_ns[some], ops.thread[some]
        place = np.searchsorted(start_ns, launch_ns)
        wanted = np.arange(launch_ns.size)
        for _ in range(_MOST_CALLS_AT_ONCE):
            wanted = wanted[place[wanted] < calls.size]
            call = calls[place[wanted]]
            found = start_ns[place[wanted]] == launch_ns[wanted]
            found &= host.thread[call] == thread[wanted]
            end_ns[first + wanted[found]] = host.end_ns[call[found]]
            wanted = wanted[~found]
            place[wanted] += 1
    return end_ns


def _syncs(host: HostRanges, blocking: NDArray[np.bool_], is_operator: NDArray[np.bool_]) -> Syncs:
    found = _rows(host, blocking)
    around = np.full(len(found), -1, np.int32)
    for thread in np.unique(found.thread):
        operators = _rows(host, is_operator & (host.thread == thread))
        here = found.thread == thread
        around[here] = _operators_around(found.start_ns[here], operators)
    return Syncs(found.start_ns, found.end_ns, found.name, around)


def _blocking_copies(ops: Ops, host: HostRanges, call_end_ns: IntArray) -> NDArray[np.bool_]:
    """Tell which ranges may be calls that returned only when the copy that they launched was over.

    Copies from and to pageable memory do so, under a name that says the opposite. Short ones are
    over before any call returns.
    """
    copies = np.flatnonzero((ops.kind == Kind.MEM) & (ops.launch_ns != NEVER_NS))
    launch_ns, returned_ns = ops.launch_ns[copies], call_end_ns[copies]
    waited = (returned_ns >= ops.end_ns[copies]) & (returned_ns - launch_ns >= BLOCKING_COPY_NS)
    if not waited.any():
        return np.zeros(len(host), np.bool_)
    known = np.unique(launch_ns[waited])
    place = np.minimum(np.searchsorted(known, host.start_ns), known.size - 1)
    found: NDArray[np.bool_] = known[place] == host.start_ns
    return found


def _operators_around(moment_ns: IntArray, operators: HostRanges) -> NDArray[np.int32]:
    """Return the outermost of one thread's operators around each moment; -1 for none."""
    if not len(operators):
        return np.full(moment_ns.size, -1, np.int32)
    reach = np.maximum.accumulate(operators.end_ns)
    outer = np.flatnonzero(np.concatenate(([True], operators.start_ns[1:] >= reach[:-1])))
    row = np.searchsorted(operators.start_ns[outer], moment_ns, side="right") - 1
    place = outer[np.maximum(row, 0)]
    inside = (row >= 0) & (moment_ns < operators.end_ns[place])
    return np.where(inside, operators.name[place], -1).astype(np.int32)
