"""Small traces stated in code: a timeline in µs for the metrics, Kineto JSON for the reader."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np

from ddptrace.kernels import Kind
from ddptrace.manifest import Mark
from ddptrace.metrics.recorded import Recorded
from ddptrace.metrics.steps import StepMetrics, step_metrics
from ddptrace.model import (
    NEVER_NS,
    Collectives,
    Facts,
    Group,
    HostKind,
    HostRanges,
    Ops,
    Run,
    Trace,
)

KINDS = {"compute": Kind.COMPUTE, "comm": Kind.COMM, "mem": Kind.MEM}
_NAMES = ("kernel", "all_reduce")


def trace(*rows, marks=((0, 10**9),), rank=0, host=(), **facts) -> Trace:
    """State a recording: rows are (kind, start, end[, launch[, backward[, thread]]]), marks in µs.

    A row without launch was launched where it starts; a launch of None is no launch event. The last
    thing of a comm row may be a dict of what is told of it: op, group, size, part, seq, source,
    destination; the group is a name, or a `Group`. Marks are (start, end), or (start, end, number).
    Host ranges are (kind, name, start, end[, thread]); threads are 0 where none is stated.
    """
    ordered = sorted(rows, key=lambda row: row[1])
    ops = [_row(row) for row in ordered]
    names = np.zeros(len(ops), np.int32)
    told = [op["told"] for op in ops if op["kind"] == Kind.COMM]
    named = {each["op"] for each in told} | {name for _, name, *_ in host}
    words = (*_NAMES, *sorted(named - set(_NAMES)))
    groups = tuple(dict.fromkeys(each["group"] for each in told if each["group"]))
    return Trace(
        rank=rank,
        path=f"rank{rank}.json",
        source="kineto",
        device=facts.pop("device", "gpu"),
        clock=facts.pop("clock", "unix"),
        names=words,
        ops=Ops(
            start_ns=np.array([op["start"] for op in ops], np.int64),
            end_ns=np.array([op["end"] for op in ops], np.int64),
            kind=np.array([op["kind"] for op in ops], np.int8),
            name=names,
            device=names.astype(np.int64),
            stream=np.array([op["kind"] for op in ops], np.int64),
            correlation=np.arange(1, len(ops) + 1),
            launch_ns=np.array([op["launch"] for op in ops], np.int64),
            thread=np.array([op["thread"] for op in ops], np.int64),
            collective=_rows(np.array([op["kind"] == Kind.COMM for op in ops], np.bool_)),
            in_graph=np.zeros(len(ops), np.bool_),
            in_backward=np.array([op["backward"] for op in ops], np.bool_),
        ),
        host=_host(host, words),
        marks=tuple(
            Mark(number, f"ProfilerStep#{number}", start * 1000, end * 1000)
            for number, (start, end) in _numbered(marks)
        ),
        facts=Facts(
            world_size=facts.pop("world_size", None),
            gpu=facts.pop("gpu", None),
            host=facts.pop("host", None),
        ),
        collectives=_collectives(told, words, groups),
        groups=groups,
        **facts,
    )


def _rows(is_comm) -> Any:
    return np.where(is_comm, np.cumsum(is_comm) - 1, -1).astype(np.int32)


def _numbered(marks):
    for place, (start, end, *number) in enumerate(marks):
        yield (number[0] if number else place), (start, end)


_UNTOLD = {"op": "all_reduce", "size": -1, "part": -1, "seq": -1, "source": -1, "destination": -1}


def _group(named) -> Group | None:
    return Group(named) if isinstance(named, str) else named


def _collectives(told, words, groups) -> Collectives:
    def column(name, kind):
        return np.array([each[name] for each in told], kind)

    return Collectives(
        operation=np.array([words.index(each["op"]) for each in told], np.int32),
        group=np.array(
            [groups.index(each["group"]) if each["group"] else -1 for each in told], np.int32
        ),
        size_bytes=column("size", np.int64),
        part_bytes=column("part", np.int64),
        sequence=column("seq", np.int64),
        source=column("source", np.int32),
        destination=column("destination", np.int32),
        of_integers=np.array([each.get("integers", False) for each in told], np.bool_),
    )


def _row(row: tuple[Any, ...]) -> dict[str, Any]:
    kind, start, end, *more = row
    told = more.pop() if more and isinstance(more[-1], dict) else {}
    options = dict(enumerate(more))
    launch = options.get(0, start)
    return {
        "kind": KINDS[kind],
        "start": start * 1000,
        "end": end * 1000,
        "launch": NEVER_NS if launch is None else launch * 1000,
        "backward": options.get(1, False),
        "thread": options.get(2, 0),
        "told": _UNTOLD | told | {"group": _group(told.get("group"))},
    }


def step_rows(recording: Trace) -> list[StepMetrics]:
    """Return the rows of a recording's steps."""
    return step_metrics(Recorded.of(recording))


