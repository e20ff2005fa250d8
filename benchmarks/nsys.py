"""Measure how fast and small ddptrace reads a large export of Nsight Systems."""

from __future__ import annotations

import argparse
import os
import platform
import random
import sqlite3
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from run import Row, interleaved, less, measure, python, report, say, table_of

MOST_CPU_S = 5.0
MOST_MB = 700
MACHINE_PROCESS = (1 << 48) + (4100 << 24)
MAIN_THREAD = MACHINE_PROCESS + 4100
ENGINE_THREAD = MACHINE_PROCESS + 4190
KERNEL_NAMES = 300
KERNELS_A_STEP = 10_000
PHASE = 1_000  # kernels of a forward or of a backward pass, each of its own thread
COMM_EVERY = 50

LOAD = "import sys, ddptrace; run = ddptrace.load_run(sys.argv[1], jobs=1)"
ANALYZE = f"{LOAD}; report = ddptrace.analyze(run)"
IMPORT = "from ddptrace import load_run, analyze"
ROW_BY_ROW = """
import sqlite3, sys, numpy as np
connection = sqlite3.connect(sys.argv[1])
for query in (
    "SELECT start, end, deviceId, streamId, correlationId, globalPid, demangledName,"
    " ifnull(graphNodeId, 0) FROM CUPTI_ACTIVITY_KIND_KERNEL",
    "SELECT start, end, globalTid, correlationId, nameId FROM CUPTI_ACTIVITY_KIND_RUNTIME",
):
    columns = np.array(connection.execute(query).fetchall(), np.int64)
strings = dict(connection.execute("SELECT id, value FROM StringIds"))
"""

KERNEL_COLUMNS = (
    "start end deviceId contextId greenContextId streamId correlationId globalPid demangledName"
    " shortName mangledName launchType cacheConfig registersPerThread gridX gridY gridZ blockX"
    " blockY blockZ staticSharedMemory dynamicSharedMemory localMemoryPerThread localMemoryTotal"
    " gridId sharedMemoryExecuted graphNodeId sharedMemoryLimitConfig"
)
SCHEMA = f"""
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL ({", ".join(KERNEL_COLUMNS.split())});
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME
  (start, end, eventClass, globalTid, correlationId, nameId, returnValue, callchainId);
CREATE TABLE NVTX_EVENTS
  (start, end, eventType, rangeId, category, color, text, globalTid, endGlobalTid, textId,
   domainId);
CREATE TABLE ThreadNames (nameId, priority, globalTid);
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs, utcTime, localTime);
INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1790857026000000000, '', '');
INSERT INTO ThreadNames VALUES (2, 20, {ENGINE_THREAD});
CREATE TABLE DIAGNOSTIC_EVENT (severity, text, globalPid);
INSERT INTO DIAGNOSTIC_EVENT VALUES
  (2, 'Not all CUDA events might have been collected.', {MACHINE_PROCESS});
"""


def kernels(count: int, seed: int) -> Iterator[tuple[int | None, ...]]:
    """Give the rows of the kernels: on two streams, with gaps, each launched 40 µs ahead."""
    chance = random.Random(seed)
    at_ns = 50_000_000
    for number in range(count):
        is_comm = number % COMM_EVERY == 0
        length_ns = chance.randrange(2_000, 90_000)
        name = 10 + (0 if is_comm else 1 + chance.randrange(KERNEL_NAMES - 1))
        yield (
            *(at_ns, at_ns + length_ns, 0, 1, 0, 28 if is_comm else 7, 28_883 + 3 * number),
            *(MACHINE_PROCESS, name, name + KERNEL_NAMES, name, 1, 1, 32),
            *(chance.randrange(1, 9000), 1, 1, 256, 1, 1, 0, 0, 0, 250_871_808, 28_607 + number),
            *(32_768, None, 0),
        )
        at_ns += 1_500 + (0 if is_comm else length_ns)


