"""The tables of an Nsight Systems export, whichever format they are stored in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np

from ddptrace.intervals import IntArray

STRINGS = "StringIds"
RANGES = "NVTX_EVENTS"
KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
COPIES = "CUPTI_ACTIVITY_KIND_MEMCPY"
SETS = "CUPTI_ACTIVITY_KIND_MEMSET"
CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"
GRAPHS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"

Row: TypeAlias = tuple[Any, ...]


class Store(Protocol):
    """One export. Every table but StringIds may be missing, and so may every column of a table.

    `tables` has the columns of each table. NULL stands in an integer column for a missing value,
    None in a row; a missing column is full of them.
    """

    @property
    def path(self) -> str:
        """The file or folder, as messages name it."""

    @property
    def tables(self) -> Mapping[str, tuple[str, ...]]:
        """The columns of each table."""

    def integers(self, table: str, columns: Sequence[str]) -> dict[str, IntArray]:
        """Return whole columns of a table, which may be large; they are the caller's to change."""

    def rows(self, table: str, columns: Sequence[str]) -> list[Row]:
        """Return the rows of a small table; none when it is missing."""

    def texts(self, ids: Iterable[int]) -> dict[int, str]:
        """Return the strings with these ids, as far as there are any."""

    def ranges(
        self, columns: Sequence[str], wanted: Callable[[str], bool], initials: str | None
    ) -> list[Row]:
        """Return the NVTX rows with a wanted text, and that text in front of their columns.

        Only texts that begin with one of the `initials` are asked about; None asks about all.
        """

    def close(self) -> None:
        """Let go of the files."""


def first_table(store: Store, *names: str) -> str:
    """Return the first of these tables that is there, else the first: a table's name changed."""
    return next((name for name in names if name in store.tables), names[0])


def missing(columns: Iterable[str]) -> dict[str, IntArray]:
    """Return the columns of a table without rows."""
    return {column: np.empty(0, np.int64) for column in columns}


Number = TypeVar("Number", int, IntArray)


def process_of(thread: Number) -> Number:
    """Return the number of the process of a global thread id, or of a global process id.

    A global id holds the machine, the process and the thread; that of a process has no thread.
    """
    return thread >> 24


def process_id(process: int) -> int:
    """Return the operating system's id of a process."""
    return process & 0xFFFFFF
