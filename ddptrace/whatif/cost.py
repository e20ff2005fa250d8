"""What a collective costs by its size: straight lines fitted to the transfers of a run.

T(size) = alpha + size ÷ bandwidth, on each side of a break where the data shows one. Where the
recorder timed the link alone, it is those times, as many times as long as the transfers are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ddptrace.intervals import IntArray
from ddptrace.metrics.link import fitted
from ddptrace.whatif.curves import CostCurve, Lines, Timed, straight
from ddptrace.whatif.link_times import LinkTimes

Floats = NDArray[np.float64]

ASSUMED_ALPHA_NS = 50_000.0
ASSUMED_WITHIN = 3.0
"""Where nothing tells the fixed cost, it is within this factor of what is assumed."""
REACH = 1.25
"""So many times beyond the sizes that were seen, a line is still trusted as it is."""
OUTSIDE_RATIO = 0.25
"""How unsure the line is at twice of what was seen and beyond, or at half of it.

A library sends small messages in other ways than large ones, and changes over at once: over four
H200 transfers took between 33 % less and 28 % more than the line of other sizes says.
"""
SPREADS = 2.0
"""Transfers are this many times as far off in another job as eight in ten are in one."""
LEAST_OTHER_JOB, MOST_OTHER_JOB = 0.03, 0.2
MOST_TIMED_RATIO = 2.0
"""Where transfers of steps differ more from what was timed alone, the link was another one then."""
FEWEST_TO_SPREAD, UNKNOWN_OTHER_JOB = 20, 0.1
"""Fewer transfers tell no less than this of other jobs."""
ALIKE = 1.02
"""Sizes that differ by less count as one."""
MOST_SIZES = 48
RESAMPLES = 20
TWO_LINES_RATIO = 0.5
"""The size that fits worst must be off two lines by no more than this part of one line's."""
ONE_LINE_RATIO = 0.06
"""One line that no size is further off than this is good enough."""
LEAST_APART = 1.5
"""Sizes that are so far apart may follow two lines although they tell no single one."""
_SEED = 20


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Transfers to fit: a size, a time in ns, and which part of it ran beside compute."""

    size_bytes: IntArray
    transfer_ns: Floats
    hidden: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A curve with what it was fitted to, and curves of resampled data that tell how sure it is.

    `contention` is how many times longer a transfer takes beside compute; the curve is of those
    alone. `is_assumed` says that one size tells no fixed cost, so that it was assumed.
    `size` and `alone_ns` are the transfers, as they would be alone, `residual_ratio` the median of
    how far they are off the curve. `timed` is what the curve has its form of, None where that is
    of the transfers alone; where it was refused, the middle transfer took `refused_ratio` times as
    long.
    """

    curve: CostCurve
    others: tuple[CostCurve, ...]
    contention: float
    is_assumed: bool
    samples: int
    sizes: int
    smallest_bytes: int
    largest_bytes: int
    size: IntArray
    alone_ns: Floats
    residual_ratio: float
    timed: Timed | None = None
    refused_ratio: float | None = None

    def bounds(self, size_bytes: float) -> tuple[float, float]:
        """Return between what a transfer of a size takes: of the resampled curves nine in ten."""
        found = [curve(size_bytes) for curve in self.others]
        low, high = nine_in_ten(found, self.curve(size_bytes))
        widen = 1 + OUTSIDE_RATIO * min(self.doublings_outside(size_bytes), 1.0) ** 0.5
        return low / widen, high * widen

    @property
    def other_job_ratio(self) -> float:
        """Return by how much transfers of the sizes that were seen differ in another job."""
        off = self.alone_ns / [max(self.curve(each), 1.0) for each in self.size.tolist()]
        low, high = np.percentile(off, (10, 90))
        # One link that is not as it was timed may be so for some sizes more than for others.
        unlike = 0.0 if self.timed_ratio is None else abs(self.timed_ratio - 1) / 2
        spread = max(SPREADS * (high - low) / 2, unlike)
        known = float(np.clip(spread, LEAST_OTHER_JOB, MOST_OTHER_JOB))
        return known if self.samples >= FEWEST_TO_SPREAD else max(known, UNKNOWN_OTHER_JOB)

    def doublings_outside(self, size_bytes: float) -> float:
        """Return how many times a size is twice as far out as the fitted ones reach."""
        seen = [(self.smallest_bytes, self.largest_bytes)]
        if self.timed is not None:
            seen.append((int(self.timed.size_bytes[0]), int(self.timed.size_bytes[-1])))
        return min(_doublings(size_bytes, *each) for each in seen)

    def with_line(self, alpha_ns: float | None, bandwidth_gb_s: float | None) -> Fit:
        """Return the fit with a fixed cost or a bandwidth that somebody knows better."""
        if alpha_ns is None and bandwidth_gb_s is None:
            return self
        curve, *others = (
            each.lines.with_line(alpha_ns, bandwidth_gb_s) for each in (self.curve, *self.others)
        )
        return replace(
            self,
            curve=curve,
            others=tuple(others),
            is_assumed=self.is_assumed and alpha_ns is None,
            residual_ratio=_residual_ratio(curve, self.size, self.alone_ns),
            timed=None,
        )

    @property
    def timed_ratio(self) -> float | None:
        """How many times as long as the timed ones the transfers of steps take; None of none."""
        if self.timed is None:
            return None
        return self.curve(float(self.timed.size_bytes[-1])) / float(self.timed.time_ns[-1])


