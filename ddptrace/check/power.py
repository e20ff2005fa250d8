"""What a number of steps can show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ddptrace.check import statistics
from ddptrace.check.figures import RunFigures
from ddptrace.check.limits import Limit
from ddptrace.check.result import Power
from ddptrace.check.samples import Lack, samples

_STEPS = (5, 10, 20, 50, 100, 200)


def power_of(
    limit: Limit, baseline: Sequence[RunFigures], current: Sequence[RunFigures]
) -> Iterator[Power]:
    """Give the least growth that these runs can show, then what others as noisy would.

    It is found in nine of ten runs. Nothing where the metric has no steps, or too few to tell.
    """
    found = samples(limit, baseline, current)
    if isinstance(found, Lack):
        return
    first, second = found
    if min(first.steps, second.steps) < statistics.FEW_STEPS:
        return
    before = statistics.middle(first.runs)
    passes = float(limit.allowed_ns(before)) / before if before else 0.0
    here = statistics.detectable_ratio(first.runs, second.runs, passes)
    yield Power(str(limit), first.steps, second.steps, here)
    others = [steps for steps in _STEPS if not steps == first.steps == second.steps]
    for steps in others if here is not None else ():
        growth = statistics.detectable_with(first.runs, second.runs, passes, steps)
        yield Power(str(limit), steps, steps, growth)
