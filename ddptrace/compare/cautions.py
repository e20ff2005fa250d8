"""What to know before two runs' times are believed to differ because of the job."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ddptrace.compare.facts import figures_from, profilers
from ddptrace.compare.parts import Difference
from ddptrace.diagnosis.confidence import FEW_STEPS
from ddptrace.metrics.recording import SLOWED_RATIO, figures_part
from ddptrace.report import Report
from ddptrace.wording import counted, ranges

_SLOW_SWITCHES = ("with_stack", "record_shapes", "profile_memory")


@dataclass(frozen=True, slots=True)
class Caution:
    """One sentence on how far the times can be compared; `comparable` is false where not at all."""

    code: str
    message: str
    comparable: bool


def cautions(a: Report, b: Report, step: Difference | None) -> list[Caution]:
    """Return what to know of two runs' times, what forbids to compare them first."""
    against = [Caution(code, words, comparable=False) for code, words in _against(a, b)]
    doubts = [Caution(code, words, comparable=True) for code, words in _doubts(a, b, step)]
    return against + doubts


def _against(a: Report, b: Report) -> Iterator[tuple[str, str]]:
    """Give the reasons why the times of two runs are of different things."""
    if a.run.measured != b.run.measured:
        words = {"gpu": "of a GPU", "host": "of the host, without a GPU"}
        yield (
            "other_measure",
            f"A's times are {words[a.run.measured]}, B's {words[b.run.measured]}",
        )
        return
    if profilers(a) != profilers(b):
        yield (
            "other_profiler",
            f"A was recorded with {profilers(a)}, B with {profilers(b)}, which slow a step "
            "differently",
        )
    elif figures_from(a) != figures_from(b):
        yield (
            "other_recording",
            f"A's figures come from {figures_from(a)}, B's from {figures_from(b)}, which slow a "
            "step differently",
        )
    elif (on := (slow_switches(a), slow_switches(b)))[0] != on[1]:
        yield (
            "other_options",
            f"A was recorded with {on[0]}, B with {on[1]}",
        )


def slow_switches(report: Report) -> str:
    """Return which of the options that slow the host were on in the steps of the figures."""
    told = report.run.settings
    if told is None or figures_part(report.run.parts) == "figures":
        on = set[str]()  # of the host nothing was recorded in these steps
    else:
        on = {name for name in _SLOW_SWITCHES if told.options.get(name)} | set(told.switches)
    if any(warning.code == "recorded_with_stacks" for warning in report.run.warnings):
        on.add("with_stack")  # which the events show, too, and old reports tell
    return (
        ", ".join(name for name in _SLOW_SWITCHES if name in on) or "no option that slows the host"
    )


def _doubts(a: Report, b: Report, step: Difference | None) -> Iterator[tuple[str, str]]:
    """Give the reasons why a difference may not be what it seems."""
    if a.run.device != b.run.device and None not in (a.run.device, b.run.device):
        yield "other_device", f"A ran on {a.run.device}, B on {b.run.device}"
    sizes = a.run.world_size, b.run.world_size
    if sizes[0] != sizes[1] and None not in sizes:
        yield "other_world_size", f"A has {counted(sizes[0] or 0, 'rank')}, B {sizes[1]}"
    ranks = _longest_rank(a), _longest_rank(b)
    if ranks[0] != ranks[1] and None not in ranks:
        yield (
            "other_rank",
            f"A's step is that of rank {ranks[0]}, B's of rank {ranks[1]}: where one rank waits "
            "another computes, so see the table that holds each rank against itself",
        )
    for name, report in (("A", a), ("B", b)):
        for code, words in _of_one(report):
            yield code, f"{name}: {words}"
    if step is not None and step.difference_ns and _overlap(a, b):
        yield (
            "within_spread",
            f"the steps of A took {_span(a)}, those of B {_span(b)}: these overlap, so the "
            "difference may be chance",
        )


def _longest_rank(report: Report) -> int | None:
    """Return the rank whose median step is compared: the one on which it took longest."""
    rows = sorted(report.diagnosis.ledger, key=lambda one: (-one.step_ns, one.rank))
    return rows[0].rank if rows else None


def _of_one(report: Report) -> Iterator[tuple[str, str]]:
    run = report.run
    if run.partial_ranks:
        yield "partial", f"rank {ranges(run.partial_ranks)} was not read whole and does not count"
    elif run.unreadable:
        yield "partial", f"{counted(len(run.unreadable), 'file')} could not be read whole"
    if run.missing_ranks:
        yield "missing_ranks", f"rank {ranges(run.missing_ranks)} is not recorded"
    slowed = _slowed(report)
    if slowed is not None:
        yield "slowed", f"recording made the step {100 * slowed:.0f} % longer"
    steps = report.summary.counted_steps
    if steps is not None and 0 < steps < FEW_STEPS:
        yield (
            "few_steps",
            f"{counted(steps, 'step')} counted, which {'is' if steps == 1 else 'are'} few",
        )


def _slowed(report: Report) -> float | None:
    """Return how much longer recording made the figures' steps, where that is a lot."""
    cost = report.run.recording
    part = figures_part(report.run.parts)
    times = [] if cost is None else [time for time in cost.parts if time.part == part]
    ratios = [time.slowdown_ratio for time in times if time.slowdown_ratio is not None]
    return max((ratio for ratio in ratios if ratio > SLOWED_RATIO), default=None)


def _overlap(a: Report, b: Report) -> bool:
    first, second = a.summary.step_ns, b.summary.step_ns
    if first is None or second is None:
        return False
    return first.min <= second.max and second.min <= first.max


def _span(report: Report) -> str:
    times = report.summary.step_ns
    return "" if times is None else f"{times.min / 1e6:.2f} to {times.max / 1e6:.2f} ms"
