"""The straight lines through the transfers that a report lists, and what the link was timed at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ddptrace.metrics.bandwidth import algbw_gb_s, busbw_gb_s
from ddptrace.metrics.collective_rows import Collective
from ddptrace.metrics.link import Link, fitted
from ddptrace.whatif.document import WhatIf


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


@dataclass(frozen=True, slots=True)
class TimedPoint:
    """One size that the recorder timed while nothing else ran."""

    size_bytes: int
    transfer_ns: int
    busbw_gb_s: float | None


def timed_of(whatif: WhatIf | None) -> list[TimedPoint]:
    """Return the sizes that were timed on the link alone; none where predictions rest on none."""
    if whatif is None or whatif.model.timed is None:
        return []
    model, timed = whatif.model, whatif.model.timed
    return [
        TimedPoint(
            size, time_ns, busbw_gb_s(algbw_gb_s(size, time_ns), model.operation, model.group_size)
        )
        for size, time_ns in zip(timed.size_bytes, timed.time_ns, strict=True)
    ]
