"""How far the clocks of ranks are apart, from the ends of collectives they took part in together.

The last rank to arrive starts the transfer of a collective, and all ranks end it together. So the
difference of their ends is that of their clocks, whoever was late.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ddptrace import kernels
from ddptrace.metrics.clock_fit import Ends, Fit, estimates, fit
from ddptrace.metrics.collectives import Collected
from ddptrace.metrics.recorded import Recorded
from ddptrace.metrics.timebase import Correction, Timebase, aligned, counts_alike
from ddptrace.model import Run

APPLIED_ABOVE_NS = 1_000_000
"""What clocks must be apart for it to be more than the ends of collectives differ anyway."""


@dataclass(frozen=True, slots=True)
class RankClock:
    """How far a rank's clock is ahead of that of a reference rank.

    `offset_ns` is what the rank's times are ahead at the first moment of the run, counted as they
    would be without any correction; each second adds `drift_ppb` ns to it, None for no clear drift.
    Nine of ten collectives end within `spread_ns` of that; it is None where a single one was used.
    `shares_clock`: both ranks are known to have one clock, so that nothing is ever applied.
    """

    rank: int
    reference: int
    offset_ns: int
    drift_ppb: int | None
    spread_ns: int | None
    collectives: int
    shares_clock: bool
    applied: bool


def clocks(run: Run, collected: Collected, base: Timebase) -> tuple[list[RankClock], Timebase]:
    """Return how clocks stand to each other, and the time base in which they agree.

    `base` is the one that takes every clock for right. Ranks without a collective in common with
    others, not even through further ranks, are left as they are.
    """
    recordings = collected.recordings
    ranks = collected.matching.ranks
    members = _members(run, ranks, recordings)
    sure, unsure = _ends(collected, base)
    first = [recordings[ranks[mine[0]]][0] for mine in members]
    found = estimates([_joint(ends, members) for ends in (sure, unsure)], _order(first))
    rows: list[RankClock] = []
    for clock, (root, estimate) in found.items():
        reference = members[root][0]
        if clock == root:
            for at in members[clock][1:]:
                direct = fit(sure, at, reference) or fit(unsure, at, reference)
                rows += [] if direct is None else [_row(ranks[at], ranks[reference], direct)]
            continue
        always = not counts_alike(first[clock], first[root])
        applied = always or _is_clear(estimate)
        rows += [
            _row(ranks[at], ranks[reference], estimate, shares_clock=False, applied=applied)
            for at in members[clock]
        ]
    rows.sort(key=lambda row: row.rank)
    corrections = {
        row.rank: Correction(row.offset_ns, row.drift_ppb or 0) for row in rows if row.applied
    }
    references = {row.rank: row.reference for row in rows if row.applied}
    return rows, aligned(base, recordings, corrections, references)


def _row(
    rank: int, reference: int, found: Fit, *, shares_clock: bool = True, applied: bool = False
) -> RankClock:
    return RankClock(
        rank=rank,
        reference=reference,
        offset_ns=found.offset_ns,
        drift_ppb=found.drift_ppb or None,
        spread_ns=found.spread_ns,
        collectives=found.count,
        shares_clock=shares_clock,
        applied=applied,
    )


def _is_clear(found: Fit) -> bool:
    return found.most_ns > max(APPLIED_ABOVE_NS, found.spread_ns or 0)


def _order(first: Sequence[Recorded]) -> list[int]:
    """Return the clocks in the order in which they may be references: the time of day first."""
    return sorted(range(len(first)), key=lambda clock: first[clock].trace.clock != "unix")


def _ends(collected: Collected, base: Timebase) -> tuple[Ends, Ends]:
    """Return when collectives ended on each rank: those that end together, and all others."""
    moved = {
        rank: base.moved(rank, table.recording, table.end_ns)
        for rank, table in collected.tables.items()
    }
    there = collected.is_there & collected.matching.is_matched[:, None]
    ends = np.where(there, collected.wide(moved), np.nan)
    words = collected.words.operations
    codes = [code for word, code in words.items() if word in kernels.ENDS_TOGETHER]
    is_sure = np.isin(collected.operation, codes)
    return ends[is_sure], ends[~is_sure]


def _joint(ends: Ends, members: Sequence[Sequence[int]]) -> Ends:
    """Return the ends on each clock: those of its first rank, others where it has no record."""
    joint = np.full((len(ends), len(members)), np.nan)
    for clock, mine in enumerate(members):
        for at in mine:
            joint[:, clock] = np.where(np.isnan(joint[:, clock]), ends[:, at], joint[:, clock])
    return joint


def _members(
    run: Run, ranks: Sequence[int], recordings: Mapping[int, Sequence[Recorded]]
) -> list[list[int]]:
    """Return the places of the ranks that share a clock, for each clock in order of its first."""
    clock_of: dict[tuple[object, ...], int] = {}
    for at, rank in enumerate(ranks):
        keys = [(rank,), *_known_by(run, recordings[rank])]
        joined = {clock_of[key] for key in keys if key in clock_of}
        mine = min(joined, default=at)
        clock_of |= {key: mine for key, clock in clock_of.items() if clock in joined}
        clock_of |= dict.fromkeys(keys, mine)
    members: dict[int, list[int]] = {}
    for at, rank in enumerate(ranks):
        members.setdefault(clock_of[(rank,)], []).append(at)
    return list(members.values())


def _known_by(run: Run, mine: Sequence[Recorded]) -> Iterator[tuple[object, ...]]:
    """Yield what tells the clock of a rank: with any of it in common, two ranks have one."""
    for one in mine:
        if one.trace.source == "nsys":
            yield "file", one.trace.path
    if any(one.trace.clock != "unix" for one in mine):
        return  # of the same host or not, they count from moments of their own
    rank = mine[0].trace.rank
    told = run.manifest.of_rank(rank) if run.manifest else None
    host = hosts(run).get(rank)
    if host is not None:
        # A name such as localhost may be that of each node.
        yield "host", host, told.node if told else None
    for one in mine:
        if one.trace.facts.gpu is not None:
            yield "gpu", one.trace.facts.gpu


def hosts(run: Run) -> dict[int, str]:
    """Return the host of each rank of which the files or the manifest tell it; files count more."""
    told = run.manifest.ranks if run.manifest else ()
    found = {facts.rank: facts.host for facts in told if facts.host is not None}
    return found | {
        trace.rank: trace.facts.host for trace in run.traces if trace.facts.host is not None
    }
