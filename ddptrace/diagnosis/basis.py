"""What every rule looks at: a measured run with the causes of its steps, and the limits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import TypeVar

from ddptrace.diagnosis.finding import LISTED_PART
from ddptrace.diagnosis.ledger import Causes, causes
from ddptrace.diagnosis.slack import Leads
from ddptrace.diagnosis.steps import Step, counted_steps
from ddptrace.metrics.measured import Measured
from ddptrace.metrics.recorded import Recorded
from ddptrace.metrics.summary import median_step_ns
from ddptrace.whatif.document import Costs, WhatIf

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True, eq=False)
class Basis:
    """A run to judge. `counted` are the causes of the steps that count, of all ranks.

    `step_ns` is the time of the median step, None without step marks; `limit_ns` is what a finding
    has to cost to be listed. `leads` tell who was ahead of whom, `steps` are those of `counted` in
    their recordings.
    """

    measured: Measured
    counted: list[Causes]
    step_ns: int | None
    leads: Leads
    steps: list[Step] = field(default_factory=list)
    whatif: WhatIf | None = None

    @classmethod
    def of(cls, measured: Measured, whatif: WhatIf | None = None) -> Basis:
        """Return what rules look at for a run."""
        steps = counted_steps(measured, causes(measured))
        counted = [step.causes for step in steps]
        step_ns = median_step_ns(measured.counted, measured.summary)
        leads = Leads.of(measured, steps)
        return cls(measured, counted, step_ns, leads, steps, whatif)

    @property
    def limit_ns(self) -> int:
        """What a finding has to cost to be listed: something at least, where there is no step."""
        return max(round(LISTED_PART * (self.step_ns or 0)), 1)

    @property
    def is_of_host(self) -> bool:
        """Whether the run used no GPU, so that its figures are of the host."""
        recordings = self.measured.recordings.values()
        return any(one.trace.device == "host" for mine in recordings for one in mine)

    def recorded(self, rank: int) -> list[Recorded]:
        """Return the recordings that figures of a rank come from."""
        return list(self.measured.recordings[rank])

    @property
    def replayed(self) -> WhatIf | None:
        """The replays of the steps, where they say better than intervals what buckets cost.

        That takes the size and the time of each gradient, and no other communication.
        """
        found = self.whatif
        if found is None or found.trust == "low" or found.other_models:
            return None
        return found if found.resolution == "parameters" else None

    def of_replay(self, of: Callable[[Costs], int]) -> Cost | None:
        """Return a cost that replays tell, of all ranks the same; None when it is not listed."""
        if self.replayed is None:
            return None
        found = of(self.replayed.costs)
        ranks = sorted({one.row.rank for one in self.counted})
        return Cost(dict.fromkeys(ranks, found)) if found >= self.limit_ns else None

    def cost(self, of: Callable[[Causes], int | None]) -> Cost | None:
        """Return what a cause costs, without what would be gone for nothing: a rank's slack.

        None when that is known of no step, or too little to be listed.
        """
        return self.largest(lambda one: self.leads.cost_ns(one, of, self.limit_ns))

    def largest(self, of: Callable[[Causes], int | None]) -> Cost | None:
        """Return a cost of steps: of each rank the median; None when it is not listed."""
        return self._worth((one.row.rank, of(one)) for one in self.counted)

    def listed(self, of: Callable[[Step], int | None]) -> Cost | None:
        """Return what something costs, of steps with their places; None for what is not listed.

        Without step marks nothing is: a recording of many steps is not one that does all of it.
        """
        if self.step_ns is None:
            return None
        return self._worth((one.rank, of(one)) for one in self.steps)

    def _worth(self, found: Iterable[tuple[int, int | None]]) -> Cost | None:
        by_rank: dict[int, list[int]] = defaultdict(list)
        for rank, cost_ns in found:
            if cost_ns is not None:
                by_rank[rank].append(cost_ns)
        cost = Cost({rank: int(median(mine)) for rank, mine in by_rank.items()})
        return cost if by_rank and cost.ns >= self.limit_ns else None

    def once(self, of: Callable[[Recorded], _Value], rank: int | None = None) -> dict[int, _Value]:
        """Return what something is of each recording with steps, by the `id` of the recording.

        With a `rank` only of its recordings.
        """
        steps = self.steps if rank is None else self.of_rank(rank)
        recordings = {id(one.recorded): one.recorded for one in steps}
        return {number: of(recorded) for number, recorded in recordings.items()}

    def of_rank(self, rank: int) -> list[Step]:
        """Return the steps of a rank."""
        return [one for one in self.steps if one.rank == rank]


@dataclass(frozen=True, slots=True)
class Cost:
    """What something costs a step of each rank, in ns."""

    by_rank: Mapping[int, int]

    @property
    def ns(self) -> int:
        """The largest cost."""
        return max(self.by_rank.values())

    @property
    def rank(self) -> int:
        """The rank that it costs most."""
        return min(self.by_rank, key=lambda rank: (-self.by_rank[rank], rank))

    def ranks(self, limit_ns: int) -> list[int]:
        """Return the ranks that it costs at least so much, rising."""
        found = [rank for rank, ns in self.by_rank.items() if ns >= limit_ns]
        return sorted(found)
