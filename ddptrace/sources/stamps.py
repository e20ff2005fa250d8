"""Microseconds as a trace writes them, turned into integer nanoseconds without losing a digit."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddptrace.model import NEVER_NS

Stamp: TypeAlias = int | float | str | None

# Below 2**43 µs the fraction of a double still holds three decimals; above, the text is needed.
_EXACT_FLOAT_US = float(1 << 43)
_LARGEST_NS = 1 << 62


class TextNeededError(Exception):
    """The numbers had more digits than a float holds: read the same text as text."""


def to_ns(stamps: Sequence[Stamp]) -> NDArray[np.int64]:
    """Return stamps of µs as int64 ns, NEVER_NS where there is no number.

    Raises TextNeededError when floats are too large to be exact.
    """
    types = set(map(type, stamps))
    if types == {int}:
        return _from_ints(stamps)
    if types <= {int, float}:
        return _from_floats(np.array(stamps, np.float64))
    return np.array([_one(stamp) for stamp in stamps], np.int64)


def _from_ints(stamps: Sequence[Stamp]) -> NDArray[np.int64]:
    try:
        whole = np.array(stamps, np.int64)
    except OverflowError:
        return np.array([_one(stamp) for stamp in stamps], np.int64)
    if np.any(np.abs(whole) > _LARGEST_NS // 1000):
        return np.array([_one(stamp) for stamp in stamps], np.int64)
    return whole * 1000


def _from_floats(stamps: NDArray[np.float64]) -> NDArray[np.int64]:
    if stamps.size and np.abs(stamps).max() >= _EXACT_FLOAT_US:
        raise TextNeededError
    whole = np.floor(stamps)
    # Not rint(stamps * 1000): that product is 1 ns off for a quarter of the stamps near 4e12 µs.
    fraction = np.rint((stamps - whole) * 1000)
    return whole.astype(np.int64) * 1000 + fraction.astype(np.int64)


def _one(stamp: Stamp) -> int:
    if stamp is None:
        return NEVER_NS
    if isinstance(stamp, float) and abs(stamp) >= _EXACT_FLOAT_US:
        raise TextNeededError
    text = str(stamp)
    whole, _, fraction = text.partition(".")
    if whole.isdecimal() and (not fraction or fraction.isdecimal()) and len(fraction) <= 3:
        return _bounded(int(whole) * 1000 + int(fraction.ljust(3, "0")))
    try:
        return _bounded(round(Decimal(text) * 1000))
    except (InvalidOperation, ValueError, OverflowError):
        return NEVER_NS


def _bounded(ns: int) -> int:
    return ns if abs(ns) < _LARGEST_NS else NEVER_NS
