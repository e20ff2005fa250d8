"""What PyTorch's metadata tells of a collective: operation, group, sizes, peers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ddptrace import kernels
from ddptrace.model import Group
from ddptrace.sources.events import Args, Id
from ddptrace.wording import one_line

UNTOLD = -1
_LARGEST = 1 << 62
_LARGEST_RANK = 1_000_000


class Told(NamedTuple):
    """The metadata of one kind of call, as the file has it."""

    collective: Id = None
    in_elements: Id = None
    out_elements: Id = None
    dtype: Id = None
    group: Id = None
    group_ranks: Id = None
    group_size: Id = None
    source: Id = None
    destination: Id = None

    @property
    def operation(self) -> str | None:
        """The operation in the file's own word."""
        return None if self.collective is None else str(self.collective)

    def size_bytes(self) -> int:
        """Return the size of the whole array; -1 where it is not told."""
        element = kernels.element_bytes(str(self.dtype))
        size = number(self.group_size)
        elements = kernels.whole_elements(
            kernels.collective_operation("", self.operation or ""),
            number(self.in_elements),
            number(self.out_elements),
            size,
        )
        return UNTOLD if element is None or elements is None else elements * element

    def of_integers(self) -> bool | None:
        """Tell whether the array is of whole numbers; None where its type is not told."""
        return None if self.dtype is None else kernels.is_integer_type(str(self.dtype))

    def named_group(self, listed: Mapping[str, Group]) -> Group | None:
        """Return the process group, with what the header's list adds; None when none is told."""
        if self.group is None:
            return None
        name = one_line(self.group)
        ranks = rank_list(self.group_ranks)
        size = len(ranks) if ranks else number(self.group_size)
        if size != UNTOLD and ranks is None and name in listed and listed[name].size == size:
            return listed[name]
        return Group(name, ranks, size if size > 0 else None)

    def peers(self) -> tuple[int, int]:
        """Return source and destination of a point-to-point transfer; -1 for what is not told."""
        return number(self.source), number(self.destination)


NOTHING_TOLD = Told()


def told_by(args: Args) -> Told:
    """Return what the arguments of an event tell of a collective."""
    return Told(
        args.collective,
        args.in_elements,
        args.out_elements,
        args.dtype,
        args.group,
        args.group_ranks,
        args.group_size,
        args.source,
        args.destination,
    )


def number(value: object) -> int:
    """Return a number as a file writes it, as number or as text; -1 for anything else."""
    try:
        found = int(value) if isinstance(value, (int, str)) else UNTOLD
    except ValueError:
        return UNTOLD
    return found if 0 <= found < _LARGEST else UNTOLD


def rank_list(text: object) -> tuple[int, ...] | None:
    """Return the ranks in "[0, 1]"; None for a list that was cut short, an empty one, or none.

    PyTorch writes "..." for the middle of a long list.
    """
    try:
        found = json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError):
        return None
    return _ranks(found)


def listed_groups(config: object) -> dict[str, Group]:
    """Return the groups in the header's `pg_config` by name; what cannot be read is left out."""
    groups = {}
    for entry in config if isinstance(config, list) else []:
        if isinstance(entry, dict) and entry.get("pg_name") is not None:
            name, ranks = one_line(entry["pg_name"]), _ranks(entry.get("ranks"))
            size = len(ranks) if ranks else number(entry.get("pg_size"))
            groups[name] = Group(name, ranks, size if size > 0 else None)
    return groups


def _ranks(found: Any) -> tuple[int, ...] | None:  # noqa: ANN401  # whatever JSON holds
    whole = isinstance(found, Sequence) and not isinstance(found, str)
    if not whole or not found or not all(type(rank) is int for rank in found):
        return None
    distinct = sorted(set(found))
    fits = len(distinct) == len(found) and distinct[0] >= 0 and distinct[-1] < _LARGEST_RANK
    return tuple(distinct) if fits else None
