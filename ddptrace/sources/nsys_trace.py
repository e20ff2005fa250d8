"""Turns what an Nsight Systems export holds of one process into the recording of a rank."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ddptrace import kernels
from ddptrace.intervals import IntArray
from ddptrace.kernels import Kind, Patterns
from ddptrace.model import NEVER_NS, Clock, Facts, Ops, Trace
from ddptrace.sources import notices, nsys_notices
from ddptrace.sources.names import Names
from ddptrace.sources.nsys_collectives import Schemas
from ddptrace.sources.nsys_facts import Session
from ddptrace.sources.nsys_operations import Hints, host_ranges, lost_graphs, operations
from ddptrace.sources.nsys_ranges import Range, step_marks
from ddptrace.sources.nsys_ranks import Identity
from ddptrace.sources.nsys_store import process_id
from ddptrace.sources.nsys_tables import Tables, of_process, unnamed
from ddptrace.sources.recording import Recording
from ddptrace.sources.streams import cut_impossible
from ddptrace.wording import counted


@dataclass(frozen=True, slots=True, eq=False)
class Report:
    """What one export holds of all its processes, which are the keys; times are those of `clock`.

    `diagnostics` of None are about no process; `backward` are the threads of the autograd engine;
    `steps` name steps and `comm` further kernels that are communication.
    """

    path: str
    tables: Tables
    session: Session
    clock: Clock
    ranges: dict[int, list[Range]]
    schemas: Schemas
    diagnostics: dict[int | None, list[str]]
    backward: IntArray
    steps: Patterns
    comm: Patterns


def recording(report: Report, who: Identity) -> Recording:
    """Return the recording of one process."""
    tables = report.tables
    place = tables.processes.index(who.process)
    work = of_process(tables.work, place, tables.processes)
    calls = of_process(tables.calls, place, tables.processes)
    graphs = of_process(tables.graphs, place, tables.processes)
    ranges = report.ranges.get(who.process, [])
    marks, still_open = step_marks(ranges, report.steps, _calls_by_thread(calls.thread))
    host = host_ranges(calls, ranges, tables.names)
    names = Names(tuple(tables.names))
    lost_ns = lost_graphs(calls, work, graphs, names)
    hints = Hints(ranges, report.schemas, report.backward, report.comm)
    found = operations(work, calls, names, hints)
    ops, cut = cut_impossible(found.ops)
    unlaunched = bool(marks) and not (ops.launch_ns != NEVER_NS).any()
    trace = Trace(
        rank=who.rank or 0,
        path=report.path,
        source="nsys",
        device="gpu",
        clock=report.clock,
        names=found.names.texts,
        ops=ops,
        host=host,
        marks=() if unlaunched else tuple(marks),
        facts=_facts(report, who, found.names, ops),
        collectives=found.collectives,
        groups=found.groups,
        lost_graph_launch_ns=tuple(lost_ns.tolist()),
        partial=_partial(tables.unreadable[place]),
    )
    count = int((work.kind != Kind.MEM).sum())
    nameless = nsys_notices.names_lost(report.path, unnamed(work, tables.names), count)
    missing = nameless or notices.missing_comm(trace)
    warnings = (
        *notices.of_operations(report.path, dropped=tables.dropped[place], cut=cut),
        *nsys_notices.open_steps(report.path, still_open),
        *nsys_notices.calls_lost(report.path, unlaunched=unlaunched),
        *notices.of_trace(trace),
        *([] if missing is None else [missing]),
    )
    whole = replace(trace, comm_missing=missing is not None, warnings=warnings)
    return Recording(whole, who.rank)


def _calls_by_thread(thread: IntArray) -> dict[int, int]:
    threads, counts = np.unique(thread, return_counts=True)
    return dict(zip(threads.tolist(), counts.tolist(), strict=True))


def _partial(lost: int) -> str | None:
    if not lost:
        return None
    return f"{counted(lost, 'GPU operation')} without readable times"


def _facts(report: Report, who: Identity, names: Names, ops: Ops) -> Facts:
    by_library = names.where(kernels.is_comm_name, ops.name[ops.kind == Kind.COMM])
    return Facts(
        world_size=who.world_size,
        backend=kernels.GPU_BACKEND if by_library.any() else None,
        device_name=report.session.device_name(who.process, ops.device),
        gpu=report.session.gpu(who.process, ops.device),
        process=str(process_id(who.process)),
        versions=report.session.versions,
    )
