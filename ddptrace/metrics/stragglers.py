"""The rank that the others wait for: which, how often, how late, how sure.

The definition is that of docs/metrics.md, "straggler". Nothing here compares the clocks of ranks.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddptrace.metrics.collectives import Collected
from ddptrace.metrics.comm_table import NONE
from ddptrace.metrics.lateness import Cause, Excess, anchors, cause_of, excess, ways
from ddptrace.metrics.steps import StepMetrics
from ddptrace.wording import ranges

Pattern: TypeAlias = Literal["persistent", "alternating", "occasional", "single_step", "one_step"]
Confidence: TypeAlias = Literal["high", "medium", "low"]

NOISE_NS = 50_000
NOISE_OF_TRANSFER = 0.2
CLEAR_PART = 0.5
ROOT_PART = 0.5
PERSISTENT = 0.75


@dataclass(frozen=True, slots=True)
class StepStraggler:
    """The straggler of one step; `rank` is None where nobody is waited for beyond the noise.

    `wait_ns` is the median over the others of how much longer they waited in the step than the
    straggler did, `late_ns` how much later than the median of the others it arrived, at the worst.
    It was last by more than the noise in `led` of the step's `collectives`. `excess` tells what it
    did longer than the others until it was late, `cause` which of that explains the delay.
    """

    step: int | None
    rank: int | None
    wait_ns: int
    late_ns: int
    led: int
    collectives: int
    cause: Cause | None = None
    excess: Excess | None = None


@dataclass(frozen=True, slots=True)
class Stragglers:
    """Who is late in the steps of a run that count.

    `rank` is the one that is late most often, `pattern` how lateness is spread over the steps; both
    are None where nobody is late. `late_ns` is the median over the steps in which `rank` is late,
    `led` and `collectives` are sums over them. `cost_ns` is the exposed waiting of the rank that
    waits most: its median over all steps; where ranks are late in turn, of whoever waits most in
    each. `unknown` says why nobody can be named, where that is so.
    """

    rank: int | None
    pattern: Pattern | None
    cause: Cause | None
    late_ns: int | None
    cost_ns: int | None
    led: int
    collectives: int
    confidence: Confidence | None
    reason: str | None
    unknown: str | None
    steps: list[StepStraggler]


@dataclass(frozen=True, slots=True)
class _Candidate:
    """The straggler of a step before its cause is known.

    `row` is the collective to ask for the cause: there it was late by `late_ns`. `waits_ns` has how
    long each rank waited in these collectives.
    """

    found: StepStraggler
    row: int
    late_ns: int
    column: int
    others: tuple[int, ...]
    waits_ns: dict[int, int]


def stragglers(
    collected: Collected, counted: Sequence[StepMetrics], missing_ranks: Collection[int]
) -> Stragglers:
    """Return the stragglers of a run; `counted` are the rows of the steps that count."""
    unknown = _why_unknown(collected)
    if unknown is not None:
        return _nobody(unknown, [])
    has_anchor = anchors(collected) != NONE
    each = (_candidate(collected, step, has_anchor) for step in _steps(collected))
    found = [candidate for candidate in each if candidate is not None]
    steps = _with_causes(collected, found)
    numbers = {row.step for row in counted}
    those = [step for step in steps if step.step in numbers]
    late = Counter(step.rank for step in those if step.rank is not None)
    if not late:
        return _nobody(None, steps)
    rank = min(late, key=lambda each: (-late[each], each))
    mine = [step for step in those if step.rank == rank]
    causes = Counter(step.cause for step in mine).most_common(1)
    pattern = _pattern(late, len(those))
    confidence, reason = _confidence(collected, pattern, len(mine), len(those), missing_ranks)
    return Stragglers(
        rank=rank,
        pattern=pattern,
        cause=causes[0][0],
        late_ns=int(median(step.late_ns for step in mine)),
        cost_ns=_cost_ns(counted, rank, in_turn=pattern == "alternating"),
        led=sum(step.led for step in mine),
        collectives=sum(step.collectives for step in mine),
        confidence=confidence,
        reason=reason,
        unknown=None,
        steps=steps,
    )


def _nobody(unknown: str | None, steps: list[StepStraggler]) -> Stragglers:
    return Stragglers(None, None, None, None, None, 0, 0, None, None, unknown, steps)


def _why_unknown(collected: Collected) -> str | None:
    """Return why nobody can be named whatever the waits; None when somebody can."""
    shared = sharing_ranks(collected)
    if shared:
        return f"ranks {ranges(shared)} share one GPU and take turns on it"
    if len(collected.matching.ranks) < 2:
        return "only one rank is recorded"
    if not len(collected.matching):
        return "no communication was recorded"
    between = (collected.is_there.sum(axis=1) > 1) & collected.matching.is_matched
    return None if between.any() else "no collective of the ranks could be matched"


def sharing_ranks(collected: Collected) -> list[int]:
    """Return ranks that are known to run on one GPU; none when each has its own."""
    ranks_of: dict[str, list[int]] = defaultdict(list)
    for rank, recordings in collected.recordings.items():
        gpu = recordings[0].trace.facts.gpu
        if gpu is not None:
            ranks_of[gpu].append(rank)
    return next((ranks for ranks in ranks_of.values() if len(ranks) > 1), [])


def _steps(collected: Collected) -> list[NDArray[np.intp]]:
    """Return the rows of each step's matched collectives, of the whole run's without steps."""
    rows = np.flatnonzero(collected.matching.is_matched & (collected.is_there.sum(axis=1) > 1))
    step = collected.step[rows]
    numbers = np.unique(step[step != NONE])
    if not numbers.size:
        return [rows]
    return [rows[step == number] for number in numbers]


def _candidate(
    collected: Collected, rows: NDArray[np.intp], has_anchor: NDArray[np.bool_]
) -> _Candidate | None:
    """Return who the others wait for in a step: among those ranks that wait for each other most."""
    there = collected.matching.row[rows] != NONE
    sets, place = there[:1], np.zeros(rows.size, np.intp)
    if (there != sets).any():
        sets, place = np.unique(there, axis=0, return_inverse=True)
    of_set = [rows[place.reshape(-1) == number] for number in range(len(sets))]
    found = [
        _latest(collected, mine, tuple(np.flatnonzero(ranks).tolist()), has_anchor[mine])
        for ranks, mine in zip(sets, of_set, strict=True)
    ]
    latest = max(
        found, key=lambda one: (one.found.rank is not None, one.found.wait_ns), default=None
    )
    return None if latest is None else _root(latest, found)


def _root(latest: _Candidate, found: Sequence[_Candidate]) -> _Candidate:
    """Return whom the latest rank itself waited for in another group, if that made it late."""
    seen = {latest.column}
    while latest.found.rank is not None:
        enough_ns = ROOT_PART * latest.found.wait_ns
        before = [
            one
            for one in found
            if one.found.rank is not None
            and one.column not in seen
            and one.waits_ns.get(latest.column, 0) >= enough_ns
        ]
        if not before:
            break
        latest = max(before, key=lambda one: one.waits_ns[latest.column])
        seen.add(latest.column)
    return latest


def _latest(
    collected: Collected,
    rows: NDArray[np.intp],
    columns: tuple[int, ...],
    has_anchor: NDArray[np.bool_],
) -> _Candidate:
    wait_ns = collected.wait_ns[rows][:, list(columns)]
    sums = wait_ns.sum(axis=0)
    place = int(sums.argmin())
    others = np.delete(np.arange(len(columns)), place)
    waited_ns = int(np.median(sums[others]) - sums[place])
    limit_ns = max(NOISE_NS, NOISE_OF_TRANSFER * int(collected.transfer_ns[rows].sum()))
    late_ns = np.median(wait_ns[:, others], axis=1) - wait_ns[:, place]
    is_clear = late_ns > np.maximum(NOISE_OF_TRANSFER * collected.transfer_ns[rows], NOISE_NS)
    # Many small delays add up to something, but they are no more than how ends differ.
    is_late = waited_ns > limit_ns and late_ns[is_clear].sum() >= CLEAR_PART * waited_ns
    step = int(collected.step[rows[0]])
    found = StepStraggler(
        step=None if step == NONE else step,
        rank=collected.matching.ranks[columns[place]] if is_late else None,
        wait_ns=waited_ns,
        late_ns=int(late_ns.max()),
        led=int(is_clear.sum()),
        collectives=rows.size,
    )
    # The cause is asked where the delay was worst, of those whose way begins at a common moment.
    has_way = is_clear & has_anchor
    shown = int((np.where(has_way, late_ns, -np.inf) if has_way.any() else late_ns).argmax())
    rest = tuple(columns[other] for other in others)
    waits = dict(zip(columns, sums.tolist(), strict=True))
    return _Candidate(found, int(rows[shown]), int(late_ns[shown]), columns[place], rest, waits)


def _with_causes(collected: Collected, found: Sequence[_Candidate]) -> list[StepStraggler]:
    late = [one for one in found if one.found.rank is not None]
    there = ways(collected, np.array([one.row for one in late], np.intp))
    known = {}
    for at, one in enumerate(late):
        more = excess(there, at, one.column, one.others)
        known[id(one)] = replace(one.found, excess=more, cause=cause_of(one.late_ns, more))
    return [known.get(id(one), one.found) for one in found]


def _pattern(late: Counter[int], steps: int) -> Pattern:
    most = max(late.values())
    if steps == 1:
        return "one_step"
    if most >= PERSISTENT * steps:
        return "persistent"
    if late.total() == 1:
        return "single_step"
    return "alternating" if len(late) > 1 else "occasional"


def _cost_ns(counted: Sequence[StepMetrics], rank: int, *, in_turn: bool) -> int | None:
    """Return the exposed waiting of the rank that waits most, the median over its steps.

    Where ranks are late in turn each of them waits in some steps, and every step loses its part.
    """
    waits: dict[int | None, list[int]] = defaultdict(list)
    for row in counted:
        if row.exposed_wait_ns is not None and (in_turn or row.rank != rank):
            waits[row.step if in_turn else row.rank].append(row.exposed_wait_ns)
    if in_turn:
        return int(median(map(max, waits.values()))) if waits else None
    return max((int(median(mine)) for mine in waits.values()), default=None)


def _confidence(
    collected: Collected, pattern: Pattern, late: int, steps: int, missing: Collection[int]
) -> tuple[Confidence, str]:
    """Return how sure it is that this rank is late in the job, and why."""
    often = f"late in {late} of {steps} steps"
    if missing:
        return "low", f"{often}; rank {ranges(missing)} is not recorded and may be later still"
    found = collected.matching
    alone = int((~found.is_matched).sum())
    if alone * 5 > len(found):
        return "low", f"{often}; {alone} of {len(found)} collectives could not be matched"
    if pattern == "persistent" and steps >= 3:
        return "high", often
    if pattern == "persistent":
        return "medium", f"{often}, which are few"
    return "low", often
