"""How a check is said: its headline, what to know beside it, what to do next."""

from __future__ import annotations

from collections.abc import Sequence

from ddptrace.check.figures import Fact
from ddptrace.check.result import FactDifference, LimitResult, Outcome
from ddptrace.check.statistics import CONFIDENCE, FEW_STEPS
from ddptrace.wording import counted, one_line, ranges

_NAMES = {
    "gpu": "GPU",
    "world_size": "world size",
    "measured": "times of",
    "recorded": "figures from",
    "options": "profiler options",
    "step_mark": "end of a step",
    "buckets": "gradient buckets",
    "cuda_of_driver": "CUDA that the driver runs",
}
_MOST_BUCKETS = 6
_FEWEST, _NS = 2, 6  # decimals of a ms


def percent(ratio: float, decimals: int = 1) -> str:
    """Return a change as percent, with its sign."""
    return f"{round(100 * ratio, decimals) + 0.0:+.{decimals}f} %"  # which is never -0.0


def decimals(time_ns: int, most_ns: int) -> int:
    """Return how many decimals of a ms tell a time from the longest that passes; 2 at least."""
    if time_ns == most_ns:
        return _FEWEST
    shown = range(_FEWEST, _NS)
    return next((n for n in shown if f"{time_ns / 1e6:.{n}f}" != f"{most_ns / 1e6:.{n}f}"), _NS)


def headline(
    outcome: Outcome, limits: Sequence[LimitResult], forbidding: Sequence[FactDifference]
) -> str:
    """Return the outcome in one sentence."""
    if forbidding:
        return f"not comparable: {'; '.join(map(difference_words, forbidding))}"
    mine = [one for one in limits if one.outcome == outcome]
    if outcome == "pass":
        return f"passed: {counted(len(limits), 'limit')} kept"
    words = {
        "regression": "regression",
        "inconclusive": "inconclusive",
        "not_comparable": "not comparable",
    }[outcome]
    return f"{words}: {'; '.join(f'{one.place}: {one.reason}' for one in mine)}"


def difference_words(one: FactDifference) -> str:
    """Return what of two runs is not the same, in words."""
    name = _NAMES.get(one.name, one.name.replace("_", " "))
    return f"{name}: {_value(one.name, one.baseline)} vs {_value(one.name, one.current)}"


def _value(name: str, value: Fact | None) -> str:
    if value is None:
        return "not told"
    if name == "ranks" and isinstance(value, list):
        return ranges(value) or "none"
    if isinstance(value, list):
        shown = ", ".join(f"{size / 1e6:.2f}" for size in value[:_MOST_BUCKETS])
        more = f" and {len(value) - _MOST_BUCKETS} more" if len(value) > _MOST_BUCKETS else ""
        return f"{len(value)} of {shown}{more} MB"
    return one_line(value)


def untold_note(found: Sequence[FactDifference]) -> list[str]:
    """Return a note on what only one side tells, so that it could not be held against the other."""
    lacking: dict[str, list[str]] = {"baseline": [], "current run": []}
    for one in found:
        if one.baseline is None:
            lacking["baseline"].append(one.name)
        elif one.current is None:
            lacking["current run"].append(one.name)
    return [
        f"not told of the {side}, so not compared: {', '.join(names)}"
        for side, names in lacking.items()
        if names
    ]


def allowed_note(found: Sequence[FactDifference]) -> list[str]:
    """Return a note for each difference that was allowed."""
    return [
        f"allowed to differ: {difference_words(one)}"
        for one in found
        if one.allowed and None not in (one.baseline, one.current)
    ]


def second_opinion(one: LimitResult) -> list[str]:
    """Return a note where the test of Mann and Whitney says something else than the interval."""
    if one.p_value is None or one.outcome not in ("regression", "inconclusive"):
        return []
    is_sure = one.p_value < 1 - CONFIDENCE
    if is_sure == (one.outcome == "regression"):
        return []
    said = "the steps as a whole are longer" if is_sure else "the order of the steps may be chance"
    return [f"Mann-Whitney's test says otherwise (p = {one.p_value:.3g}): {said}"]


def refresh_note(limits: Sequence[LimitResult]) -> list[str]:
    """Return a note for each metric that shrank by more than its limit: what then passes unseen."""
    return [
        f"{one.place} is {percent(one.change_ratio or 0.0)}: save a new baseline, or later growth "
        f"of up to {percent(_unseen(one))} from today's passes unseen"
        for one in limits
        if _shrank(one)
    ]


def _shrank(one: LimitResult) -> bool:
    if one.change_ns is None or not one.current_ns or one.allowed_ns is None:
        return False
    is_sure = one.interval is not None and one.interval.high_ns < 0
    return is_sure and -one.change_ns > one.allowed_ns


def _unseen(one: LimitResult) -> float:
    most_ns = (one.baseline_ns or 0) + (one.allowed_ns or 0)
    return most_ns / (one.current_ns or 1) - 1


def next_steps(
    outcome: Outcome, limits: Sequence[LimitResult], forbidding: Sequence[FactDifference]
) -> list[str]:
    """Return what to do now, a sentence each."""
    if forbidding:
        names = ",".join(one.name for one in forbidding)
        return [
            "record both runs alike, or save a baseline of the new kind with --save-baseline; "
            f"to compare all the same: --allow {names}"
        ]
    if outcome == "regression":
        return ["where it went: ddptrace compare BASELINE-RUN RUN; if it is meant: --save-baseline"]
    if outcome == "inconclusive":
        few = any(one.interval is None for one in limits if one.outcome == "inconclusive")
        more = f"at least {FEW_STEPS} that count" if few else "see --power for how many"
        return [
            f"record more steps ({more}): ddptrace capture --timed N --steps N; or several runs"
        ]
    if any(_shrank(one) for one in limits):
        return ["keep the gain: --save-baseline"]
    return []
