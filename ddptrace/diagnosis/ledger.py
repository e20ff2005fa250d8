"""Where each step went, in parts that have a cause and add up to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from ddptrace.metrics.host_evidence import idle_by_cause
from ddptrace.metrics.idle import IdleCauses
from ddptrace.metrics.measured import Measured
from ddptrace.metrics.steps import StepMetrics
from ddptrace.metrics.transfers import ExposedTransfer, exposed_transfers


@dataclass(frozen=True, slots=True)
class Ledger:
    """One step of one rank: the parts are ns and add up to `step_ns` exactly.

    `straggler_ns` is exposed waiting for another rank. Exposed transfer is divided into what a
    schedule could have hidden, and what is due to bandwidth or fixed cost; `comm_unknown_ns` is
    exposed communication of which that is not known. Idle time is divided by what the host did.
    """

    rank: int
    step: int | None
    step_ns: int
    compute_ns: int
    straggler_ns: int
    bucket_schedule_ns: int
    comm_bandwidth_ns: int
    comm_latency_ns: int
    comm_unknown_ns: int
    exposed_mem_ns: int
    input_stall_ns: int
    sync_wait_ns: int
    launch_bound_ns: int
    idle_unknown_ns: int


_NO_PARTS = ("rank", "step", "step_ns")
PARTS = tuple(field.name for field in fields(Ledger) if field.name not in _NO_PARTS)
"""The names of the parts, in the order in which they are shown."""


@dataclass(frozen=True, slots=True)
class Causes:
    """What is known of one step of a rank beside its figures; None was not measured."""

    row: StepMetrics
    ledger: Ledger | None
    transfer: ExposedTransfer | None
    idle: IdleCauses | None


def causes(measured: Measured) -> list[list[Causes]]:
    """Return the causes of each row of `measured.rows`, in their order."""
    found = zip(measured.rows, exposed_transfers(measured), idle_by_cause(measured), strict=True)
    return [
        [
            Causes(row, _ledger(row, transfer, idle), transfer, idle)
            for row, transfer, idle in zip(*columns, strict=True)
        ]
        for columns in found
    ]


def _ledger(
    row: StepMetrics, transfer: ExposedTransfer | None, idle: IdleCauses | None
) -> Ledger | None:
    """Return the ledger of a step; None when a figure of which it is made is unknown."""
    parts = row.step_ns, row.compute_ns, row.exposed_comm_ns, row.exposed_mem_ns, row.idle_ns
    step_ns, compute_ns, comm_ns, mem_ns, idle_ns = parts
    if step_ns is None or compute_ns is None or comm_ns is None or mem_ns is None:
        return None
    if idle_ns is None:
        return None
    waited_ns = row.exposed_wait_ns if transfer is not None else None
    return Ledger(
        rank=row.rank,
        step=row.step,
        step_ns=step_ns,
        compute_ns=compute_ns,
        straggler_ns=waited_ns or 0,
        bucket_schedule_ns=0 if transfer is None else transfer.schedule_ns,
        comm_bandwidth_ns=0 if transfer is None else transfer.bandwidth_ns,
        comm_latency_ns=0 if transfer is None else transfer.latency_ns,
        comm_unknown_ns=comm_ns if transfer is None else transfer.unknown_ns,
        exposed_mem_ns=mem_ns,
        input_stall_ns=0 if idle is None else idle.input_ns,
        sync_wait_ns=0 if idle is None else idle.sync_ns,
        launch_bound_ns=0 if idle is None else idle.launch_ns,
        idle_unknown_ns=idle_ns if idle is None else idle.unknown_ns,
    )


def total_ns(ledger: Ledger, parts: Sequence[str] = PARTS) -> int:
    """Return the sum of some parts of a ledger."""
    return sum(getattr(ledger, name) for name in parts)
