"""The manifest of a captured run: `manifest.json`, described in docs/formats.md."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ddptrace.wording import one_line

FILE_NAME = "manifest.json"
KEY = "ddptrace_manifest"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a run's manifest tells: the world size and the rank of each file in its folder.

    `problem` says in words why a manifest that is there tells nothing.
    """

    world_size: int | None = None
    rank_of: dict[Path, int] = field(default_factory=dict)
    problem: str | None = None


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest in a folder; an empty one when there is none, or none of ours."""
    path = folder / FILE_NAME
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Manifest()
    except (OSError, ValueError, RecursionError) as error:
        return Manifest(problem=f"{one_line(path)}: cannot be read ({error}); it was left out")
    if not isinstance(document, dict) or KEY not in document:
        return Manifest()
    rank_of = _ranks(document, folder)
    world_size = _whole(document.get("world_size"))
    if world_size is not None and world_size <= max(rank_of.values(), default=0):
        problem = f"{one_line(path)}: world_size {world_size} is less than its ranks need"
        return Manifest(None, rank_of, problem)
    return Manifest(world_size, rank_of)


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
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return value if is_whole and value >= 0 else None  # type: ignore[operator,return-value]
