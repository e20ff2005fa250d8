"""Takes the environment, commands, names of people, hosts and folders out of an nsys SQLite file.

Nsight Systems stores the whole environment of what it starts, what that prints, and the names of
all processes of the machine. Times, kernels and NVTX ranges stay as they are.
"""

from __future__ import annotations

import mmap
import os
import re
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from ddptrace_capture import scrub_rules as rules
from ddptrace_capture.errors import CaptureError

_SQLITE = b"SQLite format 3\0"
_OF_NSYS = {"META_DATA_EXPORT", "EXPORT_META_DATA", "TARGET_INFO_SESSION_START_TIME"}
_OF_A_PROCESS = "globalPid", "globalTid"
_NAMES = {"PROCESSES": "globalPid", "ThreadNames": "globalTid"}
_NO_EVENTS = {*_NAMES, "DIAGNOSTIC_EVENT"}
_ANY_THREAD = "& ~0xFFFFFF"  # the lowest 24 bits of a globalTid are the thread's


@dataclass(frozen=True, slots=True)
class Scrubbed:
    """How much was taken out; `left` names secret variables whose values are still in the file."""

    settings: int
    processes: int
    outputs: int
    strings: int
    folders: int
    left: tuple[str, ...] = ()

    def __str__(self) -> str:
        counts = {
            "settings and variables": self.settings,
            "names of processes and threads": self.processes,
            "outputs of programs": self.outputs,
            "unused strings": self.strings,
            "folders": self.folders,
        }
        told = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
        warning = f"; DO NOT SHARE IT: values of {', '.join(self.left)} are in names of events"
        return f"{f'removed {told}' if told else 'clean already'}{warning if self.left else ''}"


def scrub(path: Path) -> Scrubbed:
    """Clean a file in place; when that fails, CaptureError, and the file is as it was."""
    _refuse_other_files(path)
    target = path.resolve()
    copy = target.with_name(f".scrub-{os.getpid()}-{target.name}")
    try:
        shutil.copyfile(target, copy)
        shutil.copymode(target, copy)
        scrubbed = _clean(copy)
        with copy.open("rb+") as file:
            os.fsync(file.fileno())
        copy.replace(target)
    except (OSError, sqlite3.Error) as error:
        raise CaptureError(f"{path}: cannot be cleaned and was left as it was: {error}") from error
    finally:
        copy.unlink(missing_ok=True)
    return scrubbed


def _refuse_other_files(path: Path) -> None:
    if path.suffix in (".nsys-rep", ".qdrep", ".qdstrm"):
        raise CaptureError(
            f"{path}: a report cannot be cleaned; make an SQLite file of it (nsys export "
            f"--type=sqlite), clean that, and share that alone"
        )
    try:
        with path.open("rb") as file:
            is_sqlite = file.read(len(_SQLITE)) == _SQLITE
    except OSError as error:
        raise CaptureError(f"{path}: cannot be read: {error.strerror}") from error
    if not is_sqlite:
        raise CaptureError(f"{path}: not an SQLite file; only those of nsys export can be cleaned")
    if any(path.with_name(path.name + suffix).exists() for suffix in ("-wal", "-journal")):
        raise CaptureError(f"{path}: another program has it open; close that first")
    tables = _tables_of(path)
    if "StringIds" not in tables or tables.isdisjoint(_OF_NSYS):
        raise CaptureError(f"{path}: an SQLite file, but not one of nsys export")


