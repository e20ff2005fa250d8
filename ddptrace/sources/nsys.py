"""One export of Nsight Systems in, the recordings of its ranks out.

Ids of correlations, streams and contexts repeat between the processes of one report, and masked
devices all have the number 0: everything goes by process.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from ddptrace import kernels
from ddptrace.kernels import Patterns
from ddptrace.sources import nsys_notices, nsys_processes
from ddptrace.sources.nsys_collectives import Payload, payload, read_schemas
from ddptrace.sources.nsys_facts import backward_threads, diagnostics, read_session
from ddptrace.sources.nsys_files import check_is_exported
from ddptrace.sources.nsys_losses import launches
from ddptrace.sources.nsys_parquet import ParquetStore, is_parquet_export
from ddptrace.sources.nsys_ranges import Range, read_ranges, recorder_mark
from ddptrace.sources.nsys_ranks import identities, numbered
from ddptrace.sources.nsys_sqlite import SqliteStore
from ddptrace.sources.nsys_store import Store, process_of
from ddptrace.sources.nsys_tables import move, read_tables
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
    working, about_others = nsys_processes.working(report.path, report.tables)
    marks = {process: recorder_mark(report.ranges.get(process, [])) for process in working}
    who, about_ranks = numbered(report.path, identities(marks, report.session.variables, payloads))
    recordings = [recording(report, identity) for identity in who]
    launched = {
        identity.process: launches(report.tables, identity.process, each.trace.marks)
        for identity, each in zip(who, recordings, strict=True)
        if report.diagnostics
    }
    about_file = [
        *about_ranks,
        *about_others,
        *nsys_notices.diagnostics(report.path, who, report.diagnostics, launched),
    ]
    return [replace(recordings[0], about_file=tuple(about_file)), *recordings[1:]]


def _read(store: Store, comm: Patterns, steps: Patterns, *, usual: bool) -> Report:
    session = read_session(store)
    found = read_ranges(store, steps, usual=usual)
    threads = [process_of(one.thread) for one in found]
    tables = nsys_processes.owned(read_tables(store), store.path, threads)
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
