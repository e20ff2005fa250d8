"""What a recorded run tells that a replay of its steps needs, or why that is too little."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ddptrace.errors import RunError
from ddptrace.intervals import IntArray
from ddptrace.kernels import Kind
from ddptrace.manifest import DdpModule
from ddptrace.metrics.comm_table import NONE
from ddptrace.metrics.first_ready import BackwardWork, names_of
from ddptrace.metrics.measured import Measured
from ddptrace.metrics.recorded import Recorded
from ddptrace.model import NEVER_NS
from ddptrace.whatif import ready
from ddptrace.whatif.progress import Floats, Moments, Progress, joined
from ddptrace.whatif.ready import Pattern, Resolution, Sized, Told

SHARED_RATIO = 0.5
"""Communication does not overlap where more than this part of it is on the stream of compute."""


@dataclass(frozen=True, slots=True, eq=False)
class RankTimes:
    """What is typical of a step of one rank, as medians over its steps.

    `gradients` are ready, and the recorded buckets are `released`, at these moments of the step;
    `compute_end` is when all that runs beside buckets has ended, `after` is the rest of the step
    behind both: the optimizer. The last two hold one moment each.
    """

    rank: int
    gradients: Moments
    released: Moments
    compute_end: Moments
    after: Moments

    def arrivals(self, moments: Moments, host: float, slowdown: float) -> Floats:
        """Return when moments are reached, counted from when ranks last ended a step together."""
        return self.after.compute_ns(host, 1.0) + moments.compute_ns(host, slowdown)


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """The steps of a run, made ready to be replayed; `others` counts collectives kept as they are.

    `recorded_bytes` are the sizes of the buckets that were recorded, `pieces` those that gradients
    are known to come in, `owner` the recorded bucket of each piece.
    """

    ranks: tuple[RankTimes, ...]
    pieces: Sized
    owner: IntArray
    resolution: Resolution
    recorded_bytes: tuple[int, ...]
    module: DdpModule | None
    others: int


def job_of(measured: Measured) -> Job:
    """Return what a run's steps tell; RunError with the reason where they cannot be replayed."""
    _check(measured)
    layout = measured.buckets.layout
    sizes = () if layout is None else layout.size_bytes
    if layout is None or NONE in sizes:
        raise RunError(
            "the sizes of the buckets are not known: record with the host's operators, or keep the "
            "manifest that `ddptrace capture` writes"
        )
    steps = [step for rank in measured.recordings for step in _steps(measured, rank)]
    if not steps:
        raise RunError("no step has all of its buckets recorded, with what they waited for")
    module = _module(measured)
    pieces, owner, resolution = _pieces(measured, steps, module, sizes)
    ranks = [
        _rank_times(rank, [step for step in steps if step.rank == rank], owner, pieces)
        for rank in sorted({step.rank for step in steps})
    ]
    return Job(
        ranks=tuple(one for one in ranks if one is not None),
        pieces=pieces,
        owner=owner,
        resolution=resolution,
        recorded_bytes=sizes,
        module=module,
        others=round(float(np.median([step.others for step in steps]))),
    )


def _check(measured: Measured) -> None:
    _check_ranks(measured)
    traces = [one.trace for mine in measured.recordings.values() for one in mine]
    if measured.summary.median_step is None:
        raise RunError("no step marks: without them it is not known where a step begins")
    if any(trace.comm_missing for trace in traces):
        raise RunError("collectives were called, but their kernels were not recorded")
    if not any(len(table) for table in measured.collected.tables.values()):
        raise RunError("nothing is communicated: no bucket size can change the step")
    if measured.buckets.layout is None:
        raise RunError(
            "no all-reduce is known to be of DDP's gradients (FSDP, tensor parallelism and other "
            "frameworks have none): only DDP's buckets can be packed anew"
        )


def _check_ranks(measured: Measured) -> None:
    run, recordings = measured.run, measured.recordings
    if any(one.trace.device == "host" for mine in recordings.values() for one in mine):
        raise RunError(
            "the run is on CPUs, where communication takes compute's own time: nothing to replay"
        )
    if run.partial_ranks:
        raise RunError("a recording is not whole, and a step must be, to be replayed")
    if run.world_size == 1:
        raise RunError("the job has one rank, and nothing is communicated")
    if len(recordings) == 1:
        of = f"of {run.world_size} " if run.world_size else ""
        raise RunError(
            f"one rank {of}is here, and only all of them tell waiting from transfer: "
            "give the files of all ranks"
        )


