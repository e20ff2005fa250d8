"""What the recorder tells of a run: its ranks, their parts, how DDP was set up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Part: TypeAlias = Literal["figures", "full"]
"""Which part of a rank's recording a file is: GPU activities only, or those of the host too."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One step's host range [start_ns, end_ns); `index` is its number or its place in order."""

    index: int
    name: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class DdpModule:
    """How one DistributedDataParallel module of a rank was set up; None is not told.

    `bucket_parameters` names the parameters of each bucket as it is now; sizes are bytes. The
    parameters themselves are in the order of their registration, with size and type of each. The
    script asked for a cap (or one for each bucket; None: PyTorch's default), and the recorder may
    have set another one in its place, in MiB.
    """

    module: str | None = None
    bucket_cap_bytes: int | None = None
    asked_bucket_cap_mb: float | tuple[float, ...] | None = None
    set_bucket_cap_mb: float | None = None
    find_unused_parameters: bool | None = None
    static_graph: bool | None = None
    gradient_as_bucket_view: bool | None = None
    comm_hook: str | None = None
    has_rebuilt_buckets: bool | None = None
    initial_bucket_bytes: tuple[int, ...] = ()
    rebuilt_bucket_bytes: tuple[int, ...] = ()
    bucket_parameters: tuple[tuple[str, ...], ...] = ()
    parameter_names: tuple[str, ...] = ()
    parameter_bytes: tuple[int, ...] = ()
    parameter_types: tuple[str, ...] = ()
    ddp_averages: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Unprofiled:
    """Steps of a rank that were timed while no profiler ran: their times, from `first_step` on."""

    first_step: int = 0
    block_ns: int | None = None
    step_ns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordedPart:
    """One part of a rank's recording as its recorder tells it.

    `marks` are on the host's clock in Unix ns, sorted, disjoint and of distinct steps; `step_ns`
    are the times of these steps, measured as those without a profiler were.
    """

    part: Part
    file: str
    activities: tuple[str, ...] = ()
    marks: tuple[Mark, ...] = ()
    step_ns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RankFacts:
    """What the recorder tells of one rank; None is not told.

    `problem` says why there is no recording, or no whole one. `loop_thread` is the thread of the
    training loop, as a pthread identity. `gpu` is as in `Facts`.
    """

    rank: int
    node: int | None = None
    local_rank: int | None = None
    host: str | None = None
    pid: int | None = None
    device: str | None = None
    backend: str | None = None
    status: str | None = None
    problem: str | None = None
    steps_seen: int | None = None
    files: tuple[str, ...] = ()
    unprofiled: Unprofiled | None = None
    parts: tuple[RecordedPart, ...] = ()
    ddp: tuple[DdpModule, ...] = ()
    loop_thread: int | None = None
    gpu: str | None = None


@dataclass(frozen=True, slots=True)
class Replicas:
    """Whether all ranks had the same parameters at the end, bit by bit.

    `equal` is None where that is not known; `reason` says why, or what is not the same.
    """

    equal: bool | None = None
    reason: str | None = None
    parameters: int | None = None


@dataclass(frozen=True, slots=True)
class LinkGroup:
    """What collectives of some sizes took in one group while nothing else ran, as it timed them.

    `time_ns` has a few times of each size, those of the rank that waited least.
    """

    members: tuple[int, ...]
    operation: str
    size_bytes: tuple[int, ...]
    time_ns: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Link:
    """What the recorder measured of the link; where nothing, `reason` says why."""

    groups: tuple[LinkGroup, ...] = ()
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """What the recorder of a run tells of it; `ranks` are distinct and rising, perhaps not all."""

    world_size: int | None = None
    profiler: str | None = None
    command: tuple[str, ...] = ()
    exit_code: int | None = None
    started_ns: int | None = None
    options: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    replicas: Replicas | None = None
    link: Link | None = None
    ranks: tuple[RankFacts, ...] = ()

    def of_rank(self, rank: int) -> RankFacts | None:
        """Return the facts of one rank; None when the recorder tells nothing of it."""
        return next((facts for facts in self.ranks if facts.rank == rank), None)
