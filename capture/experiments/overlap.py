"""Busy times of communication and computation, and what they share, from a profiler's trace."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

Interval = tuple[int, int]
Kind = Literal["comm", "spin", "compute"]

NCCL = re.compile(r"(void\s+)?nccl", re.IGNORECASE)


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the same moments as disjoint, rising, half-open intervals."""
    merged: list[Interval] = []
    for start, end in sorted(interval for interval in intervals if interval[0] < interval[1]):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def intersection(left: list[Interval], right: list[Interval]) -> list[Interval]:
    """Return the moments that two unions share."""
    shared, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        start, end = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if start < end:
            shared.append((start, end))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return shared


def length(intervals: Iterable[Interval]) -> int:
    """Return the length of disjoint intervals."""
    return sum(end - start for start, end in intervals)


def kernel_kind(event: Mapping[str, Any]) -> Kind | None:
    """Return what a GPU's event is, or None for one that is no kernel."""
    if event.get("cat") != "kernel":
        return None
    if NCCL.match(event["name"]):
        return "comm"
    return "spin" if "spin_kernel" in event["name"] else "compute"


def host_kind(event: Mapping[str, Any]) -> Kind | None:
    """Return what a host's event is on a run without GPUs, or None for all that is neither."""
    name = event.get("name", "")
    if name.startswith("gloo:"):
        return None if name == "gloo:barrier" else "comm"  # the barrier is the measurement's own
    if event.get("cat") != "cpu_op" or name.startswith("c10d::"):
        return None
    return "spin" if name == "SpinBackward" else "compute"


def overlap_figures(events: Iterable[Mapping[str, Any]], *, on_gpu: bool) -> dict[str, int]:
    """Return counts and nanoseconds over all steps of one rank's recording."""
    found = _sorted_out(events, on_gpu=on_gpu)
    comm, compute = union(found["comm"]), union(found["compute"] + found["spin"])
    hidden = intersection(comm, compute)
    return {
        "comm_count": len(found["comm"]),
        "spin_count": len(found["spin"]),
        "comm_ns": length(comm),
        "compute_ns": length(compute),
        "hidden_ns": length(hidden),
        "exposed_ns": length(comm) - length(hidden),
    }


def _sorted_out(events: Iterable[Mapping[str, Any]], *, on_gpu: bool) -> dict[Kind, list[Interval]]:
    found: dict[Kind, list[Interval]] = {"comm": [], "spin": [], "compute": []}
    for event in events:
        kind = (kernel_kind if on_gpu else host_kind)(event) if event.get("ph") == "X" else None
        if kind:
            start = int(event["ts"] * 1000)
            found[kind].append((start, start + int(event["dur"] * 1000)))
    return found
