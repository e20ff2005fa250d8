"""Which all-reduces of a rank may be of gradients, and which of them are of one backward pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ddptrace import kernels
from ddptrace.intervals import IntArray
from ddptrace.kernels import Kind
from ddptrace.metrics.comm_table import NONE, CommTable, Vocabulary
from ddptrace.metrics.layouts import Layout
from ddptrace.metrics.recorded import Recorded
from ddptrace.model import NEVER_NS, HostKind, Trace

_Rows = NDArray[np.intp]
_UNUSED = NONE - 1


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """The all-reduces of one backward pass of a rank, as rows of its table in launch order.

    `number` counts the passes of the step. `begun_before` says that the recording holds nothing of
    the forward pass, so that the first buckets may be lost, `is_cut` that the last ones may be.
    """

    recording: int
    number: int
    rows: _Rows
    begun_before: bool
    is_cut: bool


def backward_passes(
    recordings: Sequence[Recorded],
    table: CommTable,
    words: Vocabulary,
    layouts: Sequence[Layout],
) -> list[Pass]:
    """Return the backward passes of a rank in order, with what in them may be buckets."""
    reduces = table.operation == words.operations.get("all_reduce", _UNUSED)
    reduces &= ~table.of_integers & (table.launch_ns != NEVER_NS) & (table.window != NONE)
    candidates = np.zeros(len(table), np.bool_)
    for number, one in enumerate(recordings):
        mine = reduces & (table.recording == number)
        candidates[mine] = _of_backward(one, table, np.flatnonzero(mine))
    rows = np.flatnonzero(candidates)
    rows = rows[_in_one_group(table, rows, layouts)]
    return [
        found
        for number, one in enumerate(recordings)
        for found in _of_recording(one, number, table, rows[table.recording[rows] == number])
    ]


def _of_backward(one: Recorded, table: CommTable, rows: _Rows) -> NDArray[np.bool_]:
    """Tell which all-reduces of a recording were launched in a backward pass, as far as is known.

    Where nothing at all tells of backward, each one in a marked step may be.
    """
    trace = one.trace
    if _has_no_ddp(trace):
        return np.zeros(rows.size, np.bool_)
    if trace.device == "host":
        return _behind_first_backward(one, table, rows)
    if trace.ops.in_backward.any():
        return _not_also_outside(table, rows)
    return np.full(rows.size, bool(trace.marks) and not _has_operators(trace))


def _has_no_ddp(trace: Trace) -> bool:
    """Tell whether a recording that has the host's operators has none of DDP's: it is not used."""
    engine = any(map(kernels.is_backward_operator, trace.names))
    return engine and not any(map(kernels.is_ddp_range, trace.names))


def _has_operators(trace: Trace) -> bool:
    return bool((trace.host.kind == HostKind.OPERATOR).any())


def _behind_first_backward(one: Recorded, table: CommTable, rows: _Rows) -> NDArray[np.bool_]:
    """Tell what started after the first backward operator of its step: gloo has its own threads."""
    ops, owner = one.trace.ops, one.steps.owner
    backward = ops.in_backward & (owner != NONE)
    first = np.full(len(one.steps.marks), np.iinfo(np.int64).max)
    np.minimum.at(first, owner[backward], ops.start_ns[backward])
    behind: NDArray[np.bool_] = table.start_ns[rows] >= first[table.window[rows]]
    return behind


def _not_also_outside(table: CommTable, rows: _Rows) -> NDArray[np.bool_]:
    """Tell what was launched in backward, unless its group reduces arrays of the size outside too.

    Tensor parallelism does in the backward pass what it does in the forward one.
    """
    inside = table.in_backward[rows]
    outside = ~inside & (table.call_bytes[rows] >= 0)
    if not outside.any():
        return inside
    kind = np.stack((table.group[rows], table.call_bytes[rows]), axis=1)
    _, code = np.unique(kind, axis=0, return_inverse=True)
    code = code.reshape(-1)
    return inside & ~np.isin(code, code[outside])


def _in_one_group(table: CommTable, rows: _Rows, layouts: Sequence[Layout]) -> NDArray[np.bool_]:
    """Tell which are of DDP's process group: the only one, or the only one that fits a layout."""
    groups = np.unique(table.group[rows])
    if groups.size <= 1:
        return np.ones(rows.size, np.bool_)
    fits = [
        group for group in groups if _fits_somehow(table, rows[table.group[rows] == group], layouts)
    ]
    return np.isin(table.group[rows], fits) & (len(fits) == 1)