def _doublings(size_bytes: float, smallest: int, largest: int) -> float:
    below = smallest / REACH / max(size_bytes, 1.0)
    above = size_bytes / (largest * REACH)
    return float(np.log2(max(below, above, 1.0)))


def nine_in_ten(found: Sequence[float], likely: float) -> tuple[float, float]:
    """Return between what nine in ten of some values are, and the likeliest one, too."""
    ordered = sorted(found)
    cut = len(ordered) // 20
    return min(ordered[cut], likely), max(ordered[-1 - cut], likely)


def fit(samples: Samples, alpha_ns: float | None = None, timed: LinkTimes | None = None) -> Fit:
    """Return what fits transfers of one operation in one group; there is one at least.

    `alpha_ns` is the fixed cost to assume where sizes do not tell it; `timed` is what collectives
    of other sizes took while nothing else ran. That is refused where steps tell something else.
    """
    if timed is None:
        return _fit(samples, alpha_ns, None)
    curve = _timed(timed)
    ratio = float(np.median(_longer(curve, samples.size_bytes, samples.transfer_ns)))
    if not 1 / MOST_TIMED_RATIO <= ratio <= MOST_TIMED_RATIO:
        return replace(_fit(samples, alpha_ns, None), refused_ratio=ratio)
    return _fit(samples, alpha_ns, curve)


def _longer(timed: Timed, size_bytes: IntArray, transfer_ns: Floats) -> Floats:
    """Return how many times as long as timed alone each transfer took."""
    longer: Floats = transfer_ns / [timed(each) for each in size_bytes.tolist()]
    return longer


def _fit(samples: Samples, alpha_ns: float | None, timed: Timed | None) -> Fit:
    contention = _contention(samples) if timed is None else _longer_beside(samples, timed)
    alone = samples.transfer_ns / (1 + (contention - 1) * samples.hidden)
    size = _grouped(samples.size_bytes)
    curve, others, is_assumed = _fitted(size, alone, alpha_ns, timed)
    return Fit(
        curve=curve,
        others=(curve, *others),
        contention=contention,
        is_assumed=is_assumed,
        samples=int(size.size),
        sizes=int(np.unique(samples.size_bytes).size),
        smallest_bytes=int(samples.size_bytes.min()),
        largest_bytes=int(samples.size_bytes.max()),
        size=size,
        alone_ns=alone,
        residual_ratio=_residual_ratio(curve, size, alone),
        timed=timed,
    )


def _fitted(
    size: IntArray, alone_ns: Floats, alpha_ns: float | None, timed: Timed | None
) -> tuple[CostCurve, Sequence[CostCurve], bool]:
    """Return the likeliest cost, others that are possible, and whether its alpha is assumed."""
    if timed is not None:
        return *_of_timed(size, alone_ns, timed), False
    curve = _curve(size, alone_ns)
    if curve is None:
        return *_of_one_size(size, alone_ns, alpha_ns), True
    again = (_curve(size[rows], alone_ns[rows]) for rows in _resampled(size.size))
    return curve, [each for each in again if each is not None], False


def _resampled(count: int) -> Iterator[NDArray[np.integer]]:
    chooser = np.random.default_rng(_SEED)
    return (chooser.integers(0, count, count) for _ in range(RESAMPLES))


def _of_timed(size: IntArray, alone_ns: Floats, timed: Timed) -> tuple[CostCurve, list[CostCurve]]:
    """Return what was timed, as many times as long as the transfers of steps take.

    Those are slower by what else is on the link and in memory then.
    """
    longer = _longer(timed, size, alone_ns)
    again = [float(np.median(longer[rows])) for rows in _resampled(size.size)]
    return timed.times(float(np.median(longer))), [timed.times(each) for each in again]


def _timed(timed: LinkTimes) -> Timed:
    lines = _curve(timed.size_bytes, timed.time_ns)
    if lines is None:
        lines = straight(*_through_middle(timed.size_bytes, timed.time_ns, 0))
    return Timed(timed.size_bytes, timed.time_ns, lines)


