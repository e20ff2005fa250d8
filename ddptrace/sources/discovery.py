"""Which files a path, a list of paths or a pattern names."""

from __future__ import annotations

import contextlib
import glob
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ddptrace.errors import RunError, UsageError
from ddptrace.sources import foreign
from ddptrace.sources.inflate import open_bytes
from ddptrace.sources.manifest import is_manifest, read_manifests
from ddptrace.sources.nsys_files import SQLITE_SUFFIX, UNREADABLE_SUFFIXES, is_exported
from ddptrace.sources.nsys_parquet import STRINGS_FILE, is_parquet_export
from ddptrace.wording import listed, one_line

_SUFFIXES = (".json", ".json.gz", SQLITE_SUFFIX, *UNREADABLE_SUFFIXES)


@dataclass(frozen=True, slots=True)
class Found:
    """The files of a run: `root` is the folder they have in common, `folders` those given by name.

    `named` files were asked for by name, so they must be traces; others lie in a folder that
    was, where other people's JSON may lie too.
    """

    root: Path
    folders: tuple[Path, ...]
    named: tuple[Path, ...]
    others: tuple[Path, ...]

    @property
    def files(self) -> tuple[Path, ...]:
        """All files, those asked for by name first."""
        return self.named + self.others

    @property
    def above(self) -> tuple[Path, ...]:
        """The folders that may hold what belongs to the whole run."""
        return (self.root, *self.folders)


def find(paths: Sequence[str | Path]) -> Found:
    """Return the trace files that paths or glob patterns name; RunError when there are none.

    A file that is named twice, or by a link to another one, is there once.
    """
    if not paths or not all(str(path) for path in paths):
        raise UsageError("no path is given; give the folder that holds the traces")
    given = _expanded(paths)
    folders = [path for path in given if path.is_dir() and not is_parquet_export(path)]
    files = [path for path in given if path not in folders]
    named = _distinct([path for path in files if not is_manifest(path)], ())
    others = _distinct([path for folder in folders for path in _in_folder(folder)], named)
    if not named and not others:
        raise RunError(_nothing_in(folders) if folders else _only_manifests(files))
    return Found(_root([*named, *others]), tuple(folders), tuple(named), tuple(others))


def is_input(path: Path, paths: Sequence[str | Path]) -> bool:
    """Tell whether a file is one of the run's that paths name; an earlier merged file is not."""
    if not path.exists():
        return False
    real = _real(path)
    found = find(paths)
    manifests = (file for folder in found.above for file in folder.glob("*") if is_manifest(file))
    inputs = {_real(file) for file in (*found.files, *manifests)}
    # An export to Parquet is a folder of files.
    return not inputs.isdisjoint((real, real.parent)) and not is_merged(path)


def is_merged(path: Path) -> bool:
    """Tell whether a file is one that `ddptrace merge` wrote."""
    start = bytearray(64)
    with contextlib.suppress(OSError), contextlib.closing(open_bytes(path)) as source:
        source.readinto(memoryview(start))
    return foreign.is_merged(bytes(start))


def _distinct(paths: Sequence[Path], known: Sequence[Path]) -> list[Path]:
    """Return the paths of different files, links after what they point to, without known ones."""
    seen = {_real(path) for path in known}
    kept = []
    for path in sorted(paths, key=Path.is_symlink):
        real = _real(path)
        if real not in seen:
            seen.add(real)
            kept.append(path)
    return kept


def _real(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:  # the latter from a loop, before Python 3.13
        raise RunError(f"{one_line(path)}: cannot be opened: its links lead nowhere") from error


def _expanded(paths: Sequence[str | Path]) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        try:
            matches = [str(path)] if Path(path).exists() else []
        except OSError as error:
            raise RunError(f"{one_line(path)}: cannot be opened: {error.strerror}") from error
        # Path.glob takes no absolute pattern.
        matches = matches or sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207
        if not matches:
            raise RunError(
                f"{one_line(path)}: no such file or folder; give the folder that holds the traces"
            )
        found += map(Path, matches)
    return found


def total_bytes(paths: Sequence[Path]) -> int:
    """Return the size of all files together; those that cannot be opened count nothing."""
    size = 0
    for path in paths:
        with contextlib.suppress(OSError):
            size += path.stat().st_size
    return size


def _in_folder(folder: Path) -> list[Path]:
    """Return the traces at any depth below a folder, hidden ones and manifests left out."""
    found = (
        path.parent if path.name == STRINGS_FILE else path
        for path in sorted(folder.rglob("*"))
        if path.name == STRINGS_FILE or _may_be_trace(path)
    )
    return [
        path
        for path in found
        if not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]


def _may_be_trace(path: Path) -> bool:
    name = path.name.lower()
    if name.endswith(UNREADABLE_SUFFIXES):
        return path.is_file() and not is_exported(path)
    return name.endswith(_SUFFIXES) and not is_manifest(path) and path.is_file()


def _root(paths: Sequence[Path]) -> Path:
    """Return the deepest folder that holds all the files."""
    parents = [path.absolute().parent for path in paths]
    root = parents[0]
    while not all(parent.is_relative_to(root) for parent in parents):
        root = root.parent
    return root


def _only_manifests(paths: Sequence[Path]) -> str:
    names = listed({one_line(path) for path in paths})
    return f"{names}: tells of traces and is none; give the folder that holds the traces"


def _nothing_in(paths: Sequence[Path]) -> str:
    folder = ", ".join(map(str, paths))
    told = read_manifests(paths).manifest
    reasons = {} if told is None else {each.rank: each.problem for each in told.ranks}
    if any(reasons.values()):
        said = "; ".join(f"rank {rank}: {reason}" for rank, reason in reasons.items() if reason)
        return f"{folder}: no rank was recorded: {said}"
    ranks = () if told is None else told.ranks
    if any(each.unprofiled for each in ranks) and not any(each.files for each in ranks):
        return (
            f"{folder}: its steps were timed and not recorded, which is enough for ddptrace check; "
            "record some with ddptrace capture"
        )
    return (
        f"{folder}: no traces here (.json, .json.gz, or .sqlite of Nsight Systems); export one a "
        "rank with torch.profiler's export_chrome_trace(f'rank{rank}.json.gz')"
    )
