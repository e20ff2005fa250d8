"""Where output goes: files, or standard output as it is now."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ddptrace.errors import OutputError

if TYPE_CHECKING:
    from ddptrace.outputs.text import Destination


def stdout_destination() -> Destination:
    """Return what standard output can show: colour and a width only where it is a terminal."""
    from ddptrace.outputs.text import Destination

    if not sys.stdout.isatty():
        return Destination()
    colour = "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    return Destination(width=shutil.get_terminal_size().columns, colour=colour)


def write(path: str, text: str) -> None:
    """Write text to a file, or to standard output for "-"; OutputError when that fails."""
    if path == "-":
        sys.stdout.write(text)
        return
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}") from error
    sys.stderr.write(f"wrote {path}\n")
