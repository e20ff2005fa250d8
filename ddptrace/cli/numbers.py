"""Numbers on the command line: positive ones, lists of them, and what of a link can be told."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, TypeAlias

import typer

from ddptrace.errors import UsageError

_MOST_SHOWN = 40
_MOST_NUMBERS = 1000
_MOST_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least and the most that a number may be: beyond, no job is, and arithmetic overflows."""

    least: float
    most: float


MIB = Bounds(1e-6, 1e9)
"""Sizes of buckets, and of all gradients."""
BANDWIDTH = Bounds(1e-3, 1e6)
"""In GB/s, and in MiB/ms."""
TIMES = Bounds(1e-3, 1e3)
MS = Bounds(0, 1e7)
US = Bounds(0, 1e7)

AlphaUs: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="US", help="The fixed cost of a collective in µs, where it is known."),
]
BandwidthGbS: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="GB/S", help="The bandwidth of the link in GB/s, where it is known."),
]


def bounded(option: str, text: str, bounds: Bounds, *, shown: str | None = None) -> float:
    """Return the number in a text; UsageError, with the bounds, for any outside them or no number.

    `shown` is what was typed, where the text is only a part of that.
    """
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not bounds.least <= number <= bounds.most:  # nor is nan
        typed = (text if shown is None else shown)[:_MOST_SHOWN] or "''"
        wanted = f"a number from {_plain(bounds.least)} to {_plain(bounds.most)}"
        raise UsageError(f"{option} {typed}: give {wanted}")
    return number


def _plain(number: float) -> str:
    return f"{number:f}".rstrip("0").rstrip(".") if number < 1 else f"{number:.0f}"


def numbers(option: str, text: str, bounds: Bounds) -> list[float]:
    """Return the numbers of a list such as 1,25,100, each of them once."""
    words = [word.strip() for word in text.split(",")]
    if len(words) > _MOST_NUMBERS:
        raise UsageError(
            f"{option}: {len(words)} numbers are too many; {_MOST_NUMBERS} is the most"
        )
    return list(dict.fromkeys(bounded(option, word, bounds, shown=word or text) for word in words))


def processes(text: str) -> int:
    """Return the number of processes to read with; UsageError, in one line, for any other text."""
    number = int(text[:_MOST_DIGITS]) if text.isdecimal() else 0
    if not number:
        typed = text[:_MOST_SHOWN] or "''"
        raise UsageError(f"--jobs {typed}: give a whole number of 1 or more")
    return number
