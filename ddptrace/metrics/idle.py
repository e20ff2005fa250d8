"""Why the GPU had nothing to do: the idle time of each step by cause.

The definitions are those of docs/metrics.md, "Idle time by cause".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddptrace.intervals import IntArray, Intervals
from ddptrace.metrics.host_work import HostWork, Syncs, Told, host_work
from ddptrace.metrics.launches import Launching, launching
from ddptrace.metrics.pauses import Pauses, pauses
from ddptrace.metrics.recorded import Recorded
from ddptrace.metrics.steps import StepMetrics
from ddptrace.metrics.windows import Windows
from ddptrace.model import NEVER_NS, Trace

IdleCause: TypeAlias = Literal["input", "sync", "launch", "unknown"]

ARRIVAL_NS = 50_000
"""An operation that did not start this long after its launch returned waits for something else."""


@dataclass(frozen=True, slots=True)
class Gap:
    """An idle time of the GPU inside a step, its main cause, and the operation that ended it."""

    start_ns: int
    length_ns: int
    cause: IdleCause
    ended_by: str | None


@dataclass(frozen=True, slots=True)
class SyncCall:
    """Calls of one name, in one operator if any, in which the GPU ran out of work.

    `blocked_ns` is how long they lasted, `idle_ns` how much of the idle time they caused.
    """

    name: str
    operator: str | None
    count: int
    blocked_ns: int
    idle_ns: int


@dataclass(frozen=True, slots=True)
class IdleCauses:
    """The idle time of one step by cause: input + sync + launch + unknown = idle, exactly.

    Of the input `loader_ns` was in a data loader's own ranges, the rest in silence. Of what is
    unknown the next operation had been launched already for `queued_ns`, and the host was silent
    for `silent_ns` where that is not known to be the input. In `waits` of the `gaps` the GPU waited
    for the host. `told` is what was recorded of the host, `data_loader_ns` how long the step's data
    loader took in all, idle or not; None where that was not recorded.
    """

    rank: int
    step: int | None
    input_ns: int
    sync_ns: int
    launch_ns: int
    unknown_ns: int
    loader_ns: int
    queued_ns: int
    silent_ns: int
    gaps: int
    waits: int
    longest: Gap | None
    told: Told
    sync_calls: tuple[SyncCall, ...]
    data_loader_ns: int | None
    launching: Launching


@dataclass(frozen=True, slots=True, eq=False)
class _Idle:
    """A recording's idle time and its parts as sets of time; `ended_by` is an operation a gap."""

    gaps: Intervals
    ended_by: NDArray[np.intp]
    waits: NDArray[np.bool_]
    queued: Intervals
    input: Intervals
    sync: Intervals
    launch: Intervals
    silent: Intervals
    caused: _Caused


@dataclass(frozen=True, slots=True, eq=False)
class _Caused:
    """The idle time that synchronising calls caused; `call` are rows of `Syncs`, rising."""

    time: Intervals
    call: NDArray[np.intp]
    at_ns: IntArray
    idle_ns: IntArray


@dataclass(frozen=True, slots=True)
class IdleTimes:
    """When the GPU of a recording idled inside its steps, by cause; disjoint, on its clock."""

    input: Intervals
    sync: Intervals
    launch: Intervals
    unknown: Intervals


def idle_times(recorded: Recorded) -> tuple[IdleTimes, HostWork]:
    """Return a recording's idle times by the causes of `idle_causes`, and what the host did."""
    host = host_work(recorded.trace)
    found = _idle(recorded, host, pauses(recorded, host))
    unknown = found.queued | found.silent
    return IdleTimes(found.input, found.sync, found.launch, unknown), host


def idle_causes(recorded: Recorded, rows: Sequence[StepMetrics]) -> list[IdleCauses | None]:
    """Return the causes for each of a recording's rows of `step_metrics`; None without idle time.

    A step's idle time is not known everywhere, and CPU runs have no GPU that could idle.
    """
    if recorded.trace.device == "host" or all(row.idle_ns is None for row in rows):
        return [None] * len(rows)
    host = host_work(recorded.trace)
    idle = _idle(recorded, host, pauses(recorded, host))
    found = _causes(recorded, host, idle)
    return [None if row.idle_ns is None else one for row, one in zip(rows, found, strict=True)]


