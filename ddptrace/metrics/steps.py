"""Where one rank's step went: the figures of docs/metrics.md for each step of a recording."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ddptrace import kernels
from ddptrace.intervals import IntArray
from ddptrace.kernels import Kind
from ddptrace.manifest import Mark
from ddptrace.metrics.recorded import Busy, Recorded
from ddptrace.metrics.windows import Windows
from ddptrace.model import Ops, Trace


@dataclass(frozen=True, slots=True)
class StepMetrics:
    """One step of one rank; times are ns, None is what could not be measured.

    Where all are known: compute + exposed_comm + exposed_mem + idle = step, and
    hidden + exposed = comm. Figures of a `partial` step are lower bounds: only compute, comm and
    mem are given.
    """

    rank: int
    step: int | None
    name: str | None
    start_ns: int
    end_ns: int
    step_ns: int | None
    compute_ns: int | None
    compute_span_ns: int | None
    comm_ns: int | None
    hidden_comm_ns: int | None
    exposed_comm_ns: int | None
    mem_ns: int | None
    exposed_mem_ns: int | None
    idle_ns: int | None
    overlap_ratio: float | None
    tail_ns: int | None
    first_comm_delay_ns: int | None
    exposed_wait_ns: int | None
    exposed_transfer_ns: int | None
    comm_kernels: int | None
    compute_kernels: int
    partial: bool = False


def step_metrics(recorded: Recorded) -> list[StepMetrics]:
    """Return one row for each step of a recording that has operations, in order of time.

    What of the exposed communication is waiting is not known from one recording alone.
    """
    trace, steps = recorded.trace, recorded.steps
    columns = _busy_columns(recorded.busy, steps)
    return [
        _step(trace, steps, columns, position, _Own.of(trace.ops, steps.own(position)))
        for position in range(len(steps.marks))
    ]


@dataclass(frozen=True, slots=True, eq=False)
class _Own:
    """The operations of one kind that belong to a step, as far as figures need them."""

    start_ns: IntArray
    end_ns: IntArray
    in_backward: NDArray[np.bool_]
    collective: NDArray[np.int32]

    @classmethod
    def of(cls, ops: Ops, rows: NDArray[np.int32]) -> dict[Kind, _Own]:
        """Return the operations of each kind among some rows."""
        kind = ops.kind[rows]
        found = {each: rows[kind == each] for each in (Kind.COMPUTE, Kind.COMM)}
        return {
            each: cls(
                ops.start_ns[mine], ops.end_ns[mine], ops.in_backward[mine], ops.collective[mine]
            )
            for each, mine in found.items()
        }

    def __len__(self) -> int:
        return int(self.start_ns.size)


def _busy_columns(times: Busy, steps: Windows) -> dict[str, IntArray]:
    """Return for each busy time its length inside each window."""
    sets = {
        "compute_ns": times.compute,
        "comm_ns": times.comm,
        "hidden_comm_ns": times.hidden,
        "exposed_comm_ns": times.exposed,
        "mem_ns": times.mem,
        "exposed_mem_ns": times.mem - times.compute - times.comm,
    }
    return {name: found.length_in(steps.start_ns, steps.end_ns) for name, found in sets.items()}


def _step(
    trace: Trace,
    steps: Windows,
    columns: dict[str, IntArray],
    position: int,
    own: Mapping[Kind, _Own],
) -> StepMetrics:
    start_ns, end_ns = int(steps.start_ns[position]), int(steps.end_ns[position])
    figures = {name: int(column[position]) for name, column in columns.items()}
    busy_ns = figures["compute_ns"] + figures["exposed_comm_ns"] + figures["exposed_mem_ns"]
    compute, comm = own[Kind.COMPUTE], own[Kind.COMM]
    known: dict[str, int | float | None] = {
        **figures,
        "step_ns": end_ns - start_ns,
        "idle_ns": end_ns - start_ns - busy_ns,
        "compute_span_ns": _span_ns(compute),
        "overlap_ratio": _ratio(figures["hidden_comm_ns"], figures["comm_ns"]),
        "tail_ns": _tail_ns(compute, comm),
        "first_comm_delay_ns": _first_comm_delay_ns(trace, compute, comm),
        "comm_kernels": len(comm),
    }
    mark = steps.marks[position]
    for name in _unknown(trace, mark):
        known[name] = None
    return StepMetrics(
        rank=trace.rank,
        step=None if mark is None else mark.index,
        name=None if mark is None else mark.name,
        start_ns=start_ns,
        end_ns=end_ns,
        exposed_wait_ns=None,
        exposed_transfer_ns=None,
        compute_kernels=len(compute),
        partial=trace.partial is not None,
        **known,  # type: ignore[arg-type]  # the names are those of the fields
    )


_NEED_COMPUTE_AND_COMM = (
    "hidden_comm_ns",
    "exposed_comm_ns",
    "exposed_mem_ns",
    "idle_ns",
    "overlap_ratio",
    "tail_ns",
    "first_comm_delay_ns",
)
_NEED_COMM = (*_NEED_COMPUTE_AND_COMM, "comm_ns", "comm_kernels")
_NEED_EVERYTHING = (*_NEED_COMPUTE_AND_COMM, "step_ns", "compute_span_ns")


def _unknown(trace: Trace, mark: Mark | None) -> tuple[str, ...]:
    """Return the figures that the recording does not hold the events for."""
    if trace.partial is not None:
        return _NEED_EVERYTHING + (_NEED_COMM if trace.comm_missing else ())
    if trace.comm_missing:
        return _NEED_COMM
    lost = any(
        mark is None or mark.start_ns <= launch_ns < mark.end_ns
        for launch_ns in trace.lost_graph_launch_ns
    )
    return ("idle_ns",) if lost else ()


def _span_ns(compute: _Own) -> int | None:
    if not len(compute):
        return None
    return int(compute.end_ns.max()) - int(compute.start_ns.min())


def _ratio(part_ns: int, whole_ns: int) -> float | None:
    return part_ns / whole_ns if whole_ns else None


def _tail_ns(compute: _Own, comm: _Own) -> int | None:
    """Return the time from the last compute before the end of communication to that end.

    Compute that starts at that end or after it (the optimizer) does not count.
    """
    if not len(comm):
        return None
    end_ns = int(comm.end_ns.max())
    ran = compute.end_ns > compute.start_ns  # a kernel of no length ran at no moment
    before = compute.end_ns[ran & (compute.start_ns < end_ns)]
    if not before.size:
        return None
    return max(end_ns - int(before.max()), 0)


def _first_comm_delay_ns(trace: Trace, compute: _Own, comm: _Own) -> int | None:
    """Return the start of the first gradient collective − that of the first backward kernel."""
    first_compute = compute.start_ns[compute.in_backward]
    if not first_compute.size:
        return None
    start_ns = int(first_compute.min())
    # gloo works on threads of its own: there only the time tells that a collective is of backward.
    of_backward = comm.start_ns >= start_ns if trace.device == "host" else comm.in_backward
    first_comm = comm.start_ns[of_backward & _may_reduce_gradients(trace, comm)]
    return int(first_comm.min()) - start_ns if first_comm.size else None


def _may_reduce_gradients(trace: Trace, comm: _Own) -> NDArray[np.bool_]:
    """Tell which comm operations may be those of gradients: unless they do something else."""
    operation = trace.collectives.operation[comm.collective]
    used = np.unique(operation).tolist()
    others = [
        code for code in used if code >= 0 and trace.names[code] not in kernels.GRADIENT_OPERATIONS
    ]
    return ~np.isin(operation, others)
