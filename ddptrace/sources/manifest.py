"""The manifest of a captured run: `manifest.json`, described in docs/formats.md."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FILE_NAME = "manifest.json"
KEY = "ddptrace_manifest"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a run's manifest tells: the world size and the rank of each file in its folder."""

    world_size: int | None = None
    rank_of: dict[Path, int] = field(default_factory=dict)


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest in a folder; an empty one when there is none, or none of ours."""
    path = folder / FILE_NAME
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return Manifest()
    if not isinstance(document, dict) or KEY not in document:
        return Manifest()
    return Manifest(world_size=_whole(document.get("world_size")), rank_of=_ranks(document, folder))


def _ranks(document: dict[str, Any], folder: Path) -> dict[Path, int]:
    found = {}
    listed = document.get("ranks")
    for entry in listed if isinstance(listed, list) else []:
        rank = _whole(entry.get("rank")) if isinstance(entry, dict) else None
        if rank is not None:
            files = entry.get("files")
            names = files if isinstance(files, list) else []
            found.update({(folder / str(name)).resolve(): rank for name in names})
    return found


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
