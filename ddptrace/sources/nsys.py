"""One export of Nsight Systems in, the recordings of its ranks out.

Ids of correlations, streams and contexts repeat between the processes of one report, and masked
devices all have the number 0: everything goes by process.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddptrace import kernels
from ddptrace.kernels import Kind, Patterns
from ddptrace.model import Warn
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
        payloads = _payloads(store, report.ranges)
    finally:
        store.close()
    working, about_others = _working(report)
    marks = {process: recorder_mark(report.ranges.get(process, [])) for process in working}
    who, about_ranks = numbered(report.path, identities(marks, report.session.variables, payloads))
    recordings = [recording(report, identity) for identity in who]
    about_file = [
        *about_ranks,
        *about_others,
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
        diagnostics=diagnostics(store),
        backward=backward_threads(store),
        steps=steps,
        comm=comm,
    )


def _payloads(store: Store, ranges: dict[int, list[Range]]) -> dict[int, list[Payload]]:
    """Return what the collectives library says in each process."""
    schemas = read_schemas(store)
    return {
        process: [payload(one, schemas) for one in mine if kernels.is_collective_range(one.name)]
        for process, mine in ranges.items()
    }


def _working(report: Report) -> tuple[list[int], list[Warn]]:
    """Return the processes with GPU work, and the warnings about others that used the GPU.

    Raises TraceFileError when no process has any work.
    """
    tables = report.tables
    kernel_count = _per_process(tables, tables.work.process[tables.work.kind != Kind.MEM])
    if kernel_count.all() and kernel_count.size:
        return list(tables.processes), []
    launches = _launches(tables)
    if kernel_count.any():
        working = [tables.processes[place] for place in np.flatnonzero(kernel_count)]
        groups = _without_kernels(tables, kernel_count == 0, launches)
        return working, nsys_notices.without_kernels(report.path, groups)
    if tables.untimed:
        raise nsys_notices.no_times(report.path, tables)
    if tables.graphs.start_ns.size:
        raise nsys_notices.only_graphs(report.path, tables.graphs)
    if launches.any() or not tables.work.start_ns.size:
        raise nsys_notices.no_gpu_work(report.path, tables, int(launches.sum()))
    return [tables.processes[place] for place in np.unique(tables.work.process)], []


def _without_kernels(
    tables: Tables, without: NDArray[np.bool_], launches: NDArray[np.intp]
) -> dict[str, list[int]]:
    """Return the ids of the processes without usable kernels that used the GPU, by the reason."""
    is_untimed = _per_process(tables, list(tables.untimed)) > 0
    is_lost = (launches > 0) & ~is_untimed
    copies = (_per_process(tables, tables.work.process) > 0) & ~is_untimed & ~is_lost
    groups = {"lost": is_lost, "untimed": is_untimed, "copies": copies}
    return {
        why: [process_id(tables.processes[place]) for place in np.flatnonzero(without & those)]
        for why, those in groups.items()
    }


def _per_process(tables: Tables, places: ArrayLike) -> NDArray[np.intp]:
    """Count how often each process is among the places of some."""
    return np.bincount(np.asarray(places, np.intp), minlength=len(tables.processes))


def _launches(tables: Tables) -> NDArray[np.intp]:
    """Count the calls of each process that put kernels or graphs on the GPU."""
    launched = Names(tuple(tables.names)).where(kernels.is_launch_call, tables.calls.name)
    return _per_process(tables, tables.calls.process[launched])
