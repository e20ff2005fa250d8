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
from ddptrace.kernels import (
    ANNOTATION_CATEGORIES,
    GPU_CATEGORIES,
    is_call_category,
    mentions_step,
)
from ddptrace.sources import events, foreign
from ddptrace.sources.columns import Columns
from ddptrace.sources.event_stream import EventStream
from ddptrace.sources.inflate import ByteSource, open_bytes
from ddptrace.sources.salvage import Salvage, SharedFileError, document, salvage
from ddptrace.wording import one_line

_CATEGORY = re.compile(r'"cat"\s*:\s*"([^"]*)"')
_COMPLETE = re.compile(r'"ph"\s*:\s*"X"')
_OTHER_WRITER = re.compile(r'"traceEvents"\s*:|"ph"\s*:\s*"[A-Za-z]"')
_HEADER_KEYS = frozenset({"schemaVersion", "deviceProperties", "distributedInfo", "trace_id"})


@dataclass(slots=True)
class Reading:
    """The content of one file: its header facts, its events, and what went wrong with it.

    `cut` says in words where the text ends too early; `lost` counts unreadable events that a
    metric needs, `skipped` those that none needs, `repaired` those that were mended.
    """

    path: str
    header: dict[str, Any] = field(default_factory=dict)
    columns: Columns = field(default_factory=Columns)
    is_bare_list: bool = False
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
    name = one_line(path)
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
            "Record again with the rank in the name of every file",
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
    if foreign.is_merged(stream.header):
        raise foreign.merged(reading.path)
    trailer = _read_blocks(stream, reading)
    if trailer is None:
        rest = salvage(_text(stream.rest, reading))
        _add_salvage(reading, rest)
    else:
        rest = Salvage(trailer=trailer + _text(stream.rest, reading))
    reading.is_bare_list = not stream.header.strip(b"\xef\xbb\xbf \t\r\n")
    reading.header = _header(stream.header, rest.trailer or "", reading)
    reading.cut = _cut(stream, rest, source.damage, bare_list=reading.is_bare_list)


def _read_blocks(stream: EventStream, reading: Reading) -> str | None:
    """Read the events of all blocks; return what follows the array, if it ends in one of them."""
    trailer: str | None = None
    for block in stream.blocks():
        if trailer is not None:
            trailer += _text(block[1:-1], reading) + ","  # the stream cut at a comma
        else:
            trailer = _read_block(block, reading)
        if trailer and _OTHER_WRITER.search(trailer):
            raise SharedFileError
    return trailer


def _read_block(block: memoryview, reading: Reading) -> str | None:
    """Read the events of one block; return what follows the array, if it ends in the block."""
    try:
        reading.columns.add(block)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        # Without the opening bracket, which is not of the file; the closing one, which is not
        # either, lets a broken last event be told from a cut one.
        found = salvage(_text(block[1:], reading))
        _add_salvage(reading, found)
        return found.trailer[:-1] + "," if found.trailer else None
    return None


def _text(data: bytes | memoryview, reading: Reading) -> str:
    """Return bytes of the file as text; what cannot be text is replaced, NUL bytes go."""
    data = bytes(data)
    if b"\0" in data:
        reading.repaired += 1
        data = data.replace(b"\0", b"")
    return data.decode("utf-8", "replace")


def _add_salvage(reading: Reading, found: Salvage) -> None:
    reading.columns.add(events.encode(found.events))
    reading.repaired += found.repaired
    needed = sum(map(_is_needed, found.lost))
    reading.lost += needed
    reading.skipped += len(found.lost) - needed


def _is_needed(piece: str) -> bool:
    """Tell whether an unreadable event may be one that a figure needs: GPU work, a call, a mark."""
    category = _CATEGORY.search(piece)
    if category is None:
        return _COMPLETE.search(piece) is not None
    word = category[1].lower()
    if word in GPU_CATEGORIES or is_call_category(word):
        return True
    return word in ANNOTATION_CATEGORIES and mentions_step(piece)


def _header(before: bytes, after: str, reading: Reading) -> dict[str, Any]:
    text = before.decode("utf-8", "replace").lstrip("\ufeff")
    text = text[: text.rfind('"traceEvents"')].strip() if '"traceEvents"' in text else ""
    if _OTHER_WRITER.search(after) or ('"schemaVersion"' in after and '"schemaVersion"' in text):
        raise SharedFileError
    try:
        json.loads((text.removesuffix(",") or "{") + "}", strict=False)
    except ValueError:
        reading.repaired += 1
    return document(text) | document(after)


def _cut(stream: EventStream, rest: Salvage, damage: str | None, *, bare_list: bool) -> str | None:
    if rest.cut_at is not None:
        place = stream.rest_offset + rest.cut_at
        reason = damage or "the writer was probably stopped during export"
        return f"is cut short inside an event that starts at byte {place:,} of its JSON ({reason})"
    if damage is not None:
        return f"is cut short: {damage}"
    end = stream.rest_offset + len(stream.rest)
    if rest.trailer is None:
        return f"is cut short between two events, at byte {end:,} of its JSON"
    if not bare_list and not rest.trailer.rstrip().endswith("}"):
        return f"is cut short after its events, at byte {end:,} of its JSON"
    return None


def check_is_pytorch(reading: Reading) -> None:
    """Raise ForeignFileError or TraceFileError for a trace without anything of PyTorch's in it."""
    columns = reading.columns
    if columns.has_work:
        return
    ours = _HEADER_KEYS & reading.header.keys()
    kind = None if ours else foreign.kind_of_trace(columns)
    if kind is not None:
        raise ForeignFileError(reading.path, kind)
    if reading.cut:
        raise TraceFileError(reading.path, f"{reading.cut}; it holds no event to measure")
    if reading.is_bare_list and not columns.dropped_names:
        raise ForeignFileError(reading.path, "is a JSON list without events, so it is no trace")
    raise TraceFileError(
        reading.path,
        "holds no events of PyTorch's profiler: nothing was recorded, or the profiler was stopped "
        "before its first active step",
    )
