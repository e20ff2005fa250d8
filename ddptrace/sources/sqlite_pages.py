"""Integer columns of an SQLite table, read from the pages of its file and not row by row.

Through SQLite each value becomes a Python object, which costs three times as much as reading all
pages. The format is fixed: https://www.sqlite.org/fileformat2.html. What is not as usual here (a
row that does not fit its page, a table without row ids) raises UnusualError: SQLite itself can
read that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddptrace.intervals import IntArray

Bytes: TypeAlias = NDArray[np.uint8]

NULL = int(np.iinfo(np.int64).min)
"""Stands in a column for a value that is NULL."""

MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_INNER, _LEAF = 0x05, 0x0D
_PAGES_AT_ONCE = 256
_LARGEST_VALUE_BYTES = 8
_LARGEST_VARINT_BYTES = 9
_LONGEST_HEAD_BYTES = 3 * _LARGEST_VARINT_BYTES + 128  # a row's size, id, and serial types
_TEXT = 12  # serial types from here on are blobs and texts, which are half as long as these say
_WIDTHS = np.array([0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0, *((n - 12) // 2 for n in range(12, 128))])
_WIDTHS = _WIDTHS.astype(np.uint8)
_FLOAT, _LARGEST_KIND = 7, 9  # of serial types up to 9 all but one are NULL or whole numbers
_SHIFTS = np.minimum(64 - 8 * np.arange(128), 63)
_WITHOUT_BYTES = np.array([NULL, 0, 0, 0, 0, 0, 0, 0, 0, 1])


class UnusualError(Exception):
    """A table that is stored in a way that only SQLite itself should read."""


@dataclass(frozen=True, slots=True)
class Header:
    """What the first bytes of an SQLite file say about it; `pages` is 0 where they do not."""

    page_bytes: int
    usable_bytes: int
    pages: int
    write_ahead: bool

    @property
    def file_bytes(self) -> int:
        """How many bytes the whole file has; 0 where the header does not tell."""
        return self.page_bytes * self.pages


def read_header(path: Path) -> Header | None:
    """Return the header of an SQLite file; None for any other file. May raise OSError."""
    with path.open("rb") as file:
        data = file.read(_HEADER_BYTES)
    if not data.startswith(MAGIC) or len(data) < _HEADER_BYTES:
        return None
    page_bytes = int.from_bytes(data[16:18], "big")
    page_bytes = 1 << 16 if page_bytes == 1 else page_bytes
    # A very old writer changes the file but not the number of pages, which it does not know of.
    counted = data[24:28] == data[92:96]
    return Header(
        page_bytes=page_bytes,
        usable_bytes=page_bytes - data[20],
        pages=int.from_bytes(data[28:32], "big") if counted else 0,
        write_ahead=data[18] == 2,
    )


def integers(
    file: BinaryIO, header: Header, root: int, places: Sequence[int]
) -> Iterator[list[IntArray]]:
    """Yield the columns at these places of the table with this root page, some rows at a time.

    NULL stands for what is not there. `file` must be unbuffered. Raises UnusualError.
    """
    leaves = _leaves(file, header, root)
    for first in range(0, leaves.size, _PAGES_AT_ONCE):
        pages = _pages(file, header, leaves[first : first + _PAGES_AT_ONCE])
        if (pages[:, 0] != _LEAF).any():
            raise UnusualError
        yield _values(pages, header, places)


def _pages(file: BinaryIO, header: Header, numbers: IntArray) -> Bytes:
    """Return the pages with these numbers, which count from 1, one a row."""
    first, last = int(numbers.min()), int(numbers.max())
    if first < 1 or (header.pages and last > header.pages):
        raise UnusualError
    if last - first >= 4 * numbers.size:  # far from each other
        return np.concatenate([_span(file, header, int(one), int(one)) for one in numbers])
    found = _span(file, header, first, last)
    in_order = last - first + 1 == numbers.size and bool((np.diff(numbers) == 1).all())
    return found if in_order else found[numbers - first]


def _span(file: BinaryIO, header: Header, first: int, last: int) -> Bytes:
    found = np.empty((last - first + 1, header.page_bytes), np.uint8)
    file.seek((first - 1) * header.page_bytes)
    if file.readinto(found.data) != found.size:  # type: ignore[attr-defined]  # of raw files
        raise UnusualError
    return found


def _leaves(file: BinaryIO, header: Header, root: int) -> IntArray:
    """Return the numbers of the pages that hold a table's rows, in their order."""
    level = np.array([root], np.int64)
    # All leaves are equally deep, so the first page of a level tells for all of them.
    while _pages(file, header, level[:1])[0, 0] == _INNER:
        pages = _pages(file, header, level)
        if (pages[:, 0] != _INNER).any():
            raise UnusualError
        level = np.concatenate([_children(page) for page in pages])
        if header.pages and level.size > header.pages:
            raise UnusualError
    return level


def _children(page: Bytes) -> IntArray:
    cells = int(page[3]) << 8 | int(page[4])
    pointers = page[12 : 12 + 2 * cells].copy().view(">u2").astype(np.int64)
    if pointers.size != cells or int(pointers.max(initial=0)) + 4 > page.size:
        raise UnusualError
    left = page[pointers[:, None] + np.arange(4)].view(">u4").reshape(-1)
    return np.append(left, page[8:12].copy().view(">u4")).astype(np.int64)


