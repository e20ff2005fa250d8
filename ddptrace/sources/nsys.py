"""One export of Nsight Systems in, the recordings of its ranks out.

Ids of correlations, streams and contexts repeat between the processes of one report, and masked
devices all have the number 0: everything goes by process.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ddptrace import kernels
from ddptrace.kernels import Kind, Patterns
from ddptrace.sources import nsys_notices
from ddptrace.sources.names import Names
from ddptrace.sources.nsys_collectives import Payload, payload, read_schemas
from ddptrace.sources.nsys_facts import backward_threads, diagnostics, read_session
from ddptrace.sources.nsys_files import check_is_exported
from ddptrace.sources.nsys_parquet import ParquetStore, is_parquet_export
from ddptrace.sources.nsys_ranges import Range, read_ranges, recorder_mark
from ddptrace.sources.nsys_ranks import identities, numbered
from ddptrace.sources.nsys_sqlite import SqliteStore
from ddptrace.sources.nsys_store import Store, process_id, process_of
from ddptrace.sources.nsys_tables import Tables, move, read_tables
from ddptrace.sources.nsys_trace import Report, recording
from ddptrace.sources.recording import Recording


def read_nsys(path: Path, comm: Patterns, steps: str | None) -> list[Recording]:
    """Return the recordings of one SQLite or Parquet export, one a process with GPU work.

    `comm` names further kernels that are communication, `steps` the NVTX ranges that are steps.
    Raises TraceFileError for a file that is no use and ForeignFileError for one of another kind.
    """
    check_is_exported(path)
    store: Store = ParquetStore(path) if is_parquet_export(path) else SqliteStore(path)
    try:
        report = _read(store, comm, kernels.step_range_patterns(steps), usual=steps is None)
        payloads = _payloads(report)
    finally:
        store.close()
    working, silent = _working(report)
    marks = {process: recorder_mark(report.ranges.get(process, [])) for process in working}
    who, about_ranks = numbered(report.path, identities(marks, report.session.variables, payloads))
    recordings = [recording(report, identity) for identity in who]
    about_file = [
        *about_ranks,
        *nsys_notices.silent(report.path, silent),
        *nsys_notices.diagnostics(report.path, who, report.diagnostics),
    ]
    return [replace(recordings[0], about_file=tuple(about_file)), *recordings[1:]]


def _read(store: Store, comm: Patterns, steps: Patterns, *, usual: bool) -> Report:
    session = read_session(store)
    found = read_ranges(store, steps, usual=usual)
    tables = read_tables(store)
    shift_ns, clock = session.clock(tables, recorder_mark(found))
    move(tables, shift_ns)
    ranges: dict[int, list[Range]] = defaultdict(list)
    for one in found:
        ranges[process_of(one.thread)].append(one.moved(shift_ns))
    return Report(
        path=store.path,
        tables=tables,
        session=session,
        clock=clock,
        ranges=dict(ranges),
        schemas=read_schemas(store),
        diagnostics=diagnostics(store),
        backward=backward_threads(store),
        steps=steps,
        comm=comm,
    )


def _payloads(report: Report) -> dict[int, list[Payload]]:
    """Return what the collectives library says in each process."""
    return {
        process: [
            payload(one, report.schemas) for one in mine if kernels.is_collective_range(one.name)
        ]
        for process, mine in report.ranges.items()
    }


def _working(report: Report) -> tuple[list[int], list[int]]:
    """Return the processes with GPU work, and the ids of those whose kernels were all lost.

    Raises TraceFileError when no process has any work.
    """
    tables = report.tables
    is_kernel = tables.work.kind != Kind.MEM
    kernel_count = np.bincount(tables.work.process[is_kernel], minlength=len(tables.processes))
    if kernel_count.all() and kernel_count.size:
        return list(tables.processes), []
    launches = _launches(tables)
    if kernel_count.any():
        working = [tables.processes[place] for place in np.flatnonzero(kernel_count)]
        lost = np.flatnonzero((kernel_count == 0) & (launches > 0))
        return working, [process_id(tables.processes[place]) for place in lost]
    if tables.graphs.start_ns.size:
        raise nsys_notices.only_graphs(report.path, tables.graphs)
    if launches.any() or not tables.work.start_ns.size:
        raise nsys_notices.no_gpu_work(report.path, int(launches.sum()))
    return [tables.processes[place] for place in np.unique(tables.work.process)], []


def _launches(tables: Tables) -> NDArray[np.intp]:
    """Count the calls of each process that put kernels or graphs on the GPU."""
    launched = Names(tuple(tables.names)).where(kernels.is_launch_call, tables.calls.name)
    return np.bincount(tables.calls.process[launched], minlength=len(tables.processes))
