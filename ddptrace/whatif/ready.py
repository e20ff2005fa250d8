"""When each gradient was ready, how large it is, and how finely that is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddptrace import kernels
from ddptrace.intervals import IntArray
from ddptrace.manifest import DdpModule
from ddptrace.metrics.first_ready import BackwardWork, names_of
from ddptrace.model import HostRanges, Trace

Resolution: TypeAlias = Literal["parameters", "sizes", "buckets"]
"""What is known of parameters: size and time of each; its size only; or of whole buckets only."""
PIECE_BYTES = 1 << 20
"""Into pieces of about this size a bucket is cut of which no parameter is known."""


@dataclass(frozen=True, slots=True, eq=False)
class Sized:
    """The gradients of a pass in the order in which they come; `element` tells types apart.

    `registered` is the place of each in the order of registration, None where that is not told, and
    `elements` are the names of the types, none where they are not.
    """

    size_bytes: IntArray
    element: NDArray[np.int32]
    registered: IntArray | None = None
    elements: tuple[str, ...] = ()

    def __len__(self) -> int:
        return int(self.size_bytes.size)


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """A pass of a recording that tells gradients: after how much of its work each was ready.

    `names` are those of its work; `sized` has the sizes, None where the file tells none.
    """

    names: tuple[str, ...]
    after: IntArray
    sized: Sized | None


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """What a recording tells of gradients: its work of backward, and the host's times.

    `begun_ns` is when the host began to take in each gradient, `done_ns` when it had done all for
    it.
    """

    trace: Trace
    work: BackwardWork
    begun_ns: IntArray
    done_ns: IntArray

    @classmethod
    def by(cls, trace: Trace) -> Told:
        """Return what a recording tells."""
        return cls(trace, BackwardWork.of(trace), *_gradients(trace))

    def pattern(self, launched_ns: int) -> Pattern | None:
        """Return the pass in which something was launched; None where it tells no gradient."""
        work, rows = self.work, self.work.rows_of(launched_ns)
        run = np.searchsorted(work.forward_ns, self.begun_ns)
        mine = run == np.searchsorted(work.forward_ns, launched_ns)
        if rows.start == rows.stop or not mine.any():
            return None
        after = np.searchsorted(work.launch_ns[rows], self.done_ns[mine])
        names = names_of(self.trace, work.name[rows])
        return Pattern(names, after, _sized(self.trace, self.begun_ns[mine]))

    def patterns(self) -> Iterator[Pattern]:
        """Yield all passes that tell gradients."""
        runs = np.searchsorted(self.work.forward_ns, self.begun_ns)
        for run in np.unique(runs).tolist():
            pattern = self.pattern(int(self.begun_ns[runs == run][0]))
            if pattern is not None:
                yield pattern


def _gradients(trace: Trace) -> tuple[IntArray, IntArray]:
    """Return when the host began to take in each gradient, and when it had done all for it.

    DDP's hook divides a gradient, or copies it into its bucket, in the same range of the engine.
    """
    host = trace.host
    operators = _named(trace, kernels.is_gradient_operator)
    begun_ns, end_ns = host.start_ns[operators], host.end_ns[operators].copy()
    ranges = _named(trace, kernels.is_gradient_range)
    for thread in np.unique(host.thread[operators]).tolist():
        mine = host.thread[operators] == thread
        around = ranges[host.thread[ranges] == thread]
        if not around.size:
            continue
        place = np.searchsorted(host.start_ns[around], begun_ns[mine], side="right") - 1
        inside = (place >= 0) & (host.end_ns[around][np.maximum(place, 0)] >= end_ns[mine])
        end_ns[mine] = np.where(inside, host.end_ns[around][np.maximum(place, 0)], end_ns[mine])
    return begun_ns, end_ns


def _named(trace: Trace, test: kernels.Test) -> NDArray[np.intp]:
    host: HostRanges = trace.host
    passed = np.array([test(name) for name in trace.names], np.bool_)
    return np.flatnonzero(passed[host.name]) if passed.any() else np.empty(0, np.intp)


def _sized(trace: Trace, begun_ns: IntArray) -> Sized | None:
    told = trace.gradients
    if told is None:
        return None
    place = np.searchsorted(told.start_ns, begun_ns)
    there = place < len(told)
    if not (there.all() and (told.start_ns[place] == begun_ns).all()):
        return None
    return Sized(told.size_bytes[place], told.element[place], None, told.elements)


def told_sizes(module: DdpModule) -> Sized | None:
    """Return the sizes that the manifest tells, in the order of the buckets, if it does.

    Buckets hold their parameters in the order in which gradients were ready.
    """
    place = {name: number for number, name in enumerate(module.parameter_names)}
    known = len(place) == len(module.parameter_bytes) == len(module.parameter_types)
    ordered = [name for names in module.bucket_parameters for name in names]
    if not (known and place) or set(ordered) - place.keys():
        return None
    if not ordered:  # never laid out anew: gradients are taken to come in the opposite order
        ordered = list(module.parameter_names)[::-1]
    registered = np.array([place[name] for name in ordered], np.int64)
    types = {name: code for code, name in enumerate(dict.fromkeys(module.parameter_types))}
    element = np.array([types[each] for each in module.parameter_types], np.int32)
    return Sized(
        np.array(module.parameter_bytes, np.int64)[registered],
        element[registered],
        registered,
        tuple(types),
    )


def pieces_of(bucket_bytes: Sequence[int], counts: Sequence[int] | None) -> tuple[Sized, IntArray]:
    """Return buckets cut into pieces of one size, and the bucket of each.

    `counts` is how many parameters are in each; without them a piece has about `PIECE_BYTES`.
    """
    sizes, owner = [], []
    for number, size in enumerate(bucket_bytes):
        count = counts[number] if counts else max(round(size / PIECE_BYTES), 1)
        borders = np.linspace(0, size, count + 1).round().astype(np.int64)
        sizes += np.diff(borders).tolist()
        owner += [number] * count
    return Sized(np.array(sizes, np.int64), np.zeros(len(sizes), np.int32)), np.array(
        owner, np.int64
    )


def between(
    released_ns: IntArray, bucket: IntArray, size_bytes: IntArray, begin_ns: int
) -> IntArray:
    """Return when gradients were ready that came one after another until their bucket was.

    `begin_ns` is when backward began, `bucket` that of each gradient.
    """
    found = np.empty(bucket.size, np.int64)
    before = begin_ns
    for number, released in enumerate(released_ns.tolist()):
        mine = bucket == number
        whole = max(int(size_bytes[mine].sum()), 1)
        part = np.cumsum(size_bytes[mine]) / whole
        start = min(before, released)
        found[mine] = start + np.round(part * (released - start)).astype(np.int64)
        before = max(before, released)
    return found