def _values(pages: Bytes, header: Header, places: Sequence[int]) -> list[IntArray]:
    """Return some columns of the rows on some pages."""
    # A value at the very end is read with bytes behind it, which are then shifted out.
    spare = np.zeros(_LONGEST_HEAD_BYTES + _LARGEST_VALUE_BYTES, np.uint8)
    data = np.concatenate((pages.reshape(-1), spare))
    record = _records(data, pages, header)
    if not record.size:
        return [np.empty(0, np.int64) for _ in places]
    kinds, start = _kinds(data, record, max(places) + 1)
    columns = {}
    alike_bytes = 0  # of the values before, as far as they take as many bytes in all rows
    for place, kind in enumerate(kinds):
        width = _widths(kind)
        if place in places:
            columns[place] = _integers(data, start + alike_bytes, kind, width)
        if kind.size == 1:
            alike_bytes += int(width[0])
        else:
            start = start + width
    return [columns[place] for place in places]


def _records(data: Bytes, pages: Bytes, header: Header) -> IntArray:
    """Return where the record of each row begins, behind the row's size and its id."""
    cells = pages[:, 3].astype(np.int64) << 8 | pages[:, 4]
    most = int(cells.max(initial=0))
    if 8 + 2 * most > header.page_bytes:
        raise UnusualError
    pointers = pages[:, 8 : 8 + 2 * most].copy().view(">u2").astype(np.int64)
    page = (np.arange(pages.shape[0]) * header.page_bytes)[:, None]
    used = np.arange(most) < cells[:, None]
    if pointers[used].max(initial=0) >= header.page_bytes:
        raise UnusualError
    cell = (pointers + page)[used]
    size = data[cell].astype(np.int64)
    is_long = size >= 128
    second = data[cell + 1]
    if (second[is_long] >= 128).any():
        raise UnusualError
    size = np.where(is_long, (size & 127) << 7 | second, size)
    if size.max(initial=0) > header.usable_bytes - 35:
        raise UnusualError  # the rest of such a row is on a page of its own
    return _behind_varint(data, cell + 1 + is_long)


def _behind_varint(data: Bytes, start: IntArray) -> IntArray:
    """Return where the numbers of variable length that start at these places have ended."""
    for _ in range(_LARGEST_VARINT_BYTES):
        goes_on = data[start] >= 128
        if not goes_on.any():
            return start + 1
        start = start + goes_on  # the last byte of a number does not have the bit
    raise UnusualError


def _kinds(data: Bytes, record: IntArray, columns: int) -> tuple[list[Bytes], IntArray]:
    """Return the serial types of the first columns, and where the values of each row begin.

    Of a column that is stored alike in all rows there is one type for all of them.
    """
    head_bytes = data[record]
    if not columns < int(head_bytes.min()) <= int(head_bytes.max()) < 128:
        raise UnusualError
    # In words of 8 bytes it takes no time to see where all heads are alike; most columns are.
    words = -(-columns // 8)
    heads = np.ndarray((data.size - 8 * words,), f"V{8 * words}", data.data, 1, (1,))[record]
    numbers = heads.view(np.uint64).reshape(-1, words).T
    bits = [np.bitwise_or.reduce(word ^ word[0]) for word in numbers]
    differs = np.array(bits, np.uint64).view(np.uint8)
    types = heads.view(np.uint8).reshape(-1, 8 * words)
    kinds = [types[: None if differs[place] else 1, place].copy() for place in range(columns)]
    return kinds, record + head_bytes


def _widths(kind: Bytes) -> Bytes:
    """Return how many bytes the values of these serial types take."""
    most = int(kind.max())
    if most >= 128:
        raise UnusualError
    if most >= _TEXT or kind.size == 1:
        return _WIDTHS[kind]
    # The same as the table says, many times faster: 5 stands for 6 bytes, 6 and 7 for 8, 8 and 9
    # for the numbers 0 and 1, which take none.
    found: Bytes = (kind + (kind >= 5) + (kind == 6)) * (kind < 8)
    return found


def _integers(data: Bytes, start: IntArray, kind: Bytes, width: Bytes) -> IntArray:
    """Return the values of one column, which start at these places of the data."""
    windows = data.size - _LARGEST_VALUE_BYTES + 1
    if kind.max(initial=0) > _LARGEST_KIND or (kind == _FLOAT).any():
        raise UnusualError
    if start.max(initial=0) >= windows:
        raise UnusualError
    least, most = int(width.min(initial=_LARGEST_VALUE_BYTES)), int(width.max(initial=0))
    if not most:
        return np.broadcast_to(_WITHOUT_BYTES[kind], start.shape)
    wide = np.ndarray((windows,), ">i8", data.data, 0, (1,))
    value: IntArray = wide[start].astype(np.int64)
    value >>= _SHIFTS[most] if least == most else _SHIFTS[width]
    if not least:
        empty = width == 0
        value[empty] = _WITHOUT_BYTES[kind[empty]]
    return value
