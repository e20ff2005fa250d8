"""A late rank: the others wait for it."""

from __future__ import annotations

from collections.abc import Iterator

from ddptrace.diagnosis.basis import Basis
from ddptrace.diagnosis.figures import middle
from ddptrace.diagnosis.finding import Evidence, Finding
from ddptrace.diagnosis.ledger import Causes
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

_ON_THE_HOST = (
    "its host computes longer than the others': compare its load, cores and batch sizes with "
    "another rank's"
)
_IN_TURN = (
    "ranks are late in turn: look for what wanders between them, such as uneven batches, garbage "
    "collection or other jobs on their hosts"
)


def straggler(basis: Basis) -> Iterator[Finding]:
    """Give the finding that others wait for a rank, and what the step is longer for it."""
    late = basis.measured.stragglers
    if late.rank is None or late.late_ns is None:
        return
    leads = basis.leads.of_row

    def gain_ns(one: Causes) -> int | None:
        if one.row.rank == late.rank:
            return None
        lead = leads.get((one.row.rank, one.row.step))
        return one.row.exposed_wait_ns if lead is None else lead.gain_ns

    cost = basis.largest(gain_ns)
    if cost is None:
        return
    mine = [lead for (rank, _), lead in leads.items() if rank == cost.rank]
    those = [step for step in late.steps if step.rank == late.rank]
    yield Finding(
        code="straggler",
        cost_ns=cost.ns,
        ranks=[late.rank],
        evidence=[
            Evidence("exposed_wait_ns", late.cost_ns, basis.limit_ns),
            Evidence("transfer_alone_ns", middle(one.alone_ns for one in mine) or 0, None),
            Evidence("slowed_ns", middle(one.slowed_ns for one in mine) or 0, None),
            Evidence("late_ns", late.late_ns, NOISE_NS),
            Evidence("led", late.led, None),
            Evidence("collectives", late.collectives, None),
            Evidence("steps_late", len(those), None),
        ],
        advice=_advice(late, is_host=basis.recorded(late.rank)[0].trace.device == "host"),
    )


def _advice(late: Stragglers, *, is_host: bool) -> str:
    if late.pattern == "alternating":
        return _IN_TURN
    advice = _ON_THE_HOST if is_host and late.cause == "compute" else _ADVICE[late.cause]
    return f"rank {late.rank} is late: {advice}"
