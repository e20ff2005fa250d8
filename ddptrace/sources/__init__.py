"""Files in, one `Run` out."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ddptrace.engine import Progress, cores, map_each
from ddptrace.errors import ForeignFileError, OwnReportError, RunError, TraceFileError, UsageError
from ddptrace.kernels import Patterns, comm_patterns, step_range_patterns
from ddptrace.model import Run, Trace, Warn
from ddptrace.sources import discovery, parts, ranks
from ddptrace.sources.kineto_trace import read_kineto
from ddptrace.sources.manifest import Told, read_manifests
from ddptrace.sources.nsys import read_nsys
from ddptrace.sources.nsys_files import is_nsys
from ddptrace.sources.one_run import check_one_run, without_host_only
from ddptrace.sources.presence import about_ranks, missing_reasons
from ddptrace.sources.recording import Recording
from ddptrace.wording import listed, one_line, ranges

# Below this a second process costs more than it saves.
_WORTH_A_PROCESS_BYTES = 2_000_000


@dataclass(frozen=True, slots=True)
class _Content:
    """What one file gave: recordings, or the reason why it gave none."""

    path: Path
    recordings: tuple[Recording, ...] = ()
    problem: TraceFileError | None = None


def load_run(  # noqa: PLR0913  # each is a question of its own, asked by name
    path: str | Path | Sequence[str | Path],
    *,
    ranks: Collection[int] | None = None,
    comm_kernels: str | Sequence[str] = (),
    step_range: str | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Run:
    """Return the run in a folder, a file, a glob pattern or a list of these.

    `ranks` keeps only these ranks; `comm_kernels` are regular expressions that name further
    kernels as communication, `step_range` is one that names the NVTX ranges that are steps; `jobs`
    is the number of processes (default: one a core, one for small files); `progress` is told how
    many files are read. Raises RunError when the files are not one run's, TraceFileError when none
    can be read, UsageError for a bad expression.
    """
    if ranks is not None and not ranks:
        raise UsageError("no rank is chosen; leave the choice out to read all")
    paths = [path] if isinstance(path, (str, Path)) else list(path)
    found = discovery.find(paths)
    step_range_patterns(step_range)  # a bad expression is refused before anything is read
    read = partial(_read, comm=comm_patterns(comm_kernels), steps=step_range)
    size = discovery.total_bytes(found.files)
    jobs = jobs or max(min(cores(), size // _WORTH_A_PROCESS_BYTES), 1)
    contents = map_each(read, found.files, jobs=jobs, progress=progress)
    return _run(found, contents, ranks)


def _read(path: Path, *, comm: Patterns, steps: str | None) -> _Content:
    try:
        found = read_nsys(path, comm, steps) if is_nsys(path) else read_kineto(path, comm)
        return _Content(path, tuple(found))
    except TraceFileError as problem:
        return _Content(path, problem=problem)


def _run(
    found: discovery.Found, contents: Sequence[_Content], wanted: Collection[int] | None
) -> Run:
    foreign, unreadable = _problems(found, contents)
    recorded = [content for content in contents if content.recordings]
    if not recorded:
        raise _no_recordings(foreign, unreadable)
    told = read_manifests([*found.above, *sorted({file.parent for file in found.files})])
    traces, about_names = _with_ranks(found, recorded, told)
    traces, hostless = without_host_only(traces)
    unreadable += hostless
    if wanted is not None:
        unreadable = [problem for problem in unreadable if _may_be_of(found, problem, wanted)]
        traces = _only(traces, wanted, unreadable)
    traces = parts.with_parts(sorted(traces, key=lambda trace: (trace.rank, trace.start_ns)))
    try:
        about_set = check_one_run(traces, _everybody(traces, told, wanted))
    except RunError as error:
        raise _several_folders(found, recorded, error) from error
    problems = [*map(str, unreadable), *parts.damaged_beside(traces)]
    warnings = [
        *(Warn("manifest_ignored", problem) for problem in told.problems),
        *about_names,
        *about_set,
        *map(_ignored, (other for other in foreign if not isinstance(other, OwnReportError))),
        *(Warn("unreadable_file", problem) for problem in problems),
        *parts.about_parts(traces),
    ]
    world_size = _world_size(traces, told, wanted)
    missing = sorted(set(_everybody(traces, told, wanted)) - {trace.rank for trace in traces})
    run = Run(
        traces=tuple(traces),
        world_size=world_size,
        missing_ranks=tuple(missing),
        warnings=tuple(warnings),
        unreadable=tuple(problems),
        missing_reasons=missing_reasons(told, missing),
        manifest=told.manifest,
    )
    return replace(run, warnings=(*run.warnings, *about_ranks(run)))


def _everybody(
    traces: Sequence[Trace], told: Told, wanted: Collection[int] | None
) -> Collection[int]:
    """Return the ranks that there should be; none where nothing tells."""
    return range(_world_size(traces, told, wanted) or 0) if wanted is None else wanted


def _world_size(traces: Sequence[Trace], told: Told, wanted: Collection[int] | None) -> int | None:
    sizes = [trace.facts.world_size for trace in traces if trace.facts.world_size]
    world_size = max(sizes, default=told.manifest.world_size if told.manifest else None)
    beyond = [rank for rank in wanted or () if world_size is not None and rank >= world_size]
    if beyond:
        raise UsageError(f"rank {ranges(beyond)} is beyond the world size {world_size}")
    return world_size


def _problems(
    found: discovery.Found, contents: Sequence[_Content]
) -> tuple[list[TraceFileError], list[TraceFileError]]:
    """Return the problems of files of other kinds, and those of files that cannot be read."""
    foreign, unreadable = [], []
    for content in contents:
        if content.problem is None:
            continue
        bystander = isinstance(content.problem, ForeignFileError)
        if bystander and content.path in found.others:
            foreign.append(content.problem)
        else:
            unreadable.append(content.problem)
    return foreign, unreadable


def _no_recordings(
    foreign: Sequence[TraceFileError], unreadable: Sequence[TraceFileError]
) -> Exception:
    problems = [*unreadable, *foreign]
    if len(problems) == 1:
        return problems[0]
    more = f"; and {len(problems) - 3} more files" if len(problems) > 3 else ""
    return RunError("no file can be read: " + "; ".join(map(str, problems[:3])) + more)


def _with_ranks(
    found: discovery.Found, contents: Sequence[_Content], told: Told
) -> tuple[list[Trace], list[Warn]]:
    """Give each recording its rank: from the file, the manifest, or the names, in this order."""
    traces, unnamed, from_names = [], [], []
    warnings: list[Warn] = []
    for content in contents:
        for recording in content.recordings:
            # What names no file is said once for all of them.
            warnings += [warning for warning in recording.about_file if warning not in warnings]
            rank = recording.told_rank
            if rank is None:
                rank = told.rank_of.get(content.path.resolve())
            if rank is None:
                lone = len(contents) == 1
                rank = ranks.named_rank(content.path.absolute(), found.root, lone=lone)
                from_names.append(one_line(content.path))
            trace = parts.as_told(recording.trace, content.path, told)
            if rank is None:
                unnamed.append(trace)
            else:
                traces.append(_of_rank(trace, rank))
    if unnamed and (traces or len(unnamed) > 1):
        raise ranks.refuse_unnamed([trace.path for trace in unnamed])
    warnings += [
        Warn(
            "rank_assumed",
            f"{trace.path}: nothing tells the rank, so it is read as rank 0; {ranks.HOW_TO_NAME}",
        )
        for trace in unnamed
    ]
    if from_names and not unnamed:
        warnings.append(
            Warn(
                "rank_from_name",
                f"ranks are taken from the names of {listed(set(from_names))}",
            )
        )
    return traces + [_of_rank(trace, 0) for trace in unnamed], warnings


def _of_rank(trace: Trace, rank: int) -> Trace:
    warnings = tuple(replace(warning, rank=rank) for warning in trace.warnings)
    return replace(trace, rank=rank, warnings=warnings)


def _may_be_of(found: discovery.Found, problem: TraceFileError, wanted: Collection[int]) -> bool:
    """Tell whether an unreadable file may be of a wanted rank: only its name can say."""
    rank = ranks.named_rank(Path(problem.path).absolute(), found.root, lone=False)
    return rank is None or rank in wanted


def _only(
    traces: Sequence[Trace], wanted: Collection[int], unreadable: Sequence[TraceFileError]
) -> list[Trace]:
    kept = [trace for trace in traces if trace.rank in wanted]
    if not kept:
        there = ranges({trace.rank for trace in traces})
        reason = f" ({unreadable[0]})" if unreadable else ""
        raise RunError(
            f"no recording of rank {ranges(wanted)} can be read{reason}; there is rank {there}"
        )
    return kept


def _several_folders(
    found: discovery.Found, contents: Sequence[_Content], error: RunError
) -> RunError:
    """Return the error with the runs named, when each folder below the root is a run of its own."""
    below = {
        content.path.absolute().relative_to(found.root).parts[0]
        for content in contents
        if content.path.absolute().parent != found.root
    }
    at_root = any(content.path.absolute().parent == found.root for content in contents)
    if at_root or len(below) < 2:
        return error
    return RunError(
        f"{error}. The folders below {found.root} may be a run each; pass one of them: "
        f"{', '.join(sorted(below))}"
    )


def _ignored(problem: TraceFileError) -> Warn:
    return Warn("ignored_file", f"{problem.path}: left out, since it {problem.what}")
