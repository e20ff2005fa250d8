"""Small exports of Nsight Systems stated in code, table by table; times are in µs."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

MACHINE = 1 << 48
SESSION_NS = 1_700_000_000_000_000_000
PUSH_POP, START_END, MARK, DOMAIN = 59, 60, 34, 75
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)"

_PLACE = "start end deviceId contextId greenContextId streamId correlationId globalPid"
COLUMNS = {
    "StringIds": "id value",
    "CUPTI_ACTIVITY_KIND_KERNEL": f"{_PLACE} demangledName shortName mangledName gridX graphNodeId",
    "CUPTI_ACTIVITY_KIND_MEMCPY": f"{_PLACE} bytes copyKind srcKind dstKind graphNodeId",
    "CUPTI_ACTIVITY_KIND_MEMSET": f"{_PLACE} value bytes graphNodeId memKind",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": f"{_PLACE} graphId graphExecId",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": f"{_PLACE} syncType eventId",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start end eventClass globalTid correlationId nameId "
    "returnValue",
    "NVTX_EVENTS": "start end eventType rangeId text globalTid endGlobalTid textId domainId "
    "jsonTextId jsonText binaryData",
    "NVTX_PAYLOAD_SCHEMA_ENTRIES": "domainId schemaId idx type name offset",
    "ThreadNames": "nameId priority globalTid",
    "PROCESSES": "globalPid pid name",
    "DIAGNOSTIC_EVENT": "timestamp timestampType source severity text globalPid",
    "META_DATA_CAPTURE": "name value",
    "META_DATA_EXPORT": "name value",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs utcTime localTime",
    "TARGET_INFO_SYSTEM_ENV": "globalVid devStateName name nameEnum value",
    "TARGET_INFO_CUDA_DEVICE": "gpuId cudaId pid",
    "TARGET_INFO_GPU": "vmId id name",
}
_TEXTS = frozenset({"value", "text", "name", "jsonText", "utcTime", "localTime", "devStateName"})
_NUMBER_OF = {"CUPTI_ACTIVITY_KIND_MEMSET": "value"}  # a column that elsewhere is a text


class Nsys:
    """Builds the export of one report, row by row; times are in µs since the session's start.

    Rows go to the process that was named last (`process`), which the first one is by itself.
    """

    def __init__(self, *, pid=4100, session_ns=SESSION_NS) -> None:
        self.tables: dict[str, list[dict[str, Any]]] = {name: [] for name in COLUMNS}
        self._strings: dict[str, int] = {}
        self.correlation: dict[int, int] = {}
        if session_ns is not None:
            self.row("TARGET_INFO_SESSION_START_TIME", utcEpochNs=session_ns)
        self.row("META_DATA_EXPORT", name="EXPORT_PRODUCT_VERSION", value="2025.3.2.0")
        self.process(pid)

    def process(self, pid) -> Nsys:
        """Let what follows be of this process."""
        self.pid = pid
        self.global_pid = MACHINE + (pid << 24)
        self.thread = self.global_pid + pid
        return self

    def string(self, text) -> int:
        """Return the id of a string, which is added when it is new."""
        if text not in self._strings:
            self._strings[text] = len(self._strings) + 1
            self.row("StringIds", id=self._strings[text], value=text)
        return self._strings[text]

    def row(self, table, **values) -> Nsys:
        """Add a row to a table as it stands."""
        self.tables[table].append(values)
        return self

    def step(self, number, start, end) -> Nsys:
        """Add the range of a step, as our recorder names it."""
        return self.range(f"ProfilerStep#{number}", start, end)

    def range(self, name, start, end, *, registered=False, thread=None, **values) -> Nsys:
        """Add an NVTX range, its name as text or (registered) as a string's id."""
        named = {"textId": self.string(name)} if registered else {"text": name}
        values = {"eventType": PUSH_POP, "domainId": 0} | values
        return self.row(
            "NVTX_EVENTS",
            start=ns(start),
            end=None if end is None else ns(end),
            globalTid=self.thread if thread is None else thread,
            **named | values,
        )

    def recorder(self, rank, world_size=2, at=0, utc_ns=SESSION_NS) -> Nsys:
        """Add the mark that our own recorder makes at the start."""
        name = f"ddptrace rank={rank} world_size={world_size} local_rank={rank} host=h"
        return self.range(f"{name} utc_ns={utc_ns}", at, at)

    def call(self, name, start, end, *, correlation=None, thread=None) -> Nsys:
        """Add a call of the runtime."""
        return self.row(
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            start=ns(start),
            end=ns(end),
            eventClass=0,
            globalTid=self.thread if thread is None else thread,
            correlationId=correlation,
            nameId=self.string(name),
            returnValue=0,
        )

    def launch(self, at, *, name="cudaLaunchKernel_v7000", thread=None) -> int:
        """Add a call with a correlation id of its own, and return that."""
        self.correlation[self.pid] = self.correlation.get(self.pid, 500) + 1
        number = self.correlation[self.pid]
        self.call(name, at, at + 2, correlation=number, thread=thread)
        return number

    def gpu(
        self, start, end, *, name="gemm", cat="kernel", launch=None, stream=7, thread=None, **more
    ) -> Nsys:
        """Add a GPU operation and the call that launched it (5 µs before, or at `launch`)."""
        correlation = self.launch(start - 5 if launch is None else launch, thread=thread)
        place = {
            "start": ns(start),
            "end": ns(end),
            "deviceId": 0,
            "contextId": 1,
            "streamId": stream,
            "correlationId": correlation,
            "globalPid": self.global_pid,
        }
        if cat == "gpu_memcpy":
            about = {"bytes": 8, "copyKind": 1, "srcKind": 1, "dstKind": 2}
            return self.row("CUPTI_ACTIVITY_KIND_MEMCPY", **place | about | more)
        if cat == "gpu_memset":
            about = {"bytes": 8, "value": 0, "memKind": 2}
            return self.row("CUPTI_ACTIVITY_KIND_MEMSET", **place | about | more)
        about = {"demangledName": self.string(name), "shortName": self.string(name[:4])}
        return self.row("CUPTI_ACTIVITY_KIND_KERNEL", **place | about | {"gridX": 1} | more)

    def comm(self, start, end, **options) -> Nsys:
        """Add an all-reduce kernel on a stream of its own."""
        return self.gpu(start, end, **{"name": ALL_REDUCE, "stream": 28} | options)

    def name_thread(self, thread, name) -> Nsys:
        """Give a thread the name that the operating system shows."""
        return self.row("ThreadNames", nameId=self.string(name), priority=20, globalTid=thread)

    def noted(self, severity, text, **of) -> Nsys:
        """Add something that nsys itself noted about a process."""
        about = {"globalPid": self.global_pid} | of
        return self.row("DIAGNOSTIC_EVENT", severity=severity, text=text, source=3, **about)

    def write(self, path: Path, *, without=(), change: Callable[..., Any] | None = None) -> Path:
        """Write the tables that have rows; `change` gets the connection before it is closed."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as connection:
            for table, rows in self.tables.items():
                if table not in without and (rows or table == "StringIds"):
                    _fill(connection, table, rows)
            if change:
                change(connection)
            connection.commit()
        return path


def ns(us) -> int:
    return round(us * 1000)


def _fill(connection, table, rows) -> None:
    columns = COLUMNS[table].split()
    types = [_type(table, column) for column in columns]
    declared = ", ".join(f'"{name}" {kind}' for name, kind in zip(columns, types, strict=True))
    connection.execute(f"CREATE TABLE {table} ({declared})")
    connection.executemany(
        f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})",
        [[row.get(column) for column in columns] for row in rows],
    )


def _type(table, column) -> str:
    if table == "StringIds" and column == "id":
        return "INTEGER NOT NULL PRIMARY KEY"
    if column == "binaryData":
        return "BLOB"
    return "TEXT" if column in _TEXTS and _NUMBER_OF.get(table) != column else "INTEGER"


def plain(rank=0, *, nsys=None, pid=None) -> Nsys:
    """State a rank whose step 5 lasts 860 µs: compute 640, comm 310, hidden 210, tail 100.

    compute  ####.####.####......##      [100,300) [300,500) [500,700) [820,860)
    comm     ........####.###           [450,600) [640,800)
    """
    pid = 4100 + rank if pid is None else pid
    nsys = Nsys(pid=pid) if nsys is None else nsys.process(pid)
    nsys.step(5, 0, 1000)
    for start, end in ((100, 300), (300, 500), (500, 700), (820, 860)):
        nsys.gpu(start, end)
    return nsys.comm(450, 600).comm(640, 800)


def two_ranks(**options) -> Nsys:
    """State one report around two ranks, whose ids are all the same."""
    nsys = Nsys(pid=4100, **options)
    return plain(1, nsys=plain(0, nsys=nsys))
