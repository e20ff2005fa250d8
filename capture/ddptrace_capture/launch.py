"""Runs the user's command under the recorder, and gathers what its ranks recorded."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from ddptrace_capture import child, link, manifest, nsys_job, output_folder, rank_record
from ddptrace_capture.errors import CaptureError, say
from ddptrace_capture.options import Options, Request
from ddptrace_capture.scrub import scrub

NOTHING_RECORDED = 2


def capture(request: Request) -> int:
    """Do what was asked, and return the exit code: the command's own, 2 if nothing was recorded."""
    if request.scrub:
        return _scrub(request.scrub)
    if shutil.which(request.command[0]) is None:
        raise CaptureError(f"{request.command[0]}: no such command; check what stands after --")
    options = request.options
    if options.profiler != "both":
        return _one_run(options, request)
    nsys_job.around(options, request.command)  # says what is missing before an hour is spent
    say("two runs one after the other, since CUPTI serves one tool a process")
    folder = Path(options.output)
    first = replace(options, profiler="torch", output=str(folder / "torch"))
    second = replace(options, profiler="nsys", output=str(folder / "nsys"))
    # A job that failed or was interrupted is not run again.
    return _one_run(first, request) or _one_run(second, request)


def _scrub(paths: Sequence[str]) -> int:
    """Clean files, and return 2 when a secret is left in one: in the name of a kernel or range."""
    cleaned = {path: scrub(Path(path)) for path in paths}
    for path, removed in cleaned.items():
        sys.stdout.write(f"{path}: {removed}\n")
    return 2 if any(removed.left for removed in cleaned.values()) else 0


def _one_run(options: Options, request: Request) -> int:
    return record(options, request).code


def record(options: Options, request: Request) -> child.Ended:
    """Run the command once under the recorder; the code is 2 where it is 0 and nothing came."""
    command: Sequence[str] = request.command
    if options.profiler == "nsys":
        options, command = nsys_job.around(options, command)
    output_folder.prepare(options.output, force=request.force)
    say(f"recording {' '.join(manifest.without_secrets(request.command))}")
    started_ns = time.time_ns()
    try:
        variables = child.environment(options, os.environ)
        ended = child.run(command, variables, is_nsys=command is not request.command)
        return replace(ended, code=_gather(options, request, started_ns, ended.code))
    finally:
        output_folder.clear(options.output)


def _gather(options: Options, request: Request, started_ns: int, code: int) -> int:
    """Put together what the ranks left, and return the exit code of the capture."""
    try:
        records = rank_record.read_all(options.output)
        stages = rank_record.stages(options.output)
        problem = nsys_job.collect(options, records) if options.profiler == "nsys" else None
        if records:
            manifest.write(options, request.command, (started_ns, code), records)
    except OSError as error:
        say(f"{options.output}: the recording cannot be written: {error.strerror}")
        return code or NOTHING_RECORDED
    return _conclude(options, records, code, _why_nothing(options, records, stages, code, problem))


def _conclude(
    options: Options, records: Sequence[Mapping[str, Any]], code: int, why_nothing: str
) -> int:
    folder = Path(options.output)
    is_timed = options.profiler == "none"
    recorded = [
        record
        for record in records
        if (record["unprofiled"] if is_timed else _files(record, folder))
    ]
    if not recorded:
        say(f"nothing was recorded: {why_nothing}")
        return code or NOTHING_RECORDED
    for record in records:
        problem = manifest.problem(record, folder, code)
        if problem:
            say(f"rank {record['rank']['rank']}: {problem}")
    reason = link.joined(records)["reason"] if options.measure_link else None
    if reason:
        say(f"the link was not measured: {reason}")
    if is_timed:
        say(_timed_summary(recorded, options.output))
    else:
        say(f"recorded {_summary(recorded)}; next: ddptrace report {shlex.quote(options.output)}")
    return code


def _timed_summary(timed: Sequence[Mapping[str, Any]], output: str) -> str:
    step_ns = [record["unprofiled"]["step_ns"] for record in timed]
    return (
        f"timed {_steps(min(map(len, step_ns)))} of {len(timed)} of {timed[0]['world_size']} "
        f"ranks, {_typical_ms(step_ns):.2f} ms a step; next: ddptrace check "
        f"{shlex.quote(output)} --save-baseline FILE, or --baseline FILE"
    )


