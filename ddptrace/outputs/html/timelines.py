"""The timelines of a page: a block of data a step, which the page unpacks when it is shown."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from ddptrace.intervals import IntArray
from ddptrace.metrics.steps import StepMetrics
from ddptrace.outputs.html.chosen import Chosen, StepNumber
from ddptrace.outputs.html.lanes import Lane, Recorded, fewer, renamed, rows_of, waits_of
from ddptrace.report import Report
from ddptrace.wording import one_line

MOST_OF_CELL = 100_000
"""Of one rank in one step."""
_FLOOR = 60  # of a rank in a step, however many there are of both
_LONGEST_NAME = 160
_OF_CAUSES = (
    "Recorded with the host's activity to tell causes; the figures of this page are of other "
    "steps. Collectives are not matched here, so waiting is not told from transfer."
)


@dataclass(frozen=True, slots=True)
class Cell:
    """One rank in one step: its window on the clock of the report, what to call it, its figures.

    `run` tells the runs of a comparison apart; `tail_ns` is where its tail begins and ends.
    """

    rank: int
    start_ns: int
    end_ns: int
    run: str = ""
    partial: bool = False
    idle_known: bool = True
    tail_ns: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """What can be chosen to be shown: ranks in one step, of the figures' recordings or others."""

    key: str
    title: str
    cells: Sequence[Cell]
    common_clock: bool = True
    note: str = ""


@dataclass(slots=True)
class Names:
    """The names that rows of all timelines refer to, each once and of a length that can be read.

    There are `most` of them at most.
    """

    most: int
    words: list[str] = field(default_factory=list)
    _places: dict[str, int] = field(default_factory=dict)
    _of_recording: dict[int, IntArray] = field(default_factory=dict)

    def places_of(self, recorded: Recorded) -> IntArray:
        """Return the places of a recording's names, -1 for those that a page has no room for."""
        key = id(recorded)
        if key not in self._of_recording:
            places = [self._place(name) for name in recorded.timeline.names]
            self._of_recording[key] = np.array(places, np.int64)
        return self._of_recording[key]

    def _place(self, name: str) -> int:
        word = one_line(name[: 2 * _LONGEST_NAME])
        word = word if len(word) <= _LONGEST_NAME else f"{word[: _LONGEST_NAME - 1]}…"
        if word not in self._places:
            if len(self.words) >= self.most:
                return -1
            self._places[word] = len(self.words)
            self.words.append(word)
        return self._places[word]


@dataclass(frozen=True, slots=True)
class Drawing:
    """How timelines are packed: into how many rows, which first, with which names.

    `order` are places of steps and cells: the first ones get all the rows that they need.
    """

    rows: int
    order: Sequence[tuple[int, int]]
    names: Names


@dataclass(frozen=True, slots=True)
class Block:
    """A packed timeline: its data, how many intervals were recorded, and how many rows are drawn.

    `kinds` are the kinds of time that it has.
    """

    step: Step
    data: str
    intervals: int
    rows: int
    kinds: frozenset[str]


def steps_of(report: Report, chosen: Chosen) -> list[Step]:
    """Return the steps of a report whose timeline a page can show, in order of time.

    Those of a recording of the host, of which there are no figures, come last.
    """
    if report.timeline is None:
        return []
    common = not any(one.code == "no_common_clock" for one in report.run.warnings)
    ends = _last_ends(report)
    figures = [
        Step(
            key=f"step-{place}",
            title=title_of(rows[0]),
            cells=[_cell(row, ends.get((row.step, row.rank))) for row in rows],
            common_clock=common,
        )
        for place, (step, rows) in enumerate(chosen.rows.items())
    ]
    return [*figures, *_steps_of_causes(report, common)]


def title_of(row: StepMetrics) -> str:
    """Return what a step is called: its number, and its name where that says more."""
    if row.step is None:
        return "whole recording"
    plain = row.name in (None, f"ProfilerStep#{row.step}", f"step {row.step}")
    return f"step {row.step}" if plain else f"step {row.step}: {one_line(row.name)[:_LONGEST_NAME]}"


