"""What of a step's exposed transfer another schedule could hide, and what is the link's matter.

A schedule can hide communication under the compute of backward that is left when the first
gradients are ready. What does not fit under it is due to the link's bandwidth, and what collectives
cost however small they are is no matter of schedules either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from ddptrace import kernels
from ddptrace.intervals import IntArray
from ddptrace.kernels import Kind
from ddptrace.metrics.collectives import Collected
from ddptrace.metrics.comm_table import NONE
from ddptrace.metrics.gradients import forward_launches
from ddptrace.metrics.link import SMALL_BYTES, Link, fitted
from ddptrace.metrics.measured import Measured
from ddptrace.metrics.recorded import Recorded
from ddptrace.metrics.steps import StepMetrics
from ddptrace.model import NEVER_NS

LAST_BYTES = 25 << 20
"""No schedule hides the last bucket; of this size or less, DDP's usual one, it is no mistake."""
SMALLEST_BYTES = 1 << 20
"""The last bucket of a job with one bucket could be about this small."""
DOMINATED = 0.5
"""Fixed cost dominates a transfer when it is this part of it at least."""


@dataclass(frozen=True, slots=True)
class ExposedTransfer:
    """The exposed transfer of one step of a rank; schedule + bandwidth + latency + unknown is all.

    `transfer_ns` is the transfer of the step's gradient buckets, `available_ns` the compute that an
    ideal schedule could hide it under. `collectives` counts those that were exposed at all.
    """

    rank: int
    step: int | None
    schedule_ns: int
    bandwidth_ns: int
    latency_ns: int
    unknown_ns: int
    transfer_ns: int
    available_ns: int
    collectives: int

    @property
    def total_ns(self) -> int:
        """The step's exposed transfer."""
        return self.schedule_ns + self.bandwidth_ns + self.latency_ns + self.unknown_ns


@dataclass(frozen=True, slots=True, eq=False)
class _Calls:
    """A rank's matched comm operations: one row each, as numpy columns in ns.

    `window` is the step that it belongs to, of one that belongs to none the one in which it ran.
    `exposed_ns` is the exposed part of the transfer, `fixed` the part of the transfer that is fixed
    cost, NaN where nothing tells. `bucket` and `backward_pass` are -1 for what is no bucket. No
    schedule hides more of the last of several buckets than what is beyond `usual_ns`, or of a
    single one beyond `smallest_ns`; both are NaN where no line tells.
    """

    recording: NDArray[np.int32]
    window: NDArray[np.intp]
    transfer_ns: IntArray
    exposed_ns: IntArray
    fixed: NDArray[np.float64]
    bucket: IntArray
    backward_pass: IntArray
    launch_ns: IntArray
    first_ready_ns: IntArray
    smallest_ns: NDArray[np.float64]
    usual_ns: NDArray[np.float64]

    @property
    def is_bucket(self) -> NDArray[np.bool_]:
        """Which of them are buckets."""
        of_bucket: NDArray[np.bool_] = self.bucket != NONE
        return of_bucket

    @property
    def unavoidable_ns(self) -> int:
        """What of the last of these buckets no schedule could hide."""
        if not self.bucket.size:
            return 0
        last = int(self.bucket.argmax())
        last_ns = int(self.transfer_ns[last])
        limit_ns = float((self.usual_ns if self.bucket.size > 1 else self.smallest_ns)[last])
        if np.isnan(limit_ns):
            return last_ns if self.bucket.size > 1 else 0
        return min(last_ns, round(limit_ns))

    def take(self, rows: NDArray[np.bool_]) -> _Calls:
        """Return the chosen rows."""
        return _Calls(*(getattr(self, column.name)[rows] for column in fields(self)))


def links(collected: Collected) -> dict[tuple[int, int], Link]:
    """Return the lines through the transfers of each list and operation, where they tell one."""
    found = collected.matching
    known = found.is_matched & (found.size_bytes > 0)
    lines = {}
    kinds = np.stack((found.members, collected.operation), axis=1)[known]
    for members, operation in {(int(one), int(other)) for one, other in kinds}:
        mine = known & (found.members == members) & (collected.operation == operation)
        line = fitted(found.size_bytes[mine], collected.transfer_ns[mine])
        if line is not None:
            lines[members, operation] = line
    return lines


def exposed_transfers(measured: Measured) -> list[list[ExposedTransfer | None]]:
    """Return the parts of exposed transfer for each row of `measured.rows`, None where unknown."""
    lines = links(measured.collected)
    calls = {rank: _calls(measured, rank, lines) for rank in measured.recordings}
    found: list[list[ExposedTransfer | None]] = []
    for rows, (rank, number) in zip(measured.rows, measured.places, strict=True):
        recorded, mine = measured.recordings[rank][number], calls[rank]
        found.append([])
        for at, row in enumerate(rows):
            if row.exposed_transfer_ns is None:
                found[-1].append(None)
                continue
            own = mine.take((mine.recording == number) & (mine.window == at))
            found[-1].append(_parts(row, own, _rooms(recorded, at, own)))
    return found


