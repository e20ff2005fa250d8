"""Why nsys recorded nothing: each known failure in one sentence that says what to do."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from ddptrace_capture import machine, nsys

PERMISSION = (
    "the driver keeps the GPU's events from this user: run as root, start the container with "
    "--cap-add=SYS_ADMIN, or have the administrator load the driver with "
    "NVreg_RestrictProfilingToAdminUsers=0 (developer.nvidia.com/ERR_NVGPUCTRPERM)"
)
_REFUSED = re.compile(
    r"INSUFFICIENT_PRIVILEGES|NVGPUCTRPERM|insufficient privileges"
    r"|does not have permission to access NVIDIA GPU Performance Counters",
    re.IGNORECASE,
)
_DRIVER_TOO_OLD = re.compile(r"CUDA driver version .{0,20}is no longer supported")
_DRIVER_TOO_NEW = re.compile(
    r"CUDA driver version.{0,20} is not supported|Incompatible CUDA driver version"
    r"|use (a )?more recent profiler version"
)
_TAKEN = re.compile(r"MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED|to allow another client to subscribe")
_CUPTI_ERROR = re.compile(r"CUPTI_ERROR_\w+")
_ELSEWHERE = re.compile(r"Generated:\s+(/\S.*\.nsys-rep)")


def why_no_report(
    program: Path, output: Path, *, range_reached: bool, said: str = ""
) -> str | None:
    """Return why nsys left no report; None when there is one.

    `output` is the report without its suffix, as `profile_command` takes it, `range_reached`
    whether any rank came to the steps to record, and `said` what nsys printed, if that is known.
    """
    report = output.with_name(f"{output.name}.nsys-rep")
    collected = output.with_name(f"{output.name}.qdstrm")
    if report.is_file() and report.stat().st_size:
        return None
    if report.is_file():
        return (
            f"the report {report.name} is empty: there was no room on the disk, or nsys was killed"
        )
    if collected.is_file():
        return _not_imported(program, collected)
    if found := _ELSEWHERE.search(said):
        return f"nsys could not write to {output.parent} and left its report in {found[1]}"
    if not range_reached:
        return (
            "nsys made no report, since the steps to record were never reached: the job ended "
            "before them; record earlier ones with a shorter --warmup and --timed"
        )
    return (
        f"nsys made no report, though the steps to record were reached: "
        f"{_cause(program, [said]) or 'it was killed, or was not within reach of the process'}"
    )


def _not_imported(program: Path, collected: Path) -> str:
    missing = nsys.missing_libraries(program)
    importer = nsys.importer(program)
    again = f"; then {importer} --input-file {collected}" if importer else ""
    if missing:
        return f"only {collected.name} is left: {nsys.libraries_sentence(program, missing)}{again}"
    lacking = "the QdstrmImporter of Nsight Systems is not beside it (its host folder)"
    return (
        f"only {collected.name} is left, since {program} could not make a report of it: "
        f"{f'its importer failed{again}' if importer else lacking}"
    )


def why_no_kernels(program: Path, sqlite: Path) -> str | None:
    """Return why an exported report holds no kernel; None when it does hold some."""
    try:
        with closing(sqlite3.connect(f"{sqlite.absolute().as_uri()}?mode=ro", uri=True)) as opened:
            if _has_rows(opened, "CUPTI_ACTIVITY_KIND%KERNEL%"):
                return None
            texts = list(_texts(opened))
            is_empty = not any(_has_rows(opened, each) for each in ("CUPTI_ACT%", "NVTX_EVENTS"))
    except sqlite3.DatabaseError as error:
        return f"{sqlite.name} cannot be read: {error}"
    if cause := _cause(program, texts):
        return f"{sqlite.name} holds no kernel: {cause}"
    if is_empty:
        return (
            f"{sqlite.name} is empty: nsys saw neither CUDA nor NVTX in the steps to record; the "
            f"process that trains was not its child, or the machine has no GPU"
        )
    return f"{sqlite.name} holds no kernel: the program ran none in the steps to record"


def _cause(program: Path, texts: list[str]) -> str | None:
    """Return the failure that nsys's own messages tell of, or that the driver's version does."""
    said = "\n".join(texts)
    if _REFUSED.search(said):
        return PERMISSION
    if _DRIVER_TOO_OLD.search(said):
        return f"the driver is too old for {_named(program)}: update it, or take an older nsys"
    if _DRIVER_TOO_NEW.search(said) or _is_generations_apart(program):
        return older_than_driver(program)
    if _TAKEN.search(said):
        return (
            "another profiler has CUPTI in this process: switch off torch.profiler in the script, "
            "or DCGM's profiling on the machine"
        )
    if error := _CUPTI_ERROR.search(said):
        return f"CUPTI said {error[0]}"
    return None


def is_older_than_driver(program: Path) -> bool:
    """Tell whether an nsys has no CUPTI for the CUDA of this machine's driver."""
    known, served = nsys.newest_cuda(program), machine.driver_cuda()
    return known is not None and served is not None and known < served


def _is_generations_apart(program: Path) -> bool:
    # Within one generation, such as CUDA 12, an older CUPTI does record.
    known, served = nsys.newest_cuda(program), machine.driver_cuda()
    return known is not None and served is not None and known[0] < served[0]


def older_than_driver(program: Path) -> str:
    """Return what to do about an nsys that is older than the driver."""
    known, served = nsys.newest_cuda(program), machine.driver_cuda()
    up_to = f", which knows CUDA up to {'.'.join(map(str, known))}" if known else ""
    serves = f" for CUDA {'.'.join(map(str, served))}" if served else ""
    return (
        f"the driver{serves} is newer than {_named(program)}{up_to}: install a newer Nsight "
        f"Systems, or name one with --nsys PATH"
    )


def _named(program: Path) -> str:
    return f"nsys {nsys.version(program) or program}"


def _has_rows(database: sqlite3.Connection, pattern: str) -> bool:
    names = database.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE ?", (pattern,)
    ).fetchall()
    return any(database.execute(f'SELECT 1 FROM "{name}" LIMIT 1').fetchone() for (name,) in names)


def _texts(database: sqlite3.Connection) -> Iterator[str]:
    """Yield nsys's own messages: a table of newer versions, among all strings in older ones."""
    for query in ("SELECT text FROM DIAGNOSTIC_EVENT", "SELECT value FROM StringIds"):
        with suppress(sqlite3.OperationalError):
            yield from (str(text) for (text,) in database.execute(query))