def _idle(recorded: Recorded, host: HostWork, silences: Pauses) -> _Idle:
    """Return the parts of a recording's idle time.

    The GPU waited for the host in a gap when the call that launched the operation after it was
    not over when the gap began. Else that operation had been queued, and waited for the GPU
    itself: until the one before had ended, for another stream, inside a graph.
    """
    ops, steps, busy = recorded.trace.ops, recorded.steps, recorded.busy
    working = busy.compute | busy.comm | busy.mem
    gaps = working.gaps(int(steps.start_ns[0]), int(steps.end_ns[-1]))
    ran = np.flatnonzero(ops.end_ns > ops.start_ns)
    # An operation of no length at the end of a step leaves a gap that nothing ends.
    ended_by = np.append(ran, -1)[np.searchsorted(ops.start_ns[ran], gaps.end)]
    launch_ns = np.where(ended_by < 0, NEVER_NS, ops.launch_ns[ended_by])
    returned_ns = host.call_end_ns[ended_by]
    waits = (launch_ns != NEVER_NS) & (np.maximum(returned_ns, launch_ns) > gaps.start)
    start, end = gaps.start[waits], gaps.end[waits]
    known_ns = np.maximum(returned_ns, launch_ns)[waits] + ARRIVAL_NS
    late = Intervals(start, np.minimum(end, known_ns))
    waiting = Intervals.union_of(start, np.minimum(end, launch_ns[waits]))
    loader = Intervals.empty() if host.loader is None else host.loader
    data = waiting & (loader | silences.of_input)
    rest = late - data
    caused = _caused(rest, host.syncs, steps)
    rest = rest - caused.time
    silent = rest & waiting & silences.others
    return _Idle(
        gaps=gaps,
        ended_by=ended_by,
        waits=waits,
        queued=gaps - late,
        input=data,
        sync=caused.time,
        launch=rest - silent,
        silent=silent,
        caused=caused,
    )


def _caused(idle: Intervals, syncs: Syncs, steps: Windows) -> _Caused:
    """Return what of the idle time is due to calls in which the GPU ran out of work.

    Without such a call the host would have gone on as much earlier as it was blocked: so much of
    the idle time from there on, up to the end of the step, would not have been. What comes after
    that the host would not have prevented anyhow.
    """
    first = np.searchsorted(idle.end, syncs.start_ns, side="right")
    piece = np.minimum(first, max(len(idle) - 1, 0))
    if not len(idle):
        return _Caused(idle, *(np.empty(0, np.int64) for _ in range(3)))
    call = np.flatnonzero((first < len(idle)) & (idle.start[piece] < syncs.end_ns))
    at_ns = np.maximum(idle.start[piece[call]], syncs.start_ns[call])
    window = np.searchsorted(steps.start_ns, at_ns, side="right") - 1
    # From here on times are amounts of idle time since the first gap.
    begin = idle.length_before(at_ns)
    latest = idle.length_before(steps.end_ns[window])
    blocked = syncs.end_ns[call] - syncs.start_ns[call]
    reach = np.maximum.accumulate(np.minimum(begin + blocked, latest))
    end = np.minimum(reach, np.append(begin[1:], reach[-1:]))
    amount = Intervals.union_of(begin, end)
    time = idle & Intervals(_moment(idle, amount.start), _moment(idle, amount.end))
    return _Caused(time, call, at_ns, end - begin)


def _moment(idle: Intervals, amount: IntArray) -> IntArray:
    """Return when so much of a set of time has passed."""
    before = np.concatenate((np.zeros(1, np.int64), np.cumsum(idle.end - idle.start)[:-1]))
    piece = np.searchsorted(before, amount, side="right") - 1
    moment: IntArray = idle.start[piece] + amount - before[piece]
    return moment


