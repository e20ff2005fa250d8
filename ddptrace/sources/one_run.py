"""Checks that recordings are all of one run and that each rank is there once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import pairwise

from ddptrace.errors import RunError, TraceFileError
from ddptrace.model import FAR_APART_NS, Trace, Warn, figures_of
from ddptrace.wording import listed, ranges


def check_one_run(traces: Sequence[Trace], everybody: Collection[int] = ()) -> list[Warn]:
    """Return warnings about the set; RunError when the files cannot be of one run.

    `everybody` are the ranks that there should be, as far as that is known.
    """
    _check_world_sizes(traces)
    _check_each_rank_once(traces)
    far = _far_apart(traces)
    if far:
        _check_fits_together(far, everybody)
    figures = figures_of(traces)
    about_time = [_far_warning(far)] if far else _window_warnings(figures)
    return [*_clock_warnings(figures), *about_time, *_step_warnings(figures)]


def without_host_only(traces: Sequence[Trace]) -> tuple[list[Trace], list[TraceFileError]]:
    """Return the recordings without those that hold no GPU work although others of the run do."""
    if len({trace.device for trace in traces}) < 2:
        return list(traces), []
    problems = [
        TraceFileError(
            trace.path,
            f"rank {trace.rank}: no GPU work was recorded, although other ranks have it; "
            "record it with ProfilerActivity.CUDA",
        )
        for trace in traces
        if trace.device == "host"
    ]
    return [trace for trace in traces if trace.device == "gpu"], problems


def _by_rank(traces: Iterable[Trace]) -> dict[int, list[Trace]]:
    found: dict[int, list[Trace]] = defaultdict(list)
    for trace in traces:
        found[trace.rank].append(trace)
    return dict(sorted(found.items()))


def _check_world_sizes(traces: Sequence[Trace]) -> None:
    files: dict[int, list[str]] = defaultdict(list)
    for trace in traces:
        if trace.facts.world_size is not None:
            files[trace.facts.world_size].append(trace.path)
    if len(files) > 1:
        groups = "; ".join(
            f"world size {size}: {listed(set(paths))}" for size, paths in sorted(files.items())
        )
        raise RunError(
            f"the files are of different runs ({groups}){_times(traces)}: pass the files of one run"
        )
    for size in files:
        outside = sorted({trace.path for trace in traces if trace.rank >= size})
        if outside:
            raise RunError(
                f"{listed(outside)}: a rank beyond the world size {size} of the run; pass the "
                "files of one run"
            )


def _check_each_rank_once(traces: Sequence[Trace]) -> None:
    for rank, mine in _by_rank(traces).items():
        ordered = sorted(mine, key=lambda trace: trace.start_ns)
        for first, second in pairwise(ordered):
            reason = _not_two_windows(first, second)
            if reason:
                raise RunError(f"{_twice(rank, first, second, reason)}{_absent(traces)}")


def _twice(rank: int, first: Trace, second: Trace, reason: str) -> str:
    if first.path == second.path:
        return f"{first.path}: two of its processes are told to be rank {rank} ({reason})"
    return (
        f"two files for rank {rank}: {first.path} and {second.path} ({reason}); keep the file of "
        "one run and rank"
    )


def _not_two_windows(first: Trace, second: Trace) -> str | None:
    """Return why two recordings of a rank cannot be two windows of one run; None if they can."""
    if first.clock != "unix" or second.clock != "unix":
        return "without a common clock they cannot be two windows of one run"
    if second.start_ns < first.end_ns:
        return "they cover the same time"
    steps = {mark.index for mark in first.marks} & {mark.index for mark in second.marks}
    if steps:
        return f"both hold step {min(steps)}"
    if first.facts.process != second.facts.process:
        return "they are of different processes, so of different runs"
    return None


def _absent(traces: Sequence[Trace]) -> str:
    size = max((trace.facts.world_size or 0 for trace in traces), default=0)
    absent = sorted(set(range(size)) - {trace.rank for trace in traces})
    return f", none for rank {ranges(absent)}" if absent else ""


@dataclass(frozen=True, slots=True)
class _FarApart:
    """Recordings of some ranks, and long after them those of others."""

    before: Sequence[Trace]
    after: Sequence[Trace]
    gap_ns: int

    @property
    def said(self) -> str:
        """Which files they are, and how far apart."""
        hours = f"{self.gap_ns / 3.6e12:,.1f} hours apart"
        return f"{_paths(self.before)} and {_paths(self.after)} lie {hours}"


def _far_apart(traces: Sequence[Trace]) -> _FarApart | None:
    timed = sorted(
        (trace for trace in traces if trace.clock == "unix"), key=lambda trace: trace.start_ns
    )
    reach = timed[0].end_ns if timed else 0
    for place, trace in enumerate(timed):
        before, after = timed[:place], timed[place:]
        gap_ns = trace.start_ns - reach
        if gap_ns > FAR_APART_NS and _ranks(before).isdisjoint(_ranks(after)):
            return _FarApart(before, after, gap_ns)
        reach = max(reach, trace.end_ns)
    return None


def _check_fits_together(far: _FarApart, everybody: Collection[int]) -> None:
    """Refuse recordings far apart in time that nothing but their place shows to be of one run.

    A clock may be wrong by any amount, so time alone proves nothing. But leftovers of another run
    seldom complete the ranks exactly, or hold the same steps.
    """
    here = _ranks([*far.before, *far.after])
    steps = [
        {mark.index for trace in half for mark in trace.marks} for half in (far.before, far.after)
    ]
    if not everybody:
        why = "no file tells the world size"
    elif set(everybody) - here:
        why = f"rank {ranges(set(everybody) - here)} is missing"
    elif all(steps) and steps[0].isdisjoint(steps[1]):
        why = f"they hold steps {ranges(steps[0])} and {ranges(steps[1])}"
    else:
        return
    raise RunError(
        f"the files are of different runs: {far.said}, and {why}; pass the files of one run"
    )


def _far_warning(far: _FarApart) -> Warn:
    return Warn(
        "ranks_apart_in_time",
        f"{far.said}: they may be of different runs, or a clock is wrong by as much; figures of "
        "waiting hold only if they are of one run",
    )


def _ranks(traces: Iterable[Trace]) -> set[int]:
    return {trace.rank for trace in traces}


def _paths(traces: Iterable[Trace]) -> str:
    return listed({trace.path for trace in traces})


def _times(traces: Sequence[Trace]) -> str:
    timed = [trace for trace in traces if trace.clock == "unix"]
    if not timed:
        return ""
    first, last = (
        datetime.fromtimestamp(moment / 1e9, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
        for moment in (
            min(trace.start_ns for trace in timed),
            max(trace.start_ns for trace in timed),
        )
    )
    return f", recorded between {first} and {last}" if first != last else ""


def _clock_warnings(traces: Sequence[Trace]) -> list[Warn]:
    relative = sorted({trace.path for trace in traces if trace.clock == "relative"})
    # Ranks of one merged file share its clock, whatever that counts from.
    if not relative or len({trace.path for trace in traces}) < 2:
        return []
    return [
        Warn(
            "no_common_clock",
            f"{listed(relative)}: the times count from an unknown moment, so times of "
            "different ranks cannot be compared; figures of each rank are unaffected",
        )
    ]


def _window_warnings(traces: Sequence[Trace]) -> list[Warn]:
    """Warn of ranks whose recordings never overlap in time with those of the first rank."""
    timed = _by_rank(trace for trace in traces if trace.clock == "unix")
    if len(timed) < 2:
        return []
    reference, *others = timed.items()
    apart = [
        rank
        for rank, mine in others
        if not any(
            one.start_ns < other.end_ns and other.start_ns < one.end_ns
            for one in mine
            for other in reference[1]
        )
    ]
    if not apart:
        return []
    return [
        Warn(
            "ranks_apart_in_time",
            f"the recordings of rank {ranges(apart)} do not overlap in time with "
            f"those of rank {reference[0]}: they may hold different iterations",
        )
    ]


def _step_warnings(traces: Sequence[Trace]) -> list[Warn]:
    """Warn when ranks hold marks of different steps."""
    steps = {
        rank: sorted({mark.index for trace in mine for mark in trace.marks})
        for rank, mine in _by_rank(trace for trace in traces if trace.partial is None).items()
    }
    if len({tuple(found) for found in steps.values()}) < 2:
        return []
    listed = [f"rank {rank} has {ranges(found) or 'none'}" for rank, found in steps.items()]
    shown = "; ".join(listed[:4]) + ("; …" if len(listed) > 4 else "")
    return [Warn("steps_differ", f"the ranks hold different steps: {shown}")]
