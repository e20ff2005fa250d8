"""Where the change between two sets of steps lies, and what so many steps can show.

Steps of one run are not independent: they drift, and a slow one is followed by slow ones. The
spread of a run's median is therefore estimated from blocks of consecutive steps (a circular block
bootstrap), of several runs from the medians of the runs as well. The interval is on the logarithm
of the ratio, where a factor has the same length up and down; next to a value of zero it is on the
difference.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ddptrace.check.result import Interval

CONFIDENCE = 0.99
FEW_STEPS = 5
"""Fewer steps than these tell nothing of a change."""
ENOUGH_TO_RANK = 8
"""So many steps of each the test of Mann and Whitney takes."""

_RESAMPLES = 1_000
_FEWEST_RESAMPLES = 30
_MOST_VALUES = 20_000_000
_MOST_AT_ONCE = 1_000_000  # of them in memory
_SEED = 20_240_229
_FARTHEST = math.log(1000)  # no interval reaches farther: what is beyond tells nothing any more
_OUTLIER = 4.0  # × the median deviation: a spike says nothing of how steps follow each other
_DEGREES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 30, 60, 120, math.inf)
# Student's t at 0.995, since the interval leaves out half of its risk at each end.
_T = (
    *(63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.055, 2.947, 2.845),
    *(2.750, 2.660, 2.617, 2.576),
)
_FEWEST_DEGREES = 2.0
_POWER_Z = 1.282  # the change is found in nine of ten runs

Floats = NDArray[np.float64]
Runs = Sequence[Sequence[int]]
"""The values of steps in their order, of each run of one side."""


@dataclass(frozen=True, slots=True)
class Spread:
    """How sure a median is: its variance, on the scale in use, and with how many degrees."""

    variance: float
    degrees: float


def middle(runs: Runs) -> int:
    """Return the median of steps, of several runs the median of theirs, in whole ns."""
    return int(statistics.median(int(statistics.median(run)) for run in runs))


def interval(baseline: Runs, current: Runs) -> Interval:
    """Return where the change of the median lies."""
    first, second = middle(baseline), middle(current)
    by_ratio = min(min(run) for run in (*baseline, *current)) > 0
    reach = _reach(*_spreads(baseline, current, by_ratio=by_ratio))
    change = math.log(second / first) if by_ratio else second - first
    low, high = change - reach, change + reach
    if len(baseline) == len(current) == 1:
        least, most = _outermost(baseline[0], current[0], by_ratio=by_ratio)
        low, high = min(max(low, least), change), max(min(high, most), change)
    if not by_ratio:
        return Interval(CONFIDENCE, math.floor(low), math.ceil(high), None, None)
    low = math.expm1(min(max(low, -_FARTHEST), change))
    high = math.expm1(max(min(high, _FARTHEST), change))
    return Interval(CONFIDENCE, math.floor(low * first), math.ceil(high * first), low, high)


def _outermost(
    baseline: Sequence[int], current: Sequence[int], *, by_ratio: bool
) -> tuple[float, float]:
    """Return the least and the most that the change of two runs may be, however steps follow.

    The median of a run is thought to lie no farther outside its steps than half their range.
    """
    (low, high), (later_low, later_high) = (
        _around(np.asarray(run, np.float64), by_ratio=by_ratio) for run in (baseline, current)
    )
    return later_low - high, later_high - low


def _around(values: Floats, *, by_ratio: bool) -> tuple[float, float]:
    scaled = np.log(values) if by_ratio else values
    low, high = float(scaled.min()), float(scaled.max())
    return low - (high - low) / 2, high + (high - low) / 2


def excludes_no_change(found: Interval) -> bool:
    """Tell whether an interval lies above no change altogether."""
    return found.low_ns > 0 if found.low_ratio is None else found.low_ratio > 0


def detectable_ratio(baseline: Runs, current: Runs, limit: float) -> float | None:
    """Return the least growth that nine of ten such runs show; `limit` is the growth that passes.

    None next to a value of zero, from which no ratio is.
    """
    if min(min(run) for run in (*baseline, *current)) <= 0:
        return None
    return _detectable(_spreads(baseline, current, by_ratio=True), limit)


def detectable_with(baseline: Runs, current: Runs, limit: float, steps: int) -> float | None:
    """Return the least growth that two runs of so many steps would show, as noisy as these are."""
    if min(min(run) for run in (*baseline, *current)) <= 0:
        return None
    found = [
        replace(
            spread,
            variance=spread.variance * there / steps,
            degrees=spread.degrees * steps / there,
        )
        for spread, runs in zip(
            _spreads(baseline, current, by_ratio=True), (baseline, current), strict=True
        )
        if (there := sum(map(len, runs)))
    ]
    return _detectable((found[0], found[1]), limit)


def _detectable(spreads: tuple[Spread, Spread], limit: float) -> float:
    error = math.sqrt(sum(one.variance for one in spreads))
    needed = max(_reach(*spreads), math.log1p(limit)) + _POWER_Z * error
    return math.expm1(min(needed, _FARTHEST))


def _spreads(baseline: Runs, current: Runs, *, by_ratio: bool) -> tuple[Spread, Spread]:
    scale: Callable[[Floats], Floats] = np.log if by_ratio else np.asarray
    sides = [[scale(np.asarray(run, np.float64)) for run in runs] for runs in (baseline, current)]
    between = _between(sides)
    return _spread(sides[0], between), _spread(sides[1], between)


def _between(sides: Sequence[Sequence[Floats]]) -> Spread | None:
    """Return how much medians of runs of the same side differ; None when no side has several."""
    degrees = sum(len(runs) - 1 for runs in sides)
    if not degrees:
        return None
    squares = 0.0
    for runs in sides:
        medians = np.array([np.median(run) for run in runs])
        squares += float(((medians - medians.mean()) ** 2).sum())
    return Spread(squares / degrees, degrees)


def _spread(runs: Sequence[Floats], between: Spread | None) -> Spread:
    """Return how sure the median of a side is: by the larger of what steps and what runs tell."""
    each = [_of_run(run) for run in runs]
    within = Spread(sum(one.variance for one in each) / len(each), sum(one.degrees for one in each))
    found = within if between is None or between.variance <= within.variance else between
    return replace(found, variance=found.variance / len(runs))


def _of_run(values: Floats) -> Spread:
    """Return how sure the median of one run is, from medians of its blocks put together anew.

    What few blocks tell is widened: their variance is too small by the share that one block has,
    and by how steps follow each other beyond the end of a block.
    """
    count = int(values.size)
    if count < 2:
        return Spread(0.0, 1.0)
    follow = _follow(values)
    length = _block_length(count, follow)
    medians = _medians(values, length)
    variance = float((medians - medians[0]).var(ddof=1))  # exactly 0 of equal ones
    variance *= count / max(count - length, 1) * _cut_off(length, follow)
    return Spread(variance, max(count / length - 1, 1.0))


def _medians(values: Floats, length: int) -> Floats:
    """Return the medians of a run that was put together anew from blocks of so many steps."""
    count = values.size
    random = np.random.default_rng(_SEED)
    left = max(min(_RESAMPLES, _MOST_VALUES // count), _FEWEST_RESAMPLES)
    found = []
    while left:
        rows = min(left, max(_MOST_AT_ONCE // count, 1))
        starts = random.integers(0, count, size=(rows, -(-count // length)))
        places = (starts[:, :, None] + np.arange(length)).reshape(rows, -1)[:, :count] % count
        found.append(np.median(values[places], axis=1))
        left -= rows
    return np.concatenate(found)


def _follow(values: Floats) -> float:
    """Return how much of a step's deviation the next one keeps: its lag-1 autocorrelation.

    A short series shows too little of it, by about (1 + 4ρ)/n (Marriott and Pope 1954), and
    nothing of what lasts longer than itself.
    """
    off = values - np.median(values)
    usual = float(np.median(np.abs(off)))
    if not usual:
        return 0.0
    off = np.clip(off, -_OUTLIER * usual, _OUTLIER * usual)
    off -= off.mean()
    found = float((off[1:] * off[:-1]).sum() / (off * off).sum())
    return min(max(found + (1 + 4 * found) / values.size, 0.0), 1 - 2 / values.size)


def _block_length(count: int, follow: float) -> int:
    """Return how many steps make a block: the longer, the more a step tells of the next one.

    It is the length that is best for a first-order autoregression (Carlstein 1986), and the cube
    root of the number of steps at least.
    """
    least = max(1, round(float(count ** (1 / 3))))
    best = float((math.sqrt(6) * follow / (1 - follow * follow)) ** (2 / 3) * count ** (1 / 3))
    return max(least, min(round(best), count // 3))


def _cut_off(length: int, follow: float) -> float:
    """Return how much larger the variance is than blocks show, of a first-order autoregression.

    Of the sum 1 + 2Σρᵏ = (1 + ρ)/(1 − ρ) they hold 1 + 2Σ(1 − k/length)ρᵏ up to k = length − 1.
    """
    lags = np.arange(1, length)
    held = 1 + 2 * float(((1 - lags / length) * follow**lags).sum())
    return (1 + follow) / (1 - follow) / held


def _reach(baseline: Spread, current: Spread) -> float:
    """Return how far the interval reaches to each side (Welch)."""
    variance = baseline.variance + current.variance
    if not variance:
        return 0.0
    parts = (baseline.variance**2 / baseline.degrees) + (current.variance**2 / current.degrees)
    degrees = max(variance**2 / parts, _FEWEST_DEGREES)
    return math.sqrt(variance) * _quantile(degrees)


def _quantile(degrees: float) -> float:
    """Return Student's t of the confidence: linear in 1/degrees between those of the table."""
    inverse = [1 / each for each in reversed(_DEGREES)]
    return float(np.interp(1 / degrees, inverse, tuple(reversed(_T))))


def mann_whitney(baseline: Runs, current: Runs) -> float | None:
    """Return how likely chance alone orders the steps so, if they were independent (two-sided).

    None with too few steps. It is the normal approximation, with ties and continuity corrected.
    """
    first = np.concatenate([np.asarray(run, np.int64) for run in baseline])
    second = np.concatenate([np.asarray(run, np.int64) for run in current])
    n, m = first.size, second.size
    if min(n, m) < ENOUGH_TO_RANK:
        return None
    _, place, counts = np.unique(
        np.concatenate([first, second]), return_inverse=True, return_counts=True
    )
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place.reshape(-1)]
    above = float(ranks[n:].sum()) - m * (m + 1) / 2
    ties = float((counts.astype(np.float64) ** 3 - counts).sum()) / ((n + m) * (n + m - 1))
    deviation = math.sqrt(n * m / 12 * (n + m + 1 - ties))
    if not deviation:
        return 1.0
    z = max(abs(above - n * m / 2) - 0.5, 0.0) / deviation
    return math.erfc(z / math.sqrt(2))
