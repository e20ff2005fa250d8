"""A group of ranks whose link is slower than that of the others that do the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from statistics import median
from typing import TypeAlias

import numpy as np

from ddptrace.diagnosis.basis import Basis
from ddptrace.diagnosis.figures import middle
from ddptrace.diagnosis.finding import Evidence, Finding
from ddptrace.diagnosis.steps import Step
from ddptrace.metrics.collectives import Collected
from ddptrace.wording import ranges

SLOW_RATIO = 1.5
"""The link of a group is slow when it takes so many times what the others take."""
LEAST_BYTES = 1 << 20
"""Smaller transfers are fixed cost, which tells little of a link."""

_Kind: TypeAlias = tuple[int, int, int]
"""What transfers have to have in common to be compared: operation, size, number of ranks."""
_Slow: TypeAlias = Mapping[tuple[int, _Kind], tuple[int, int]]
"""What slow groups take for transfers of one kind, and what the others take."""


def slow_link(basis: Basis) -> Iterator[Finding]:
    """Give the finding that one group's transfers take longer than the same ones of others.

    Within a group all ranks share one transfer, so nothing tells which of its links is the slow
    one. Groups with a rank in common are not compared: they go different ways by intention.
    """
    slow = _slow(basis.measured.collected)
    cost = basis.listed(lambda step: _extra_ns(basis, step, slow)) if slow else None
    if cost is None:
        return
    found = basis.measured.collected.matching
    at_cost = [key for key in slow if cost.rank in found.lists[key[0]].rows]
    worst = max(at_cost, key=lambda key: slow[key][0] / slow[key][1])
    mine_ns, others_ns = slow[worst]
    ranks = sorted(found.lists[worst[0]].rows)
    yield Finding(
        code="slow_link",
        cost_ns=cost.ns,
        ranks=ranks,
        evidence=[
            Evidence("extra_ns", cost.ns, basis.limit_ns),
            Evidence("transfer_ns", mine_ns, round(SLOW_RATIO * others_ns)),
            Evidence("others_transfer_ns", others_ns, None),
            Evidence("size_bytes", worst[1][1], LEAST_BYTES),
        ],
        advice=f"ranks {ranges(ranks)} take {mine_ns / others_ns:.1f} times as long as other "
        "groups for the same collective: compare the links of their GPUs and network cards with "
        "those of the others (nvidia-smi topo -m, NCCL_DEBUG=INFO)",
    )


def _slow(collected: Collected) -> _Slow:
    """Return the groups that are slower than all others of their kind, taken together."""
    found = collected.matching
    times: dict[_Kind, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for row in np.flatnonzero(found.is_matched & (found.size_bytes >= LEAST_BYTES)).tolist():
        members = int(found.members[row])
        one = found.lists[members]
        if one.group is not None and not one.is_transfer:
            kind = int(collected.operation[row]), int(found.size_bytes[row]), len(one.rows)
            times[kind][members].append(int(collected.transfer_ns[row]))
    slow = {}
    for kind, groups in times.items():
        middles = {members: int(median(lengths)) for members, lengths in groups.items()}
        for members, mine_ns in middles.items():
            ranks = found.lists[members].rows.keys()
            apart = [one for one in middles if found.lists[one].rows.keys().isdisjoint(ranks)]
            others_ns = middle(middles[one] for one in apart)
            if others_ns and mine_ns >= SLOW_RATIO * others_ns:
                slow[members, kind] = mine_ns, others_ns
    return slow


def _extra_ns(basis: Basis, step: Step, slow: _Slow) -> int | None:
    """Return what a step's transfers in slow groups took longer than others', as far as exposed."""
    collected, calls = basis.measured.collected, step.calls
    members = collected.matching.members[calls.collective]
    chosen, extra_ns = np.zeros(len(calls), np.bool_), 0
    for at, one in enumerate(members.tolist()):
        ranks = len(collected.matching.lists[one].rows)
        key = one, (int(calls.operation[at]), int(calls.size_bytes[at]), ranks)
        if key in slow and calls.is_matched[at]:
            chosen[at] = True
            extra_ns += max(int(calls.transfer_ns[at]) - slow[key][1], 0)
    exposed_ns = step.exposed_transfer_ns(chosen)
    return None if exposed_ns is None else min(extra_ns, exposed_ns)
