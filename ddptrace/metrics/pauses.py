"""Where the host did nothing that was recorded for long: between two steps, or inside one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ddptrace.intervals import IntArray, Intervals
from ddptrace.kernels import Kind
from ddptrace.metrics.host_work import HostWork, Told
from ddptrace.metrics.recorded import Recorded
from ddptrace.model import NEVER_NS


@dataclass(frozen=True, slots=True)
class Limit:
    """From when on a silence is a pause: both in ns and as a part of its step."""

    ns: int
    ratio: float


LIMITS: dict[Told, Limit] = {
    # Python between operators took 1.2 ms in healthy steps, and 1 % of a step of 5,600 launches.
    "operators": Limit(1_500_000, 0.02),
    # Without operators their own time is silent too: 2.5 ms, 2.9 % of a step.
    "calls": Limit(3_000_000, 0.04),
    "launches": Limit(3_000_000, 0.04),
}


@dataclass(frozen=True, slots=True, eq=False)
class Pauses:
    """Long silences of the threads that launch: those of the input, and all others.

    The input's are before a step's first kernel, in recordings that do not tell of the data loader
    itself: where they do, the host was silent elsewhere.
    """

    of_input: Intervals
    others: Intervals


def pauses(recorded: Recorded, host: HostWork) -> Pauses:
    """Return the silences of the host that are too long to be work between two launches."""
    steps = recorded.steps
    silent = host.active.gaps(int(steps.start_ns[0]), int(steps.end_ns[-1]))
    limit = LIMITS[host.told]
    if steps.marks[0] is None:  # nothing tells where a step starts
        long = silent.end - silent.start >= limit.ns
        return Pauses(Intervals.empty(), Intervals(silent.start[long], silent.end[long]))
    step, first_ns, last_ns = _kernel_launches(recorded)
    following = np.searchsorted(first_ns, silent.end)
    known = following < step.size
    previous_ns = np.where(following > 0, last_ns[np.maximum(following - 1, 0)], NEVER_NS)
    at_start = known & (silent.start >= previous_ns)
    before_kernels = at_start if host.loader is None else np.zeros_like(at_start)
    place = np.clip(np.where(at_start, following, following - 1), 0, step.size - 1)
    window_ns = (steps.end_ns - steps.start_ns)[step[place]]
    long = silent.end - silent.start >= np.maximum(limit.ns, limit.ratio * window_ns)
    return Pauses(
        *(
            Intervals(silent.start[rows], silent.end[rows])
            for rows in (long & before_kernels, long & ~before_kernels)
        )
    )


def _kernel_launches(recorded: Recorded) -> tuple[NDArray[np.intp], IntArray, IntArray]:
    """Return the steps that have kernels, with the first and the last launch of one in each.

    The copies of a batch may well be launched before the host waits for the next one.
    """
    ops, owner = recorded.trace.ops, recorded.steps.owner
    kernel = (owner >= 0) & (ops.kind != Kind.MEM)
    if not kernel.any():
        kernel = owner >= 0
    launch_ns, step = ops.launch_ns[kernel], owner[kernel]
    used = np.flatnonzero(np.bincount(step))
    first_ns = np.full(used[-1] + 1, np.iinfo(np.int64).max)
    last_ns = np.full(used[-1] + 1, NEVER_NS)
    np.minimum.at(first_ns, step, launch_ns)
    np.maximum.at(last_ns, step, launch_ns)
    return used, first_ns[used], last_ns[used]
