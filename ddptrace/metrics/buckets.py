"""The gradient buckets of a run: which collective is which, and how DDP laid them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ddptrace.intervals import IntArray
from ddptrace.manifest import RankFacts
from ddptrace.metrics.bucket_numbers import Numbered, numbered, split, usual_of
from ddptrace.metrics.bucket_times import BucketTimes, bucket_times
from ddptrace.metrics.collectives import Collected
from ddptrace.metrics.comm_table import NONE, CommTable
from ddptrace.metrics.first_ready import first_ready
from ddptrace.metrics.gradients import Pass, backward_passes
from ddptrace.metrics.layouts import Layout, told_layouts, usual_layout
from ddptrace.model import Run, Trace, Warn


@dataclass(frozen=True, slots=True, eq=False)
class Buckets:
    """The buckets of a run; `bucket` and `backward_pass` are of each collective, -1 for no bucket.

    `layout` is that of most backward passes, None without any. `is_rebuilt` says whether DDP laid
    the buckets out anew after its first step, None where neither the trace nor the manifest tell.
    """

    times: Mapping[int, BucketTimes]
    bucket: IntArray
    backward_pass: IntArray
    size_bytes: IntArray
    layout: Layout | None
    is_rebuilt: bool | None
    warnings: tuple[Warn, ...] = ()


def find_buckets(collected: Collected, run: Run) -> Buckets:
    """Return the buckets among the collectives of a run.

    `size_bytes` is that of each collective, from the manifest where the trace does not tell it.
    """
    told = {rank: run.manifest.of_rank(rank) if run.manifest else None for rank in collected.tables}
    layouts = {rank: told_layouts(facts) for rank, facts in told.items()}
    passes = {rank: _passes(collected, rank, layouts[rank]) for rank in collected.tables}
    usual = usual_of(
        [(one, collected.tables[rank].call_bytes) for rank, mine in passes.items() for one in mine]
    )
    found = {
        rank: numbered(mine, collected.tables[rank].call_bytes, layouts[rank], usual)
        for rank, mine in passes.items()
    }
    full = {rank: [one for one in run.causes if one.rank == rank] for rank in found}
    times = {
        rank: _times(collected, rank, mine, told[rank], full[rank]) for rank, mine in found.items()
    }
    layout = usual_layout(
        _layout_of(one, collected.tables[rank])
        for rank, mine in found.items()
        for one in mine
        if one.is_whole
    )
    return Buckets(
        times=times,
        bucket=_agreed(collected, {rank: one.bucket for rank, one in times.items()}),
        backward_pass=_agreed(collected, {rank: one.backward_pass for rank, one in times.items()}),
        size_bytes=_sizes(collected, found),
        layout=layout,
        is_rebuilt=_is_rebuilt(collected.tables, found, layout, list(told.values())),
        warnings=tuple(_warnings(collected.tables, passes, found, layouts)),
    )


def _passes(collected: Collected, rank: int, layouts: Sequence[Layout]) -> list[Pass]:
    recordings = collected.recordings[rank]
    found = backward_passes(recordings, collected.tables[rank], collected.words, layouts)
    return split(found, layouts) if recordings[0].trace.device == "host" else found


def _times(
    collected: Collected,
    rank: int,
    found: Sequence[Numbered],
    told: RankFacts | None,
    full: Sequence[Trace],
) -> BucketTimes:
    recordings, table = collected.recordings[rank], collected.tables[rank]
    has_hook = told is not None and any(module.comm_hook for module in told.ddp)
    times = bucket_times(recordings, table, found, has_hook=has_hook)
    return replace(times, first_ready_ns=first_ready(recordings, table, found, full))


def with_sizes(collected: Collected, buckets: Buckets) -> Collected:
    """Return the collectives with the sizes that the manifest tells of buckets."""
    return replace(collected, matching=replace(collected.matching, size_bytes=buckets.size_bytes))


def _agreed(collected: Collected, columns: Mapping[int, NDArray[np.integer]]) -> IntArray:
    """Return the value that all ranks which know one have for each collective; -1 for none."""
    wide = collected.wide(columns)
    largest = wide.max(axis=1, initial=NONE)
    agrees = ((wide == NONE) | (wide == largest[:, None])).all(axis=1)
    return np.where(agrees, largest, NONE)


def _sizes(collected: Collected, found: Mapping[int, Sequence[Numbered]]) -> IntArray:
    told = {}
    for rank, mine in found.items():
        told[rank] = np.full(len(collected.tables[rank]), NONE, np.int64)
        for one in mine:
            if one.layout is not None:
                told[rank][one.rows] = one.layout.size_bytes[one.first :][: one.rows.size]
    known = collected.matching.size_bytes
    return np.where(known == NONE, _agreed(collected, told), known)


def _layout_of(one: Numbered, table: CommTable) -> Layout:
    """Return the layout that a pass shows, as far as it and the manifest tell."""
    told = one.layout or Layout((NONE,) * one.rows.size)
    shown = table.call_bytes[one.rows]
    sizes = np.where(shown < 0, told.size_bytes, shown)
    return Layout(tuple(sizes.tolist()), told.parameters)


def _is_rebuilt(
    tables: Mapping[int, CommTable],
    found: Mapping[int, Sequence[Numbered]],
    layout: Layout | None,
    told: Sequence[RankFacts | None],
) -> bool | None:
    """Tell whether the first step has other buckets than all later ones, or DDP says so."""
    if layout is None:
        return None
    if any(_first_differs(mine, tables[rank], layout) for rank, mine in found.items()):
        return True
    modules = [module for facts in told if facts is not None for module in facts.ddp]
    said = {module.has_rebuilt_buckets for module in modules} - {None}
    return any(said) if said else None


def _first_differs(mine: Sequence[Numbered], table: CommTable, layout: Layout) -> bool:
    whole = [one for one in mine if one.is_whole]
    if not whole:
        return False
    first = whole[0].backward.recording, int(table.window[whole[0].rows[0]])
    is_usual: dict[bool, set[bool]] = {True: set(), False: set()}
    for one in whole:
        is_first = (one.backward.recording, int(table.window[one.rows[0]])) == first
        same = len(layout) == one.rows.size and layout.agrees(table.call_bytes[one.rows])
        is_usual[is_first].add(same)
    return is_usual == {True: {False}, False: {True}}


def _warnings(
    tables: Mapping[int, CommTable],
    passes: Mapping[int, Sequence[Pass]],
    found: Mapping[int, Sequence[Numbered]],
    layouts: Mapping[int, Sequence[Layout]],
) -> list[Warn]:
    """Return where the trace and the manifest do not tell the same."""
    warnings = []
    for rank, mine in found.items():
        if layouts[rank] and any(one.layout is None for one in mine):
            said = (
                "its buckets have other sizes than the manifest tells; those of the trace are used"
            )
            warnings.append(Warn("bucket_sizes_differ", said, rank))
        if layouts[rank] and passes[rank] and not mine:
            counts = sorted({one.rows.size for one in passes[rank]})
            wanted = sorted({len(layout) for layout in layouts[rank]})
            said = (
                f"its backward passes have {_either(counts)} all-reduces and DDP has "
                f"{_either(wanted)} buckets, so it is not known which are which"
            )
            warnings.append(Warn("buckets_unknown", said, rank))
    return warnings


def _either(counts: Sequence[int]) -> str:
    return " or ".join(map(str, counts))
