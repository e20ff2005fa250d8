"""Collects decoded events as numpy columns: compact while reading, plain arrays at the end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import compress
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ddptrace.kernels import ANNOTATION_CATEGORIES, OPERATOR_CATEGORIES, STACK_CATEGORY
from ddptrace.sources.events import (
    DECODER,
    NO_ARGS,
    TEXT_DECODER,
    Metadata,
    Span,
    TextSpan,
    texts,
)
from ddptrace.sources.stamps import TextNeededError, to_ns

_DROPPED_CATEGORIES = frozenset({STACK_CATEGORY, "gpu_user_annotation", "Trace", "overhead"})
_HOST_CATEGORIES = OPERATOR_CATEGORIES | ANNOTATION_CATEGORIES


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

    def where(self, chosen: Iterable[object]) -> NDArray[np.bool_]:
        """Return for each code whether its value is among the chosen ones."""
        wanted = frozenset(chosen)
        return np.array([value in wanted for value in self], np.bool_)


class Ids:
    """Process and thread ids as int64: numbers as they are, other text as a number of its own."""

    _FIRST_OF_TEXT = 1 << 62

    def __init__(self) -> None:
        self._texts = Codes()

    def of(self, values: Sequence[object]) -> NDArray[np.int64]:
        """Return the ids of values, one each."""
        try:
            return np.fromiter(values, np.int64, len(values))
        except (TypeError, ValueError, OverflowError):
            return np.array([self.one(value) for value in values], np.int64)

    def one(self, value: object) -> int:
        """Return the id of one value."""
        try:
            number = int(value)  # type: ignore[call-overload]  # whatever the file holds
        except (TypeError, ValueError):
            number = self._FIRST_OF_TEXT
        if abs(number) < self._FIRST_OF_TEXT:
            return int(number)
        self._texts.setdefault(value, len(self._texts))
        return self._FIRST_OF_TEXT + self._texts[value]

    def text(self, number: int) -> str:
        """Return what the file wrote for an id."""
        if number < self._FIRST_OF_TEXT:
            return str(number)
        return str(list(self._texts)[number - self._FIRST_OF_TEXT])


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Complete events, one row each; codes index the lists of `Columns`.

    Times are ns as the file counts them; `dur_ns` may be negative and both may be NEVER_NS. The
    category of an event without one is its process, as the oldest profiler wrote it.
    """

    start_ns: NDArray[np.int64]
    dur_ns: NDArray[np.int64]
    category: NDArray[np.int32]
    name: NDArray[np.int32]
    process: NDArray[np.int64]
    thread: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Work(Spans):
    """Calls or GPU operations: spans with what their arguments say; a correlation of 0 is none."""

    correlation: NDArray[np.int64]
    stream: NDArray[np.int32]
    device: NDArray[np.int32]
    collective: NDArray[np.int32]
    graph_node: NDArray[np.bool_]


_INT64 = ("start_ns", "dur_ns", "process", "thread", "correlation")
_DTYPES = dict.fromkeys(_INT64, np.int64) | {"graph_node": np.bool_}
Columned = TypeVar("Columned", Spans, Work)


def take(table: Columned, rows: NDArray[Any]) -> Columned:
    """Return the rows of a table that a mask or an index array selects."""
    return type(table)(*(getattr(table, column.name)[rows] for column in fields(table)))


