"""From a run, a report or a manifest to the figures that are held against those of another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from ddptrace.check import fingerprint
from ddptrace.check.baseline import Baseline
from ddptrace.check.figures import METRICS, STEP, BucketTime, KernelTime, RunFigures, Series
from ddptrace.diagnosis.ledger import Causes, Ledger, causes
from ddptrace.manifest import Manifest
from ddptrace.metrics.hotspots import hotspots
from ddptrace.metrics.measured import Measured
from ddptrace.metrics.steps import StepMetrics
from ddptrace.metrics.summary import kept_rows
from ddptrace.model import Run
from ddptrace.report import Report, report_of

_MOST_KERNELS = 200
_NAME_LENGTH = 200
_OF_TRANSFER = ("bucket_schedule", "comm_bandwidth", "comm_latency", "comm_unknown", "straggler")
_OF_IDLE = ("input_stall", "sync_wait", "launch_bound", "idle_unknown")


def baseline_of(*runs: Run | Report, names: Iterable[str] = ()) -> Baseline:
    """Return what further runs are held against, of one run or of several of the same job."""
    named = [*names, *("" for _ in runs)]
    return Baseline([figures_of(run, name) for run, name in zip(runs, named, strict=False)])


def figures_of(run: Run | Report, name: str = "") -> RunFigures:
    """Return the figures of a run; RunError when no recording of it has a step with GPU work.

    A report tells less of single steps and of kernels than the run that it was made from.
    """
    return _of_report(run, name) if isinstance(run, Report) else _of_run(run, name)


def _of_run(run: Run, name: str) -> RunFigures:
    measured = Measured.of(run)
    report = report_of(measured)
    found = causes(measured)
    counted = {id(row) for row in measured.counted}
    kept = [one for rows in found for one in rows if id(one.row) in counted]
    return RunFigures(
        name=name,
        fingerprint=fingerprint.of_run(run, report, _ranks(measured.counted)),
        recorded=_series((one.row, _all_values(one)) for one in kept),
        timed=[] if run.manifest is None else timed_series(run.manifest, run.ranks),
        ledgers=_ledgers(report),
        kernels=_kernels(measured),
        buckets=_buckets(report),
        notes=_notes(report),
    )


def _of_report(report: Report, name: str) -> RunFigures:
    by_rank: dict[int, list[StepMetrics]] = defaultdict(list)
    for row in report.steps:
        by_rank[row.rank].append(row)
    # A saved report does not tell recordings apart: most ranks have one.
    kept = kept_rows(list(by_rank.values()))
    return RunFigures(
        name=name,
        fingerprint=fingerprint.of_report(report, _ranks(kept)),
        recorded=_series((row, _values(row)) for row in kept),
        ledgers=_ledgers(report),
        buckets=_buckets(report),
        notes=_notes(report),
    )


def _ranks(rows: Iterable[StepMetrics]) -> list[int]:
    """Return the ranks that count: of one that was not read whole nothing does."""
    return sorted({row.rank for row in rows})


def timed_series(manifest: Manifest, ranks: Iterable[int] | None = None) -> list[Series]:
    """Return the times of steps without a profiler of some ranks, or of all that have any."""
    wanted = None if ranks is None else set(ranks)
    return [
        Series(facts.rank, _numbers(timed.first_step, len(timed.step_ns)), {STEP: [*timed.step_ns]})
        for facts in manifest.ranks
        if (timed := facts.unprofiled) is not None and timed.step_ns
        if wanted is None or facts.rank in wanted
    ]


def _numbers(first: int, count: int) -> list[int]:
    return list(range(first, first + count))


def _series(rows: Iterable[tuple[StepMetrics, dict[str, int | None]]]) -> list[Series]:
    """Return the series of each rank; a recording without step marks has none."""
    by_rank: dict[int, list[tuple[int, dict[str, int | None]]]] = defaultdict(list)
    for row, values in sorted(rows, key=lambda pair: (pair[0].rank, pair[0].start_ns)):
        if row.step is not None:
            by_rank[row.rank].append((row.step, values))
    return [
        Series(
            rank,
            [step for step, _ in mine],
            {metric: [values.get(metric) for _, values in mine] for metric in METRICS},
        )
        for rank, mine in by_rank.items()
    ]


def _values(row: StepMetrics) -> dict[str, int | None]:
    return {metric: getattr(row, f"{metric}_ns", None) for metric in METRICS}


def _all_values(one: Causes) -> dict[str, int | None]:
    """Return the metrics of a step; a part of the ledger is None where its cause is not known."""
    found = _values(one.row)
    if one.ledger is None:
        return found
    known = [*(_OF_TRANSFER if one.transfer is not None else ())]
    known += _OF_IDLE if one.idle is not None else ()
    return found | {metric: getattr(one.ledger, f"{metric}_ns") for metric in known}


def _ledgers(report: Report) -> list[Ledger]:
    return [one for one in report.diagnosis.ledger if one.step is not None]


def _kernels(measured: Measured) -> list[KernelTime]:
    """Return the largest kernels of the median step on every rank."""
    step = measured.summary.median_step
    counted = {id(row) for row in measured.counted}
    return [
        KernelTime(rank, one.name[:_NAME_LENGTH], one.calls, one.total_ns)
        for rows, (rank, number) in zip(measured.rows, measured.places, strict=True)
        for at, row in enumerate(rows)
        if step is not None and row.step == step and id(row) in counted
        for one in hotspots(measured.recordings[rank][number], at, _MOST_KERNELS)
    ]


def _buckets(report: Report) -> list[BucketTime]:
    """Return how long each bucket of the median step was exposed on every rank."""
    step = report.summary.median_step
    sizes = {one.bucket: one.size_bytes for one in report.buckets}
    exposed: dict[tuple[int, int], int] = defaultdict(int)
    for collective in report.collectives:
        if step is not None and collective.step == step and collective.bucket is not None:
            for one in collective.ranks:
                exposed[one.rank, collective.bucket] += one.exposed_ns
    return [
        BucketTime(rank, bucket, sizes.get(bucket), ns)
        for (rank, bucket), ns in sorted(exposed.items())
    ]


def _notes(report: Report) -> list[str]:
    """Return what to know of a run's figures before they are believed."""
    codes = (
        "no_step_marks",
        "recording_slowed_run",
        "partial_rank",
        "missing_ranks",
        "manifest_ignored",
    )
    found = [warning for warning in report.run.warnings if warning.code in codes]
    return [one.message if one.rank is None else f"rank {one.rank}: {one.message}" for one in found]
