"""The parts in which a rank was recorded: one for the figures, a full one for the causes."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ddptrace.kernels import Kind
from ddptrace.manifest import Mark, Part, RankFacts
from ddptrace.model import NEVER_NS, Ops, Trace, Warn, figures_of
from ddptrace.sources.manifest import Told
from ddptrace.wording import listed, ranges

_FIGURES_NAME = re.compile(r"rank[-_.]?\d+\.figures\.", re.IGNORECASE)
# CUPTI keeps this much of a pthread identity as a signed number, and Kineto writes it without its
# sign.
_THREAD_BITS = 32


def as_told(trace: Trace, path: Path, told: Told) -> Trace:
    """Return a recording with what the manifest tells of its file, as far as the file does not."""
    file = path.resolve()
    part = told.part_of.get(file)
    trace = replace(trace, part=trace.part or (_named_part(path) if part is None else part.part))
    rank = told.rank_of.get(file)
    facts = None if told.manifest is None or rank is None else told.manifest.of_rank(rank)
    if facts is not None:
        trace = _with_rank_facts(trace, facts)
    if part is None or not part.marks or trace.marks:
        return trace
    problem = _misfit(trace, part.marks)
    if problem is None:
        return replace(trace, marks=part.marks)
    said = f"{trace.path}: the step marks in the manifest are not used, since {problem}"
    return replace(trace, warnings=(*trace.warnings, Warn("marks_ignored", said)))


def _with_rank_facts(trace: Trace, told: RankFacts) -> Trace:
    if trace.facts.gpu is None and told.gpu is not None:
        trace = replace(trace, facts=replace(trace.facts, gpu=told.gpu))
    if told.loop_thread is not None and not trace.ops.in_backward.any():
        trace = replace(trace, ops=_with_backward(trace.ops, told.loop_thread))
    return trace


def _named_part(path: Path) -> Part | None:
    return "figures" if _FIGURES_NAME.search(path.name) else None


def _misfit(trace: Trace, marks: Sequence[Mark]) -> str | None:
    """Return why marks cannot be those of a recording; None when they can."""
    if trace.clock != "unix":
        return "the times of the file count from an unknown moment"
    launched = trace.ops.launch_ns
    if any(((mark.start_ns <= launched) & (launched < mark.end_ns)).any() for mark in marks):
        return None
    return "nothing was launched inside them"


def _with_backward(ops: Ops, loop_thread: int) -> Ops:
    """Return operations with those marked that another thread than the training loop's launched.

    The autograd engine runs the backward pass of a GPU on threads of its own. A loop's thread that
    launched no kernel is not one of these recordings, and tells nothing.
    """
    launched = ops.launch_ns != NEVER_NS
    written = _as_written(loop_thread)
    in_loop: NDArray[np.bool_] = launched & np.isin(
        ops.thread, (written, -written, loop_thread % (1 << _THREAD_BITS), loop_thread)
    )
    known = (in_loop & (ops.kind == Kind.COMPUTE)).any()
    return replace(ops, in_backward=launched & ~in_loop) if known else ops


def _as_written(thread: int) -> int:
    """Return a pthread identity as Kineto writes it for a call of the runtime."""
    kept = thread % (1 << _THREAD_BITS)
    return min(kept, (1 << _THREAD_BITS) - kept)


def with_parts(traces: Sequence[Trace]) -> list[Trace]:
    """Return the recordings with what the parts of a rank tell of each other.

    Beside figures parts the others are the full ones, and so is what Nsight Systems recorded,
    although it knows nothing of parts. A figures part holds no calls of
    collectives, so that only the full one can tell that none of their kernels was recorded.
    """
    if not any(trace.part == "figures" for trace in traces):
        return list(traces)
    found = [replace(trace, part=trace.part or "full") for trace in traces]
    without_comm = {trace.rank for trace in found if trace.comm_missing}
    return [
        replace(trace, comm_missing=trace.comm_missing or _lacks_comm(trace, without_comm))
        for trace in found
    ]


def _lacks_comm(trace: Trace, ranks: Collection[int]) -> bool:
    return trace.rank in ranks and not (trace.ops.kind == Kind.COMM).any()


def damaged_beside(traces: Sequence[Trace]) -> list[str]:
    """Return a sentence for each recording that is not whole while figures come from another."""
    figures = figures_of(traces)
    return [
        f"{trace.path}: {trace.partial}; the figures of rank {trace.rank} come from its other part"
        for trace in traces
        if trace.partial and trace not in figures
    ]


def about_parts(traces: Sequence[Trace]) -> list[Warn]:
    """Return warnings about parts that a rank lacks, and what follows for the report."""
    cheap = [trace for trace in traces if trace.part == "figures"]
    if not cheap:
        return []
    full = {trace.rank for trace in traces if trace.part == "full"}
    warnings = []
    if any(trace.part == "full" for trace in figures_of(traces)):
        warnings += _not_used(traces, [trace for trace in cheap if trace.rank in full])
    without = {trace.rank for trace in cheap} - full
    if without:
        whose = f" of rank {ranges(without)}" if full else ""
        said = f"no full part{whose} is here: what the host did, and so the causes, are not known"
        warnings.append(Warn("causes_not_recorded", f"{said}{' there' if full else ''}"))
    return warnings


def _not_used(traces: Sequence[Trace], cheap: Sequence[Trace]) -> list[Warn]:
    """Return why these figures parts are not used, or not alone: one warning a reason."""
    others = [trace for trace in traces if trace.part == "full"]
    instead = f"so figures come from {_called(others)}"
    cut = [trace.path for trace in cheap if trace.partial]
    unmarked = [trace.path for trace in cheap if not trace.partial and not trace.marks]
    with_figures = {trace.rank for trace in traces if trace.part == "figures"}
    absent = {trace.rank for trace in others} - with_figures
    by_torch = absent & {trace.rank for trace in others if trace.source != "nsys"}
    said = [
        cut and f"{listed(cut)}: not whole, {instead}",
        unmarked
        and f"{listed(unmarked)}: nothing tells the steps, {instead}; keep the manifest.json that "
        "capture wrote beside the traces",
        by_torch
        and f"no figures part of rank {ranges(by_torch)} can be read, {instead}; pass the files of "
        "both parts",
        absent - by_torch
        and f"rank {ranges(absent - by_torch)} was recorded with Nsight Systems, in one part, "
        f"{instead if cheap else _DEARER}",
    ]
    return [Warn("figures_not_used", message) for message in said if message]


_DEARER = "so its steps may be slowed more than those of the figures parts; compare them with care"


def _called(others: Sequence[Trace]) -> str:
    """Return what the recordings are called that are no figures parts."""
    sources = {trace.source for trace in others}
    if "nsys" not in sources:
        return "the full parts, whose steps the profiler slows more"
    full = "the full parts and " if len(sources) > 1 else ""
    return f"{full}the recordings of Nsight Systems, which may slow the steps more"