def _calls(measured: Measured, rank: int, lines: Mapping[tuple[int, int], Link]) -> _Calls:
    collected, buckets = measured.collected, measured.buckets
    found, table = collected.matching, collected.tables[rank]
    at = found.ranks.index(rank)
    rows = np.flatnonzero(found.is_matched & (found.row[:, at] != NONE))
    mine = found.row[rows, at]
    moving_ns = table.start_ns[mine] + collected.wait_ns[rows, at]
    exposed_ns = np.zeros(rows.size, np.int64)
    window = table.window[mine].copy()
    for number, one in enumerate(measured.recordings[rank]):
        here = table.recording[mine] == number
        exposed_ns[here] = one.busy.exposed.length_in(moving_ns[here], table.end_ns[mine][here])
        stray = here & (window == NONE) & (moving_ns >= one.steps.start_ns[0])
        window[stray] = np.searchsorted(one.steps.end_ns, moving_ns[stray], side="right")
    return _Calls(
        recording=table.recording[mine],
        window=window,
        transfer_ns=collected.transfer_ns[rows],
        exposed_ns=exposed_ns,
        fixed=_fixed(collected, rows, lines),
        bucket=buckets.bucket[rows],
        backward_pass=buckets.backward_pass[rows],
        launch_ns=table.launch_ns[mine],
        first_ready_ns=buckets.times[rank].first_ready_ns[mine],
        smallest_ns=_of_line(collected, rows, lines, lambda line: line.time_ns(SMALLEST_BYTES)),
        usual_ns=_of_line(collected, rows, lines, lambda line: line.time_ns(LAST_BYTES)),
    )


def _of_line(
    collected: Collected,
    rows: NDArray[np.intp],
    lines: Mapping[tuple[int, int], Link],
    told: Callable[[Link], float],
) -> NDArray[np.float64]:
    """Return what the line of each collective tells; NaN where it has none."""
    found = collected.matching
    kinds = zip(found.members[rows].tolist(), collected.operation[rows].tolist(), strict=True)
    known = {kind: told(line) for kind, line in lines.items()}
    return np.array([known.get(kind, np.nan) for kind in kinds], np.float64)


def _fixed(
    collected: Collected, rows: NDArray[np.intp], lines: Mapping[tuple[int, int], Link]
) -> NDArray[np.float64]:
    """Return which part of each transfer is fixed cost; NaN where nothing tells."""
    found = collected.matching
    size, transfer = found.size_bytes[rows], np.maximum(collected.transfer_ns[rows], 1)
    small = np.where(size == NONE, np.nan, size < SMALL_BYTES)
    fixed_ns = _of_line(collected, rows, lines, lambda line: line.fixed_ns)
    of_line = np.minimum(fixed_ns / transfer, 1)
    return np.where(np.isnan(of_line), small, of_line)


@dataclass(frozen=True, slots=True)
class _Room:
    """What the buckets of one backward pass transfer, and under what compute they could be hidden.

    `least_ns` is what no schedule could hide. Where `is_known` is false nothing tells backward from
    forward, and no more than `available_ns` was available.
    """

    transfer_ns: int
    available_ns: int
    least_ns: int
    is_known: bool


def _rooms(recorded: Recorded, at: int, own: _Calls) -> list[_Room]:
    """Return for each backward pass of a step that reduces what could hide its buckets.

    DDP waits for the buckets of a pass at its end, so that the compute of one hides no other's; and
    none hides the buckets of a pass that comes after it.
    """
    ops, is_bucket = recorded.trace.ops, own.is_bucket
    own_rows = recorded.steps.own(at)
    mine = own_rows[ops.kind[own_rows] == Kind.COMPUTE]
    in_backward = ops.in_backward[mine]
    is_known = bool(in_backward.any())
    backward = mine[in_backward] if is_known else mine
    of_pass = _passes_of(recorded, backward, own)
    gradient_ns = _gradients_ns(recorded, at)
    rooms = []
    for number in np.unique(own.backward_pass[is_bucket]).tolist():
        buckets = own.take(is_bucket & (own.backward_pass == number))
        rows = backward[of_pass == number]
        available_ns = _available_ns(recorded, rows, buckets, gradient_ns, is_known=is_known)
        transfer_ns = int(buckets.transfer_ns.sum())
        least_ns = max(transfer_ns - available_ns, buckets.unavoidable_ns)
        rooms.append(_Room(transfer_ns, available_ns, least_ns, is_known))
    return rooms