def _module(measured: Measured) -> DdpModule | None:
    """Return what the manifest tells of the DDP module whose buckets were recorded."""
    manifest, layout = measured.run.manifest, measured.buckets.layout
    modules = [] if manifest is None else [one for facts in manifest.ranks for one in facts.ddp]
    fitting = [
        one
        for one in modules
        if layout is not None
        and layout.size_bytes in (one.rebuilt_bucket_bytes, one.initial_bucket_bytes)
    ]
    return fitting[0] if fitting else None


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    """One recorded step of a rank with all its buckets; moments are ns on the recording's clock.

    `gradient_ns` are those of gradients, None where their pass tells none.
    """

    rank: int
    progress: Progress
    begin_ns: int
    released_ns: IntArray
    reduced_ns: int
    pattern: Pattern | None
    gradient_ns: IntArray | None
    others: int


def _steps(measured: Measured, rank: int) -> Iterable[_Step]:
    kept = {(row.rank, row.start_ns) for row in measured.counted}
    table, times = measured.collected.tables[rank], measured.buckets.times[rank]
    layout = measured.buckets.layout
    known = _Patterns(measured, rank)
    for number, recorded in enumerate(measured.recordings[rank]):
        told = Told.by(recorded.trace)
        for at in range(len(recorded.steps.marks)):
            if (rank, int(recorded.steps.start_ns[at])) not in kept:
                continue
            mine = (table.recording == number) & (table.window == at)
            rows = np.flatnonzero(mine & (times.bucket != NONE))
            if np.unique(times.backward_pass[rows]).size > 1:
                raise RunError(
                    "gradients are reduced several times a step (no_sync() in all micro-batches "
                    "but the last saves that): only steps with one reduction can be replayed"
                )
            if layout is None or rows.size != len(layout):
                continue
            _check_stream(recorded, at, table.row[rows])
            rows = rows[np.argsort(times.bucket[rows], kind="stable")]
            released = times.released_ns[rows]
            step = _Step(
                rank=rank,
                progress=Progress.of(recorded, at, table.row[rows]),
                begin_ns=_backward_begin(told.work, int(table.launch_ns[rows[0]])),
                released_ns=np.where(released == NEVER_NS, table.start_ns[rows], released),
                reduced_ns=int(table.end_ns[rows].max()),
                pattern=None,
                gradient_ns=None,
                others=int(mine.sum()) - rows.size,
            )
            yield _with_gradients(step, told, int(table.launch_ns[rows[0]]), known)


def _check_stream(recorded: Recorded, at: int, buckets: NDArray[np.intp]) -> None:
    """Raise RunError where buckets run on the stream of compute, so that nothing can overlap."""
    ops, own = recorded.trace.ops, recorded.steps.own(at)
    backward = own[(ops.kind[own] == Kind.COMPUTE) & ops.in_backward[own]]
    if not backward.size:  # nothing tells what autograd launched: all compute counts
        backward = own[ops.kind[own] == Kind.COMPUTE]
    shared = np.isin(ops.stream[buckets], ops.stream[backward]) & (ops.stream[buckets] >= 0)
    if shared.any() and shared.mean() > SHARED_RATIO:
        raise RunError(
            "buckets are reduced on the stream of compute: nothing overlaps, whatever the cap is "
            "(let DDP launch collectives on NCCL's own stream)"
        )


def _backward_begin(work: BackwardWork, launched_ns: int) -> int:
    rows = work.rows_of(launched_ns)
    ends = work.end_ns[rows]
    return int(ends[0]) if ends.size else launched_ns


class _Patterns:
    """The passes of a rank's recordings that tell gradients, read when first asked for."""

    def __init__(self, measured: Measured, rank: int) -> None:
        self._traces = [trace for trace in measured.run.causes if trace.rank == rank]
        self._found: list[Pattern] | None = None

    def like(self, names: tuple[str, ...]) -> Pattern | None:
        """Return a pass that launched the same work."""
        if self._found is None:
            self._found = [one for trace in self._traces for one in Told.by(trace).patterns()]
        same = (one for one in self._found if one.names == names and (one.after > 0).all())
        return next(same, None)


