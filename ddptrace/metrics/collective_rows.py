"""The collectives of a run as the report lists them, one record each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ddptrace.metrics.bandwidth import algbw_gb_s, busbw_gb_s
from ddptrace.metrics.bucket_rows import BucketOnRank, buckets_on_rank
from ddptrace.metrics.buckets import Buckets
from ddptrace.metrics.collectives import Collected
from ddptrace.metrics.comm_table import NONE
from ddptrace.metrics.timebase import Timebase
from ddptrace.model import NEVER_NS

_LATEST = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class CollectiveOnRank:
    """One rank's part in a collective; times are ns, None is what could not be measured.

    The rank waits from the start on, for `wait_ns`. hidden + exposed = end - start. `bucket` is
    None for what is no gradient bucket.
    """

    rank: int
    start_ns: int
    end_ns: int
    wait_ns: int | None
    hidden_ns: int
    exposed_ns: int
    launch_ns: int | None
    bucket: BucketOnRank | None = None


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective and what it was on each rank that has a record of it.

    `transfer_ns`, the shortest duration, and all that follows from it are None where a recorded
    rank of the group has no record of it. `bucket` counts from 0 in each backward pass, which
    `backward_pass` counts in its step; both are None for what is no gradient bucket.
    """

    step: int | None
    group: str | None
    order: int
    op: str | None
    group_size: int | None
    size_bytes: int | None
    bucket: int | None
    transfer_ns: int | None
    skew_ns: int | None
    algbw_gb_s: float | None
    busbw_gb_s: float | None
    ranks: list[CollectiveOnRank]
    backward_pass: int | None = None


def collective_rows(collected: Collected, buckets: Buckets, base: Timebase) -> list[Collective]:
    """Return the collectives in the order of their starts, in times of the report."""
    ranks = _ranks(collected, buckets, base)
    starts = [min((one.start_ns for one in mine), default=_LATEST) for mine in ranks]
    order = sorted(range(len(ranks)), key=starts.__getitem__)
    columns = _columns(collected, buckets)
    return [_collective(columns, at, ranks[at]) for at in order]


def _ranks(collected: Collected, buckets: Buckets, base: Timebase) -> list[list[CollectiveOnRank]]:
    """Return for each collective its ranks, as far as they have a record of it."""
    found = collected.matching
    rows: list[list[CollectiveOnRank]] = [[] for _ in range(len(found))]
    for at, rank in enumerate(found.ranks):
        table = collected.tables[rank]
        there = np.flatnonzero(found.row[:, at] != NONE)
        mine = found.row[there, at]
        recording = table.recording[mine]
        matched = found.is_matched[there]
        launch_ns = table.launch_ns[mine]
        shift_ns = base.shift_ns(rank, recording, table.start_ns[mine])
        columns = (
            there,
            table.start_ns[mine] - shift_ns,
            table.end_ns[mine] - shift_ns,
            np.where(matched, collected.wait_ns[there, at], NONE),
            collected.hidden_ns[there, at],
            collected.exposed_ns[there, at],
            launch_ns - shift_ns,
            launch_ns != NEVER_NS,
        )
        on_rank = buckets_on_rank(buckets, base, rank, table, (there, mine))
        for (
            bucket,
            place,
            start_ns,
            end_ns,
            wait_ns,
            hidden_ns,
            exposed_ns,
            launch,
            launched,
        ) in zip(on_rank, *(column.tolist() for column in columns), strict=True):
            rows[place].append(
                CollectiveOnRank(
                    rank,
                    start_ns,
                    end_ns,
                    None if wait_ns == NONE else wait_ns,
                    hidden_ns,
                    exposed_ns,
                    launch if launched else None,
                    bucket,
                )
            )
    return rows


@dataclass(frozen=True, slots=True)
class _Columns:
    """What is not of one rank, as lists; -1 is unknown."""

    collected: Collected
    step: list[int]
    members: list[int]
    order: list[int]
    operation: list[int]
    size_bytes: list[int]
    transfer_ns: list[int]
    skew_ns: list[int]
    bucket: list[int]
    backward_pass: list[int]
    words: list[str]


def _columns(collected: Collected, buckets: Buckets) -> _Columns:
    found = collected.matching
    return _Columns(
        collected=collected,
        step=collected.step.tolist(),
        members=found.members.tolist(),
        order=found.order.tolist(),
        operation=collected.operation.tolist(),
        size_bytes=found.size_bytes.tolist(),
        transfer_ns=np.where(found.is_matched, collected.transfer_ns, NONE).tolist(),
        skew_ns=collected.wait_ns.max(axis=1, initial=NONE).tolist(),
        bucket=buckets.bucket.tolist(),
        backward_pass=buckets.backward_pass.tolist(),
        words=list(collected.words.operations),
    )


def _collective(columns: _Columns, at: int, ranks: list[CollectiveOnRank]) -> Collective:
    members = columns.collected.matching.lists[columns.members[at]]
    op = None if columns.operation[at] == NONE else columns.words[columns.operation[at]]
    transfer_ns = _known(columns.transfer_ns[at])
    size_bytes = _known(columns.size_bytes[at])
    algbw = algbw_gb_s(size_bytes, transfer_ns)
    return Collective(
        step=_known(columns.step[at]),
        group=None if members.group is None else members.group.name,
        order=columns.order[at],
        op=op,
        group_size=members.size,
        size_bytes=size_bytes,
        bucket=_known(columns.bucket[at]),
        transfer_ns=transfer_ns,
        skew_ns=None if transfer_ns is None else columns.skew_ns[at],
        algbw_gb_s=algbw,
        busbw_gb_s=busbw_gb_s(algbw, op, members.size),
        ranks=ranks,
        backward_pass=_known(columns.backward_pass[at]),
    )


def _known(value: int) -> int | None:
    return None if value == NONE else value
