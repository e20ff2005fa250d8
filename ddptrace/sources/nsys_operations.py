"""The operations and host ranges of one process, joined with the calls that launched them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddptrace import kernels
from ddptrace.intervals import IntArray
from ddptrace.kernels import Kind, Patterns
from ddptrace.model import NEVER_NS, HostKind, HostRanges, Ops
from ddptrace.sources.columns import Codes
from ddptrace.sources.names import Names, collective_codes, comm_rows
from ddptrace.sources.nsys_ranges import Range
from ddptrace.sources.nsys_tables import Calls, Graphs, Work, take
from ddptrace.sources.sqlite_pages import NULL


@dataclass(frozen=True, slots=True, eq=False)
class Launches:
    """The earliest call of each correlation id: the ids, rising, and the rows of the calls."""

    correlation: IntArray
    row: NDArray[np.intp]

    @classmethod
    def of(cls, calls: Calls) -> Launches:
        """Return the first of the calls, which are sorted by their start, that has each id."""
        rows = np.flatnonzero(calls.correlation > 0)
        ids, first = np.unique(calls.correlation[rows], return_index=True)
        return cls(ids, rows[first])

    def rows_of(self, correlation: IntArray) -> NDArray[np.intp]:
        """Return the row of the call for each id; -1 where no call has it."""
        if not self.correlation.size:
            return np.full(correlation.size, -1, np.intp)
        place = np.searchsorted(self.correlation, correlation)
        place = np.minimum(place, self.correlation.size - 1)
        return np.where(self.correlation[place] == correlation, self.row[place], -1)


def usable_work(work: Work) -> tuple[Work, int, int]:
    """Return the operations with usable times, how many were dropped and how many unreadable.

    CUPTI writes 0 for a start and an end that it does not know; these and negative lengths are
    dropped.
    """
    unreadable = (work.start_ns == NULL) | (work.end_ns == NULL)
    unknown = (work.start_ns == 0) & (work.end_ns == 0)
    dropped = ~unreadable & (unknown | (work.end_ns < work.start_ns))
    unusable = unreadable | dropped
    kept = take(work, np.flatnonzero(~unusable)) if unusable.any() else work
    return kept, int(dropped.sum()), int(unreadable.sum())


def sorted_calls(calls: Calls) -> Calls:
    """Return the calls with known times, in order of their start."""
    known = calls.start_ns != NULL
    if not known.all():
        calls = take(calls, np.flatnonzero(known))
    if (calls.start_ns[1:] < calls.start_ns[:-1]).any():
        calls = take(calls, np.argsort(calls.start_ns, kind="stable"))
    return calls


def operations(
    work: Work, calls: Calls, names: Names, backward: IntArray, comm: Patterns
) -> tuple[Ops, Names]:
    """Return a process's operations, sorted by start, and the names that their codes stand for.

    `calls` are sorted by start; `backward` are the threads of the autograd engine.
    """
    if (work.start_ns[1:] < work.start_ns[:-1]).any():
        work = take(work, np.argsort(work.start_ns, kind="stable"))
    kind = work.kind.copy()
    kind[comm_rows(names, work.name, comm) & (kind == Kind.COMPUTE)] = Kind.COMM
    is_comm = kind == Kind.COMM
    collective = np.full(kind.size, -1, np.int32)
    untold = np.zeros(int(is_comm.sum()), np.int32)
    collective[is_comm], more = collective_codes(names, work.name[is_comm], untold, (None,))
    row = Launches.of(calls).rows_of(work.correlation)
    launched = row >= 0
    is_graph = names.where(kernels.is_graph_launch, calls.name)
    ops = Ops(
        start_ns=work.start_ns,
        end_ns=work.end_ns,
        kind=kind,
        name=work.name,
        device=work.device,
        stream=work.stream,
        correlation=np.maximum(work.correlation, 0),
        launch_ns=np.where(launched, _at(calls.start_ns, row), NEVER_NS),
        collective=collective,
        in_graph=work.in_graph | (launched & _at(is_graph, row)),
        in_backward=launched & _at(np.isin(calls.thread, backward), row),
    )
    return ops, Names(names.texts + more)


def _at(column: NDArray[Any], row: NDArray[np.intp]) -> NDArray[Any]:
    """Return the column's values at the rows; anything where the row is -1."""
    return column[row] if column.size else np.zeros(row.size, column.dtype)


def lost_graphs(calls: Calls, work: Work, graphs: Graphs, names: Names) -> IntArray:
    """Return when graphs were launched of which no operation was recorded.

    A graph that was traced as a whole and launched before the recording counts where it ran.
    """
    launch = np.flatnonzero(names.where(kernels.is_graph_launch, calls.name))
    lost = launch[~np.isin(calls.correlation[launch], work.correlation)]
    earlier = ~np.isin(graphs.correlation, calls.correlation)
    return np.sort(np.concatenate((calls.start_ns[lost], graphs.start_ns[earlier])))


def host_ranges(calls: Calls, ranges: Sequence[Range], names: Codes) -> HostRanges:
    """Return the calls and the closed NVTX ranges, sorted by start."""
    closed = [one for one in ranges if one.end_ns is not None]
    start_ns = np.concatenate((calls.start_ns, _column([one.start_ns for one in closed])))
    end_ns = np.concatenate((calls.end_ns, _column([one.end_ns or 0 for one in closed])))
    name = np.concatenate((calls.name, names.of([one.name for one in closed])))
    thread = np.concatenate((calls.thread, _column([one.thread for one in closed])))
    kind = np.full(start_ns.size, HostKind.CALL, np.int8)
    kind[calls.start_ns.size :] = HostKind.ANNOTATION
    order = np.argsort(start_ns, kind="stable")
    return HostRanges(
        start_ns=start_ns[order],
        end_ns=np.maximum(end_ns[order], start_ns[order]),
        name=name[order],
        thread=thread[order],
        kind=kind[order],
    )


def _column(values: Sequence[int]) -> IntArray:
    return np.array(values, np.int64)