def no_host() -> HostRanges:
    """State that nothing of the host was recorded."""
    return _host((), ())


def _host(rows, words) -> HostRanges:
    ordered = sorted(rows, key=lambda row: row[2])
    return HostRanges(
        start_ns=np.array([start * 1000 for _, _, start, *_ in ordered], np.int64),
        end_ns=np.array([end * 1000 for _, _, _, end, *_ in ordered], np.int64),
        name=np.array([words.index(name) for _, name, *_ in ordered], np.int32),
        thread=np.array([row[4] if len(row) > 4 else 0 for row in ordered], np.int64),
        kind=np.array([HostKind[kind.upper()] for kind, *_ in ordered], np.int8),
    )


def run(*traces: Trace, world_size: int | None = None) -> Run:
    """State a run of these recordings."""
    size = world_size or len(traces)
    missing = sorted(set(range(size)) - {one.rank for one in traces})
    return Run(traces=traces, world_size=size, missing_ranks=tuple(missing))


class Kineto:
    """Builds the JSON of one rank's Kineto file, event by event; times are in µs."""

    def __init__(self, *, rank=0, world_size=2, base_ns=1_700_000_000_000_000_000) -> None:
        self.header: dict[str, Any] = {"schemaVersion": 1}
        if rank is not None:
            self.header["distributedInfo"] = {
                "backend": "nccl",
                "rank": rank,
                "world_size": world_size,
            }
        if base_ns is not None:
            self.header["baseTimeNanoseconds"] = base_ns
        self.events: list[dict[str, Any]] = []
        self.pid = 4100 + (rank or 0)
        self._correlation = 0

    def event(self, cat, name, ts, dur, *, tid=None, pid=None, **args) -> Kineto:
        """Add one complete event."""
        event = {"ph": "X", "cat": cat, "name": name, "pid": self.pid if pid is None else pid}
        event |= {"tid": self.pid if tid is None else tid, "ts": ts, "dur": dur}
        self.events.append(event | ({"args": args} if args else {}))
        return self

    def step(self, number, start, end) -> Kineto:
        """Add a step mark."""
        return self.event("user_annotation", f"ProfilerStep#{number}", start, end - start)

    def gpu(
        self, start, end, *, name="gemm", cat="kernel", launch=None, stream=7, thread=None, **args
    ) -> Kineto:
        """Add a GPU operation and its thread's call that launched it (5 µs before, or `launch`)."""
        self._correlation += 1
        call_ts = start - 5 if launch is None else launch
        call = {"correlation": self._correlation}
        self.event("cuda_runtime", "cudaLaunchKernel", call_ts, 2, tid=thread, **call)
        args = {"stream": stream, "device": 0, "correlation": self._correlation} | args
        return self.event(cat, name, start, end - start, pid=0, tid=stream, **args)

    def comm(self, start, end, **options) -> Kineto:
        """Add an all-reduce kernel on a stream of its own."""
        name = options.pop("name", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)")
        return self.gpu(start, end, name=name, stream=options.pop("stream", 28), **options)

    def text(self, indent=2) -> str:
        """Return the file's text."""
        document = self.header | {"traceEvents": self.events, "traceName": "rank.json"}
        return json.dumps(document, indent=indent)

    def write(self, path: Path, **options) -> Path:
        """Write the file, gzipped when its name says so."""
        data = self.text(**options).encode()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
        return path


def plain(rank: int = 0, **options) -> Kineto:
    """State a rank whose step 5 lasts 860 µs: compute 640, comm 310, hidden 210, tail 100.

    compute  ####.####.####......##      [100,300) [300,500) [500,700) [820,860)
    comm     ........####.####           [450,600) [640,800)
    """
    kineto = Kineto(rank=rank, **options).step(5, 0, 1000)
    for start, end in ((100, 300), (300, 500), (500, 700), (820, 860)):
        kineto.gpu(start, end)
    return kineto.comm(450, 600).comm(640, 800)
