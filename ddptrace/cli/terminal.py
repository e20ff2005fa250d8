"""Where output goes: files, or standard output as it is now."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from ddptrace.errors import OutputError

if TYPE_CHECKING:
    from ddptrace.outputs.terminal import Destination


def stdout_destination() -> Destination:
    """Return what standard output can show: colour and a width only where it is a terminal."""
    from ddptrace.outputs.terminal import Destination

    if sys.stdout is None or not sys.stdout.isatty():
        return Destination()
    colour = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Destination(width=shutil.get_terminal_size().columns, colour=colour)


def write(path: str, text: str) -> None:
    """Write text to a file, or to standard output for "-"; OutputError when that fails."""
    try:
        if path == "-":
            _write_stdout(text)
            return
        Path(path).write_text(text, encoding="utf-8")
    except BrokenPipeError:
        raise  # whoever reads has seen enough: click ends quietly
    except OSError as error:
        name = "standard output" if path == "-" else path
        raise OutputError(f"{name}: cannot be written: {error.strerror}") from error
    sys.stderr.write(f"wrote {path}\n")


def write_pieces(path: Path, pieces: Iterable[str]) -> None:
    """Write a file piece by piece, gzipped when its name ends in .gz; OutputError when that fails.

    A file that could not be written whole is removed.
    """
    try:
        with path.open("wb") as raw, _packed(path, raw) as file:
            for piece in pieces:
                file.write(piece.encode())
    except BaseException as error:
        if path.is_file():  # and nothing like /dev/full
            path.unlink()
        if isinstance(error, OSError):
            raise OutputError(f"{path}: cannot be written: {error.strerror}") from error
        raise
    sys.stderr.write(f"wrote {path}\n")


@contextmanager
def _packed(path: Path, raw: BinaryIO) -> Iterator[BinaryIO]:
    if path.suffix != ".gz":
        yield raw
        return
    from isal import igzip

    # Without name and time the same run gives the same bytes.
    packed = igzip.IGzipFile("", "wb", 2, raw, mtime=0)  # type: ignore[no-untyped-call]
    with closing(packed):
        yield cast("BinaryIO", packed)


def _write_stdout(text: str) -> None:
    if sys.stdout is None:  # closed by the caller
        raise OutputError("standard output is closed; there is nowhere to write to")
    sys.stdout.write(text)
    sys.stdout.flush()
