"""A report as files of tables: which ones a name asks for, written whole or not at all."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ddptrace.errors import OutputError, UsageError
from ddptrace.outputs.database import write_database
from ddptrace.outputs.table_files import needs_pyarrow, write_csv, write_parquet
from ddptrace.outputs.tables import NAMES, tables
from ddptrace.report import Report
from ddptrace.wording import listed, one_line

DATABASE = ".db"
_WRITERS = {".csv": write_csv, ".parquet": write_parquet}
_LEFT_BY_SQLITE = ("-wal", "-journal")


@dataclass(frozen=True, slots=True)
class Target:
    """Where an export goes: one database, or a file for each table."""

    path: Path

    @classmethod
    def of(cls, name: str, *, replace: bool) -> Target:
        """Return the target of a name; UsageError or OutputError when it cannot be written.

        To be asked before the traces are read, which may take minutes.
        """
        target = cls(Path(name))
        if target.ending not in (DATABASE, *_WRITERS):
            raise UsageError(
                f"--output {one_line(name)}: what to write is told by the ending: .db (SQLite), "
                ".parquet or .csv"
            )
        if target.ending == ".parquet":
            needs_pyarrow(target.path)
        with _said_in_one_line(target.path):
            target._check(replace=replace)
        return target

    @property
    def ending(self) -> str:
        """The ending of the name, which tells the format."""
        return self.path.suffix.lower()

    @property
    def files(self) -> list[Path]:
        """The files that are written; those of tables are in the order of the tables."""
        if self.ending == DATABASE:
            return [self.path]
        return [self.path.with_suffix(f".{name}{self.path.suffix}") for name in NAMES]

    def _check(self, *, replace: bool) -> None:
        """Raise OutputError when something is in the way."""
        folder = self.path.parent
        if not folder.is_dir():
            raise OutputError(f"{one_line(folder)}: no such folder; make it first")
        there = [path.name for path in self.files if path.exists()]
        for path in self.files:
            if path.is_dir():
                raise OutputError(f"{one_line(path)}: is a folder; choose another name")
        if there and not replace:
            raise OutputError(
                f"{listed(there)}: {'is' if len(there) == 1 else 'are'} there already; choose "
                "another name, or say --replace"
            )
        if self.ending == DATABASE:
            self._check_unused()

    def _check_unused(self) -> None:
        """Raise OutputError when SQLite would apply changes of an old database to the new one."""
        for beside in (Path(f"{self.path}{ending}") for ending in _LEFT_BY_SQLITE):
            if beside.exists():
                raise OutputError(
                    f"{one_line(beside)}: is there, so the database is in use or was left "
                    "unfinished; close what uses it, or choose another name"
                )

    def check_not_among(self, recordings: Iterable[str]) -> None:
        """Raise OutputError when writing would destroy a recording, which may be a .db, too."""
        mine = {path.resolve() for path in self.files}
        for recording in recordings:
            if Path(recording).resolve() in mine:
                raise OutputError(f"{recording}: is a recording of this run; choose another name")


def write(report: Report, target: Target) -> list[Path]:
    """Write a report's tables and return the files; OutputError when that fails."""
    found = tables(report)
    with _said_in_one_line(target.path), _replacing(target.files) as files:
        if target.ending == DATABASE:
            write_database(files[0], found)
        else:
            for path, table in zip(files, found, strict=True):
                _WRITERS[target.ending](path, table)
    return target.files


@contextmanager
def _said_in_one_line(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:  # a full disk
        raise OutputError(f"{one_line(path)}: cannot be written: {error}") from error
    except OSError as error:
        why = error.strerror or one_line(error)  # pyarrow's have none
        raise OutputError(f"{one_line(path)}: cannot be written: {why}") from error


@contextmanager
def _replacing(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """Give files beside these to write to, which take their places once all are whole."""
    new = [path.with_name(f".{path.name}.{os.getpid()}") for path in paths]
    try:
        for made in new:
            made.unlink(missing_ok=True)
        yield new
        for made, path in zip(new, paths, strict=True):
            made.replace(path)
    finally:
        for made in new:
            made.unlink(missing_ok=True)
