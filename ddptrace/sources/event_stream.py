"""Cuts the text of a Chrome trace into blocks of whole events, in one pass over the bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ddptrace.sources.inflate import ByteSource

# Fresh buffers above 2 MiB cost page faults; below 256 KiB the calls for each block show.
_BLOCK_BYTES = 1 << 19
_HEADER_LIMIT_BYTES = 1 << 26

_ARRAY_OPENER = re.compile(rb'"traceEvents"\s*:\s*\[')
_LIST_OPENER = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[")
EVENT_KEY = "(?:ph|cat|name|pid|tid|ts|dur|args|id|bp|s)"
"""A pattern of the keys that an event may start with."""

_FIRST_KEY = re.compile(rb'\s*\{\s*("%s")' % EVENT_KEY.encode())
# Quotes inside a JSON string are escaped, so this text cannot stand inside one.
_BORDER = re.compile(rb'\}\s*,\s*\{\s*"%s"' % EVENT_KEY.encode())


class EventStream:
    """The text around the events (`header`, then `rest`) and between them the blocks of events.

    `header` is None when the text has no array of events. After `blocks()` is exhausted, `rest`
    starts with the last event (or with the end of the array) at byte `rest_offset` of the text.
    """

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._buffer = bytearray(2 * _BLOCK_BYTES)
        self._fill = 0
        self._read_bytes = 0
        self.rest = b""
        self.rest_offset = 0
        self.header = self._take_header()

    def _read(self) -> int:
        """Append one block to the buffer; return the number of bytes, 0 at the end."""
        if self._fill + _BLOCK_BYTES > len(self._buffer):
            grown = bytearray(2 * len(self._buffer))
            grown[: self._fill] = memoryview(self._buffer)[: self._fill]
            self._buffer = grown
        view = memoryview(self._buffer)[self._fill : self._fill + _BLOCK_BYTES]
        got = self._source.readinto(view)
        self._fill += got
        self._read_bytes += got
        return got

    def _take_header(self) -> bytes | None:
        """Move the text before the first event out of the buffer; None without an array."""
        searched = 0
        while self._read():
            opener = _LIST_OPENER.match(self._buffer, 0, self._fill)
            if opener:
                return self._cut_header(opener.end() - 1)
            opener = _ARRAY_OPENER.search(self._buffer, max(searched - 64, 0), self._fill)
            if opener:
                return self._cut_header(opener.end() - 1)
            searched = self._fill
            if self._fill > _HEADER_LIMIT_BYTES:
                break
        self.rest = bytes(memoryview(self._buffer)[: self._fill])
        return None

    def _cut_header(self, bracket: int) -> bytes:
        header = bytes(memoryview(self._buffer)[:bracket])
        self._keep_from(bracket + 1)
        return header

    def _keep_from(self, position: int) -> None:
        """Move what follows `position` to the front, behind the bracket that opens a block."""
        kept = bytes(memoryview(self._buffer)[position : self._fill])
        self._buffer[0] = ord("[")
        self._buffer[1 : 1 + len(kept)] = kept
        self._fill = 1 + len(kept)

    def blocks(self) -> Iterator[memoryview]:
        """Yield JSON arrays of whole events; each is valid until the next one is asked for."""
        border = self._learn_border()
        while True:
            cut = self._buffer.rfind(border, 0, self._fill) if border else -1
            if cut < 0 or self._fill - cut > _BLOCK_BYTES:
                border, cut = self._last_border()
            if cut >= 0:
                self._buffer[cut + 1] = ord("]")
                yield memoryview(self._buffer)[: cut + 2]
                self._keep_from(cut + border.index(b"{"))
            if not self._read():
                break
        self.rest = bytes(memoryview(self._buffer)[1 : self._fill])
        self.rest_offset = self._read_bytes - len(self.rest)

    def _learn_border(self) -> bytes:
        """Return the text between the first two events, white space and first key included."""
        key = _FIRST_KEY.match(self._buffer, 1, self._fill)
        if key is None:
            return b""
        between = re.compile(rb"\}\s*,\s*\{\s*" + re.escape(key[1]))
        found = between.search(self._buffer, 1, self._fill)
        return bytes(found[0]) if found else b""

    def _last_border(self) -> tuple[bytes, int]:
        """Return the last border of any shape in the buffer and where it is; -1 for none."""
        last = None
        for last in _BORDER.finditer(self._buffer, 1, self._fill):  # noqa: B007  # the last one
            pass
        return (bytes(last[0]), last.start()) if last else (b"", -1)
