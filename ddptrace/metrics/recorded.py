"""One recording with what every figure of it starts from: its steps and its busy times."""

from __future__ import annotations

from dataclasses import dataclass

from ddptrace.intervals import Intervals
from ddptrace.kernels import Kind
from ddptrace.metrics.windows import Windows, windows
from ddptrace.model import Trace


@dataclass(frozen=True, slots=True)
class Busy:
    """When a recording's rank was busy with what, as sets of time on the trace's clock."""

    compute: Intervals
    comm: Intervals
    mem: Intervals
    hidden: Intervals
    exposed: Intervals


@dataclass(frozen=True, slots=True)
class Recorded:
    """One recording with the windows of its steps and its busy times."""

    trace: Trace
    steps: Windows
    busy: Busy

    @classmethod
    def of(cls, trace: Trace) -> Recorded:
        """Return a recording with what its operations tell."""
        return cls(trace, windows(trace), _busy(trace))


def _busy(trace: Trace) -> Busy:
    ops = trace.ops
    compute, comm, mem = (
        Intervals.union_of(ops.start_ns[rows], ops.end_ns[rows])
        for rows in (ops.kind == kind for kind in (Kind.COMPUTE, Kind.COMM, Kind.MEM))
    )
    return Busy(compute, comm, mem, comm & compute, comm - compute)
