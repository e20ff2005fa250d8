"""What one stream of a GPU cannot have done: operations longer than the whole next one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddptrace.model import Ops
from ddptrace.sources.coding import coded


@dataclass(frozen=True, slots=True)
class Cut:
    """How many operations had an impossible length; the longest of them, and its stream."""

    count: int = 0
    longest_ns: int = 0
    stream: int = -1


def cut_impossible(ops: Ops) -> tuple[Ops, Cut]:
    """Return the operations with impossible lengths cut, and what was cut.

    An operation that outlasts the whole next operation of its stream (of more than no length, and
    outside CUDA graphs) ends where that one starts. `ops` must be sorted by start.
    """
    rows, lane = _by_stream(ops)
    end_ns = ops.end_ns[rows]
    wrong = np.flatnonzero((lane[1:] == lane[:-1]) & (end_ns[:-1] > end_ns[1:]))
    if not wrong.size:
        return ops, Cut()
    cut = rows[wrong]
    longest = cut[np.argmax(ops.end_ns[cut] - ops.start_ns[cut])]
    shorter: NDArray[np.int64] = ops.end_ns.copy()
    shorter[cut] = ops.start_ns[rows[wrong + 1]]
    return replace(ops, end_ns=shorter), Cut(
        count=int(cut.size),
        longest_ns=int(ops.end_ns[longest] - ops.start_ns[longest]),
        stream=int(ops.stream[longest]),
    )


def _by_stream(ops: Ops) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Return the rows that lie on streams by stream, start and end, and their streams' codes."""
    streams, stream = coded(ops.stream)
    lane = coded(ops.device)[1] * np.int32(streams.size) + stream
    if lane.max(initial=0) < 1 << 15:
        lane = lane.astype(np.int16)  # then the sort below compares nothing
    order = np.argsort(lane, kind="stable")
    usable = (ops.end_ns > ops.start_ns) & ~ops.in_graph & (ops.stream != -1)
    if not usable.all():
        order = order[usable[order]]
    start_ns, end_ns, lane = ops.start_ns[order], ops.end_ns[order], lane[order]
    together = (lane[1:] == lane[:-1]) & (start_ns[1:] == start_ns[:-1])
    if (together & (end_ns[1:] < end_ns[:-1])).any():
        again = np.lexsort((end_ns, start_ns, lane))
        order, lane = order[again], lane[again]
    return order, lane
