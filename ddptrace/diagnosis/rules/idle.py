"""A GPU that idles: for its input, in a call that waits for it, or for launches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from statistics import median

from ddptrace.diagnosis.basis import Basis, Cost
from ddptrace.diagnosis.finding import Evidence, Finding
from ddptrace.metrics.idle import IdleCauses
from ddptrace.metrics.launches import launching


def input_stall(basis: Basis) -> Iterator[Finding]:
    """Give the finding that the GPU idles at a step's start while the host has no batch."""
    cost = _cost(basis, "input_ns")
    if cost is None:
        return
    mine = _of_rank(basis, cost.rank)
    in_loader_ns = int(median(one.loader_ns for one in mine))
    what = "its data loader" if in_loader_ns * 2 >= cost.ns else "nothing that was recorded: asleep"
    yield Finding(
        code="input_stall",
        cost_ns=cost.ns,
        ranks=cost.ranks(basis.limit_ns),
        evidence=[
            Evidence("input_stall_ns", cost.ns, basis.limit_ns),
            Evidence("loader_ns", in_loader_ns, None),
        ],
        advice=f"the host is in {what} at the start of the step: more workers "
        "(num_workers, prefetch_factor, persistent_workers), cheaper transforms, pinned memory, or "
        "fetch the next batch while the GPU works",
    )


def sync_wait(basis: Basis) -> Iterator[Finding]:
    """Give the finding that the host waits for the GPU, which then runs out of work."""
    cost = _cost(basis, "sync_ns")
    if cost is None:
        return
    calls: Counter[tuple[str, str | None]] = Counter()
    for one in _of_rank(basis, cost.rank):
        for call in one.sync_calls:
            calls[call.name, call.operator] += call.idle_ns
    worst = calls.most_common(1)
    name, operator = worst[0][0] if worst else ("a synchronising call", None)
    where = f"{name} in {operator}" if operator else name
    yield Finding(
        code="sync_wait",
        cost_ns=cost.ns,
        ranks=cost.ranks(basis.limit_ns),
        evidence=[
            Evidence("sync_wait_ns", cost.ns, basis.limit_ns),
            Evidence("sync_calls", _count(basis, cost.rank), None),
        ],
        advice=f"{where} blocks the host until the GPU is done, which then has nothing to do: keep "
        "values on the GPU (.item(), .cpu(), print, bool of a tensor), and log every few steps",
    )


def launch_bound(basis: Basis) -> Iterator[Finding]:
    """Give the finding that the host launches more slowly than the GPU runs."""
    cost = _cost(basis, "launch_ns")
    if cost is None:
        return
    known = basis.once(launching, cost.rank)
    steps = (one for one in basis.of_rank(cost.rank) if one.causes.idle is not None)
    mine = [known[id(one.recorded)][one.at] for one in steps]
    yield Finding(
        code="launch_bound",
        cost_ns=cost.ns,
        ranks=cost.ranks(basis.limit_ns),
        evidence=[
            Evidence("launch_bound_ns", cost.ns, basis.limit_ns),
            Evidence("kernels", _middle([one.kernels for one in mine]), None),
            Evidence("kernel_ns", _middle([one.kernel_ns for one in mine]), None),
            Evidence("interval_ns", _middle([one.interval_ns for one in mine]), None),
            Evidence("operators", _middle([one.operators for one in mine]), None),
        ],
        advice="give the host less to launch: torch.compile or CUDA graphs, a fused optimizer "
        "(fused=True or foreach), larger batches, fewer and larger parameters",
    )


def _cost(basis: Basis, name: str) -> Cost | None:
    return basis.cost(lambda one: None if one.idle is None else getattr(one.idle, name))


def _of_rank(basis: Basis, rank: int) -> list[IdleCauses]:
    mine = (one.idle for one in basis.counted if one.row.rank == rank)
    return [one for one in mine if one is not None]


def _count(basis: Basis, rank: int) -> int | None:
    return _middle([sum(call.count for call in one.sync_calls) for one in _of_rank(basis, rank)])


def _middle(values: list[int] | list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return int(median(known)) if known else None
