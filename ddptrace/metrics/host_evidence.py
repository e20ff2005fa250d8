"""What full recordings of the host say of the silences in those that do not hold its operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ddptrace.intervals import Intervals
from ddptrace.metrics.idle import IdleCauses, IdleTimes, idle_causes, idle_times
from ddptrace.metrics.measured import Measured
from ddptrace.metrics.recorded import Recorded
from ddptrace.metrics.steps import step_metrics

INPUT_PART = 0.5
"""Silence at a step's start is the input's where a data loader ran in this part of it at least."""


def idle_by_cause(measured: Measured) -> list[list[IdleCauses | None]]:
    """Return why the GPU idled for each row of `measured.rows`; None where that is not known.

    It is not told of a recording without steps. A recording of CUDA alone cannot tell a data loader
    from other work of Python. Where the rank's full recording is silent at the same place, it tells
    whether the loader ran then.
    """
    if measured.summary.median_step is None:
        return [[None] * len(rows) for rows in measured.rows]
    in_loader = {rank: _is_in_loader(measured, rank) for rank in measured.recordings}
    return [
        [
            _corrected(one, in_loader[rank])
            for one in idle_causes(measured.recordings[rank][number], rows)
        ]
        for rows, (rank, number) in zip(measured.rows, measured.places, strict=True)
    ]


def times_by_cause(measured: Measured, rank: int, number: int) -> IdleTimes:
    """Return when a recording of a rank idled, by the causes that `idle_by_cause` gives."""
    recorded = measured.recordings[rank][number]
    if recorded.trace.device == "host" or measured.summary.median_step is None:
        return _without_causes(recorded)
    found, host = idle_times(recorded)
    if host.told == "operators" or _is_in_loader(measured, rank) is not False:
        return found
    loader = Intervals.empty() if host.loader is None else host.loader
    silent = found.input - loader
    return replace(found, input=found.input & loader, unknown=found.unknown | silent)


def times_of_causes(recorded: Recorded) -> IdleTimes:
    """Return when a recording idled by what it tells itself of the host."""
    return _without_causes(recorded) if recorded.trace.device == "host" else idle_times(recorded)[0]


def _without_causes(recorded: Recorded) -> IdleTimes:
    """Return when a recording idled, of which no cause is known."""
    busy, steps = recorded.busy, recorded.steps
    gaps = (busy.compute | busy.comm | busy.mem).gaps(int(steps.start_ns[0]), int(steps.end_ns[-1]))
    nothing = Intervals.empty()
    return IdleTimes(nothing, nothing, nothing, gaps)


def _is_in_loader(measured: Measured, rank: int) -> bool | None:
    """Tell whether a silent host of a rank was in its data loader; None where nothing tells."""
    figures = {id(one.trace) for one in measured.recordings[rank]}
    full = [one for one in measured.run.causes if one.rank == rank and id(one) not in figures]
    found = [one for trace in full for one in _of(Recorded.of(trace))]
    loader_ns = sum(one.loader_ns for one in found)
    silent_ns = sum(one.input_ns + one.silent_ns for one in found)
    return loader_ns >= INPUT_PART * silent_ns if silent_ns else None


def _of(recorded: Recorded) -> Sequence[IdleCauses]:
    causes = idle_causes(recorded, step_metrics(recorded))
    return [one for one in causes if one is not None and one.told == "operators"]


def _corrected(one: IdleCauses | None, in_loader: bool | None) -> IdleCauses | None:
    """Return causes with what a full recording tells of the silence that was taken for input."""
    if one is None or in_loader is None or one.told == "operators":
        return one
    if in_loader:
        return replace(one, loader_ns=one.input_ns)
    silent_ns = one.input_ns - one.loader_ns
    return replace(
        one,
        input_ns=one.loader_ns,
        unknown_ns=one.unknown_ns + silent_ns,
        silent_ns=one.silent_ns + silent_ns,
    )
