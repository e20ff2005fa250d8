"""The one document about a run: all that outputs and checks read, and its versioned JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from ddptrace.diagnosis.finding import Diagnosis
from ddptrace.diagnosis.headline import ALL_PARTIAL, of_step
from ddptrace.diagnosis.verdict import diagnose
from ddptrace.errors import RunError, UsageError
from ddptrace.metrics.bucket_summary import Bucket, BucketFacts, bucket_facts, bucket_list
from ddptrace.metrics.clocks import RankClock
from ddptrace.metrics.collective_rows import Collective, collective_rows
from ddptrace.metrics.host_evidence import times_by_cause, times_of_causes
from ddptrace.metrics.measured import Measured
from ddptrace.metrics.overlap import overlap_when_aligned
from ddptrace.metrics.recorded import Recorded
from ddptrace.metrics.recording import (
    Recording,
    RunPart,
    figures_part,
    recording,
    run_parts,
    slowed,
)
from ddptrace.metrics.settings import Settings, settings
from ddptrace.metrics.steps import StepMetrics
from ddptrace.metrics.stragglers import Stragglers
from ddptrace.metrics.summary import Summary, longest_by_step
from ddptrace.metrics.timebase import counts_alike
from ddptrace.metrics.timeline import Made, RankTimeline, clipped, rank_timeline
from ddptrace.metrics.unmatched import unmatched_counts, unmatched_warnings
from ddptrace.model import Device, Run, Source, Trace, Warn
from ddptrace.whatif.document import WhatIf
from ddptrace.whatif.predict import predicted
from ddptrace.wording import ranges

if TYPE_CHECKING:
    import pandas as pd  # imported where a frame is made: it costs more than a small report

SCHEMA = 1

_FRAME_TYPES = {"name": "string", "overlap_ratio": "Float64", "partial": "bool"}


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What is known of the run itself.

    `origin_ns` is the Unix ns, as text, that all times of the report count from; None when no
    file tells the time of day. `measured` says whose work the figures are of. `parts` is None for
    a run recorded in one part, `recording` where nothing tells what recording cost, `buckets`
    where no collective is known to be one.
    """

    world_size: int | None
    ranks: list[int]
    missing_ranks: list[int]
    partial_ranks: list[int]
    unreadable: list[str]
    origin_ns: str | None
    sources: dict[str, Source]
    measured: Device
    device: str | None
    backend: str | None
    versions: dict[str, str]
    warnings: list[Warn]
    # Last and with defaults, so that reports of before they were added can be read.
    missing_reasons: dict[str, str] = field(default_factory=dict)
    parts: list[RunPart] | None = None
    recording: Recording | None = None
    unmatched_collectives: dict[str, int] = field(default_factory=dict)
    buckets: BucketFacts | None = None
    clocks: list[RankClock] = field(default_factory=list)
    settings: Settings | None = None


