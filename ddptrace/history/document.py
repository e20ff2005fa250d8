"""What a history holds, as versioned JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ddptrace.history.runs import StoredRun

SCHEMA = 1


def list_json(runs: Sequence[StoredRun]) -> str:
    """Return some runs as JSON."""
    return _json({"runs": list(runs)})


def show_json(run: StoredRun, ranks: Sequence[dict[str, Any]]) -> str:
    """Return one run and the figures of its ranks as JSON."""
    return _json({"run": run, "ranks": list(ranks)})


def _json(content: dict[str, Any]) -> str:
    return (
        msgspec.json.format(msgspec.json.encode({"schema": SCHEMA} | content), indent=2).decode()
        + "\n"
    )
