"""nsys around a whole run: which nsys, around what, and its reports made into SQLite files."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ddptrace_capture import nsys, nsys_failures, nsys_rank, rank_record
from ddptrace_capture.errors import CaptureError, NsysError
from ddptrace_capture.options import Options
from ddptrace_capture.scrub import scrub

_JOB = "job"
_ALL_RANKS = "ranks"

Record = dict[str, Any]


def around(options: Options, command: Sequence[str]) -> tuple[Options, Sequence[str]]:
    """Return the options for the ranks and the command to start; NsysError without a usable nsys.

    A launcher's ranks each get an nsys of their own; any other command gets one around it.
    """
    found = nsys.find_nsys(options.nsys)
    missing = nsys.missing_libraries(found)
    if missing:
        raise NsysError(nsys.libraries_sentence(found, missing))
    each = nsys_rank.starts_ranks(command)
    options = replace(options, nsys=str(found), nsys_each_rank=each)
    if each:
        return options, command
    return options, nsys.profile_command(found, nsys_rank.report_of(options.output, _JOB), command)


def collect(options: Options, records: Sequence[Record]) -> str | None:
    """Make the ranks' reports into clean SQLite files; return why there is none, if so.

    A report that fails is told as the problem of its ranks. The job's one report holds all ranks:
    their records then name its file.
    """
    reached = [record for record in records if record["parts"]]
    if options.nsys_each_rank:
        problems = [_keep(options, f"rank{record['rank']['rank']}", [record]) for record in reached]
        return next((problem for problem in problems if problem), None)
    return _keep(options, _JOB, reached)


def _keep(options: Options, report: str, records: Sequence[Record]) -> str | None:
    lone = records[0]["rank"]["rank"] if len(records) == 1 else None
    name = _ALL_RANKS if lone is None else f"rank{lone}"
    try:
        _export(options, nsys_rank.report_of(options.output, report), name, bool(records))
    except CaptureError as error:
        for record in records:
            record["problem"] = str(error)
        return str(error)
    for record in records:
        record["parts"] = [part | {"file": f"{name}.sqlite"} for part in record["parts"]]
    return None


def _export(options: Options, output: Path, name: str, reached: bool) -> None:
    """Make a report into a clean SQLite file; what nsys left is kept when that fails."""
    program = Path(str(options.nsys))
    problem = nsys_failures.why_no_report(program, output, range_reached=reached)
    if problem:
        raise NsysError(problem)
    report = output.with_name(f"{output.name}.nsys-rep")
    # In the ranks' own folder, which goes away, until the environment is out of it.
    raw = rank_record.folder_of(options.output) / f"{name}.sqlite"
    nsys.export(program, report, raw)
    problem = nsys_failures.why_no_kernels(program, raw)
    if problem:
        raise NsysError(problem)
    cleaned = scrub(raw)
    if cleaned.left:
        sys.stderr.write(f"ddptrace: {name}.sqlite: {cleaned}\n")
    raw.replace(Path(options.output) / raw.name)
    if not options.keep_nsys_rep:
        report.unlink()  # so does this