class _Versioned(msgspec.Struct):
    schema: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """The busy times of every recording, to draw.

    `recordings` are those that figures come from, `causes` those of other steps in which the host
    was recorded, too.
    """

    recordings: list[RankTimeline]
    causes: Sequence[RankTimeline] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """Everything about a run; times are ns and count from `run.origin_ns`.

    `from_json(to_json(report, timeline=True)) == report`.
    """

    run: RunFacts
    steps: list[StepMetrics]
    collectives: Sequence[Collective]
    summary: Summary
    diagnosis: Diagnosis
    timeline: Timeline | None
    whatif: WhatIf | None
    schema: int = SCHEMA
    stragglers: Stragglers | None = None
    buckets: list[Bucket] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether every file could be read to its end; missing ranks do not matter."""
        return not self.run.partial_ranks and not self.run.unreadable

    def frame(self) -> pd.DataFrame:
        """Return `steps` as a table: one row a rank and step, the columns of `StepMetrics`."""
        import pandas as pd  # imported at its first use, see above

        types = {name: _FRAME_TYPES.get(name, "Int64") for name in StepMetrics.__slots__}
        rows = [asdict(row) for row in self.steps]
        frame: pd.DataFrame = pd.DataFrame(rows, columns=list(types)).astype(types)
        return frame


def analyze(run: Run) -> Report:
    """Return the report of a run; RunError when no recording of it has a step with GPU work."""
    return report_of(Measured.of(run))


def report_of(measured: Measured) -> Report:
    """Return the report of what was measured; RunError when there is no step with GPU work."""
    run, base, summary, counted = measured.run, measured.base, measured.summary, measured.counted
    if not any(measured.rows):
        raise _no_steps(run)
    whatif = predicted(measured)
    steps = [
        _moved(row, int(base.shift_ns(rank, number, np.array(row.start_ns))))
        for rows, (rank, number) in zip(measured.rows, measured.places, strict=True)
        for row in rows
    ]
    return Report(
        run=_facts(measured),
        steps=sorted(steps, key=lambda row: (row.rank, row.start_ns)),
        collectives=collective_rows(measured.collected, measured.buckets, base),
        summary=summary,
        diagnosis=diagnose(measured, whatif),
        timeline=_timeline(measured),
        whatif=whatif,
        stragglers=measured.stragglers,
        buckets=bucket_list(measured.buckets, measured.collected, {row.step for row in counted}),
    )


def _timeline(measured: Measured) -> Timeline:
    return Timeline(
        [
            rank_timeline(
                measured.recordings[rank][number],
                measured.base,
                number,
                partial(times_by_cause, measured, rank, number),
            )
            for rank, number in measured.places
        ],
        Made(lambda: _timelines_of_causes(measured)),
    )


def _timelines_of_causes(measured: Measured) -> list[RankTimeline]:
    """Return the recordings of the host in which other steps ran than figures come from.

    Those that count from a moment of their own have no place on the time of the report.
    """
    figures = {id(trace) for trace in measured.run.figures}
    found = []
    for trace in measured.run.causes:
        first = measured.recordings.get(trace.rank, [])[:1]
        if id(trace) in figures or not first or not len(trace.ops) or not trace.marks:
            continue
        recorded = Recorded.of(trace)
        if counts_alike(recorded, first[0]) and len(recorded.steps.start_ns):
            idle = partial(times_of_causes, recorded)
            found.append(rank_timeline(recorded, measured.base, 0, idle))
    return found


def _moved(row: StepMetrics, shift_ns: int) -> StepMetrics:
    return replace(row, start_ns=row.start_ns - shift_ns, end_ns=row.end_ns - shift_ns)


def to_json(report: Report, *, timeline: bool = False) -> str:
    """Return the report as JSON, without its timeline unless that is asked for."""
    kept = report if timeline else replace(report, timeline=None)
    built = msgspec.to_builtins(kept, enc_hook=list)  # of Spans and Collectives
    ordered = {"schema": built.pop("schema")} | built
    return msgspec.json.format(msgspec.json.encode(ordered), indent=2).decode() + "\n"


def from_json(text: str) -> Report:
    """Return the report that `to_json` wrote; RunError for any other text."""
    try:
        # First, since what another version writes may not fit the records of this one.
        schema = msgspec.json.decode(text, type=_Versioned).schema
        if schema != SCHEMA:
            raise RunError(f"report schema {schema} is not {SCHEMA}, which this version reads")
        return msgspec.json.decode(text, type=Report)
    except msgspec.MsgspecError as error:
        raise RunError(f"this is no ddptrace report: {error}") from error


def only_step(report: Report, step: int) -> Report:
    """Return the report of one step; UsageError when no rank has it.

    Rows, collectives, headline and timeline are those of the step; what sums up the run stays.
    """
    rows = [row for row in report.steps if row.step == step]
    if not rows:
        known = sorted({row.step for row in report.steps if row.step is not None})
        there = f"the run has steps {ranges(known)}" if known else "it has no steps"
        raise UsageError(f"--step {step}: no such step; {there}")
    longest = longest_by_step(row for row in rows if not row.partial)
    sentence = of_step(longest[step], rows) if longest else ALL_PARTIAL
    return replace(
        report,
        steps=rows,
        collectives=[one for one in report.collectives if one.step == step],
        diagnosis=replace(report.diagnosis, where=f"step {sentence}"),
        timeline=None if report.timeline is None else _timeline_of(report.timeline, rows),
        stragglers=None if report.stragglers is None else _stragglers_of(report.stragglers, step),
    )


def _stragglers_of(found: Stragglers, step: int) -> Stragglers:
    return replace(found, steps=[one for one in found.steps if one.step == step])


def _timeline_of(timeline: Timeline, rows: Sequence[StepMetrics]) -> Timeline:
    """Return the part of a timeline inside the windows of some rows."""
    return Timeline(
        [
            clipped(recording, row.start_ns, row.end_ns)
            for recording in timeline.recordings
            for row in rows
            if row.rank == recording.rank
        ]
    )


def _no_steps(run: Run) -> RunError:
    cut = [f"{trace.path}: {trace.partial}" for trace in run.figures if trace.partial]
    if cut:
        return RunError(f"{cut[0]}; what is there holds no GPU work of a step")
    return RunError(
        "no GPU operation was launched inside a step mark: the marks and the GPU work were "
        "recorded at different times; record whole steps"
    )


def _facts(basis: Measured) -> RunFacts:
    run, base = basis.run, basis.base
    traces = run.figures
    measured: Device = "gpu" if any(trace.device == "gpu" for trace in traces) else "host"
    told = () if run.manifest is None else run.manifest.ranks
    devices = [trace.facts.device_name for trace in run.traces]
    backends = [trace.facts.backend for trace in run.traces]
    parts, cost = run_parts(run), recording(run)
    return RunFacts(
        world_size=run.world_size,
        ranks=run.ranks,
        missing_ranks=list(run.missing_ranks),
        partial_ranks=run.partial_ranks,
        unreadable=list(run.unreadable),
        origin_ns=None if base.unix_origin_ns is None else str(base.unix_origin_ns),
        sources={str(trace.rank): trace.source for trace in run.traces},
        measured=measured,
        device="CPU"
        if measured == "host"
        else _most_common(devices) or _most_common([facts.device for facts in told]),
        backend=_most_common(backends) or _most_common([facts.backend for facts in told]),
        versions=_versions(run),
        warnings=[
            *_known_warnings(basis),
            *_step_warnings(run.figures, basis.rows),
            *basis.buckets.warnings,
            *unmatched_warnings(basis.collected),
            *slowed(cost, figures_part(parts), measured),
        ],
        missing_reasons={str(rank): reason for rank, reason in run.missing_reasons.items()},
        parts=parts,
        recording=cost,
        unmatched_collectives={
            str(rank): count for rank, count in unmatched_counts(basis.collected).items()
        },
        buckets=bucket_facts(basis.buckets),
        clocks=basis.clocks,
        settings=settings(run),
    )


def _known_warnings(basis: Measured) -> list[Warn]:
    """Return what reading has warned of, without clocks that collectives have aligned since."""
    settled = {
        "no_common_clock": basis.base.is_common,
        "ranks_apart_in_time": overlap_when_aligned(basis),
    }
    return [warning for warning in basis.run.all_warnings if not settled.get(warning.code, False)]


def _versions(run: Run) -> dict[str, str]:
    """Return the versions that the files tell, then those that only the manifest does.

    Of the driver the manifest tells the version itself, a file only which CUDA it can run.
    """
    told = {} if run.manifest is None else run.manifest.versions
    found = run.figures[0].facts.versions
    return {
        name: told.get(name, word) if name == "driver" else word
        for name, word in (told | found).items()
    }


def _most_common(values: Sequence[str | None]) -> str | None:
    known = Counter(value for value in values if value is not None).most_common(1)
    return known[0][0] if known else None


def _step_warnings(
    traces: Sequence[Trace], recordings: Sequence[Sequence[StepMetrics]]
) -> list[Warn]:
    if any(row.step is not None for rows in recordings for row in rows):
        return []
    return [
        Warn(
            "no_step_marks",
            "no step marks: step time is not available and the whole recording counts as one "
            f"piece; {_how_to_mark(traces)}",
        )
    ]


def _how_to_mark(traces: Sequence[Trace]) -> str:
    if all(trace.part == "figures" for trace in traces):
        return "keep the manifest.json that capture wrote, which tells the steps, beside the traces"
    ways = {
        "kineto": "call prof.step() once an iteration",
        "nsys": "record an NVTX range an iteration (torch.cuda.nvtx.range_push(f'step {step}'), "
        "nsys profile --trace=cuda,nvtx), or name yours with --step-range REGEX",
    }
    used = {trace.source for trace in traces}
    return "; ".join(way for source, way in ways.items() if source in used)
