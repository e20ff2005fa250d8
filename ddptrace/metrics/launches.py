"""How fast the host launched in each step, beside how long the kernels ran."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ddptrace.kernels import Kind
from ddptrace.metrics.host_work import HostWork
from ddptrace.metrics.recorded import Recorded
from ddptrace.model import NEVER_NS, Mark


@dataclass(frozen=True, slots=True)
class Launching:
    """How one step was launched; medians are ns, None where nothing tells.

    `kernels` are compute and comm, `kernel_ns` their length. `interval_ns` is the time from one
    launch of a thread to its next one, `call_ns` how long the call itself took. `operators` are
    those that began on the launching threads during the step's mark (all of a recording without
    marks), nested ones too.
    """

    kernels: int
    kernel_ns: int | None
    interval_ns: int | None
    call_ns: int | None
    operators: int | None


def launching(recorded: Recorded, host: HostWork) -> list[Launching]:
    """Return how each step of a recording was launched."""
    ops, steps = recorded.trace.ops, recorded.steps
    kernels = np.flatnonzero((steps.owner >= 0) & (ops.kind != Kind.MEM))
    owner = steps.owner[kernels]
    launched = kernels[ops.launch_ns[kernels] != NEVER_NS]
    order = launched[
        np.lexsort((ops.launch_ns[launched], ops.thread[launched], steps.owner[launched]))
    ]
    launch_ns, thread = ops.launch_ns[order], ops.thread[order]
    step = steps.owner[order]
    # Nodes of one graph have one launch.
    follows = (step[1:] == step[:-1]) & (thread[1:] == thread[:-1]) & (np.diff(launch_ns) > 0)
    has_calls = host.told != "launches"
    lengths = _medians(ops.end_ns[kernels] - ops.start_ns[kernels], owner, len(steps.marks))
    intervals = _medians(np.diff(launch_ns)[follows], step[1:][follows], len(steps.marks))
    calls = _medians(host.call_end_ns[order] - launch_ns, step, len(steps.marks))
    counts = np.bincount(owner, minlength=len(steps.marks))
    return [
        Launching(
            kernels=int(counts[position]),
            kernel_ns=lengths[position],
            interval_ns=intervals[position],
            call_ns=calls[position] if has_calls else None,
            operators=_operators(host, mark),
        )
        for position, mark in enumerate(steps.marks)
    ]


def _operators(host: HostWork, mark: Mark | None) -> int | None:
    if host.told != "operators":
        return None
    if mark is None:
        return int(host.operator_start_ns.size)
    first, after = np.searchsorted(host.operator_start_ns, (mark.start_ns, mark.end_ns))
    return int(after - first)


def _medians(values: NDArray[np.int64], owner: NDArray[np.intp], steps: int) -> list[int | None]:
    """Return the median of each step's values; None for a step without any."""
    order = np.argsort(owner, kind="stable")
    borders = np.searchsorted(owner[order], np.arange(steps + 1))
    pieces = np.split(values[order], borders[1:-1])
    return [int(np.median(piece)) if piece.size else None for piece in pieces]
