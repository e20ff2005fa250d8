"""What the recorder of a run tells of it: `manifest.json`, described in docs/formats.md."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import msgspec

from ddptrace.manifest import (
    DdpModule,
    Link,
    LinkGroup,
    Manifest,
    Mark,
    RankFacts,
    RecordedPart,
    Replicas,
    Unprofiled,
)
from ddptrace.wording import one_line

PATTERN = "manifest*.json"
"""The names of manifests; where nodes share no folder while they record, each writes its own."""
KEY = "ddptrace_manifest"
VERSION = 1
_LARGEST = 1 << 62  # beyond it a number is damage and does not fit a column
_LARGEST_RANK = 1_000_000
_PACKED = ".gz"

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class Told:
    """What the manifests of some folders tell: of the run, and of each file by its real path.

    `problems` says in words what of them could not be used.
    """

    manifest: Manifest | None = None
    rank_of: dict[Path, int] = field(default_factory=dict)
    part_of: dict[Path, RecordedPart] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


class _ToldMark(msgspec.Struct):
    step: Annotated[int, msgspec.Meta(ge=0, le=_LARGEST)]
    start_ns: Annotated[int, msgspec.Meta(ge=0, le=_LARGEST)]
    end_ns: Annotated[int, msgspec.Meta(ge=0, le=_LARGEST)]


def is_manifest(path: Path) -> bool:
    """Tell whether a file is a manifest by its name, so that it is never read as a trace."""
    return path.match(PATTERN)


def read_manifests(folders: Iterable[Path]) -> Told:
    """Return what all manifests in some folders tell; of a thing told twice, the first."""
    problems: list[str] = []
    found: list[tuple[Path, Manifest]] = []
    # A folder may be there by two names, the later of them nearer to what the user wrote.
    distinct = {folder.resolve(): folder for folder in folders}.values()
    for path in (path for folder in distinct for path in sorted(folder.glob(PATTERN))):
        document = _document(path, problems)
        if document is not None:
            found.append((path, _manifest(document, one_line(path), problems)))
    if not found:
        return Told(problems=tuple(problems))
    rank_of: dict[Path, int] = {}
    part_of: dict[Path, RecordedPart] = {}
    for file, facts, part in _files(found):
        rank_of.setdefault(file, facts.rank)
        if part is not None:
            part_of.setdefault(file, part)
    joined = _joined([manifest for _, manifest in found])
    return Told(joined, rank_of, part_of, tuple(problems))


def _document(path: Path, problems: list[str]) -> dict[str, Any] | None:
    """Return a manifest's content; None when it is none of ours or cannot be used at all."""
    name = one_line(path)
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        problems.append(f"{name}: cannot be read ({one_line(error)}); it was left out")
        return None
    if not isinstance(document, dict) or KEY not in document:
        return None
    if document[KEY] != VERSION:
        problems.append(
            f"{name}: is a manifest of version {one_line(document[KEY])}, and this ddptrace reads "
            f"version {VERSION}; it was left out"
        )
        return None
    return document


def _manifest(document: Mapping[str, Any], where: str, problems: list[str]) -> Manifest:
    told = _record(Manifest, document, f"{where}: ", problems) or Manifest()
    ranks = {facts.rank: facts for facts in reversed(told.ranks)}
    size = told.world_size
    if size is not None and size <= max(ranks, default=0):
        problems.append(f"{where}: world_size {size} is less than its ranks need")
        size = None
    return replace(told, world_size=size, ranks=_rising(ranks))


def _rising(ranks: Mapping[int, RankFacts]) -> tuple[RankFacts, ...]:
    return tuple(ranks[rank] for rank in sorted(ranks))


def _joined(manifests: list[Manifest]) -> Manifest:
    """Return several manifests of one run as one: nodes tell of their own ranks each."""
    ranks = {facts.rank: facts for each in reversed(manifests) for facts in each.ranks}
    versions = {name: word for each in reversed(manifests) for name, word in each.versions.items()}
    sizes = [each.world_size for each in manifests if each.world_size is not None]
    size = max(sizes, default=None)
    return replace(manifests[0], world_size=size, versions=versions, ranks=_rising(ranks))


def _files(
    found: Iterable[tuple[Path, Manifest]],
) -> Iterator[tuple[Path, RankFacts, RecordedPart | None]]:
    """Give the real path of every file that manifests name, with what they tell of it."""
    for path, manifest in found:
        for facts in manifest.ranks:
            parts = {part.file: part for part in facts.parts}
            for name in dict.fromkeys((*facts.files, *parts)):
                # No file can have a name with a NUL or half a character in it.
                with contextlib.suppress(ValueError):
                    yield _on_disk(path.parent / name).resolve(), facts, parts.get(name)


