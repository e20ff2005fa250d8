"""A late rank: the others wait for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator

from ddptrace.diagnosis.basis import Basis, Cost
from ddptrace.diagnosis.figures import middle
from ddptrace.diagnosis.finding import Evidence, Finding
from ddptrace.diagnosis.ledger import Causes
from ddptrace.metrics.lateness import EXPLAINS
from ddptrace.metrics.stragglers import NOISE_NS, Stragglers
from ddptrace.wording import of_ranks

_ADVICE = {
    "compute": "its GPU computes longer than the others': compare its kernels, batch sizes and "
    "GPU clock with another rank's",
    "input": "its host launches nothing at the start of a step: look at its data loading, and give "
    "each rank as much of it",
    "host": "its GPU idles while its host does something else: look for other processes on its "
    "cores, calls that wait for the GPU, or work that only this rank does",
    None: "nothing recorded explains it: record the hosts of all ranks, and compare this one's",
}
_ON_THE_HOST = {
    "compute": "its host computes longer than the others': compare its load, cores and batch sizes "
    "with another rank's",
    "input": "its host computes nothing at the start of a step: look at its data loading, and give "
    "each rank as much of it",
    "host": "its host is busy outside of its operators: look for other processes on its cores, "
    "Python between operators, or work that only this rank does",
    None: "nothing recorded explains it: compare what its host does with another rank's",
}
_IDLES = {
    "launch_ns": "its GPU idles while its host is launching (launch_bound): look for other "
    "processes on its cores, and give it less to launch",
    "sync_ns": "its GPU idles behind calls in which its host waits for it (sync_wait): look for "
    ".item(), .cpu() and prints that only this rank does",
}
_IN_TURN = (
    "are late in turn: look for what wanders between them, such as uneven batches, garbage "
    "collection or other jobs on their hosts"
)


def straggler(basis: Basis) -> Iterator[Finding]:
    """Give the finding that others wait for a rank, and what the step is longer for it.

    Ranks that are late in turn are one cause: what each step loses to whoever is late in it.
    """
    late = basis.measured.stragglers
    if late.rank is None or late.late_ns is None:
        return
    in_turn = late.pattern == "alternating"
    those = [step for step in late.steps if step.rank == late.rank]
    cost = _cost_in_turn(basis, late.rank) if in_turn else _cost(basis, late.rank)
    if cost is None:
        return
    leads = basis.leads.of_row.items()
    mine = [lead for (rank, _), lead in leads if in_turn or rank == cost.rank]
    ranks = {step.rank for step in late.steps if step.rank is not None} if in_turn else {late.rank}
    yield Finding(
        code="straggler",
        cost_ns=cost.ns,
        ranks=sorted(ranks),
        evidence=[
            Evidence("exposed_wait_ns", late.cost_ns, basis.limit_ns),
            Evidence("transfer_alone_ns", middle(one.alone_ns for one in mine), None),
            Evidence("slowed_ns", middle(one.slowed_ns for one in mine), None),
            Evidence("late_ns", late.late_ns, NOISE_NS),
            Evidence("led", late.led, None),
            Evidence("collectives", late.collectives, None),
            Evidence("steps_late", len(those), None),
        ],
        advice=_advice(basis, late, ranks),
    )


def _cost(basis: Basis, late: int) -> Cost | None:
    """Return what a late rank costs each of the others."""
    return basis.largest(lambda one: None if one.row.rank == late else _gain_ns(basis, one))


def _cost_in_turn(basis: Basis, rank: int) -> Cost | None:
    """Return what each step loses on the rank that loses most in it, put down to one rank."""
    gains: dict[int | None, list[int]] = defaultdict(list)
    for one in basis.counted:
        gain_ns = _gain_ns(basis, one)
        gains[one.row.step] += [] if gain_ns is None else [gain_ns]
    return basis.largest(
        lambda one: max(gains[one.row.step], default=None) if one.row.rank == rank else None
    )


def _gain_ns(basis: Basis, one: Causes) -> int | None:
    """Return what a step of a rank would be shorter if nobody were late; None when unknown."""
    lead = basis.leads.of_row.get((one.row.rank, one.row.step))
    return one.row.exposed_wait_ns if lead is None else lead.gain_ns


def _advice(basis: Basis, late: Stragglers, ranks: Collection[int]) -> str:
    if late.pattern == "alternating":
        return f"{of_ranks(ranks)} {_IN_TURN}"
    advice = (_ON_THE_HOST if basis.is_of_host else _ADVICE)[late.cause]
    if late.cause == "host":
        advice = _why_it_idles(basis, late.rank) or advice
    return f"rank {late.rank} is late: {advice}"


def _why_it_idles(basis: Basis, rank: int | None) -> str | None:
    """Return what most of a late rank's idle time is due to; None when that is nothing special."""
    mine = [one for one in basis.counted if one.row.rank == rank and one.idle is not None]
    idle = [one.idle for one in mine]
    whole_ns = sum(one.row.idle_ns or 0 for one in mine)
    for name, advice in _IDLES.items():
        if sum(getattr(one, name) for one in idle) > EXPLAINS * whole_ns:
            return advice
    return None
