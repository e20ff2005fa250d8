"""Whether all ranks launched the collectives of a step in one order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from ddptrace.intervals import IntArray
from ddptrace.metrics.collectives import Collected
from ddptrace.metrics.comm_table import NONE


def launch_order_differs(collected: Collected) -> dict[int, bool]:
    """Return for each numbered step whether ranks launched the same collectives in another order.

    Ranks are compared that launched as many of each kind: group, operation and size. What differs
    in more than the order, and what was launched before the recording, is no matter of it.
    """
    orders: dict[int, list[IntArray]] = defaultdict(list)
    for at, rank in enumerate(collected.matching.ranks):
        for step, order in _orders(collected, at, rank).items():
            orders[step].append(order)
    return {step: _differs(found) for step, found in sorted(orders.items())}


def _orders(collected: Collected, at: int, rank: int) -> dict[int, IntArray]:
    """Return what a rank launched in each step, in order: a row for each collective."""
    found, table = collected.matching, collected.tables[rank]
    there = found.row[:, at] != NONE
    group = np.full(len(table), NONE, np.int64)
    group[found.row[there, at]] = found.members[there]
    kinds = np.stack((group, table.operation, table.call_bytes), axis=1)
    numbered = np.unique(table.step[table.step != NONE]).tolist()
    return {step: kinds[table.step == step] for step in numbered}


def _differs(orders: Sequence[IntArray]) -> bool:
    if all(np.array_equal(order, orders[0]) for order in orders):
        return False
    rows = [[tuple(kind) for kind in order.tolist()] for order in orders]
    by_content: dict[tuple[tuple[int, ...], ...], list[list[tuple[int, ...]]]] = defaultdict(list)
    for order in rows:
        by_content[tuple(sorted(order))].append(order)
    return any(order != same[0] for same in by_content.values() for order in same)
