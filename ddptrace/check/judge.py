"""Whether runs became slower than their baseline: each limit, and all of them together."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

from ddptrace.check import statistics
from ddptrace.check.figures import STEP, RunFigures, Source, distinct, longest
from ddptrace.check.fingerprint import check_names, differences, is_unlike
from ddptrace.check.growth import growth
from ddptrace.check.limits import DEFAULT, Limit, parse
from ddptrace.check.power import power_of
from ddptrace.check.result import (
    CheckedRun,
    CheckResult,
    ExitCode,
    FactDifference,
    Growth,
    Interval,
    LimitResult,
    Outcome,
    Steps,
)
from ddptrace.check.samples import Lack, Sample, SideName, repeated_note, samples, step_notes
from ddptrace.check.words import (
    allowed_note,
    decimals,
    headline,
    next_steps,
    percent,
    refresh_note,
    second_opinion,
    untold_note,
)
from ddptrace.errors import UsageError
from ddptrace.wording import counted, one_line

OnInconclusive: TypeAlias = Literal["error", "pass", "fail"]
"""What a check makes of a change of which it cannot be told whether it is one."""


def on_inconclusive(word: str) -> OnInconclusive:
    """Return what a word asks for; UsageError for any other word."""
    for known in get_args(OnInconclusive):
        if word == known:
            return known  # type: ignore[no-any-return]
    raise UsageError(f"--inconclusive {one_line(word)[:20]}: give error, pass or fail")


@dataclass(frozen=True, slots=True)
class Rules:
    """What a check holds runs to: limits, what may be unlike, and what it makes of doubt."""

    limits: tuple[Limit, ...] = (parse(DEFAULT),)
    allowed: frozenset[str] = frozenset()
    inconclusive: OnInconclusive = "error"
    power: bool = False


def check(
    baseline: Sequence[RunFigures], current: Sequence[RunFigures], rules: Rules
) -> CheckResult:
    """Return how runs stand against their baseline; UsageError where there is none of either."""
    if not baseline or not current:
        raise UsageError("there is no run to check, or none to hold it against")
    given = (len(baseline), len(current))
    baseline, current = distinct(baseline), distinct(current)
    found = unlike(baseline, current, rules.allowed)
    forbidding = [one for one in found if is_unlike(one)]
    limits = [
        # Of unlike runs no figure is set beside another.
        _result(limit, "not_comparable", "the runs are unlike")
        if forbidding
        else _judge(limit, baseline, current)
        for limit in rules.limits
    ]
    outcome = _outcome(limits, forbidding)
    shown = rules.limits if rules.power and not forbidding else ()
    return CheckResult(
        outcome=outcome,
        exit_code=_exit_code(outcome, rules.inconclusive),
        headline=headline(outcome, limits, forbidding),
        baseline=_side(baseline),
        current=_side(current),
        limits=limits,
        differences=found,
        growth=None if forbidding else which_grew(baseline, current, limits),
        power=[each for limit in shown for each in power_of(limit, baseline, current)],
        notes=[
            *repeated_note("baseline", given[0], baseline),
            *repeated_note("current run", given[1], current),
            *_notes(baseline, current, limits, found),
        ],
        next_steps=next_steps(outcome, limits, forbidding),
    )


def not_checked(
    rules: Rules, why: str, baselines: Sequence[str], runs: Sequence[str]
) -> CheckResult:
    """Return the result of a check that an error ended before anything was compared."""
    return CheckResult(
        outcome="not_comparable",
        exit_code=2,
        headline=f"not checked: {one_line(why)}",
        baseline=CheckedRun(list(baselines), [], 0, 0),
        current=CheckedRun(list(runs), [], 0, 0),
        limits=[_result(limit, "not_comparable", one_line(why)) for limit in rules.limits],
    )


def with_more(result: CheckResult, more: Sequence[LimitResult], rules: Rules) -> CheckResult:
    """Return a result with the outcome of further limits."""
    limits = [*result.limits, *more]
    forbidding = [one for one in result.differences if is_unlike(one)]
    outcome = _outcome(limits, forbidding)
    return replace(
        result,
        outcome=outcome,
        exit_code=_exit_code(outcome, rules.inconclusive),
        headline=headline(outcome, limits, forbidding),
        limits=limits,
        next_steps=next_steps(outcome, limits, forbidding),
    )


def which_grew(
    baseline: Sequence[RunFigures], current: Sequence[RunFigures], limits: Sequence[LimitResult]
) -> Growth | None:
    """Return which part grew, on the rank of the first limit that failed."""
    failed = next((one for one in limits if one.outcome == "regression"), None)
    rank = None if failed is None else failed.rank
    found = growth(baseline, current, rank)
    of_step = (one.change_ns for one in limits if (one.metric, one.rank) == (STEP, rank))
    change_ns = next(of_step, None)
    if found is None or change_ns is None:
        return found
    return replace(found, rest_ns=change_ns - found.change_ns)


def unlike(
    baseline: Sequence[RunFigures], current: Sequence[RunFigures], allowed: Collection[str]
) -> list[FactDifference]:
    """Return what the runs differ in, each held against the first of the baseline.

    UsageError for a name in `allowed` that is none.
    """
    first, *others = [*baseline, *current]
    check_names(allowed, {name for run in (first, *others) for name in run.fingerprint})
    found: list[FactDifference] = []
    for run in others:
        mine = differences(first.fingerprint, run.fingerprint, allowed)
        found += [one for one in mine if one not in found]
    return found


def _outcome(limits: Sequence[LimitResult], forbidding: Sequence[FactDifference]) -> Outcome:
    """Return the outcome of all limits: a regression is one whatever else could not be told."""
    outcomes = {one.outcome for one in limits}
    order: tuple[Outcome, ...] = ("regression", "not_comparable", "inconclusive")
    if forbidding:
        return "not_comparable"
    return next((each for each in order if each in outcomes), "pass")


def _exit_code(outcome: Outcome, inconclusive: OnInconclusive) -> ExitCode:
    if outcome == "inconclusive":
        codes: dict[OnInconclusive, ExitCode] = {"error": 2, "pass": 0, "fail": 1}
        return codes[inconclusive]
    known: dict[Outcome, ExitCode] = {"pass": 0, "regression": 1, "not_comparable": 2}
    return known[outcome]


# --- one limit ---


def _judge(
    limit: Limit, baseline: Sequence[RunFigures], current: Sequence[RunFigures]
) -> LimitResult:
    found = samples(limit, baseline, current)
    if isinstance(found, Lack):
        return _result(limit, "not_comparable", found.reason)
    first, second = found
    before, after = statistics.middle(first.runs), statistics.middle(second.runs)
    # With few steps there is nothing to say how sure a change is.
    enough = min(first.steps, second.steps) >= statistics.FEW_STEPS
    interval = statistics.interval(first.runs, second.runs) if enough else None
    outcome, reason = _verdict(limit, before, after, interval, (first, second))
    return replace(
        _result(limit, outcome, reason),
        source=first.source,
        baseline_ns=before,
        current_ns=after,
        change_ns=after - before,
        change_ratio=(after - before) / before if before else None,
        interval=interval,
        allowed_ns=int(limit.allowed_ns(before)),
        baseline=Steps(first.steps, len(first.runs)),
        current=Steps(second.steps, len(second.runs)),
        p_value=statistics.mann_whitney(first.runs, second.runs),
    )


def _verdict(
    limit: Limit,
    before: int,
    after: int,
    interval: Interval | None,
    sides: tuple[Sample, Sample],
) -> tuple[Outcome, str]:
    """Return the outcome of one limit, and why it is that."""
    if interval is None:
        few = min(sides, key=lambda side: side.steps)
        return "inconclusive", (
            f"only {counted(few.steps, 'step')} of the {few.side} counted, and "
            f"{statistics.FEW_STEPS} are needed"
        )
    change = after - before
    if change <= limit.allowed_ns(before):
        return "pass", _why_passed(limit, before, change)
    places = decimals(after, before + int(limit.allowed_ns(before)))
    grew = f"{before / 1e6:.{places}f} to {after / 1e6:.{places}f} ms"
    grew += f" ({percent(change / before, places - 1)})" if before else ""
    if not statistics.excludes_no_change(interval):
        return "inconclusive", (
            f"{grew} is more than the limit, and the steps vary so much that it may be no change"
        )
    of_nothing = "" if before else " (from zero there is no percentage: the time decides)"
    return "regression", f"{grew} is more than the limit{of_nothing}, and more than chance"


def _why_passed(limit: Limit, before: int, change: int) -> str:
    if change <= 0:
        return "no slower than the baseline"
    stated = limit.ns if limit.ratio is None else limit.ratio * before
    if change <= (stated or 0):
        return "within the limit"
    return "above the limit, and within the floor"


def _result(limit: Limit, outcome: Outcome, reason: str) -> LimitResult:
    """Return the outcome of a limit, without values."""
    return LimitResult(
        limit=str(limit),
        metric=limit.metric,
        rank=limit.rank,
        outcome=outcome,
        reason=reason,
        limit_percent=limit.percent,
        limit_ns=None if limit.ns is None else int(limit.ns),
        floor_ns=int(limit.floor_ns),
    )


# --- both sides, and what to know of them ---


def _side(runs: Sequence[RunFigures]) -> CheckedRun:
    return CheckedRun(
        names=[run.name for run in runs],
        ranks=sorted({rank for run in runs for rank in run.ranks}),
        recorded_steps=_steps(runs, "recorded"),
        timed_steps=_steps(runs, "timed"),
    )


def _steps(runs: Sequence[RunFigures], source: Source) -> int:
    return sum(len(longest(run.series(source), STEP)) for run in runs)


def _notes(
    baseline: Sequence[RunFigures],
    current: Sequence[RunFigures],
    limits: Sequence[LimitResult],
    found: Sequence[FactDifference],
) -> list[str]:
    sides: tuple[tuple[SideName, Sequence[RunFigures]], ...] = (
        ("baseline", baseline),
        ("current run", current),
    )
    sources = dict.fromkeys(one.source for one in limits if one.source is not None)
    return [
        *allowed_note(found),
        *untold_note(found),
        *(f"{side}: {note}" for side, runs in sides for run in runs for note in run.notes),
        *(
            note
            for source in sources
            for side, runs in sides
            for note in step_notes(side, runs, source)
        ),
        *(f"{one.place}: {note}" for one in limits for note in second_opinion(one)),
        *refresh_note(limits),
    ]
