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
    try:
        numbers = np.fromiter(stamps, np.float64, len(stamps))
    except (TypeError, ValueError, OverflowError):
        return np.array([_one(stamp) for stamp in stamps], np.int64)
    # True also for text and whole numbers; a NaN makes it false.
    if not numbers.size or max(numbers.max(), -numbers.min()) < _EXACT_FLOAT_US:
        whole = np.floor(numbers)
        # Not rint(numbers * 1000): that is 1 ns off for a quarter of the stamps near 4e12 µs.
        fraction = np.rint((numbers - whole) * 1000)
        return whole.astype(np.int64) * 1000 + fraction.astype(np.int64)
    return _from_large(stamps)


def _from_large(stamps: Sequence[Stamp]) -> NDArray[np.int64]:
    """Return absolute stamps: exact as whole numbers or text, never as floats."""
    if set(map(type, stamps)) == {int}:
        whole = np.array(stamps, object) * 1000
        return np.where(np.abs(whole) < _LARGEST_NS, whole, NEVER_NS).astype(np.int64)
    return np.array([_one(stamp) for stamp in stamps], np.int64)


def _one(stamp: Stamp) -> int:
    if stamp is None:
        return NEVER_NS
    if isinstance(stamp, float) and abs(stamp) >= _EXACT_FLOAT_US:
        raise TextNeededError
    text = str(stamp)
    whole, _, fraction = text.partition(".")
    if (
        len(whole) < 20
        and whole.isdecimal()
        and (not fraction or fraction.isdecimal())
        and len(fraction) <= 3
    ):
        return _bounded(int(whole) * 1000 + int(fraction.ljust(3, "0")))
    try:
        return _bounded(round(Decimal(text) * 1000))
    except (InvalidOperation, ValueError, OverflowError):
        return NEVER_NS


def _bounded(ns: int) -> int:
    return ns if abs(ns) < _LARGEST_NS else NEVER_NS