def _steps_of_causes(report: Report, common: bool) -> Iterator[Step]:
    timeline = report.timeline
    if timeline is None:
        return
    cells: dict[StepNumber, list[Cell]] = {}
    for recording in timeline.causes:
        for window in recording.windows:
            cell = Cell(recording.rank, window.start_ns, window.end_ns)
            cells.setdefault(window.step, []).append(cell)
    for place, (step, mine) in enumerate(sorted(cells.items(), key=lambda item: item[0] or 0)):
        yield Step(
            key=f"host-{place}",
            title=f"step {step} with the host",
            cells=sorted(mine, key=lambda cell: cell.rank),
            common_clock=common,
            note=_OF_CAUSES,
        )


def _cell(row: StepMetrics, last_end_ns: int | None) -> Cell:
    tail = None
    if row.tail_ns and last_end_ns is not None:
        tail = last_end_ns - row.tail_ns, last_end_ns
    return Cell(
        rank=row.rank,
        start_ns=row.start_ns,
        end_ns=row.end_ns,
        partial=row.partial or row.step_ns is None,
        idle_known=row.idle_ns is not None,
        tail_ns=tail,
    )


def _last_ends(report: Report) -> dict[tuple[StepNumber, int], int]:
    """Return when the last communication of each step ended on each rank."""
    ends: dict[tuple[StepNumber, int], int] = {}
    for one in report.collectives:
        for each in one.ranks:
            key = one.step, each.rank
            ends[key] = max(ends.get(key, each.end_ns), each.end_ns)
    return ends


def recordings_of(report: Report) -> dict[int, list[Recorded]]:
    """Return what can be drawn of each rank."""
    timeline = report.timeline
    if timeline is None:
        return {}
    waits = waits_of(report.collectives)
    of_rank: dict[int, list[Recorded]] = {}
    for recording in timeline.recordings:
        mine = Recorded.of(recording, waits.get(recording.rank, ()))
        of_rank.setdefault(recording.rank, []).append(mine)
    for recording in timeline.causes:
        of_rank.setdefault(recording.rank, []).append(Recorded.of(recording))
    return of_rank


def blocks(
    steps: Sequence[Step],
    recordings: Mapping[str, Mapping[int, Sequence[Recorded]]],
    drawing: Drawing,
) -> list[Block]:
    """Return the steps packed, in their order; `recordings` are by run and rank."""
    found: dict[tuple[int, int], dict[str, Lane]] = {}
    intervals = dict.fromkeys(range(len(steps)), 0)
    room, left = drawing.rows, len(drawing.order)
    for step, place in drawing.order:
        cell = steps[step].cells[place]
        lanes = _lanes(cell, recordings[cell.run].get(cell.rank, []), drawing.names)
        left -= 1
        most = min(max(room - _FLOOR * left, _FLOOR), MOST_OF_CELL)
        intervals[step] += rows_of([lanes])
        kept = fewer(lanes, most, cell.end_ns - cell.start_ns)
        room -= rows_of([kept])
        found[step, place] = kept
    return [
        _packed(one, [found.get((at, place), {}) for place in range(len(one.cells))], intervals[at])
        for at, one in enumerate(steps)
    ]


def urgency(
    steps: Sequence[Step], chosen: Sequence[int], first: Sequence[str]
) -> list[tuple[int, int]]:
    """Return the places of all cells: of the ranks to draw and the step to show before others."""

    def key(place: tuple[int, int]) -> tuple[bool, bool, int, int]:
        step, cell = place
        one = steps[step]
        return one.cells[cell].rank not in chosen, one.key not in first, step, cell

    every = [(step, cell) for step, one in enumerate(steps) for cell in range(len(one.cells))]
    return sorted(every, key=key)


