"""How a run was recorded, in sentences: what each part gives, what recording cost, the clocks."""

from __future__ import annotations

from collections.abc import Iterator

from ddptrace.metrics.recording import SLOWED_RATIO, PartTime, RunPart
from ddptrace.outputs.clocks import clock_sentences
from ddptrace.outputs.figures import ms
from ddptrace.report import Report, RunFacts
from ddptrace.wording import ranges

_ACTIVITIES = {"cpu": "host", "cuda": "GPU"}
_CAUSES = ("causes", "sizes", "names")


def sentences(report: Report) -> Iterator[str]:
    """Give the lines about the recording; none for a run that says nothing of it."""
    if report.run.parts:
        given = [_part(part) for part in report.run.parts if part.gives]
        yield f"parts: {'; '.join(given)}"
    if report.run.recording is not None:
        yield f"recording: {_cost(report.run)}"
    yield from clock_sentences(report)


def why_missing(run: RunFacts) -> Iterator[str]:
    """Give a sentence for each reason why ranks are missing."""
    ranks_of: dict[str, list[int]] = {}
    for rank, reason in run.missing_reasons.items():
        ranks_of.setdefault(reason, []).append(int(rank))
    for reason, missing in ranks_of.items():
        yield f"Rank {ranges(missing)}: {reason}."


def _part(part: RunPart) -> str:
    words = ["figures"] if "steps" in part.gives else []
    words += [word for word in _CAUSES if word in part.gives]
    what = " and ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words)
    several = "s" if part.steps[1:] else ""
    steps = f"step{several} {ranges(part.steps)}" if part.steps else "the whole recording"
    recorded = " and ".join(_ACTIVITIES.get(word, word) for word in part.activities)
    only = " activities only" if len(part.activities) == 1 else ""
    return f"{what} from {steps} ({recorded}{only})"


def _cost(run: RunFacts) -> str:
    cost = run.recording
    if cost is None:
        return ""
    told = [(time, role) for time in cost.parts if (role := _role(run, time)) is not None]
    times = [f"{ms(time.step_ns)} ms{_longer(time)} {role}" for time, role in told]
    if cost.unprofiled_step_ns is None:
        return f"a step took {', '.join(times)}; without a profiler it was not timed"
    slow = [(time.slowdown_ratio or 0) > SLOWED_RATIO for time, _ in told]
    more = ", so that causes come from slower steps than figures" if slow == [False, True] else ""
    without = f"{ms(cost.unprofiled_step_ns)} ms without a profiler"
    return f"a step took {', '.join([without, *times])}{more}"


def _role(run: RunFacts, time: PartTime) -> str | None:
    """Return what a part was recorded for, as a clause; None for one that gives nothing."""
    if run.parts is None:
        return "while it was recorded"
    gives = {word for part in run.parts if part.part == time.part for word in part.gives}
    if "steps" in gives:
        return "while figures were recorded"
    return "while causes were" if gives else None


def _longer(time: PartTime) -> str:
    if time.slowdown_ratio is None:
        return ""
    word = "shorter" if time.slowdown_ratio < 0 else "longer"
    return f" ({100 * abs(time.slowdown_ratio):.1f} % {word})"
