"""Turns what an Nsight Systems export holds of one process into the recording of a rank."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ddptrace import kernels
from ddptrace.intervals import IntArray
from ddptrace.kernels import Kind, Patterns
from ddptrace.model import Clock, Facts, Trace
from ddptrace.sources import notices, nsys_notices
from ddptrace.sources.names import Names
from ddptrace.sources.nsys_facts import Session
from ddptrace.sources.nsys_operations import (
    host_ranges,
    lost_graphs,
    operations,
    sorted_calls,
    usable_work,
)
from ddptrace.sources.nsys_ranges import Range, recorder_mark, step_marks
from ddptrace.sources.nsys_ranks import Identity
from ddptrace.sources.nsys_store import process_id
from ddptrace.sources.nsys_tables import Calls, Graphs, Table, Tables, Work, of_process
from ddptrace.sources.recording import Recording
from ddptrace.sources.streams import cut_impossible
from ddptrace.wording import counted


@dataclass(frozen=True, slots=True, eq=False)
class Report:
    """What one export holds of all its processes, which are the keys; times are those of the file.

    `diagnostics` of None are about no process; `backward` are the threads of the autograd engine;
    `steps` name steps and `comm` further kernels that are communication.
    """

    path: str
    tables: Tables
    session: Session
    ranges: dict[int, list[Range]]
    diagnostics: dict[int | None, list[str]]
    backward: IntArray
    steps: Patterns
    comm: Patterns


@dataclass(frozen=True, slots=True, eq=False)
class _Process:
    """What is recorded of one process, on its clock."""

    work: Work
    calls: Calls
    graphs: Graphs
    ranges: list[Range]
    clock: Clock
    dropped: int
    lost: int


def recording(report: Report, who: Identity) -> Recording:
    """Return the recording of one process."""
    process = _process(report, who.process)
    host = host_ranges(process.calls, process.ranges, report.tables.names)
    names = Names(tuple(report.tables.names))
    marks, still_open = step_marks(process.ranges, report.steps)
    lost_ns = lost_graphs(process.calls, process.work, process.graphs, names)
    ops, names = operations(process.work, process.calls, names, report.backward, report.comm)
    ops, cut = cut_impossible(ops)
    trace = Trace(
        rank=who.rank or 0,
        path=report.path,
        source="nsys",
        device="gpu",
        clock=process.clock,
        names=names.texts,
        ops=ops,
        host=host,
        marks=tuple(marks),
        facts=_facts(report, who, names, process.work),
        lost_graph_launch_ns=tuple(lost_ns.tolist()),
        partial=_partial(process.lost),
    )
    missing = notices.missing_comm(trace)
    warnings = (
        *notices.of_operations(report.path, dropped=process.dropped, cut=cut),
        *nsys_notices.open_steps(report.path, still_open),
        *nsys_notices.whole_graphs(report.path, process.graphs),
        *notices.of_trace(trace),
        *([] if missing is None else [missing]),
    )
    whole = replace(trace, comm_missing=missing is not None, warnings=warnings)
    return Recording(whole, who.rank)


def _process(report: Report, process: int) -> _Process:
    tables = report.tables
    place = tables.processes.index(process)
    work, dropped, lost = usable_work(of_process(tables.work, place, tables.processes))
    calls = sorted_calls(of_process(tables.calls, place, tables.processes))
    graphs = of_process(tables.graphs, place, tables.processes)
    ranges = report.ranges.get(process, [])
    shift_ns, clock = report.session.clock(int(work.start_ns.max(initial=0)))
    offset_ns = recorder_mark(ranges).offset_ns
    if clock == "relative" and offset_ns is not None:
        shift_ns, clock = offset_ns, "unix"
    return _Process(
        work=_moved(work, shift_ns),
        calls=_moved(calls, shift_ns),
        graphs=_moved(graphs, shift_ns),
        ranges=[_moved_range(one, shift_ns) for one in ranges],
        clock=clock,
        dropped=dropped,
        lost=lost,
    )


def _moved(table: Table, shift_ns: int) -> Table:
    """Return a table with its times moved."""
    return replace(table, start_ns=table.start_ns + shift_ns, end_ns=table.end_ns + shift_ns)


def _moved_range(one: Range, shift_ns: int) -> Range:
    end_ns = None if one.end_ns is None else one.end_ns + shift_ns
    return replace(one, start_ns=one.start_ns + shift_ns, end_ns=end_ns)


def _partial(lost: int) -> str | None:
    if not lost:
        return None
    return f"{counted(lost, 'GPU operation')} without readable times"


def _facts(report: Report, who: Identity, names: Names, work: Work) -> Facts:
    by_library = names.where(kernels.is_comm_name, work.name[work.kind != Kind.MEM])
    return Facts(
        world_size=who.world_size,
        backend=kernels.GPU_BACKEND if by_library.any() else None,
        device_name=report.session.device_name(who.process, work.device),
        process=str(process_id(who.process)),
        versions=report.session.versions,
    )