def _fits_somehow(table: CommTable, rows: _Rows, layouts: Sequence[Layout]) -> bool:
    """Tell whether most steps have the buckets of a layout, once or several times."""
    steps = np.stack((table.recording[rows], table.window[rows]), axis=1)
    _, count = np.unique(steps, axis=0, return_counts=True)
    usual = int(np.bincount(count).argmax())
    return any(usual % len(one) == 0 for one in layouts)


def _of_recording(one: Recorded, number: int, table: CommTable, rows: _Rows) -> Iterator[Pass]:
    """Yield the passes of one recording, given its candidates in launch order."""
    if not rows.size:
        return
    forward_ns = forward_launches(one.trace)
    before = np.searchsorted(forward_ns, table.launch_ns[rows])
    window = table.window[rows]
    is_first = _changes(window) | _changes(before)
    if not one.trace.ops.in_backward.any():
        is_first |= _repeats(one, table, rows)
    borders = np.append(np.flatnonzero(is_first), rows.size)
    seen: Counter[int] = Counter()
    for first, end in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True):
        step = int(window[first])
        yield Pass(
            recording=number,
            number=seen[step],
            rows=rows[first:end],
            begun_before=bool(forward_ns.size) and before[first] == 0,
            is_cut=one.trace.partial is not None and end == rows.size,
        )
        seen[step] += 1


def _changes(column: NDArray[np.integer]) -> NDArray[np.bool_]:
    return np.append(True, column[1:] != column[:-1])


def forward_launches(trace: Trace) -> IntArray:
    """Return when the training loop launched compute that is not of backward, in order.

    Only its own thread counts: others may prepare data on the GPU at any time.
    """
    ops = trace.ops
    if trace.device == "host" or not ops.in_backward.any():
        return np.empty(0, np.int64)
    forward = (ops.kind == Kind.COMPUTE) & ~ops.in_backward & (ops.launch_ns != NEVER_NS)
    threads, count = np.unique(ops.thread[forward], return_counts=True)
    if threads.size > 1:
        forward &= ops.thread == threads[count.argmax()]
    return np.sort(ops.launch_ns[forward])


def _repeats(one: Recorded, table: CommTable, rows: _Rows) -> NDArray[np.bool_]:
    """Tell where passes begin, of a recording that does not tell backward from forward.

    Where a step does the same several times, by the names of its kernels and the sizes, from its
    first kernel on, there is a forward pass in each of them.
    """
    ops = one.trace.ops
    is_first = np.zeros(rows.size, np.bool_)
    for window in np.unique(table.window[rows]):
        mine = np.flatnonzero(table.window[rows] == window)
        own = one.steps.own(int(window))
        compute = own[(ops.kind[own] == Kind.COMPUTE) & (ops.launch_ns[own] != NEVER_NS)]
        order = np.argsort(ops.launch_ns[compute], kind="stable")
        names, launch_ns = ops.name[compute][order], ops.launch_ns[compute][order]
        borders = np.searchsorted(launch_ns, table.launch_ns[rows[mine]])
        pieces = [
            (size, names[first:end].tobytes())
            for size, first, end in zip(
                table.call_bytes[rows[mine]].tolist(), [0, *borders[:-1]], borders, strict=True
            )
        ]
        is_first[mine[:: _period(pieces)]] = bool(borders[0])
    return is_first


def _period(pieces: Sequence[object]) -> int:
    """Return after how many pieces the same ones come again, all of them if never."""
    count = len(pieces)
    periods = (period for period in range(1, count) if count % period == 0)
    return next((one for one in periods if pieces[one:] == pieces[:-one]), count)
