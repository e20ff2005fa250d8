"""Collects decoded events as numpy columns: compact while reading, plain arrays at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import compress
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from ddptrace.kernels import (
    ANNOTATION_CATEGORIES,
    GPU_CATEGORIES,
    GRADIENT_OPERATOR,
    OPERATOR_CATEGORIES,
    STACK_CATEGORY,
    is_call_category,
)
from ddptrace.sources.events import (
    KNOWN_DECODER,
    NUMBER_DECODER,
    TEXT_DECODER,
    KnownSpan,
    Metadata,
    Span,
    TextSpan,
    call_args,
    collective_args,
    gpu_args,
    texts,
)
from ddptrace.sources.gradients import GradientSpans, Sizes
from ddptrace.sources.stamps import TextNeededError, to_ns
from ddptrace.sources.told import NOTHING_TOLD, number, told_by

_NAMES_KEPT = 100
UNREADABLE = -1  # a correlation that is there and is no number
_OTHER, _HOST, _CALL, _GPU = range(4)


def _sort(category: object) -> int:
    """Return what events of a category are; only the sorts above _OTHER are kept."""
    word = str(category).lower()
    if word in OPERATOR_CATEGORIES or word in ANNOTATION_CATEGORIES:
        return _HOST
    if is_call_category(word):
        return _CALL
    return _GPU if word in GPU_CATEGORIES else _OTHER


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
class Calls(Spans):
    """Calls of the GPU's runtime or driver; a correlation of 0 is none."""

    correlation: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class GpuSpans(Calls):
    """GPU operations, with what their arguments say."""

    stream: NDArray[np.int32]
    device: NDArray[np.int32]
    told: NDArray[np.int32]
    sequence: NDArray[np.int64]
    graph_node: NDArray[np.bool_]


