"""How long predictions take, of jobs with many parameters and for many caps.

    python benchmarks/whatif.py

Prints a line a job: its parameters, the caps, the CPU seconds, the limit. Exits with 1 beyond one.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from ddptrace.whatif.anchor import Anchoring
from ddptrace.whatif.contention import Slowed
from ddptrace.whatif.cost import Samples, fit
from ddptrace.whatif.job import Job, RankTimes
from ddptrace.whatif.known import Known
from ddptrace.whatif.models import Pauses
from ddptrace.whatif.packing import Packing
from ddptrace.whatif.progress import Moments
from ddptrace.whatif.ready import Sized
from ddptrace.whatif.scenario import Scenario
from ddptrace.whatif.scenes import Scenes
from ddptrace.whatif.schedule import packed

RANKS = 8
BACKWARD_NS = 100e6
CASES = ((200, 50, 1.0), (10_000, 20, 10.0))
"""Parameters, caps, and the seconds that they may take."""
_SEED = 9


def _moments(wall_ns: np.ndarray) -> Moments:
    return Moments(wall_ns, np.zeros_like(wall_ns), np.zeros_like(wall_ns))


def _job(parameters: int) -> Job:
    chosen = np.random.default_rng(_SEED)
    sizes = chosen.choice([4096, 16_384, 4 << 20, 16 << 20], parameters).astype(np.int64)
    ready = np.linspace(0, BACKWARD_NS, parameters)
    ranks = [
        RankTimes(
            rank,
            _moments(ready + 1000 * rank),
            _moments(ready[-1:]),
            _moments(ready[-1:]),
            _moments(np.array([5e6])),
        )
        for rank in range(RANKS)
    ]
    owner = np.zeros(parameters, np.int64)
    pieces = Sized(sizes, np.zeros(parameters, np.int32))
    return Job(tuple(ranks), pieces, owner, "parameters", (int(sizes.sum()),), None, 0)


def _samples() -> Samples:
    sizes = np.repeat(np.array([1, 4, 16, 64, 256], np.int64) << 20, 6)
    return Samples(sizes, 50_000 + sizes / 27.7, np.zeros(sizes.size))


def _seconds(parameters: int, caps: int) -> float:
    job = _job(parameters)
    begun = time.process_time()
    known = Known(fit(_samples()), Slowed(1.2, 1.1, 1.3, 1.0), Pauses())
    start = Anchoring(150e6, "unprofiled", 150e6, 1e6, 1.0)
    scenes = Scenes(job, known, start, Scenario(), None)
    packing = Packing()
    buckets = {
        float(cap): packed(job.pieces, packing, packing.limits(float(cap)))
        for cap in np.geomspace(1, 1000, caps)
    }
    found = [scenes.predicted(cap, each, 0.0) for cap, each in buckets.items()]
    best = scenes.best(found, buckets, None)
    scenes.bounds(buckets[best.bucket_cap_mb], found)
    scenes.costs(list(buckets.values()))
    return time.process_time() - begun


def main() -> int:
    """Time all cases and return the exit code."""
    failed = False
    for parameters, caps, limit in CASES:
        seconds = min(_seconds(parameters, caps) for _ in range(3))
        failed |= seconds >= limit
        print(f"{parameters} parameters, {caps} caps: {seconds:.2f} s (limit {limit:g} s)")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
