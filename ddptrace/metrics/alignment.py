"""Which entries of several ranks' lists of collectives are the same ones, without a common clock.

Nothing here compares the clocks of two ranks: only operations, sizes, order, and how far apart
entries end on each rank are used, which no shift of a clock changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddptrace.intervals import IntArray

Places: TypeAlias = NDArray[np.intp]
NONE = -1
# Ranks see the end of a collective within this part of the usual time between two ends.
_NEAR = 0.25
_NEAREST_NS = 1_000_000
# So many of the entries must end at the same times for times to be believed.
_ENOUGH = 0.9
_FEWEST = 4
_MOST_SHIFTS = 200
# Clocks drift, so how far they are apart is taken from so many places nearby only.
_NEARBY = 8
_FEWEST_KNOWN = 2
_SPREADS = 6
_NEAREST_KNOWN_NS = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """A rank's collectives of one group in order; an operation or size of -1 is not told."""

    place: IntArray
    operation: NDArray[np.int32]
    size_bytes: IntArray
    end_ns: IntArray

    def __len__(self) -> int:
        return int(self.place.size)

    def take(self, rows: Places | NDArray[np.bool_]) -> Entries:
        """Return the chosen entries."""
        return Entries(
            self.place[rows], self.operation[rows], self.size_bytes[rows], self.end_ns[rows]
        )


def agree(one: Entries, other: Entries) -> NDArray[np.bool_]:
    """Tell which entries may be the same collective: nothing that both tell differs."""
    return _same(one.operation, other.operation) & _same(one.size_bytes, other.size_bytes)


def _same(one: NDArray[np.integer], other: NDArray[np.integer]) -> NDArray[np.bool_]:
    same: NDArray[np.bool_] = (one == other) | (one < 0) | (other < 0)
    return same


def align(ranks: Sequence[Entries]) -> Places:
    """Return one row a collective, in order, with its position in each rank's list; -1 for none.

    Lists are aligned place by place, each from its end. Every entry is in exactly one row.
    """
    orders = [np.argsort(entries.place, kind="stable") for entries in ranks]
    lists = [entries.take(order) for entries, order in zip(ranks, orders, strict=True)]
    even, odd = _even_places(lists)
    rows = [_together([np.isin(entries.place, even) for entries in lists])]
    unclear = ~_all_agree(lists, rows[0])
    odd = np.union1d(odd, lists[0].place[rows[0][unclear, 0]])
    rows[0] = rows[0][~np.isin(lists[0].place[rows[0][:, 0]], odd)]
    known = _Known.of(lists, rows[0])
    rows += [_aligned_place(lists, place, known) for place in odd]
    found = np.concatenate(rows)
    found = found[np.argsort(_place_of(lists, found), kind="stable")]
    columns = [np.append(order, NONE)[found[:, rank]] for rank, order in enumerate(orders)]
    return np.stack(columns, axis=1)


def _even_places(lists: Sequence[Entries]) -> tuple[IntArray, IntArray]:
    """Return the places with as many entries on each rank, and the others."""
    places = np.unique(np.concatenate([entries.place for entries in lists]))
    counts = np.zeros((len(lists), places.size), np.int64)
    for rank, entries in enumerate(lists):
        there, count = np.unique(entries.place, return_counts=True)
        counts[rank, np.searchsorted(places, there)] = count
    is_even = (counts == counts[0]).all(axis=0)
    return places[is_even], places[~is_even]


def _together(chosen: Sequence[NDArray[np.bool_]]) -> Places:
    return np.stack([np.flatnonzero(mine) for mine in chosen], axis=1)


def _all_agree(lists: Sequence[Entries], rows: Places) -> NDArray[np.bool_]:
    first = lists[0].take(rows[:, 0])
    others = (entries.take(rows[:, rank]) for rank, entries in enumerate(lists[1:], start=1))
    fits: NDArray[np.bool_] = np.ones(len(rows), np.bool_)
    for other in others:
        fits &= agree(first, other)
    return fits


