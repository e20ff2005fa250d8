"""What full recordings of the host say of the silences in those that do not hold its operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ddptrace.metrics.idle import IdleCauses, idle_causes
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