def _with_gradients(step: _Step, told: Told, launched_ns: int, known: _Patterns) -> _Step:
    """Return the step with its gradients: they come after the same work in every such pass."""
    work, rows = told.work, told.work.rows_of(launched_ns)
    pattern = told.pattern(launched_ns)
    if pattern is None or not (pattern.after > 0).all():
        pattern = known.like(names_of(told.trace, work.name[rows]))
    if pattern is None:
        return step
    return replace(step, pattern=pattern, gradient_ns=work.end_ns[rows][pattern.after - 1])


def _pieces(
    measured: Measured, steps: Sequence[_Step], module: DdpModule | None, sizes: Sequence[int]
) -> tuple[Sized, IntArray, Resolution]:
    """Return what gradients come in, the recorded bucket of each, and how finely that is known."""
    total = sum(sizes)
    told = None if module is None else ready.told_sizes(module)
    shown = next((one.pattern.sized for one in steps if one.pattern and one.pattern.sized), None)
    timed = [one.gradient_ns.size for one in steps if one.gradient_ns is not None]
    # Buckets that keep the order of registration say nothing of the order of gradients.
    keeps = module is not None and bool(module.find_unused_parameters) and not module.static_graph
    for sized in (told, shown) if keeps else (shown, told):
        if sized is None or int(sized.size_bytes.sum()) != total:
            continue
        if told is not None and sized is shown and _agree(told, shown):
            sized = told
        owner = _owner(sized.size_bytes, sizes)
        is_timed = len(timed) == len(steps) and set(timed) == {len(sized)}
        if is_timed:
            return sized, owner, "parameters"
        if (np.bincount(owner, sized.size_bytes, len(sizes)) == np.array(sizes)).all():
            return sized, owner, "sizes"
    layout = measured.buckets.layout
    names = None if layout is None else layout.parameters
    counts = None if names is None else [max(len(each), 1) for each in names]
    sized, owner = ready.pieces_of(sizes, counts)
    return sized, owner, "buckets"


def _agree(told: Sized, shown: Sized) -> bool:
    return len(told) == len(shown) and bool((told.size_bytes == shown.size_bytes).all())


def _owner(size_bytes: IntArray, sizes: Sequence[int]) -> IntArray:
    """Return the bucket of each gradient, of buckets filled one after another."""
    ends = np.cumsum(np.array(sizes, np.int64))
    place = np.searchsorted(ends, np.cumsum(size_bytes))
    return np.minimum(place, len(sizes) - 1).astype(np.int64)


def _rank_times(
    rank: int, steps: Sequence[_Step], owner: IntArray, pieces: Sized
) -> RankTimes | None:
    found = [_moments(step, owner, pieces) for step in steps]
    return RankTimes(rank, *map(joined, map(list, zip(*found, strict=True)))) if found else None


def _moments(
    step: _Step, owner: IntArray, pieces: Sized
) -> tuple[Moments, Moments, Moments, Moments]:
    at, one = step.progress.at, partial(np.array, dtype=np.int64)
    gradient_ns = step.gradient_ns
    if gradient_ns is None or gradient_ns.size != len(pieces):
        gradient_ns = ready.between(step.released_ns, owner, pieces.size_bytes, step.begin_ns)
    compute_end_ns = step.progress.compute_end_ns(step.reduced_ns)
    end_ns = max(compute_end_ns, step.reduced_ns)
    rest = at(one([step.progress.end_ns])) - at(one([end_ns]))
    return at(gradient_ns), at(step.released_ns), at(one([compute_end_ns])), rest


def arrivals(
    ranks: Sequence[RankTimes], moments: Sequence[Moments], host: float, slowdown: float
) -> NDArray[np.float64]:
    """Return when the same moments are reached by each rank: one row a rank."""
    return np.stack(
        [one.arrivals(mine, host, slowdown) for one, mine in zip(ranks, moments, strict=True)]
    )
