"""GPU operations of a Kineto recording, joined with the calls that launched them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddptrace import kernels
from ddptrace.kernels import Kind, Patterns
from ddptrace.model import NEVER_NS, Group, HostRanges, Ops
from ddptrace.sources.collectives import Calls as CommCalls
from ddptrace.sources.collectives import Description, Operations, collectives, rows_of
from ddptrace.sources.columns import UNREADABLE, Calls, Codes, Columns, GpuSpans, take
from ddptrace.sources.host_run import inside
from ddptrace.sources.names import Names, comm_rows
from ddptrace.sources.told import Told

_NUMBER = re.compile(r"\d{1,18}$")


@dataclass(frozen=True, slots=True, eq=False)
class Launches:
    """The first call of each correlation id: one row each, sorted by id."""

    correlation: NDArray[np.int64]
    start_ns: NDArray[np.int64]
    thread: NDArray[np.int64]
    is_graph: NDArray[np.bool_]

    def rows_of(self, correlation: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return the row of each id; -1 where no call has it."""
        if not self.correlation.size:
            return np.full(correlation.size, -1, np.intp)
        row = np.minimum(np.searchsorted(self.correlation, correlation), self.correlation.size - 1)
        return np.where(self.correlation[row] == correlation, row, -1)


def launches(calls: Calls, shift_ns: int, names: Names) -> Launches:
    """Return the earliest call of each correlation id, its time moved by `shift_ns`."""
    known = calls.correlation > 0
    calls = take(calls, known & (calls.start_ns != NEVER_NS))
    order = np.lexsort((calls.start_ns, calls.correlation))
    ids, first = np.unique(calls.correlation[order], return_index=True)
    rows = order[first]
    return Launches(
        correlation=ids,
        start_ns=calls.start_ns[rows] + shift_ns,
        thread=calls.thread[rows],
        is_graph=names.where(kernels.is_graph_launch, calls.name[rows]),
    )


def lost_graphs(calls: Launches, gpu: GpuSpans) -> NDArray[np.int64]:
    """Return when graphs were launched of which no operation was recorded."""
    lost = calls.is_graph & ~np.isin(calls.correlation, gpu.correlation)
    return np.sort(calls.start_ns[lost])


def with_usable_times(gpu: GpuSpans, shift_ns: int) -> tuple[GpuSpans, int, int]:
    """Return the operations moved by `shift_ns`, how many were dropped and how many unreadable.

    CUPTI writes 0 for a start and an end that it does not know; these are dropped, and so are
    negative lengths. What the file does not tell at all, or not as a number, is unreadable.
    """
    unreadable = (gpu.start_ns == NEVER_NS) | (gpu.dur_ns == NEVER_NS)
    dropped = ~unreadable & (((gpu.start_ns == 0) & (gpu.dur_ns == 0)) | (gpu.dur_ns < 0))
    kept = take(gpu, ~(unreadable | dropped))
    lost = int((unreadable | (gpu.correlation == UNREADABLE)).sum())
    return replace(kept, start_ns=kept.start_ns + shift_ns), int(dropped.sum()), lost


def unreadable_launches(calls: Calls, gpu: GpuSpans) -> int:
    """Count the calls of unreadable time that launched one of the operations."""
    untimed = calls.correlation[(calls.start_ns == NEVER_NS) & (calls.correlation > 0)]
    return int(np.isin(untimed, gpu.correlation).sum()) if untimed.size else 0


@dataclass(frozen=True, slots=True)
class Hints:
    """What tells operations apart besides themselves.

    `comm` are the user's names of collectives, `groups` those that the header lists by name.
    """

    comm: Patterns
    groups: Mapping[str, Group]


def gpu_operations(
    gpu: GpuSpans, calls: Launches, host: HostRanges, columns: Columns, hints: Hints
) -> Operations:
    """Return the operations, unsorted.

    The names are those of the file and, behind them, those of the collectives.
    """
    names = Names(tuple(map(str, columns.name)))
    kind = _kinds(gpu, columns, names, hints.comm)
    is_comm = kind == Kind.COMM
    table, more, groups = collectives(
        CommCalls(gpu.name[is_comm], gpu.told[is_comm], gpu.sequence[is_comm]),
        names,
        [_description(told, hints.groups) for told in columns.told],
        hints.groups.values(),
    )
    row = calls.rows_of(gpu.correlation)
    launched = row >= 0
    ops = Ops(
        start_ns=gpu.start_ns,
        end_ns=gpu.start_ns + gpu.dur_ns,
        kind=kind,
        name=gpu.name,
        device=_numbers(columns.device)[gpu.device],
        stream=_numbers(columns.stream)[gpu.stream],
        correlation=gpu.correlation,
        launch_ns=np.where(launched, _at(calls.start_ns, row), NEVER_NS),
        thread=_at(calls.thread, row),
        collective=rows_of(is_comm),
        in_graph=_in_graph(gpu) | (launched & _at(calls.is_graph, row)),
        in_backward=launched & _in_backward(calls, row, host, columns, names),
    )
    return Operations(ops, more, table, groups)


def _description(told: Told, listed: Mapping[str, Group]) -> Description:
    source, destination = told.peers()
    return Description(
        operation=told.operation,
        group=told.named_group(listed),
        size_bytes=told.size_bytes(),
        source=source,
        destination=destination,
        of_integers=told.of_integers(),
    )


def _at(column: NDArray[Any], row: NDArray[np.intp]) -> NDArray[Any]:
    """Return the column's values at the rows; anything where the row is -1."""
    return column[row] if column.size else np.zeros(row.size, column.dtype)


def _kinds(gpu: GpuSpans, columns: Columns, names: Names, comm: Patterns) -> NDArray[np.int8]:
    by_category = [
        kernels.GPU_CATEGORIES.get(str(category).lower(), Kind.COMPUTE)
        for category in columns.category
    ]
    kind = np.array(by_category, np.int8)[gpu.category]
    has_metadata = np.array([bool(told.collective) for told in columns.told], np.bool_)
    is_comm = comm_rows(names, gpu.name, comm) | has_metadata[gpu.told]
    kind[is_comm & (kind == Kind.COMPUTE)] = Kind.COMM
    return kind


def _numbers(codes: Codes) -> NDArray[np.int64]:
    """Return the number of each stream or device: -1 for none, lower ones for other text."""
    numbers = [
        -1 if value is None else int(str(value)) if _NUMBER.match(str(value)) else -2 - code
        for value, code in codes.items()
    ]
    return np.array(numbers, np.int64)


def _in_graph(gpu: GpuSpans) -> NDArray[np.bool_]:
    """Tell which operations are nodes of a CUDA graph: all nodes share their launch's id."""
    _, place, count = np.unique(gpu.correlation, return_inverse=True, return_counts=True)
    shared = (count > 1)[place.reshape(-1)] & (gpu.correlation > 0)
    return gpu.graph_node | shared


def _in_backward(
    calls: Launches,
    row: NDArray[np.intp],
    host: HostRanges,
    columns: Columns,
    names: Names,
) -> NDArray[np.bool_]:
    """Tell which operations autograd launched: inside its operators, else from its threads."""
    thread = _at(calls.thread, row)
    engine = names.where(kernels.is_backward_operator, host.name)
    if engine.any():
        return inside(thread, _at(calls.start_ns, row), host, engine)
    threads = [
        columns.thread.one(thread)
        for thread, labels in columns.thread_names.items()
        if any(map(kernels.is_backward_thread, labels))
    ]
    return np.isin(thread, threads)
