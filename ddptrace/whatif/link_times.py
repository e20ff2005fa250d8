"""What all-reduces of many sizes took on the link of a run, as its recorder timed them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ddptrace.intervals import IntArray
from ddptrace.manifest import Link, LinkGroup

OPERATION = "all_reduce"
_FEWEST_SIZES = 2


@dataclass(frozen=True, slots=True, eq=False)
class LinkTimes:
    """Times of two or more rising sizes; they never fall, and none is 0."""

    size_bytes: IntArray
    time_ns: NDArray[np.float64]


def link_times(link: Link | None, ranks: Collection[int], size: int | None) -> LinkTimes | None:
    """Return what was timed in the group that some recorded ranks are of, None where nothing was.

    `size` is how many ranks the group has, None where that is not known.
    """
    for group in () if link is None else link.groups:
        is_mine = set(ranks) <= set(group.members) and size in (None, len(group.members))
        if is_mine and group.operation == OPERATION:
            return _times(group)
    return None


def _times(group: LinkGroup) -> LinkTimes | None:
    """Return the shortest time of each size: what else was going on only makes calls longer.

    A larger message is never faster, so that one that took longer than a larger one was disturbed.
    """
    if len(group.size_bytes) != len(group.time_ns) or len(set(group.size_bytes)) < _FEWEST_SIZES:
        return None
    if min(group.size_bytes) <= 0 or not all(times and min(times) > 0 for times in group.time_ns):
        return None
    known = sorted(zip(group.size_bytes, map(min, group.time_ns), strict=True), reverse=True)
    sizes, times = np.array(known, np.int64).T
    never_falling = np.minimum.accumulate(times)[::-1]
    return LinkTimes(sizes[::-1].copy(), never_falling.astype(np.float64))
