"""An SQLite export of Nsight Systems as a `Store`: opened to be read only, and never changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path

import numpy as np

from ddptrace.errors import DdptraceError, ForeignFileError, TraceFileError
from ddptrace.intervals import IntArray
from ddptrace.sources import sqlite_pages
from ddptrace.sources.nsys_store import RANGES, STRINGS, Row, missing
from ddptrace.sources.sqlite_locks import is_being_written
from ddptrace.sources.sqlite_pages import NULL
from ddptrace.wording import one_line

_IDS_AT_ONCE = 5000
_WAIT_S = 0.2
_LOCKED = "is locked: another program is writing it; wait until that has ended"


class SqliteStore:
    """An open export; see `Store` for what the methods give."""

    def __init__(self, path: Path) -> None:
        """Open the file; TraceFileError or ForeignFileError, in one line, when that is no use."""
        self.path = one_line(path)
        self._header = _checked_header(path)
        # Without a log of changes to look for, nothing is made beside the file.
        mode = "mode=ro&immutable=1" if self._header.write_ahead else "mode=ro"
        uri = f"{path.resolve().as_uri()}?{mode}"
        with ExitStack() as opened:
            # Closed last: SQLite loses its lock when anybody closes the file.
            self._file = opened.enter_context(path.open("rb", buffering=0))
            with said_in_one_line(self.path):
                self._connection = sqlite3.connect(
                    uri, uri=True, timeout=_WAIT_S, isolation_level=None
                )
                opened.callback(self._connection.close)
                self._connection.text_factory = _text
                # A transaction keeps others from changing pages that are read behind SQLite's back.
                self._connection.execute("BEGIN")
                self._roots, self.tables = self._catalogue()
            if STRINGS not in self.tables:
                what = "is an SQLite file, but not an export of Nsight Systems (no StringIds)"
                raise ForeignFileError(self.path, what)
            self._opened = opened.pop_all()

    def _catalogue(self) -> tuple[dict[str, int], dict[str, tuple[str, ...]]]:
        found = self._connection.execute(
            "SELECT name, rootpage FROM sqlite_master WHERE type IN ('table', 'view')"
        ).fetchall()
        roots = {str(name): int(root or 0) for name, root in found}
        return roots, {name: self._columns_of(name, root) for name, root in roots.items()}

    def _columns_of(self, name: str, root: int) -> tuple[str, ...]:
        try:
            return tuple(column[1] for column in self._info(name))
        except sqlite3.OperationalError:
            if root:
                raise
            return ()  # a view of somebody's that no longer works

    def _info(self, table: str) -> list[Row]:
        return self._connection.execute(f"PRAGMA table_xinfo({_quoted(table)})").fetchall()

    def close(self) -> None:
        """Let go of the file."""
        self._opened.close()

    def integers(self, table: str, columns: Sequence[str]) -> dict[str, IntArray]:
        """Return whole columns of a table."""
        there = [column for column in columns if column in self.tables.get(table, ())]
        if not there:
            return missing(columns)
        with said_in_one_line(self.path):
            try:
                found = self._from_pages(table, there)
            except sqlite_pages.UnusualError:
                found = self._by_row(table, there)
        found |= {
            column: np.full(found[there[0]].size, NULL) for column in columns if column not in found
        }
        return found

    def _from_pages(self, table: str, columns: Sequence[str]) -> dict[str, IntArray]:
        info = self._info(table)
        names = [column[1] for column in info]
        is_plain = not any(column[6] or (column[5] and column[1] in columns) for column in info)
        if not self._roots[table] or not is_plain:
            raise sqlite_pages.UnusualError
        places = [names.index(column) for column in columns]
        most = self._most_rows(table)
        whole = [np.empty(most, np.int64) for _ in columns]
        filled = 0
        pieces = sqlite_pages.integers(self._file, self._header, self._roots[table], places)
        for piece in pieces:
            end = filled + piece[0].size
            if end > most:
                raise sqlite_pages.UnusualError
            for column, part in zip(whole, piece, strict=True):
                column[filled:end] = part
            filled = end
        return {name: column[:filled] for name, column in zip(columns, whole, strict=True)}

    def _most_rows(self, table: str) -> int:
        """Return a number of rows that the table does not exceed; found without reading them."""
        name = _quoted(table)
        try:
            # One end at a time: asked for both, SQLite reads all rows.
            ends = [
                self._connection.execute(
                    f"SELECT rowid FROM {name} ORDER BY rowid {order} LIMIT 1"
                ).fetchone()
                for order in ("ASC", "DESC")
            ]
        except sqlite3.OperationalError as error:
            raise sqlite_pages.UnusualError from error  # a table without row ids
        most = 0 if ends[0] is None else ends[1][0] - ends[0][0] + 1
        if most > self._header.file_bytes:  # a row takes some bytes: the ids have large gaps
            most = self._connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
        return int(most)

    def _by_row(self, table: str, columns: Sequence[str]) -> dict[str, IntArray]:
        wanted = ", ".join(f"ifnull({_number(_quoted(column))}, {NULL})" for column in columns)
        cursor = self._connection.execute(f"SELECT {wanted} FROM {_quoted(table)}")
        whole = np.fromiter(chain.from_iterable(cursor), np.int64).reshape(-1, len(columns))
        return {name: whole[:, place].copy() for place, name in enumerate(columns)}

    def rows(self, table: str, columns: Sequence[str]) -> list[Row]:
        """Return the rows of a small table."""
        if table not in self.tables:
            return []
        with said_in_one_line(self.path):
            query = f"SELECT {self._selected(table, columns)} FROM {_quoted(table)}"
            return self._connection.execute(query).fetchall()

    def _selected(self, table: str, columns: Sequence[str]) -> str:
        there = self.tables[table]
        return ", ".join(_quoted(column) if column in there else "NULL" for column in columns)

    def texts(self, ids: Iterable[int]) -> dict[int, str]:
        """Return the strings with these ids."""
        wanted = sorted(set(ids) - {NULL})
        found: dict[int, str] = {}
        with said_in_one_line(self.path):
            for first in range(0, len(wanted), _IDS_AT_ONCE):
                some = ",".join(map(str, wanted[first : first + _IDS_AT_ONCE]))
                query = f"SELECT id, value FROM {STRINGS} WHERE id IN ({some})"
                rows = self._execute(query)
                found.update((number, str(text)) for number, text in rows if text is not None)
        return found

    def _execute(self, query: str) -> sqlite3.Cursor:
        return self._connection.execute(query)

    @contextmanager
    def _asking(self, wanted: Callable[[str], bool]) -> Iterator[None]:
        """Let queries ask a function; what it raises is raised, and not SQLite's word for it."""
        raised: list[DdptraceError] = []

        def is_wanted(text: bytes) -> bool:
            try:
                return wanted(_text(text))
            except DdptraceError as error:
                raised.append(error)
                raise

        self._connection.create_function("is_wanted", 1, is_wanted, deterministic=True)
        try:
            yield
        except sqlite3.OperationalError:
            if raised:
                raise raised[0] from None
            raise

    def ranges(
        self, columns: Sequence[str], wanted: Callable[[str], bool], initials: str | None
    ) -> list[Row]:
        """Return the NVTX rows with a wanted text."""
        there = self.tables.get(RANGES, ())
        # Among the strings are names of kernels, too, which nobody wants to know about.
        of_ranges = "" if initials else f"id IN (SELECT textId FROM {RANGES}) AND "
        named = f"SELECT id FROM {STRINGS} WHERE {of_ranges}{_condition('value', initials)}"
        conditions = {"text": _condition("text", initials), "textId": f"textId IN ({named})"}
        some = " OR ".join(conditions[column] for column in conditions if column in there)
        if not some:
            return []
        with said_in_one_line(self.path), self._asking(wanted):
            found = self._execute(
                f"SELECT {self._selected(RANGES, ['text', 'textId', *columns])} FROM {RANGES} "
                f"WHERE {some}"
            ).fetchall()
        names = self.texts(row[1] for row in found if row[0] is None)
        return [
            (names.get(row[1], "") if row[0] is None else str(row[0]), *row[2:]) for row in found
        ]


