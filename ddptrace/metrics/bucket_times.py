"""When the gradients of each bucket were ready, and what its all-reduce then waited for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddptrace.intervals import IntArray
from ddptrace.kernels import Kind
from ddptrace.metrics.bucket_numbers import Numbered
from ddptrace.metrics.comm_table import NONE, CommTable
from ddptrace.metrics.recorded import Recorded
from ddptrace.model import NEVER_NS, Trace

BACKLOG_GAP_NS = 5_000
"""Kernels that follow each other on a stream are 1 to 5 µs apart."""


@dataclass(frozen=True, slots=True, eq=False)
class BucketTimes:
    """What is known of a rank's buckets beside their times: a value for each row of its table.

    Times are NEVER_NS, all others -1 where they are not known and for what is no bucket.
    `released_ns` is when the gradients of a bucket and of all before it were ready, `ready_ns` when
    its own were, `first_ready_ns` when the first of them was. The first two differ for one that
    `is_blocked`. `has_backlog` is 0 or 1, too.
    """

    bucket: IntArray
    backward_pass: IntArray
    first_ready_ns: IntArray
    ready_ns: IntArray
    released_ns: IntArray
    is_blocked: NDArray[np.int8]
    has_backlog: NDArray[np.int8]
    ready_order: IntArray
    launch_order: IntArray
    end_order: IntArray


def bucket_times(
    recordings: Sequence[Recorded],
    table: CommTable,
    found: Sequence[Numbered],
    *,
    has_hook: bool,
) -> BucketTimes:
    """Return what is known of the buckets of a rank's passes.

    `has_hook` says that a communication hook launches kernels of its own before an all-reduce.
    """
    columns = {
        field.name: np.full(len(table), _UNKNOWN.get(field.name, NONE))
        for field in fields(BucketTimes)
    }
    works = [_Work.of(one.trace) for one in recordings]
    for one in found:
        values = _of_pass(works[one.backward.recording], table, one, has_hook=has_hook)
        for name, value in values.items():
            columns[name][one.rows] = value
    flags = {name: columns[name].astype(np.int8) for name in ("is_blocked", "has_backlog")}
    return BucketTimes(**(columns | flags))


_UNKNOWN = dict.fromkeys(("first_ready_ns", "ready_ns", "released_ns"), NEVER_NS)


@dataclass(frozen=True, slots=True, eq=False)
class _Work:
    """What a recording's all-reduces may wait for, in the order of the launches.

    NCCL's stream waits for all that was launched before on the stream on which the gradients are
    made: copies into the bucket, too. `ended_ns` is when all up to a row have ended, and at its end
    NEVER_NS, for a place before the first row. None of it is known on CPU runs, nor of what is in a
    graph, which has one launch: `in_graph` is of each row of the recording's operations.
    """

    launch_ns: IntArray
    ended_ns: IntArray
    in_graph: NDArray[np.bool_]
    tells_backward: bool

    @classmethod
    def of(cls, trace: Trace) -> _Work:
        ops = trace.ops
        backward = ops.in_backward & (ops.kind == Kind.COMPUTE)
        mine = (ops.kind != Kind.COMM) & (ops.launch_ns != NEVER_NS) & ~ops.in_graph
        tells_backward = bool(backward.any())
        if tells_backward:
            mine &= np.isin(ops.stream, np.unique(ops.stream[backward]))
        if trace.device == "host":
            mine[:] = False
        rows = np.flatnonzero(mine)
        rows = rows[np.argsort(ops.launch_ns[rows], kind="stable")]
        ended_ns = np.append(np.maximum.accumulate(ops.end_ns[rows]), NEVER_NS)
        return cls(ops.launch_ns[rows], ended_ns, ops.in_graph, tells_backward)


def _of_pass(
    work: _Work, table: CommTable, one: Numbered, *, has_hook: bool
) -> dict[str, NDArray[Any]]:
    rows = one.rows
    start_ns, end_ns = table.start_ns[rows], table.end_ns[rows]
    place = np.searchsorted(work.launch_ns, table.launch_ns[rows])
    released_ns = work.ended_ns[place - 1]
    # What still runs when it starts is nothing that it waited for: then the trace does not tell.
    in_graph = work.in_graph[table.row[rows]]
    released_ns = np.where((released_ns <= start_ns) & ~in_graph, released_ns, NEVER_NS)
    blocked = np.where(in_graph, NONE, _blocked(work, place, has_hook=has_hook))
    ready_ns = np.where(blocked == 0, released_ns, NEVER_NS)
    return {
        "bucket": one.first + np.arange(rows.size),
        "backward_pass": np.full(rows.size, one.backward.number),
        "ready_ns": ready_ns,
        "released_ns": released_ns,
        "is_blocked": blocked,
        "has_backlog": _backlog(start_ns, end_ns, released_ns),
        "ready_order": _order(ready_ns, known=one.is_whole),
        "launch_order": _order(np.arange(rows.size), known=one.is_whole),
        "end_order": _order(end_ns, known=one.is_whole),
    }


def _blocked(work: _Work, place: NDArray[np.intp], *, has_hook: bool) -> NDArray[np.int8]:
    """Tell which buckets were ready before, but behind one that was not; -1 where that is unknown.

    A gradient that becomes ready is copied into its bucket, or divided there, by a kernel. When
    none was launched since the bucket before, this one was complete already, and DDP launches
    buckets in their order only.
    """
    blocked = np.append(False, place[1:] == place[:-1])
    is_known = blocked if has_hook else np.ones(place.size, np.bool_)
    is_known = is_known & work.tells_backward & (place > 0)
    return np.where(is_known, blocked, NONE).astype(np.int8)


def _backlog(start_ns: IntArray, end_ns: IntArray, released_ns: IntArray) -> NDArray[np.int8]:
    """Tell which buckets waited for the one before and started right when it had ended."""
    before_ns = end_ns[:-1]
    waited = released_ns[1:] < before_ns
    follows = waited & (start_ns[1:] - before_ns <= BACKLOG_GAP_NS)
    known = released_ns != NEVER_NS
    return np.where(known, np.append(False, follows), NONE).astype(np.int8)


def _order(times: IntArray, *, known: bool) -> IntArray:
    """Return the place of each time among all; -1 where some of them are not known."""
    order = np.full(times.size, NONE)
    if known and (times != NEVER_NS).all():
        order[np.argsort(times, kind="stable")] = np.arange(times.size)
    return order
