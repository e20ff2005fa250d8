"""Figures as findings show them: medians of what is known."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median


def middle(values: Iterable[int | None]) -> int | None:
    """Return the median of the values that are known; None without any."""
    known = [value for value in values if value is not None]
    return int(median(known)) if known else None
