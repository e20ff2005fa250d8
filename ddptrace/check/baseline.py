"""The saved baseline: figures of one or several runs, as versioned JSON."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from ddptrace.check.figures import RunFigures
from ddptrace.errors import OutputError, RunError

SCHEMA = 1
KIND: Literal["ddptrace baseline"] = "ddptrace baseline"
_MOST_BYTES = 1 << 28
_MOST_BEFORE = 512
_MARK = b"\xef\xbb\xbf"  # some editors put it before UTF-8
_START = re.compile(rb'\s*\{\s*"kind"\s*:\s*"ddptrace baseline"')


class _Begin(msgspec.Struct):
    kind: str | None = None
    schema: int | None = None


@dataclass(frozen=True, slots=True)
class Baseline:
    """What runs are held against: one run, or several of the same job."""

    runs: list[RunFigures]
    kind: Literal["ddptrace baseline"] = KIND
    schema: int = SCHEMA


def to_json(baseline: Baseline) -> str:
    """Return the baseline as JSON."""
    built = msgspec.to_builtins(baseline)
    ordered = {"kind": built.pop("kind"), "schema": built.pop("schema")} | built
    return msgspec.json.encode(ordered).decode() + "\n"


def from_json(data: bytes | str) -> Baseline:
    """Return the baseline that `to_json` wrote; RunError, without the file's name, otherwise."""
    if len(data) > _MOST_BYTES:
        raise RunError(f"is larger than {_MOST_BYTES >> 20} MiB, which no baseline is")
    try:
        begin = msgspec.json.decode(data, type=_Begin)
        if begin.kind != KIND:
            raise RunError("is no baseline; write one with ddptrace check RUN --save-baseline FILE")
        if begin.schema != SCHEMA:
            raise RunError(
                f"is a baseline of schema {begin.schema}, and this ddptrace reads {SCHEMA}; "
                "save it again with this version"
            )
        found = msgspec.json.decode(data, type=Baseline)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RunError(f"is no baseline, or is damaged ({error}); save it again") from error
    if not any(run.is_usable for run in found.runs):
        raise RunError("is a baseline without the time of any step; save it again")
    return found


def is_one(path: Path) -> bool:
    """Tell from its first bytes whether a file is a baseline, of whatever schema."""
    try:
        with path.open("rb") as file:
            return _START.match(file.read(_MOST_BEFORE).removeprefix(_MARK)) is not None
    except (OSError, ValueError):  # the latter from a name with a NUL
        return False


def read(path: Path) -> Baseline:
    """Return the baseline in a file; RunError, in one line, when there is none."""
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        return from_json(data.removeprefix(_MARK))
    except OSError as error:
        raise RunError(f"{path}: cannot be read: {error.strerror}") from error
    except RunError as error:
        raise RunError(f"{path}: {error}") from error


def save(baseline: Baseline, path: Path) -> None:
    """Write a baseline whole or not at all, in the place of an older one.

    RunError when a run of it has no step that counts, OutputError when it cannot be written, or
    would take the place of something else.
    """
    for run in baseline.runs:
        if not run.is_usable:
            why = "".join(f"; {note}" for note in run.notes)
            raise RunError(
                f"{run.name}: no step that counts, so there is nothing to save as a baseline{why}"
            )
    try:
        whole = path.resolve()
        if whole.exists() and not _may_be_replaced(whole):
            raise OutputError(f"{path}: is there, and no baseline; give another name")
        _replace(whole, to_json(baseline))
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}") from error


def _may_be_replaced(path: Path) -> bool:
    """Tell whether a file is an older baseline, or one that was made empty to be written."""
    return path.is_file() and (path.stat().st_size == 0 or is_one(path))


def _replace(path: Path, text: str) -> None:
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    finally:
        with suppress(OSError):
            new.unlink()
