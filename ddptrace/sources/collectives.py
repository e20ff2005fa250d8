"""What a recording tells of its comm operations, whichever source it is from."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddptrace.intervals import IntArray
from ddptrace.kernels import collective_operation, works_on_integers
from ddptrace.model import Collectives, Group, Ops
from ddptrace.sources.names import Names

UNTOLD = -1


@dataclass(frozen=True, slots=True)
class Description:
    """What is told of one kind of call; see `Collectives` for the fields.

    Where `of_integers` is None, the name of the operation says it.
    """

    operation: str | None = None
    group: Group | None = None
    size_bytes: int = UNTOLD
    part_bytes: int = UNTOLD
    source: int = UNTOLD
    destination: int = UNTOLD
    of_integers: bool | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Operations:
    """A recording's operations and what their codes stand for."""

    ops: Ops
    names: Names
    collectives: Collectives
    groups: tuple[Group, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Calls:
    """The comm operations of a recording: their names' codes and which description each has."""

    name: NDArray[np.int32]
    description: NDArray[np.int32]
    sequence: IntArray | None = None

    @classmethod
    def untold(cls, name: NDArray[np.int32]) -> Calls:
        """Return operations of which nothing is told but their names; the descriptions are one."""
        return cls(name, np.zeros(name.size, np.int32))


def collectives(
    calls: Calls, names: Names, descriptions: Sequence[Description], listed: Collection[Group] = ()
) -> tuple[Collectives, Names, tuple[Group, ...]]:
    """Return the table of comm operations, the names with those of operations, and the groups.

    `listed` are the groups that the recording says the rank is in. An operation of which no group
    is told is of the rank's only one, if it has only one.
    """
    operation, names = _operations(calls, names, descriptions)
    groups, group = _groups(descriptions, listed)
    columns: dict[str, Any] = {
        field: np.array([getattr(one, field) for one in descriptions], kind)[calls.description]
        for field, kind in _COLUMNS.items()
    }
    sequence = calls.sequence
    table = Collectives(
        operation=operation,
        of_integers=_of_integers(calls, names, descriptions),
        group=group[calls.description],
        sequence=np.full(operation.size, UNTOLD, np.int64) if sequence is None else sequence,
        **columns,
    )
    return table, names, groups


_COLUMNS = {
    "size_bytes": np.int64,
    "part_bytes": np.int64,
    "source": np.int32,
    "destination": np.int32,
}


def _operations(
    calls: Calls, names: Names, descriptions: Sequence[Description]
) -> tuple[NDArray[np.int32], Names]:
    """Return the code of each call's operation, and the names that the codes stand for.

    A code is -1 where neither the description nor the name say which operation it is.
    """
    both = calls.name.astype(np.int64) * len(descriptions) + calls.description
    distinct, place = np.unique(both, return_inverse=True)
    found = [
        collective_operation(names.texts[text], descriptions[number].operation)
        for text, number in (divmod(each, len(descriptions)) for each in distinct.tolist())
    ]
    words = tuple(dict.fromkeys(word for word in found if word is not None))
    first = len(names.texts)
    codes = [UNTOLD if word is None else first + words.index(word) for word in found]
    return np.array(codes, np.int32)[place.reshape(-1)], Names(names.texts + words)


def _of_integers(
    calls: Calls, names: Names, descriptions: Sequence[Description]
) -> NDArray[np.bool_]:
    told = np.array([one.of_integers is not None for one in descriptions], np.bool_)
    said = np.array([bool(one.of_integers) for one in descriptions], np.bool_)
    by_name = names.where(works_on_integers, calls.name)
    return np.where(told[calls.description], said[calls.description], by_name)


def _groups(
    descriptions: Sequence[Description], listed: Collection[Group]
) -> tuple[tuple[Group, ...], NDArray[np.int32]]:
    """Return the groups, and the place among them of the group of each description."""
    told = [one.group for one in descriptions if one.group is not None]
    groups = tuple(dict.fromkeys(told))
    names = {group.name for group in (*listed, *groups)}
    only = UNTOLD
    if len(names) == 1:
        groups = groups or tuple(listed)
        only = 0
    places = [only if one.group is None else groups.index(one.group) for one in descriptions]
    return groups, np.array(places, np.int32)


def rows_of(is_comm: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Return the column `collective` of operations of which these are communication."""
    rows = np.full(is_comm.size, UNTOLD, np.int32)
    rows[is_comm] = np.arange(int(is_comm.sum()), dtype=np.int32)
    return rows
