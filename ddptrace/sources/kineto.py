"""One file of Kineto or Chrome trace JSON in, the recordings in it out."""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from ddptrace.errors import ForeignFileError, TraceFileError
from ddptrace.kernels import CALL_CATEGORIES, GPU_CATEGORIES, OPERATOR_CATEGORIES
from ddptrace.sources import events, foreign
from ddptrace.sources.columns import Columns
from ddptrace.sources.discovery import shown
from ddptrace.sources.event_stream import EventStream
from ddptrace.sources.inflate import ByteSource, open_bytes
from ddptrace.sources.salvage import Salvage, SharedFileError, document, salvage

_EVENTS_KEY = re.compile(r',?\s*"traceEvents"\s*:\s*$')
_HARMLESS_CATEGORIES = frozenset({"cpu_op", "python_function", "ac2g", "fwdbwd", "Trace"})


@dataclass(slots=True)
class Reading:
    """The content of one file: its header facts, its events, and what went wrong with it.

    `cut` says in words where the text ends too early; `lost` counts unreadable events that a
    metric needs, `skipped` those that none needs, `repaired` those that were mended.
    """

    path: str
    header: dict[str, Any] = field(default_factory=dict)
    columns: Columns = field(default_factory=Columns)
    cut: str | None = None
    lost: int = 0
    skipped: int = 0
    repaired: int = 0

    @property
    def stacks(self) -> bool:
        """Whether Python stacks were recorded."""
        return bool(self.columns.stack_events) or self.header.get("with_stack") in (1, True)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Pause Python's cyclic collector: walking millions of new objects doubles the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def read_file(path: Path) -> Reading:
    """Return everything a file holds; TraceFileError or ForeignFileError when that is no trace."""
    name = shown(path)
    reading = Reading(name)
    try:
        source = open_bytes(path)
    except OSError as error:
        raise TraceFileError(name, f"cannot be opened: {error.strerror}") from error
    try:
        with _collector_paused():
            _read(source, reading)
    except SharedFileError:
        raise TraceFileError(
            name,
            "holds the headers of several traces: several ranks probably wrote to one path. "
            "Record again with the rank in every file name; `ddptrace capture` does so",
        ) from None
    except OSError as error:
        raise TraceFileError(name, f"cannot be read: {error.strerror}") from error
    finally:
        source.close()
    return reading


def _read(source: ByteSource, reading: Reading) -> None:
    stream = EventStream(source)
    if stream.header is None:
        raise foreign.without_events(reading.path, stream.rest, source.damage)
    for block in stream.blocks():
        try:
            reading.columns.add(block)
        except msgspec.MsgspecError:
            # The block's own brackets: the opening one is not text of the file, the closing one
            # lets a broken last event be told from a cut one.
            _add_salvage(reading, _salvage(bytes(block[1:]), reading))
    rest = _salvage(stream.rest, reading)
    _add_salvage(reading, rest)
    reading.header = _header(stream.header, rest.trailer or "", reading)
    bare_list = stream.header.strip(b"\xef\xbb\xbf \t\r\n") == b""
    reading.cut = _cut(stream, rest, source.damage, bare_list=bare_list)


def _salvage(text: bytes, reading: Reading) -> Salvage:
    if b"\0" in text:
        reading.repaired += 1
        text = text.replace(b"\0", b"")
    return salvage(text.decode("utf-8", "replace"))


def _add_salvage(reading: Reading, found: Salvage) -> None:
    reading.columns.add(events.encode(found.events))
    reading.repaired += found.repaired
    harmless = sum(category in _HARMLESS_CATEGORIES for category in found.lost_categories)
    reading.skipped += harmless
    reading.lost += len(found.lost_categories) - harmless


def _header(before: bytes, after: str, reading: Reading) -> dict[str, Any]:
    text = _EVENTS_KEY.sub("", before.decode("utf-8", "replace").lstrip("\ufeff"))
    if '"traceEvents"' in after or '"schemaVersion"' in after:
        raise SharedFileError
    try:
        json.loads((text.strip() or "{") + "}", strict=False)
    except json.JSONDecodeError:
        reading.repaired += 1
    return document(text) | document(after)


def _cut(stream: EventStream, rest: Salvage, damage: str | None, *, bare_list: bool) -> str | None:
    if rest.cut_at is not None:
        place = stream.rest_offset + rest.cut_at
        reason = damage or "the writer was probably stopped during export"
        return f"is cut short inside an event that starts at byte {place:,} of its JSON ({reason})"
    if damage is not None:
        return f"is cut short: {damage}"
    if rest.trailer is None and not bare_list:
        end = stream.rest_offset + len(stream.rest)
        return f"is cut short between two events, at byte {end:,} of its JSON"
    return None


def check_is_pytorch(reading: Reading) -> None:
    """Raise ForeignFileError or TraceFileError for a trace without anything of PyTorch's in it."""
    columns = reading.columns
    known = {str(category).lower() for category in columns.category}
    if known & (GPU_CATEGORIES.keys() | CALL_CATEGORIES | OPERATOR_CATEGORIES):
        return
    kind = foreign.kind_of_trace(columns)
    if kind is not None:
        raise ForeignFileError(reading.path, kind)
    if reading.cut:
        raise TraceFileError(reading.path, f"{reading.cut}; it holds no whole event")
    raise TraceFileError(
        reading.path,
        "holds no events of PyTorch's profiler: nothing was recorded, or the profiler was stopped "
        "before its first active step",
    )
