"""Runs in which nothing costs much beside the compute, and those in which that cannot be told."""

from __future__ import annotations

import numpy as np

from ddptrace.diagnosis.basis import Basis
from ddptrace.diagnosis.finding import KERNEL, VERDICT_PART, Evidence, Finding
from ddptrace.diagnosis.ledger import PARTS
from ddptrace.intervals import IntArray
from ddptrace.kernels import Kind
from ddptrace.metrics.hotspots import hotspots
from ddptrace.metrics.recorded import Recorded
from ddptrace.metrics.steps import StepMetrics

BOUND_RATIO = 0.7
TAIL_RATIO = 0.05
TAIL_TIMES = 5
"""The last long kernel of backward stands out when it is this part of the step, and so many times
as long as the others usually are, at least."""
_NAME_LENGTH = 80
_LARGEST = 3


def without_cause(basis: Basis) -> Finding:
    """Return what a run is like in which no cause costs enough to be the verdict."""
    row = _longest(basis)
    if row is None:
        return _unknown("no step was recorded whole, so that nothing can be weighed")
    if basis.step_ns is None:
        return _unknown("there are no step marks, and without steps nothing can be weighed")
    if any(one.row.comm_ns is None for one in basis.counted):
        return _unknown("communication was not recorded: record its kernels")
    if not any(one.row.comm_ns for one in basis.counted):
        return Finding(
            code="no_communication",
            cost_ns=None,
            ranks=[],
            evidence=_kernels(basis, row),
            advice=f"this run does not communicate: look at the {_work(basis)}s of each rank alone",
        )
    share = (row.compute_ns or 0) / max(row.step_ns or 1, 1)
    said = _unexplained(basis, row, share)
    if said is not None:
        return Finding("unknown", None, [row.rank], _largest_parts(basis, row, share), said)
    return _compute(basis, row, share)


def _unexplained(basis: Basis, row: StepMetrics, share: float) -> str | None:
    """Return why nothing can be said of a run without a large cause; None when it computes."""
    step_ns = row.step_ns or 0
    found = next((one.ledger for one in basis.counted if one.row is row), None)
    unknown_ns = 0 if found is None else found.comm_unknown_ns
    if unknown_ns >= VERDICT_PART * step_ns > 0:
        return (
            f"{unknown_ns / 1e6:.2f} of {step_ns / 1e6:.2f} ms are exposed communication of which "
            "the cause is not known: record all ranks, with host operators, so that waiting can "
            "be told from transfer"
        )
    if share < BOUND_RATIO:
        return "no cause is large enough, and compute does not fill the step; see the ledger"
    return None


def _largest_parts(basis: Basis, row: StepMetrics, share: float) -> list[Evidence]:
    """Return the share of compute, and the largest other parts of the step's ledger."""
    found = next((one.ledger for one in basis.counted if one.row is row), None)
    parts = {} if found is None else {name: getattr(found, name) for name in PARTS[1:]}
    largest = sorted((name for name in parts if parts[name]), key=lambda name: -parts[name])
    return [
        Evidence("compute_ratio", share, BOUND_RATIO),
        *(Evidence(name, parts[name], None) for name in largest[:_LARGEST]),
    ]


def _unknown(advice: str) -> Finding:
    return Finding("unknown", None, [], [], advice)


def _compute(basis: Basis, row: StepMetrics, share: float) -> Finding:
    tail = _tail(basis, row)
    evidence = [Evidence("compute_ratio", share, BOUND_RATIO), *_kernels(basis, row)]
    communication = _of_communication(row)
    if tail is not None:
        return Finding(
            code="compute_tail",
            cost_ns=None,
            ranks=[row.rank],
            evidence=[tail, *evidence],
            advice=f"{communication}; the last {_work(basis)} of backward is long, and the last "
            "bucket can only start behind it: split it, or make it faster",
        )
    return Finding(
        code="compute_bound",
        cost_ns=None,
        ranks=[row.rank],
        evidence=evidence,
        advice=f"{communication}, look at the {_work(basis)}s: the largest are listed",
    )


def _work(basis: Basis) -> str:
    """Return the word for what computes."""
    return "operator" if basis.is_of_host else "kernel"


def _of_communication(row: StepMetrics) -> str:
    """Return that communication is hidden, or else how little of the step is exposed."""
    hidden_ns, exposed_ns = row.hidden_comm_ns or 0, row.exposed_comm_ns or 0
    if hidden_ns >= exposed_ns:
        return "communication is hidden"
    share = 100 * exposed_ns / max(row.step_ns or 1, 1)
    return f"exposed communication is no more than {share:.1f} % of the step"


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
        Evidence(f"{KERNEL}{one.name[:_NAME_LENGTH]}", one.total_ns, None)
        for one in hotspots(recorded, at)
    ]


def _tail(basis: Basis, row: StepMetrics) -> Evidence | None:
    """Return how long the last long kernel of backward ran, when it stands out; None otherwise.

    Small kernels may follow, which only divide its gradient or copy it into the bucket.
    """
    recorded, at = _place(basis, row)
    ops = recorded.trace.ops
    rows = (recorded.steps.owner == at) & (ops.kind == Kind.COMPUTE) & ops.in_backward
    rows = np.flatnonzero(rows)[np.argsort(ops.end_ns[rows], kind="stable")]
    length_ns = ops.end_ns[rows] - ops.start_ns[rows]
    long = np.flatnonzero(length_ns >= max(TAIL_RATIO * (row.step_ns or 0), 1))
    if not long.size:
        return None
    last = int(long[-1])
    last_ns, after_ns = int(length_ns[last]), int(length_ns[last + 1 :].sum())
    limit_ns = max(TAIL_RATIO * (row.step_ns or 0), TAIL_TIMES * _usual_ns(length_ns, last))
    stands_out = last_ns >= limit_ns and after_ns < last_ns
    return Evidence("last_kernel_ns", last_ns, round(limit_ns)) if stands_out else None


def _usual_ns(length_ns: IntArray, but: int) -> float:
    """Return the length of kernel in which half of the time passes, of all kernels but one.

    The median of the kernels would be that of the many tiny ones.
    """
    others = np.sort(np.delete(length_ns, but))
    reached = np.cumsum(others)
    return float(others[np.searchsorted(reached, reached[-1] / 2)]) if others.size else 0.0
