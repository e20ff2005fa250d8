"""Which rank a file is of, when the file itself does not say: manifest, then names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ddptrace.errors import RunError
from ddptrace.wording import listed

# Names as launchers and trainers write them: rank3.json, rank-3, trace_rank_3, worker3_step_12,
# 3_trace.json. A local rank says nothing: it repeats on every node.
_RANK = re.compile(
    r"(?<![A-Za-z])(global[-_.]?|local[-_.]?)?rank[-_.]?(\d{1,6})(?!\d)", re.IGNORECASE
)
_WORKER = re.compile(r"(?<![A-Za-z])worker[-_.]?(\d{1,6})(?!\d)", re.IGNORECASE)
_LEADING = re.compile(r"^(\d{1,6})[-_.]?trace", re.IGNORECASE)
_NUMBER = re.compile(r"^\d{1,5}$")  # longer ones are dates and times

HOW_TO_NAME = "name the files rank0.json, rank1.json, …, or put them into folders rank_0, rank_1, …"


def named_rank(path: Path, root: Path, *, lone: bool) -> int | None:
    """Return the rank in the name of a file or of a folder between it and `root`.

    For a `lone` file the name of `root` itself counts, too.
    """
    leading = _LEADING.match(path.name)
    in_file = _explicit(path.name)
    if in_file is None and leading:
        return int(leading[1])
    if in_file is not None:
        return in_file
    below = [folder.name for folder in path.relative_to(root).parents if folder.name]
    explicit = map(_explicit, [*below, root.name] if lone else below)
    numbers = (int(name) for name in below if _NUMBER.match(name))
    return next((rank for rank in (*explicit, *numbers) if rank is not None), None)


def _explicit(name: str) -> int | None:
    """Return the one rank that a name tells with the word; None when it tells none or several."""
    told = [(found[1] or "", int(found[2])) for found in _RANK.finditer(name)]
    overall = [rank for kind, rank in told if kind.lower().startswith("global")]
    plain = [rank for kind, rank in told if not kind]
    worker = [int(found[1]) for found in _WORKER.finditer(name)]
    ranks = set(overall or plain or worker)
    return ranks.pop() if len(ranks) == 1 else None


def refuse_unnamed(paths: Sequence[str]) -> RunError:
    """Return the error for files whose rank nothing tells."""
    return RunError(
        f"no rank is known for {listed(paths)}: neither the content nor the name tells "
        f"it; {HOW_TO_NAME}"
    )
