"""Which processes of an Nsight Systems report used the GPU, and whose each operation is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddptrace import kernels
from ddptrace.kernels import Kind
from ddptrace.model import Warn
from ddptrace.sources import nsys_notices
from ddptrace.sources.names import Names
from ddptrace.sources.nsys_store import process_id
from ddptrace.sources.nsys_tables import Table, Tables, take, unnamed


def owned(tables: Tables, path: str, of_ranges: Sequence[int]) -> Tables:
    """Return the tables with each row given to a process, although some do not tell theirs.

    In a report of one process they are its; `of_ranges` are the processes that made NVTX ranges.
    Of several nothing could tell them apart, since the ids of correlations repeat: TraceFileError.
    """
    is_told = np.array([process > 0 for process in tables.processes], np.bool_)
    if is_told.all() or (tables.untimed and not _kernels(tables).any()):
        return tables
    operations = _operations(tables)
    untold = int(operations[~is_told].sum())
    owners = _owners(tables, is_told, operations, of_ranges)
    gpus = np.unique(tables.work.device[~is_told[tables.work.process]]).size
    if untold and (len(owners) > 1 or (not owners and gpus > 1)):
        raise nsys_notices.no_process(path, untold, [process_id(one) for one in owners], gpus)
    if len(owners) > 1:  # calls that nobody made launched nothing
        tables = replace(tables, calls=take(tables.calls, is_told[tables.calls.process]))
    return _renumbered(tables, is_told, owners[0]) if owners else tables


def _owners(
    tables: Tables, is_told: NDArray[np.bool_], operations: NDArray[np.intp], ranges: Sequence[int]
) -> list[int]:
    """Return the processes that an operation may be of: those that are known to use the GPU most.

    A launcher may call, and any process may make ranges.
    """
    launching = (operations > 0) | (_launches(tables) > 0)
    calling = _per_process(tables, tables.calls.process) > 0
    for places in (launching & is_told, calling & is_told):
        if places.any():
            return sorted(tables.processes[place] for place in np.flatnonzero(places))
    return sorted(set(ranges))


def _renumbered(tables: Tables, is_told: NDArray[np.bool_], owner: int) -> Tables:
    """Return the tables with the rows that tell no process given to this one."""
    told = [process for process in tables.processes if process > 0]
    processes = tuple(told if owner in told else [*told, owner])
    whose = [owner if process <= 0 else process for process in tables.processes]
    place = np.array([processes.index(process) for process in whose], np.int32)

    def moved(table: Table) -> Table:
        return replace(table, process=place[table.process])

    def added(counts: Counter[int]) -> Counter[int]:
        found: Counter[int] = Counter()
        for process, count in counts.items():
            found[int(place[process])] += count
        return found

    return replace(
        tables,
        work=moved(tables.work),
        calls=moved(tables.calls),
        graphs=moved(tables.graphs),
        processes=processes,
        dropped=added(tables.dropped),
        unreadable=added(tables.unreadable),
        untimed=added(tables.untimed),
    )


def _operations(tables: Tables) -> NDArray[np.intp]:
    """Count the GPU operations of each process, whole graphs and those without times too."""
    unusable = [*tables.dropped.elements(), *tables.unreadable.elements()]
    return (
        _per_process(tables, tables.work.process)
        + _per_process(tables, tables.graphs.process)
        + _per_process(tables, unusable)
    )


def _kernels(tables: Tables) -> NDArray[np.intp]:
    return _per_process(tables, tables.work.process[tables.work.kind != Kind.MEM])


def working(path: str, tables: Tables) -> tuple[list[int], list[Warn]]:
    """Return the processes with GPU work, and the warnings about others that used the GPU.

    Raises TraceFileError when no process has any work.
    """
    kernel_count = _kernels(tables)
    total = int(kernel_count.sum())
    if total and unnamed(tables.work, tables.names) == total:
        raise nsys_notices.no_names(path, total)
    if kernel_count.all() and kernel_count.size:
        return list(tables.processes), []
    launches = _launches(tables)
    if kernel_count.any():
        there = [tables.processes[place] for place in np.flatnonzero(kernel_count)]
        groups = _without_kernels(tables, kernel_count == 0, launches)
        return there, nsys_notices.without_kernels(path, groups)
    if tables.untimed:
        raise nsys_notices.no_times(path, tables)
    if tables.graphs.start_ns.size:
        raise nsys_notices.only_graphs(path, tables.graphs)
    if launches.any() or not tables.work.start_ns.size:
        raise nsys_notices.no_gpu_work(path, tables, int(launches.sum()))
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
