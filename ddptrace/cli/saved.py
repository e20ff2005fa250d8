"""Reports that `report --json` saved, where a command takes them in the place of traces."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING

from ddptrace.errors import RunError, UsageError

if TYPE_CHECKING:
    from ddptrace.report import Report  # numpy behind it would slow `--help` down

_GZIP = b"\x1f\x8b"


def saved_report(path: Path, given: list[str]) -> Report:
    """Return a saved report; RunError when the file is none, or of another version.

    `given` are options of reading traces, which a report cannot follow any more: UsageError.
    """
    from ddptrace.report import from_json

    if given:
        raise UsageError(f"{given[0]}: {path} is a saved report, which stays as it was made")
    try:
        data = path.read_bytes()
        return from_json((gzip.decompress(data) if data.startswith(_GZIP) else data).decode())
    except (RunError, UnicodeDecodeError) as error:
        raise RunError(f"{path}: {error}") from error
