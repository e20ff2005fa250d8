"""What an Nsight Systems export says about its session, its processes and itself."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from ddptrace import kernels
from ddptrace.intervals import IntArray
from ddptrace.model import Clock
from ddptrace.sources.coding import coded
from ddptrace.sources.kineto_facts import dotted
from ddptrace.sources.nsys_ranges import RecorderMark
from ddptrace.sources.nsys_store import Store, first_table, process_id, process_of
from ddptrace.sources.nsys_tables import Tables
from ddptrace.wording import one_line

# Times that count from 1970 rather than from the session's start are past the year 2001.
_UNIX_NS = 10**18
_VARIABLE = re.compile(r"(RANK|WORLD_SIZE)=\"?(\d{1,6})\"?$")
_NOTEWORTHY = frozenset({2, 3})  # warnings and errors; 1 is information, 4 is chatter
_LARGEST_WORLD = 1_000_000

_LATEST_NS = 1 << 62  # beyond it a stamp plus an event's time is no 64-bit number


@dataclass(frozen=True, slots=True)
class Session:
    """What holds for all processes of a report; None where the report does not tell.

    `variables` are those of the launched command: of one rank only where nsys was started a rank.
    `gpus` has the name of each GPU by its number, `gpu_ids` what tells it from all others in the
    world, `gpu_of` its number by process id and ordinal.
    """

    start_ns: int | None = None
    variables: dict[str, int] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    gpus: dict[int, str] = field(default_factory=dict)
    gpu_ids: dict[int, str] = field(default_factory=dict)
    gpu_of: dict[tuple[int, int], int] = field(default_factory=dict)

    def clock(self, tables: Tables, mark: RecorderMark) -> tuple[int, Clock]:
        """Return what to add to the file's times, and what they count from then."""
        latest_ns = int(tables.work.start_ns.max(initial=0))
        if latest_ns >= _UNIX_NS:  # exported with --ts-normalize
            return 0, "unix"
        known = (ns for ns in (self.start_ns, mark.offset_ns) if ns is not None)
        shift_ns = next(known, None)
        return (0, "relative") if shift_ns is None else (shift_ns, "unix")

    def device_name(self, process: int, device: IntArray) -> str | None:
        """Return the GPU on which most of a process's operations, on these ordinals, ran."""
        names = set(self.gpus.values())
        if len(names) == 1:
            return names.pop()
        return self.gpus.get(self._number(process, device))

    def gpu(self, process: int, device: IntArray) -> str | None:
        """Return what tells the GPU that most of a process's operations ran on from all others."""
        return self.gpu_ids.get(self._number(process, device))

    def _number(self, process: int, device: IntArray) -> int:
        distinct, place = coded(device)
        if not distinct.size:
            return -1
        usual = np.bincount(place).argmax() if distinct.size > 1 else 0
        ordinal = int(distinct[usual])
        return self.gpu_of.get((process_id(process), ordinal), -1)


def read_session(store: Store) -> Session:
    """Return what the report says about its session."""
    exported = _pairs(store, first_table(store, "META_DATA_EXPORT", "EXPORT_META_DATA"))
    captured = store.rows("META_DATA_CAPTURE", ("name", "value"))
    start = [row[0] for row in store.rows("TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",))]
    table = first_table(store, "TARGET_INFO_GPU", "TARGET_INFO_CUDA_GPU")
    gpus = store.rows(table, ("id", "name", "uuid"))
    devices = store.rows("TARGET_INFO_CUDA_DEVICE", ("pid", "cudaId", "gpuId"))
    return Session(
        start_ns=next((ns for ns in start if isinstance(ns, int) and 0 < ns < _LATEST_NS), None),
        variables=_variables([str(value) for name, value in captured if _is_variable(name)]),
        versions=_versions(exported, _pairs(store, "TARGET_INFO_SYSTEM_ENV")),
        gpus={number: one_line(name).strip() for number, name, _ in gpus if name},
        gpu_ids={number: one_line(uuid).strip() for number, _, uuid in gpus if uuid},
        gpu_of={(pid, ordinal): gpu for pid, ordinal, gpu in devices},
    )


def _pairs(store: Store, table: str) -> dict[str, str]:
    return {str(name): str(value) for name, value in store.rows(table, ("name", "value"))}


def _is_variable(name: object) -> bool:
    return str(name).endswith("ENVIRONMENT_VARIABLE")


def _variables(texts: list[str]) -> dict[str, int]:
    """Return the rank and the world size; everything else in there is nobody's business."""
    found = [match for match in map(_VARIABLE.match, texts) if match]
    return {match[1]: int(match[2]) for match in found if int(match[2]) <= _LARGEST_WORLD}


def _versions(exported: dict[str, str], system: dict[str, str]) -> dict[str, str]:
    versions = {}
    driver = system.get("CudaDriverVersion", "")
    if driver.isdecimal():
        versions["driver"] = dotted(int(driver))
    nsys = exported.get("EXPORT_PRODUCT_VERSION") or exported.get("EXPORT_PRODUCT_VERSION_FULL")
    if nsys:
        versions["nsys"] = one_line(nsys)
    return versions


def backward_threads(store: Store) -> IntArray:
    """Return the threads of the autograd engine, of all processes."""
    rows = store.rows("ThreadNames", ("globalTid", "nameId"))
    texts = store.texts({name for _, name in rows if name is not None})
    found = [
        thread
        for thread, name in rows
        if isinstance(thread, int) and kernels.is_backward_thread(texts.get(name, ""))
    ]
    return np.array(found, np.int64)


def diagnostics(store: Store) -> dict[int | None, list[str]]:
    """Return what nsys itself warned of, by process; None is the key of the rest."""
    found: dict[int | None, list[str]] = {}
    for severity, text, process in store.rows(
        "DIAGNOSTIC_EVENT", ("severity", "text", "globalPid")
    ):
        said = one_line(text or "").strip()
        mine = found.setdefault(process_of(process) if process else None, [])
        if severity in _NOTEWORTHY and said and said not in mine:
            mine.append(said)
    return found
