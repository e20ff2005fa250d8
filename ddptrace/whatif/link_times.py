"""What all-reduces of many sizes took on the link of a run, as its recorder timed them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ddptrace.intervals import IntArray
from ddptrace.manifest import Link, LinkGroup

OPERATION = "all_reduce"


@dataclass(frozen=True, slots=True, eq=False)
class LinkTimes:
    """Times of rising sizes; they never fall."""

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
    pairs = zip(group.size_bytes, group.time_ns, strict=False)  # a damaged manifest may lack some
    known = {size: float(np.median(times)) for size, times in pairs if size and times}
    if len(known) < 2:
        return None
    sizes = np.array(sorted(known), np.int64)
    times = np.maximum.accumulate([known[size] for size in sizes.tolist()])
    return LinkTimes(sizes, times)
