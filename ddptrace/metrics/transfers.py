"""What of a step's exposed transfer another schedule could hide, and what is the link's matter.

A schedule can hide communication under the compute of backward that is left when the first
gradients are ready. What does not fit under it is due to the link's bandwidth, and what collectives
cost however small they are is no matter of schedules either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from ddptrace import kernels
from ddptrace.intervals import IntArray
from ddptrace.kernels import Kind
from ddptrace.metrics.collectives import Collected
from ddptrace.metrics.comm_table import NONE
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

    `exposed_ns` is the exposed part of the transfer, `fixed` the part of the transfer that is fixed
    cost, NaN where nothing tells.
    """

    recording: NDArray[np.int32]
    window: NDArray[np.intp]
    transfer_ns: IntArray
    exposed_ns: IntArray
    fixed: NDArray[np.float64]
    is_bucket: NDArray[np.bool_]
    first_ready_ns: IntArray

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
    lasts = _Lasts(*(_longest_ns(lines, size) for size in (SMALLEST_BYTES, LAST_BYTES)))
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
            available = _available_ns(recorded, at, own)
            found[-1].append(_parts(row, own, available, lasts))
    return found


def _first_gradient_ns(recorded: Recorded, at: int) -> int:
    """Return when the host began to accumulate a step's first gradient; NEVER_NS if unknown."""
    mark, host = recorded.steps.marks[at], recorded.trace.host
    if mark is None:
        return NEVER_NS
    first, end = np.searchsorted(host.start_ns, (mark.start_ns, mark.end_ns))
    names = [kernels.is_gradient_operator(name) for name in recorded.trace.names]
    rows = np.flatnonzero(np.array(names, np.bool_)[host.name[first:end]])
    return int(host.start_ns[first + rows[0]]) if rows.size else NEVER_NS


@dataclass(frozen=True, slots=True)
class _Lasts:
    """How long a last bucket of two sizes takes at the most; None where no line tells."""

    smallest_ns: int | None
    usual_ns: int | None

    def unavoidable_ns(self, transfer_ns: IntArray) -> int:
        """Return what of the last of a step's buckets no schedule could hide."""
        if not transfer_ns.size:
            return 0
        last_ns = int(transfer_ns[-1])
        limit_ns = self.usual_ns if transfer_ns.size > 1 else self.smallest_ns or 0
        return last_ns if limit_ns is None else min(last_ns, limit_ns)


def _longest_ns(lines: Mapping[tuple[int, int], Link], size_bytes: int) -> int | None:
    return max((round(line.time_ns(size_bytes)) for line in lines.values()), default=None)


def _calls(measured: Measured, rank: int, lines: Mapping[tuple[int, int], Link]) -> _Calls:
    collected, buckets = measured.collected, measured.buckets
    found, table = collected.matching, collected.tables[rank]
    at = found.ranks.index(rank)
    rows = np.flatnonzero(found.is_matched & (found.row[:, at] != NONE))
    mine = found.row[rows, at]
    moving_ns = table.start_ns[mine] + collected.wait_ns[rows, at]
    exposed_ns = np.zeros(rows.size, np.int64)
    for number, one in enumerate(measured.recordings[rank]):
        here = table.recording[mine] == number
        end_ns = table.end_ns[mine][here]
        exposed_ns[here] = one.busy.exposed.length_in(moving_ns[here], end_ns)
    return _Calls(
        recording=table.recording[mine],
        window=table.window[mine],
        transfer_ns=collected.transfer_ns[rows],
        exposed_ns=exposed_ns,
        fixed=_fixed(collected, rows, lines),
        is_bucket=buckets.bucket[rows] != NONE,
        first_ready_ns=buckets.times[rank].first_ready_ns[mine],
    )


def _fixed(
    collected: Collected, rows: NDArray[np.intp], lines: Mapping[tuple[int, int], Link]
) -> NDArray[np.float64]:
    """Return which part of each transfer is fixed cost; NaN where nothing tells."""
    found = collected.matching
    size, transfer = found.size_bytes[rows], np.maximum(collected.transfer_ns[rows], 1)
    small = np.where(size == NONE, np.nan, size < SMALL_BYTES)
    kinds = zip(found.members[rows].tolist(), collected.operation[rows].tolist(), strict=True)
    fixed_ns = [lines[kind].fixed_ns if kind in lines else np.nan for kind in kinds]
    of_line = np.minimum(np.array(fixed_ns, np.float64) / transfer, 1)
    return np.where(np.isnan(of_line), small, of_line)


def _available_ns(recorded: Recorded, at: int, own: _Calls) -> int:
    """Return the compute of a step's backward passes from when a first gradient is ready."""
    ops = recorded.trace.ops
    backward = (recorded.steps.owner == at) & (ops.kind == Kind.COMPUTE) & ops.in_backward
    if not backward.any():
        return 0
    known = own.first_ready_ns[own.is_bucket & (own.first_ready_ns != NEVER_NS)]
    launched = backward & (ops.launch_ns < _first_gradient_ns(recorded, at))
    if known.size:
        start_ns = int(known.min())
    elif launched.any():
        start_ns = int(ops.end_ns[launched].max())
    else:  # without records of gradients: none is ready before the first kernel of backward ends
        start_ns = int(ops.end_ns[backward].min())
    end_ns = max(int(ops.end_ns[backward].max()), start_ns)
    return int(recorded.busy.compute.length_in(np.array([start_ns]), np.array([end_ns]))[0])


def _parts(row: StepMetrics, own: _Calls, available_ns: int, lasts: _Lasts) -> ExposedTransfer:
    exposed_ns = row.exposed_transfer_ns or 0
    # Of operations that run at once each counts in full: their shares make up the whole.
    share = own.exposed_ns / max(int(own.exposed_ns.sum()), 1)
    fixed, known = np.nan_to_num(own.fixed), ~np.isnan(own.fixed)
    is_small = fixed >= DOMINATED
    small_ns = float((share * fixed)[is_small].sum()) * exposed_ns
    transfer_ns = own.transfer_ns[own.is_bucket]
    least_ns = max(int(transfer_ns.sum()) - available_ns, lasts.unavoidable_ns(transfer_ns))
    of_buckets_ns = float(share[own.is_bucket & ~is_small].sum()) * exposed_ns
    schedule_ns = min(max(round(of_buckets_ns - least_ns), 0), exposed_ns - round(small_ns))
    rest_ns = exposed_ns - schedule_ns - round(small_ns)
    rest = np.where(is_small, share * (1 - fixed), share)
    rest = rest / max(float(rest.sum()), np.finfo(float).tiny)
    unknown_ns = round(rest_ns * float(rest[~known].sum())) if share.any() else rest_ns
    latency_ns = round(rest_ns * float((rest * fixed)[~is_small].sum()))
    latency_ns = min(latency_ns, rest_ns - unknown_ns)
    return ExposedTransfer(
        rank=row.rank,
        step=row.step,
        schedule_ns=schedule_ns,
        bandwidth_ns=rest_ns - unknown_ns - latency_ns,
        latency_ns=latency_ns + round(small_ns),
        unknown_ns=unknown_ns,
        transfer_ns=int(transfer_ns.sum()),
        available_ns=available_ns,
        collectives=int((own.exposed_ns > 0).sum()),
    )
