"""Splits the exposed communication of each step: waiting for another rank, and transfer."""

from __future__ import annotations

from dataclasses import replace

from ddptrace.metrics.collectives import Waits
from ddptrace.metrics.recorded import Recorded
from ddptrace.metrics.steps import StepMetrics


def with_exposure(rows: list[StepMetrics], recorded: Recorded, waits: Waits) -> list[StepMetrics]:
    """Return a recording's rows with `exposed_wait_ns` and `exposed_transfer_ns`.

    Where several operations run at once and one of them transfers, the time is transfer: without
    the waiting it would be exposed all the same. Both are None in a step in which exposed
    communication was not matched.
    """
    exposed = recorded.busy.exposed
    transfer = exposed & waits.transfer
    unclear = (exposed & waits.unmatched) - transfer
    window = recorded.steps.start_ns, recorded.steps.end_ns
    lengths = zip(rows, transfer.length_in(*window), unclear.length_in(*window), strict=True)
    return [_row(row, int(moved), int(unknown)) for row, moved, unknown in lengths]


def _row(row: StepMetrics, transfer_ns: int, unclear_ns: int) -> StepMetrics:
    if row.exposed_comm_ns is None or unclear_ns:
        return row
    return replace(
        row,
        exposed_wait_ns=row.exposed_comm_ns - transfer_ns,
        exposed_transfer_ns=transfer_ns,
    )
