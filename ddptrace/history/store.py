"""The database file of a history: opened to read or to write, never half written.

Readers change nothing: what an older version wrote they bring up to date in memory.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlite_utils import Database

from ddptrace.errors import HistoryError
from ddptrace.history.place import shared_file_system
from ddptrace.history.schema import APPLICATION, VERSION, migrate, version
from ddptrace.wording import one_line

WAIT_S = 60.0
"""How long to wait for other jobs that write."""

_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class Writer:
    """A history that is open to be written; `notice` says when writing has a limit."""

    database: Database
    notice: str | None

    @contextmanager
    def transaction(self) -> Iterator[Database]:
        """Hold the right to write: all of it is kept, on the disk, or nothing of it."""
        with _transaction(self.database.conn):
            yield self.database


@contextmanager
def reading(path: Path) -> Iterator[Database]:
    """Open a history to read, as it is now; HistoryError when there is none or it is unusable."""
    if not path.exists():
        raise HistoryError(
            f"{one_line(path)}: no such history; `ddptrace history add RUN --db FILE` makes one"
        )
    with _said_in_one_line(path), closing(_connected_to_read(path)) as connection:
        connection.execute("begin")  # so that what is read belongs together
        if _identity(path, connection) == VERSION:
            yield _database(connection)
            return
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as copy:
            connection.backup(copy)
            migrate(copy)
            yield _database(copy)


@contextmanager
def writing(path: Path, wait_s: float = WAIT_S) -> Iterator[Writer]:
    """Open a history to write, and make it or bring it up to date first.

    HistoryError when it is unusable, or when others kept it locked for longer than `wait_s`.
    """
    check_place(path)
    with _said_in_one_line(path):
        connection = sqlite3.connect(
            _uri(path, "rwc"), timeout=wait_s, uri=True, isolation_level=None
        )
        with closing(connection):
            _identity(path, connection)  # before anything of another program's is changed
            notice = _with_log(path, connection, wait_s)
            connection.execute("pragma synchronous = full")  # a power cut loses nothing, either
            connection.execute("pragma foreign_keys = on")
            with _transaction(connection):
                _identity(path, connection)  # again, now that nobody else writes
                migrate(connection)
            yield Writer(_database(connection), notice)


def check_place(path: Path) -> None:
    """Raise HistoryError when no history can be at a path, or what is there is none.

    To be asked before traces are read, which may take minutes; nothing is made.
    """
    if path.is_dir():
        raise HistoryError(f"{one_line(path)}: is a folder; name a file, such as history.db")
    if not path.parent.is_dir():
        raise HistoryError(f"{one_line(path.parent)}: no such folder; make it first")
    if path.exists():
        with _said_in_one_line(path), closing(_connected_to_read(path)) as connection:
            _identity(path, connection)


def _identity(path: Path, connection: sqlite3.Connection) -> int:
    """Return the version of a history, 0 of an empty file; HistoryError for all else."""
    found = int(connection.execute("pragma application_id").fetchone()[0])
    if found != APPLICATION:
        if connection.execute("select count(*) from sqlite_master").fetchone()[0] or found:
            raise HistoryError(
                f"{one_line(path)}: is a database, but no history of ddptrace; name another file"
            )
        return 0
    known = version(connection)
    if known > VERSION:
        raise HistoryError(
            f"{one_line(path)}: was written by a newer ddptrace (version {known} of its tables, "
            f"this one knows {VERSION}); update ddptrace"
        )
    return known


def _database(connection: sqlite3.Connection) -> Database:
    return Database(connection, execute_plugins=False)  # a user's plugins have no business here


def _uri(path: Path, mode: str) -> str:
    return f"{path.absolute().as_uri()}?mode={mode}"


def _connected_to_read(path: Path) -> sqlite3.Connection:
    """Return a connection that changes no table, also where no file may be written.

    It may write, where it can, so that the last one out folds the log into the file: one that is
    read-only leaves an empty log behind.
    """
    connection = sqlite3.connect(_uri(path, "rw"), timeout=WAIT_S, uri=True, isolation_level=None)
    try:
        connection.execute("pragma query_only = on")
        connection.execute("select count(*) from sqlite_master").fetchone()
    except sqlite3.DatabaseError as error:
        connection.close()
        if _is_forbidden(error) and not Path(f"{path}-wal").exists():
            # The log's memory cannot be made in a folder that is read-only, and there is no log.
            return sqlite3.connect(
                f"{_uri(path, 'ro')}&immutable=1", uri=True, isolation_level=None
            )
        raise
    return connection


def _with_log(path: Path, connection: sqlite3.Connection, wait_s: float) -> str | None:
    """Let readers and one writer work at once, where possible; return why not."""
    shared = shared_file_system(path)
    wanted = "wal" if shared is None else "delete"
    mode = _patiently(
        lambda: str(connection.execute(f"pragma journal_mode = {wanted}").fetchone()[0]), wait_s
    )
    if shared is not None:
        if mode == "wal":
            raise HistoryError(
                f"{one_line(path)}: is in use with a write-ahead log, which does not work on "
                f"{shared}; close what uses it, or move it to a local disk"
            )
        return (
            f"{one_line(path)}: is on {shared}, where SQLite has no write-ahead log: adding is "
            "safe only if the server's file locks are, and readers wait for writers"
        )
    if mode != "wal":
        return (
            f"{one_line(path)}: this file system takes no write-ahead log (journal mode {mode}): "
            "readers and writers wait for each other"
        )
    return None


def _patiently(attempt: Callable[[], str], wait_s: float) -> str:
    """Return what an attempt gives: SQLite itself does not wait where a journal mode changes."""
    until = time.monotonic() + wait_s
    while True:
        try:
            return attempt()
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or time.monotonic() > until:
                raise
        time.sleep(_PAUSE_S)


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    # Immediate: a transaction that began by reading could not wait for another one to end.
    connection.execute("begin immediate")
    try:
        yield
    except BaseException:
        if connection.in_transaction:  # a full disk has ended it already
            connection.execute("rollback")
        raise
    connection.execute("commit")


def _is_busy(error: sqlite3.Error) -> bool:
    return "locked" in str(error) or "busy" in str(error)


def _is_forbidden(error: sqlite3.Error) -> bool:
    return "unable to open" in str(error) or "readonly" in str(error)


@contextmanager
def _said_in_one_line(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise HistoryError(f"{one_line(path)}: {_why(error)}") from error


def _why(error: sqlite3.Error) -> str:
    told = str(error)
    if _is_busy(error):
        return "is locked by another program for too long; try again when that has ended"
    if "not a database" in told:
        return "is no SQLite database; name another file"
    if "malformed" in told or "corrupt" in told:
        return f"is damaged ({told}); restore it from a copy"
    if "readonly" in told:
        return "may not be written here; change its permissions, or name another file"
    if "unable to open" in told:
        return "cannot be opened; see its permissions and those of its folder"
    return f"cannot be used: {told}"