class Columns:
    """The events of one file. `category`, `name`, … map values to their codes in the tables."""

    def __init__(self) -> None:
        self.category = Codes()
        self.name = Codes()
        self.process = Ids()
        self.thread = Ids()
        self.stream = Codes()
        self.device = Codes()
        self.collective = Codes()
        self.process_names: dict[object, list[str]] = {}
        self.thread_names: dict[object, list[str]] = {}
        self.stack_events = 0
        self._pieces: dict[str, list[NDArray[Any]]] = {column.name: [] for column in fields(Work)}
        self._decoder = DECODER
        self._span_type: type[Span] | type[TextSpan] = Span

    def add(self, block: bytes | memoryview) -> None:
        """Add the events of a JSON array; msgspec.MsgspecError leaves everything as it was."""
        events = self._decoder.decode(block)
        try:
            self._add(events)
        except TextNeededError:
            # From here on every number of this file is read as text: slower, and exact.
            self._decoder, self._span_type = TEXT_DECODER, TextSpan
            self._add(self._decoder.decode(block))

    def _add(self, events: Sequence[Any]) -> None:
        span_type = self._span_type
        spans = [event for event in events if type(event) is span_type]
        category = self._categories(spans)
        dropped = self.category.where(_DROPPED_CATEGORIES)[category]
        if dropped.any():
            stacks = self.category.where({STACK_CATEGORY})[category]
            self.stack_events += int(stacks.sum())
            spans = list(compress(spans, ~dropped))
            category = category[~dropped]
        columns = self._common(spans, category)
        is_work = ~self.category.where(_HOST_CATEGORIES)[category]
        columns |= self._details([span.args or NO_ARGS for span in compress(spans, is_work)])
        for name, column in columns.items():
            self._pieces[name].append(column)
        for event in [event for event in events if type(event) is Metadata]:
            self._add_metadata(event)

    def _categories(self, spans: Sequence[Any]) -> NDArray[np.int32]:
        category = self.category.of([span.cat for span in spans])
        if None in self.category:
            return self.category.of([span.cat or span.pid for span in spans])
        return category

    def _common(self, spans: Sequence[Any], category: NDArray[np.int32]) -> dict[str, NDArray[Any]]:
        stamps = [span.ts for span in spans]
        lengths = [span.dur for span in spans]
        if self._decoder is TEXT_DECODER:
            stamps, lengths = texts(stamps), texts(lengths)
        return {
            "start_ns": to_ns(stamps),
            "dur_ns": to_ns(lengths),
            "category": category,
            "name": self.name.of([span.name for span in spans]),
            "process": self.process.of([span.pid for span in spans]),
            "thread": self.thread.of([span.tid for span in spans]),
        }

    def _details(self, args: Sequence[Any]) -> dict[str, NDArray[Any]]:
        return {
            "correlation": _identifiers([arg.correlation for arg in args]),
            "stream": self.stream.of([arg.stream for arg in args]),
            "device": self.device.of([arg.device for arg in args]),
            "collective": self.collective.of([arg.collective for arg in args]),
            "graph_node": np.array([bool(arg.graph_node) for arg in args], np.bool_),
        }

    def _add_metadata(self, event: Metadata) -> None:
        if event.args is None:
            return
        if event.name in ("process_name", "process_labels"):
            label = event.args.name if event.args.labels is None else event.args.labels
            self.process_names.setdefault(event.pid, []).append(str(label))
        elif event.name == "thread_name":
            self.thread_names.setdefault(event.tid, []).append(str(event.args.name))

    def finish(self) -> tuple[Spans, Work]:
        """Return the host's spans and the work of the whole file; the pieces are given up."""
        # One column at a time, so that no more than one is held twice.
        whole = {name: self._joined(name) for name in list(self._pieces)}
        is_host = self.category.where(_HOST_CATEGORIES)[whole["category"]]
        common = [column.name for column in fields(Spans)]
        host = Spans(*(whole[name][is_host] for name in common))
        for name in common:
            whole[name] = whole[name][~is_host]
        return host, Work(**whole)

    def _joined(self, name: str) -> NDArray[Any]:
        pieces = self._pieces.pop(name)
        return np.concatenate(pieces) if pieces else np.empty(0, _DTYPES.get(name, np.int32))


def _identifiers(values: Sequence[object]) -> NDArray[np.int64]:
    """Return correlation ids as integers, 0 (which CUPTI never gives) where there is none."""
    try:
        return np.array(values, np.int64)
    except (TypeError, ValueError, OverflowError):
        return np.array([_identifier(value) for value in values], np.int64)


def _identifier(value: object) -> int:
    """Return one id; those beyond 63 bits keep their lower ones, which still tell them apart."""
    try:
        number = int(str(value), 0)
    except ValueError:
        number = _whole(value)
    return number % (1 << 63) if number > 0 else 0


def _whole(value: object) -> int:
    try:
        return int(float(str(value)))
    except (ValueError, OverflowError):
        return 0
