"""The gradient buckets as the report lists them: what each waited for on each rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddptrace.metrics.buckets import Buckets
from ddptrace.metrics.comm_table import NONE, CommTable
from ddptrace.metrics.timebase import Timebase
from ddptrace.model import NEVER_NS

_Rows = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class BucketOnRank:
    """What a rank's bucket waited for; times are ns, None is what could not be measured.

    `first_ready_ns` is when its first gradient was ready on the GPU, `ready_ns` when its last one
    was, `released_ns` when those of all earlier buckets were, too: DDP does not launch it before.
    `queue_ns` goes from ready to the start; `blocked_ns` of it, from ready to released, was spent
    behind an earlier bucket that was not ready. `backlog`: it started at the end of the bucket
    before, having waited for it.
    The orders count from 0 in a backward pass.
    """

    first_ready_ns: int | None
    ready_ns: int | None
    released_ns: int | None
    queue_ns: int | None
    blocked: bool | None
    blocked_ns: int | None
    backlog: bool | None
    ready_order: int | None
    launch_order: int | None
    end_order: int | None


def buckets_on_rank(
    buckets: Buckets, base: Timebase, rank: int, table: CommTable, places: tuple[_Rows, _Rows]
) -> list[BucketOnRank | None]:
    """Return what some rows of a rank waited for; None for what is no bucket.

    `places` are the rows' collectives and the rows of the rank's table. Where ranks do not agree
    which bucket a collective is, it is none.
    """
    there, rows = places
    times = buckets.times[rank]
    recording = table.recording[rows]
    is_bucket = (buckets.bucket[there] != NONE) & (times.bucket[rows] != NONE)
    ready_ns, released_ns = times.ready_ns[rows], times.released_ns[rows]
    is_ready, is_released = ready_ns != NEVER_NS, released_ns != NEVER_NS
    first_ns = times.first_ready_ns[rows]
    orders = (order[rows] for order in (times.ready_order, times.launch_order, times.end_order))
    columns = (
        or_none(base.moved(rank, recording, first_ns), first_ns != NEVER_NS),
        or_none(base.moved(rank, recording, ready_ns), is_ready),
        or_none(base.moved(rank, recording, released_ns), is_released),
        or_none(table.start_ns[rows] - ready_ns, is_ready),
        _flags(times.is_blocked[rows]),
        or_none(released_ns - ready_ns, is_ready & is_released),
        _flags(times.has_backlog[rows]),
        *(or_none(order, order != NONE) for order in orders),
    )
    return [
        BucketOnRank(*values) if is_one else None
        for is_one, *values in zip(is_bucket.tolist(), *columns, strict=True)
    ]


def or_none(values: NDArray[Any], known: NDArray[np.bool_]) -> list[Any]:
    """Return a column as Python's own values, None where they are not known."""
    found: list[Any] = values.tolist()
    for place in np.flatnonzero(~known).tolist():
        found[place] = None
    return found


def _flags(values: NDArray[np.int8]) -> list[Any]:
    return or_none(values == 1, values != NONE)