def _causes(recorded: Recorded, host: HostWork, idle: _Idle) -> list[IdleCauses]:
    trace, steps = recorded.trace, recorded.steps
    loader = Intervals.empty() if host.loader is None else host.loader
    sets = {
        "input_ns": idle.input,
        "sync_ns": idle.sync,
        "launch_ns": idle.launch,
        "loader_ns": idle.input & loader,
        "queued_ns": idle.queued,
        "silent_ns": idle.silent,
    }
    lengths = {name: one.length_in(steps.start_ns, steps.end_ns) for name, one in sets.items()}
    launches = launching(recorded, host)
    gaps = _gaps_of(idle, steps)
    longest = _longest(trace, idle, steps, gaps)
    found = []
    for position, mark in enumerate(steps.marks):
        parts = {name: int(column[position]) for name, column in lengths.items()}
        mine = gaps[position]
        loading = host.loader is not None and mark is not None
        found.append(
            IdleCauses(
                rank=trace.rank,
                step=None if mark is None else mark.index,
                unknown_ns=parts["queued_ns"] + parts["silent_ns"],
                gaps=mine.stop - mine.start,
                waits=int(idle.waits[mine].sum()),
                longest=longest[position],
                told=host.told,
                sync_calls=_sync_calls(trace, host.syncs, idle.caused, steps, position),
                data_loader_ns=loader.clip(mark.start_ns, mark.end_ns).total_ns
                if mark is not None and loading
                else None,
                launching=launches[position],
                **parts,
            )
        )
    return found


def _gaps_of(idle: _Idle, steps: Windows) -> list[slice]:
    """Return which gaps each step has a part in."""
    first = np.searchsorted(idle.gaps.end, steps.start_ns, side="right")
    after = np.maximum(np.searchsorted(idle.gaps.start, steps.end_ns), first)
    return [slice(*pair) for pair in zip(first.tolist(), after.tolist(), strict=True)]


def _longest(trace: Trace, idle: _Idle, steps: Windows, gaps: Sequence[slice]) -> list[Gap | None]:
    """Return the longest gap of each step, of which only the part inside the step counts."""
    if not len(idle.gaps):
        return [None] * len(gaps)
    row = np.full(len(gaps), -1, np.intp)
    for position, mine in enumerate(gaps):
        if mine.stop > mine.start:
            start_ns = np.maximum(idle.gaps.start[mine], steps.start_ns[position])
            end_ns = np.minimum(idle.gaps.end[mine], steps.end_ns[position])
            row[position] = mine.start + (end_ns - start_ns).argmax()
    start_ns = np.maximum(idle.gaps.start[row], steps.start_ns)
    end_ns = np.minimum(idle.gaps.end[row], steps.end_ns)
    parts: dict[IdleCause, Intervals] = {
        "input": idle.input,
        "sync": idle.sync,
        "launch": idle.launch,
        "unknown": idle.queued | idle.silent,
    }
    lengths = np.stack([part.length_in(start_ns, end_ns) for part in parts.values()])
    causes = [tuple(parts)[cause] for cause in lengths.argmax(axis=0)]
    operation = idle.ended_by[row]
    return [
        Gap(
            start_ns=int(start_ns[position]),
            length_ns=int(end_ns[position] - start_ns[position]),
            cause=causes[position],
            ended_by=None
            if operation[position] < 0
            else trace.names[trace.ops.name[operation[position]]],
        )
        if row[position] >= 0
        else None
        for position in range(len(gaps))
    ]


def _sync_calls(
    trace: Trace, syncs: Syncs, caused: _Caused, steps: Windows, position: int
) -> tuple[SyncCall, ...]:
    inside = (caused.at_ns >= steps.start_ns[position]) & (caused.at_ns < steps.end_ns[position])
    inside &= caused.idle_ns > 0
    mine, idle_ns = caused.call[inside], caused.idle_ns[inside]
    kinds, place = np.unique(
        np.stack((syncs.name[mine], syncs.operator[mine])), axis=1, return_inverse=True
    )
    blocked_ns = syncs.end_ns[mine] - syncs.start_ns[mine]
    found = [
        SyncCall(
            name=trace.names[name],
            operator=None if operator < 0 else trace.names[operator],
            count=int((place.reshape(-1) == kind).sum()),
            blocked_ns=int(blocked_ns[place.reshape(-1) == kind].sum()),
            idle_ns=int(idle_ns[place.reshape(-1) == kind].sum()),
        )
        for kind, (name, operator) in enumerate(kinds.T.tolist())
    ]
    return tuple(sorted(found, key=lambda one: (-one.idle_ns, one.name, one.operator or "")))
