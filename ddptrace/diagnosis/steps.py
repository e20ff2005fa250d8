"""The steps that count, each with its place in a recording and its comm operations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from ddptrace.diagnosis.ledger import Causes
from ddptrace.intervals import IntArray, Intervals
from ddptrace.metrics.comm_table import NONE
from ddptrace.metrics.measured import Measured
from ddptrace.metrics.recorded import Recorded
from ddptrace.model import Trace


@dataclass(frozen=True, slots=True, eq=False)
class Calls:
    """Comm operations of a rank, one row each, in the order of their launches; times are ns.

    `row` is the row in the rank's table, `collective` that of `matching`, `operations` that of the
    recording. `moving_ns` is when the transfer began; it holds where `is_matched`. From
    `bucket` on they are as in `BucketTimes`, for what is no bucket -1, or NEVER_NS; `size_bytes` is
    -1 where it is unknown.
    """

    row: NDArray[np.intp]
    collective: NDArray[np.intp]
    operations: NDArray[np.intp]
    recording: NDArray[np.int32]
    window: NDArray[np.intp]
    operation: NDArray[np.int32]
    of_integers: NDArray[np.bool_]
    in_backward: NDArray[np.bool_]
    start_ns: IntArray
    moving_ns: IntArray
    end_ns: IntArray
    launch_ns: IntArray
    transfer_ns: IntArray
    is_matched: NDArray[np.bool_]
    bucket: IntArray
    backward_pass: IntArray
    ready_ns: IntArray
    is_blocked: NDArray[np.int8]
    size_bytes: IntArray

    def __len__(self) -> int:
        return int(self.row.size)

    def take(self, rows: NDArray[np.bool_]) -> Calls:
        """Return the chosen rows."""
        return Calls(*(getattr(self, column.name)[rows] for column in fields(self)))


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One step that counts: its causes, its recording, its place there, what it communicated."""

    causes: Causes
    recorded: Recorded
    at: int
    calls: Calls

    @property
    def is_bucket(self) -> NDArray[np.bool_]:
        """Which of the calls reduce a bucket of gradients."""
        return np.not_equal(self.calls.bucket, NONE)

    @property
    def own(self) -> NDArray[np.int32]:
        """The operations of the recording that belong to the step."""
        return self.recorded.steps.own(self.at)

    @property
    def rank(self) -> int:
        """The rank whose step it is."""
        return self.causes.row.rank

    def exposed_transfer_ns(self, chosen: NDArray[np.bool_]) -> int | None:
        """Return how long nothing but the chosen calls was on the GPU and they moved data.

        Waiting is none of it: it would meet the next call. None when a chosen call is unmatched.
        """
        mine, others = self.calls.take(chosen), self.calls.take(~chosen)
        if not mine.is_matched.all():
            return None
        moving = Intervals.union_of(mine.moving_ns, mine.end_ns)
        moving = moving - Intervals.union_of(others.start_ns, others.end_ns)
        if not len(moving):
            return 0
        exposed = self.recorded.busy.exposed.clip(int(moving.start[0]), int(moving.end[-1]))
        return (moving & exposed).total_ns


def host_ranges(trace: Trace, is_one: Callable[[str], bool]) -> Intervals:
    """Return when a recording's host was in ranges whose names pass a test; each is asked once."""
    codes = [code for code, name in enumerate(trace.names) if is_one(name)]
    if not codes:
        return Intervals.empty()
    rows = np.isin(trace.host.name, codes)
    return Intervals.union_of(trace.host.start_ns[rows], trace.host.end_ns[rows])


def counted_steps(measured: Measured, rows: Sequence[Iterable[Causes]]) -> list[Step]:
    """Return the steps that count; `rows` are the causes of each recording's rows."""
    kept = {id(row) for row in measured.counted}
    calls = {rank: _calls(measured, rank) for rank in measured.recordings}
    found = []
    for mine, (rank, number) in zip(rows, measured.places, strict=True):
        of_recording = calls[rank].take(calls[rank].recording == number)
        for at, one in enumerate(mine):
            if id(one.row) in kept:
                own = of_recording.take(of_recording.window == at)
                found.append(Step(one, measured.recordings[rank][number], at, own))
    return found


def _calls(measured: Measured, rank: int) -> Calls:
    collected, buckets = measured.collected, measured.buckets
    found, table = collected.matching, collected.tables[rank]
    place = found.row[:, found.ranks.index(rank)]
    collective = np.full(len(table), NONE, np.intp)
    collective[place[place != NONE]] = np.flatnonzero(place != NONE)
    rows = np.flatnonzero(collective != NONE)
    of = collective[rows]
    wait_ns = collected.wait_ns[of, found.ranks.index(rank)]
    return Calls(
        row=rows,
        collective=of,
        operations=table.row[rows],
        recording=table.recording[rows],
        window=table.window[rows],
        operation=table.operation[rows],
        of_integers=table.of_integers[rows],
        in_backward=table.in_backward[rows],
        start_ns=table.start_ns[rows],
        moving_ns=table.start_ns[rows] + np.maximum(wait_ns, 0),
        end_ns=table.end_ns[rows],
        launch_ns=table.launch_ns[rows],
        transfer_ns=collected.transfer_ns[of],
        is_matched=found.is_matched[of],
        bucket=np.where(buckets.bucket[of] == NONE, NONE, buckets.times[rank].bucket[rows]),
        backward_pass=buckets.times[rank].backward_pass[rows],
        ready_ns=buckets.times[rank].ready_ns[rows],
        is_blocked=buckets.times[rank].is_blocked[rows],
        size_bytes=found.size_bytes[of],
    )
