"""What one stream of a GPU cannot have done: operations longer than the whole next one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ddptrace.model import Ops


def cut_impossible(ops: Ops) -> tuple[Ops, int]:
    """Return the operations with impossible lengths cut, and how many were cut.

    An operation that outlasts the whole next operation of its stream (of more than no length, and
    outside CUDA graphs) ends where that one starts. `ops` must be sorted by start.
    """
    rows = np.flatnonzero((ops.end_ns > ops.start_ns) & ~ops.in_graph & (ops.stream >= 0))
    order = np.lexsort((ops.end_ns[rows], ops.start_ns[rows], ops.stream[rows], ops.device[rows]))
    rows = rows[order]
    this, following = rows[:-1], rows[1:]
    same_stream = (ops.stream[this] == ops.stream[following]) & (
        ops.device[this] == ops.device[following]
    )
    wrong = same_stream & (ops.end_ns[this] > ops.end_ns[following])
    if not wrong.any():
        return ops, 0
    end_ns: NDArray[np.int64] = ops.end_ns.copy()
    end_ns[this[wrong]] = ops.start_ns[following[wrong]]
    return replace(ops, end_ns=end_ns), int(wrong.sum())
