"""How fast the host launched in each step, beside how long the kernels ran."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ddptrace.kernels import Kind
from ddptrace.manifest import Mark
from ddptrace.metrics.host_work import HostWork, host_work
from ddptrace.metrics.recorded import Recorded
from ddptrace.model import NEVER_NS


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


def launching(recorded: Recorded) -> list[Launching]:
    """Return how each step of a recording was launched."""
    host = host_work(recorded.trace)
    return [_of_step(recorded, host, position) for position in range(len(recorded.steps.marks))]


def _of_step(recorded: Recorded, host: HostWork, position: int) -> Launching:
    ops, own = recorded.trace.ops, recorded.steps.own(position)
    kernels = own[ops.kind[own] != Kind.MEM]
    launched = kernels[ops.launch_ns[kernels] != NEVER_NS]
    launched = launched[np.lexsort((ops.launch_ns[launched], ops.thread[launched]))]
    launch_ns, thread = ops.launch_ns[launched], ops.thread[launched]
    intervals_ns = np.diff(launch_ns)[thread[1:] == thread[:-1]]
    has_calls = host.told != "launches"
    return Launching(
        kernels=kernels.size,
        kernel_ns=_median(ops.end_ns[kernels] - ops.start_ns[kernels]),
        interval_ns=_median(intervals_ns[intervals_ns > 0]),  # nodes of one graph have one launch
        call_ns=_median(host.call_end_ns[launched] - launch_ns) if has_calls else None,
        operators=_operators(host, recorded.steps.marks[position]),
    )


def _operators(host: HostWork, mark: Mark | None) -> int | None:
    if host.told != "operators":
        return None
    if mark is None:
        return int(host.operator_start_ns.size)
    first, after = np.searchsorted(host.operator_start_ns, (mark.start_ns, mark.end_ns))
    return int(after - first)


def _median(values: NDArray[np.int64]) -> int | None:
    return int(np.median(values)) if values.size else None
