"""Which rank a file is of, when the file itself does not say: manifest, then names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ddptrace.errors import RunError

# Names as launchers and trainers write them: rank3.json, rank-3, trace_rank_3, worker3_step_12,
# 3_trace.json. A local rank says nothing: it repeats on every node.
_IN_FILE_NAME = (
    re.compile(r"(?<!local)(?<!local[-_.])rank[-_.]?(\d+)", re.IGNORECASE),
    re.compile(r"worker[-_.]?(\d+)", re.IGNORECASE),
    re.compile(r"^(\d+)[-_.]?trace", re.IGNORECASE),
)
_IN_FOLDER_NAME = (*_IN_FILE_NAME[:2], re.compile(r"^(\d+)$"))

HOW_TO_NAME = "name the files rank0.json, rank1.json, …, or put them into folders rank_0, rank_1, …"


def named_rank(path: Path, root: Path) -> int | None:
    """Return the rank in the name of a file or of a folder between it and `root`."""
    for pattern in _IN_FILE_NAME:
        found = pattern.search(path.name)
        if found:
            return int(found[1])
    folders = path.relative_to(root).parents if path.is_relative_to(root) else path.parents
    for folder in folders:
        for pattern in _IN_FOLDER_NAME:
            found = pattern.search(folder.name)
            if found:
                return int(found[1])
    return None


def refuse_unnamed(paths: Sequence[str]) -> RunError:
    """Return the error for files whose rank nothing tells."""
    return RunError(
        f"no rank is known for {', '.join(sorted(paths))}: neither the content nor the name tells "
        f"it; {HOW_TO_NAME}"
    )
