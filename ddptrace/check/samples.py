"""The steps that a limit is held against: which ones count, of which ranks, from where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ddptrace.check.figures import STEP, RunFigures, Series, Source, longest
from ddptrace.check.limits import Limit
from ddptrace.check.statistics import FEW_STEPS
from ddptrace.diagnosis.rules.recorded_run import unlike_others
from ddptrace.wording import counted, of_ranks, ranges

SideName: TypeAlias = Literal["baseline", "current run"]
_WORDS: dict[Source, str] = {
    "recorded": "recorded steps",
    "timed": "steps timed without a profiler",
}


@dataclass(frozen=True, slots=True)
class Sample:
    """The values of one metric in the steps of one side: a list for each run that has any."""

    side: SideName
    source: Source
    runs: list[list[int]]

    @property
    def steps(self) -> int:
        """How many steps there are, over all runs."""
        return sum(map(len, self.runs))


@dataclass(frozen=True, slots=True)
class Lack:
    """Why a limit cannot be held against anything, in words."""

    reason: str


def samples(
    limit: Limit, baseline: Sequence[RunFigures], current: Sequence[RunFigures]
) -> tuple[Sample, Sample] | Lack:
    """Return the steps of both sides, from the same source; or what is lacking.

    Of the step itself times without a profiler count where both sides have them of the same ranks,
    unless they are too few and the recorded steps are not.
    """
    found = {
        source: _both(limit, source, baseline, current)
        for source in _sources(limit, baseline, current)
    }
    usable = [pair for pair in found.values() if not isinstance(pair, Lack)]
    if usable:
        enough = [pair for pair in usable if min(side.steps for side in pair) >= FEW_STEPS]
        return (enough or usable)[0]
    return next(iter(found.values()), Lack(_no_common_source(baseline, current)))


def _sources(
    limit: Limit, baseline: Sequence[RunFigures], current: Sequence[RunFigures]
) -> Iterator[Source]:
    """Give the sources that both sides have steps of, the better one first."""
    sources: tuple[Source, ...] = ("timed", "recorded")
    for source in sources if limit.metric == STEP else sources[1:]:
        ranks = [{one.rank for one in _of(side, source)} for side in (baseline, current)]
        if all(ranks) and (source == "recorded" or ranks[0] == ranks[1]):
            yield source


def _of(runs: Sequence[RunFigures], source: Source) -> list[Series]:
    return [one for run in runs for one in run.series(source)]


def _both(
    limit: Limit, source: Source, baseline: Sequence[RunFigures], current: Sequence[RunFigures]
) -> tuple[Sample, Sample] | Lack:
    first = _sample(limit, source, "baseline", baseline)
    second = _sample(limit, source, "current run", current)
    if isinstance(first, Lack):
        return first
    return second if isinstance(second, Lack) else (first, second)


def _sample(
    limit: Limit, source: Source, side: SideName, runs: Sequence[RunFigures]
) -> Sample | Lack:
    """Return the values of one side, of runs that have any; or which ranks tell none."""
    there = sorted({one.rank for one in _of(runs, source)})
    if limit.rank is not None and limit.rank not in there:
        return Lack(
            f"the {side} has no {_WORDS[source]} of rank {limit.rank}, only of {of_ranks(there)}"
        )
    chosen = [[one for one in run.series(source) if limit.rank in (None, one.rank)] for run in runs]
    values = [list(longest(series, limit.metric).values()) for series in chosen]
    if any(values):
        return Sample(side, source, [each for each in values if each])
    silent = {one.rank for series in chosen for one in series if not longest([one], limit.metric)}
    if not silent and limit.rank is None and there[1:]:
        return Lack(
            f"{limit.metric} was measured in no step of the {side} on all of {of_ranks(there)}"
        )
    whose = f" on {of_ranks(silent)}" if silent else ""
    return Lack(f"{limit.metric} could not be measured in the {side}{whose}")


def _no_common_source(baseline: Sequence[RunFigures], current: Sequence[RunFigures]) -> str:
    """Return why two sides have no steps that can be held against each other."""
    said = []
    for side, runs in (("baseline", baseline), ("current run", current)):
        sources: tuple[Source, ...] = ("recorded", "timed")
        told = [
            f"{_WORDS[source]} of {of_ranks({one.rank for one in found})}"
            for source in sources
            if (found := _of(runs, source))
        ]
        said.append(f"the {side} has {' and '.join(told) or 'no step that counts'}")
    return ", ".join(said)


def repeated_note(side: SideName, given: int, counting: Sequence[RunFigures]) -> Iterator[str]:
    """Give a note where runs were given more than once, which makes no more steps of them."""
    if given > len(counting):
        yield (
            f"of {counted(given, 'run')} given as the {side} only {len(counting)} count: "
            "the same steps do once"
        )


def step_notes(side: SideName, runs: Sequence[RunFigures], source: Source) -> Iterator[str]:
    """Give notes on runs of which some steps do not count, or are much longer than the others."""
    for run in runs:
        counting = longest(run.series(source), STEP)
        there = {step for one in run.series(source) for step in one.steps}
        if len(counting) < len(there):
            yield (
                f"{len(there) - len(counting)} of {counted(len(there), 'step')} of the {side} do "
                "not count: not every rank tells how long they took"
            )
        slow, limit_ns = unlike_others(counting)
        if slow:
            yield (
                f"step {ranges(slow)} of the {side} took {limit_ns / 1e6:.2f} ms or more, unlike "
                "the others; it counts, which a median hardly sees"
            )
