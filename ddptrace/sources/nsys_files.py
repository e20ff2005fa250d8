"""Tells the files of Nsight Systems apart, and what to do with those that cannot be read yet."""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from pathlib import Path

from ddptrace.errors import ForeignFileError, TraceFileError
from ddptrace.sources.nsys_parquet import is_parquet_export
from ddptrace.sources.sqlite_pages import MAGIC
from ddptrace.wording import one_line

SQLITE_SUFFIX = ".sqlite"
_PARQUET_SUFFIX = "_pqtdir"
_OLD_SUFFIX = ".qdrep"
RECORDING_SUFFIXES = (".nsys-rep", _OLD_SUFFIX)
RAW_SUFFIX = ".qdstrm"
_UNPACKERS = {
    ".gz": "gunzip -k",
    ".zip": "unzip",
    ".zst": "unzstd",
    ".xz": "unxz -k",
    ".bz2": "bunzip2 -k",
}
_PACKERS = {
    b"\x1f\x8b": "gunzip -c {} > {}",
    b"PK\x03\x04": "unzip -p {} > {}",
    b"\x28\xb5\x2f\xfd": "unzstd -c {} > {}",
    b"\xfd7zXZ\0": "xz -dc {} > {}",
    b"BZh": "bunzip2 -c {} > {}",
}
_PACKED_SUFFIXES = tuple(
    kind + packed
    for kind in (SQLITE_SUFFIX, *RECORDING_SUFFIXES, RAW_SUFFIX)
    for packed in _UNPACKERS
)
_RECORDED_BY = re.compile(rb"Profiler Report (\d+)")  # what the first line of a recording says
_HEAD_BYTES = 64
_FIRST_YEAR_WITH_PAYLOADS = 2024
UNREADABLE_SUFFIXES = (*RECORDING_SUFFIXES, RAW_SUFFIX, *_PACKED_SUFFIXES)


def is_nsys(path: Path) -> bool:
    """Tell whether a file or folder is Nsight Systems', by its name or its first bytes."""
    if is_parquet_export(path):
        return True
    if path.name.lower().endswith((SQLITE_SUFFIX, *UNREADABLE_SUFFIXES)):
        return True
    if not path.is_file():
        return False  # of a pipe the first bytes would be gone
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False  # whoever reads it will say why


def is_exported(path: Path) -> bool:
    """Tell whether the export of a file that cannot be read, or itself unpacked, lies beside it."""
    if path.name.lower().endswith(_PACKED_SUFFIXES):
        path = path.with_suffix("")
        if path.is_file():
            return True
    stem = path.name[: path.name.rindex(".")]
    sqlite = path.with_name(stem + SQLITE_SUFFIX)
    return sqlite.is_file() or is_parquet_export(path.with_name(stem + _PARQUET_SUFFIX))


def check_is_exported(path: Path) -> None:
    """Raise TraceFileError for what is no export: of a recording with the command to run."""
    name = path.name.lower()
    if not (path.is_file() or path.is_dir()):
        raise TraceFileError(one_line(path), "is no file: nothing can be read from it")
    if name.endswith(_PACKED_SUFFIXES):
        raise ForeignFileError(one_line(path), _packed(_UNPACKERS[path.suffix.lower()], path))
    if path.is_file() and not path.stat().st_size:
        raise TraceFileError(one_line(path), "the file is empty (0 bytes): record or copy it again")
    unpack = _unpack_command(path)
    if unpack:
        raise ForeignFileError(
            one_line(path), f"is compressed, whatever its name says; unpack it first: {unpack}"
        )
    if name.endswith(RECORDING_SUFFIXES):
        raise ForeignFileError(
            one_line(path),
            "is a recording of Nsight Systems that only nsys itself can read; export it, with the "
            f"nsys that recorded it: {export_command(path)}",
        )
    if name.endswith(RAW_SUFFIX):
        raise ForeignFileError(
            one_line(path),
            "is raw data of Nsight Systems that it did not turn into a recording, mostly for want "
            "of a library (libdw.so.1 and what it needs): import it with QdstrmImporter of the "
            "nsys that recorded it, then export that",
        )


def _packed(command: str, path: Path) -> str:
    """Return what is wrong with a compressed file, and the command that unpacks it."""
    return f"is compressed; unpack it first: {command} {shlex.quote(one_line(path))}"


def export_command(path: Path) -> str:
    """Return the command that exports a recording, with all that can be read from it."""
    exported = str(path)[: str(path).rindex(".")] + SQLITE_SUFFIX
    payloads = ("--include-blobs=true", "--include-json=true") if _has_payloads(path) else ()
    return shlex.join(
        [
            *("nsys", "export", "--type=sqlite", *payloads),
            *("--output", one_line(exported), one_line(path)),
        ]
    )


def _has_payloads(path: Path) -> bool:
    """Tell whether the nsys that recorded may export what NCCL attached to its ranges.

    That of 2023 and older ones, which do not write their year into the first line, refuse to, and
    so do those that name their recordings .qdrep, of 2021 and older.
    """
    if path.name.lower().endswith(_OLD_SUFFIX):
        return False
    found = _RECORDED_BY.search(_head(path))
    return found is None or int(found[1]) >= _FIRST_YEAR_WITH_PAYLOADS


def _unpack_command(path: Path) -> str | None:
    """Return the command that unpacks a file that is compressed by its content; None for others."""
    head = _head(path)
    for magic, command in _PACKERS.items():
        if head.startswith(magic):
            unpacked = path.with_name(f"unpacked_{path.name}")
            return command.format(*(shlex.quote(one_line(one)) for one in (path, unpacked)))
    return None


def _head(path: Path) -> bytes:
    """Return the first bytes of a file; none where they cannot be read."""
    with suppress(OSError), path.open("rb") as file:
        return file.read(_HEAD_BYTES)
    return b""
