"""The one document about a run: all that outputs and checks read, and its versioned JSON."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec

from ddptrace.diagnosis.finding import Diagnosis
from ddptrace.diagnosis.headline import ALL_PARTIAL, headline, of_step
from ddptrace.diagnosis.straggler import straggler
from ddptrace.errors import RunError, UsageError
from ddptrace.metrics.bucket_summary import Bucket, BucketFacts, bucket_facts, bucket_list
from ddptrace.metrics.buckets import find_buckets, with_sizes
from ddptrace.metrics.collective_rows import Collective, collective_rows
from ddptrace.metrics.collectives import Collected, collect, waits
from ddptrace.metrics.exposure import with_exposure
from ddptrace.metrics.recorded import Recorded
from ddptrace.metrics.recording import (
    Recording,
    RunPart,
    figures_part,
    recording,
    run_parts,
    slowed,
)
from ddptrace.metrics.steps import StepMetrics, step_metrics
from ddptrace.metrics.stragglers import Stragglers, stragglers
from ddptrace.metrics.summary import Summary, kept_rows, longest_by_step, median_step_ns, summarize
from ddptrace.metrics.timebase import Timebase, timebase
from ddptrace.metrics.timeline import RankTimeline, clipped, rank_timeline
from ddptrace.metrics.unmatched import unmatched_counts, unmatched_warnings
from ddptrace.model import Device, Run, Source, Trace, Warn
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


@dataclass(frozen=True, slots=True)
class Timeline:
    """The busy times of every recording, to draw."""

    recordings: list[RankTimeline]


@dataclass(frozen=True, slots=True)
class Report:
    """Everything about a run; times are ns and count from `run.origin_ns`.

    `from_json(to_json(report, timeline=True)) == report`.
    """

    run: RunFacts
    steps: list[StepMetrics]
    collectives: list[Collective]
    summary: Summary
    diagnosis: Diagnosis
    timeline: Timeline | None
    whatif: dict[str, Any] | None
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
    by_rank: dict[int, list[Recorded]] = defaultdict(list)
    for trace in run.figures:
        by_rank[trace.rank].append(Recorded.of(trace))
    collected = collect(by_rank, run.world_size)
    buckets = find_buckets(collected, run)
    collected = with_sizes(collected, buckets)
    places = [(rank, number) for rank, mine in by_rank.items() for number in range(len(mine))]
    recordings = [_rows(collected, rank, number) for rank, number in places]
    if not any(recordings):
        raise _no_steps(run)
    base = timebase(by_rank)
    summary, counted = summarize(recordings), kept_rows(recordings)
    late = stragglers(collected, counted, run.missing_ranks)
    collectives = collective_rows(collected, buckets, base)
    steps = [
        _moved(row, base.origin_ns[rank][number])
        for rows, (rank, number) in zip(recordings, places, strict=True)
        for row in rows
    ]
    return Report(
        run=replace(
            _facts(
                run, base, collected, [*_step_warnings(run.figures, recordings), *buckets.warnings]
            ),
            buckets=bucket_facts(buckets),
        ),
        steps=sorted(steps, key=lambda row: (row.rank, row.start_ns)),
        collectives=collectives,
        summary=summary,
        diagnosis=Diagnosis(
            None, headline(counted, summary), straggler(late, median_step_ns(counted, summary))
        ),
        timeline=Timeline(
            [
                rank_timeline(by_rank[rank][number], base.origin_ns[rank][number])
                for rank, number in places
            ]
        ),
        whatif=None,
        stragglers=late,
        buckets=bucket_list(buckets, collectives, {row.step for row in counted}),
    )


def _rows(collected: Collected, rank: int, number: int) -> list[StepMetrics]:
    recorded = collected.recordings[rank][number]
    return with_exposure(step_metrics(recorded), recorded, waits(collected, rank, number))


def _moved(row: StepMetrics, origin_ns: int) -> StepMetrics:
    return replace(row, start_ns=row.start_ns - origin_ns, end_ns=row.end_ns - origin_ns)


def to_json(report: Report, *, timeline: bool = False) -> str:
    """Return the report as JSON, without its timeline unless that is asked for."""
    kept = report if timeline else replace(report, timeline=None)
    built = msgspec.to_builtins(kept, enc_hook=list)  # the only other type is Spans
    ordered = {"schema": built.pop("schema")} | built
    return msgspec.json.format(msgspec.json.encode(ordered), indent=2).decode() + "\n"


def from_json(text: str) -> Report:
    """Return the report that `to_json` wrote; RunError for any other text."""
    try:
        report = msgspec.json.decode(text, type=Report)
    except msgspec.MsgspecError as error:
        raise RunError(f"this is no ddptrace report: {error}") from error
    if report.schema != SCHEMA:
        raise RunError(f"report schema {report.schema} is not {SCHEMA}, which this version reads")
    return report


def only_step(report: Report, step: int) -> Report:
    """Return the report of one step; UsageError when no rank has it.

    Rows, headline and timeline are those of the step; the summary stays that of the run.
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
        diagnosis=replace(report.diagnosis, headline=f"step {sentence}"),
        timeline=None if report.timeline is None else _timeline_of(report.timeline, rows),
    )


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


def _facts(run: Run, base: Timebase, collected: Collected, more: Sequence[Warn]) -> RunFacts:
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
            *run.all_warnings,
            *more,
            *unmatched_warnings(collected),
            *slowed(cost, figures_part(parts), measured),
        ],
        missing_reasons={str(rank): reason for rank, reason in run.missing_reasons.items()},
        parts=parts,
        recording=cost,
        unmatched_collectives={
            str(rank): count for rank, count in unmatched_counts(collected).items()
        },
    )


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
