"""How DDP lays gradients out in buckets: as the manifest tells it, or as most passes show it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ddptrace.intervals import IntArray
from ddptrace.manifest import DdpModule, RankFacts
from ddptrace.metrics.comm_table import NONE


@dataclass(frozen=True, slots=True)
class Layout:
    """The buckets of one DDP module in its order; a size of -1 is unknown.

    `parameters` names those of each bucket, None where that is not told. `finds_unused` says that
    DDP reduces, behind the last bucket, which parameters were used. A layout that `was_first` has
    been replaced after the first step of the job.
    """

    size_bytes: tuple[int, ...]
    parameters: tuple[tuple[str, ...], ...] | None = None
    module: int = NONE
    finds_unused: bool = False
    was_first: bool = False

    def __len__(self) -> int:
        return len(self.size_bytes)

    def agrees(self, size_bytes: IntArray, first: int = 0) -> bool:
        """Tell whether these may be its buckets from `first` on: no known size differs."""
        mine = np.array(self.size_bytes[first : first + size_bytes.size], np.int64)
        return mine.size == size_bytes.size and bool(_same(mine, size_bytes).all())


def _same(one: IntArray, other: IntArray) -> NDArray[np.bool_]:
    same: NDArray[np.bool_] = (one == other) | (one < 0) | (other < 0)
    return same


def told_layouts(facts: RankFacts | None) -> tuple[Layout, ...]:
    """Return the layouts that the manifest tells of a rank: as it is now before as it was first."""
    modules = () if facts is None else facts.ddp
    return tuple(
        layout for number, module in enumerate(modules) for layout in _of_module(number, module)
    )


def _of_module(number: int, module: DdpModule) -> Iterable[Layout]:
    finds_unused = bool(module.find_unused_parameters)
    if module.rebuilt_bucket_bytes:
        named = len(module.bucket_parameters) == len(module.rebuilt_bucket_bytes)
        parameters = module.bucket_parameters if named else None
        yield Layout(module.rebuilt_bucket_bytes, parameters, number, finds_unused)
    if module.initial_bucket_bytes:
        replaced = bool(module.rebuilt_bucket_bytes)
        yield Layout(module.initial_bucket_bytes, None, number, finds_unused, replaced)


def fitting(layouts: Sequence[Layout], size_bytes: IntArray) -> Layout | None:
    """Return the layout that buckets of these sizes have; None if none or modules differ."""
    found = [one for one in layouts if len(one) == size_bytes.size and one.agrees(size_bytes)]
    return found[0] if len({one.module for one in found}) == 1 else None


def usual_layout(layouts: Iterable[Layout]) -> Layout | None:
    """Return the layout of most backward passes, of several the last one; None without any."""
    counted = Counter(reversed(list(layouts)))
    return counted.most_common(1)[0][0] if counted else None
