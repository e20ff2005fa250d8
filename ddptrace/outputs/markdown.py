"""A check as Markdown: for a pull request, a step's summary, a chat."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ddptrace.check.result import CheckResult, LimitResult, Outcome
from ddptrace.outputs.check import (
    change_words,
    growth_rows,
    interval_words,
    limit_words,
    shown_growth,
    shown_ms,
    side_line,
)
from ddptrace.outputs.figures import UNKNOWN
from ddptrace.wording import one_line

_MARKS: dict[Outcome, str] = {
    "pass": "✅",
    "regression": "❌",
    "inconclusive": "❔",
    "not_comparable": "❔",
}
_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|~>@-])")
_INDENT = "\u2003"


def render(result: CheckResult) -> str:
    """Return a check as Markdown: headline, limits, which part grew, notes."""
    return "\n".join(_lines(result)) + "\n"


def _lines(result: CheckResult) -> Iterator[str]:
    yield f"### {_MARKS[result.outcome]} ddptrace check: {_escaped(result.headline)}"
    yield ""
    if result.baseline.ranks or result.current.ranks:  # else nothing was read
        yield f"- baseline: {_escaped(side_line(result.baseline))}"
        yield f"- current: {_escaped(side_line(result.current))}"
    if any(one.current_ns is not None for one in result.limits):
        yield from _limits(result.limits)
    grown = shown_growth(result)
    if grown is not None:
        yield ""
        yield f"Which part grew, in the median recorded steps of rank {grown.rank}:"
        yield from _table(["ms", "baseline", "current", "change"], [*growth_rows(grown)], right=3)
    yield from _list("", result.notes)
    yield from _list("Next: ", result.next_steps)


def _limits(limits: Sequence[LimitResult]) -> Iterator[str]:
    titles = ["", "", "baseline ms", "current ms", "change", "99 % interval", "limit", "passes to"]
    yield from _table(titles, [_row(one) for one in limits], right=6)
    yield ""
    for one in limits:
        yield f"- {_escaped(one.place)}: {_escaped(one.reason)}"


def _row(one: LimitResult) -> tuple[str, ...]:
    baseline, current, longest = shown_ms(one)
    return (
        f"{_MARKS[one.outcome]} {one.outcome.replace('_', ' ')}",
        one.place,
        baseline,
        current,
        change_words(one),
        UNKNOWN if one.interval is None else interval_words(one.interval),
        limit_words(one),
        longest,
    )


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]], *, right: int) -> Iterator[str]:
    """Yield the lines of a table, of which so many columns at the end are figures."""
    left = len(titles) - right
    yield ""
    yield _cells(titles)
    yield "|" + " --- |" * left + " ---: |" * right
    for row in rows:
        yield _cells(row)


def _cells(row: Sequence[str]) -> str:
    return "|" + "".join(f" {_cell(cell)} |" for cell in row)


def _cell(text: str) -> str:
    indent = len(text) - len(text.lstrip(" "))
    return _INDENT * (indent // 2) + _escaped(text.strip())


def _list(before: str, sentences: Sequence[str]) -> Iterator[str]:
    if sentences:
        yield ""
    for sentence in sentences:
        yield f"- {before}{_escaped(sentence)}"


def _escaped(text: str) -> str:
    """Return a text that is shown as it is: no markup, no HTML, no mention of a person."""
    plain = one_line(text).replace("&", "&amp;").replace("<", "&lt;")
    return _SPECIAL.sub(r"\\\1", plain)
