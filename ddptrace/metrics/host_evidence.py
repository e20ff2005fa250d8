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

    A recording of CUDA alone cannot tell a data loader from other work of Python. Where the full
    recording of the rank has the same silence outside its data loader, that is no input.
    """
    outside = {rank for rank in measured.recordings if _is_outside_loader(measured, rank)}
    return [
        [
            _without_input(one) if rank in outside else one
            for one in idle_causes(measured.recordings[rank][number], rows)
        ]
        for rows, (rank, number) in zip(measured.rows, measured.places, strict=True)
    ]


def _is_outside_loader(measured: Measured, rank: int) -> bool:
    """Tell whether the host of a rank was silent elsewhere than in its data loader."""
    figures = {id(one.trace) for one in measured.recordings[rank]}
    full = [one for one in measured.run.causes if one.rank == rank and id(one) not in figures]
    found = [one for trace in full for one in _of(Recorded.of(trace))]
    input_ns = sum(one.input_ns for one in found)
    silent_ns = sum(one.silent_ns for one in found)
    return input_ns < INPUT_PART * (input_ns + silent_ns)


def _of(recorded: Recorded) -> Sequence[IdleCauses]:
    causes = idle_causes(recorded, step_metrics(recorded))
    return [one for one in causes if one is not None and one.told == "operators"]


def _without_input(one: IdleCauses | None) -> IdleCauses | None:
    """Return causes in which silence that was taken for the input is of unknown cause."""
    if one is None or one.told == "operators":
        return one
    silent_ns = one.input_ns - one.loader_ns
    return replace(
        one,
        input_ns=one.loader_ns,
        unknown_ns=one.unknown_ns + silent_ns,
        silent_ns=one.silent_ns + silent_ns,
    )
