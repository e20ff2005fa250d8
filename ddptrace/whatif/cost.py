"""What a collective costs by its size: straight lines fitted to the transfers of a run.

T(size) = alpha + size ÷ bandwidth, on each side of a break where the data shows one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ddptrace.intervals import IntArray
from ddptrace.metrics.link import Link, fitted

Floats = NDArray[np.float64]

ASSUMED_ALPHA_NS = 50_000.0
ASSUMED_WITHIN = 3.0
"""Where nothing tells the fixed cost, it is within this factor of what is assumed."""
REACH = 1.5
"""So many times beyond the sizes that were seen, a line is still trusted as it is."""
OUTSIDE_RATIO = 0.05
"""How much wider the interval gets with each doubling beyond that."""
ALIKE = 1.02
"""Sizes that differ by less count as one."""
MOST_SIZES = 48
RESAMPLES = 20
TWO_LINES_RATIO = 0.5
"""Two lines must leave no more than this part of what one line leaves unexplained."""
ONE_LINE_RATIO = 0.05
"""One line that is off by less in the middle is good enough."""
FEWEST_OF_LINE = 2
_SEED = 20


@dataclass(frozen=True, slots=True)
class Curve:
    """Lines by size: the last one counts whose `from_bytes` is no more than the size."""

    from_bytes: tuple[float, ...]
    alpha_ns: tuple[float, ...]
    ns_per_byte: tuple[float, ...]

    def __call__(self, size_bytes: float) -> float:
        """Return the time of a transfer in ns."""
        line = len(self.from_bytes) - 1
        while line and size_bytes < self.from_bytes[line]:
            line -= 1
        return self.alpha_ns[line] + size_bytes * self.ns_per_byte[line]

    def scaled(self, bandwidth: float) -> Curve:
        """Return the curve of a link with so many times the bandwidth and the same fixed cost."""
        return replace(self, ns_per_byte=tuple(each / bandwidth for each in self.ns_per_byte))

    def with_line(self, alpha_ns: float | None, bandwidth_gb_s: float | None) -> Curve:
        """Return the curve with a fixed cost or a bandwidth that somebody knows better."""
        if alpha_ns is None and bandwidth_gb_s is None:
            return self
        alphas = self.alpha_ns if alpha_ns is None else (alpha_ns,) * len(self.alpha_ns)
        slopes = self.ns_per_byte
        if bandwidth_gb_s is not None:
            slopes = (1 / bandwidth_gb_s,) * len(slopes)
        return Curve(self.from_bytes, alphas, slopes)


def straight(alpha_ns: float, ns_per_byte: float) -> Curve:
    """Return the curve that is one line."""
    return Curve((0.0,), (alpha_ns,), (ns_per_byte,))


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Transfers to fit: a size, a time in ns, and which part of it ran beside compute."""

    size_bytes: IntArray
    transfer_ns: Floats
    hidden: Floats

    def take(self, rows: NDArray[np.integer]) -> Samples:
        """Return the chosen rows."""
        return Samples(self.size_bytes[rows], self.transfer_ns[rows], self.hidden[rows])


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A curve with what it was fitted to, and curves of resampled data that tell how sure it is.

    `contention` is how many times longer a transfer takes beside compute; the curve is of those
    alone. `is_assumed` says that one size tells no fixed cost, so that it was assumed.
    `residual_ratio` is the median of how far off the transfers are.
    """

    curve: Curve
    others: tuple[Curve, ...]
    contention: float
    is_assumed: bool
    samples: int
    sizes: int
    smallest_bytes: int
    largest_bytes: int
    residual_ratio: float

    def bounds(self, size_bytes: float) -> tuple[float, float]:
        """Return between what a transfer of a size takes: of the resampled curves nine in ten."""
        found = sorted(curve(size_bytes) for curve in self.others)
        cut = len(found) // 20
        low, high = found[cut], found[-1 - cut]
        widen = 1 + OUTSIDE_RATIO * self.doublings_outside(size_bytes)
        return min(low, self.curve(size_bytes)) / widen, max(high, self.curve(size_bytes)) * widen

    def doublings_outside(self, size_bytes: float) -> float:
        """Return how many times a size is twice as far out as the fitted ones reach."""
        below = self.smallest_bytes / REACH / max(size_bytes, 1.0)
        above = size_bytes / (self.largest_bytes * REACH)
        return float(np.log2(max(below, above, 1.0)))

    def scaled(self, bandwidth: float) -> Fit:
        """Return the fit of a link with so many times the bandwidth."""
        return self._each(lambda curve: curve.scaled(bandwidth))

    def with_line(self, alpha_ns: float | None, bandwidth_gb_s: float | None) -> Fit:
        """Return the fit with a fixed cost or a bandwidth that somebody knows better."""
        known = self.is_assumed and alpha_ns is None
        found = self._each(lambda curve: curve.with_line(alpha_ns, bandwidth_gb_s))
        return replace(found, is_assumed=known)

    def _each(self, change: Callable[[Curve], Curve]) -> Fit:
        return replace(self, curve=change(self.curve), others=tuple(map(change, self.others)))


def fit(samples: Samples, alpha_ns: float | None = None) -> Fit:
    """Return what fits transfers of one operation in one group; there is one at least.

    `alpha_ns` is the fixed cost to assume where sizes do not tell it.
    """
    contention = _contention(samples)
    alone = samples.transfer_ns / (1 + (contention - 1) * samples.hidden)
    size = _grouped(samples.size_bytes)
    curve = _curve(size, alone)
    is_assumed = curve is None
    chooser = np.random.default_rng(_SEED)
    others: list[Curve] = []
    if curve is None:
        assumed = ASSUMED_ALPHA_NS if alpha_ns is None else alpha_ns
        factors = (1.0,) if alpha_ns is not None else (1 / ASSUMED_WITHIN, 1.0, ASSUMED_WITHIN)
        curve = _through(size, alone, assumed)
        others = [_through(size, alone, assumed * factor) for factor in factors]
    else:
        for _ in range(RESAMPLES):
            rows = chooser.integers(0, size.size, size.size)
            again = _curve(size[rows], alone[rows])
            others += [] if again is None else [again]
    off = np.abs(alone / np.array([max(curve(each), 1.0) for each in size]) - 1)
    return Fit(
        curve=curve,
        others=(curve, *others),
        contention=contention,
        is_assumed=is_assumed,
        samples=int(size.size),
        sizes=int(np.unique(samples.size_bytes).size),
        smallest_bytes=int(samples.size_bytes.min()),
        largest_bytes=int(samples.size_bytes.max()),
        residual_ratio=float(np.median(off)),
    )


def _through(size: IntArray, transfer_ns: Floats, alpha_ns: float) -> Curve:
    """Return the line with a fixed cost through the middle of transfers of about one size."""
    middle = float(np.median(transfer_ns))
    alpha_ns = min(alpha_ns, middle / 2)  # more would leave hardly anything for the bytes
    return straight(alpha_ns, (middle - alpha_ns) / max(float(np.median(size)), 1.0))


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


def _curve(size: IntArray, transfer_ns: Floats) -> Curve | None:
    """Return one line through transfers, or two where they explain much more."""
    one = _line(size, transfer_ns)
    if one is None:
        return None
    whole = straight(one.fixed_ns, one.ns_per_byte)
    off = _off(whole, size, transfer_ns)
    if np.median(off) <= ONE_LINE_RATIO:
        return whole
    best, left = whole, TWO_LINES_RATIO * float(off.sum())
    distinct = np.unique(size)
    for border in distinct[FEWEST_OF_LINE : distinct.size - FEWEST_OF_LINE + 1]:
        parts = [_line(size[mine], transfer_ns[mine]) for mine in (size < border, size >= border)]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            continue
        curve = _broken(known, float(distinct[distinct < border].max()), float(border))
        rest = float(_off(curve, size, transfer_ns).sum())
        if rest < left:
            best, left = curve, rest
    return best


def _broken(lines: Sequence[Link], below: float, above: float) -> Curve:
    """Return two lines that meet between two sizes, or change over in the middle."""
    return Curve(
        (0.0, float(np.sqrt(below * above))),
        tuple(line.fixed_ns for line in lines),
        tuple(line.ns_per_byte for line in lines),
    )


def _line(size: IntArray, transfer_ns: Floats) -> Link | None:
    return fitted(size, np.round(transfer_ns).astype(np.int64))


def _off(curve: Curve, size: IntArray, transfer_ns: Floats) -> Floats:
    expected = np.array([curve(each) for each in size.tolist()])
    off: Floats = np.abs(np.log(np.maximum(transfer_ns, 1) / np.maximum(expected, 1)))
    return off
