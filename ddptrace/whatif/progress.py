"""How far a rank's compute had come at any moment of a recorded step.

A moment is three lengths since the step began: all time, what of it the GPU waited for the host,
and what of the rest ran beside the buckets. From them follows how much compute that is on a host
that is as fast as one likes, without communication.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddptrace.intervals import IntArray, Intervals
from ddptrace.kernels import Kind
from ddptrace.metrics.recorded import Recorded
from ddptrace.model import NEVER_NS

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Moments of a step, as lengths in ns since it began.

    `beside_ns` is the part of `wall_ns` − `host_ns` that ran beside the reduction of buckets.
    """

    wall_ns: Floats
    host_ns: Floats
    beside_ns: Floats

    def compute_ns(self, host: float, slowdown: float) -> Floats:
        """Return how much compute had run alone: `host` is the part of waiting that stays."""
        beside = self.beside_ns * (1 - 1 / slowdown)
        return self.wall_ns - (1 - host) * self.host_ns - beside

    def __sub__(self, other: Moments) -> Moments:
        return Moments(
            self.wall_ns - other.wall_ns,
            self.host_ns - other.host_ns,
            self.beside_ns - other.beside_ns,
        )

    def take(self, rows: Any) -> Moments:  # noqa: ANN401  # whatever numpy takes for an index
        """Return the chosen moments."""
        return Moments(self.wall_ns[rows], self.host_ns[rows], self.beside_ns[rows])


def joined(several: list[Moments]) -> Moments:
    """Return the medians of the same moments in several steps."""
    return Moments(
        *(
            np.median([getattr(one, name) for one in several], axis=0)
            for name in ("wall_ns", "host_ns", "beside_ns")
        )
    )


@dataclass(frozen=True, slots=True, eq=False)
class Progress:
    """A recorded step of a rank: when its GPU waited for the host, and when buckets were reduced.

    `work_end_ns` are the ends of all but the buckets, by their starts in `work_start_ns`.
    """

    start_ns: int
    end_ns: int
    waiting: Intervals
    reducing: Intervals
    work_start_ns: IntArray
    work_end_ns: IntArray

    @classmethod
    def of(cls, recorded: Recorded, at: int, is_bucket: NDArray[np.intp]) -> Progress:
        """Return the step at a place; `is_bucket` are the operations that reduce buckets."""
        ops = recorded.trace.ops
        start_ns, end_ns = (
            int(each[at]) for each in (recorded.steps.start_ns, recorded.steps.end_ns)
        )
        own = recorded.steps.own(at)
        work = np.setdiff1d(own, is_bucket)
        work = work[np.argsort(ops.start_ns[work], kind="stable")]
        first, last = ops.start_ns[work], ops.end_ns[work]
        before = np.maximum.accumulate(np.append(start_ns, last))[:-1]
        # Launched only when all before it had ended: the GPU had nothing to do for that long.
        late = (ops.launch_ns[work] != NEVER_NS) & (ops.launch_ns[work] >= before)
        late &= ops.kind[work] != Kind.COMM
        waiting = Intervals.union_of(before[late], np.maximum(first[late], before[late]))
        buckets = Intervals.union_of(ops.start_ns[is_bucket], ops.end_ns[is_bucket])
        return cls(start_ns, end_ns, waiting, buckets - waiting, first, last)

    def at(self, moments_ns: IntArray) -> Moments:
        """Return how far the step had come at some moments."""
        origin = np.full(moments_ns.size, self.start_ns)
        return Moments(
            (moments_ns - self.start_ns).astype(np.float64),
            self.waiting.length_in(origin, moments_ns).astype(np.float64),
            self.reducing.length_in(origin, moments_ns).astype(np.float64),
        )

    def compute_end_ns(self, before_ns: int) -> int:
        """Return when the last of what began before a moment had ended."""
        mine = self.work_end_ns[self.work_start_ns < before_ns]
        return int(mine.max(initial=self.start_ns))
