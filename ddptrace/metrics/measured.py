"""A run with what every figure over all ranks starts from: collectives and aligned clocks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ddptrace.metrics.clocks import RankClock, clocks
from ddptrace.metrics.collectives import Collected, collect
from ddptrace.metrics.recorded import Recorded
from ddptrace.metrics.timebase import Timebase, timebase
from ddptrace.model import Run


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """The recordings that figures come from, by rank, and how their times become the report's."""

    run: Run
    recordings: Mapping[int, Sequence[Recorded]]
    collected: Collected
    clocks: list[RankClock]
    base: Timebase

    @classmethod
    def of(cls, run: Run) -> Measured:
        """Return a run with what its recordings tell together."""
        recordings: dict[int, list[Recorded]] = defaultdict(list)
        for trace in run.figures:
            recordings[trace.rank].append(Recorded.of(trace))
        collected = collect(recordings, run.world_size)
        # Only times of the report depend on clocks: lengths and waits are known before.
        found, base = clocks(run, collected, timebase(recordings))
        return cls(run, recordings, collected, found, base)

    @property
    def places(self) -> list[tuple[int, int]]:
        """The rank of each recording, and its number among those of the rank."""
        return [(rank, at) for rank, mine in self.recordings.items() for at in range(len(mine))]
