"""How far each rank was ahead of the one that it waited for: what it did then cost no time.

What a rank idles while another one is late it would else have waited, and what it transfers alone
while the late one still computes would else have been hidden. What it computes meanwhile, beside a
collective that waits, takes longer for that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ddptrace.diagnosis.beside_waiting import slowed_by_waiting_ns
from ddptrace.diagnosis.ledger import Causes
from ddptrace.diagnosis.steps import Step
from ddptrace.metrics.comm_table import NONE
from ddptrace.metrics.measured import Measured
from ddptrace.metrics.stragglers import NOISE_NS

_Key = tuple[int, int | None]


@dataclass(frozen=True, slots=True)
class Lead:
    """How far a rank was ahead of the straggler of a step, `late`.

    `slack_ns` is how much longer it could have taken. Had the other one not been late, the step
    would have been shorter by its exposed waiting, by `alone_ns`: the transfer that was exposed on
    it and not on the late one, since it had nothing left to compute; and by `slowed_ns`: what its
    compute took longer beside waiting. Together that is `gain_ns`.
    """

    late: Causes
    slack_ns: int
    waited_ns: int
    alone_ns: int
    slowed_ns: int

    @property
    def is_late_too(self) -> bool:
        """Whether it was ahead by no more than noise."""
        return self.slack_ns < NOISE_NS

    @property
    def gain_ns(self) -> int:
        """What the step would have been shorter for this rank."""
        return self.waited_ns + self.alone_ns + self.slowed_ns


@dataclass(frozen=True, slots=True)
class Leads:
    """The leads of all rows of a run, by rank and step, and who was ahead of whom.

    `ahead` has for the straggler of each step the others with their leads.
    """

    of_row: Mapping[_Key, Lead]
    ahead: Mapping[_Key, Sequence[tuple[Causes, Lead]]]

    @classmethod
    def of(cls, measured: Measured, counted: Sequence[Step]) -> Leads:
        """Return how far ranks were ahead, in the steps that have a straggler."""
        rows = {(one.rank, one.causes.row.step): one for one in counted}
        late_of = {one.step: one.rank for one in measured.stragglers.steps if one.rank is not None}
        found: dict[_Key, Lead] = {}
        ahead: dict[_Key, list[tuple[Causes, Lead]]] = defaultdict(list)
        for (rank, step), one in rows.items():
            late_rank = late_of.get(step)
            late = None if late_rank is None else rows.get((late_rank, step))
            if late is None or late is one or one.causes.row.exposed_wait_ns is None:
                continue
            longest_ns = _longest_wait_ns(measured, step, rank, late.rank)
            if longest_ns is not None:
                found[rank, step] = lead = _lead(one, late, longest_ns)
                ahead[late.rank, step].append((one.causes, lead))
        return cls(found, ahead)

    def cost_ns(self, one: Causes, of: Callable[[Causes], int | None], least_ns: int) -> int | None:
        """Return what a step would be shorter without a cause; None where that is not known.

        Of a rank that was ahead it is what the late one has of the cause, too: it would else wait.
        On the late one it is what the others were ahead, and what they have of the cause; less than
        `least_ns` counts as nothing.
        """
        own_ns, key = of(one), (one.row.rank, one.row.step)
        if own_ns is None:
            return None
        lead = self.of_row.get(key)
        if lead is not None:
            late_ns = of(lead.late)
            return own_ns if lead.is_late_too or late_ns is None else min(own_ns, late_ns)
        reached = [
            lead.gain_ns + _worth(of(other), least_ns)
            for other, lead in self.ahead.get(key, ())
            if not lead.is_late_too
        ]
        return min([own_ns, *reached])


def _worth(cost_ns: int | None, least_ns: int) -> int:
    return cost_ns if cost_ns is not None and cost_ns >= least_ns else 0


def _lead(one: Step, late: Step, longest_ns: int) -> Lead:
    mine, its = one.causes.row, late.causes.row
    waited_ns = mine.exposed_wait_ns or 0
    alone_ns = (mine.exposed_transfer_ns or 0) - (its.exposed_transfer_ns or 0)
    if None in (mine.exposed_transfer_ns, its.exposed_transfer_ns):
        alone_ns = 0
    # It was never further ahead than it waited at once.
    alone_ns = max(min(alone_ns, longest_ns - waited_ns), 0)
    left_ns = max(longest_ns - waited_ns - alone_ns, 0)
    return Lead(
        late=late.causes,
        slack_ns=max(longest_ns, waited_ns - (its.exposed_wait_ns or 0), 0),
        waited_ns=waited_ns,
        alone_ns=alone_ns,
        slowed_ns=min(slowed_by_waiting_ns(one, late), left_ns) if left_ns else 0,
    )


def _longest_wait_ns(measured: Measured, step: int | None, rank: int, late: int) -> int | None:
    """Return how much longer a rank waited than another in a collective of both, at the most."""
    collected = measured.collected
    found = collected.matching
    mine, other = found.ranks.index(rank), found.ranks.index(late)
    rows = found.is_matched & (collected.step == (NONE if step is None else step))
    rows &= (found.row[:, mine] != NONE) & (found.row[:, other] != NONE)
    if not rows.any():
        return None
    return int(np.max(collected.wait_ns[rows, mine] - collected.wait_ns[rows, other]))