def fill(connection: sqlite3.Connection, count: int, ranges: int, seed: int) -> None:
    """Write all tables: as many calls as kernels, and operators' ranges with a name each."""
    connection.executescript("PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF;" + SCHEMA)
    names = ["cudaLaunchKernel_v7000", "pt_autograd_0"]
    strings = [*enumerate(names, 1)]
    for number in range(KERNEL_NAMES):
        kind = "ncclDevKernel_AllReduce_Sum_f32_RING_LL" if not number else f"kernel_{number}"
        strings.append((10 + number, f"void {kind}<4, at::native::Functor<float, {number}>>(int)"))
        strings.append((10 + KERNEL_NAMES + number, kind))
    first = 1000
    strings += [
        (first + number, f"aten::op_{number % 97}, op_id = {number}") for number in range(ranges)
    ]
    connection.executemany("INSERT INTO StringIds VALUES (?, ?)", strings)
    marks = ", ".join("?" * len(KERNEL_COLUMNS.split()))
    connection.executemany(
        f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({marks})", kernels(count, seed)
    )
    connection.execute(
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME SELECT start - 40000, start - 37000, 0,"
        f" {MAIN_THREAD} + ((rowid / {PHASE}) % 2) * {ENGINE_THREAD - MAIN_THREAD}, correlationId,"
        " 1, 0, NULL"
        " FROM CUPTI_ACTIVITY_KIND_KERNEL"
    )
    connection.execute(
        "INSERT INTO NVTX_EVENTS SELECT start - 41000, start - 36000, 59, NULL, NULL, NULL, NULL,"
        f" {MAIN_THREAD}, NULL, {first} + rowid - 1, 0 FROM CUPTI_ACTIVITY_KIND_KERNEL"
        " WHERE rowid <= ?",
        (ranges,),
    )
    connection.execute(
        "INSERT INTO NVTX_EVENTS SELECT start - 42000, lead(start, 1, start + 2000000000)"
        " OVER (ORDER BY start) - 42000, 59, NULL, NULL, NULL,"
        f" 'step ' || (rowid / {KERNELS_A_STEP}), {MAIN_THREAD}, NULL, NULL, 0"
        f" FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE rowid % {KERNELS_A_STEP} = 1"
    )
    connection.commit()


def limit(name: str, measured: float, unit: str, most: float, beside: float | None) -> Row:
    """Hold a figure against its limit, and beside the same figure of reading row by row."""
    digits = 2 if unit == "s CPU" else 0
    return Row(
        name,
        f"{measured:.{digits}f} {unit}",
        "" if beside is None else f"row by row {beside:.{digits}f} {unit}",
        None if beside is None else measured / beside,
        f"≤ {most:g} {unit}",
        measured <= most,
    )


def rows_of(path: Path, repeats: int, *, row_by_row: bool) -> list[Row]:
    """Measure everything, in turn."""
    commands = {
        "import": python(IMPORT),
        "load": python(LOAD, path),
        "analyze": python(ANALYZE, path),
        "report": report(path),
    }
    costs = interleaved(commands, repeats)
    # Once is enough: it takes many times as long as all the rest.
    other = measure(python(ROW_BY_ROW, path)) if row_by_row else None
    beside = other and other.cpu_s, other and other.peak_mb
    reading = less(costs["load"], costs["import"])
    return [
        limit("reading alone, CPU", reading.cpu_s, "s CPU", MOST_CPU_S, beside[0]),
        limit("`load_run`, CPU", costs["load"].cpu_s, "s CPU", MOST_CPU_S, None),
        limit("`load_run` and `analyze`, CPU", costs["analyze"].cpu_s, "s CPU", MOST_CPU_S, None),
        limit("`ddptrace report`, CPU", costs["report"].cpu_s, "s CPU", MOST_CPU_S, None),
        limit("`load_run`, peak memory", costs["load"].peak_mb, "MB", MOST_MB, beside[1]),
        limit(
            "`load_run` and `analyze`, peak memory", costs["analyze"].peak_mb, "MB", MOST_MB, None
        ),
        limit("`ddptrace report`, peak memory", costs["report"].peak_mb, "MB", MOST_MB, None),
    ]


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", type=int, default=3_000_000)
    parser.add_argument("--ranges", type=int, default=1_000_000, help="NVTX ranges of operators")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--row-by-row", action="store_true", help="also read as sqlite3 does")
    parser.add_argument("--output", type=Path, help="write the table here too")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> None:
    """Print the table of one run."""
    options = parsed(arguments)
    with tempfile.TemporaryDirectory(prefix="ddptrace-benchmark-") as directory:
        path = Path(directory) / "rank0.sqlite"
        say(f"writing {options.kernels:,} kernels to {path}")
        with closing(sqlite3.connect(path)) as connection:
            fill(connection, options.kernels, options.ranges, options.seed)
        size_mb = path.stat().st_size / 1e6
        rows = rows_of(path, options.repeats, row_by_row=options.row_by_row)
    text = (
        f"{table_of(rows)}\n{options.kernels:,} kernels, as many calls and {options.ranges:,} NVTX"
        f" ranges with a string each: {size_mb:.0f} MB of SQLite. Medians of {options.repeats} runs"
        f" in fresh processes with a warm file cache; {os.cpu_count()} cores, Python"
        f" {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {platform.system()}"
        f" {platform.machine()}.\n"
    )
    print(text, end="")
    if options.output:
        options.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
