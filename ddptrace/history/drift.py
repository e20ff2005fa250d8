"""Slow drift: a figure that grows over many runs, each by less than a limit.

Over the last runs, at three lengths, the test of Mann (1945) and Kendall (1975) tells whether there
is a trend at all; how much it grew is the level now against the lowest level of before, each the
median of a few runs in a row. Both have to speak: a trend alone may be too small to matter, and the
lowest of many levels is always below the usual one.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

FEWEST_RUNS = 8
"""In fewer runs chance alone orders them too often."""
MOST_RUNS = 50
"""Runs of longer ago do not count."""
RISK = 0.001
"""How often chance alone looks like a trend in runs without one, over all lengths together."""

_LENGTHS = (10, 20, MOST_RUNS)
_FEW = 15
_MOST_ALIKE = 0.9
_OUTLIER = 4.0  # × the median deviation: one slow run says nothing of how runs follow each other
_FAR_ABOVE = 6.0

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Drift:
    """How a figure changed over the last `runs` runs, in ns.

    `best_ns` is the lowest level of `level_runs` runs in a row, the first of which is at `best_at`
    from the start of the series; `now_ns` is the level of the last ones. `p_value` is how likely
    chance alone orders the runs so.
    """

    runs: int
    level_runs: int
    best_at: int
    best_ns: int
    now_ns: int
    p_value: float
    is_trend: bool

    @property
    def change_ns(self) -> int:
        """By how much the level is above the lowest one."""
        return self.now_ns - self.best_ns

    def exceeds(self, allowed_ns: Fraction) -> bool:
        """Tell whether there is a trend, and it went further than is allowed."""
        return self.is_trend and self.change_ns > allowed_ns


def drifts(values: Sequence[int]) -> list[Drift]:
    """Return what the last runs of a series show, at each length; nothing of too few runs."""
    series = values[-MOST_RUNS:]
    if len(series) < FEWEST_RUNS:
        return []
    lengths = sorted({min(length, len(series)) for length in _LENGTHS}, reverse=True)
    skipped = len(values)
    return [_drift(series[-length:], skipped - length, RISK / len(lengths)) for length in lengths]


def trend_p_value(values: Sequence[int]) -> float:
    """Return how likely runs without a trend rise as much (Mann-Kendall, one-sided).

    Runs that follow each other tell less than others, so that the variance is larger: by the
    factor of a first-order autoregression, once the trend is taken off (Yue and Wang 2004).
    """
    numbers = np.asarray(values, np.float64)
    count = numbers.size
    rises = int(np.sign(_differences(numbers)).sum())
    _, ties = np.unique(numbers, return_counts=True)
    variance = (_weight(count) - sum(_weight(int(tie)) for tie in ties)) / 18
    if rises <= 0 or not variance:
        return 1.0
    if count >= _FEW:
        variance *= _dependence(numbers)
    return math.erfc((rises - 1) / math.sqrt(2 * variance)) / 2


def _differences(numbers: Floats) -> Floats:
    """Return each later value minus each earlier one."""
    first, second = np.triu_indices(numbers.size, 1)
    return numbers[second] - numbers[first]


def _dependence(numbers: Floats) -> float:
    """Return by how much the variance is larger than that of runs that do not follow each other."""
    count = numbers.size
    first, second = np.triu_indices(count, 1)
    slope = float(np.median(_differences(numbers) / (second - first)))
    off = numbers - slope * np.arange(count)
    off -= np.median(off)
    usual = float(np.median(np.abs(off)))
    if usual * _FAR_ABOVE <= abs(slope) * (count - 1):
        return 1.0  # so far goes no noise: what is left is the shape of the trend
    off = np.clip(off, -_OUTLIER * usual, _OUTLIER * usual)
    off -= off.mean()
    found = float((off[1:] * off[:-1]).sum() / (off * off).sum())
    # A short series shows too little of it (Marriott and Pope 1954).
    found = min(max(found + (1 + 4 * found) / count, 0.0), _MOST_ALIKE)
    lags = np.arange(1, count)
    return 1 + 2 * float(((1 - lags / count) * found**lags).sum())


def _weight(count: int) -> int:
    return count * (count - 1) * (2 * count + 5)


def _drift(series: Sequence[int], start: int, risk: float) -> Drift:
    size = 3 if len(series) < _FEW else 5
    before = [
        int(statistics.median(series[at : at + size])) for at in range(len(series) - 2 * size + 1)
    ]
    best_at = min(range(len(before)), key=before.__getitem__)
    p_value = trend_p_value(series)
    return Drift(
        runs=len(series),
        level_runs=size,
        best_at=start + best_at,
        best_ns=before[best_at],
        now_ns=int(statistics.median(series[-size:])),
        p_value=p_value,
        is_trend=p_value < risk,
    )
