"""A `parquetdir` export of Nsight Systems as a `Store`: a folder with a file a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ddptrace.errors import TraceFileError
from ddptrace.intervals import IntArray
from ddptrace.sources.nsys_store import RANGES, STRINGS, Row, missing
from ddptrace.sources.sqlite_pages import NULL
from ddptrace.wording import one_line

SUFFIX = ".parquet"
STRINGS_FILE = f"{STRINGS}{SUFFIX}"
_STRINGS_AT_ONCE = 1 << 16


def is_parquet_export(path: Path) -> bool:
    """Tell whether a folder is an export of Nsight Systems."""
    return (path / STRINGS_FILE).is_file()


class ParquetStore:
    """An export that pyarrow reads; see `Store` for what the methods give."""

    def __init__(self, path: Path) -> None:
        """Find the tables; TraceFileError, in one line, when they cannot be read."""
        self.path = one_line(path)
        try:
            import pyarrow
            import pyarrow.compute
            import pyarrow.parquet
        except ImportError as error:
            raise TraceFileError(
                self.path,
                "is a Parquet export of Nsight Systems, which needs pyarrow (pip install "
                "'ddptrace[parquet]'); or export as SQLite",
            ) from error
        self._arrow = pyarrow
        self._folder = path
        self.tables = {file.stem: self._columns_of(file) for file in path.glob(f"*{SUFFIX}")}

    def close(self) -> None:
        """Let go of the files: none stays open."""

    def _columns_of(self, file: Path) -> tuple[str, ...]:
        with _said_in_one_line(file):
            return tuple(self._arrow.parquet.read_schema(file).names)

    def _file(self, table: str) -> Path:
        return self._folder / f"{table}{SUFFIX}"

    def _table(self, table: str, columns: Sequence[str]) -> Any:  # noqa: ANN401  # pyarrow's
        file = self._file(table)
        with _said_in_one_line(file):
            return self._arrow.parquet.read_table(file, columns=list(columns))

    def integers(self, table: str, columns: Sequence[str]) -> dict[str, IntArray]:
        """Return whole columns of a table."""
        there = [column for column in columns if column in self.tables.get(table, ())]
        if not there:
            return missing(columns)
        read = self._table(table, there)
        with _said_in_one_line(self._file(table)):
            found = {column: self._numbers(read[column]) for column in there}
        absent = [column for column in columns if column not in found]
        return found | {column: np.full(read.num_rows, NULL) for column in absent}

    def _numbers(self, column: Any) -> IntArray:  # noqa: ANN401  # pyarrow's
        whole = column.cast(self._arrow.int64(), safe=False)
        # A copy, since the columns are the caller's to change, and arrow's own are not.
        return np.array(self._arrow.compute.fill_null(whole, NULL).to_numpy())

    def rows(self, table: str, columns: Sequence[str]) -> list[Row]:
        """Return the rows of a small table."""
        if table not in self.tables:
            return []
        there = [column for column in columns if column in self.tables[table]]
        return _in_order(self._table(table, there).to_pylist(), columns)

    def texts(self, ids: Iterable[int]) -> dict[int, str]:
        """Return the strings with these ids."""
        wanted = self._arrow.array(sorted(set(ids) - {NULL}), self._arrow.int64())
        found: dict[int, str] = {}
        path = self._file(STRINGS)
        with _said_in_one_line(path), self._arrow.parquet.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                is_in = self._is_in(file.read_row_group(group, ["id"])["id"], wanted)
                if self._arrow.compute.any(is_in).as_py():
                    found |= self._texts_of_group(file, group, wanted)
        return found

    def _texts_of_group(self, file: Any, group: int, wanted: Any) -> dict[int, str]:  # noqa: ANN401  # pyarrow's
        """Return the wanted strings of a group of rows, a few rows at a time: it may be large."""
        found: dict[int, str] = {}
        for some in file.iter_batches(_STRINGS_AT_ONCE, [group], ["id", "value"]):
            rows = some.filter(self._is_in(some["id"], wanted)).to_pylist()
            found.update((row["id"], str(row["value"])) for row in rows)
        return found

    def _is_in(self, ids: Any, wanted: Any) -> Any:  # noqa: ANN401  # pyarrow's
        return self._arrow.compute.is_in(ids.cast(self._arrow.int64()), wanted)

    def ranges(
        self, columns: Sequence[str], wanted: Callable[[str], bool], initials: str | None
    ) -> list[Row]:
        """Return the NVTX rows with a wanted text."""
        names = [name for name in ("text", "textId") if name in self.tables.get(RANGES, ())]
        if not names:
            return []
        there = [column for column in columns if column in self.tables[RANGES]]
        read = self._table(RANGES, [*names, *there])
        rows: list[Row] = []
        for name in names:
            kind = self._arrow.string() if name == "text" else self._arrow.int64()
            column = read[name].cast(kind)
            text_of = self._wanted_texts(column, wanted, initials)
            asked = self._arrow.array(list(text_of), kind)
            some = read.filter(self._arrow.compute.is_in(column, asked)).to_pylist()
            found = _in_order(some, [name, *columns])
            rows += [(text_of[key], *others) for key, *others in found]
        return rows

    def _wanted_texts(
        self,
        column: Any,  # noqa: ANN401  # pyarrow's
        wanted: Callable[[str], bool],
        initials: str | None,
    ) -> dict[Any, str]:
        """Return the values of a column of texts or of their ids, with the texts, if wanted."""
        known = [value for value in column.unique().to_pylist() if value is not None]
        of_ids = bool(known) and isinstance(known[0], int)
        text_of = self.texts(known) if of_ids else {text: str(text) for text in known}
        return {
            key: text
            for key, text in text_of.items()
            if (initials is None or text[:1] in initials) and wanted(text)
        }


@contextmanager
def _said_in_one_line(file: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, KeyError) as error:  # pyarrow's own errors are ValueErrors
        what = (
            f"cannot be read ({one_line(error)}); copy the whole folder again, or export it again"
        )
        raise TraceFileError(one_line(file), what) from error


def _in_order(rows: Iterable[dict[str, Any]], columns: Sequence[str]) -> list[Row]:
    return [tuple(row.get(column) for column in columns) for row in rows]
