"""When the first gradient of each bucket was ready: what a full recording tells of the others.

A recording of CUDA alone holds no `AccumulateGrad`. Where its backward pass launched the same
kernels as that of a full recording of the rank, a gradient was ready after the same kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ddptrace import kernels
from ddptrace.intervals import IntArray
from ddptrace.kernels import Kind
from ddptrace.metrics.bucket_numbers import Numbered
from ddptrace.metrics.comm_table import CommTable
from ddptrace.metrics.gradients import forward_launches
from ddptrace.metrics.recorded import Recorded
from ddptrace.model import NEVER_NS, Trace

_Parameters = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, eq=False)
class BackwardWork:
    """The work of backward passes in the order of the launches; `run` tells passes apart.

    Works of one run have no forward launch between them. `end_ns` is when all up to a row ended.
    """

    launch_ns: IntArray
    end_ns: IntArray
    name: NDArray[np.int32]
    run: NDArray[np.intp]
    forward_ns: IntArray

    @classmethod
    def of(cls, trace: Trace) -> BackwardWork:
        """Return the work of backward that a recording holds."""
        ops = trace.ops
        mine = (ops.kind != Kind.COMM) & ops.in_backward & ~ops.in_graph
        rows = np.flatnonzero(mine)
        rows = rows[np.argsort(ops.launch_ns[rows], kind="stable")]
        launch_ns, forward_ns = ops.launch_ns[rows], forward_launches(trace)
        return cls(
            launch_ns=launch_ns,
            end_ns=np.maximum.accumulate(ops.end_ns[rows]),
            name=ops.name[rows],
            run=np.searchsorted(forward_ns, launch_ns),
            forward_ns=forward_ns,
        )

    def rows_of(self, moment_ns: int) -> slice:
        """Return the rows of the pass in which something was launched."""
        run = np.searchsorted(self.forward_ns, moment_ns)
        first, end = np.searchsorted(self.run, (run, run + 1))
        return slice(int(first), int(end))


@dataclass(frozen=True, slots=True, eq=False)
class _Pattern:
    """A backward pass of a full recording.

    `names` are those of its work, `first` says after how much of it the first gradient of each
    bucket was ready.
    """

    names: tuple[str, ...]
    first: IntArray


def _patterns(full: Iterable[Trace], wanted: _Parameters) -> Iterator[_Pattern]:
    """Yield the passes of a rank's full recordings in which gradients came in the buckets' order.

    They did when, at the launch of each bucket, as many were there as it and those before it have.
    """
    counts = np.cumsum([len(names) for names in wanted])
    for trace in full:
        gradient_ns = _gradients(trace)
        work = BackwardWork.of(trace)
        launch_ns = _launches(trace)
        run_of = np.searchsorted(work.forward_ns, gradient_ns)
        runs = np.searchsorted(work.forward_ns, launch_ns)
        for run in np.unique(runs):
            mine, launched = gradient_ns[run_of == run], launch_ns[runs == run]
            if not np.array_equal(np.searchsorted(mine, launched), counts):
                continue
            rows = work.rows_of(int(launched[0]))
            first_ns = mine[np.append(0, counts[:-1])]
            yield _Pattern(
                names=names_of(trace, work.name[rows]),
                first=np.searchsorted(work.launch_ns[rows], first_ns),
            )


def _gradients(trace: Trace) -> IntArray:
    """Return when the host began to accumulate each gradient, in order."""
    code = [kernels.is_gradient_operator(name) for name in trace.names]
    mine = np.array(code, np.bool_)[trace.host.name]
    return np.sort(trace.host.start_ns[mine])


def _launches(trace: Trace) -> IntArray:
    """Return when the all-reduces of backward were launched, in order, but those of integers."""
    ops, told = trace.ops, trace.collectives
    rows = np.flatnonzero((ops.kind == Kind.COMM) & ops.in_backward)
    operation, of_integers = told.operation[ops.collective[rows]], told.of_integers
    reduces = [code >= 0 and trace.names[code] == "all_reduce" for code in operation.tolist()]
    kept = np.array(reduces, np.bool_) & ~of_integers[ops.collective[rows]]
    return np.sort(ops.launch_ns[rows][kept])


def first_ready(
    recordings: Sequence[Recorded],
    table: CommTable,
    found: Sequence[Numbered],
    full: Sequence[Trace],
) -> IntArray:
    """Return for each row of a rank's table when its first gradient was ready, else NEVER_NS."""
    ready_ns = np.full(len(table), NEVER_NS)
    known: dict[_Parameters, _Pattern | None] = {}
    works: dict[int, BackwardWork] = {}
    for one in found:
        wanted = None if one.layout is None else one.layout.parameters
        if wanted is None or not one.is_whole:
            continue
        if wanted not in known:
            known[wanted] = next(_patterns(full, wanted), None)
        pattern, number = known[wanted], one.backward.recording
        if pattern is None:
            continue
        trace = recordings[number].trace
        if number not in works:
            works[number] = BackwardWork.of(trace)
        rows = works[number].rows_of(int(table.launch_ns[one.rows[0]]))
        if names_of(trace, works[number].name[rows]) == pattern.names and pattern.first[0] > 0:
            ready_ns[one.rows] = works[number].end_ns[rows][pattern.first - 1]
    return ready_ns


def names_of(trace: Trace, codes: NDArray[np.int32]) -> tuple[str, ...]:
    """Return the names of some operations."""
    return tuple(trace.names[code] for code in codes.tolist())