Columned = TypeVar("Columned", Spans, Calls, GpuSpans)


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
        # What the metadata of a collective says; the first of them says nothing.
        self.told = Codes({NOTHING_TOLD: 0})
        self.process_names: dict[object, list[str]] = {}
        self.thread_names: dict[object, list[str]] = {}
        self.stack_events = 0
        self._sizes = Sizes()
        # Of the first dropped spans only: they tell whose trace a foreign one is.
        self.dropped_names: list[str] = []
        self._sort_of = np.empty(0, np.int8)
        self._pieces: dict[str, list[NDArray[Any]]] = {}
        self._decoder = KNOWN_DECODER
        self._span_type: type = KnownSpan

    @property
    def has_work(self) -> bool:
        """Whether there was any event of a category that PyTorch's profiler writes."""
        return bool((self._sort_of != _OTHER).any())

    def add(self, block: bytes | memoryview) -> None:
        """Add the events of a JSON array; msgspec.MsgspecError leaves everything as it was."""
        try:
            self._add(self._decoder.decode(block), self._span_type)
        except msgspec.ValidationError:
            if self._span_type is not KnownSpan:
                raise
            # An unheard-of category, or odd types: this decoder takes more, and longer.
            self._decoder, self._span_type = NUMBER_DECODER, Span
            self.add(block)
        except TextNeededError:
            # From here on every number of this file is read as text: slower, and exact.
            self._decoder, self._span_type = TEXT_DECODER, TextSpan
            self.add(block)

    def _add(self, events: Sequence[Any], span_type: type) -> None:
        spans: list[Any] = [event for event in events if type(event) is span_type]
        category = self._categories(spans)
        sort = self._sort_of[category]
        arguments = self._arguments(spans, sort)  # which may fail: before anything is added
        kept = sort != _OTHER
        if not kept.all():
            stacks = self.category.get(STACK_CATEGORY, -1)
            self.stack_events += int((category == stacks).sum())
            if len(self.dropped_names) < _NAMES_KEPT:
                self.dropped_names += [str(span.name) for span in compress(spans, ~kept)]
            spans, category, sort = list(compress(spans, kept)), category[kept], sort[kept]
        columns = self._common(spans, category) | {"sort": sort} | arguments
        self._add_gradients(spans, columns)
        for name, column in columns.items():
            self._pieces.setdefault(name, []).append(column)
        if Metadata in set(map(type, events)):
            for event in [event for event in events if type(event) is Metadata]:
                self._add_metadata(event)

    def _add_gradients(self, spans: Sequence[Any], columns: dict[str, NDArray[Any]]) -> None:
        code = self.name.get(GRADIENT_OPERATOR)
        if code is None:
            return
        rows = np.flatnonzero((columns["name"] == code) & (columns["sort"] == _HOST))
        if rows.size:
            where = (columns[name][rows] for name in ("start_ns", "process", "thread"))
            self._sizes.add([spans[row] for row in rows.tolist()], *where)

    def gradients(self) -> GradientSpans | None:
        """Return the gradients whose sizes the file tells; None when it tells none."""
        return self._sizes.table()

    def _categories(self, spans: Sequence[Any]) -> NDArray[np.int32]:
        category = self.category.of([span.cat for span in spans])
        if None in self.category:
            category = self.category.of(
                [span.pid if span.cat is None else span.cat for span in spans]
            )
        if len(self.category) > self._sort_of.size:
            self._sort_of = np.array([_sort(value) for value in self.category], np.int8)
        return category

    def _common(self, spans: Sequence[Any], category: NDArray[np.int32]) -> dict[str, NDArray[Any]]:
        stamps = [span.ts for span in spans]
        lengths = [span.dur for span in spans]
        if self._span_type is TextSpan:
            stamps, lengths = texts(stamps), texts(lengths)
        return {
            "start_ns": to_ns(stamps),
            "dur_ns": to_ns(lengths),
            "category": category,
            "name": self.name.of([span.name for span in spans]),
            "process": self.process.of([span.pid for span in spans]),
            "thread": self.thread.of([span.tid for span in spans]),
        }

    def _arguments(self, spans: Sequence[Any], sort: NDArray[np.int8]) -> dict[str, NDArray[Any]]:
        """Return what the arguments of calls and of GPU operations say, of both in their order."""
        on_gpu = sort[sort >= _CALL] == _GPU
        calls = call_args(compress(spans, sort == _CALL))
        on_gpus = list(compress(spans, sort == _GPU))
        args = gpu_args(on_gpus)
        correlation = np.empty(on_gpu.size, np.int64)
        correlation[~on_gpu] = _identifiers([arg.correlation for arg in calls])
        correlation[on_gpu] = _identifiers([arg.correlation for arg in args])
        return {
            "correlation": correlation,
            "stream": self.stream.of([arg.stream for arg in args]),
            "device": self.device.of([arg.device for arg in args]),
            "graph_node": np.array([bool(arg.graph_node) for arg in args], np.bool_),
            **self._collectives(on_gpus, [arg.collective is not None for arg in args]),
        }

    def _collectives(
        self, spans: Sequence[Any], is_described: Sequence[bool]
    ) -> dict[str, NDArray[Any]]:
        described = np.array(is_described, np.bool_)
        told = np.zeros(len(spans), np.int32)
        sequence = np.full(len(spans), UNREADABLE, np.int64)
        if described.any():
            few = collective_args(compress(spans, described))
            told[described] = self.told.of([told_by(arg) for arg in few])
            sequence[described] = [number(arg.sequence) for arg in few]
        return {"told": told, "sequence": sequence}

    def _add_metadata(self, event: Metadata) -> None:
        if event.args is None:
            return
        if event.name in ("process_name", "process_labels"):
            label = event.args.name if event.args.labels is None else event.args.labels
            self.process_names.setdefault(event.pid, []).append(str(label))
        elif event.name == "thread_name":
            self.thread_names.setdefault(event.tid, []).append(str(event.args.name))

    def finish(self) -> tuple[Spans, Calls, GpuSpans]:
        """Return the host's spans, the calls and the GPU's work; the pieces are given up."""
        if not self._pieces:
            self._add([], self._span_type)
        sort = np.concatenate(self._pieces.pop("sort"))
        rows = {Spans: sort == _HOST, Calls: sort == _CALL, GpuSpans: sort == _GPU}
        columns: dict[type, dict[str, NDArray[Any]]] = {table: {} for table in rows}
        # One column at a time, so that no more than one is held twice.
        for column in fields(Spans):
            whole = np.concatenate(self._pieces.pop(column.name))
            for table, mine in rows.items():
                columns[table][column.name] = whole[mine]
        correlation = np.concatenate(self._pieces.pop("correlation"))
        by_work = sort[sort >= _CALL]
        columns[Calls]["correlation"] = correlation[by_work == _CALL]
        columns[GpuSpans]["correlation"] = correlation[by_work == _GPU]
        for name, pieces in self._pieces.items():
            columns[GpuSpans][name] = np.concatenate(pieces)
        self._pieces = {}
        return Spans(**columns[Spans]), Calls(**columns[Calls]), GpuSpans(**columns[GpuSpans])


def _identifiers(values: Sequence[object]) -> NDArray[np.int64]:
    """Return correlation ids as integers, 0 (which CUPTI never gives) where there is none."""
    try:
        return np.fromiter(values, np.int64, len(values))
    except (TypeError, ValueError, OverflowError):
        return np.array([_identifier(value) for value in values], np.int64)


def _identifier(value: object) -> int:
    """Return one id: 0 for none, UNREADABLE for what is no number.

    Ids beyond 63 bits keep their lower ones, which still tell them apart.
    """
    if value is None:
        return 0
    try:
        number = int(str(value), 0)
    except ValueError:
        number = _whole(value)
    return number % (1 << 63) if number >= 0 else UNREADABLE


def _whole(value: object) -> int:
    try:
        return int(float(str(value)))
    except (ValueError, OverflowError):
        return UNREADABLE
