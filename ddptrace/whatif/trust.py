"""How far a prediction can be trusted, and why no further."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ddptrace.metrics.measured import Measured
from ddptrace.metrics.stragglers import sharing_ranks
from ddptrace.whatif.anchor import Anchoring
from ddptrace.whatif.contention import ENOUGH_RATIO, Slowed
from ddptrace.whatif.cost import Fit
from ddptrace.whatif.document import Prediction, Trust
from ddptrace.whatif.job import Job
from ddptrace.whatif.packing import Packing
from ddptrace.wording import counted

MISFIT_RATIO = 0.03
"""A replay of the recorded buckets that is off by more is no replay of this job."""
WILD_RATIO = 0.10
UNEXPLAINED_RATIO, STRANGE_RATIO = 0.05, 0.25
OTHER_LINE_RATIO = 0.10
"""A line that somebody gives and the middle transfer is further off is not of this recording."""


@dataclass(frozen=True, slots=True)
class Grounds:
    """What a prediction rests on."""

    measured: Measured
    job: Job
    fit: Fit
    beside: Slowed
    start: Anchoring
    packing: Packing
    misfit_ratio: float
    is_reproduced: bool
    is_line_given: bool = False


def judged(grounds: Grounds, predictions: list[Prediction]) -> tuple[Trust, list[str]]:
    """Return how far to trust predictions, with the reasons, the gravest first."""
    low = list(_grave(grounds))
    medium = list(_some(grounds, predictions))
    said = list(_said(grounds))
    trust: Trust = "low" if low else "medium" if medium else "high"
    return trust, [*low, *medium, *said]


def _grave(on: Grounds) -> Iterator[str]:
    start = on.start
    percent = f"{100 * start.stalled_ratio:.0f} %"
    if start.is_distorted:
        yield (
            f"the GPU waits for the host in {percent} of the recorded step, and nothing tells how "
            "much of that is the profiler's doing: the step is between what the GPU alone needs "
            "and what was recorded (record with `ddptrace capture`, which times steps without a "
            "profiler, too)"
        )
    elif start.is_host_bound:
        yield (
            f"the host decides: without a profiler, too, the GPU waits for it ({percent} of the "
            "recorded step), so that other buckets change little"
        )
    if on.start.unexplained_ratio > STRANGE_RATIO:
        yield _unexplained(on)
    if abs(on.misfit_ratio) > WILD_RATIO:
        yield _misfit(on)
    if sharing_ranks(on.measured.collected):
        yield "ranks share one GPU: transfers hold the turns of others, which no link does"


def _some(on: Grounds, predictions: list[Prediction]) -> Iterator[str]:
    if UNEXPLAINED_RATIO < on.start.unexplained_ratio <= STRANGE_RATIO:
        yield _unexplained(on)
    if MISFIT_RATIO < abs(on.misfit_ratio) <= WILD_RATIO:
        yield _misfit(on)
    yield from _of_costs(on, predictions)
    yield from _of_gradients(on)


def _of_costs(on: Grounds, predictions: list[Prediction]) -> Iterator[str]:
    if on.is_line_given and on.fit.residual_ratio > OTHER_LINE_RATIO:
        yield (
            f"the recorded transfers are not those of the line that was given: the middle one is "
            f"{100 * on.fit.residual_ratio:.0f} % off"
        )
    if on.fit.is_assumed:
        alpha_us = on.fit.curve.lines.alpha_ns[0] / 1e3
        yield (
            "all buckets have about one size, which tells no fixed cost: "
            f"{alpha_us:.0f} µs is assumed, a third to three times of it is in the intervals "
            "(`ddptrace capture --measure-link` tells it, --alpha-us sets it)"
        )
    if on.beside.compared_ratio < ENOUGH_RATIO and on.beside.high > 1:
        yield (
            "hardly any kernel ran both alone and beside communication: that compute takes "
            f"{on.beside.ratio:.2f} times as long beside it is a guess, up to "
            f"{on.beside.high:.2f} is in the intervals"
        )
    outside = [one for one in predictions if one.is_outside]
    if outside:
        caps = ", ".join(f"{one.bucket_cap_mb:g}" for one in outside)
        sizes = f"{on.fit.smallest_bytes / 1e6:.1f} to {on.fit.largest_bytes / 1e6:.1f} MB"
        yield (
            f"with a cap of {caps} MiB buckets are of other sizes than the recorded {sizes}: the "
            "line is drawn beyond what it was fitted to, and the intervals are wider"
        )


def _of_gradients(on: Grounds) -> Iterator[str]:
    job = on.job
    if job.resolution == "buckets":
        yield (
            "no size of a parameter is known: recorded buckets are cut into equal pieces, so that "
            "caps below the recorded one are rough (record shapes, or with `ddptrace capture`)"
        )
    if job.resolution == "sizes":
        yield (
            "sizes of parameters are known, and not when each gradient was ready: they are taken "
            "to come evenly until their recorded bucket was ready"
        )
    if on.packing.in_order and job.pieces.registered is None:
        yield (
            "DDP keeps the buckets of the order of registration (find_unused_parameters), which "
            "is not told: predictions are of buckets that are rebuilt as gradients come"
        )
    elif not on.is_reproduced and job.resolution != "buckets":
        yield "no cap gives the recorded buckets: DDP packed them by other rules than these"


def _unexplained(on: Grounds) -> str:
    return (
        f"recorded steps take {on.start.recorded_ns / 1e6:.1f} ms and those without a profiler "
        f"{on.start.step_ns / 1e6:.1f} ms, which waiting for the host does not explain: the "
        "job is not always as fast"
    )


def _misfit(on: Grounds) -> str:
    return (
        f"the replay of the recorded buckets is {100 * on.misfit_ratio:+.1f} % off the recorded "
        "step: something is in it that buckets do not explain"
    )


def _of_link(on: Grounds) -> Iterator[str]:
    """Yield why what the recorder measured of the link is not used."""
    manifest = on.measured.run.manifest
    link = None if manifest is None else manifest.link
    if link is None or on.fit.timed is not None:
        return
    if on.fit.refused_ratio is not None:
        yield (
            f"what was timed on the link alone is not used: the middle transfer of the steps took "
            f"{on.fit.refused_ratio:.2f} times as long, so that the link was not as it is in steps"
        )
    elif on.is_line_given and link.groups:
        yield "the line that was given counts, and not what was timed on the link alone"
    elif link.reason:
        yield f"the link was not measured: {link.reason}"
    elif not sharing_ranks(on.measured.collected):
        yield (
            "what was timed on the link alone is not used: the manifest tells it of no such group, "
            "of one size, or not of each size that it names"
        )


def _said(on: Grounds) -> Iterator[str]:
    yield from _of_link(on)
    if on.start.kind == "recorded":
        yield "starts from the step as it was recorded: no time without a profiler is known"
    if on.job.others:
        kept = counted(on.job.others, "other collective")
        yield f"{kept} a step {'is' if on.job.others == 1 else 'are'} kept as recorded"
    module = on.job.module
    if module is not None and module.comm_hook:
        yield "a communication hook is set: what it does to the bytes is in the fitted line"
