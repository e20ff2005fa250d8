"""The collectives of a run as the report lists them, one record each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import overload

import numpy as np
from numpy.typing import NDArray

from ddptrace.intervals import IntArray
from ddptrace.metrics.bandwidth import algbw_gb_s, busbw_gb_s
from ddptrace.metrics.bucket_rows import BucketOnRank, buckets_on_rank, or_none
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


class Collectives(Sequence[Collective]):
    """The collectives of a run, all of them made when the first is asked for.

    Those of a large run are hundreds of thousands of records, of which most reports show none.
    """

    __slots__ = ("_columns", "_records")

    def __init__(self, columns: _Columns) -> None:
        self._columns = columns
        self._records: list[Collective] | None = None

    def __len__(self) -> int:
        return int(self._columns.order.size)

    @overload
    def __getitem__(self, place: int) -> Collective: ...
    @overload
    def __getitem__(self, place: slice) -> list[Collective]: ...
    def __getitem__(self, place: int | slice) -> Collective | list[Collective]:
        return self._made()[place]

    def __iter__(self) -> Iterator[Collective]:
        return iter(self._made())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and self._made() == list(other)

    __hash__ = None  # type: ignore[assignment]  # like that of a list

    def __repr__(self) -> str:
        return f"Collectives({self._made()})"

    def _made(self) -> list[Collective]:
        if self._records is None:
            self._records = _records(self._columns)
        return self._records


@dataclass(frozen=True, slots=True, eq=False)
class _Columns:
    """What the records are made of; `order` are the rows of `collected` by their starts."""

    collected: Collected
    buckets: Buckets
    base: Timebase
    order: NDArray[np.intp]


def collective_rows(collected: Collected, buckets: Buckets, base: Timebase) -> Collectives:
    """Return the collectives in the order of their starts, in times of the report."""
    found = collected.matching
    start_ns = np.full(len(found), _LATEST)
    for at, rank in enumerate(found.ranks):
        there, times = _times(collected, base, at, rank)
        start_ns[there] = np.minimum(start_ns[there], times.start_ns)
    # The recordings are many times larger than all that is kept with a report.
    kept = replace(collected, recordings={})
    return Collectives(_Columns(kept, buckets, base, np.argsort(start_ns, kind="stable")))


@dataclass(frozen=True, slots=True, eq=False)
class _Times:
    """When the operations of a rank were, in times of the report, and their `row` in its table."""

    row: NDArray[np.intp]
    start_ns: IntArray
    end_ns: IntArray
    launch_ns: IntArray


def _times(
    collected: Collected, base: Timebase, at: int, rank: int
) -> tuple[NDArray[np.intp], _Times]:
    """Return the collectives that a rank has a record of, and when they were there."""
    table = collected.tables[rank]
    there = np.flatnonzero(collected.is_there[:, at])
    row = collected.matching.row[there, at]
    shift_ns = base.shift_ns(rank, table.recording[row], table.start_ns[row])
    moved = (times[row] - shift_ns for times in (table.start_ns, table.end_ns, table.launch_ns))
    return there, _Times(row, *moved)


def _records(columns: _Columns) -> list[Collective]:
    collected, order = columns.collected, columns.order
    found = collected.matching
    ranks = _ranks(columns)
    words: list[str | None] = [*collected.words.operations, None]  # the last one is that of NONE
    transfer_ns = np.where(found.is_matched, collected.transfer_ns, NONE)
    known = (
        or_none(column[order], column[order] != NONE)
        for column in (
            collected.step,
            found.size_bytes,
            columns.buckets.bucket,
            columns.buckets.backward_pass,
            transfer_ns,
        )
    )
    others = (
        column[order].tolist()
        for column in (
            collected.wait_ns.max(axis=1, initial=NONE),
            found.members,
            found.order,
            collected.operation,
            np.arange(order.size),
        )
    )
    records = []
    for step, size_bytes, bucket, backward_pass, transfer, skew, members, place, code, row in zip(
        *known, *others, strict=True
    ):
        group, op = found.lists[members], words[code]
        algbw = algbw_gb_s(size_bytes, transfer)
        records.append(
            Collective(
                step=step,
                group=None if group.group is None else group.group.name,
                order=place,
                op=op,
                group_size=group.size,
                size_bytes=size_bytes,
                bucket=bucket,
                transfer_ns=transfer,
                skew_ns=None if transfer is None else skew,
                algbw_gb_s=algbw,
                busbw_gb_s=busbw_gb_s(algbw, op, group.size),
                ranks=ranks[row],
                backward_pass=backward_pass,
            )
        )
    return records


def _ranks(columns: _Columns) -> list[list[CollectiveOnRank]]:
    """Return for each collective its ranks, as far as they have a record of it."""
    collected, buckets, base = columns.collected, columns.buckets, columns.base
    found = collected.matching
    rows: list[list[CollectiveOnRank]] = [[] for _ in range(len(found))]
    for at, rank in enumerate(found.ranks):
        there, times = _times(collected, base, at, rank)
        table = collected.tables[rank]
        wait_ns = np.where(found.is_matched[there], collected.wait_ns[there, at], NONE)
        parts = map(
            CollectiveOnRank,
            repeat(rank),
            times.start_ns.tolist(),
            times.end_ns.tolist(),
            or_none(wait_ns, wait_ns != NONE),
            collected.hidden_ns[there, at].tolist(),
            collected.exposed_ns[there, at].tolist(),
            or_none(times.launch_ns, table.launch_ns[times.row] != NEVER_NS),
            buckets_on_rank(buckets, base, rank, table, (there, times.row)),
        )
        for place, part in zip(there.tolist(), parts, strict=True):
            rows[place].append(part)
    return rows
