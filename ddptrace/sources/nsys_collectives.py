"""What the collectives library says in its NVTX ranges: communicators, sizes, and who is who."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddptrace import kernels
from ddptrace.intervals import IntArray
from ddptrace.model import Group
from ddptrace.sources.collectives import UNTOLD, Description
from ddptrace.sources.columns import Codes
from ddptrace.sources.nsys_ranges import Range
from ddptrace.sources.nsys_store import Store

Schemas: TypeAlias = Mapping[tuple[int | None, int], list[tuple[str, int, int]]]
"""The name, type and place of each entry of a binary payload, by domain and schema."""

_ENTRIES = "NVTX_PAYLOAD_SCHEMA_ENTRIES"
# Types of entries, as NVTX numbers them, that hold whole numbers; how to unpack them.
_NUMBERS = {
    3: "<h",
    4: "<H",
    5: "<i",
    6: "<I",
    7: "<q",
    8: "<Q",
    9: "<q",
    10: "<Q",
    11: "<b",
    12: "<B",
    13: "<h",
    14: "<H",
    15: "<i",
    16: "<I",
    17: "<q",
    18: "<Q",
    22: "<Q",
}
_HEAD = struct.Struct("<QQQ")


@dataclass(frozen=True, slots=True)
class Payload:
    """What one range tells; None where it does not. `size_bytes` is what the call was given."""

    communicator: int | None = None
    size_bytes: int | None = None
    ranks: int | None = None
    rank: int | None = None


def read_schemas(store: Store) -> Schemas:
    """Return how the binary payloads of a file are laid out."""
    found: dict[tuple[int | None, int], list[tuple[str, int, int]]] = {}
    columns = ("domainId", "schemaId", "name", "type", "offset")
    for domain, schema, name, kind, offset in store.rows(_ENTRIES, columns):
        entry = (str(name), kind, offset or 0)
        entries = found.setdefault((domain, schema), [])
        if entry not in entries:  # every process says the same again
            entries.append(entry)
    return found


def payload(range_: Range, schemas: Schemas) -> Payload:
    """Return what is attached to a range of the collectives library."""
    told = _from_json(range_.json) or _from_binary(range_, schemas)
    values = {key: _whole(told.get(name)) for key, name in kernels.PAYLOAD_NAMES.items()}
    return Payload(**values)


def _whole(value: object) -> int | None:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return value if is_whole and value >= 0 else None  # type: ignore[operator,return-value]


def _from_json(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _from_binary(range_: Range, schemas: Schemas) -> dict[str, Any]:
    """Return the first payload: how many there are, then schema, size and place of each."""
    data = range_.binary or b""
    if len(data) < 8 + _HEAD.size:
        return {}
    schema, size, place = _HEAD.unpack_from(data, 8)
    content = data[place : place + size]
    return {
        name: struct.unpack_from(_NUMBERS[kind], content, offset)[0]
        for name, kind, offset in schemas.get((range_.domain, schema), [])
        if kind in _NUMBERS and 0 <= offset <= len(content) - struct.calcsize(_NUMBERS[kind])
    }


def told_rank(payloads: Iterable[Payload]) -> Payload:
    """Return the payload that tells a process's rank among all: that of the largest communicator.

    Only the calls that make a communicator tell, and only if they were recorded.
    """
    known = [one for one in payloads if one.rank is not None and one.ranks is not None]
    return max(known, key=lambda one: one.ranks or 0, default=Payload())


def calls_of(
    ranges: Sequence[Range], schemas: Schemas, thread: IntArray, moment_ns: IntArray
) -> tuple[NDArray[np.int32], list[Description]]:
    """Return for each launch which collective's call it happened in, and what is told of these.

    The numbers index the descriptions. The first of these tells nothing: it is that of a launch in
    no call, or in one that was not recorded.
    """
    calls = [one for one in ranges if one.end_ns and kernels.is_gpu_collective_call(one.name)]
    sizes = _sizes(payload(one, schemas) for one in ranges)
    described = Codes({Description(): 0})
    found = np.zeros(thread.size, np.int32)
    for of_thread in {one.thread for one in calls}:
        mine = [one for one in calls if one.thread == of_thread]
        start = np.array([one.start_ns for one in mine])
        end = np.array([one.end_ns for one in mine])
        code = described.of([_description(one, payload(one, schemas), sizes) for one in mine])
        rows = np.flatnonzero(thread == of_thread)
        place = np.searchsorted(start, moment_ns[rows], side="right") - 1
        inside = (place >= 0) & (moment_ns[rows] < end[np.maximum(place, 0)])
        found[rows] = np.where(inside, code[np.maximum(place, 0)], 0)
    return found, list(described)


def _sizes(payloads: Iterable[Payload]) -> dict[int, int]:
    """Return how many ranks each communicator has, as far as its making was recorded."""
    return {
        one.communicator: one.ranks
        for one in payloads
        if one.communicator is not None and one.ranks is not None
    }


def _description(call: Range, told: Payload, sizes: Mapping[int, int]) -> Description:
    communicator = told.communicator
    group = None
    if communicator is not None:
        group = Group(f"communicator {communicator:#x}", size=sizes.get(communicator))
    return Description(
        operation=kernels.called_collective(call.name),
        group=group,
        part_bytes=UNTOLD if told.size_bytes is None else told.size_bytes,
    )