def _place_of(lists: Sequence[Entries], rows: Places) -> IntArray:
    """Return the place of each row, which is that of any of its entries."""
    places = [
        np.where(rows[:, rank] >= 0, np.append(entries.place, NONE)[rows[:, rank]], -1)
        for rank, entries in enumerate(lists)
    ]
    found: IntArray = np.max(places, axis=0)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """The collectives of the places where ranks have the same entries, in order of place."""

    place: IntArray
    places: IntArray
    ends_ns: Sequence[IntArray]

    @classmethod
    def of(cls, lists: Sequence[Entries], rows: Places) -> _Known:
        place = lists[0].place[rows[:, 0]]
        ends_ns = [entries.end_ns[rows[:, rank]] for rank, entries in enumerate(lists)]
        return cls(place, np.unique(place), ends_ns)

    def apart(self, one: int, other: int, place: int) -> IntArray:
        """Return how far the ends of two ranks are apart in the places nearest to one."""
        at = int(np.searchsorted(self.places, place)) - _NEARBY // 2
        begin = max(min(at, self.places.size - _NEARBY), 0)
        near = self.places[begin : begin + _NEARBY]
        if not near.size:
            return np.empty(0, np.int64)
        first = np.searchsorted(self.place, near[0])
        last = np.searchsorted(self.place, near[-1], side="right")
        apart: IntArray = self.ends_ns[one][first:last] - self.ends_ns[other][first:last]
        return apart


def _aligned_place(lists: Sequence[Entries], place: int, known: _Known) -> Places:
    """Return the rows of one place, on which the ranks do not have the same entries."""
    # Lists are in order of place: a search in them does not grow with the number of odd places.
    rows_of = [np.arange(*np.searchsorted(one.place, (place, place + 1))) for one in lists]
    most = max(range(len(lists)), key=lambda rank: rows_of[rank].size)
    reference = lists[most].take(rows_of[most])
    found = np.full((len(reference), len(lists)), NONE)
    extra = []
    for rank, rows in enumerate(rows_of):
        pairs = np.arange(len(reference))
        if rank != most:
            apart = known.apart(most, rank, place)
            pairs = _pairs(reference, lists[rank].take(rows), apart)
        found[pairs >= 0, rank] = rows[pairs[pairs >= 0]]
        alone = np.setdiff1d(np.arange(rows.size), pairs)
        extra.append(np.full((alone.size, len(lists)), NONE))
        extra[-1][:, rank] = rows[alone]
    return np.concatenate([*extra, found])


def _pairs(one: Entries, other: Entries, apart: IntArray) -> Places:
    """Return for each entry of the longer list which one of the other it is; -1 for none.

    `apart` is how far ends of the two ranks are apart elsewhere.
    """
    as_elsewhere = _by_known(one, other, apart)
    if as_elsewhere is not None:
        return as_elsewhere
    shared = min(len(one), len(other))
    tail = np.full(len(one), NONE)
    tail[len(one) - shared :] = np.arange(len(other) - shared, len(other))
    fits = bool(agree(one.take(tail >= 0), other.take(tail[tail >= 0])).all())
    if fits and _ends_together(one, other, tail):
        return tail
    by_time = _by_time(one, other)
    if by_time is not None:
        return by_time
    return tail if fits else _by_kind(one, other)


def _by_known(one: Entries, other: Entries, apart: IntArray) -> Places | None:
    """Return the pairs whose ends are as far apart as elsewhere; None unless all of other's are.

    Never two of one list may be near enough to one of the other: then it would be a guess.
    """
    if apart.size < _FEWEST_KNOWN or not len(other):
        return None
    shift_ns = float(np.median(apart))
    spread_ns = float(np.median(np.abs(apart - shift_ns)))
    gaps = np.concatenate([np.diff(np.sort(each.end_ns)) for each in (one, other)])
    most_ns = int(gaps.min(initial=2 * _NEAREST_NS)) / 2 - 1
    if _SPREADS * spread_ns > most_ns:
        return None
    tolerance_ns = min(max(_SPREADS * spread_ns, _NEAREST_KNOWN_NS), most_ns)
    pairs = _nearest(one, other, shift_ns, tolerance_ns)
    return pairs if int((pairs >= 0).sum()) == len(other) else None


