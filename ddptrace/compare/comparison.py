"""Two reports side by side, and the versioned JSON of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from ddptrace.compare.cautions import Caution, cautions
from ddptrace.compare.facts import Change, Unknown, compared
from ddptrace.compare.parts import Difference, Part, changes, parts_of
from ddptrace.diagnosis.ledger import Ledger
from ddptrace.report import Report

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Side:
    """One of two runs: `name` is where it was read from.

    `rank` is the one on which the median step took longest, `step` the number of that step; None
    where no step is known.
    """

    name: str
    rank: int | None
    step: int | None
    counted_steps: int | None
    ranks: list[int]


@dataclass(frozen=True, slots=True)
class RankDifference:
    """The median steps of one rank that both runs have; its parts add up to its difference."""

    rank: int
    step_ns: Difference
    parts: list[Part]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs side by side: B against A.

    `step_ns` is of the median steps, each on the rank on which it took longest, and `parts` add up
    to its difference; of runs of which one has no ledger it is of the medians of step times, and
    `parts` are empty. `reason` says why there is none of it. `headline` says it in one sentence.
    """

    a: Side
    b: Side
    comparable: bool
    headline: str
    step_ns: Difference | None
    parts: list[Part]
    reason: str | None
    ranks: list[RankDifference]
    cautions: list[Caution]
    changed: list[Change]
    unknown: list[Unknown]
    schema: int = SCHEMA

    def named(self, a: str, b: str) -> Comparison:
        """Return the comparison with the names of its runs."""
        return replace(self, a=replace(self.a, name=a), b=replace(self.b, name=b))


def compare(a: Report, b: Report) -> Comparison:
    """Return two runs side by side."""
    first, second = _ledgers(a), _ledgers(b)
    longest = _longest(first), _longest(second)
    step_ns, parts = _times(a, b, longest)
    found = cautions(a, b, step_ns)
    changed, unknown = compared(a, b)
    reason = None if parts else _why_none(a, b)
    return Comparison(
        a=_side("A", a, longest[0]),
        b=_side("B", b, longest[1]),
        comparable=step_ns is not None and all(one.comparable for one in found),
        headline=headline(step_ns, parts)
        if step_ns is not None
        else f"no step to compare: {reason}",
        step_ns=step_ns,
        parts=parts,
        reason=reason,
        ranks=_same_ranks(first, second),
        cautions=found,
        changed=changed,
        unknown=unknown,
    )


def to_json(comparison: Comparison) -> str:
    """Return the comparison as JSON."""
    built = msgspec.to_builtins(comparison)
    ordered = {"schema": built.pop("schema")} | built
    return msgspec.json.format(msgspec.json.encode(ordered), indent=2).decode() + "\n"


def _ledgers(report: Report) -> dict[int, Ledger]:
    """Return the median step of each rank; none of a recording without steps."""
    return {row.rank: row for row in report.diagnosis.ledger if row.step is not None}


def _longest(ledgers: dict[int, Ledger]) -> Ledger | None:
    rows = ledgers.values()
    return min(rows, key=lambda row: (-row.step_ns, row.rank)) if rows else None


def _times(
    a: Report, b: Report, longest: tuple[Ledger | None, Ledger | None]
) -> tuple[Difference | None, list[Part]]:
    first, second = longest
    if first is not None and second is not None:
        return Difference.of(first.step_ns, second.step_ns), parts_of(first, second)
    times = a.summary.step_ns, b.summary.step_ns
    if times[0] is None or times[1] is None:
        return None, []
    return Difference.of(times[0].median, times[1].median), []


def _same_ranks(a: dict[int, Ledger], b: dict[int, Ledger]) -> list[RankDifference]:
    return [
        RankDifference(
            rank, Difference.of(a[rank].step_ns, b[rank].step_ns), parts_of(a[rank], b[rank])
        )
        for rank in sorted(a.keys() & b.keys())
    ]


def _side(name: str, report: Report, longest: Ledger | None) -> Side:
    return Side(
        name=name,
        rank=None if longest is None else longest.rank,
        step=report.summary.median_step,
        counted_steps=report.summary.counted_steps,
        ranks=report.run.ranks,
    )


def _why_none(a: Report, b: Report) -> str:
    """Return why there are no parts to compare."""
    reasons = {name: _lack(report) for name, report in (("A", a), ("B", b))}
    return "; ".join(f"{name} {reason}" for name, reason in reasons.items() if reason is not None)


def _lack(report: Report) -> str | None:
    """Return why a report has no ledger of a step; None when it has one."""
    if _ledgers(report):
        return None
    if all(row.partial for row in report.steps):
        return "has no rank that was read whole"
    if report.summary.median_step is None:
        return "has no step marks"
    if not report.diagnosis.where:
        return "was saved before reports told what a step is made of"
    return "lacks figures of which the parts are made"


def headline(step: Difference, parts: Sequence[Part]) -> str:
    """Return the step's difference in one sentence, with the parts that changed most."""
    found = [
        f"{part.words} {'grew' if part.difference_ns > 0 else 'shrank'} by "
        f"{abs(part.difference_ns) / 1e6:.2f} ms"
        for part in changes(step, parts)
    ]
    if found:
        return f"{_longer(step)}: {', '.join(found)}"
    nothing = "no part changed by 1 % of the step" if parts else ""
    return "; ".join(words for words in (_longer(step), nothing) if words)


def _longer(step: Difference) -> str:
    if step.difference_ns == 0:
        return f"B's step takes as long as A's, {step.a_ns / 1e6:.2f} ms"
    word = "longer" if step.difference_ns > 0 else "shorter"
    share = f" ({100 * abs(step.difference_ns) / step.a_ns:.1f} %)" if step.a_ns else ""
    return f"B's step is {abs(step.difference_ns) / 1e6:.2f} ms{share} {word} than A's"
