"""Progress of long work, on a terminal's stderr only."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable


def on_stderr(verb: str, things: str = "files") -> Callable[[int, int], None] | None:
    """Return a function that shows how far work is; None where stderr cannot show it."""
    if sys.stderr is None or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return None

    def show(done: int, total: int) -> None:
        if total > 1:
            end = "\r" if done < total else "\r\033[K"
            sys.stderr.write(f"\r{verb} {done}/{total} {things}{end}")
            sys.stderr.flush()

    return show
