"""Fits the clocks of ranks to each other, robustly: offset, drift over long recordings, spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ends: TypeAlias = NDArray[np.float64]
"""When collectives ended, a column a clock, in ns from the start of the run; NaN for no record."""

_SHORTEST_DRIFT_NS = 10e9
_FEWEST_FOR_DRIFT = 20
_CLEAR = 2.0  # how many spreads a drift must add up to over the recording
_FASTEST_PPB = 1e6  # no clock is that wrong: other collectives were compared
_MOST_POINTS = 200


@dataclass(frozen=True, slots=True)
class Fit:
    """How far one clock is ahead of another one, as `RankClock` tells it.

    `most_ns` is the most that it is ahead or behind while collectives end; `first_ns` and `last_ns`
    are when they do.
    """

    offset_ns: int
    drift_ppb: int
    spread_ns: int | None
    count: int
    first_ns: float
    last_ns: float

    @property
    def most_ns(self) -> float:
        """How far the clocks are apart at most."""
        return max(
            abs(self.offset_ns + self.drift_ppb * 1e-9 * moment)
            for moment in (self.first_ns, self.last_ns)
        )

    def behind(self, other: Fit) -> Fit:
        """Return the fit to what the other one's reference is, over the other one's clock."""
        drift = other.drift_ppb * 1e-9
        offset_ns = self.offset_ns + other.offset_ns - round(drift * self.offset_ns)
        spreads = [one for one in (self.spread_ns, other.spread_ns) if one is not None]
        return Fit(
            offset_ns=offset_ns,
            drift_ppb=self.drift_ppb + other.drift_ppb,
            spread_ns=sum(spreads) if spreads else None,
            count=self.count,
            first_ns=self.first_ns,
            last_ns=self.last_ns,
        )


def fit(ends: Ends, clock: int, reference: int) -> Fit | None:
    """Return how far a clock is ahead of the reference; None without a collective in common.

    The offset is the median difference of the ends, so that a few collectives that do not end
    together change nothing. The spread is the distance from it that nine of ten stay within.
    """
    both = ~np.isnan(ends[:, clock]) & ~np.isnan(ends[:, reference])
    mine = ends[both, clock]
    if not mine.size:
        return None
    order = np.argsort(mine, kind="stable")
    mine = mine[order]
    apart = mine - ends[both, reference][order]
    steady = _fit(mine, apart, 0)
    drifting = _fit(mine, apart, _drift_ppb(mine, apart))
    grown_ns = abs(drifting.drift_ppb) * 1e-9 * (mine[-1] - mine[0])
    is_clear = grown_ns > _CLEAR * (drifting.spread_ns or 0)
    return drifting if drifting.drift_ppb and is_clear else steady


def _fit(mine: Ends, apart: Ends, drift_ppb: int) -> Fit:
    level = apart - drift_ppb * 1e-9 * mine
    offset_ns = round(float(np.median(level)))
    spread_ns = None
    if mine.size > 1:
        spread_ns = round(float(np.sort(np.abs(level - offset_ns))[-(-9 * mine.size // 10) - 1]))
    return Fit(offset_ns, drift_ppb, spread_ns, mine.size, float(mine[0]), float(mine[-1]))


def _drift_ppb(mine: Ends, apart: Ends) -> int:
    """Return the median slope between any two of the ends (Theil and Sen); 0 if too few or near."""
    if mine.size < _FEWEST_FOR_DRIFT or mine[-1] - mine[0] < _SHORTEST_DRIFT_NS:
        return 0
    chosen = np.linspace(0, mine.size - 1, min(mine.size, _MOST_POINTS)).astype(np.intp)
    one, other = np.triu_indices(chosen.size, k=1)
    run = mine[chosen][other] - mine[chosen][one]
    rise = apart[chosen][other] - apart[chosen][one]
    slope_ppb = 1e9 * float(np.median(rise[run > 0] / run[run > 0]))
    return round(slope_ppb) if abs(slope_ppb) <= _FASTEST_PPB else 0


def estimates(choices: Sequence[Ends], order: Sequence[int]) -> dict[int, tuple[int, Fit]]:
    """Return for each clock its reference, and how far it is ahead of that.

    References are the first clocks in `order` of those that are connected by collectives. A clock
    is fitted over as few others as possible, of these over the one with which it has the most
    collectives, by the first of the `choices` that has any in common.
    """
    found: dict[int, tuple[int, Fit]] = {}
    for root in order:
        if root in found:
            continue
        found[root] = (root, Fit(0, 0, None, 0, 0.0, 0.0))
        reached = {root: found[root][1]}
        while True:
            missing = [clock for clock in order if clock not in found]
            new = next(filter(None, (_next(ends, reached, missing) for ends in choices)), {})
            if not new:
                break
            reached |= new
            found |= {clock: (root, estimate) for clock, estimate in new.items()}
    return found


def _next(ends: Ends, reached: dict[int, Fit], missing: Sequence[int]) -> dict[int, Fit]:
    """Return the fits of the missing clocks that have collectives in common with reached ones."""
    there = ~np.isnan(ends)
    most = np.zeros(ends.shape[1], np.int64)
    over = np.full(ends.shape[1], -1)
    for clock in reached:
        common = there[there[:, clock]].sum(axis=0)
        over[common > most] = clock
        most = np.maximum(most, common)
    found = {}
    for clock in missing:
        link = fit(ends, clock, int(over[clock])) if most[clock] else None
        if link is not None:
            found[clock] = link.behind(reached[int(over[clock])])
    return found
