"""Turns the events of one Kineto file into the recordings of its ranks."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ddptrace import kernels
from ddptrace.errors import TraceFileError
from ddptrace.intervals import IntArray
from ddptrace.kernels import Patterns
from ddptrace.manifest import Mark
from ddptrace.model import (
    NEVER_NS,
    Clock,
    Device,
    Facts,
    Gradients,
    HostKind,
    HostRanges,
    Ops,
    Trace,
    Warn,
)
from ddptrace.sources import kineto_facts, notices
from ddptrace.sources.collectives import Operations
from ddptrace.sources.columns import Calls, Columns, GpuSpans, Spans, take
from ddptrace.sources.gradients import GradientSpans
from ddptrace.sources.host_run import host_operations
from ddptrace.sources.kineto import Reading, check_is_pytorch, read_file
from ddptrace.sources.kineto_gpu import (
    Hints,
    gpu_operations,
    launches,
    lost_graphs,
    unreadable_launches,
    with_usable_times,
)
from ddptrace.sources.marks import distinct
from ddptrace.sources.names import Names
from ddptrace.sources.recording import Recording
from ddptrace.sources.streams import Cut, cut_impossible

# Stamps that count from 1970 rather than from a base are past the year 2001.
_UNIX_NS = 10**18
_MERGED_RANK = re.compile(r"\brank\s*[-_:#]?\s*(\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, eq=False)
class _Events:
    """The rows of one rank by what they are; times are those of the file."""

    host: Spans
    calls: Calls
    gpu: GpuSpans
    gradients: GradientSpans | None


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """What the file holds of one rank, in a form that lets go of the file's large tables.

    `host` is on `clock`; the stamps of `calls` and `gpu` are `shift_ns` behind it.
    """

    host: HostRanges
    calls: Calls
    gpu: GpuSpans
    process: str | None
    clock: Clock
    shift_ns: int
    lost_marks: int
    gradients: Gradients | None


def read_kineto(path: Path, comm: Patterns) -> list[Recording]:
    """Return the recordings of one file: one, or one a rank of a merged file.

    `comm` names further kernels that are communication. Raises TraceFileError for a file without
    usable events and ForeignFileError for a file of another kind.
    """
    reading = read_file(path)
    check_is_pytorch(reading)
    return [_recording(reading, part, rank, comm) for rank, part in _parts(reading)]


def _parts(reading: Reading) -> list[tuple[int | None, _Part]]:
    """Return the ranks in the file with what it holds of each; None where it tells no rank."""
    events = _Events(*reading.columns.finish(), reading.columns.gradients())
    rank_of = _merged_ranks(reading.columns)
    ranks = sorted(set(rank_of.values()))
    if len(ranks) < 2:
        _refuse_several_processes(reading, events)
        return [(kineto_facts.told_rank(reading.header), _part(reading, events))]
    return [(rank, _part(reading, _of_rank(events, rank_of, rank))) for rank in ranks]


def _part(reading: Reading, events: _Events) -> _Part:
    shift_ns, clock = _clock(reading, events)
    ids, counts = np.unique(
        np.concatenate((events.host.process, events.calls.process)), return_counts=True
    )
    return _Part(
        host=_host_ranges(events, reading.columns, shift_ns),
        calls=events.calls,
        gpu=events.gpu,
        process=reading.columns.process.text(int(ids[counts.argmax()])) if ids.size else None,
        clock=clock,
        shift_ns=shift_ns,
        lost_marks=_lost_marks(events.host, reading.columns),
        gradients=None if events.gradients is None else events.gradients.at(shift_ns),
    )


def _lost_marks(host: Spans, columns: Columns) -> int:
    """Count the step marks whose start or length cannot be read."""
    untimed = host.name[(host.start_ns == NEVER_NS) | (host.dur_ns == NEVER_NS)]
    names = list(columns.name) if untimed.size else []
    return sum(kernels.step_number(str(names[code])) is not None for code in untimed)


def _clock(reading: Reading, events: _Events) -> tuple[int, Clock]:
    """Return what to add to the file's stamps, and what they count from then."""
    latest = [table.start_ns.max(initial=NEVER_NS) for table in (events.host, events.gpu)]
    if max(latest) >= _UNIX_NS:
        return 0, "unix"
    base_ns = kineto_facts.base_ns(reading.header)
    return (0, "relative") if base_ns is None else (base_ns, "unix")


def _merged_ranks(columns: Columns) -> dict[int, int]:
    """Return the rank of each process whose label names one: files of all ranks do so."""
    found = {}
    for process, labels in columns.process_names.items():
        named = next(filter(None, map(_MERGED_RANK.search, labels)), None)
        if named:
            found[columns.process.one(process)] = int(named[1])
    return found


def _of_rank(events: _Events, rank_of: dict[int, int], rank: int) -> _Events:
    mine = [process for process, of_process in rank_of.items() if of_process == rank]
    return _Events(
        host=take(events.host, np.isin(events.host.process, mine)),
        calls=take(events.calls, np.isin(events.calls.process, mine)),
        gpu=take(events.gpu, np.isin(events.gpu.process, mine)),
        gradients=None if events.gradients is None else events.gradients.of(mine),
    )


