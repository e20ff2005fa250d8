"""Bytes of a plain or gzip file, in pieces, with whatever a cut or damaged file still holds."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

from isal import isal_zlib

_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WINDOW_BITS = 31
_COMPRESSED_CHUNK_BYTES = 1 << 17
_RESCUE_CHUNK_BYTES = 1 << 12


class ByteSource(Protocol):
    """Something to read a file's text from, piece by piece."""

    damage: str | None
    """Why the bytes end before the file's writer meant them to; None while they seem whole."""

    def readinto(self, view: memoryview) -> int:
        """Fill the start of `view`; return the number of bytes, 0 at the end."""

    def close(self) -> None:
        """Close the file."""


class PlainBytes:
    """The bytes of a file as they are."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.damage: str | None = None

    def readinto(self, view: memoryview) -> int:
        """Fill the start of `view`; return the number of bytes, 0 at the end."""
        return int(self._file.readinto(view))  # type: ignore[attr-defined]  # raw files have it

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class GzipBytes:
    """The inflated bytes of a gzip file of one or more members, up to the first damage."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._inflate = isal_zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)
        self._pending = b""
        self._given_bytes = 0
        self._rescued = b""
        self.damage: str | None = None

    def readinto(self, view: memoryview) -> int:
        """Fill the start of `view`; return the number of bytes, 0 at the end or at damage."""
        got = self._inflated(view)
        if not got and self._rescued:
            got = min(len(self._rescued), len(view))
            view[:got] = self._rescued[:got]
            self._rescued = self._rescued[got:]
        self._given_bytes += got
        return got

    def _inflated(self, view: memoryview) -> int:
        while self.damage is None:
            if not self._pending and not self._inflate.eof:
                self._pending = self._file.read(_COMPRESSED_CHUNK_BYTES)
                if not self._pending:
                    self.damage = "the gzip data stops before its end"
                    return 0
            if self._inflate.eof and not self._next_member():
                return 0
            data = self._some(len(view))
            if data:
                view[: len(data)] = data
                return len(data)
        return 0

    def _some(self, limit_bytes: int) -> bytes:
        try:
            data: bytes = self._inflate.decompress(self._pending, limit_bytes)
        except isal_zlib.error as error:  # type: ignore[misc]  # its stub leaves the type open
            self.damage = f"the gzip data is damaged ({error})"
            self._rescued = _after(_inflated_to_damage(self._file), self._given_bytes)
            return b""
        self._pending = self._inflate.unconsumed_tail
        return data

    def _next_member(self) -> bool:
        rest = self._inflate.unused_data
        while len(rest) < len(_GZIP_MAGIC):
            more = self._file.read(_COMPRESSED_CHUNK_BYTES)
            if not more:
                return False
            rest += more
        if not rest.startswith(_GZIP_MAGIC):
            return False
        self._inflate = isal_zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)
        self._pending = rest
        return True

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _inflated_to_damage(file: BinaryIO) -> Iterator[bytes]:
    """Yield all that zlib can inflate, byte by byte near the damage: isal loses a whole piece."""
    file.seek(0)
    inflate = zlib.decompressobj(_GZIP_WINDOW_BITS)
    while piece := inflate.unused_data or file.read(_RESCUE_CHUNK_BYTES):
        if inflate.eof:
            inflate = zlib.decompressobj(_GZIP_WINDOW_BITS)
        before = inflate.copy()
        try:
            yield inflate.decompress(piece)
        except zlib.error:
            with contextlib.suppress(zlib.error):
                for place in range(len(piece)):
                    yield before.decompress(piece[place : place + 1])
            return


def _after(pieces: Iterable[bytes], skip_bytes: int) -> bytes:
    """Return what comes after the first `skip_bytes`, without holding those."""
    kept = bytearray()
    for piece in pieces:
        kept += piece[skip_bytes:]
        skip_bytes = max(skip_bytes - len(piece), 0)
    return bytes(kept)


def open_bytes(path: Path) -> ByteSource:
    """Open a file for reading; what it starts with, not its name, says whether it is gzip."""
    file = path.open("rb", buffering=0)
    packed = file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
    file.seek(0)
    return GzipBytes(file) if packed else PlainBytes(file)