def _on_disk(path: Path) -> Path:
    """Return the file that is there: somebody may have unpacked or packed it since."""
    is_packed = path.name.endswith(_PACKED)
    other = path.with_name(path.name.removesuffix(_PACKED) if is_packed else path.name + _PACKED)
    return other if other.is_file() and not path.exists() else path


# --- a JSON object as a record of the model: what does not fit is left out, and nothing else


def _record(kind: type[Record], document: object, where: str, problems: list[str]) -> Record | None:
    """Return what of a JSON object fits a record; None when that is not enough for one."""
    if not isinstance(document, dict):
        problems.append(f"{where} is no object; it was left out")
        return None
    known: dict[str, Any] = {}
    for name, hint in _HINTS[kind].items():
        place = f"{where}{'' if where.endswith(': ') else '.'}{name}"
        if document.get(name) is not None:
            try:
                known[name] = _value(name, hint, document[name], place, problems)
            except (ValueError, RecursionError, msgspec.ValidationError) as error:
                problems.append(f"{place} cannot be used ({one_line(error)}); it was left out")
        elif name in _REQUIRED[kind]:
            problems.append(f"{where} tells no {name}; it was left out")
    return kind(**known) if _REQUIRED[kind] <= known.keys() else None


def _required_of(kind: type) -> frozenset[str]:
    return frozenset(
        each.name
        for each in fields(kind)
        if each.default is MISSING and each.default_factory is MISSING
    )


_KINDS: tuple[type, ...] = (
    Manifest, RankFacts, Unprofiled, Replicas, RecordedPart, DdpModule, Link, LinkGroup,
)  # fmt: skip
_HINTS: dict[type, dict[str, Any]] = {kind: get_type_hints(kind) for kind in _KINDS}
_REQUIRED: dict[type, frozenset[str]] = {kind: _required_of(kind) for kind in _KINDS}
_Whole = Annotated[int, msgspec.Meta(ge=0, le=_LARGEST)]
# Keyed by the model's annotation, then by the field: what a number of its kind can be.
_TYPES: dict[Any, Any] = {
    int | None: _Whole,
    int: _Whole,
    tuple[int, ...]: tuple[_Whole, ...],
    tuple[tuple[int, ...], ...]: tuple[tuple[_Whole, ...], ...],
    "rank": Annotated[int, msgspec.Meta(ge=0, le=_LARGEST_RANK)],
    "world_size": Annotated[int, msgspec.Meta(gt=0, le=_LARGEST_RANK)],
    "exit_code": int,
}
_LISTS: dict[str, type[Any]] = {
    "ranks": RankFacts, "parts": RecordedPart, "ddp": DdpModule, "groups": LinkGroup,
}  # fmt: skip
_RECORDS: dict[str, type[Any]] = {"unprofiled": Unprofiled, "replicas": Replicas, "link": Link}
_PATHS = frozenset({"file", "files"})


def _value(name: str, hint: Any, value: object, where: str, problems: list[str]) -> Any:  # noqa: ANN401  # of the field's type
    if name in _LISTS:
        entries = enumerate(msgspec.convert(value, list[Any]))
        found = (
            _record(_LISTS[name], entry, f"{where}[{place}]", problems) for place, entry in entries
        )
        return tuple(entry for entry in found if entry is not None)
    if name in _RECORDS:
        return _record(_RECORDS[name], value, where, problems)
    if name == "marks":
        return _marks(value)
    if name == "versions":
        return _words(value, where, problems)
    found = msgspec.convert(value, _TYPES.get(name) or _TYPES.get(hint, hint))
    return found if name in _PATHS else _cleaned(found)


def _marks(value: object) -> tuple[Mark, ...]:
    """Return step marks; ValueError when they cannot be those of one recording."""
    told = sorted(msgspec.convert(value, list[_ToldMark]), key=lambda mark: mark.start_ns)
    if any(mark.end_ns < mark.start_ns for mark in told):
        raise ValueError("a step ends before it starts")
    if any(after.start_ns < before.end_ns for before, after in pairwise(told)):
        raise ValueError("steps overlap")
    if len({mark.step for mark in told}) < len(told):
        raise ValueError("a step is there twice")
    return tuple(Mark(mark.step, f"step {mark.step}", mark.start_ns, mark.end_ns) for mark in told)


def _words(value: object, where: str, problems: list[str]) -> dict[str, str]:
    told: dict[str, Any] = _cleaned(msgspec.convert(value, dict[str, Any]))
    for name, word in told.items():
        if not isinstance(word, (str, type(None))):
            problems.append(f"{where}.{name} cannot be used (it is no text); it was left out")
    return {name: word for name, word in told.items() if isinstance(word, str)}


def _cleaned(value: Any) -> Any:  # noqa: ANN401  # whatever JSON holds
    """Return a value with every text in it as one line that can be printed."""
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, (list, tuple)):
        return type(value)(map(_cleaned, value))
    if isinstance(value, dict):
        return {one_line(name): _cleaned(each) for name, each in value.items()}
    return value