def _lanes(cell: Cell, recordings: Sequence[Recorded], names: Names) -> dict[str, Lane]:
    """Return what ran in a cell's window; nothing of a partial one, which may lack some."""
    if cell.partial:
        return {}
    found: dict[str, Lane] = {}
    for recorded in recordings:
        if not _holds(recorded, cell):
            continue
        lanes = recorded.lanes(cell.start_ns, cell.end_ns, idle_known=cell.idle_known)
        found |= renamed(lanes, names.places_of(recorded))
    return found


def _holds(recorded: Recorded, cell: Cell) -> bool:
    """Tell whether a recording is the one of a cell; old reports do not tell their windows."""
    windows = recorded.timeline.windows
    if not windows:
        return True
    return any(one.start_ns < cell.end_ns and one.end_ns > cell.start_ns for one in windows)


def _packed(step: Step, cells: Sequence[Mapping[str, Lane]], intervals: int) -> Block:
    """Return a step as a header in JSON and columns of whole numbers, compressed."""
    origins = _origins(step)
    longest_ns = max(
        (cell.end_ns - begin for cell, begin in zip(step.cells, origins, strict=True)), default=0
    )
    tick_ns = longest_ns // 2**31 + 1  # 32 bits hold two seconds in ns
    columns: list[IntArray] = []
    rows = []
    for cell, lanes, origin_ns in zip(step.cells, cells, origins, strict=True):
        rows.append(
            {
                "rank": cell.rank,
                "run": cell.run,
                "partial": cell.partial,
                "idle_known": cell.idle_known,
                "origin_ns": origin_ns,
                "window": [cell.start_ns - origin_ns, cell.end_ns - origin_ns],
                "tail": None
                if cell.tail_ns is None
                else [moment - origin_ns for moment in cell.tail_ns],
                "lanes": {
                    name: _columns(lane, origin_ns, tick_ns, columns)
                    for name, lane in lanes.items()
                },
            }
        )
    drawn = rows_of(cells)
    header: dict[str, Any] = {
        "tick_ns": tick_ns,
        "length_ns": longest_ns,
        "intervals": intervals,
        "rows": rows,
    }
    text = msgspec.json.encode(header)
    text += b" " * (-(len(text) + 4) % 4)
    numbers = np.concatenate(columns) if columns else np.empty(0, np.int64)
    data = len(text).to_bytes(4, "little") + text + numbers.astype("<i4").tobytes()
    kinds = frozenset(name for lanes in cells for name in lanes)
    return Block(step, packed(data), intervals, drawn, kinds)


def _origins(step: Step) -> list[int]:
    """Return what the times of each cell count from: the start of the step in the cell's run."""
    if not step.common_clock:
        return [cell.start_ns for cell in step.cells]
    first: dict[str, int] = {}
    for cell in step.cells:
        first[cell.run] = min(first.get(cell.run, cell.start_ns), cell.start_ns)
    return [first[cell.run] for cell in step.cells]


def _columns(lane: Lane, origin_ns: int, tick_ns: int, columns: list[IntArray]) -> list[int]:
    """Add the columns of a lane; return how many rows, and whether rows stand for several."""
    start = (lane.start_ns - origin_ns) // tick_ns
    several = bool((lane.count > 1).any())
    columns += [
        np.diff(start, prepend=0),  # which compress better than the starts
        (lane.end_ns - origin_ns) // tick_ns - start,
        lane.name,
    ]
    if several:
        columns += [lane.count, lane.busy_ns // tick_ns]
    return [len(lane), int(several)]


def packed(data: bytes) -> str:
    """Return bytes as text that the page's script unpacks."""
    return base64.b64encode(zlib.compress(data, 6)).decode()


def note_of(block: Block | None) -> str:
    """Return what to know of a timeline before it is believed."""
    if block is None:
        return ""
    said = [block.step.note]
    if not block.step.common_clock:
        said.append("The ranks have no clock in common: each row starts with its own window.")
    if block.rows < block.intervals:
        said.append(
            f"The page holds {block.rows:,} of this step's {block.intervals:,} intervals: "
            "gaps too short to see are closed so that the file stays small. All figures are exact."
        )
    return " ".join(filter(None, said))
