"""The large tables of an Nsight Systems export: GPU work and calls, as numpy columns."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ddptrace.intervals import IntArray
from ddptrace.kernels import Kind
from ddptrace.sources.coding import coded
from ddptrace.sources.columns import Codes
from ddptrace.sources.nsys_store import (
    CALLS,
    COPIES,
    GRAPHS,
    KERNELS,
    SETS,
    Store,
    process_of,
)
from ddptrace.sources.sqlite_pages import NULL

_TIMES = ("start", "end")
_WHERE = ("deviceId", "streamId", "correlationId", "globalPid")
_NAMES = ("demangledName", "mangledName", "shortName")
UNNAMED = "unnamed kernel"
_UNTOLD = 0xFF

# As nsys numbers them, in the words of torch.profiler.
_DIRECTIONS = {
    1: "HtoD",
    2: "DtoH",
    3: "HtoA",
    4: "AtoH",
    5: "AtoA",
    6: "AtoD",
    7: "DtoA",
    8: "DtoD",
    9: "HtoH",
    10: "PtoP",
    11: "HtoD",
    12: "DtoH",
    13: "DtoD",
}
_MEMORY = ("Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static")


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """GPU operations of all processes with usable times, one row each, in no order."""

    start_ns: IntArray
    end_ns: IntArray
    kind: NDArray[np.int8]
    name: NDArray[np.int32]
    device: IntArray
    stream: IntArray
    correlation: IntArray
    in_graph: NDArray[np.bool_]
    process: NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Calls:
    """Calls of the runtime and the driver, one row each, sorted by start.

    A correlation of NULL or 0 is none.
    """

    start_ns: IntArray
    end_ns: IntArray
    name: NDArray[np.int32]
    thread: IntArray
    correlation: IntArray
    process: NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Graphs:
    """CUDA graphs that were traced as a whole, one launch a row."""

    start_ns: IntArray
    end_ns: IntArray
    correlation: IntArray
    process: NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """What one export recorded. `processes` are the numbers that the columns `process` index.

    `names` are the texts that the columns `name` index. `dropped` counts the operations of each
    process without usable times, `unreadable` those whose times the file does not tell at all, and
    `untimed` the kernels among both. `absent` are the columns of times that the kernels lack.
    """

    work: Work
    calls: Calls
    graphs: Graphs
    processes: tuple[int, ...]
    names: Codes
    dropped: Counter[int]
    unreadable: Counter[int]
    untimed: Counter[int]
    absent: tuple[str, ...]


Table = TypeVar("Table", Work, Calls, Graphs)


def of_process(table: Table, process: int, processes: tuple[int, ...]) -> Table:
    """Return the rows of one process."""
    if len(processes) == 1:
        return table
    return take(table, np.flatnonzero(table.process == process))


def take(table: Table, rows: NDArray[Any]) -> Table:
    """Return the rows of a table that a mask or an index array selects."""
    return type(table)(*(getattr(table, column.name)[rows] for column in fields(table)))


def read_tables(store: Store) -> Tables:
    """Return the GPU work, the calls and the graphs of all processes."""
    names = Codes()
    processes = Codes()
    dropped: Counter[int] = Counter()
    unreadable: Counter[int] = Counter()
    untimed: Counter[int] = Counter()
    work = []
    for table in (KERNELS, COPIES, SETS):
        rows = _work(store, table, names, processes)
        is_unreadable = (rows.start_ns == NULL) | (rows.end_ns == NULL)
        is_unusable = is_unreadable | _without_times(rows)
        if is_unusable.any():
            unreadable.update(rows.process[is_unreadable].tolist())
            dropped.update(rows.process[is_unusable & ~is_unreadable].tolist())
            if table == KERNELS:
                untimed.update(rows.process[is_unusable].tolist())
            rows = take(rows, np.flatnonzero(~is_unusable))
        work.append(rows)
    return Tables(
        work=_joined(work),
        calls=_calls(store, names, processes),
        graphs=_graphs(store, processes),
        processes=tuple(processes),
        names=names,
        dropped=dropped,
        unreadable=unreadable,
        untimed=untimed,
        absent=tuple(one for one in _TIMES if one not in store.tables.get(KERNELS, _TIMES)),
    )


def unnamed(work: Work, names: Codes) -> int:
    """Count the kernels whose names the file does not hold."""
    is_unnamed = np.array([text == UNNAMED for text in names], np.bool_)
    if not is_unnamed.any():
        return 0
    mine = work.name[work.kind != Kind.MEM]
    return int(is_unnamed[mine].sum())


def _without_times(work: Work) -> NDArray[np.bool_]:
    """Tell which operations cannot be placed: CUPTI writes 0 for times that it does not know."""
    unknown: NDArray[np.bool_] = (work.start_ns == 0) & (work.end_ns == 0)
    return unknown | (work.end_ns < work.start_ns)


def move(tables: Tables, shift_ns: int) -> None:
    """Move all times. It changes the columns, which are too large to hold twice."""
    if shift_ns:
        for table in (tables.work, tables.calls, tables.graphs):
            table.start_ns[...] += shift_ns
            table.end_ns[...] += shift_ns


def _joined(tables: list[Work]) -> Work:
    real = [table for table in tables if table.start_ns.size] or tables[:1]
    if len(real) == 1:
        return real[0]
    columns = [column.name for column in fields(Work)]
    return Work(*(np.concatenate([getattr(table, name) for table in real]) for name in columns))


def _work(store: Store, table: str, names: Codes, processes: Codes) -> Work:
    there = store.tables.get(table, ())
    name_id = next((column for column in _NAMES if column in there), _NAMES[0])
    about = {
        KERNELS: (name_id, "graphNodeId"),
        COPIES: ("copyKind", "srcKind", "dstKind", "graphNodeId"),
        SETS: ("memKind", "graphNodeId"),
    }[table]
    found = store.integers(table, (*_TIMES, *_WHERE, *about))
    size = found["start"].size
    # Columns are let go of as soon as they are not needed: each may take a hundred MB.
    if table == KERNELS:
        name = _text_codes(store, found.pop(name_id), names, UNNAMED)
    else:
        name = _memory_codes([found.pop(column) for column in about[:-1]], names)
    node = found.pop("graphNodeId")
    return Work(
        start_ns=found.pop("start"),
        end_ns=found.pop("end"),
        kind=np.full(size, Kind.COMPUTE if table == KERNELS else Kind.MEM, np.int8),
        name=name,
        device=_known(found.pop("deviceId")),
        stream=_known(found.pop("streamId")),
        correlation=found.pop("correlationId"),
        in_graph=(node != NULL) & (node != 0),
        process=_process_codes(process_of(found.pop("globalPid")), processes),
    )


def _calls(store: Store, names: Codes, processes: Codes) -> Calls:
    """Return the calls with known times, in order of their start."""
    found = store.integers(CALLS, (*_TIMES, "globalTid", "correlationId", "nameId"))
    thread = found.pop("globalTid")
    calls = Calls(
        name=_text_codes(store, found.pop("nameId"), names, "unnamed call"),
        start_ns=found.pop("start"),
        end_ns=found.pop("end"),
        thread=thread,
        correlation=found.pop("correlationId"),
        process=_process_codes(process_of(thread), processes),
    )
    known = (calls.start_ns != NULL) & (calls.end_ns != NULL)
    if not known.all():
        calls = take(calls, np.flatnonzero(known))
    return in_order(calls)


def in_order(table: Table) -> Table:
    """Return a table sorted by start."""
    if (table.start_ns[1:] >= table.start_ns[:-1]).all():
        return table
    return take(table, np.argsort(table.start_ns, kind="stable"))


def _graphs(store: Store, processes: Codes) -> Graphs:
    found = store.integers(GRAPHS, (*_TIMES, "correlationId", "globalPid"))
    graphs = Graphs(
        start_ns=found["start"],
        end_ns=found["end"],
        correlation=found["correlationId"],
        process=_process_codes(process_of(found["globalPid"]), processes),
    )
    return take(graphs, (graphs.start_ns != NULL) & (graphs.end_ns != NULL))


def _known(numbers: IntArray) -> IntArray:
    numbers[numbers == NULL] = -1
    return numbers


def _process_codes(processes: IntArray, codes: Codes) -> NDArray[np.int32]:
    distinct, place = coded(processes)
    return codes.of(distinct.tolist())[place]


def _text_codes(store: Store, ids: IntArray, names: Codes, unnamed: str) -> NDArray[np.int32]:
    distinct, place = coded(ids)
    texts = store.texts(distinct.tolist())
    return names.of([texts.get(number) or unnamed for number in distinct.tolist()])[place]


def _memory_codes(kinds: list[IntArray], names: Codes) -> NDArray[np.int32]:
    """Return the names of copies (from their kind, source and destination) or of sets."""
    packed = np.zeros(kinds[0].size, np.int64)
    for kind in kinds:
        packed = packed << 8 | np.where(kind == NULL, _UNTOLD, kind & 0xFF)
    distinct, place = coded(packed)
    return names.of([_memory_name(number, len(kinds)) for number in distinct.tolist()])[place]


def _memory_name(packed: int, kinds: int) -> str:
    if kinds == 1:
        return f"Memset ({_memory(packed)})"
    direction = _DIRECTIONS.get(packed >> 16, "")
    where = f"({_memory(packed >> 8 & 0xFF)} -> {_memory(packed & 0xFF)})"
    return f"Memcpy {direction} {where}" if direction else f"Memcpy {where}"


def _memory(kind: int) -> str:
    return _MEMORY[kind] if kind < len(_MEMORY) else "Unknown"
