"""Replays of one job with several caps: the step, between what, and what is gained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import hypot

import numpy as np

from ddptrace.whatif.anchor import NOISE_RATIO, Anchoring
from ddptrace.whatif.document import Best, Bounds, Costs, Prediction
from ddptrace.whatif.job import Job
from ddptrace.whatif.known import Known
from ddptrace.whatif.packing import Packing
from ddptrace.whatif.replay import Replayed
from ddptrace.whatif.scenario import Scenario
from ddptrace.whatif.schedule import Packed, Physics, Schedule

OUTSIDE_DOUBLINGS = 0.5
"""A prediction is outside what was seen when the size of a bucket is further out than this."""
NEARLY_RATIO = 0.002
"""A cap must be better by this part of a step to be preferred to the one that is there."""


@dataclass(frozen=True, slots=True)
class _Range:
    """How much longer a step may take: likely, at least, at most."""

    likely: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, eq=False)
class _Pair:
    """A job with some physics: what its recorded buckets took, and as it would be."""

    now_ns: float
    after: Schedule

    def change_ns(self, buckets: Packed) -> float:
        return self.after.with_buckets(buckets).step_ns - self.now_ns


class Scenes:
    """The replays of a job. Invariant: all start from the same recorded step."""

    def __init__(
        self, job: Job, known: Known, start: Anchoring, scenario: Scenario, current: Packed | None
    ) -> None:
        self._job, self._known, self._start, self._current = job, known, start, current
        self._scenario = scenario
        self._point = self._pair(known.point(start.host))
        self._eager = self._pair(known.point(0.0)) if start.is_host_bound else self._point
        self._extremes = [
            (name, self._pair(physics)) for name, physics in known.extremes(start.host)
        ]
        self._other_jobs = [
            replace(self._point, after=self._after(physics))
            for physics in known.other_jobs(start.host)
        ]

    def _pair(self, physics: Physics) -> _Pair:
        """Return a job before and after the change.

        The recorded buckets are packed from the same gradients as others where a cap gives them:
        what is wrong about those is then wrong on both sides.
        """
        before = Schedule.of(self._job, physics, Scenario())
        now = before.recorded() if self._current is None else before.with_buckets(self._current)
        return _Pair(now.step_ns, self._after(physics))

    def _after(self, physics: Physics) -> Schedule:
        return Schedule.of(self._job, self._known.after(physics), self._scenario)

    def predicted(self, cap_mb: float, buckets: Packed, misfit_ratio: float) -> Prediction:
        """Return the step with some buckets.

        Where recorded buckets were cut into pieces that nobody knows, they may also be whole.
        """
        step = self._point.after.with_buckets(buckets)
        change = self._changed(buckets)
        start, expected = self._start, self._start.step_ns + change.likely
        # What the replay cannot explain grows with how much is changed.
        unknown = misfit_ratio * abs(change.likely)
        low = expected - hypot(change.likely - change.low, start.noise_ns, unknown)
        high = expected + hypot(change.high - change.likely, start.noise_ns, unknown)
        if self._job.resolution == "buckets" and self._is_new(buckets):
            whole_ns = self._point.after.with_whole(Packing().limits(cap_mb)).step_ns
            uncut = self._start.step_ns + whole_ns - self._point.now_ns
            low, high = min(low, uncut - start.noise_ns), max(high, uncut + start.noise_ns)
        expected, low, high = self._by_host(buckets, expected, low, high)
        outside = max(self._known.fit.doublings_outside(size) for size in buckets.size_bytes)
        return Prediction(
            bucket_cap_mb=cap_mb,
            buckets=len(buckets),
            step_ns=round(max(expected, 0.0)),
            low_ns=round(max(low, 0.0)),
            high_ns=round(high),
            exposed_comm_ns=round(step.exposed_comm_ns),
            tail_ns=round(step.tail_ns),
            is_outside=outside >= OUTSIDE_DOUBLINGS,
        )

    def _is_new(self, buckets: Packed) -> bool:
        """Tell whether buckets are not those that were recorded."""
        return tuple(buckets.size_bytes.tolist()) != self._job.recorded_bytes

    def _by_host(
        self, buckets: Packed, expected: float, low: float, high: float
    ) -> tuple[float, float, float]:
        """Return the step where the host decides how long it takes.

        A host that does not wait for the GPU takes as long as it takes, so that a shorter tail only
        lets the GPU idle longer. What the GPU alone needs is the least that a step can take.
        """
        start = self._start
        if not start.is_host_bound:
            return expected, low, high
        alone = self._eager.after.with_buckets(buckets).step_ns
        flat = expected if start.is_synced else max(start.step_ns, alone)
        least = alone * (1 - NOISE_RATIO) if start.is_distorted else max(min(low, flat), alone)
        return flat, min(least, flat), max(high, flat + start.noise_ns)

    def _changed(self, buckets: Packed) -> _Range:
        likely = self._point.change_ns(buckets)
        below: dict[str, float] = {}
        above: dict[str, float] = {}
        others = self._other_jobs if self._is_new(buckets) else []
        for name, pair in [*self._extremes, *(("other job", each) for each in others)]:
            off = pair.change_ns(buckets) - likely
            below[name] = max(below.get(name, 0.0), -off)
            above[name] = max(above.get(name, 0.0), off)
        return _Range(likely, likely - hypot(*below.values()), likely + hypot(*above.values()))

    def best(
        self, found: Sequence[Prediction], buckets: Mapping[float, Packed], now_mb: float | None
    ) -> Best:
        """Return the cap to take: the shortest step, on the GPU alone where the host decides.

        Of caps that are as good, the one that is there, else the middle one: caps to both sides of
        it are no worse either.
        """
        alone = {
            one.bucket_cap_mb: self._eager.change_ns(buckets[one.bucket_cap_mb]) for one in found
        }
        limit = min(alone.values()) + NEARLY_RATIO * self._start.step_ns
        good = [one for one in found if alone[one.bucket_cap_mb] <= limit]
        same = [one for one in good if now_mb is not None and one.bucket_cap_mb == now_mb]
        chosen = same[0] if same else good[len(good) // 2]
        now_ns = self._start.step_ns
        is_new = self._is_new(buckets[chosen.bucket_cap_mb]) or bool(self._scenario.words)
        low, high = (now_ns - chosen.high_ns, now_ns - chosen.low_ns) if is_new else (0.0, 0.0)
        return Best(
            bucket_cap_mb=chosen.bucket_cap_mb,
            step_ns=chosen.step_ns,
            gain_ns=round(now_ns - chosen.step_ns),
            gain_low_ns=round(low),
            gain_high_ns=round(high),
        )

    def bounds(self, buckets: Packed, found: Sequence[Prediction]) -> Bounds:
        """Return what no cap can beat, none of these either; all starts from the step as it is."""
        job, scenario = self._job, self._scenario
        plain = replace(scenario, free_communication=False, perfect_overlap=False)
        physics = self._known.after(self._known.point(self._start.host))
        offset = self._start.step_ns - self._point.now_ns
        free = Schedule.of(job, physics, plain).without_buckets()
        perfect = Schedule.of(job, physics, replace(plain, perfect_overlap=True))
        overlapped = offset + perfect.with_buckets(buckets).step_ns
        # Other buckets than these may take less in all, and so slow compute for less time.
        least = max(min([overlapped, *(one.step_ns for one in found)]), 0.0)
        costs = [physics.cost(size) for size in buckets.sent_bytes.tolist()]
        alone = sum(costs) + self._known.pauses.alone_ns * (len(costs) - 1)
        return Bounds(
            free_communication_ns=round(max(min(offset + free.step_ns, least), 0.0)),
            perfect_overlap_ns=round(least),
            communication_only_ns=0 if scenario.free_communication else round(alone),
        )

    def costs(self, buckets: Sequence[Packed]) -> Costs:
        """Return what of the step as it was each cause costs.

        The schedule costs what the best cap would save; bandwidth what the bytes still cost with
        that one; latency what the fixed costs of the recorded buckets do. Of a slowdown of compute
        only what was measured is a cost.
        """
        host, known = self._start.host, self._known.certain()
        schedule = self._now(known.point(host))
        whole = self._recorded(schedule).step_ns
        ways = [*buckets, *([] if self._current is None else [self._current])]
        steps = [schedule.with_buckets(each).step_ns for each in ways]
        best = int(np.argmin(steps))
        fast = self._now(known.without_bytes(host)).with_buckets(ways[best])
        quick = self._recorded(self._now(known.without_alpha(host)))
        return Costs(
            bucket_schedule_ns=max(round(whole - steps[best]), 0),
            comm_bandwidth_ns=max(round(min(steps[best], whole) - fast.step_ns), 0),
            comm_latency_ns=max(round(whole - quick.step_ns), 0),
        )

    def _now(self, physics: Physics) -> Schedule:
        return Schedule.of(self._job, physics, Scenario())

    def _recorded(self, schedule: Schedule) -> Replayed:
        return (
            schedule.recorded() if self._current is None else schedule.with_buckets(self._current)
        )
