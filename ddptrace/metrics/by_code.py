"""Rows of large columns by the code that they carry: a name's, a step's."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddptrace.intervals import IntArray

Codes = NDArray[np.integer[Any]]


def rows_by_code(codes: Codes) -> NDArray[np.intp]:
    """Return the rows in the order of their codes, which are not negative; equal ones as they are.

    numpy sorts numbers of 16 bits without comparing them, which is many times faster.
    """
    narrow = np.min_scalar_type(int(codes.max(initial=0)))
    return np.argsort(codes.astype(narrow, copy=False), kind="stable")


def sums_by_code(codes: Codes, *values: IntArray) -> list[tuple[int, ...]]:
    """Return of each code that there is, rising, how many rows have it and sums of their values."""
    known, place, calls = np.unique(codes, return_inverse=True, return_counts=True)
    sums = np.zeros((len(values), known.size), np.int64)
    for total, each in zip(sums, values, strict=True):
        np.add.at(total, place.reshape(-1), each)
    return list(zip(known.tolist(), calls.tolist(), *sums.tolist(), strict=True))


def medians_by_code(codes: Codes, values: NDArray[Any], count: int) -> list[float | None]:
    """Return the median of the values of each code below `count`; None where there is none."""
    order = np.lexsort((values, codes))
    calls = np.bincount(codes, minlength=count)
    end = np.cumsum(calls)
    has_some = calls > 0
    # Of an even number of values it is the mean of the middle two.
    lower, upper = (
        values[order[(end - calls + places)[has_some]]] for places in ((calls - 1) // 2, calls // 2)
    )
    medians: list[float | None] = [None] * count
    for code, median in zip(
        np.flatnonzero(has_some).tolist(), ((lower + upper) / 2).tolist(), strict=True
    ):
        medians[code] = median
    return medians
