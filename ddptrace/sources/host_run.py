"""The work of a CPU-only run: host operators as compute, gloo's ranges as communication."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from ddptrace import kernels
from ddptrace.intervals import Intervals
from ddptrace.kernels import Kind
from ddptrace.model import Group, HostKind, HostRanges, Ops
from ddptrace.sources.collectives import Calls, Description, Operations, collectives, rows_of
from ddptrace.sources.names import Names


def host_operations(host: HostRanges, names: Names, groups: Collection[Group]) -> Operations:
    """Return a CPU run's work: `gloo:*` ranges are COMM, other operators COMPUTE.

    Operators inside a collective's own ranges and ranges that only enclose others count as
    neither. Every operation was "launched" where it starts.
    """
    comm = names.where(kernels.is_host_collective, host.name)
    frames = names.where(kernels.is_collective_frame, host.name)
    wrappers = names.where(kernels.is_wrapper, host.name)
    compute = (host.kind == HostKind.OPERATOR) & ~frames & ~wrappers
    compute &= ~inside(host.thread, host.start_ns, host, frames)
    rows = np.flatnonzero(comm | compute)
    kind = np.where(comm[rows], Kind.COMM, Kind.COMPUTE).astype(np.int8)
    unknown = np.full(rows.size, -1, np.int32)
    told = collectives(Calls.untold(host.name[comm]), names, [Description()], groups)
    table, more, groups_of_rank = told
    ops = Ops(
        start_ns=host.start_ns[rows],
        end_ns=host.end_ns[rows],
        kind=kind,
        name=host.name[rows],
        device=unknown.astype(np.int64),
        stream=unknown.astype(np.int64),
        correlation=np.zeros(rows.size, np.int64),
        launch_ns=host.start_ns[rows],
        thread=host.thread[rows],
        collective=rows_of(comm[rows]),
        in_graph=np.zeros(rows.size, np.bool_),
        in_backward=names.where(kernels.is_backward_operator, host.name)[rows],
    )
    return Operations(ops, more, table, groups_of_rank)


def inside(
    thread: NDArray[np.int64],
    moment_ns: NDArray[np.int64],
    host: HostRanges,
    frames: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Tell for each moment whether its thread was then inside one of the ranges `frames` marks."""
    found = np.zeros(moment_ns.size, np.bool_)
    for code in np.unique(host.thread[frames]):
        ranges = frames & (host.thread == code)
        busy = Intervals.union_of(host.start_ns[ranges], host.end_ns[ranges])
        rows = np.flatnonzero(thread == code)
        index = np.searchsorted(busy.start, moment_ns[rows], side="right") - 1
        found[rows] = (index >= 0) & (moment_ns[rows] < busy.end[np.maximum(index, 0)])
    return found
