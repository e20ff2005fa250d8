"""Matches the comm operations of all ranks: which of them are one collective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ddptrace import kernels
from ddptrace.intervals import IntArray
from ddptrace.metrics.alignment import NONE, Entries, Places, agree, align
from ddptrace.metrics.comm_table import CommTable, Vocabulary
from ddptrace.metrics.groups import Members, members
from ddptrace.model import Source


@dataclass(frozen=True, slots=True, eq=False)
class Matching:
    """All collectives, list by list in order; `row` has a column for each of `ranks`.

    `row` is the row in the rank's table, -1 where the rank has no part in it or its record is
    missing. `members` indexes `lists`; `order` counts in the list from 0. `size_bytes` is that of
    the whole array, -1 where untold. `is_matched` says that each recorded rank of the group is
    there, and that they are at least two or all of them.
    """

    ranks: tuple[int, ...]
    lists: tuple[Members, ...]
    row: Places
    members: NDArray[np.int32]
    order: IntArray
    size_bytes: IntArray
    is_matched: NDArray[np.bool_]

    def __len__(self) -> int:
        return int(self.order.size)


@dataclass(frozen=True, slots=True)
class Job:
    """What is known of the whole job: the source of each rank's recordings, and its size."""

    sources: Mapping[int, Source]
    world_size: int | None


def match(tables: Mapping[int, CommTable], words: Vocabulary, job: Job) -> Matching:
    """Return which comm operations of the ranks are one collective.

    By group and sequence number where these are told, else by order in the group, from the end of
    each step. Only what agrees in operation and size is one collective; no clocks are compared.
    """
    ranks = tuple(sorted(tables))
    lists = tuple(members(tables, words, job.sources, job.world_size))
    found = [_of_list(one, tables, words) for one in lists]
    rows = [_wide(ranks, one, row) for one, (row, _) in zip(lists, found, strict=True)]
    counts = [len(row) for row in rows]
    return Matching(
        ranks=ranks,
        lists=lists,
        row=np.concatenate([np.empty((0, len(ranks)), np.intp), *rows]),
        members=np.repeat(np.arange(len(lists), dtype=np.int32), counts),
        order=np.concatenate([np.empty(0, np.int64), *map(np.arange, counts)]),
        size_bytes=np.concatenate([np.empty(0, np.int64), *(size for _, size in found)]),
        is_matched=np.concatenate(
            [
                np.empty(0, np.bool_),
                *(_is_matched(one, row) for one, (row, _) in zip(lists, found, strict=True)),
            ]
        ),
    )


def _wide(ranks: Sequence[int], one: Members, row: Places) -> Places:
    wide = np.full((len(row), len(ranks)), NONE)
    wide[:, [ranks.index(rank) for rank in one.rows]] = row
    return wide


def _is_matched(one: Members, row: Places) -> NDArray[np.bool_]:
    enough = len(one.rows) > 1 or one.size == 1
    matched: NDArray[np.bool_] = (row != NONE).all(axis=1) & enough
    return matched


def _of_list(
    one: Members, tables: Mapping[int, CommTable], words: Vocabulary
) -> tuple[Places, IntArray]:
    """Return the rows of each collective of a list, a column a rank, and their sizes."""
    mine = {rank: _List.of(one, tables[rank], rows, words) for rank, rows in one.rows.items()}
    place = _matched(list(mine.values()), is_numbered=not one.is_transfer)
    size = np.max(
        [np.append(each.size_bytes, NONE)[place[:, at]] for at, each in enumerate(mine.values())],
        axis=0,
    )
    # From places in the list to rows of the tables.
    row = [np.append(rows, NONE)[place[:, at]] for at, rows in enumerate(one.rows.values())]
    return np.stack(row, axis=1), size


@dataclass(frozen=True, slots=True, eq=False)
class _List:
    """One rank's rows of a list; `entries` say what has to agree between ranks."""

    entries: Entries
    recording: NDArray[np.int32]
    sequence: IntArray
    size_bytes: IntArray

    @classmethod
    def of(cls, one: Members, table: CommTable, rows: Places, words: Vocabulary) -> _List:
        operation = table.operation[rows]
        size_bytes = table.size_bytes[rows].copy()
        may_differ = np.zeros(rows.size, np.bool_)
        for code in np.unique(operation):
            word = words.operation(int(code))
            mine = operation == code
            may_differ[mine] = word in kernels.SIZES_MAY_DIFFER
            parts = kernels.parts_of_whole(word, one.size)
            from_parts = mine & (size_bytes < 0) & (table.part_bytes[rows] >= 0)
            if parts is not None:
                size_bytes[from_parts] = table.part_bytes[rows][from_parts] * parts
        # What is sent on one side of a transfer is received on the other.
        told = np.full(rows.size, NONE, np.int32) if one.is_transfer else operation
        entries = Entries(
            place=table.place[rows],
            operation=told,
            size_bytes=np.where(may_differ, NONE, size_bytes),
            end_ns=table.end_ns[rows],
        )
        return cls(entries, table.recording[rows], table.sequence[rows], size_bytes)

    def take(self, rows: NDArray[np.bool_]) -> _List:
        """Return the chosen rows."""
        return _List(
            self.entries.take(rows),
            self.recording[rows],
            self.sequence[rows],
            self.size_bytes[rows],
        )


