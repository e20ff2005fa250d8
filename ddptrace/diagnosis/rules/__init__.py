"""The rules: each looks at a run for one cause, and gives a finding when it costs enough."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from ddptrace.diagnosis.basis import Basis
from ddptrace.diagnosis.finding import Finding
from ddptrace.diagnosis.rules.beside import comm_slows_compute, same_stream
from ddptrace.diagnosis.rules.danger import launch_order_mismatch, optimizer_before_comm
from ddptrace.diagnosis.rules.extra import buffer_broadcast, unused_search
from ddptrace.diagnosis.rules.gradients import fine_parameters, grad_copies
from ddptrace.diagnosis.rules.idle import input_stall, launch_bound, sync_wait
from ddptrace.diagnosis.rules.late_rank import straggler
from ddptrace.diagnosis.rules.layout import head_of_line, not_rebuilt, uneven_backward
from ddptrace.diagnosis.rules.micro_steps import reduce_each_microstep
from ddptrace.diagnosis.rules.recorded_run import (
    cold_steps,
    ddp_logger_disagrees,
    recording_slowed_run,
)
from ddptrace.diagnosis.rules.slow_group import slow_link
from ddptrace.diagnosis.rules.transfer import bucket_schedule, comm_bandwidth, comm_latency

Rule: TypeAlias = Callable[[Basis], Iterable[Finding]]

BOTTLENECKS: tuple[Rule, ...] = (
    straggler,
    comm_bandwidth,
    comm_latency,
    bucket_schedule,
    input_stall,
    sync_wait,
    launch_bound,
)
"""The rules whose findings may be the verdict."""

ADVICE: tuple[Rule, ...] = (
    launch_order_mismatch,
    optimizer_before_comm,
    reduce_each_microstep,
    same_stream,
    head_of_line,
    not_rebuilt,
    uneven_backward,
    comm_slows_compute,
    grad_copies,
    buffer_broadcast,
    unused_search,
    fine_parameters,
    slow_link,
    recording_slowed_run,
    cold_steps,
    ddp_logger_disagrees,
)
"""The rules whose findings are worth knowing, and never the verdict."""
