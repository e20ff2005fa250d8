"""What to know of the recording itself: that it slowed the run, and which steps are not typical."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from ddptrace.diagnosis.basis import Basis
from ddptrace.diagnosis.figures import middle
from ddptrace.diagnosis.finding import Evidence, Finding
from ddptrace.diagnosis.steps import Step
from ddptrace.metrics.recording import SLOWED_RATIO, figures_part, recording, run_parts
from ddptrace.metrics.summary import longest_by_step
from ddptrace.wording import ranges

COLD_RATIO = 1.5
"""A step is not like the others when it takes so many times their median."""
COLD_PART = 0.25
"""More than this part of the steps is no exception: so one takes four steps at least."""
DISAGREES_RATIO = 3.0
"""DDP's averages are of other steps, and of the host's stamps: they may differ by so much."""
AVERAGED = "backward_comm_ns"


def recording_slowed_run(basis: Basis) -> Iterator[Finding]:
    """Give the finding that steps took longer for being recorded: by how much is its cost."""
    run = basis.measured.run
    cost, part = recording(run), figures_part(run_parts(run))
    for time in [] if cost is None else cost.parts:
        ratio = time.slowdown_ratio
        if time.part != part or ratio is None or ratio <= SLOWED_RATIO or cost is None:
            continue
        without_ns = cost.unprofiled_step_ns or 0
        yield Finding(
            code="recording_slowed_run",
            cost_ns=time.step_ns - without_ns,
            ranks=[],
            evidence=[
                Evidence("slowdown_ratio", ratio, SLOWED_RATIO),
                Evidence("step_ns", time.step_ns, None),
                Evidence("unprofiled_step_ns", without_ns, None),
            ],
            advice="the profiler slows the host: trust lengths of kernels, and not idle time, "
            "launching or late ranks; record less (no stacks, no shapes), or CUDA alone",
        )


def cold_steps(basis: Basis) -> Iterator[Finding]:
    """Give the finding that the first steps, or a single one, take much longer than the others.

    Medians hardly see them. Where many steps are long, or in turn, the job does more in them.
    """
    longest = longest_by_step(step.causes.row for step in basis.steps)
    times = {step: row.step_ns or 0 for step, row in sorted(longest.items())}
    slow, limit_ns = unlike_others(times)
    if not slow:
        return
    is_first = slow == list(times)[: len(slow)]
    yield Finding(
        code="cold_steps",
        cost_ns=None,
        ranks=sorted({longest[step].rank for step in slow}),
        evidence=[Evidence(f"step_ns: step {step}", times[step], limit_ns) for step in slow[:3]],
        advice=f"step {ranges(slow)} is not like the others: "
        + (
            "caches, autotuning and allocations; let more steps go by before recording"
            if is_first
            else "look for a checkpoint, an evaluation, garbage collection or another job"
        ),
    )


def unlike_others(times: Mapping[int, int]) -> tuple[list[int], int]:
    """Return the steps that take much longer than the others, and the ns from which on one does.

    They are the first ones or a single one. Where more of them are long, the job does more there.
    """
    limit_ns = round(COLD_RATIO * (middle(times.values()) or 0))
    slow = [step for step, step_ns in times.items() if step_ns >= limit_ns]
    is_first = slow == list(times)[: len(slow)]
    is_exception = len(slow) <= COLD_PART * len(times) and (is_first or len(slow) == 1)
    return (slow if is_exception else []), limit_ns


def ddp_logger_disagrees(basis: Basis) -> Iterator[Finding]:
    """Give the finding that DDP's own averages are far from what the intervals say.

    Both are how long the buckets of a step took, from the first one's start to the last one's end.
    The figures are those of the rank on which they differ most.
    """
    found: dict[int, tuple[float, int, int]] = {}
    for rank in basis.measured.recordings:
        told = _told_ns(basis, rank)
        span_ns = middle(_span_ns(step) for step in basis.of_rank(rank))
        if told is None or not span_ns or max(told, span_ns) < basis.limit_ns:
            continue
        ratio = max(told, span_ns) / max(min(told, span_ns), 1)
        if ratio > DISAGREES_RATIO:
            found[rank] = ratio, told, span_ns
    if found:
        ratio, told, span_ns = max(found.values())
        yield Finding(
            code="ddp_logger_disagrees",
            cost_ns=None,
            ranks=sorted(found),
            evidence=[
                Evidence("ratio", ratio, DISAGREES_RATIO),
                Evidence(AVERAGED, told, None),
                Evidence("bucket_span_ns", span_ns, None),
            ],
            advice="DDP's logger averages over steps that it samples, perhaps others than "
            "these: for the steps recorded here the intervals hold",
        )


def _told_ns(basis: Basis, rank: int) -> int | None:
    """Return DDP's average of a rank with one module; of several nothing tells which is meant."""
    manifest = basis.measured.run.manifest
    facts = None if manifest is None else manifest.of_rank(rank)
    if facts is None or len(facts.ddp) != 1:
        return None
    told = facts.ddp[0].ddp_averages.get(AVERAGED)
    return told if isinstance(told, int) and told > 0 else None


def _span_ns(step: Step) -> int | None:
    """Return how long the buckets of a step's only backward pass took."""
    calls = step.calls.take(step.is_bucket)
    if not len(calls) or np.unique(calls.backward_pass).size > 1:
        return None
    return int(calls.end_ns.max() - calls.start_ns.min())