def _passes_of(recorded: Recorded, backward: NDArray[np.intp], own: _Calls) -> IntArray:
    """Return the number of the pass that each kernel of backward is of; -1 for one without buckets.

    Between two passes the training loop launches the forward one; where nothing tells of that, a
    pass ends with the last of its buckets.
    """
    ops, is_bucket = recorded.trace.ops, own.is_bucket
    numbers = np.unique(own.backward_pass[is_bucket])
    last_ns = [own.launch_ns[is_bucket & (own.backward_pass == one)].max() for one in numbers]
    forward_ns = forward_launches(recorded.trace)
    if not numbers.size or not forward_ns.size:
        place = np.searchsorted(np.array(last_ns[:-1], np.int64), ops.launch_ns[backward])
        return numbers[place] if numbers.size else np.full(backward.size, NONE)
    run = np.searchsorted(forward_ns, ops.launch_ns[backward])
    of_pass = np.full(backward.size, NONE, np.int64)
    for number, launched_ns in zip(numbers.tolist(), last_ns, strict=True):
        of_pass[run == np.searchsorted(forward_ns, launched_ns)] = number
    return of_pass


def _gradients_ns(recorded: Recorded, at: int) -> IntArray:
    """Return when the host began to accumulate each gradient of a step, rising."""
    mark, host = recorded.steps.marks[at], recorded.trace.host
    if mark is None:
        return np.empty(0, np.int64)
    first, end = np.searchsorted(host.start_ns, (mark.start_ns, mark.end_ns))
    names = [kernels.is_gradient_operator(name) for name in recorded.trace.names]
    rows = np.flatnonzero(np.array(names, np.bool_)[host.name[first:end]])
    begun_ns: IntArray = host.start_ns[first + rows]
    return begun_ns


def _available_ns(
    recorded: Recorded,
    rows: NDArray[np.intp],
    buckets: _Calls,
    gradient_ns: IntArray,
    *,
    is_known: bool,
) -> int:
    """Return the compute of a backward pass from when its first gradient is ready."""
    ops = recorded.trace.ops
    if not rows.size:
        return 0
    known = buckets.first_ready_ns[buckets.first_ready_ns != NEVER_NS]
    launch_ns = ops.launch_ns[rows]
    first = int(np.searchsorted(gradient_ns, launch_ns.min()))
    before = launch_ns < gradient_ns[first] if first < gradient_ns.size else np.zeros(0, np.bool_)
    if not is_known:
        start_ns = int(ops.start_ns[rows].min())
    elif known.size:
        start_ns = int(known.min())
    elif before.any():
        start_ns = int(ops.end_ns[rows][before].max())
    else:  # without records of gradients: none is ready before the first kernel of backward ends
        start_ns = int(ops.end_ns[rows].min())
    end_ns = max(int(ops.end_ns[rows].max()), start_ns)
    return int(recorded.busy.compute.length_in(np.array([start_ns]), np.array([end_ns]))[0])


def _parts(row: StepMetrics, own: _Calls, rooms: Sequence[_Room]) -> ExposedTransfer:
    exposed_ns = row.exposed_transfer_ns or 0
    # Of operations that run at once each counts in full: their shares make up the whole.
    share = own.exposed_ns / max(int(own.exposed_ns.sum()), 1)
    fixed, known = np.nan_to_num(own.fixed), ~np.isnan(own.fixed)
    is_small = fixed >= DOMINATED
    small_ns = float((share * fixed)[is_small].sum()) * exposed_ns
    least_ns = sum(room.least_ns for room in rooms)
    large_buckets = own.is_bucket & ~is_small
    of_buckets_ns = float(share[large_buckets].sum()) * exposed_ns
    schedule_ns = min(max(round(of_buckets_ns - least_ns), 0), exposed_ns - round(small_ns))
    rest_ns = exposed_ns - schedule_ns - round(small_ns)
    rest = np.where(is_small, share * (1 - fixed), share)
    rest[large_buckets] *= 1 - min(schedule_ns / max(of_buckets_ns, 1), 1)
    rest = rest / max(float(rest.sum()), np.finfo(float).tiny)
    unknown_ns = round(rest_ns * float(rest[~known].sum())) if share.any() else rest_ns
    latency_ns = round(rest_ns * float((rest * fixed)[~is_small].sum()))
    latency_ns = min(latency_ns, rest_ns - unknown_ns)
    known_ns = schedule_ns if all(room.is_known for room in rooms) else 0
    return ExposedTransfer(
        rank=row.rank,
        step=row.step,
        schedule_ns=known_ns,
        bandwidth_ns=rest_ns - unknown_ns - latency_ns,
        latency_ns=latency_ns + round(small_ns),
        unknown_ns=unknown_ns + schedule_ns - known_ns,
        transfer_ns=sum(room.transfer_ns for room in rooms),
        available_ns=sum(room.available_ns for room in rooms),
        collectives=int((own.exposed_ns > 0).sum()),
    )
