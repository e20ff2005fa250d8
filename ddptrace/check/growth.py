"""Which part of the step grew: parts, kernels and buckets that add up to the step's change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ddptrace.check.figures import RunFigures
from ddptrace.check.result import Growth, PieceChange
from ddptrace.compare.parts import Part, grouped, parts_of
from ddptrace.diagnosis.ledger import Ledger

_MOST_PIECES = 5
_LEAST_PART = 0.02
"""A piece is named from this part of the step's change on."""


def growth(
    baseline: Sequence[RunFigures], current: Sequence[RunFigures], rank: int | None
) -> Growth | None:
    """Return what changed between the median steps of one rank; None where a ledger is lacking.

    Without a rank it is the one whose step is now the longest. Of several runs the one in the
    middle tells.
    """
    first, second = _typical(baseline), _typical(current)
    if first is None or second is None:
        return None
    ledgers = _by_rank(first), _by_rank(second)
    chosen = _longest(ledgers) if rank is None else rank
    if chosen is None or not all(chosen in each for each in ledgers):
        return None
    a, b = ledgers[0][chosen], ledgers[1][chosen]
    parts = parts_of(a, b)
    return Growth(
        rank=chosen,
        baseline_ns=a.step_ns,
        current_ns=b.step_ns,
        change_ns=b.step_ns - a.step_ns,
        parts=parts,
        pieces=[
            *_pieces(parts, "compute", _kernels(first, chosen), _kernels(second, chosen)),
            *_pieces(parts, "exposed_comm", _buckets(first, chosen), _buckets(second, chosen)),
        ],
    )


def _typical(runs: Sequence[RunFigures]) -> RunFigures | None:
    """Return the run whose step is the lower median of all that have a ledger."""
    told = [run for run in runs if run.ledgers]
    ordered = sorted(told, key=lambda run: max(one.step_ns for one in run.ledgers))
    return ordered[(len(ordered) - 1) // 2] if ordered else None


def _by_rank(run: RunFigures) -> dict[int, Ledger]:
    return {one.rank: one for one in run.ledgers}


def _longest(ledgers: tuple[dict[int, Ledger], dict[int, Ledger]]) -> int | None:
    common = ledgers[0].keys() & ledgers[1].keys()
    return min(common, key=lambda rank: (-ledgers[1][rank].step_ns, rank), default=None)


def _kernels(run: RunFigures, rank: int) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in run.kernels:
        if one.rank == rank:
            found[one.name] = found.get(one.name, 0) + one.total_ns
    return found


def _buckets(run: RunFigures, rank: int) -> dict[str, int]:
    return {f"bucket {one.bucket}": one.exposed_ns for one in run.buckets if one.rank == rank}


def _pieces(
    parts: Sequence[Part], group: str, a: Mapping[str, int], b: Mapping[str, int]
) -> Iterator[PieceChange]:
    """Give the pieces of a group of parts that changed most, and what is left of the group.

    Nothing where only one run tells any, or none changed by enough to be named. What is left is
    negative where pieces overlap.
    """
    if not a or not b:
        return
    whole = next(whole for whole, _ in grouped(parts) if whole.group == group)
    step_ns = sum(one.difference_ns for one in parts)
    least_ns = max(round(_LEAST_PART * abs(step_ns)), 1)
    changed = {name: b.get(name, 0) - a.get(name, 0) for name in sorted(a.keys() | b.keys())}
    large = [name for name, ns in changed.items() if abs(ns) >= least_ns]
    shown = sorted(large, key=lambda name: -abs(changed[name]))[:_MOST_PIECES]
    if not shown:
        return
    for name in shown:
        yield _piece(group, name, a.get(name, 0), b.get(name, 0))
    rest = [
        ns - sum(each.get(name, 0) for name in shown)
        for ns, each in ((whole.a_ns, a), (whole.b_ns, b))
    ]
    yield _piece(group, None, *rest)


def _piece(part: str, name: str | None, a_ns: int, b_ns: int) -> PieceChange:
    return PieceChange(part, name, a_ns, b_ns, b_ns - a_ns)
