"""How DDP packs gradients into buckets: PyTorch's own rules, whole parameters only."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

MIB = 1 << 20
FIRST_BUCKET_BYTES = MIB
"""What DDP limits its first bucket to where it does: `dist._DEFAULT_FIRST_BUCKET_BYTES`."""
DEFAULT_CAP_MB = 25.0
NO_FIRST_LIMIT_SINCE = (2, 4)
"""From this PyTorch on a cap that the script sets is the limit of the first bucket, too."""
_VERSION = re.compile(r"(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True)
class Limits:
    """How large buckets may grow: the first of each type, and all others; bytes."""

    first_bytes: int
    cap_bytes: int


@dataclass(frozen=True, slots=True)
class Packing:
    """The rules that a job packs by.

    `limits_first` says that the first bucket is small whatever the cap is, as in PyTorch before
    2.4. `in_order` says that buckets stay as they were made of the parameters in the order of their
    registration, which `find_unused_parameters` does; else they are rebuilt as gradients come.
    """

    limits_first: bool = False
    in_order: bool = False

    def limits(self, cap_mb: float, *, is_default: bool = False) -> Limits:
        """Return the limits of a cap in MiB; a default one has a small first bucket."""
        cap_bytes = int(cap_mb * MIB)
        small = self.limits_first or is_default
        return Limits(min(FIRST_BUCKET_BYTES, cap_bytes) if small else cap_bytes, cap_bytes)


def limits_first(version: str | None) -> bool:
    """Tell whether a PyTorch limits the first bucket to 1 MiB although the script sets a cap."""
    found = _VERSION.match(version or "")
    return found is not None and (int(found[1]), int(found[2])) < NO_FIRST_LIMIT_SINCE


def pack(sizes: Sequence[int], elements: Sequence[int], limits: Limits) -> list[list[int]]:
    """Return which parameters, by their places, are in each bucket: in the order given.

    A bucket holds one type of numbers and closes as soon as it has its limit or more. What is left
    over at the end is the last buckets.
    """
    closed: list[list[int]] = []
    open_of: dict[int, list[int]] = {}
    filled: dict[int, int] = {}
    limit_of: dict[int, int] = {}
    for place, (size, element) in enumerate(zip(sizes, elements, strict=True)):
        bucket = open_of.setdefault(element, [])
        bucket.append(place)
        filled[element] = filled.get(element, 0) + size
        if filled[element] >= limit_of.get(element, limits.first_bytes):
            closed.append(bucket)
            del open_of[element]
            filled[element] = 0
            limit_of[element] = limits.cap_bytes
    return closed + [bucket for bucket in open_of.values() if bucket]


def pack_registered(
    sizes: Sequence[int], elements: Sequence[int], limits: Limits
) -> list[list[int]]:
    """Return the buckets that DDP begins with, given the parameters as they were registered.

    DDP launches them from the last to the first, so that what was left over comes first.
    """
    return sorted(pack(sizes, elements, limits), key=min, reverse=True)
