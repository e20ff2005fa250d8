"""What the transfers of a run tell of its link: a fixed cost and a bandwidth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ddptrace.intervals import IntArray

_FEWEST_SIZES = 2
_WIDEST = 2.0
SMALL_BYTES = 128 * 1024
"""Below this a transfer is fixed cost on every link in use, where nothing else tells."""


@dataclass(frozen=True, slots=True)
class Link:
    """A straight line through the transfers of one operation: fixed_ns + size × ns_per_byte.

    `sizes` is how many different sizes it was fitted to. `spread_ratio` is the median of how far
    off the line the transfers are, over what the line says.
    """

    fixed_ns: float
    ns_per_byte: float
    sizes: int
    spread_ratio: float

    def time_ns(self, size_bytes: int) -> float:
        """Return what the line says of a transfer of some size."""
        return self.fixed_ns + self.ns_per_byte * size_bytes

    @property
    def bandwidth_gb_s(self) -> float | None:
        """The bandwidth of a very large transfer, in GB/s as `algbw_gb_s` counts."""
        return 1 / self.ns_per_byte if self.ns_per_byte > 0 else None


def fitted(size_bytes: IntArray, transfer_ns: IntArray) -> Link | None:
    """Return the line through transfers; None when their sizes are too much alike to tell.

    Each size counts with the median of its transfers. The slope is the median of those between all
    pairs of sizes, each weighted with how far apart they are (Theil and Sen), so that neither one
    cold transfer nor a few bytes between two sizes decide.
    """
    sizes = np.unique(size_bytes[size_bytes > 0])
    if sizes.size < _FEWEST_SIZES or sizes[-1] < _WIDEST * sizes[0]:
        return None
    middle = np.array([np.median(transfer_ns[size_bytes == size]) for size in sizes])
    first, second = np.triu_indices(sizes.size, 1)
    apart = sizes[second] - sizes[first]
    slope = max(_weighted_median((middle[second] - middle[first]) / apart, apart), 0.0)
    fixed_ns = max(float(np.median(middle - slope * sizes)), 0.0)
    line = fixed_ns + slope * sizes
    off = np.abs(middle - line) / np.maximum(line, 1)
    return Link(fixed_ns, slope, int(sizes.size), float(np.median(off)))


def _weighted_median(values: NDArray[np.float64], weights: IntArray) -> float:
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, reached[-1] / 2)])
