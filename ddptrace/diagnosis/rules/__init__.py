"""The rules: each looks at a run for one cause, and gives a finding when it costs enough."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from ddptrace.diagnosis.basis import Basis
from ddptrace.diagnosis.finding import Finding
from ddptrace.diagnosis.rules.idle import input_stall, launch_bound, sync_wait
from ddptrace.diagnosis.rules.late_rank import straggler
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

ADVICE: tuple[Rule, ...] = ()
"""The rules whose findings are worth knowing, and never the verdict."""