def _matched(lists: Sequence[_List], *, is_numbered: bool) -> Places:
    """Return the position of each collective in each list; -1 for none."""
    has_number = [(one.sequence >= 0) & is_numbered for one in lists]
    if not all(numbered.any() for numbered in has_number):
        return _by_order(lists)
    # What was launched before the recording has no metadata, and so no number.
    parts = []
    for chosen, matched in ((has_number, _by_number), ([~each for each in has_number], _by_order)):
        found = matched([one.take(rows) for one, rows in zip(lists, chosen, strict=True)])
        back = [np.append(np.flatnonzero(rows), NONE) for rows in chosen]
        parts.append(np.stack([rows[found[:, at]] for at, rows in enumerate(back)], axis=1))
    numbered, unnumbered = parts
    return np.concatenate((unnumbered, numbered))


def _by_number(lists: Sequence[_List]) -> Places:
    """Return what has the same number in each list; what then does not agree is nobody's partner.

    Calls that were coalesced share a number: these are told apart by their order.
    """
    nth = [_nth_from_last(one.sequence) for one in lists]
    most = max(int(each.max(initial=0)) for each in nth) + 1
    # The last of a number comes last, and no two of a rank are the same.
    numbers = [(one.sequence + 1) * most - each for one, each in zip(lists, nth, strict=True)]
    known, place = np.unique(np.concatenate(numbers), return_inverse=True)
    found = np.full((len(known), len(lists)), NONE)
    borders = np.cumsum([0, *map(len, numbers)])
    for at, (first, last) in enumerate(pairwise(borders)):
        found[place.reshape(-1)[first:last], at] = np.arange(last - first)
    return _without_disputed(lists, found)


def _nth_from_last(sequence: IntArray) -> IntArray:
    """Return which one of its number each entry is, counted from the last from 0."""
    backwards = np.argsort(sequence[::-1], kind="stable")
    ordered = sequence[::-1][backwards]
    first = np.searchsorted(ordered, ordered)
    nth = np.empty_like(sequence)
    nth[backwards] = np.arange(sequence.size) - first
    return nth[::-1]


def _without_disputed(lists: Sequence[_List], found: Places) -> Places:
    """Return rows with those taken apart on which the ranks do not agree what they did."""
    disputed = np.zeros(len(found), np.bool_)
    for at, one in enumerate(lists):
        for before, other in enumerate(lists[:at]):
            both = (found[:, at] >= 0) & (found[:, before] >= 0)
            mine, theirs = found[both, at], found[both, before]
            disputed[both] |= ~agree(one.entries.take(mine), other.entries.take(theirs))
    if not disputed.any():
        return found
    alone = [found[disputed, at] for at in range(len(lists))]
    apart = np.full((sum(map(len, alone)), len(lists)), NONE)
    for at, mine in enumerate(alone):
        apart[at * len(mine) : (at + 1) * len(mine), at] = mine
    return np.concatenate((found[~disputed], apart[(apart != NONE).any(axis=1)]))


def _by_order(lists: Sequence[_List]) -> Places:
    return align(
        [
            replace(one.entries, place=place)
            for one, place in zip(lists, _places(lists), strict=True)
        ]
    )


def _places(lists: Sequence[_List]) -> list[IntArray]:
    """Return where in the program each entry was called, as the ranks can agree on it.

    By the steps' numbers if all ranks have some in common, else by the recordings if there are as
    many of them on each rank; else all entries are one list.
    """
    working = [one for one in lists if one.sequence.size]
    steps = [np.unique(one.entries.place) for one in working]
    if steps and NONE not in np.concatenate(steps) and reduce(np.intersect1d, steps).size:
        return [one.entries.place for one in lists]
    counts = {int(one.recording.max()) for one in working}
    if len(counts) == 1:
        return [one.recording.astype(np.int64) for one in lists]
    return [np.zeros(one.sequence.size, np.int64) for one in lists]
