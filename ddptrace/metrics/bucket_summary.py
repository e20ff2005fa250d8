"""How DDP laid out the gradients of a run, and what is typical of each bucket."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddptrace.intervals import IntArray
from ddptrace.metrics.bucket_rows import or_none
from ddptrace.metrics.buckets import Buckets
from ddptrace.metrics.by_code import medians_by_code
from ddptrace.metrics.collectives import Collected
from ddptrace.metrics.comm_table import NONE
from ddptrace.model import NEVER_NS


@dataclass(frozen=True, slots=True)
class BucketFacts:
    """How the gradients of most backward passes are laid out; None is not known.

    `rebuilt`: DDP laid them out anew after its first step.
    """

    count: int
    total_bytes: int | None
    rebuilt: bool | None


@dataclass(frozen=True, slots=True)
class BucketMedians:
    """What is typical of a bucket on one rank: medians over the steps that count.

    `blocked_ratio` and `backlog_ratio` say of how many of its all-reduces that is true.
    """

    rank: int
    duration_ns: int
    wait_ns: int | None
    queue_ns: int | None
    hidden_ratio: float | None
    blocked_ratio: float | None
    backlog_ratio: float | None


@dataclass(frozen=True, slots=True)
class Bucket:
    """One bucket of the layout; `parameters` are names, None where the manifest tells none."""

    bucket: int
    size_bytes: int | None
    parameters: list[str] | None
    transfer_ns: int | None
    ranks: list[BucketMedians]


def bucket_facts(buckets: Buckets) -> BucketFacts | None:
    """Return how the gradients are laid out; None for a run without buckets."""
    layout = buckets.layout
    if layout is None:
        return None
    is_told = NONE not in layout.size_bytes
    total_bytes = sum(layout.size_bytes) if is_told else None
    return BucketFacts(len(layout), total_bytes, buckets.is_rebuilt)


def bucket_list(
    buckets: Buckets, collected: Collected, steps: Collection[int | None]
) -> list[Bucket]:
    """Return the buckets of the layout with what is typical of each in these steps."""
    layout = buckets.layout
    if layout is None:
        return []
    numbers = [NONE if step is None else step for step in steps]
    number = np.where(np.isin(collected.step, numbers), buckets.bucket, NONE)
    number[number >= len(layout)] = NONE
    matched = (number != NONE) & collected.matching.is_matched
    transfer_ns = medians_by_code(number[matched], collected.transfer_ns[matched], len(layout))
    ranks = [
        _medians_of(collected, buckets, at, number) for at in range(len(collected.matching.ranks))
    ]
    parameters = layout.parameters or (None,) * len(layout)
    return [
        Bucket(
            bucket=at,
            size_bytes=None if size == NONE else size,
            parameters=None if names is None else list(names),
            transfer_ns=_whole(transfer_ns[at]),
            ranks=[mine[at] for mine in ranks if at in mine],
        )
        for at, (size, names) in enumerate(zip(layout.size_bytes, parameters, strict=True))
    ]


def _medians_of(
    collected: Collected, buckets: Buckets, at: int, number: IntArray
) -> dict[int, BucketMedians]:
    """Return what is typical on one rank of the buckets that it has, by their numbers.

    `number` is that of each collective, -1 for what does not count.
    """
    found = collected.matching
    rank, count = found.ranks[at], len(buckets.layout or ())
    rows = np.flatnonzero((number != NONE) & collected.is_there[:, at])
    bucket, mine = number[rows], found.row[rows, at]
    table, times = collected.tables[rank], buckets.times[rank]
    length_ns = table.end_ns[mine] - table.start_ns[mine]
    is_bucket = times.bucket[mine] != NONE

    def medians(values: NDArray[Any], known: NDArray[np.bool_]) -> list[float | None]:
        return medians_by_code(bucket[known], values[known], count)

    def shares(flags: NDArray[np.int8]) -> list[float | None]:
        known = is_bucket & (flags != NONE)
        all_calls, calls = (
            np.bincount(bucket[chosen], minlength=count) for chosen in (known, known & (flags == 1))
        )
        return or_none(calls / np.maximum(all_calls, 1), all_calls > 0)

    columns = zip(
        medians(length_ns, np.ones(rows.size, np.bool_)),
        medians(collected.wait_ns[rows, at], found.is_matched[rows]),
        medians(
            table.start_ns[mine] - times.ready_ns[mine],
            is_bucket & (times.ready_ns[mine] != NEVER_NS),
        ),
        medians(collected.hidden_ns[rows, at] / np.maximum(length_ns, 1), length_ns > 0),
        shares(times.is_blocked[mine]),
        shares(times.has_backlog[mine]),
        strict=True,
    )
    return {
        at: BucketMedians(
            rank, int(duration_ns), _whole(wait_ns), _whole(queue_ns), hidden, blocked, backlog
        )
        for at, (duration_ns, wait_ns, queue_ns, hidden, blocked, backlog) in enumerate(columns)
        if duration_ns is not None
    }


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
