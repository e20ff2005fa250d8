"""Numbers on the command line: positive ones, lists of them, and what of a link can be told."""

from __future__ import annotations

import math
from typing import Annotated, TypeAlias

import typer

from ddptrace.errors import UsageError

_MOST_SHOWN = 40
_MOST = 1e12
_MOST_NUMBERS = 1000

AlphaUs: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="US", help="The fixed cost of a collective in µs, where it is known."),
]
BandwidthGbS: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="GB/S", help="The bandwidth of the link in GB/s, where it is known."),
]


def positive(option: str, text: str, *, or_zero: bool = False) -> float:
    """Return a number above 0, or 0 itself where that is allowed; UsageError for any other text."""
    wanted = "a number of 0 or more" if or_zero else "a number above 0"
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if math.isnan(number) or number > _MOST or number < 0 or (number == 0 and not or_zero):
        raise UsageError(f"{option} {text[:_MOST_SHOWN]}: give {wanted}")
    return number


def numbers(option: str, text: str) -> list[float]:
    """Return the numbers of a list such as 1,25,100, each of them once."""
    words = [word.strip() for word in text.split(",")]
    if len(words) > _MOST_NUMBERS:
        raise UsageError(
            f"{option}: {len(words)} numbers are too many; {_MOST_NUMBERS} is the most"
        )
    return list(dict.fromkeys(positive(option, word) for word in words))
