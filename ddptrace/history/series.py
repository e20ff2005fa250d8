"""A run held against a history: the last comparable runs, and slow drift over more of them."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
from sqlite_utils import Database

from ddptrace.check.figures import RunFigures, Source, distinct, longest
from ddptrace.check.fingerprint import differences, is_unlike
from ddptrace.check.judge import Rules, check, which_grew, with_more
from ddptrace.check.limits import Limit
from ddptrace.check.result import CheckResult, Growth, LimitResult, Outcome, Steps
from ddptrace.check.words import percent
from ddptrace.errors import HistoryError
from ddptrace.history.drift import FEWEST_RUNS, MOST_RUNS, Drift, drifts
from ddptrace.history.runs import (
    ALL,
    Choice,
    StoredRun,
    digest_of,
    figures_of,
    number_of,
    stored_runs,
)
from ddptrace.history.store import reading
from ddptrace.wording import counted, one_line, ranges

WINDOW = 10
"""How many runs make a baseline, where nobody says."""


@dataclass(frozen=True, slots=True)
class Past:
    """What a run is held against: comparable runs, the oldest first, and which of them count.

    The last `window` of them are the baseline. `unlike` runs were left out; `alike` is false when
    there are only such, and the runs are the last of these.
    """

    numbers: list[int]
    runs: list[RunFigures]
    window: int
    unlike: int
    alike: bool

    @property
    def baseline(self) -> list[RunFigures]:
        """The runs whose median is the baseline."""
        return self.runs[-self.window :]


def check_history(
    path: Path,
    current: Sequence[RunFigures],
    rules: Rules,
    choice: Choice = ALL,
    window: int = WINDOW,
) -> CheckResult:
    """Return how runs stand against a history; HistoryError when that holds nothing to stand on."""
    with reading(path) as database:
        try:
            past = past_of(database, current, choice, allowed=rules.allowed, window=window)
        except HistoryError as error:
            raise HistoryError(f"{one_line(path)}: {error}") from error
    return check_against(past, current, rules)


@dataclass(frozen=True, slots=True)
class _Drifted:
    """How a metric drifted: as a result, and the runs of the lowest level."""

    result: LimitResult
    best: list[RunFigures]


def check_against(past: Past, current: Sequence[RunFigures], rules: Rules) -> CheckResult:
    """Return how runs stand against the last runs of a history, and whether they drifted."""
    result = check(past.baseline, current, rules)
    current = distinct(current)
    if not past.alike:
        return replace(result, next_steps=_other_steps(result))
    found = list(_drifted(past, current, rules.limits, result))
    whole = with_more(result, [one.result for one in found], rules)
    return replace(
        whole,
        growth=_growth(result, found, current),
        notes=[*whole.notes, *_notes(past, current)],
        next_steps=_other_steps(whole),
    )


def _growth(
    result: CheckResult, found: Sequence[_Drifted], current: Sequence[RunFigures]
) -> Growth | None:
    """Return which part grew: since the best runs, where the last ones show no regression."""
    slower = [one for one in found if one.result.outcome == "regression"]
    if slower and not result.of("regression"):
        return which_grew(slower[0].best, current, [one.result for one in slower[:1]])
    return result.growth


def _other_steps(result: CheckResult) -> list[str]:
    """Return what to do next where the baseline is a history, which nobody saves anew."""
    if result.outcome == "regression":
        return [
            "where it went: ddptrace compare OLD-RUN RUN; if it is meant: "
            "ddptrace history add RUN --new-start"
        ]
    if result.outcome == "not_comparable":
        names = ",".join(one.name for one in result.differences if is_unlike(one))
        allow = f"; to compare all the same: --allow {names}" if names else ""
        return [f"begin with runs of this kind: ddptrace history add RUN{allow}"]
    return [step for step in result.next_steps if "--save-baseline" not in step]


def past_of(
    database: Database,
    current: Sequence[RunFigures],
    choice: Choice = ALL,
    *,
    allowed: AbstractSet[str] = frozenset(),
    window: int = WINDOW,
) -> Past:
    """Return what runs are held against; HistoryError when no run is there to be held against.

    A run that is in the history already is not held against itself.
    """
    mine = {number_of(database, digest_of(run)) for run in current}
    chosen = stored_runs(database, choice)
    there = [run for run in chosen if run.number not in mine]
    if not there:
        besides = " besides this one" if chosen else ""
        raise HistoryError(
            f"the history has no run{choice.words}{besides}; add one to hold this one against: "
            "ddptrace history add RUN --db FILE"
        )
    since = _since_anew(there)
    alike = _alike(since, current, allowed)
    shown = (alike or since[-1:])[-max(window, MOST_RUNS) :]
    return Past(
        numbers=[run.number for run in shown],
        runs=[
            replace(run, name=f"run {one.number} ({run.name})")
            for one, run in zip(
                shown, figures_of(database, [run.number for run in shown]), strict=True
            )
        ],
        window=window,
        unlike=len(since) - len(alike),
        alike=bool(alike),
    )


def _since_anew(runs: Sequence[StoredRun]) -> Sequence[StoredRun]:
    """Return the runs from the last one that starts anew."""
    starts = [place for place, run in enumerate(runs) if run.starts_anew]
    return runs[starts[-1] :] if starts else runs


def _alike(
    runs: Sequence[StoredRun], current: Sequence[RunFigures], allowed: AbstractSet[str]
) -> list[StoredRun]:
    """Return the runs that are set up as these; each setup is looked at once."""
    verdicts: dict[bytes, bool] = {}
    found = []
    for run in runs:
        key = msgspec.json.encode(run.fingerprint, order="sorted")
        if key not in verdicts:
            verdicts[key] = not any(
                is_unlike(each)
                for one in current
                for each in differences(run.fingerprint, one.fingerprint, allowed)
            )
        if verdicts[key]:
            found.append(run)
    return found


# --- drift ---


def _drifted(
    past: Past, current: Sequence[RunFigures], limits: Sequence[Limit], result: CheckResult
) -> Iterator[_Drifted]:
    """Give for each limit that could be judged how its metric drifted, where enough runs tell."""
    for limit, judged in zip(limits, result.limits, strict=True):
        if judged.source is None:
            continue
        runs = [*past.runs, *current]
        levels = [
            (place, level)
            for place, run in enumerate(runs)
            if (level := _level_ns(run, limit, judged.source)) is not None
        ]
        found = drifts([level for _, level in levels])
        if found:
            yield _of_limit(limit, judged.source, found, [place for place, _ in levels], past)


def _level_ns(run: RunFigures, limit: Limit, source: Source) -> int | None:
    chosen = [one for one in run.series(source) if limit.rank in (None, one.rank)]
    values = longest(chosen, limit.metric).values()
    return int(statistics.median(values)) if values else None


def _of_limit(
    limit: Limit, source: Source, found: Sequence[Drift], places: Sequence[int], past: Past
) -> _Drifted:
    """Return how a metric drifted: over the length at which it went furthest beyond the limit."""
    beyond = [one for one in found if one.exceeds(limit.allowed_ns(one.best_ns))]
    shown = max(beyond, key=lambda one: one.change_ns) if beyond else found[0]
    # The lowest level is one of before the last runs, so of the past unless many are checked.
    best = [
        place
        for place in places[shown.best_at : shown.best_at + shown.level_runs]
        if place < len(past.runs)
    ]
    reason = _reason(shown, [past.numbers[place] for place in best], drifted=bool(beyond))
    outcome: Outcome = "regression" if beyond else "pass"
    result = _result(limit, source, shown, outcome, reason)
    return _Drifted(result, [past.runs[place] for place in best])


def _result(
    limit: Limit, source: Source, shown: Drift, outcome: Outcome, reason: str
) -> LimitResult:
    return LimitResult(
        limit=str(limit),
        metric=limit.metric,
        rank=limit.rank,
        outcome=outcome,
        reason=reason,
        floor_ns=int(limit.floor_ns),
        limit_percent=limit.percent,
        limit_ns=None if limit.ns is None else int(limit.ns),
        source=source,
        baseline_ns=shown.best_ns,
        current_ns=shown.now_ns,
        change_ns=shown.change_ns,
        change_ratio=shown.change_ns / shown.best_ns if shown.best_ns else None,
        allowed_ns=int(limit.allowed_ns(shown.best_ns)),
        baseline=Steps(0, shown.level_runs),
        current=Steps(0, shown.level_runs),
        p_value=shown.p_value,
        over_runs=shown.runs,
    )


def _reason(drift: Drift, first: Sequence[int], *, drifted: bool) -> str:
    if not drifted:
        return "no drift of more than the limit"
    grew = (
        percent(drift.change_ns / drift.best_ns)
        if drift.best_ns
        else f"{drift.change_ns / 1e6:+.2f} ms"
    )
    return (
        f"{grew} since runs {ranges(first)}, a trend over the last {drift.runs} runs and more than "
        f"the limit, the last {drift.level_runs} together (Mann-Kendall p = {drift.p_value:.1g})"
    )


def _notes(past: Past, current: Sequence[RunFigures]) -> Iterator[str]:
    used = past.numbers[-past.window :]
    left_out = f"; {counted(past.unlike, 'run')} left out, unlike this one" if past.unlike else ""
    yield (
        f"the baseline is the median of {counted(len(used), 'comparable run')} of the history "
        f"({ranges(used)}){left_out}"
    )
    there = len(past.runs) + len(current)
    if there < FEWEST_RUNS:
        yield f"drift is looked for over {FEWEST_RUNS} runs and more; there are {there}"
