"""Runs the user's command under the recorder, and gathers what its ranks recorded."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from ddptrace_capture import child, manifest, nsys_job, output_folder, rank_record
from ddptrace_capture.errors import CaptureError
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
    _say("two runs one after the other, since CUPTI serves one tool a process")
    folder = Path(options.output)
    first = replace(options, profiler="torch", output=str(folder / "torch"))
    second = replace(options, profiler="nsys", output=str(folder / "nsys"))
    # A job that failed or was interrupted is not run again.
    return _one_run(first, request) or _one_run(second, request)


def _scrub(paths: Sequence[str]) -> int:
    for path in paths:
        sys.stdout.write(f"{path}: {scrub(Path(path))}\n")
    return 0


def _one_run(options: Options, request: Request) -> int:
    command: Sequence[str] = request.command
    if options.profiler == "nsys":
        options, command = nsys_job.around(options, command)
    output_folder.prepare(options.output, force=request.force)
    _say(f"recording {' '.join(manifest.without_secrets(request.command))}")
    started_ns = time.time_ns()
    try:
        variables = child.environment(options, os.environ)
        code = child.run(command, variables, is_nsys=command is not request.command)
        records = rank_record.read_all(options.output)
        stages = rank_record.stages(options.output)
        problem = nsys_job.collect(options, records) if options.profiler == "nsys" else None
        if records:
            manifest.write(options, request.command, (started_ns, code), records)
    finally:
        output_folder.clear(options.output)
    return _conclude(options, records, code, problem or _why_nothing(options, records, stages))


def _conclude(
    options: Options, records: Sequence[Mapping[str, Any]], code: int, why_nothing: str
) -> int:
    folder = Path(options.output)
    recorded = [
        record
        for record in records
        if any((folder / part["file"]).is_file() for part in record["parts"])
    ]
    if not recorded:
        _say(f"nothing was recorded: {why_nothing}")
        return code or NOTHING_RECORDED
    for record in records:
        if record["problem"]:
            _say(f"rank {record['rank']['rank']}: {record['problem']}")
    _say(f"recorded {_summary(recorded)}; next: ddptrace report {options.output}")
    return code


def _summary(recorded: Sequence[Mapping[str, Any]]) -> str:
    first = recorded[0]
    parts = " and ".join(
        f"{len(part['marks'])} steps ({' and '.join(part['activities'])})"
        for part in first["parts"]
    )
    ranks = f"{len(recorded)} of {first['world_size']} ranks, {parts} each"
    if not all(record["unprofiled"] for record in recorded):
        return ranks
    plain = _typical_ms([record["unprofiled"]["step_ns"] for record in recorded])
    slowed = _typical_ms([record["parts"][0]["step_ns"] for record in recorded])
    return f"{ranks}, {plain:.2f} ms a step without the profiler and {slowed:.2f} ms with it"


def _typical_ms(step_ns: Sequence[Sequence[int]]) -> float:
    """Return the median over steps of the longest rank, as the report has it."""
    longest: list[int] = [max(ranks) for ranks in zip(*step_ns, strict=False)]
    return median(longest) / 1e6


def _why_nothing(options: Options, records: Sequence[Mapping[str, Any]], stages: set[str]) -> str:
    if records:
        return _too_short(options, records)
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


def _too_short(options: Options, records: Sequence[Mapping[str, Any]]) -> str:
    problems = [record["problem"] for record in records if record["status"] == "failed"]
    if problems:
        return str(problems[0])
    chosen = [record for record in records if record["status"] != "not_chosen"]
    if not chosen:
        return f"no rank of the job is among --ranks {options.ranks}"
    seen = max(record["steps_seen"] for record in chosen)
    first = max(record["first_recorded"] for record in chosen)
    if seen > first:
        return str(chosen[0]["problem"] or "the job ended while it was being recorded")
    warmup = max(min(options.warmup, seen // 3), 1)
    timed = max(min(options.timed, (seen - warmup - 2) // 2), 0)
    advice = f"; try --warmup {warmup} --timed {timed}" if seen - warmup - timed > 1 else ""
    return f"the job made {seen} steps, and the recording would have begun after {first}{advice}"


def _say(message: str) -> None:
    sys.stderr.write(f"ddptrace: {message}\n")
