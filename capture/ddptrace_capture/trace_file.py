"""Finishes a trace that torch exported: the steps' marks, the rank, its own name, compressed."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_EVENTS = b'"traceEvents": ['
_BASE = re.compile(rb'"baseTimeNanoseconds": *(\d+)')
_TRACE_NAME = re.compile(rb'"traceName": *"[^"]*"')
_HEAD_BYTES = _BLOCK_BYTES = 1 << 23
_TAIL_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class StepMark:
    """When a step of the job ran, in Unix ns of the host."""

    step: int
    start_ns: int
    end_ns: int


def finish(
    plain: Path, target: Path, marks: Sequence[StepMark], thread: tuple[int, int], about: object
) -> None:
    """Write `target` (gzip) from an exported trace, with `ProfilerStep#N` marks put into it.

    The marks are host ranges of a `thread` (process and thread id) beside torch's own events: a
    recording of CUDA alone has none, and a range that the recorder opened inside somebody's
    optimizer would close in the wrong order. `about` is added as the key "ddptrace". A file that
    is not laid out as torch 2.4 and newer do it is compressed as it is: the marks are in the
    manifest, too.
    """
    partly = target.with_name(f".{target.name}.partial")
    with plain.open("rb") as source, gzip.open(partly, "wb", compresslevel=4) as sink:
        head = source.read(_HEAD_BYTES)
        begin = _with_marks(head, marks, thread, about)
        _copy(begin, source, sink, target.name.removesuffix(".gz"))
    partly.replace(target)


def _with_marks(
    head: bytes, marks: Sequence[StepMark], thread: tuple[int, int], about: object
) -> bytes:
    start, place, base = head.find(b"{") + 1, head.find(_EVENTS), _BASE.search(head)
    if place < 0 or base is None or base.start() > place:
        return head
    place += len(_EVENTS)
    told = f'\n    "ddptrace": {json.dumps(about)},'.encode()
    events = b"".join(_event(mark, int(base[1]), thread) for mark in marks)
    return head[:start] + told + head[start:place] + events + head[place:]


def _copy(begin: bytes, source: IO[bytes], sink: gzip.GzipFile, name: str) -> None:
    """Copy all; the name that torch wrote at the end is that of a file which goes away."""
    held = begin
    while block := source.read(_BLOCK_BYTES):
        sink.write(held[:-_TAIL_BYTES])
        held = held[-_TAIL_BYTES:] + block
    told = b'"traceName": ' + json.dumps(name).encode()
    sink.write(held[:-_TAIL_BYTES])
    sink.write(_TRACE_NAME.sub(lambda _: told, held[-_TAIL_BYTES:]))


def _event(mark: StepMark, base_ns: int, thread: tuple[int, int]) -> bytes:
    event = (
        '\n  {{\n    "ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{step}", '
        '"pid": {pid}, "tid": {tid},\n    "ts": {ts}, "dur": {dur}\n  }},'
    )
    return event.format(
        step=mark.step,
        pid=thread[0],
        tid=thread[1],
        ts=_microseconds(mark.start_ns - base_ns),
        dur=_microseconds(mark.end_ns - mark.start_ns),
    ).encode()


def _microseconds(ns: int) -> str:
    sign = "-" if ns < 0 else ""
    return f"{sign}{abs(ns) // 1000}.{abs(ns) % 1000:03d}"
