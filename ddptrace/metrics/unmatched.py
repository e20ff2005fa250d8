"""What is said of comm operations that have no partner on another rank."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ddptrace.metrics.collectives import Collected
from ddptrace.metrics.comm_table import NONE
from ddptrace.model import Warn
from ddptrace.wording import ranges


def unmatched_counts(collected: Collected) -> dict[int, int]:
    """Return for each rank how many of its comm operations are not matched with all others'."""
    alone = collected.is_there & ~collected.matching.is_matched[:, None]
    return dict(zip(collected.matching.ranks, alone.sum(axis=0).tolist(), strict=True))


def unmatched_warnings(collected: Collected) -> list[Warn]:
    """Return one warning a rank that has operations of a step which another recorded rank lacks.

    Those of no step were called before the recording, or behind its last step: there one rank
    always has some more than the others.
    """
    found = collected.matching
    has_partner = np.array([len(one.rows) > 1 for one in found.lists], np.bool_)
    inside = (collected.step != NONE) & has_partner[found.members] & ~found.is_matched
    return [
        Warn("unmatched_collectives", _sentence(collected, rows, at), rank)
        for at, rank in enumerate(found.ranks)
        if (rows := np.flatnonzero(inside & collected.is_there[:, at])).size
    ]


def _sentence(collected: Collected, rows: NDArray[np.intp], at: int) -> str:
    found = collected.matching
    # Rows of a matching are in no order of time, those of the rank's table in that of its program.
    first = int(rows[np.argmin(found.row[rows, at])])
    operation = collected.words.operation(int(collected.operation[first])) or "operation"
    size = int(found.size_bytes[first])
    of_size = "" if size == NONE else f" of {size:,} bytes"
    which = f"{operation}{of_size} in step {int(collected.step[first])}"
    what = f"1 collective ({which}) has" if rows.size == 1 else _several(rows.size, which)
    others = ranges(_without(collected, first) - {found.ranks[at]})
    return f"{what} no partner on rank {others}: how long it waited there is not known"


def _several(count: int, which: str) -> str:
    return f"{count} collectives (the first: {which}) have"


def _without(collected: Collected, row: int) -> set[int]:
    """Return the ranks that lack a collective; all of its group where they disagree about it."""
    ranks = collected.matching.ranks
    members = set(collected.matching.lists[collected.matching.members[row]].rows)
    there = {rank for at, rank in enumerate(ranks) if collected.is_there[row, at]}
    return members - there or members