def _tolerance_ns(one: Entries) -> float:
    gaps = np.diff(np.sort(one.end_ns))
    return min(_NEAR * float(np.median(gaps)), _NEAREST_NS) if gaps.size else _NEAREST_NS


def _ends_together(one: Entries, other: Entries, pairs: Places) -> bool:
    """Tell whether the ends of pairs are all as far apart, as those of the same collectives are."""
    paired = pairs >= 0
    apart = one.end_ns[paired] - other.end_ns[pairs[paired]]
    if not apart.size:
        return True
    return bool((np.abs(apart - np.median(apart)) <= _tolerance_ns(one)).all())


def _by_time(one: Entries, other: Entries) -> Places | None:
    """Return the pairs that end together for some shift of the clocks; None without a clear one."""
    best, most = None, max(_FEWEST, _ENOUGH * len(other)) - 1
    for shift_ns in _shifts(one, other):
        pairs = _nearest(one, other, shift_ns, _tolerance_ns(one))
        count = int((pairs >= 0).sum())
        if count > most:
            best, most = pairs, count
    return best


def _shifts(one: Entries, other: Entries) -> Iterator[float]:
    """Yield how far clocks may be apart, for each number of entries lost at the end, fewest first.

    The middle value of all is right as long as most of the losses are on one side of it.
    """
    spare = len(one) - len(other)
    for lost_at_end in range(min(spare, _MOST_SHIFTS) + 1):
        first = spare - lost_at_end
        mine = one.end_ns[first : first + len(other)]
        if mine.size:
            yield float(np.median(mine - other.end_ns))


def _nearest(one: Entries, other: Entries, shift_ns: float, tolerance_ns: float) -> Places:
    """Return for each entry the other's one that ends nearest to it, if that is near enough."""
    ends = one.end_ns - shift_ns
    order = np.argsort(ends, kind="stable")
    after = np.minimum(np.searchsorted(ends[order], other.end_ns), ends.size - 1)
    before = np.maximum(after - 1, 0)
    nearer = np.abs(ends[order][before] - other.end_ns) < np.abs(ends[order][after] - other.end_ns)
    mine = order[np.where(nearer, before, after)]
    near = np.abs(ends[mine] - other.end_ns) <= tolerance_ns
    near &= agree(one.take(mine), other)
    pairs = np.full(len(one), NONE)
    pairs[mine[near]] = np.flatnonzero(near)
    return pairs


def _by_kind(one: Entries, other: Entries) -> Places:
    """Return the longest common run of operations and sizes, as late in the lists as it can be."""
    length = np.zeros((len(one) + 1, len(other) + 1), np.int32)
    fits = np.empty((len(one), len(other)), np.bool_)
    everything = np.arange(len(other))
    for row in range(len(one)):
        fits[row] = agree(one.take(np.full(len(other), row)), other.take(everything))
        longer = np.maximum(length[row, 1:], length[row, :-1] + fits[row])
        length[row + 1, 1:] = np.maximum.accumulate(longer)
    return _walked_back(length, fits)


def _walked_back(length: NDArray[np.int32], fits: NDArray[np.bool_]) -> Places:
    row, column = fits.shape
    pairs = np.full(row, NONE)
    while row and column:
        if fits[row - 1, column - 1] and length[row, column] == length[row - 1, column - 1] + 1:
            row, column = row - 1, column - 1
            pairs[row] = column
        elif length[row - 1, column] >= length[row, column - 1]:
            row -= 1
        else:
            column -= 1
    return pairs
