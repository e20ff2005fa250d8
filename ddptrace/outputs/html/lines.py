"""The straight lines through the transfers that a report lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ddptrace.metrics.collective_rows import Collective
from ddptrace.metrics.link import Link, fitted


@dataclass(frozen=True, slots=True)
class KindLine:
    """The line of one operation in one group."""

    op: str | None
    group: str | None
    line: Link


def lines_of(collectives: Sequence[Collective]) -> list[KindLine]:
    """Return the line of each operation and group whose sizes tell one."""
    kinds: dict[tuple[str | None, str | None], list[tuple[int, int]]] = {}
    for one in collectives:
        if one.size_bytes and one.transfer_ns:
            kinds.setdefault((one.op, one.group), []).append((one.size_bytes, one.transfer_ns))
    found = []
    for (op, group), pairs in kinds.items():
        sizes, times = np.array(pairs, np.int64).T
        line = fitted(sizes, times)
        if line is not None:
            found.append(KindLine(op, group, line))
    return found
