"""Which comm operations of the ranks are of one process group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddptrace.metrics.comm_table import NONE, CommTable, Vocabulary
from ddptrace.model import Group, Source

_Rows = NDArray[np.intp]
_NO_ROWS = np.empty(0, np.intp)
_UNUSED = NONE - 1


@dataclass(frozen=True, slots=True)
class Members:
    """Rows of the ranks that share a group, or one direction between two ranks of it.

    `rows` has the rows of each recorded rank's table, in order, perhaps none; `group` is None where
    the trace does not tell it. `size` is how many ranks there are, None where that is unknown.
    `is_transfer` says that it is a direction: what one rank sends the other receives, and sequence
    numbers, which count the transfers with all partners of a rank, say nothing.
    """

    group: Group | None
    rows: Mapping[int, _Rows]
    size: int | None
    is_transfer: bool = False


class _Key(NamedTuple):
    """What operations of one list have in common; -1 is what is unknown or does not matter.

    `operation` matters where no group is known; `lonely` is the rank of a transfer whose partner
    is unknown.
    """

    group: int
    operation: int
    is_transfer: int
    source: int
    destination: int
    lonely: int


def members(
    tables: Mapping[int, CommTable],
    words: Vocabulary,
    sources: Mapping[int, Source],
    world_size: int | None,
) -> list[Members]:
    """Return the rows of all ranks by group; every row is in exactly one of them.

    Operations of no known group are kept apart by what they do.
    """
    groups, numbers = _groups(tables, tuple(words.groups), sources)
    found: dict[_Key, dict[int, _Rows]] = defaultdict(dict)
    for rank, table in tables.items():
        partners = [_other(group, rank) for group in groups]
        for key, mine in _lists(rank, table, numbers[rank], partners, words).items():
            found[key][rank] = mine
    is_whole = world_size == len(tables)
    lists = []
    for key, rows in found.items():
        group = None if key.group == NONE else groups[key.group]
        ranks = sorted(_ranks(key, group, rows) & set(tables))
        size = group.size if group and group.size else len(rows) if is_whole else None
        there = {rank: rows.get(rank, _NO_ROWS) for rank in ranks}
        lists.append(Members(group, there, 2 if key.is_transfer else size, bool(key.is_transfer)))
    return lists


def _ranks(key: _Key, group: Group | None, rows: Mapping[int, _Rows]) -> set[int]:
    if key.lonely != NONE:
        return {key.lonely}
    if key.is_transfer:
        return {key.source, key.destination}
    return set(group.ranks) if group and group.ranks else set(rows)


def _lists(
    rank: int,
    table: CommTable,
    group: NDArray[np.int64],
    partners: Sequence[int],
    words: Vocabulary,
) -> dict[_Key, _Rows]:
    """Return a rank's rows by what they have in common; `partners` are those in groups of two."""
    sends, receives = (
        table.operation == words.operations.get(word, _UNUSED) for word in ("send", "recv")
    )
    partner = np.array([*partners, NONE])[group]
    to = np.where(table.destination >= 0, table.destination, partner)
    of = np.where(table.source >= 0, table.source, partner)
    source = np.where(sends, rank, np.where(receives, of, NONE))
    destination = np.where(receives, rank, np.where(sends, to, NONE))
    is_transfer = sends | receives
    is_lonely = is_transfer & (np.minimum(source, destination) == NONE)
    columns = (
        group,
        np.where(group == NONE, table.operation, NONE),
        is_transfer,
        source,
        destination,
        np.where(is_lonely, rank, NONE),
    )
    number = np.zeros(len(table), np.int64)
    for column in columns:
        values, code = np.unique(column, return_inverse=True)
        number = number * values.size + code.reshape(-1)
    found = {}
    for one in np.unique(number):
        rows = np.flatnonzero(number == one)
        found[_Key(*(int(column[rows[0]]) for column in columns))] = rows
    return found


def _other(group: Group, rank: int) -> int:
    """Return the other rank of a group of two; -1 for any other group."""
    others = [other for other in group.ranks or () if other != rank]
    return others[0] if len(others) == 1 else NONE


def _groups(
    tables: Mapping[int, CommTable], told: Sequence[Group], sources: Mapping[int, Source]
) -> tuple[Sequence[Group], dict[int, NDArray[np.int64]]]:
    """Return the groups of the run, and for each rank the number of each row's group among them."""
    known = {rank: [_with_ranks(one, rank, told) for one in told] for rank in tables}
    used = {
        rank: {known[rank][number] for number in np.unique(table.group) if number != NONE}
        for rank, table in tables.items()
    }
    only = _only_group(used, sources)
    if only is not None:
        known = {rank: [only] * len(told) for rank in tables}
    groups = tuple(dict.fromkeys(group for mine in known.values() for group in mine))
    numbers = {}
    for rank, table in tables.items():
        of_told = np.array([*(groups.index(group) for group in known[rank]), NONE], np.int64)
        numbers[rank] = of_told[table.group]
        is_member = only is not None and (only.ranks is None or rank in only.ranks)
        if is_member and (table.group == NONE).all():
            numbers[rank] = np.zeros(len(table), np.int64)
    return groups, numbers


def _with_ranks(group: Group, rank: int, told: Sequence[Group]) -> Group:
    """Return a group with the ranks that others tell for its name, where these can be meant."""
    same_name = {one for one in told if one.name == group.name and one.ranks}
    fitting = [one for one in same_name if rank in (one.ranks or ())]
    return fitting[0] if group.ranks is None and len(fitting) == 1 else group


def _only_group(used: Mapping[int, set[Group]], sources: Mapping[int, Source]) -> Group | None:
    """Return the one group of a run that has one, by whatever name each source calls it.

    A rank of which nothing is told of groups is in it, too.
    """
    by_source: dict[Source, set[Group]] = defaultdict(set)
    for rank, groups in used.items():
        by_source[sources[rank]] |= groups
    everywhere = {group for groups in by_source.values() for group in groups}
    ranks = {group.ranks for group in everywhere} - {None}
    if not everywhere or len(ranks) > 1 or any(len(groups) > 1 for groups in by_source.values()):
        return None
    return max(everywhere, key=lambda group: (group.ranks is not None, group.size or 0))