def _files(record: Mapping[str, Any], folder: Path) -> list[Path]:
    """Return a rank's files, also one that it had no time to tell of."""
    told = [folder / part["file"] for part in record["parts"]]
    found = [*told, *folder.glob(f"rank{record['rank']['rank']}.*.gz")]
    return [path for path in found if path.is_file()]


def _summary(recorded: Sequence[Mapping[str, Any]]) -> str:
    first = recorded[0]
    parts = " and ".join(
        f"{_steps(len(part['marks']))} ({' and '.join(part['activities'])})"
        for part in first["parts"]
    )
    ranks = f"{len(recorded)} of {first['world_size']} ranks" + (f", {parts} each" if parts else "")
    if not all(record["unprofiled"] and record["parts"] for record in recorded):
        return ranks
    plain = _typical_ms([record["unprofiled"]["step_ns"] for record in recorded])
    # As in the report, the first of three or more steps does not count.
    slowed = _typical_ms([_but_the_first(record["parts"][0]["step_ns"]) for record in recorded])
    return f"{ranks}, {plain:.2f} ms a step without the profiler and {slowed:.2f} ms with it"


def _but_the_first(step_ns: Sequence[int]) -> Sequence[int]:
    return step_ns[1:] if len(step_ns) >= 3 else step_ns


def _steps(count: int) -> str:
    return f"{count} step" if count == 1 else f"{count} steps"


def _typical_ms(step_ns: Sequence[Sequence[int]]) -> float:
    """Return the median over steps of the longest rank, as the report has it."""
    longest: list[int] = [max(ranks) for ranks in zip(*step_ns, strict=False)]
    return median(longest) / 1e6


def _why_nothing(
    options: Options,
    records: Sequence[Mapping[str, Any]],
    stages: set[str],
    code: int,
    nsys_problem: str | None,
) -> str:
    if records:
        return _why_no_rank(options, records, code, nsys_problem)
    if code and "torch" in stages:
        return f"the job ended with exit code {code} before its first step"
    if "torch" in stages and options.step_mark is not None:
        return (
            f"nothing named {options.step_mark!r} ended a step: no function of the script "
            "(module:function elsewhere), no record_function and no NVTX range"
        )
    if "torch" in stages:
        return (
            "no step of an optimizer was seen; name what ends a step with --step-mark, or call "
            "ddptrace_capture.step() at its end"
        )
    if "python" in stages:
        return "no process of the command imported torch"
    return (
        "no Python process of the command loaded the recorder: it comes by PYTHONPATH, which "
        "python -I, -E and -S and some launchers leave out"
    )


def _why_no_rank(
    options: Options, records: Sequence[Mapping[str, Any]], code: int, nsys_problem: str | None
) -> str:
    chosen = [record for record in records if record["status"] != "not_chosen"]
    if not chosen:
        return f"no rank of the job is among --ranks {options.ranks}"
    # A recorder that failed knows best, then a rank whose job ended with an error.
    chosen.sort(key=lambda record: (record["status"] != "failed", record["problem"] is None))
    problem = manifest.problem(chosen[0], Path(options.output), code)
    if chosen[0]["status"] == "failed":
        return str(problem)
    if nsys_problem or code:
        return nsys_problem or f"rank {chosen[0]['rank']['rank']}: {problem}"
    return _too_short(options, chosen)


def _too_short(options: Options, records: Sequence[Mapping[str, Any]]) -> str:
    seen = max(record["steps_seen"] for record in records)
    first = max(record["first_recorded"] for record in records)
    if seen > first:
        return str(records[0]["problem"] or "the job ended while it was being recorded")
    what = "timing" if options.profiler == "none" else "the recording"
    warmup = max(min(options.warmup, seen // 3), 1)
    timed = max(min(options.timed, (seen - warmup - 2) // 2), 0)
    advice = f"; try --warmup {warmup} --timed {timed}" if seen - warmup - timed > 1 else ""
    return f"the job made {_steps(seen)}, and {what} would have begun after {first}{advice}"
