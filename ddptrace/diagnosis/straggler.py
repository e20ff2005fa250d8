"""A late rank: the others wait for it."""

from __future__ import annotations

from ddptrace.diagnosis.finding import LISTED_PART, Evidence, Finding
from ddptrace.metrics.stragglers import NOISE_NS, Stragglers

_ADVICE = {
    "compute": "its GPU computes longer than the others': compare its kernels, batch sizes and "
    "GPU clock with another rank's",
    "input": "its host launches nothing at the start of a step: look at its data loading, and give "
    "each rank as much of it",
    "host": "its GPU idles while its host does something else: look for other processes on its "
    "cores, calls that wait for the GPU, or work that only this rank does",
    None: "nothing recorded explains it: record the hosts of all ranks, and compare this one's",
}


def straggler(late: Stragglers, median_step_ns: int | None) -> list[Finding]:
    """Return the finding that others wait for a rank; none when that costs next to nothing."""
    if late.rank is None or late.cost_ns is None or late.late_ns is None:
        return []
    limit_ns = None if median_step_ns is None else round(LISTED_PART * median_step_ns)
    if limit_ns is not None and late.cost_ns < limit_ns:
        return []
    those = [step for step in late.steps if step.rank == late.rank]
    return [
        Finding(
            code="straggler",
            cost_ns=late.cost_ns,
            ranks=[late.rank],
            evidence=[
                Evidence("exposed_wait_ns", late.cost_ns, limit_ns),
                Evidence("late_ns", late.late_ns, NOISE_NS),
                Evidence("led", late.led, None),
                Evidence("collectives", late.collectives, None),
                Evidence("steps_late", len(those), None),
            ],
            advice=f"rank {late.rank}: {_ADVICE[late.cause]}",
        )
    ]
