"""What every output for machines says of a limit: how bad it is, and its values in one line."""

from __future__ import annotations

from typing import Literal, TypeAlias

from ddptrace.check.judge import OnInconclusive
from ddptrace.check.result import LimitResult
from ddptrace.outputs.check import change_words, interval_words, limit_words, shown_ms
from ddptrace.wording import one_line

Grade: TypeAlias = Literal["passed", "doubtful", "failed", "unknown"]
"""How a limit went for a pipeline: `doubtful` is a doubt that was asked not to stop it."""


def grade(one: LimitResult, on_inconclusive: OnInconclusive) -> Grade:
    """Return how a limit went, in the way that the exit code has it."""
    if one.outcome == "inconclusive":
        grades: dict[OnInconclusive, Grade] = {
            "error": "unknown",
            "pass": "doubtful",
            "fail": "failed",
        }
        return grades[on_inconclusive]
    if one.outcome == "regression":
        return "failed"
    return "passed" if one.outcome == "pass" else "unknown"


def name(one: LimitResult) -> str:
    """Return a name of a limit that is the same in every run and no other limit's."""
    drift = "" if one.over_runs is None else ", drift"
    return one_line(f"{one.limit}{drift}")


def values(one: LimitResult) -> str:
    """Return the values of a limit in one line: times, change, interval, limit."""
    if one.current_ns is None:
        return f"{one.place}: {one_line(one.reason)}"
    before, now, to = shown_ms(one)
    interval = "" if one.interval is None else f", 99 % interval {interval_words(one.interval)}"
    return (
        f"{one.place}: {before} -> {now} ms, change "
        f"{change_words(one)}{interval}, limit {limit_words(one)}: passes to {to} ms"
    )
