"""What predictions start from: the step without a profiler, and what the host has to do with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ddptrace.errors import RunError
from ddptrace.metrics.host_evidence import idle_by_cause
from ddptrace.metrics.measured import Measured
from ddptrace.metrics.recording import recording
from ddptrace.metrics.summary import longest_by_step
from ddptrace.whatif.document import Anchor

HOST_BOUND_RATIO = 0.05
"""A step whose GPU waits for the host for more than this part of it is no matter of buckets."""
NOISE_RATIO = 0.02
"""Runs of one job differ by about this much, even where the steps of one run do not."""
_SURE = 2.0
_OF_NORMAL = 1.4826  # from the median distance to the deviation of a normal distribution
_OF_MEDIAN = 1.2533  # how much less sure the median is than the mean
_HALVINGS = 24


@dataclass(frozen=True, slots=True)
class Anchoring:
    """What predictions start from, and how.

    `host` is the part of the recorded waiting for the host that is in a step without a profiler.
    `is_host_bound` says that the host decides how long a step takes, whatever the buckets are;
    `is_synced` that it does so by waiting for the GPU, so that the two add up. `is_distorted` says
    that nothing tells whether that is so without the profiler, too. `stalled_ratio` is the part of
    the recorded step in which the GPU waited for the host, `unexplained_ratio` by how much the
    recorded step and the one without a profiler differ for no reason that the host gives.
    """

    step_ns: float
    kind: Anchor
    recorded_ns: float
    noise_ns: float
    host: float
    is_host_bound: bool = False
    is_synced: bool = False
    is_distorted: bool = False
    stalled_ratio: float = 0.0
    unexplained_ratio: float = 0.0


def anchoring(measured: Measured, replayed: Callable[[float], float]) -> Anchoring:
    """Return what to start from; `replayed` is the recorded step with a part of that waiting."""
    times = measured.summary.step_ns
    if times is None:
        raise RunError("no step marks: without them it is not known where a step begins")
    recorded_ns = float(times.median)
    unprofiled_ns, steps = _unprofiled(measured)
    longest = longest_by_step(measured.counted).values()
    noise_ns = _noise_ns(steps or [row.step_ns or 0 for row in longest])
    step_ns = recorded_ns if unprofiled_ns is None else float(unprofiled_ns)
    kind: Anchor = "recorded" if unprofiled_ns is None else "unprofiled"
    whole, without = replayed(1.0), replayed(0.0)
    # Nor is that the profiler's doing which no host explains: the job is not always as fast.
    unexplained = max(without - (whole - recorded_ns) - step_ns, step_ns - recorded_ns, 0.0)
    noise_ns = max(noise_ns, unexplained)
    stalled = (whole - without) / max(whole, 1.0)
    plain = Anchoring(
        step_ns=step_ns,
        kind=kind,
        recorded_ns=recorded_ns,
        noise_ns=noise_ns,
        host=1.0,
        stalled_ratio=stalled,
        unexplained_ratio=unexplained / max(step_ns, 1.0),
    )
    if stalled <= HOST_BOUND_RATIO:
        return plain
    if unprofiled_ns is None:
        return _bound(measured, plain, 1.0, is_distorted=True)
    # What the replay misses, it misses without a profiler, too.
    wanted = step_ns + whole - recorded_ns
    host = _solved(replayed, wanted)
    if wanted - without <= HOST_BOUND_RATIO * step_ns:
        return replace(plain, host=host)
    return _bound(measured, plain, host, is_distorted=False)


def _bound(measured: Measured, plain: Anchoring, host: float, *, is_distorted: bool) -> Anchoring:
    return replace(
        plain,
        host=host,
        is_host_bound=True,
        is_synced=_is_synced(measured),
        is_distorted=is_distorted,
    )


def _solved(replayed: Callable[[float], float], wanted: float) -> float:
    """Return the part of the host's waiting with which the replay takes as long as wanted."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if replayed(middle) < wanted else (low, middle)
    return high


def _unprofiled(measured: Measured) -> tuple[int | None, list[int]]:
    """Return the median step without a profiler, and the steps of the rank that it is of."""
    cost = recording(measured.run)
    manifest = measured.run.manifest
    if cost is None or cost.unprofiled_step_ns is None or manifest is None:
        return None, []
    timed = [one.unprofiled.step_ns for one in manifest.ranks if one.unprofiled]
    return cost.unprofiled_step_ns, [*max(timed, key=len)] if timed else []


def _noise_ns(steps: Sequence[int]) -> float:
    """Return how far the median step may be off: of its own spread, or as runs differ."""
    if not steps:
        return 0.0
    middle = float(np.median(steps))
    spread = _OF_NORMAL * float(np.median(np.abs(np.array(steps) - middle)))
    own = _SURE * _OF_MEDIAN * spread / float(np.sqrt(len(steps)))
    # One step may be as far off as another run is.
    return max(own, spread, NOISE_RATIO * middle)


def _is_synced(measured: Measured) -> bool:
    """Tell whether the GPU waits for the host mostly since that has waited for the GPU."""
    found = [one for rows in idle_by_cause(measured) for one in rows if one is not None]
    synced_ns = sum(one.sync_ns for one in found)
    return synced_ns > sum(one.input_ns + one.launch_ns for one in found)
