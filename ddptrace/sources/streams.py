"""What one stream of a GPU cannot have done: operations longer than the whole next one."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ddptrace.model import Ops


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
    rows = np.flatnonzero((ops.end_ns > ops.start_ns) & ~ops.in_graph & (ops.stream != -1))
    order = np.lexsort((ops.end_ns[rows], ops.start_ns[rows], ops.stream[rows], ops.device[rows]))
    rows = rows[order]
    this, following = rows[:-1], rows[1:]
    same_stream = (ops.stream[this] == ops.stream[following]) & (
        ops.device[this] == ops.device[following]
    )
    wrong = same_stream & (ops.end_ns[this] > ops.end_ns[following])
    if not wrong.any():
        return ops, Cut()
    cut = this[wrong]
    longest = cut[np.argmax(ops.end_ns[cut] - ops.start_ns[cut])]
    end_ns: NDArray[np.int64] = ops.end_ns.copy()
    end_ns[cut] = ops.start_ns[following[wrong]]
    return replace(ops, end_ns=end_ns), Cut(
        count=int(cut.size),
        longest_ns=int(ops.end_ns[longest] - ops.start_ns[longest]),
        stream=int(ops.stream[longest]),
    )
