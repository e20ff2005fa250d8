"""Splits the exposed communication of each step: waiting for another rank, and transfer."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ddptrace.intervals import Intervals
from ddptrace.metrics.collectives import Waits
from ddptrace.metrics.recorded import Recorded
from ddptrace.metrics.steps import StepMetrics


@dataclass(frozen=True, slots=True)
class Exposed:
    """When a recording's communication was exposed, disjoint: `unclear` was not matched."""

    wait: Intervals
    transfer: Intervals
    unclear: Intervals


def exposed(recorded: Recorded, waits: Waits) -> Exposed:
    """Return the parts of a recording's exposed communication, on the recording's clock.

    Where several operations run at once and one of them transfers, the time is transfer: without
    the waiting it would be exposed all the same.
    """
    everything = recorded.busy.exposed
    transfer = everything & waits.transfer
    unclear = (everything & waits.unmatched) - transfer
    return Exposed(everything - transfer - unclear, transfer, unclear)


def with_exposure(rows: list[StepMetrics], recorded: Recorded, waits: Waits) -> list[StepMetrics]:
    """Return a recording's rows with `exposed_wait_ns` and `exposed_transfer_ns`.

    Both are None in a step in which exposed communication was not matched.
    """
    parts = exposed(recorded, waits)
    window = recorded.steps.start_ns, recorded.steps.end_ns
    lengths = zip(
        rows, parts.transfer.length_in(*window), parts.unclear.length_in(*window), strict=True
    )
    return [_row(row, int(moved), int(unknown)) for row, moved, unknown in lengths]


def _row(row: StepMetrics, transfer_ns: int, unclear_ns: int) -> StepMetrics:
    if row.exposed_comm_ns is None or unclear_ns:
        return row
    return replace(
        row,
        exposed_wait_ns=row.exposed_comm_ns - transfer_ns,
        exposed_transfer_ns=transfer_ns,
    )