def _of_one_size(
    size: IntArray, alone_ns: Floats, alpha_ns: float | None
) -> tuple[CostCurve, Sequence[CostCurve]]:
    assumed = ASSUMED_ALPHA_NS if alpha_ns is None else alpha_ns
    within = (1.0,) if alpha_ns is not None else (1 / ASSUMED_WITHIN, 1.0, ASSUMED_WITHIN)
    middle = np.array([int(np.median(size))]), np.array([float(np.median(alone_ns))])
    lines = [straight(*_through_middle(*middle, assumed * each)) for each in within]
    return lines[len(lines) // 2], lines


def _residual_ratio(curve: CostCurve, size: IntArray, alone_ns: Floats) -> float:
    expected = np.array([max(curve(each), 1.0) for each in size.tolist()])
    return float(np.median(np.abs(alone_ns / expected - 1)))


def _grouped(size_bytes: IntArray) -> IntArray:
    """Return sizes with those that are nearly alike made one, and no more than can be compared."""
    distinct = np.unique(size_bytes)
    new = np.append(True, distinct[1:] > distinct[:-1] * ALIKE)
    if new.sum() > MOST_SIZES:
        new[:] = False
        new[np.unique(np.linspace(0, distinct.size - 1, MOST_SIZES).astype(int))] = True
    first = np.flatnonzero(new)
    group = np.cumsum(new) - 1
    borders = np.append(first, distinct.size)
    middle = distinct[(borders[:-1] + borders[1:] - 1) // 2]
    grouped: IntArray = middle[group[np.searchsorted(distinct, size_bytes)]]
    return grouped


_ALONE, _BESIDE = 0.2, 0.7
_FEWEST_COMPARED = 2
_MOST_CONTENTION = 2.0


def _contention(samples: Samples) -> float:
    """Return how many times longer transfers of one size take beside compute; 1 if unknown."""
    size = _grouped(samples.size_bytes)
    ratios, weights = [], []
    for one in np.unique(size):
        alone = samples.transfer_ns[(size == one) & (samples.hidden <= _ALONE)]
        beside = samples.transfer_ns[(size == one) & (samples.hidden >= _BESIDE)]
        if min(alone.size, beside.size) >= _FEWEST_COMPARED:
            ratios.append(float(np.median(beside) / max(np.median(alone), 1.0)))
            weights.append(min(alone.size, beside.size))
    if not ratios:
        return 1.0
    return float(np.clip(np.average(ratios, weights=weights), 1.0, _MOST_CONTENTION))


def _longer_beside(samples: Samples, timed: Timed) -> float:
    """Return how many times longer transfers take beside compute, of any sizes.

    Where none of a step ran alone, what was timed did.
    """
    longer = _longer(timed, samples.size_bytes, samples.transfer_ns)
    alone, beside = longer[samples.hidden <= _ALONE], longer[samples.hidden >= _BESIDE]
    if beside.size < _FEWEST_COMPARED:
        return 1.0
    usual = float(np.median(alone)) if alone.size >= _FEWEST_COMPARED else 1.0
    return float(np.clip(float(np.median(beside)) / usual, 1.0, _MOST_CONTENTION))


def _curve(size: IntArray, transfer_ns: Floats) -> Lines | None:
    """Return one line through transfers, or two where small and large ones do not fit one."""
    distinct = np.unique(size)
    middle = np.array([np.median(transfer_ns[size == one]) for one in distinct])
    whole = _line(distinct, middle)
    if whole is None and distinct[-1] < LEAST_APART * distinct[0]:
        return None
    best = straight(*(whole or _through_middle(distinct, middle, ASSUMED_ALPHA_NS)))
    worst = _worst(best, distinct, middle)
    if worst <= ONE_LINE_RATIO:
        return best
    left = TWO_LINES_RATIO * worst
    for border in range(1, distinct.size):
        curve = _broken(distinct, middle, border)
        rest = _worst(curve, distinct, middle)
        if rest < left:
            best, left = curve, rest
    return best


def _broken(size: IntArray, middle: Floats, border: int) -> Lines:
    """Return two lines that change over between two sizes.

    Sizes too much alike for a line have the fixed cost of the other one, else the assumed one.
    """
    sides = [slice(None, border), slice(border, None)]
    lines = [_line(size[side], middle[side]) for side in sides]
    known = [line[0] for line in lines if line is not None]
    alpha_ns = known[0] if known else ASSUMED_ALPHA_NS
    both = [
        line or _through_middle(size[side], middle[side], alpha_ns)
        for line, side in zip(lines, sides, strict=True)
    ]
    between = float(np.sqrt(float(size[border - 1]) * float(size[border])))
    return Lines((0.0, between), (both[0][0], both[1][0]), (both[0][1], both[1][1]))


def _line(size: IntArray, middle: Floats) -> tuple[float, float] | None:
    """Return fixed cost and ns a byte of the line through some sizes; None where they tell none.

    Where it would have to begin below 0 it begins there, and goes through the middle of the rest.
    """
    line = fitted(size, np.round(middle).astype(np.int64))
    if line is None:
        return None
    return (line.fixed_ns, line.ns_per_byte) if line.fixed_ns else _through_middle(size, middle, 0)


def _through_middle(size: IntArray, middle: Floats, alpha_ns: float) -> tuple[float, float]:
    """Return the line with a fixed cost through the middle of some sizes.

    The fixed cost is no more than half of what the fastest of them takes, so that bytes cost, too.
    """
    alpha_ns = min(alpha_ns, float(middle.min()) / 2)
    return alpha_ns, float(np.median((middle - alpha_ns) / np.maximum(size, 1)))


def _worst(curve: Lines, size: IntArray, middle: Floats) -> float:
    """Return how far the size is off that fits a curve worst."""
    expected = np.array([curve(each) for each in size.tolist()])
    return float(np.abs(np.log(np.maximum(middle, 1) / np.maximum(expected, 1))).max())
