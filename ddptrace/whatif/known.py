"""What is known of how a job computes and communicates: the likeliest, and the extremes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from ddptrace.whatif.contention import ENOUGH_RATIO, Slowed
from ddptrace.whatif.cost import Fit
from ddptrace.whatif.models import Pauses
from ddptrace.whatif.replay import Contention, Cost
from ddptrace.whatif.schedule import Physics


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """The fitted cost of a bucket, the slowdown of compute, and what of it is certain.

    `link` is how many times the bandwidth the link has after the change.
    """

    fit: Fit
    beside: Slowed
    pauses: Pauses
    link: float = 1.0

    def point(self, host: float) -> Physics:
        """Return the likeliest physics; `host` is the part of waiting for the host that stays."""
        return self._with(self.fit.curve, self.beside.ratio, host)

    def certain(self) -> Known:
        """Return what holds at least: compute is slowed by no more than kernels show."""
        if self.beside.compared_ratio >= ENOUGH_RATIO:
            return self
        return replace(self, beside=replace(self.beside, ratio=self.beside.low))

    def after(self, physics: Physics) -> Physics:
        """Return physics as it would be on the other link; only a curve has a bandwidth."""
        if self.link == 1:
            return physics
        alpha = self.fit.curve.fixed_ns
        cost = physics.cost
        return replace(physics, cost=lambda size: _faster(cost(size), alpha(size), self.link))

    def costs(self, host: float) -> Iterator[tuple[str, Physics]]:
        """Yield the physics of a cheap and of a costly link."""
        bounds = cache(self.fit.bounds)  # of one size for many buckets
        yield "cost", self._with(lambda size: bounds(size)[0], self.beside.ratio, host)
        yield "cost", self._with(lambda size: bounds(size)[1], self.beside.ratio, host)

    def extremes(self, host: float) -> Iterator[tuple[str, Physics]]:
        """Yield physics in which one thing is as far off as it may be, with its name."""
        yield from self.costs(host)
        if self.beside.low < self.beside.high:
            yield "slowdown", self._with(self.fit.curve, self.beside.low, host)
            yield "slowdown", self._with(self.fit.curve, self.beside.high, host)

    def other_jobs(self, host: float) -> Iterator[Physics]:
        """Yield the physics of jobs whose transfers are shorter and longer than the recorded."""
        ratio = 1 + self.fit.other_job_ratio
        for factor in (1 / ratio, ratio):
            yield self._with(self.fit.curve.times(factor), self.beside.ratio, host)

    def without_bytes(self, host: float) -> Physics:
        """Return the physics of a link that moves any number of bytes at once."""
        return self._with(self.fit.curve.fixed_ns, self.beside.ratio, host)

    def without_alpha(self, host: float) -> Physics:
        """Return the physics of collectives that cost nothing but their bytes."""
        alpha = self.fit.curve.fixed_ns
        found = self._with(lambda size: self.fit.curve(size) - alpha(size), self.beside.ratio, host)
        return replace(
            found, contention=replace(found.contention, pause_ns=0.0, pause_beside_ns=0.0)
        )

    def _with(self, cost: Cost, slowdown: float, host: float) -> Physics:
        pauses = self.pauses
        contention = Contention(slowdown, self.fit.contention, pauses.alone_ns, pauses.beside_ns)
        return Physics(cost, contention, host)


def _faster(whole_ns: float, alpha_ns: float, times: float) -> float:
    fixed = min(alpha_ns, whole_ns)
    return fixed + (whole_ns - fixed) / times
