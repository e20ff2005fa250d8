"""Which files a path, a list of paths or a pattern names."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ddptrace.errors import RunError
from ddptrace.sources.manifest import FILE_NAME

_SUFFIXES = (".json", ".json.gz")
_NSYS_SUFFIXES = (".sqlite", ".nsys-rep", ".qdrep", ".qdstrm")


@dataclass(frozen=True, slots=True)
class Found:
    """The files of a run: `root` is the folder they have in common.

    `named` files were asked for by name, so they must be traces; others lie in a folder that
    was, where other people's JSON may lie too.
    """

    root: Path
    named: tuple[Path, ...]
    others: tuple[Path, ...]

    @property
    def files(self) -> tuple[Path, ...]:
        """All files, those asked for by name first."""
        return self.named + self.others


def shown(path: str | Path) -> str:
    """Return a path as text that can be printed and written, whatever bytes its name holds."""
    return str(path).encode("utf-8", "replace").decode()


def find(paths: Sequence[str | Path]) -> Found:
    """Return the trace files that paths or glob patterns name; RunError when there are none."""
    named: dict[Path, None] = {}
    others: dict[Path, None] = {}
    for path in _expanded(paths):
        if path.is_dir():
            others.update(dict.fromkeys(_in_folder(path)))
        else:
            named[path] = None
    kept = [path for path in others if path not in named]
    if not named and not kept:
        raise RunError(_nothing_in([Path(path) for path in paths]))
    return Found(_root([*named, *kept]), tuple(named), tuple(kept))


def _expanded(paths: Sequence[str | Path]) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        if Path(path).exists():
            found.append(Path(path))
            continue
        matches = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207  # Path.glob takes no absolute pattern
        if not matches:
            raise RunError(f"{path}: no such file or folder; give the folder that holds the traces")
        found += map(Path, matches)
    return found


def _in_folder(folder: Path) -> list[Path]:
    """Return the JSON files at any depth below a folder, hidden ones and the manifest left out."""
    found = (path for path in sorted(folder.rglob("*")) if path.name.lower().endswith(_SUFFIXES))
    return [
        path
        for path in found
        if path.name != FILE_NAME
        and path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]


def _root(paths: Sequence[Path]) -> Path:
    """Return the deepest folder that holds all the files."""
    parents = [path.absolute().parent for path in paths]
    root = parents[0]
    while not all(parent.is_relative_to(root) for parent in parents):
        root = root.parent
    return root


def _nothing_in(paths: Sequence[Path]) -> str:
    folder = ", ".join(map(str, paths))
    reports = [
        path
        for top in paths
        if top.is_dir()
        for path in top.rglob("*")
        if path.name.lower().endswith(_NSYS_SUFFIXES)
    ]
    if reports:
        return (
            f"{folder}: holds Nsight Systems reports ({reports[0].name}) and no Kineto traces; "
            "this version reads torch.profiler's .json and .json.gz only"
        )
    return (
        f"{folder}: no .json or .json.gz traces here; export one a rank with torch.profiler's "
        "export_chrome_trace(f'rank{rank}.json.gz')"
    )
