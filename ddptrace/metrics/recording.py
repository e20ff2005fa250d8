"""What was recorded in which part, and how much the recording itself slowed the steps."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Literal, TypeAlias

from ddptrace.manifest import Part, RankFacts, RecordedPart
from ddptrace.model import Device, HostKind, Run, Trace, Warn

Gives: TypeAlias = Literal["steps", "collectives", "summary", "causes", "sizes", "names"]

SLOWED_RATIO = 0.1
"""A recording that slows the step by more than this is said to change what it measures."""

_FIGURES: tuple[Gives, ...] = ("steps", "collectives", "summary")
_CAUSES: tuple[Gives, ...] = ("causes", "sizes", "names")


@dataclass(frozen=True, slots=True)
class RunPart:
    """One part of a recording: what was recorded in which steps, and what the report takes of it.

    `steps` are the numbers that any rank has; none where nothing tells them.
    """

    part: Part
    activities: list[str]
    steps: list[int]
    gives: list[Gives]


@dataclass(frozen=True, slots=True)
class PartTime:
    """The median step of one part while it was recorded.

    `slowdown_ratio` is how much longer that is than without a profiler: 0.1 is 10 % longer.
    """

    part: Part
    step_ns: int
    slowdown_ratio: float | None


@dataclass(frozen=True, slots=True)
class Recording:
    """What recording cost: median steps, each step that of its longest rank."""

    unprofiled_step_ns: int | None
    parts: list[PartTime]


def run_parts(run: Run) -> list[RunPart] | None:
    """Return the parts of a run; None when it was not recorded in parts."""
    if not any(trace.part == "figures" for trace in run.traces):
        return None
    parts: tuple[Part, ...] = ("figures", "full")
    there = {part: [trace for trace in run.traces if trace.part == part] for part in parts}
    return [_run_part(run, part, traces) for part, traces in there.items() if traces]


def _run_part(run: Run, part: Part, traces: Sequence[Trace]) -> RunPart:
    figures = _FIGURES if any(trace in run.figures for trace in traces) else ()
    causes = _CAUSES if part == "full" else ()
    return RunPart(
        part=part,
        activities=sorted({activity for trace in traces for activity in _activities(trace)}),
        steps=sorted({mark.index for trace in traces for mark in trace.marks}),
        gives=[*figures, *causes],
    )


def _activities(trace: Trace) -> list[str]:
    # Of the host Nsight Systems knows calls and named ranges, and no operators.
    of_nsys = trace.source == "nsys" and len(trace.host) > 0
    host = of_nsys or (trace.host.kind == HostKind.OPERATOR).any()
    return [*(["cpu"] if host else []), *(["cuda"] if trace.device == "gpu" else [])]


def recording(run: Run) -> Recording | None:
    """Return what recording cost; None when nothing tells the times of the steps.

    Ranks that lack times which others have are left out: the longest rank must be of the same
    ranks with a profiler and without one.
    """
    if run.manifest is None:
        return None
    facts = [_of_recordings(run, each) for each in run.manifest.ranks if each.rank in run.ranks]
    told = {part.part for each in facts for part in each.parts if part.step_ns}
    if not told:
        return None
    whole = [each for each in facts if _unprofiled(each) and told <= set(_by_part(each))]
    return _recording(whole or facts, told, _median_of_longest(map(_unprofiled, whole)))


def _of_recordings(run: Run, facts: RankFacts) -> RankFacts:
    """Return a rank's facts without the parts in whose place Nsight Systems recorded something.

    What recording a part with torch.profiler cost is no fact about that.
    """
    kept = [one for one in facts.parts if not _replaced(run, facts.rank, one)]
    return replace(facts, parts=tuple(kept))


def _replaced(run: Run, rank: int, part: RecordedPart) -> bool:
    of_part = [trace for trace in run.traces if trace.part == part.part]
    of_part = [trace for trace in of_part if trace.rank == rank] or of_part
    named = any(PurePath(trace.path).name == PurePath(part.file).name for trace in of_part)
    return bool(of_part) and not named and all(trace.source == "nsys" for trace in of_part)


def _recording(
    facts: Sequence[RankFacts], told: Collection[Part], without: int | None
) -> Recording:
    parts = []
    for part in sorted(told):
        step_ns = _median_of_longest(_by_part(each).get(part, {}) for each in facts)
        if step_ns is not None:
            slowdown = (step_ns - without) / without if without else None
            parts.append(PartTime(part, step_ns, slowdown))
    return Recording(without, parts)


def _unprofiled(facts: RankFacts) -> dict[int, int]:
    """Return the times of a rank's steps without a profiler, by the number of the step."""
    timed = facts.unprofiled
    return {} if timed is None else dict(enumerate(timed.step_ns, timed.first_step))


def _by_part(facts: RankFacts) -> dict[Part, dict[int, int]]:
    return {part.part: _by_step(part) for part in facts.parts if part.step_ns}


def _by_step(part: RecordedPart) -> dict[int, int]:
    """Return the times of a part's steps by their numbers, or by their places without marks.

    As in the summary the first of three or more does not count: the profiler begins in it.
    """
    numbers = [mark.index for mark in part.marks]
    if len(numbers) != len(part.step_ns):
        numbers = list(range(len(part.step_ns)))
    first = 1 if len(numbers) >= 3 else 0
    return dict(zip(numbers[first:], part.step_ns[first:], strict=True))


def _median_of_longest(ranks: Iterable[Mapping[int, int]]) -> int | None:
    longest: dict[int, int] = {}
    for times in ranks:
        for step, step_ns in times.items():
            longest[step] = max(step_ns, longest.get(step, 0))
    return int(statistics.median(longest.values())) if longest else None


def figures_part(parts: Sequence[RunPart] | None) -> Part:
    """Return the part whose steps the report is of; the full one where it is not figures alone."""
    given = [part.part for part in parts or () if "steps" in part.gives]
    return "figures" if given == ["figures"] else "full"


def slowed(cost: Recording | None, part: Part, measured: Device) -> list[Warn]:
    """Return a warning when recording slowed the steps of the part that figures come from."""
    times = [] if cost is None else [time for time in cost.parts if time.part == part]
    return [
        Warn(
            "recording_slowed_run",
            f"recording made the step {100 * time.slowdown_ratio:.0f} % longer: "
            f"{_UNTRUSTWORTHY[measured]}",
        )
        for time in times
        if time.slowdown_ratio is not None and time.slowdown_ratio > SLOWED_RATIO
    ]


_UNTRUSTWORTHY: dict[Device, str] = {
    "gpu": "idle time, launching that seems to be the limit and ranks that seem late may not exist "
    "without the profiler; the kernels' own durations stay good",
    "host": "the times of host operators contain the profiler's own",
}
