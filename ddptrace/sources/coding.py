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
    if not _fits_table(values.size, low, high):
        distinct, place = np.unique(values, return_inverse=True)
        return distinct, place.reshape(-1).astype(np.int32)
    # A table of all that lie between is many times faster than a sort.
    is_there = np.zeros(high - low + 1, np.bool_)
    is_there[values - low] = True
    code = np.cumsum(is_there, dtype=np.int32)
    code -= 1
    return np.flatnonzero(is_there).astype(np.int64) + low, code[values - low]


def first_rows(values: IntArray, wanted: IntArray) -> NDArray[np.int32]:
    """Return for each wanted value the first row that has it; -1 where none has."""
    if not values.size:
        return np.full(wanted.size, -1, np.int32)
    low, high = int(values.min()), int(values.max())
    if not _fits_table(values.size, low, high):
        distinct, first = np.unique(values, return_index=True)
        place = np.minimum(np.searchsorted(distinct, wanted), distinct.size - 1)
        return np.where(distinct[place] == wanted, first[place].astype(np.int32), np.int32(-1))
    table = np.full(high - low + 2, -1, np.int32)
    # Of several rows for one place the last one stays: the first of all, backwards.
    table[values[::-1] - low] = np.arange(values.size - 1, -1, -1, dtype=np.int32)
    place = wanted - low
    place[(wanted < low) | (wanted > high)] = high - low + 1  # a place that no value has
    return table[place]


def _fits_table(size: int, low: int, high: int) -> bool:
    return high - low < min(_LARGEST_TABLE, _MOST_GAPS * size)
