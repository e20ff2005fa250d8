"""Why the GPU had nothing to do: the idle time of each step by cause.

The definitions are those of docs/metrics.md, "Idle time by cause".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddptrace.intervals import IntArray, Intervals
from ddptrace.metrics.host_work import HostWork, Syncs, Told, host_work
from ddptrace.metrics.pauses import Pauses, pauses
from ddptrace.metrics.recorded import Recorded
from ddptrace.metrics.steps import StepMetrics
from ddptrace.metrics.windows import Windows
from ddptrace.model import NEVER_NS, Ops, Trace

IdleCause: TypeAlias = Literal["input", "sync", "launch", "unknown"]

ARRIVAL_NS = 50_000
"""An operation that did not start this long after its launch returned waits for something else."""
OPERATIONS_AT_ONCE = 200_000
"""So many operations are looked at together: a long recording has as many gaps as operations."""


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


@dataclass(frozen=True, slots=True, eq=False)
class _Idle:
    """The idle time of some steps and its parts as sets of time; `ended_by` is an operation a gap.

    No gap reaches beyond these steps.
    """

    steps: range
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
    """The idle time that synchronising calls caused; `call` are rows of `Syncs`, rising.

    The rows from `next_call` on can have caused none before the idle time that comes next.
    """

    time: Intervals
    call: NDArray[np.intp]
    at_ns: IntArray
    idle_ns: IntArray
    next_call: int


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
    every = range(len(recorded.steps.marks))
    found = _idle(recorded, host, pauses(recorded, host), every, 0)
    unknown = found.queued | found.silent
    return IdleTimes(found.input, found.sync, found.launch, unknown), host


def idle_causes(recorded: Recorded, rows: Sequence[StepMetrics]) -> list[IdleCauses | None]:
    """Return the causes for each of a recording's rows of `step_metrics`; None without idle time.

    A step's idle time is not known everywhere, and CPU runs have no GPU that could idle.
    """
    if recorded.trace.device == "host" or all(row.idle_ns is None for row in rows):
        return [None] * len(rows)
    host = host_work(recorded.trace)
    silences = pauses(recorded, host)
    found: list[IdleCauses] = []
    call = 0
    for steps in _stretches(recorded):
        idle = _idle(recorded, host, silences, steps, call)
        call = idle.caused.next_call
        found += _causes(recorded, host, idle)
    return [None if row.idle_ns is None else one for row, one in zip(rows, found, strict=True)]


def _stretches(recorded: Recorded) -> Iterator[range]:
    """Yield the positions of steps to look at together: no gap lies on both sides of their ends."""
    steps, busy = recorded.steps, recorded.busy
    may_end = np.zeros(len(steps.marks), np.bool_)
    for working in (busy.compute, busy.comm, busy.mem):
        place = np.searchsorted(working.end, steps.end_ns)
        may_end |= np.append(working.start, np.iinfo(np.int64).max)[place] <= steps.end_ns
    may_end[-1:] = True
    first = 0
    for position in np.flatnonzero(may_end).tolist():
        if (
            steps.borders[position + 1] - steps.borders[first] >= OPERATIONS_AT_ONCE
            or position + 1 == may_end.size
        ):
            yield range(first, position + 1)
            first = position + 1


def _idle(
    recorded: Recorded, host: HostWork, silences: Pauses, positions: range, call: int
) -> _Idle:
    """Return the parts of the idle time of some steps.

    The GPU waited for the host in a gap when the call that launched the operation after it was
    not over when the gap began. Else that operation had been queued, and waited for the GPU
    itself: until the one before had ended, for another stream, inside a graph.

    Idle time that calls before row `call` of the synchronising ones caused comes before these.
    """
    ops, steps, busy = recorded.trace.ops, recorded.steps, recorded.busy
    window = int(steps.start_ns[positions[0]]), int(steps.end_ns[positions[-1]])
    working = busy.compute.clip(*window) | busy.comm.clip(*window) | busy.mem.clip(*window)
    gaps = working.gaps(*window)
    ended_by = _ended_by(ops, gaps)
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
    caused = _caused(rest, host.syncs, call, steps)
    rest = rest - caused.time
    silent = rest & (waiting & silences.others)
    return _Idle(
        steps=positions,
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


def _ended_by(ops: Ops, gaps: Intervals) -> NDArray[np.intp]:
    """Return the operation that ended each gap: the first behind it that ran; -1 for none."""
    first, after = (
        np.searchsorted(ops.start_ns, (gaps.start[0], gaps.end[-1])) if len(gaps) else (0, 0)
    )
    # An operation of no length at the end of a step leaves a gap that nothing ends.
    while after < len(ops) and ops.end_ns[after] == ops.start_ns[after]:
        after += 1
    near = slice(first, after + 1)
    ran = first + np.flatnonzero(ops.end_ns[near] > ops.start_ns[near])
    found: NDArray[np.intp] = np.append(ran, -1)[np.searchsorted(ops.start_ns[ran], gaps.end)]
    return found


def _caused(idle: Intervals, syncs: Syncs, from_call: int, steps: Windows) -> _Caused:
    """Return what of the idle time is due to calls in which the GPU ran out of work.

    Without such a call the host would have gone on as much earlier as it was blocked: so much of
    the idle time from there on, up to the end of the step, would not have been. What comes after
    that the host would not have prevented anyhow.
    """
    if not len(idle):
        nothing = np.empty(0, np.int64)
        return _Caused(idle, nothing, nothing, nothing, from_call)
    next_call = int(np.searchsorted(syncs.start_ns, idle.end[-1]))
    calls = np.arange(from_call, next_call)
    piece = np.searchsorted(idle.end, syncs.start_ns[calls], side="right")
    meets = idle.start[piece] < syncs.end_ns[calls]
    call, piece = calls[meets], piece[meets]
    at_ns = np.maximum(idle.start[piece], syncs.start_ns[call])
    window = np.searchsorted(steps.start_ns, at_ns, side="right") - 1
    # From here on times are amounts of idle time since the first gap.
    begin = idle.length_before(at_ns)
    latest = idle.length_before(steps.end_ns[window])
    blocked = syncs.end_ns[call] - syncs.start_ns[call]
    reach = np.maximum.accumulate(np.minimum(begin + blocked, latest))
    end = np.minimum(reach, np.append(begin[1:], reach[-1:]))
    amount = Intervals.union_of(begin, end)
    time = idle & Intervals(_moment(idle, amount.start), _moment(idle, amount.end))
    return _Caused(time, call, at_ns, end - begin, next_call)


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
    windows = steps.start_ns[idle.steps], steps.end_ns[idle.steps]
    lengths = {name: one.length_in(*windows).tolist() for name, one in sets.items()}
    gaps = _gaps_of(idle, *windows)
    longest = _longest(trace, idle, windows, gaps)
    found = []
    for place, position in enumerate(idle.steps):
        parts = {name: column[place] for name, column in lengths.items()}
        mine, mark = gaps[place], steps.marks[position]
        loading = host.loader is not None and mark is not None
        found.append(
            IdleCauses(
                rank=trace.rank,
                step=None if mark is None else mark.index,
                unknown_ns=parts["queued_ns"] + parts["silent_ns"],
                gaps=mine.stop - mine.start,
                waits=int(idle.waits[mine].sum()),
                longest=longest[place],
                told=host.told,
                sync_calls=_sync_calls(trace, host.syncs, idle.caused, steps, position),
                data_loader_ns=loader.clip(mark.start_ns, mark.end_ns).total_ns
                if mark is not None and loading
                else None,
                **parts,
            )
        )
    return found


def _gaps_of(idle: _Idle, start_ns: IntArray, end_ns: IntArray) -> list[slice]:
    """Return which gaps each window has a part in."""
    first = np.searchsorted(idle.gaps.end, start_ns, side="right")
    after = np.maximum(np.searchsorted(idle.gaps.start, end_ns), first)
    return [slice(*pair) for pair in zip(first.tolist(), after.tolist(), strict=True)]


def _longest(
    trace: Trace, idle: _Idle, windows: tuple[IntArray, IntArray], gaps: Sequence[slice]
) -> list[Gap | None]:
    """Return the longest gap of each window, of which only the part inside the window counts."""
    if not len(idle.gaps):
        return [None] * len(gaps)
    row = np.full(len(gaps), -1, np.intp)
    for position, mine in enumerate(gaps):
        if mine.stop > mine.start:
            start_ns = np.maximum(idle.gaps.start[mine], windows[0][position])
            end_ns = np.minimum(idle.gaps.end[mine], windows[1][position])
            row[position] = mine.start + (end_ns - start_ns).argmax()
    start_ns = np.maximum(idle.gaps.start[row], windows[0])
    end_ns = np.minimum(idle.gaps.end[row], windows[1])
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
            else trace.name_of(trace.ops.name[operation[position]]),
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
            name=trace.name_of(name),
            operator=None if operator < 0 else trace.names[operator],
            count=int((place.reshape(-1) == kind).sum()),
            blocked_ns=int(blocked_ns[place.reshape(-1) == kind].sum()),
            idle_ns=int(idle_ns[place.reshape(-1) == kind].sum()),
        )
        for kind, (name, operator) in enumerate(kinds.T.tolist())
    ]
    return tuple(sorted(found, key=lambda one: (-one.idle_ns, one.name, one.operator or "")))
