"""Which bucket each all-reduce of a backward pass is: DDP launches its buckets in their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ddptrace.intervals import IntArray
from ddptrace.metrics.gradients import Pass
from ddptrace.metrics.layouts import Layout, fitting, usual_layout

_Rows = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Numbered:
    """The buckets of one backward pass as rows of the rank's table: `first`, `first` + 1, ….

    `layout` is that of the manifest which the pass has, None where that is unknown; `is_whole` says
    that no bucket of the pass is missing.
    """

    backward: Pass
    rows: _Rows
    first: int = 0
    layout: Layout | None = None
    is_whole: bool = True


def numbered(
    passes: Sequence[Pass], size_bytes: IntArray, layouts: Sequence[Layout], usual: Layout | None
) -> list[Numbered]:
    """Return the buckets of a rank's passes; `size_bytes` is of all rows of its table.

    `usual` is the layout that most passes of the run show. A pass that fits nothing known, while
    the manifest tells what there is, may hold other all-reduces and has no numbers.
    """
    found = (_numbered(one, size_bytes, layouts, usual) for one in passes)
    return [one for one in found if one is not None]


def usual_of(passes: Sequence[tuple[Pass, IntArray]]) -> Layout | None:
    """Return the layout of most of these passes, given with the sizes of their rank's table."""
    whole = [(one, sizes) for one, sizes in passes if not (one.begun_before or one.is_cut)]
    return usual_layout(Layout(tuple(sizes[one.rows].tolist())) for one, sizes in whole)


def split(passes: Sequence[Pass], layouts: Sequence[Layout]) -> list[Pass]:
    """Return the passes of a CPU run, where only the manifest's count tells how many a step has."""
    return [piece for one in passes for piece in _pieces(one, layouts)]


def _pieces(one: Pass, layouts: Sequence[Layout]) -> Iterator[Pass]:
    counts = {len(layout) for layout in layouts if not layout.was_first}
    fitting_counts = [count for count in counts if one.rows.size % count == 0]
    count = fitting_counts[0] if len(fitting_counts) == 1 else one.rows.size
    for number in range(one.rows.size // count if layouts else 0):
        yield replace(one, number=number, rows=one.rows[number * count : (number + 1) * count])


def _numbered(
    one: Pass, size_bytes: IntArray, layouts: Sequence[Layout], usual: Layout | None
) -> Numbered | None:
    if one.begun_before or one.is_cut:
        layouts = [layout for layout in layouts if not layout.was_first]
    whole = _whole(one, size_bytes, layouts)
    if whole is not None:
        return whole
    known = [*layouts] or ([usual] if usual is not None else [])
    for layout in known:
        part = _part(one, size_bytes, layout)
        if part is not None:
            return replace(part, layout=layout if layouts else None)
    if layouts:
        return None
    has_all = usual is not None and one.rows.size >= len(usual)
    is_whole = has_all or not one.is_cut
    return Numbered(one, one.rows, is_whole=is_whole) if has_all or not one.begun_before else None


def _whole(one: Pass, size_bytes: IntArray, layouts: Sequence[Layout]) -> Numbered | None:
    """Return a pass that has all the buckets of a layout, perhaps of other sizes."""
    for rows in _without_others(one.rows, size_bytes, layouts):
        layout = fitting(layouts, size_bytes[rows])
        if layout is not None:
            return Numbered(one, rows, 0, layout)
    as_many = any(len(layout) == one.rows.size for layout in layouts)
    return Numbered(one, one.rows) if as_many else None


def _without_others(
    rows: _Rows, size_bytes: IntArray, layouts: Sequence[Layout]
) -> Iterator[_Rows]:
    """Yield what of a pass may be its buckets, surest first."""
    yield rows
    for layout in layouts:
        if layout.finds_unused and rows.size == len(layout) + 1:
            yield rows[:-1]
    if (size_bytes[rows] >= 0).all():
        for layout in layouts:
            places = _subsequence(layout.size_bytes, size_bytes[rows].tolist())
            if places is not None:
                yield rows[places]


def _subsequence(wanted: Sequence[int], sizes: Sequence[int]) -> list[int] | None:
    """Return where the sizes of a layout are among others, in order; None where they are not."""
    places: list[int] = []
    for place, size in enumerate(sizes):
        if len(places) < len(wanted) and size == wanted[len(places)]:
            places.append(place)
    return places if len(places) == len(wanted) else None


def _part(one: Pass, size_bytes: IntArray, layout: Layout) -> Numbered | None:
    """Return a pass of which the recording lacks the first buckets, or the last ones."""
    lost = len(layout) - one.rows.size
    if lost <= 0:
        return None
    firsts = [lost] if one.begun_before else []
    firsts += [0] if one.is_cut else []
    fits = [first for first in firsts if layout.agrees(size_bytes[one.rows], first)]
    return Numbered(one, one.rows, fits[0], is_whole=False) if len(fits) == 1 else None
