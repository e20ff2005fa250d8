"""The time of a collective by its size: lines, or what was timed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ddptrace.intervals import IntArray


class CostCurve(Protocol):
    """How long a collective takes while nothing runs beside it."""

    def __call__(self, size_bytes: float) -> float:
        """Return the time of one of so many bytes in ns."""
        ...

    def fixed_ns(self, size_bytes: float) -> float:
        """Return what of that time is not of its bytes."""
        ...

    def times(self, factor: float) -> CostCurve:
        """Return the cost of collectives that take so many times as long."""
        ...

    @property
    def lines(self) -> Lines:
        """The lines that come nearest."""
        ...


@dataclass(frozen=True, slots=True)
class Lines:
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

    def fixed_ns(self, size_bytes: float) -> float:
        """Return what of the time of a transfer is not of its bytes."""
        flat = replace(self, ns_per_byte=(0.0,) * len(self.ns_per_byte))
        return flat(size_bytes)

    def times(self, factor: float) -> Lines:
        """Return the lines of transfers that take so many times as long."""
        alphas, slopes = (
            tuple(each * factor for each in both) for both in (self.alpha_ns, self.ns_per_byte)
        )
        return Lines(self.from_bytes, alphas, slopes)

    def with_line(self, alpha_ns: float | None, bandwidth_gb_s: float | None) -> Lines:
        """Return the lines with a fixed cost or a bandwidth that somebody knows better."""
        alphas = self.alpha_ns if alpha_ns is None else (alpha_ns,) * len(self.alpha_ns)
        slopes = self.ns_per_byte
        if bandwidth_gb_s is not None:
            slopes = (1 / bandwidth_gb_s,) * len(slopes)
        return Lines(self.from_bytes, alphas, slopes)

    @property
    def lines(self) -> Lines:
        """These."""
        return self


def straight(alpha_ns: float, ns_per_byte: float) -> Lines:
    """Return one line."""
    return Lines((0.0,), (alpha_ns,), (ns_per_byte,))


@dataclass(frozen=True, slots=True, eq=False)
class Timed:
    """What was timed, of two or more rising sizes: times that never fall, with lines between them.

    `lines` are those that come nearest to all of it.
    """

    size_bytes: IntArray
    time_ns: NDArray[np.float64]
    lines: Lines

    def __call__(self, size_bytes: float) -> float:
        """Return the time of a transfer in ns.

        Beyond the largest size bytes cost what they do up to it; below the smallest one the first
        line goes on.
        """
        largest = float(self.size_bytes[-1])
        if size_bytes < self.size_bytes[0]:
            return self._begin_ns + size_bytes * self._first_slope
        return float(np.interp(size_bytes, self.size_bytes, self.time_ns)) * max(
            size_bytes / largest, 1.0
        )

    def fixed_ns(self, size_bytes: float) -> float:
        """Return what of that time is not of its bytes: where the first line begins."""
        return self._begin_ns

    def times(self, factor: float) -> Timed:
        """Return what would be timed if all took so many times as long."""
        return Timed(self.size_bytes, self.time_ns * factor, self.lines.times(factor))

    @property
    def _first_slope(self) -> float:
        """Return the ns of a byte up to the second size; no line begins below 0."""
        (one, other), (short, long) = self.size_bytes[:2].tolist(), self.time_ns[:2].tolist()
        return float(min((long - short) / (other - one), short / one))

    @property
    def _begin_ns(self) -> float:
        return float(self.time_ns[0] - self.size_bytes[0] * self._first_slope)
