"""How DDP laid out the gradients of a run, and what is typical of each bucket."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from ddptrace.metrics.buckets import Buckets
from ddptrace.metrics.collective_rows import Collective, CollectiveOnRank
from ddptrace.metrics.comm_table import NONE


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
    buckets: Buckets, collectives: Iterable[Collective], steps: Collection[int | None]
) -> list[Bucket]:
    """Return the buckets of the layout with what is typical of each in these steps."""
    layout = buckets.layout
    if layout is None:
        return []
    found: dict[int, list[Collective]] = defaultdict(list)
    for one in collectives:
        if one.bucket is not None and one.step in steps:
            found[one.bucket].append(one)
    parameters = layout.parameters or (None,) * len(layout)
    return [
        Bucket(
            bucket=number,
            size_bytes=None if size == NONE else size,
            parameters=None if names is None else list(names),
            transfer_ns=_median([one.transfer_ns for one in found[number]]),
            ranks=_medians(found[number]),
        )
        for number, (size, names) in enumerate(zip(layout.size_bytes, parameters, strict=True))
    ]


def _medians(collectives: Sequence[Collective]) -> list[BucketMedians]:
    by_rank: dict[int, list[CollectiveOnRank]] = defaultdict(list)
    for one in (one for collective in collectives for one in collective.ranks):
        by_rank[one.rank].append(one)
    return [_medians_of(rank, mine) for rank, mine in sorted(by_rank.items())]


def _medians_of(rank: int, mine: Sequence[CollectiveOnRank]) -> BucketMedians:
    waits = [one.bucket for one in mine if one.bucket is not None]
    ratios = [
        one.hidden_ns / (one.end_ns - one.start_ns) for one in mine if one.end_ns > one.start_ns
    ]
    return BucketMedians(
        rank=rank,
        duration_ns=int(statistics.median(one.end_ns - one.start_ns for one in mine)),
        wait_ns=_median([one.wait_ns for one in mine]),
        queue_ns=_median([one.queue_ns for one in waits]),
        hidden_ratio=statistics.median(ratios) if ratios else None,
        blocked_ratio=_share([one.blocked for one in waits]),
        backlog_ratio=_share([one.backlog for one in waits]),
    )


def _median(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return int(statistics.median(known)) if known else None


def _share(values: Sequence[bool | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
