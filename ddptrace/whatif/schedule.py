"""Replays of a job with given buckets under given conditions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ddptrace.intervals import IntArray
from ddptrace.whatif.job import Job, arrivals
from ddptrace.whatif.packing import Limits, Packing, pack, pack_registered
from ddptrace.whatif.progress import Floats
from ddptrace.whatif.ready import Sized
from ddptrace.whatif.replay import Bucket, Contention, Cost, Replayed, replay
from ddptrace.whatif.scenario import HALVED, Scenario

_WIDE_TYPES = frozenset({"float", "float32", "torch.float32"})


@dataclass(frozen=True, slots=True)
class Physics:
    """What a step is replayed with: `host` is the part of waiting for the host that stays."""

    cost: Cost
    contention: Contention
    host: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """Buckets of gradients: `order` are their places, bucket after bucket from `first` on."""

    order: NDArray[np.intp]
    first: NDArray[np.intp]
    size_bytes: IntArray
    sent_bytes: Floats

    def __len__(self) -> int:
        return int(self.first.size)


def packed(pieces: Sized, packing: Packing, limits: Limits, *, compressed: bool = False) -> Packed:
    """Return the buckets that DDP makes of gradients."""
    sizes, elements = pieces.size_bytes, pieces.element
    places = np.arange(len(pieces))
    if packing.in_order and pieces.registered is not None:
        places = np.argsort(pieces.registered, kind="stable")
        buckets = pack_registered(sizes[places].tolist(), elements[places].tolist(), limits)
    else:
        buckets = pack(sizes.tolist(), elements.tolist(), limits)
    counts = np.array([len(each) for each in buckets], np.intp)
    order = places[np.concatenate([np.array(each, np.intp) for each in buckets])]
    return _packed(pieces, order, np.cumsum(counts) - counts, compressed=compressed)


def packed_as_recorded(job: Job, *, compressed: bool = False) -> Packed:
    """Return the buckets that were recorded, of the pieces that they were cut into."""
    first = np.flatnonzero(np.diff(job.owner, prepend=-1))
    return _packed(job.pieces, np.arange(len(job.pieces)), first, compressed=compressed)


def _packed(
    pieces: Sized, order: NDArray[np.intp], first: NDArray[np.intp], *, compressed: bool
) -> Packed:
    sizes = pieces.size_bytes
    whole = np.add.reduceat(sizes[order], first)
    sent = sizes[order].astype(np.float64)
    if compressed:
        sent *= np.where(_is_wide(pieces)[order], HALVED, 1.0)
    return Packed(order, first, whole, np.add.reduceat(sent, first))


def _is_wide(pieces: Sized) -> NDArray[np.bool_]:
    """Tell which gradients are numbers of four bytes; where nothing tells, all are."""
    if not pieces.elements:
        return np.ones(len(pieces), np.bool_)
    wide = np.array([name in _WIDE_TYPES for name in pieces.elements], np.bool_)
    return wide[pieces.element]


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """A job under some conditions: when gradients are ready, measured in compute alone."""

    job: Job
    physics: Physics
    scenario: Scenario
    gradients: Floats
    released: Floats
    compute_ns: float

    @classmethod
    def of(cls, job: Job, physics: Physics, scenario: Scenario) -> Schedule:
        """Return the job under these conditions; the last rank to arrive counts.

        Without the straggler it is the median of the others, as it is for `late_ns`.
        """
        ranks, host, slowdown = job.ranks, physics.host, physics.contention.compute

        def each_rank(name: str) -> NDArray[np.float64]:
            return arrivals(ranks, [getattr(one, name) for one in ranks], host, slowdown)

        last = int(each_rank("released").mean(axis=1).argmax())

        def reached(name: str) -> Floats:
            wide = each_rank(name)
            met: Floats = wide.max(axis=0)
            if scenario.without_straggler and len(ranks) > 1:
                met = np.median(np.delete(wide, last, axis=0), axis=0)
            return np.zeros_like(met) if scenario.perfect_overlap and name != "compute_end" else met

        gradients, released = reached("gradients"), reached("released")
        compute_ns = max(float(reached("compute_end")[0]), float(gradients.max(initial=0.0)))
        return cls(job, physics, scenario, gradients, released, compute_ns)

    def recorded(self) -> Replayed:
        """Return the step with the buckets that were recorded."""
        return self._replay(self._sent().tolist(), np.maximum.accumulate(self.released))

    def _sent(self) -> Floats:
        """Return what is sent of each recorded bucket."""
        sent = np.array(self.job.recorded_bytes, np.float64)
        if not self.scenario.is_compressed:
            return sent
        sizes, owner = self.job.pieces.size_bytes, self.job.owner
        halved = np.where(_is_wide(self.job.pieces), HALVED, 1.0)
        whole = np.bincount(owner, sizes, sent.size)
        smaller: Floats = (
            sent * np.bincount(owner, sizes * halved, sent.size) / np.maximum(whole, 1)
        )
        return smaller

    def with_buckets(self, buckets: Packed) -> Replayed:
        """Return the step with other buckets."""
        ready = np.maximum.reduceat(self.gradients[buckets.order], buckets.first)
        return self._replay(buckets.sent_bytes.tolist(), ready)

    def with_whole(self, limits: Limits) -> Replayed:
        """Return the step with the recorded buckets put together, none of them cut."""
        sizes = self.job.recorded_bytes
        groups = pack(sizes, [0] * len(sizes), limits)
        first = np.array([group[0] for group in groups], np.intp)
        sent = np.add.reduceat(self._sent(), first)
        return self._replay(sent.tolist(), np.maximum.reduceat(self.released, first))

    def without_buckets(self) -> Replayed:
        """Return the step in which nothing is communicated."""
        return self._replay([], np.empty(0))

    def _replay(self, sizes: Sequence[float], ready_ns: Floats) -> Replayed:
        buckets = [Bucket(*each) for each in zip(sizes, ready_ns.tolist(), strict=True)]
        physics = self.physics
        if self.scenario.free_communication:
            return replay(buckets, self.compute_ns, _nothing, Contention())
        return replay(buckets, self.compute_ns, physics.cost, physics.contention)


def _nothing(_: float) -> float:
    return 0.0
