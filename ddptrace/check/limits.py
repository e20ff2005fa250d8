"""The limits of a check as they are written: `step:5%`, `exposed_comm@0:20%,min=1ms`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction

from ddptrace.check.figures import METRICS
from ddptrace.errors import UsageError
from ddptrace.wording import one_line

DEFAULT = "step:3%,min=50us"
FLOOR_NS = 50_000
SLOWEST = "slowest"
_NS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9}
_NUMBER = r"([0-9]{1,15}(?:\.[0-9]{1,15})?|\.[0-9]{1,15})"
_PERCENT = re.compile(rf"{_NUMBER}\s*%")
_TIME = re.compile(rf"{_NUMBER}\s*({'|'.join(_NS)})")
_LARGEST_RANK = 1_000_000
_HOW = "write NAME[@RANK]:5%[,min=1ms], or a time in the place of the percentage"


@dataclass(frozen=True, slots=True)
class Limit:
    """By how much a metric may grow: a part of the baseline or a time, one of which is None.

    `rank` is None for the rank on which the metric is largest. A change up to `floor_ns` passes.
    """

    metric: str
    rank: int | None = None
    ratio: Fraction | None = None
    ns: Fraction | None = None
    floor_ns: Fraction = Fraction(FLOOR_NS)

    def __str__(self) -> str:
        """Return the limit as it may be written, with all that it leaves to defaults."""
        where = SLOWEST if self.rank is None else self.rank
        much = _time(self.ns) if self.ratio is None else f"{self.percent}%"
        return f"{self.metric}@{where}:{much},min={_time(self.floor_ns)}"

    @property
    def percent(self) -> str | None:
        """The part of the baseline as percent, in full decimals; None for a time."""
        return None if self.ratio is None else _decimal(self.ratio * 100)

    def allowed_ns(self, baseline_ns: int) -> Fraction:
        """Return the largest change that passes; of no baseline a part is nothing."""
        much = self.ns if self.ratio is None else self.ratio * baseline_ns
        return max(much or Fraction(0), self.floor_ns)


def parse(text: str) -> Limit:
    """Return the limit that a text states; UsageError, in one line, when it states none."""
    words, rank = _without_rank(text.strip(), text)
    name, colon, rest = words.partition(":")
    name, of_name = _without_rank(name.strip(), text)
    if rank is not None and of_name is not None:
        raise _wrong(text, "names two ranks")
    _check_metric(name, text)
    if not colon:
        raise _wrong(text, "states no limit")
    much, *more = [word.strip() for word in rest.split(",")]
    at = of_name if of_name is not None else rank
    return Limit(
        metric=name,
        rank=None if at in (None, SLOWEST) else _rank(str(at), text),
        ratio=_ratio(much),
        ns=None if _PERCENT.fullmatch(much) else _ns(much, text),
        floor_ns=_floor(more, text),
    )


def _without_rank(words: str, text: str) -> tuple[str, str | None]:
    """Return some words without the rank that stands behind their only @, and that."""
    before, at, rank = words.rpartition("@")
    if not at or ":" in rank:
        return words, None
    if not rank.strip():
        raise _wrong(text, "names no rank after @")
    return before.strip(), rank.strip()


def _rank(word: str, text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,7}", word) or int(word) > _LARGEST_RANK:
        raise _wrong(text, f"{one_line(word)[:20]!r} is no rank: a number, or {SLOWEST}")
    return int(word)


def _check_metric(name: str, text: str) -> None:
    if name in METRICS:
        return
    close = get_close_matches(name.removesuffix("_ns"), METRICS, n=3, cutoff=0.5) or METRICS
    shown = f"{name[:40]!r}" if name else "nothing before the colon"
    raise _wrong(text, f"{one_line(shown)} is no metric; there is {', '.join(close)}")


def _ratio(word: str) -> Fraction | None:
    found = _PERCENT.fullmatch(word)
    return None if found is None else Fraction(found[1]) / 100


def _ns(word: str, text: str) -> Fraction:
    found = _TIME.fullmatch(word)
    if found is None:
        raise _wrong(text, f"{one_line(word)[:20]!r} is neither a percentage nor a time (ns … s)")
    return Fraction(found[1]) * _NS[found[2]]


def _floor(words: list[str], text: str) -> Fraction:
    if not words:
        return Fraction(FLOOR_NS)
    key, equals, value = (part.strip() for part in words[0].partition("="))
    if words[1:] or key != "min" or not equals:
        raise _wrong(text, "after the limit only min=TIME may follow")
    return Fraction(0) if re.fullmatch(r"0+(\.0+)?", value) else _ns(value, text)


def _wrong(text: str, why: str) -> UsageError:
    return UsageError(f"--fail-on {one_line(text)[:60]}: {why}; {_HOW}")


def _time(ns: Fraction | None) -> str:
    """Return a time in the largest unit in which it has no more digits than it needs."""
    value = ns or Fraction(0)
    unit = next((name for name in ("s", "ms", "us") if value >= _NS[name]), "ns")
    return f"{_decimal(value / _NS[unit])}{unit}"


def _decimal(value: Fraction) -> str:
    """Return a decimal fraction in full."""
    whole, digits = divmod(value, 1)
    text = f"{round(digits * 10**30):030d}".rstrip("0")
    return f"{int(whole)}.{text}" if text else f"{int(whole)}"
