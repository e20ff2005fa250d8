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
from ddptrace.sources.coding import first_rows
from ddptrace.sources.collectives import Calls as CommCalls
from ddptrace.sources.collectives import Operations, collectives, rows_of
from ddptrace.sources.columns import Codes
from ddptrace.sources.names import Names, comm_rows
from ddptrace.sources.nsys_collectives import Schemas, calls_of
from ddptrace.sources.nsys_ranges import Range
from ddptrace.sources.nsys_tables import Calls, Graphs, Work, in_order
from ddptrace.sources.sqlite_pages import NULL


def first_calls(calls: Calls, correlation: IntArray) -> NDArray[np.int32]:
    """Return for each correlation id the row of the earliest call that has it; -1 for none."""
    row = first_rows(calls.correlation, correlation)
    row[correlation <= 0] = -1
    return row


@dataclass(frozen=True, slots=True)
class Hints:
    """What tells operations apart besides their names.

    `schemas` say how the ranges' binary payloads are laid out, `backward` are the threads of the
    autograd engine, `comm` the user's names of collectives.
    """

    ranges: Sequence[Range]
    schemas: Schemas
    backward: IntArray
    comm: Patterns


def operations(work: Work, calls: Calls, names: Names, hints: Hints) -> Operations:
    """Return a process's operations, sorted by start."""
    work = in_order(work)
    kind = work.kind.copy()
    kind[comm_rows(names, work.name, hints.comm) & (kind == Kind.COMPUTE)] = Kind.COMM
    row = first_calls(calls, work.correlation)
    launched = row >= 0
    launch_ns = np.where(launched, _at(calls.start_ns, row), NEVER_NS)
    is_comm = kind == Kind.COMM
    thread = _at(calls.thread, row)
    caller = np.where(launched[is_comm], thread[is_comm], NULL)
    told, descriptions = calls_of(hints.ranges, hints.schemas, caller, launch_ns[is_comm])
    table, more, groups = collectives(CommCalls(work.name[is_comm], told), names, descriptions)
    is_graph = names.where(kernels.is_graph_launch, calls.name)
    ops = Ops(
        start_ns=work.start_ns,
        end_ns=work.end_ns,
        kind=kind,
        name=work.name,
        device=work.device,
        stream=work.stream,
        correlation=np.maximum(work.correlation, 0),
        launch_ns=launch_ns,
        collective=rows_of(is_comm),
        in_graph=work.in_graph | (launched & _at(is_graph, row)),
        thread=thread,
        in_backward=launched & _at(np.isin(calls.thread, hints.backward), row),
    )
    return Operations(ops, more, table, groups)


def _at(column: NDArray[Any], row: NDArray[np.int32]) -> NDArray[Any]:
    """Return the column's values at the rows; anything where the row is -1."""
    return column[row] if column.any() else np.zeros(row.size, column.dtype)


def lost_graphs(calls: Calls, work: Work, graphs: Graphs, names: Names) -> IntArray:
    """Return when graphs were launched of which no operation was recorded.

    A graph that was traced as a whole and launched before the recording counts where it ran.
    """
    launch = np.flatnonzero(names.where(kernels.is_graph_launch, calls.name))
    lost = launch[~_among(calls.correlation[launch], work.correlation)]
    earlier = ~_among(graphs.correlation, calls.correlation)
    return np.sort(np.concatenate((calls.start_ns[lost], graphs.start_ns[earlier])))


def _among(few: IntArray, many: IntArray) -> NDArray[np.bool_]:
    """Tell which of a few values are among many, without sorting the many."""
    if not few.size:
        return np.zeros(0, np.bool_)
    known = np.sort(few)
    place = np.minimum(np.searchsorted(known, many), known.size - 1)
    return np.isin(few, many[known[place] == many])


def host_ranges(calls: Calls, ranges: Sequence[Range], names: Codes) -> HostRanges:
    """Return the calls and the closed NVTX ranges, sorted by start."""
    closed = [one for one in ranges if one.end_ns is not None]
    start_ns = _column([one.start_ns for one in closed])
    place = np.searchsorted(calls.start_ns, start_ns)
    end_ns = _column([one.end_ns or 0 for one in closed])
    return HostRanges(
        start_ns=np.insert(calls.start_ns, place, start_ns),
        end_ns=np.insert(np.maximum(calls.end_ns, calls.start_ns), place, end_ns),
        name=np.insert(calls.name, place, names.of([one.name for one in closed])),
        thread=np.insert(calls.thread, place, _column([one.thread for one in closed])),
        kind=np.insert(
            np.full(calls.start_ns.size, HostKind.CALL, np.int8), place, HostKind.ANNOTATION
        ),
    )


def _column(values: Sequence[int]) -> IntArray:
    return np.array(values, np.int64)
