"""What the runs of one configuration measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from ddptrace.check.figures import STEP, longest
from ddptrace.check.measured import timed_series
from ddptrace.errors import DdptraceError
from ddptrace.manifest import DdpModule, Manifest, RankFacts, Replicas
from ddptrace.metrics.bucket_summary import bucket_facts
from ddptrace.metrics.measured import Measured
from ddptrace.model import Run
from ddptrace.sources.manifest import read_manifests
from ddptrace.sweep.folder import LARGEST_CAP_MB, MadeRun, SweepFile
from ddptrace.whatif.packing import DEFAULT_CAP_MB

Read: TypeAlias = Callable[[Path], Run]
"""Reads the recordings in a folder; DdptraceError where there are none that can be used."""


@dataclass(frozen=True, slots=True, eq=False)
class Measurement:
    """All runs with one cap: `times` has a list of step times for each that came to its end.

    `cap_mb` is the cap in force, None where models have several; `asked_mb` what the script asks
    for where it is its own. `measured` is the recording of the first run, None without one.
    """

    runs: Sequence[MadeRun]
    cap_mb: float | None
    is_own: bool
    asked_mb: float | list[float] | None
    manifests: Sequence[Manifest]
    times: Sequence[Sequence[int]]
    measured: Measured | None
    notes: list[str] = field(default_factory=list)

    @property
    def folder(self) -> str:
        """The folder of the first run, which is the recorded one."""
        return self.runs[0].folder

    @property
    def problem(self) -> str | None:
        """Why a run of it is missing; None when none is."""
        found = (run.problem or f"exit code {run.exit_code}" for run in self.runs if _failed(run))
        return next(found, None)

    @property
    def layout(self) -> tuple[tuple[int, ...], ...] | None:
        """The sizes of the buckets of each model; None where the recorder does not tell them."""
        ranks = [facts for each in self.manifests[:1] for facts in each.ranks[:1]]
        sizes = [one.rebuilt_bucket_bytes or one.initial_bucket_bytes for one in _modules(ranks)]
        return tuple(sizes) if sizes and all(sizes) else None

    @property
    def buckets(self) -> int | None:
        """How many buckets a backward pass has."""
        facts = None if self.measured is None else bucket_facts(self.measured.buckets)
        return None if facts is None else facts.count

    def largest(self, name: str) -> int | None:
        """Return a figure of a step, its median on the rank where that is largest."""
        if self.measured is None:
            return None
        told = [mine.get(name) for mine in self.measured.summary.ranks]
        known = [round(value) for value in told if value is not None]
        # The largest may be that of a rank that does not tell it.
        return max(known) if known and len(known) == len(told) else None

    def replicas(self) -> Replicas:
        """Return whether replicas were the same in all runs: what is known worst of any."""
        found = [each.replicas or Replicas(reason="was not looked at") for each in self.manifests]
        order = {False: 0, None: 1, True: 2}
        return min(found, key=lambda each: order[each.equal], default=Replicas())


def _failed(run: MadeRun) -> bool:
    return run.status != "done"


def measurements(folder: Path, told: SweepFile, read: Read) -> list[Measurement]:
    """Return the configurations of a sweep, the script's own first, then by cap."""
    by_cap: dict[float | None, list[MadeRun]] = {}
    for run in sorted(told.runs, key=lambda run: run.repeat):
        by_cap.setdefault(run.bucket_cap_mb, []).append(run)
    caps = sorted(by_cap, key=lambda cap: (cap is not None, cap))
    return [_measurement(folder, by_cap[cap], cap, read) for cap in caps]


def _measurement(
    folder: Path, runs: Sequence[MadeRun], cap_mb: float | None, read: Read
) -> Measurement:
    done = [run for run in runs if not _failed(run)]
    notes: list[str] = []
    told = {run.folder: _manifest(folder / run.folder, notes) for run in done}
    manifests = [each for each in told.values() if each is not None]
    times = {name: [] if each is None else _times(each) for name, each in told.items()}
    notes += [f"{name}: not every rank was timed" for name, each in times.items() if not each]
    asked, in_force = _caps(manifests)
    return Measurement(
        runs=runs,
        cap_mb=in_force if cap_mb is None else cap_mb,
        is_own=cap_mb is None,
        asked_mb=asked if cap_mb is None else None,
        manifests=manifests,
        times=[each for each in times.values() if each],
        measured=_recorded(folder, done, read, notes),
        notes=notes,
    )


def _manifest(folder: Path, notes: list[str]) -> Manifest | None:
    told = read_manifests([folder])
    notes.extend(told.problems)
    return told.manifest


def _times(manifest: Manifest) -> list[int]:
    """Return the steps timed without a profiler, each as on its slowest rank."""
    series = timed_series(manifest)
    if len(series) != (manifest.world_size or len(series)):
        return []  # the slowest may be a rank that is not there
    return list(longest(series, STEP).values())


def _recorded(
    folder: Path, done: Sequence[MadeRun], read: Read, notes: list[str]
) -> Measured | None:
    first = [run for run in done if run.repeat == 1]
    if not first or not _has_recordings(folder / first[0].folder):
        return None
    try:
        return Measured.of(read(folder / first[0].folder))
    except DdptraceError as error:
        notes.append(f"{first[0].folder}: {error}")
        return None


def _has_recordings(folder: Path) -> bool:
    told = read_manifests([folder]).manifest
    return told is not None and any(facts.files for facts in told.ranks)


def _modules(ranks: Sequence[RankFacts]) -> list[DdpModule]:
    return [module for facts in ranks for module in facts.ddp]


def _caps(manifests: Sequence[Manifest]) -> tuple[float | list[float] | None, float | None]:
    """Return what the script asked for, and the one cap that was in force if there is one."""
    modules = [module for each in manifests[:1] for module in _modules(each.ranks)]
    asked = list(dict.fromkeys(module.asked_bucket_cap_mb for module in modules))
    caps = {cap for module in modules for cap in _in_force(module)}
    only = caps.pop() if len(caps) == 1 else None
    in_force = only if only is not None and 0 < only <= LARGEST_CAP_MB else None
    if len(asked) == 1 and not isinstance(asked[0], tuple):
        return asked[0], in_force
    return [cap for one in asked for cap in _listed(one)] or None, in_force


def _listed(asked: float | tuple[float, ...] | None) -> Iterator[float]:
    if isinstance(asked, tuple):
        yield from asked
    else:
        yield DEFAULT_CAP_MB if asked is None else asked


def _in_force(module: DdpModule) -> Iterator[float]:
    if module.set_bucket_cap_mb is not None:
        yield module.set_bucket_cap_mb
    else:
        yield from _listed(module.asked_bucket_cap_mb)
