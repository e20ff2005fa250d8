"""Runs in which nothing costs much beside the compute, and those in which that cannot be told."""

from __future__ import annotations

import numpy as np

from ddptrace.diagnosis.basis import Basis
from ddptrace.diagnosis.finding import Evidence, Finding
from ddptrace.kernels import Kind
from ddptrace.metrics.hotspots import hotspots
from ddptrace.metrics.recorded import Recorded
from ddptrace.metrics.steps import StepMetrics

BOUND_RATIO = 0.7
TAIL_RATIO = 0.05
TAIL_TIMES = 5
_NAME_LENGTH = 80


def without_cause(basis: Basis) -> Finding:
    """Return what a run is like in which no cause costs enough to be the verdict."""
    row = _longest(basis)
    if row is None or basis.step_ns is None:
        return _unknown("no step was recorded whole: without steps nothing can be weighed")
    if any(one.row.comm_ns is None for one in basis.counted):
        return _unknown("communication was not recorded: record its kernels")
    if not any(one.row.comm_ns for one in basis.counted):
        return Finding(
            code="no_communication",
            cost_ns=None,
            ranks=[],
            evidence=_kernels(basis, row),
            advice="this run does not communicate: look at the kernels of each rank alone",
        )
    share = (row.compute_ns or 0) / max(row.step_ns or 1, 1)
    if share < BOUND_RATIO:
        return _unknown("most of the step has no cause that could be told; see the ledger")
    return _compute(basis, row, share)


def _unknown(advice: str) -> Finding:
    return Finding("unknown", None, [], [], advice)


def _compute(basis: Basis, row: StepMetrics, share: float) -> Finding:
    tail = _tail(basis, row)
    evidence = [Evidence("compute_ratio", share, BOUND_RATIO), *_kernels(basis, row)]
    if tail is not None:
        return Finding(
            code="compute_tail",
            cost_ns=None,
            ranks=[row.rank],
            evidence=[tail, *evidence],
            advice="communication is hidden; the last kernel of backward is long, and the last "
            "bucket can only start behind it: split it, or make it faster",
        )
    return Finding(
        code="compute_bound",
        cost_ns=None,
        ranks=[row.rank],
        evidence=evidence,
        advice="communication is hidden, look at the kernels: the largest are in the evidence",
    )


def _longest(basis: Basis) -> StepMetrics | None:
    """Return the row of the median step on the rank on which it took longest."""
    step = basis.measured.summary.median_step
    rows = [one.row for one in basis.counted if one.row.step == step]
    return max(rows, key=lambda row: row.step_ns or 0, default=None)


def _place(basis: Basis, row: StepMetrics) -> tuple[Recorded, int]:
    measured = basis.measured
    for rows, (rank, number) in zip(measured.rows, measured.places, strict=True):
        for at, one in enumerate(rows):
            if one is row:
                return measured.recordings[rank][number], at
    raise AssertionError("a counted row is one of the rows")


def _kernels(basis: Basis, row: StepMetrics) -> list[Evidence]:
    recorded, at = _place(basis, row)
    return [
        Evidence(f"kernel_ns: {one.name[:_NAME_LENGTH]}", one.total_ns, None)
        for one in hotspots(recorded, at)
    ]


def _tail(basis: Basis, row: StepMetrics) -> Evidence | None:
    """Return how long the last kernel of backward ran, when it stands out; None otherwise."""
    recorded, at = _place(basis, row)
    ops = recorded.trace.ops
    rows = (recorded.steps.owner == at) & (ops.kind == Kind.COMPUTE) & ops.in_backward
    if not rows.any():
        return None
    length_ns = ops.end_ns[rows] - ops.start_ns[rows]
    last_ns = int(length_ns[ops.end_ns[rows].argmax()])
    limit_ns = max(TAIL_TIMES * float(np.median(length_ns)), TAIL_RATIO * (row.step_ns or 0))
    return Evidence("last_kernel_ns", last_ns, round(limit_ns)) if last_ns >= limit_ns else None
