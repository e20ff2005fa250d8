"""All ranks of a run as one file for Perfetto: what each did when, on aligned clocks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

import msgspec
import numpy as np
from numpy.typing import NDArray

from ddptrace import __version__
from ddptrace.engine import Progress
from ddptrace.intervals import IntArray, Intervals
from ddptrace.kernels import Kind
from ddptrace.metrics.bucket_rows import BucketOnRank
from ddptrace.metrics.clocks import hosts
from ddptrace.metrics.collective_rows import Collective, CollectiveOnRank
from ddptrace.metrics.collectives import waits
from ddptrace.metrics.exposure import exposed
from ddptrace.metrics.measured import Measured
from ddptrace.metrics.steps import StepMetrics
from ddptrace.outputs import chrome_events as chrome
from ddptrace.outputs.chrome_events import Track, ms
from ddptrace.report import Report
from ddptrace.sources.foreign import MERGED_KEY
from ddptrace.wording import counted

MOST_KERNELS = 100_000
"""With more operations than this in the run, only the time they fill is drawn, unless asked for."""

# The names of colours that Chrome's viewer knows; Perfetto colours by the slice's name.
_COMPUTE = '"name":"compute","cname":"thread_state_running"'
_HIDDEN = '"name":"hidden","cname":"good"'
_WAITING = '"name":"waiting","cname":"terrible"'
_TRANSFER = '"name":"transfer","cname":"bad"'
_UNCLEAR = '"name":"not matched","cname":"yellow"'
_COPIES = '"name":"copies","cname":"grey"'
_COUNTER = "exposed communication of the step, ms"
_STEP_FIGURES = (
    *("step_ns", "compute_ns", "hidden_comm_ns", "exposed_comm_ns", "exposed_wait_ns"),
    *("exposed_transfer_ns", "exposed_mem_ns", "idle_ns", "tail_ns"),
)


def render(
    measured: Measured, report: Report, *, every_kernel: bool, progress: Progress | None = None
) -> Iterator[str]:
    """Yield the text of the file in pieces; `every_kernel` however many there are."""
    names = hosts(measured.run)
    with_kernels = every_kernel or _operations(measured) <= MOST_KERNELS
    parts = _parts(report.collectives)
    yield _head(report)
    before = ""
    for done, rank in enumerate(measured.recordings):
        host = names.get(rank)
        rows = _Rows(rank)
        lines = [
            *chrome.process(rank, f"rank {rank}" + ("" if host is None else f" ({host})")),
            *_steps(rows, [row for row in report.steps if row.rank == rank]),
            *_busy(rows, measured, rank),
            *_collectives(rows, parts.get(rank, [])),
            *(_streams(rows, _Operations.of(measured, rank)) if with_kernels else ()),
        ]
        yield before + ",\n".join(lines)
        before = ",\n"
        if progress is not None:
            progress(done + 1, len(measured.recordings))
    yield "\n]}\n"


def summary(measured: Measured, report: Report, *, every_kernel: bool) -> Iterator[str]:
    """Yield in words what the file holds."""
    steps = counted(len({row.step for row in report.steps}), "step")
    collectives = counted(len(report.collectives), "collective")
    yield f"{counted(len(report.run.ranks), 'rank')}, {steps}, {collectives}"
    operations = _operations(measured)
    if operations > MOST_KERNELS and not every_kernel:
        yield (
            f"{operations:,} GPU operations are drawn as the time that they fill; --kernels draws "
            "each of them"
        )
    if report.run.warnings:
        yield f"{counted(len(report.run.warnings), 'warning')}, which ddptrace report tells"


def _operations(measured: Measured) -> int:
    return sum(len(one.trace.ops) for mine in measured.recordings.values() for one in mine)


def _head(report: Report) -> str:
    about = {
        "written_by": f"ddptrace {__version__} merge",
        "origin_ns": report.run.origin_ns,
        "clocks": msgspec.to_builtins(report.run.clocks),
    }
    return (
        f'{{"{MERGED_KEY}":1,"displayTimeUnit":"ns","otherData":{json.dumps(about)},'
        '"traceEvents":[\n'
    )


@dataclass(frozen=True, slots=True)
class _Rows:
    """Gives the tracks of a rank their numbers, from top to bottom."""

    rank: int
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def next(self) -> Track:
        """Return a new track below the others."""
        return Track(self.rank, next(self.numbers))


def _steps(rows: _Rows, steps: Sequence[StepMetrics]) -> Iterator[str]:
    track = rows.next()
    yield from chrome.named(track, "steps")
    for row, end_ns in zip(steps, _ends(steps), strict=True):
        title = "whole recording" if row.step is None else f"step {row.step}"
        values = [(name.replace("_ns", "_ms"), ms(getattr(row, name))) for name in _STEP_FIGURES]
        arguments = chrome.arguments([*values, ("partial", json.dumps(row.partial))])
        yield chrome.a_slice(track, row.start_ns, end_ns, f'"name":"{title}","args":{arguments}')
    yield from _counters(rows.rank, steps)


def _ends(steps: Sequence[StepMetrics]) -> list[int]:
    """Return the ends of steps, which on a clock that drifts may lie behind the next start."""
    following = [row.start_ns for row in steps[1:]]
    return [
        *(min(row.end_ns, start) for row, start in zip(steps[:-1], following, strict=True)),
        *(row.end_ns for row in steps[-1:]),
    ]


def _counters(rank: int, steps: Sequence[StepMetrics]) -> Iterator[str]:
    """Yield what of each step was exposed and waited for, and zero where no step is."""
    known = [row for row in steps if row.exposed_comm_ns is not None]
    starts = {row.start_ns for row in known}
    for row in known:
        values = [("exposed", ms(row.exposed_comm_ns))]
        if row.exposed_wait_ns is not None:
            values.append(("waiting", ms(row.exposed_wait_ns)))
        yield chrome.counter(rank, row.start_ns, _COUNTER, chrome.arguments(values))
        if not any(start in starts for start in (row.end_ns, row.end_ns - 1, row.end_ns + 1)):
            zero = chrome.arguments([(name, "0") for name, _ in values])
            yield chrome.counter(rank, row.end_ns, _COUNTER, zero)


def _busy(rows: _Rows, measured: Measured, rank: int) -> Iterator[str]:
    """Yield when a rank computed, communicated hidden and exposed, and copied."""
    tracks = {
        name: rows.next()
        for name in ("compute", "hidden communication", "exposed communication", "copies")
    }
    for name, track in tracks.items():
        yield from chrome.named(track, name)
    for number, one in enumerate(measured.recordings[rank]):
        parts = exposed(one, waits(measured.collected, rank, number))
        for name, rest, times in (
            ("compute", _COMPUTE, one.busy.compute),
            ("hidden communication", _HIDDEN, one.busy.hidden),
            ("copies", _COPIES, one.busy.mem),
        ):
            moved = measured.base.moved_set(rank, number, times)
            which = np.zeros(len(moved), np.int64)
            yield from chrome.slices(tracks[name], moved.start, moved.end, [rest], which)
        pieces = [(parts.wait, _WAITING), (parts.transfer, _TRANSFER), (parts.unclear, _UNCLEAR)]
        times, which = _in_order([times for times, _ in pieces])
        moved = measured.base.moved_set(rank, number, times)
        rests = [rest for _, rest in pieces]
        track = tracks["exposed communication"]
        yield from chrome.slices(track, moved.start, moved.end, rests, which)


def _in_order(pieces: Sequence[Intervals]) -> tuple[Intervals, IntArray]:
    """Return disjoint sets as one list in order of time, and of which set each interval is."""
    start = np.concatenate([piece.start for piece in pieces])
    end = np.concatenate([piece.end for piece in pieces])
    which = np.repeat(np.arange(len(pieces)), [len(piece) for piece in pieces])
    order = np.argsort(start, kind="stable")
    return Intervals(start[order], end[order]), which[order]


@dataclass(frozen=True, slots=True)
class _Part:
    """A rank's part in a collective: where in the arrow over its ranks it comes, "" for nowhere.

    `rest` is what all its ranks have in common: name and arguments, open at the end.
    """

    mine: CollectiveOnRank
    rest: str
    number: int
    phase: str


def _parts(collectives: Sequence[Collective]) -> dict[int, list[_Part]]:
    """Return the parts of each rank; an arrow leads from who came first to who came last."""
    found: dict[int, list[_Part]] = {}
    for number, one in enumerate(collectives, start=1):
        ranks = sorted(one.ranks, key=lambda mine: (mine.start_ns, mine.rank))
        linked = [mine.rank for mine in ranks if mine.end_ns > mine.start_ns]
        phases = dict.fromkeys(linked, "t") | dict.fromkeys(linked[:1], "s")
        phases |= dict.fromkeys(linked[-1:], "f")
        rest = _rest(one)
        for mine in ranks:
            phase = phases.get(mine.rank, "") if linked[1:] else ""
            found.setdefault(mine.rank, []).append(_Part(mine, rest, number, phase))
    return found


def _rest(one: Collective) -> str:
    values = {
        name: getattr(one, name)
        for name in (
            *("op", "group", "group_size", "step", "order", "size_bytes", "bucket"),
            *("backward_pass", "algbw_gb_s", "busbw_gb_s"),
        )
    }
    return (
        f'"name":{json.dumps(_title(one))},"args":{json.dumps(values)[:-1]},'
        f'"transfer_ms":{ms(one.transfer_ns)},"skew_ms":{ms(one.skew_ns)}'
    )


def _title(one: Collective) -> str:
    """Return what a collective is called: its bucket, which also tells the operation, or that."""
    size = "" if one.size_bytes is None else f" {one.size_bytes / 1e6:,.4g} MB"
    if one.bucket is None:
        return (one.op or "collective") + size
    return f"bucket {one.bucket}{size and ','}{size}"


def _collectives(rows: _Rows, parts: Sequence[_Part]) -> Iterator[str]:
    ordered = sorted(parts, key=lambda part: part.mine.start_ns)
    lane = chrome.lanes(
        np.array([part.mine.start_ns for part in ordered], np.int64),
        np.array([part.mine.end_ns for part in ordered], np.int64),
    )
    tracks, lines = _lane_tracks(rows, "collectives", int(lane.max(initial=0)) + 1)
    yield from lines
    for place, part in zip(lane.tolist(), ordered, strict=True):
        yield from _collective(tracks[place], part)


def _collective(track: Track, part: _Part) -> Iterator[str]:
    mine = part.mine
    own = (("wait", mine.wait_ns), ("hidden", mine.hidden_ns), ("exposed", mine.exposed_ns))
    rest = part.rest + "".join([f',"{name}_ms":{ms(ns)}' for name, ns in own])
    rest += _bucket(mine.bucket) + "}"
    yield chrome.a_slice(track, mine.start_ns, mine.end_ns, rest)
    if part.phase:
        yield chrome.flow(track, mine.start_ns, part.phase, part.number)
    if mine.wait_ns is None:
        return
    moving_ns = mine.start_ns + mine.wait_ns
    if mine.wait_ns:
        yield chrome.a_slice(track, mine.start_ns, moving_ns, _WAITING)
    if moving_ns < mine.end_ns:
        yield chrome.a_slice(track, moving_ns, mine.end_ns, _TRANSFER)


def _bucket(waits: BucketOnRank | None) -> str:
    if waits is None:
        return ""
    flags = (("blocked", waits.blocked), ("backlog", waits.backlog))
    told = "".join([f',"{name}":{json.dumps(value)}' for name, value in flags])
    return f',"queue_ms":{ms(waits.queue_ns)},"blocked_ms":{ms(waits.blocked_ns)}{told}'


def _lane_tracks(rows: _Rows, name: str, lanes: int) -> tuple[list[Track], list[str]]:
    """Return a track for each lane, and the lines that name them."""
    tracks = [rows.next() for _ in range(lanes)]
    names = [name, *(f"{name} ({number})" for number in range(2, lanes + 1))]
    lines = (chrome.named(track, one) for track, one in zip(tracks, names, strict=True))
    return tracks, [line for pair in lines for line in pair]


@dataclass(frozen=True, slots=True, eq=False)
class _Operations:
    """The GPU operations of a rank that are no communication; `rests` has what each is called."""

    start_ns: IntArray
    end_ns: IntArray
    device: IntArray
    stream: IntArray
    name: IntArray
    rests: list[str]

    @classmethod
    def of(cls, measured: Measured, rank: int) -> _Operations:
        """Return the operations of all recordings of the rank, in times of the report."""
        columns: list[tuple[NDArray[np.int64], ...]] = []
        rests: list[str] = []
        for number, one in enumerate(measured.recordings[rank]):
            ops = one.trace.ops
            ops = ops.take((ops.kind != Kind.COMM) & (one.trace.device == "gpu"))
            shift_ns = measured.base.shift_ns(rank, number, ops.start_ns)
            used, code = np.unique(ops.name, return_inverse=True)
            code = code.reshape(-1) + len(rests)
            times = (ops.start_ns - shift_ns, ops.end_ns - shift_ns)
            columns.append((*times, ops.device, ops.stream, code))
            rests += [f'"name":{json.dumps(one.trace.name_of(name))}' for name in used.tolist()]
        start_ns, end_ns, device, stream, name = map(np.concatenate, zip(*columns, strict=True))
        return cls(start_ns, end_ns, device, stream, name, rests)


def _streams(rows: _Rows, ops: _Operations) -> Iterator[str]:
    """Yield each kernel and copy by its name, a track a stream."""
    found, of = np.unique(np.stack((ops.device, ops.stream)), axis=1, return_inverse=True)
    several = np.unique(ops.device).size > 1
    for place, (device, stream) in enumerate(found.T.tolist()):
        mine = np.flatnonzero(of.reshape(-1) == place)
        mine = mine[np.argsort(ops.start_ns[mine], kind="stable")]
        start_ns, end_ns = ops.start_ns[mine], ops.end_ns[mine]
        lane = chrome.lanes(start_ns, end_ns)
        name = f"stream {stream}" if stream >= 0 else "unknown stream"
        label = f"GPU {device}, {name}" if several else name
        tracks, lines = _lane_tracks(rows, label, int(lane.max()) + 1)
        yield from lines
        for at, track in enumerate(tracks):
            here = lane == at
            which = ops.name[mine[here]]
            yield from chrome.slices(track, start_ns[here], end_ns[here], ops.rests, which)
