"""Small numbers for the values of a large column."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ddptrace.intervals import IntArray

_LARGEST_TABLE = 1 << 24
_MOST_GAPS = 64  # for each value


def coded(values: IntArray) -> tuple[IntArray, NDArray[np.int32]]:
    """Return the distinct values, rising, and for each value its place among them."""
    if not values.size:
        return values, np.empty(0, np.int32)
    low, high = int(values.min()), int(values.max())
    if low == high:
        return values[:1], np.zeros(values.size, np.int32)
    if high - low >= min(_LARGEST_TABLE, _MOST_GAPS * values.size):
        distinct, place = np.unique(values, return_inverse=True)
        return distinct, place.reshape(-1).astype(np.int32)
    # A table of all that lie between is many times faster than a sort.
    is_there = np.zeros(high - low + 1, np.bool_)
    is_there[values - low] = True
    code = np.cumsum(is_there, dtype=np.int32)
    code -= 1
    return np.flatnonzero(is_there).astype(np.int64) + low, code[values - low]
