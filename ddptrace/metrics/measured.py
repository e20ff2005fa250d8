"""A run with all its figures: steps, collectives, buckets, aligned clocks, who is late."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ddptrace.metrics.buckets import Buckets, find_buckets, with_sizes
from ddptrace.metrics.clocks import RankClock, clocks
from ddptrace.metrics.collectives import Collected, collect, waits
from ddptrace.metrics.exposure import with_exposure
from ddptrace.metrics.recorded import Recorded
from ddptrace.metrics.steps import StepMetrics, step_metrics
from ddptrace.metrics.stragglers import Stragglers, stragglers
from ddptrace.metrics.summary import Summary, kept_rows, summarize
from ddptrace.metrics.timebase import Timebase, timebase
from ddptrace.model import Run


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """The recordings that figures come from, by rank, with all that is measured of them.

    `rows` are those of the steps of each recording, in the order of `places`, on the clock of that
    recording; `counted` are the rows that count in the figures of the run. `base` says how times of
    recordings become times of the report.
    """

    run: Run
    recordings: Mapping[int, Sequence[Recorded]]
    collected: Collected
    buckets: Buckets
    clocks: list[RankClock]
    base: Timebase
    rows: list[list[StepMetrics]]
    counted: list[StepMetrics]
    summary: Summary
    stragglers: Stragglers

    @classmethod
    def of(cls, run: Run) -> Measured:
        """Return a run with what its recordings tell together."""
        recordings: dict[int, list[Recorded]] = defaultdict(list)
        for trace in run.figures:
            recordings[trace.rank].append(Recorded.of(trace))
        collected = collect(recordings, run.world_size)
        buckets = find_buckets(collected, run)
        collected = with_sizes(collected, buckets)
        rows = [
            with_exposure(step_metrics(one), one, waits(collected, rank, number))
            for rank, mine in recordings.items()
            for number, one in enumerate(mine)
        ]
        counted = kept_rows(rows)
        # Only times of the report depend on clocks: lengths and waits are known before.
        found, base = clocks(run, collected, timebase(recordings))
        return cls(
            run=run,
            recordings=recordings,
            collected=collected,
            buckets=buckets,
            clocks=found,
            base=base,
            rows=rows,
            counted=counted,
            summary=summarize(rows),
            stragglers=stragglers(collected, counted, run.missing_ranks),
        )

    @property
    def places(self) -> list[tuple[int, int]]:
        """The rank of each recording, and its number among those of the rank."""
        return [(rank, at) for rank, mine in self.recordings.items() for at in range(len(mine))]
