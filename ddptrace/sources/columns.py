"""Collects decoded events as numpy columns: compact while reading, plain arrays at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddptrace.kernels import ANNOTATION_CATEGORIES, OPERATOR_CATEGORIES, STACK_CATEGORY
from ddptrace.sources.events import DECODER, TEXT_DECODER, Metadata, Span, TextSpan, texts
from ddptrace.sources.stamps import TextNeededError, to_ns

_DROPPED_CATEGORIES = frozenset({STACK_CATEGORY, "gpu_user_annotation", "Trace", "overhead"})
_HOST_CATEGORIES = OPERATOR_CATEGORIES | ANNOTATION_CATEGORIES
_NO_WORK_CATEGORIES = _HOST_CATEGORIES | _DROPPED_CATEGORIES


class Codes(dict[Any, int]):
    """Numbers for values, in the order of first sight: `list(codes)[number]` is the value."""

    def of(self, values: Sequence[object]) -> NDArray[np.int32]:
        """Return the codes of values, one each; new values get the next numbers."""
        try:
            return np.fromiter(map(self.__getitem__, values), np.int32, len(values))
        except KeyError:
            for value in dict.fromkeys(values):
                self.setdefault(value, len(self))
            return np.fromiter(map(self.__getitem__, values), np.int32, len(values))


@dataclass(frozen=True, slots=True)
class Table:
    """Events of one sort, one row each; codes index the lists of `Columns`.

    Times are ns as the file counts them; `dur_ns` may be negative and both may be NEVER_NS. The
    category of an event without one is its process, as the oldest profiler wrote it.
    The columns from `correlation` on are empty for host ranges, which have none of these facts.
    """

    start_ns: NDArray[np.int64]
    dur_ns: NDArray[np.int64]
    category: NDArray[np.int32]
    name: NDArray[np.int32]
    process: NDArray[np.int32]
    thread: NDArray[np.int32]
    correlation: NDArray[np.int64]
    stream: NDArray[np.int32]
    device: NDArray[np.int32]
    collective: NDArray[np.int32]
    graph_node: NDArray[np.bool_]


_COLUMNS = {
    name: np.int64 if name in ("start_ns", "dur_ns", "correlation") else np.int32
    for name in Table.__dataclass_fields__
} | {"graph_node": np.bool_}


class Columns:
    """The events of one file: `host` ranges, `work` (calls and GPU operations), process names.

    `category`, `name`, `process`, `thread`, … map values to their codes in the tables.
    """

    def __init__(self) -> None:
        self.category = Codes()
        self.name = Codes()
        self.process = Codes()
        self.thread = Codes()
        self.stream = Codes()
        self.device = Codes()
        self.collective = Codes()
        self.process_names: dict[object, list[str]] = {}
        self.thread_names: dict[object, list[str]] = {}
        self.stack_events = 0
        self._host = _Growing()
        self._work = _Growing()
        self._decoder = DECODER

    def add(self, block: bytes | memoryview) -> None:
        """Add the events of a JSON array; msgspec.MsgspecError leaves everything as it was."""
        events = self._decoder.decode(block)
        try:
            self._add(events)
        except TextNeededError:
            # From here on every number of this file is read as text: slower, and exact.
            self._decoder = TEXT_DECODER
            self._add(self._decoder.decode(block))

    def _add(self, events: Sequence[Any]) -> None:
        spans = [event for event in events if type(event) is Span or type(event) is TextSpan]
        host = [span for span in spans if span.cat in _HOST_CATEGORIES]
        work = [span for span in spans if span.cat not in _NO_WORK_CATEGORIES]
        tables = self._table(host, []), self._table(work, [span.args for span in work])
        self._host.add(tables[0])
        self._work.add(tables[1])
        if len(host) + len(work) < len(spans):
            self.stack_events += sum(span.cat == STACK_CATEGORY for span in spans)
        for event in events:
            if type(event) is Metadata:
                self._add_metadata(event)

    def _table(self, spans: Sequence[Any], args: Sequence[Any]) -> Table:
        stamps = [span.ts for span in spans]
        lengths = [span.dur for span in spans]
        if self._decoder is TEXT_DECODER:
            stamps, lengths = texts(stamps), texts(lengths)
        known = [arg for arg in args if arg is not None]
        if len(known) < len(args):
            args = [_NO_ARGS if arg is None else arg for arg in args]
        return Table(
            start_ns=to_ns(stamps),
            dur_ns=to_ns(lengths),
            category=self.category.of(
                [span.pid if span.cat is None else span.cat for span in spans]
            ),
            name=self.name.of([span.name for span in spans]),
            process=self.process.of([span.pid for span in spans]),
            thread=self.thread.of([span.tid for span in spans]),
            correlation=_identifiers([arg.correlation for arg in args]),
            stream=self.stream.of([arg.stream for arg in args]),
            device=self.device.of([arg.device for arg in args]),
            collective=self.collective.of([arg.collective for arg in args]),
            graph_node=np.array([bool(arg.graph_node) for arg in args], np.bool_),
        )

    def _add_metadata(self, event: Metadata) -> None:
        if event.args is None:
            return
        if event.name in ("process_name", "process_labels"):
            label = event.args.name if event.args.labels is None else event.args.labels
            self.process_names.setdefault(event.pid, []).append(str(label))
        elif event.name == "thread_name":
            self.thread_names.setdefault(event.tid, []).append(str(event.args.name))

    def finish(self) -> tuple[Table, Table]:
        """Return the host ranges and the work of the whole file; the blocks are given up."""
        return self._host.join(), self._work.join()


def take(table: Table, rows: NDArray[Any]) -> Table:
    """Return the rows of a table that a mask or an index array selects."""
    columns = (getattr(table, name) for name in _COLUMNS)
    return Table(*(column[rows] if column.size else column for column in columns))


def stack(upper: Table, lower: Table) -> Table:
    """Return one table with the rows of both, without the columns that `upper` leaves empty."""
    pairs = ((getattr(upper, name), getattr(lower, name)) for name in _COLUMNS)
    return Table(
        *(
            above if above.size < upper.start_ns.size else np.concatenate((above, below))
            for above, below in pairs
        )
    )


class _Growing:
    """A table in pieces; joined one column at a time, so that no more than one is held twice."""

    def __init__(self) -> None:
        self._pieces: dict[str, list[NDArray[Any]]] = {name: [] for name in _COLUMNS}

    def add(self, table: Table) -> None:
        """Append the rows of a table."""
        for name, pieces in self._pieces.items():
            pieces.append(getattr(table, name))

    def join(self) -> Table:
        """Return the whole table and forget the pieces."""
        columns: list[NDArray[Any]] = []
        for name in list(self._pieces):
            pieces = self._pieces.pop(name)
            columns.append(np.concatenate(pieces) if pieces else np.empty(0, _COLUMNS[name]))
        return Table(*columns)


class _NoArgs:
    correlation = stream = device = collective = graph_node = None


_NO_ARGS = _NoArgs()


def _identifiers(values: Sequence[object]) -> NDArray[np.int64]:
    """Return correlation ids as integers, 0 (which CUPTI never gives) where there is none."""
    try:
        return np.array(values, np.int64)
    except (TypeError, ValueError, OverflowError):
        return np.array([_identifier(value) for value in values], np.int64)


def _identifier(value: object) -> int:
    try:
        number = int(str(value), 0)
    except ValueError:
        return 0
    return number if 0 < number < 1 << 62 else 0