def _condition(column: str, initials: str | None) -> str:
    # As a blob: text that is not UTF-8 cannot be given to a function.
    asked = f"({column} IS NOT NULL AND is_wanted(CAST({column} AS BLOB)))"
    return asked if initials is None else f"({column} GLOB '[{initials}]*' AND {asked})"


def _number(column: str) -> str:
    """Return what gives a column's value as a whole number; NULL for what is none.

    SQLite itself makes 0 of a text that is no number: a kernel that began at 0.
    """
    whole = f"CAST({column} AS INTEGER)"
    return (
        f"CASE typeof({column}) WHEN 'integer' THEN {column} "
        f"WHEN 'real' THEN CASE WHEN abs({column}) < 9e18 THEN {whole} END "
        f"ELSE CASE WHEN CAST({whole} AS TEXT) = trim(CAST({column} AS TEXT)) THEN {whole} END END"
    )


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _checked_header(path: Path) -> sqlite_pages.Header:
    """Return the file's header; TraceFileError for a file that is not whole or not at rest."""
    name = one_line(path)
    try:
        size = path.stat().st_size
        header = sqlite_pages.read_header(path)
        real = path.resolve()  # its writer's files lie beside what a link leads to
        beside = {suffix: _beside(real, suffix) for suffix in ("-wal", "-journal")}
    except OSError as error:
        raise TraceFileError(name, f"cannot be opened: {error.strerror}") from error
    if not size:
        raise TraceFileError(name, "the file is empty (0 bytes): the export failed; export again")
    if header is None:
        raise ForeignFileError(name, "is no SQLite file, whatever its name says; export again")
    for suffix, is_used in beside.items():
        if is_used:
            raise TraceFileError(
                name,
                f"is being written, or its writer was stopped ({real.name}{suffix} lies beside "
                "it); wait until the export has ended, or export again",
            )
    if is_being_written(real):
        raise TraceFileError(name, _LOCKED)
    if size < header.file_bytes:
        raise TraceFileError(
            name,
            f"is cut short: {size:,} of its {header.file_bytes:,} bytes are there; copy it again, "
            "or export again",
        )
    return header


def _beside(path: Path, suffix: str) -> bool:
    """Tell whether a log of unfinished changes lies beside a database."""
    log = path.with_name(path.name + suffix)
    try:
        with log.open("rb") as file:
            return any(file.read(32))  # an ended one is empty, or its head is overwritten by zeros
    except FileNotFoundError:
        return False


@contextmanager
def said_in_one_line(path: str) -> Iterator[None]:
    """Turn SQLite's errors into a TraceFileError that says what to do."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if "locked" in str(error) or "busy" in str(error):
            what = _LOCKED
        else:
            what = f"cannot be read ({one_line(error)})"
        raise TraceFileError(path, what) from error
    except UnicodeDecodeError as error:
        # What SQLite says of a damaged schema may quote bytes that are no text.
        raise TraceFileError(path, "is damaged (its schema is no text); export it again") from error
    except sqlite3.DatabaseError as error:
        raise TraceFileError(path, f"is damaged ({one_line(error)}); export it again") from error