def _refuse_several_processes(reading: Reading, events: _Events) -> None:
    nobody = reading.columns.process.one(None)
    working = np.unique(events.calls.process if events.calls.process.size else events.host.process)
    working = working[working != nobody]
    if working.size > 1:
        raise TraceFileError(
            reading.path,
            f"holds {working.size} processes and does not say which rank each is: pass each "
            'rank\'s own file, or name the merged processes "RANK 0", "RANK 1", …',
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Work:
    """A recording's operations, and what was wrong with them."""

    found: Operations
    device: Device
    dropped: int
    lost: int
    cut: Cut
    lost_graph_launch_ns: IntArray


def _recording(reading: Reading, part: _Part, rank: int | None, comm: Patterns) -> Recording:
    work = _work(reading, part, rank, comm)
    trace = Trace(
        rank=rank or 0,
        path=reading.path,
        source="kineto",
        device=work.device,
        clock=part.clock,
        names=work.found.names.texts,
        ops=work.found.ops,
        host=part.host,
        marks=tuple(_marks(part.host, work.found.names)),
        facts=_facts(reading, work.found.ops, part.process),
        collectives=work.found.collectives,
        groups=work.found.groups,
        part=kineto_facts.part(reading.header),
        gradients=part.gradients,
        lost_graph_launch_ns=tuple(work.lost_graph_launch_ns.tolist()),
        partial=notices.partial(reading, work.lost),
    )
    missing = notices.missing_comm(trace)
    warnings = (
        *notices.of_reading(reading, dropped=work.dropped, cut=work.cut),
        *notices.of_trace(trace),
        *_some(missing),
    )
    return Recording(replace(trace, comm_missing=missing is not None, warnings=warnings), rank)


def _work(reading: Reading, part: _Part, rank: int | None, comm: Patterns) -> _Work:
    names = Names(tuple(map(str, reading.columns.name)))
    gpu, dropped, lost = with_usable_times(part.gpu, part.shift_ns)
    calls = launches(part.calls, part.shift_ns, names)
    device: Device = "gpu" if gpu.start_ns.size else "host"
    groups = kineto_facts.groups(reading.header)
    if device == "gpu":
        found = gpu_operations(gpu, calls, part.host, reading.columns, Hints(comm, groups))
    else:
        _refuse_lost_kernels(reading, part.host, rank, names)
        found = host_operations(part.host, names, groups.values())
    if not len(found.ops):
        raise TraceFileError(reading.path, "holds neither GPU operations nor host operators")
    by_start = np.argsort(found.ops.start_ns, kind="stable")
    ops, cut = cut_impossible(found.ops.take(by_start))
    lost += part.lost_marks + unreadable_launches(part.calls, gpu)
    found = replace(found, ops=ops)
    return _Work(found, device, dropped, lost, cut, lost_graphs(calls, gpu))


def _some(warning: Warn | None) -> tuple[Warn, ...]:
    return () if warning is None else (warning,)


def _host_ranges(events: _Events, columns: Columns, shift_ns: int) -> HostRanges:
    is_annotation = np.array(
        [str(category).lower() in kernels.ANNOTATION_CATEGORIES for category in columns.category]
    )
    host_kind = np.where(is_annotation, HostKind.ANNOTATION, HostKind.OPERATOR).astype(np.int8)
    kind = [host_kind[events.host.category], np.full(events.calls.start_ns.size, HostKind.CALL)]
    start_ns, length_ns, name, thread = (
        np.concatenate((getattr(events.host, column), getattr(events.calls, column)))
        for column in ("start_ns", "dur_ns", "name", "thread")
    )
    timed = start_ns != NEVER_NS
    timed &= (start_ns != 0) | (length_ns != 0)
    order = np.flatnonzero(timed)[np.argsort(start_ns[timed], kind="stable")]
    start_ns = start_ns[order] + shift_ns
    return HostRanges(
        start_ns=start_ns,
        end_ns=start_ns + np.maximum(length_ns[order], 0),
        name=name[order],
        thread=thread[order],
        kind=np.concatenate(kind).astype(np.int8)[order],
    )


def _marks(host: HostRanges, names: Names) -> list[Mark]:
    """Return the step marks, one for each step, from annotations if there are any.

    A mark that repeats another's number while that one lasts is the same mark on another lane.
    Numbers that come again later tell no step: then the marks are numbered in their order.
    """
    is_mark = names.where(lambda name: kernels.step_number(name) is not None, host.name)
    is_mark &= host.kind != HostKind.CALL
    annotated = is_mark & (host.kind == HostKind.ANNOTATION)
    marks: list[Mark] = []
    for row in np.flatnonzero(annotated if annotated.any() else is_mark):
        name = names.texts[host.name[row]]
        start_ns, end_ns = int(host.start_ns[row]), int(host.end_ns[row])
        same = (mark for mark in marks if mark.name == name and start_ns < mark.end_ns)
        number = kernels.step_number(name)
        if number is not None and next(same, None) is None:
            marks.append(Mark(number, name, start_ns, end_ns))
    return distinct(marks)


def _refuse_lost_kernels(
    reading: Reading, host: HostRanges, rank: int | None, names: Names
) -> None:
    """Raise TraceFileError when the run used a GPU whose operations were not recorded."""
    calls = host.kind == HostKind.CALL
    launched = int((names.where(kernels.is_launch_call, host.name) & calls).sum())
    used = names.where(kernels.is_gpu_collective_call, host.name).any()
    if not launched and not used:
        return
    if reading.cut:
        raise TraceFileError(
            reading.path, f"{reading.cut}; what is there holds no GPU operations yet"
        )
    what = f"{launched} kernel launches" if launched else "collective calls of a GPU library"
    who = "" if rank is None else f"rank {rank}: "
    raise TraceFileError(
        reading.path,
        f"{who}{what} but no GPU kernels recorded. Usual causes: another profiler (nsys) holds "
        "CUPTI; the container may not read GPU counters; ProfilerActivity.CUDA was not requested",
    )


def _facts(reading: Reading, ops: Ops, process: str | None) -> Facts:
    """Return the header's facts, with the GPU that most of the work ran on."""
    found = Counter(ops.device.tolist()).most_common(1)
    device = found[0][0] if found and found[0][0] >= 0 else None
    return kineto_facts.facts(reading.header, device=device, process=process)