def _tables_of(path: Path) -> set[str]:
    uri = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as database:
            return {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
    except sqlite3.Error as error:
        raise CaptureError(f"{path}: cannot be read: {error}") from error


def _clean(copy: Path) -> Scrubbed:
    with closing(sqlite3.connect(copy, isolation_level=None)) as database:
        database.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
        # A failure costs the copy alone, so no journal, in which the secrets would be once more.
        for pragma in ("journal_mode = OFF", "synchronous = OFF", "secure_delete = ON"):
            database.execute(f"PRAGMA {pragma}")
        database.create_function("without_folders", 1, rules.without_folders)
        columns = list(_columns(database))
        secrets = set(rules.secrets(_settings_and_strings(database, columns)))
        database.execute("BEGIN")
        settings = sum(_clean_settings(database, each) for each in rules.settings_tables(columns))
        outputs = _remove_outputs(database, columns)
        processes = _remove_processes(database, columns)
        strings = _remove_strings(database, columns)
        folders = _shorten_strings(database) + sum(
            _shorten(database, column) for column in columns if rules.may_hold_folders(column)
        )
        database.execute("COMMIT")
        database.execute("VACUUM")
    left = _still_there(copy, secrets)
    return Scrubbed(settings, processes, outputs, strings, folders, left)


def _columns(database: sqlite3.Connection) -> Iterator[rules.Column]:
    tables = database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
    for table, sql in tables:
        beside = dict(re.findall(r"^\s*\"?(\w+)\"?\s[^\n]*?-- *(.*)$", sql or "", re.MULTILINE))
        for _, name, kind, *_ in database.execute(f'PRAGMA table_info("{table}")').fetchall():
            yield rules.Column(table, name, kind.upper(), beside.get(name, ""))


def _settings_and_strings(
    database: sqlite3.Connection, columns: Iterable[rules.Column]
) -> Iterator[str]:
    for table in ("StringIds", *rules.settings_tables(columns)):
        yield from (str(value) for (value,) in database.execute(f'SELECT value FROM "{table}"'))


def _clean_settings(database: sqlite3.Connection, table: str) -> int:
    rows = database.execute(f'SELECT rowid, name, value FROM "{table}"').fetchall()
    gone = [(row,) for row, name, value in rows if not rules.may_stay(str(name), str(value or ""))]
    database.executemany(f'DELETE FROM "{table}" WHERE rowid = ?', gone)
    return len(gone)


def _remove_outputs(database: sqlite3.Connection, columns: Iterable[rules.Column]) -> int:
    """Empty the tables whose rows refer to what a program printed or what a file holds."""
    tables = [column.table for column in columns if column.name == "contentId"]
    return sum(database.execute(f'DELETE FROM "{table}"').rowcount for table in tables)


def _remove_processes(database: sqlite3.Connection, columns: Iterable[rules.Column]) -> int:
    """Keep the names of those processes alone that have events, and of their threads."""
    database.execute("CREATE TEMP TABLE busy (pid INTEGER PRIMARY KEY)")
    names = []
    for column in columns:
        if column.name not in _OF_A_PROCESS:
            continue
        if _NAMES.get(column.table) == column.name:
            names.append(column)
        elif column.table not in _NO_EVENTS:
            database.execute(
                f"INSERT OR IGNORE INTO temp.busy SELECT {column} {_ANY_THREAD} "
                f'FROM "{column.table}" WHERE {column} IS NOT NULL'
            )
    idle = f"{_ANY_THREAD} NOT IN (SELECT pid FROM temp.busy)"
    deletions = [f'DELETE FROM "{name.table}" WHERE {name} {idle}' for name in names]
    return sum(database.execute(deletion).rowcount for deletion in deletions)


def _remove_strings(database: sqlite3.Connection, columns: Iterable[rules.Column]) -> int:
    """Remove the strings that nothing refers to, among them whole environments."""
    database.execute("CREATE TEMP TABLE used (id INTEGER PRIMARY KEY, by_event INTEGER)")
    for column in filter(rules.refers_to_string, columns):
        database.execute(
            f"INSERT INTO temp.used SELECT DISTINCT {column}, ? "
            f'FROM "{column.table}" WHERE {column} IS NOT NULL '
            f"ON CONFLICT (id) DO UPDATE SET by_event = max(by_event, excluded.by_event)",
            (column.table.startswith(rules.EVENTS),),
        )
    unused = "DELETE FROM StringIds WHERE id NOT IN (SELECT id FROM temp.used)"
    return database.execute(unused).rowcount


def _shorten_strings(database: sqlite3.Connection) -> int:
    """Take the folders out of strings that no kernel and no range bears, such as libraries."""
    others = "id IN (SELECT id FROM temp.used WHERE NOT by_event)"
    return _shorten(database, rules.Column("StringIds", "value", "TEXT", ""), others)


def _shorten(database: sqlite3.Connection, column: rules.Column, which: str = "TRUE") -> int:
    # As bytes, since nsys stores texts that are no UTF-8.
    short = f"CAST(without_folders(CAST({column} AS BLOB)) AS TEXT)"
    value = "''" if rules.is_private(column) else short
    return database.execute(
        f'UPDATE "{column.table}" SET "{column.name}" = {value} '
        f"WHERE {column} IS NOT NULL AND {column} != {value} AND {which}"
    ).rowcount


def _still_there(copy: Path, secrets: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    with copy.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        found = {
            name
            for name, value in secrets
            if data.find(value.encode("utf-8", "surrogateescape")) >= 0
        }
    return tuple(sorted(found))
