"""The recorded run: tables of operations for each rank, in integer nanoseconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddptrace.kernels import Kind
from ddptrace.manifest import Manifest, Mark, Part

if TYPE_CHECKING:
    import pandas as pd  # only for annotations: importing it costs more than reading a small run

Source: TypeAlias = Literal["kineto", "nsys"]
Device: TypeAlias = Literal["gpu", "host"]
Clock: TypeAlias = Literal["unix", "relative"]

NEVER_NS = np.iinfo(np.int64).min
"""Stands in int64 columns for a moment that the trace does not tell."""
FAR_APART_NS = 600 * 10**9
"""Ranks record the same iterations within seconds: this far apart, a clock or the run differs."""


@dataclass(frozen=True, slots=True)
class Warn:
    """One sentence about the run's data: a stable `code`, the message, the rank if it has one."""

    code: str
    message: str
    rank: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Ops:
    """Operations of one rank, one row each, sorted by start. GPU work, or host work on CPU runs.

    `name` indexes `Trace.names`; it, `device` and `stream` are -1 where the trace does not tell.
    `launch_ns` is NEVER_NS for an operation without launch event; `thread`, which launched it,
    means nothing then. `collective` is the row of a comm operation in `Trace.collectives`, -1 of
    any other. `in_graph` marks the nodes of a CUDA graph, `in_backward` what the autograd engine
    launched.
    """

    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    kind: NDArray[np.int8]
    name: NDArray[np.int32]
    device: NDArray[np.int64]
    stream: NDArray[np.int64]
    correlation: NDArray[np.int64]
    launch_ns: NDArray[np.int64]
    thread: NDArray[np.int64]
    collective: NDArray[np.int32]
    in_graph: NDArray[np.bool_]
    in_backward: NDArray[np.bool_]

    def __len__(self) -> int:
        return int(self.start_ns.size)

    def take(self, rows: NDArray[Any]) -> Ops:
        """Return the rows that a mask or an index array selects, in its order."""
        return Ops(*(getattr(self, column.name)[rows] for column in fields(self)))

    def of(self, kind: Kind) -> Ops:
        """Return the operations of one kind."""
        return self.take(self.kind == kind)


@dataclass(frozen=True, slots=True)
class Group:
    """A process group, or communicator, as a recording tells of it; None is not told.

    `ranks` are those of the whole job; without them `size` may still be known.
    """

    name: str
    ranks: tuple[int, ...] | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Collectives:
    """What is told of a recording's comm operations: one row each, in no order of their own.

    `operation` ("all_reduce", ...) indexes `Trace.names`, `group` indexes `Trace.groups`.
    `size_bytes` is the whole array, `part_bytes` what one rank's call was given, for sources that
    tell only that. `sequence` is the number of the call in its group; `source` and `destination`
    are the ranks of a point-to-point transfer. Each is -1 where the trace does not tell.
    `of_integers` marks what is known to work on whole numbers.
    """

    operation: NDArray[np.int32]
    group: NDArray[np.int32]
    size_bytes: NDArray[np.int64]
    part_bytes: NDArray[np.int64]
    sequence: NDArray[np.int64]
    source: NDArray[np.int32]
    destination: NDArray[np.int32]
    of_integers: NDArray[np.bool_]

    def __len__(self) -> int:
        return int(self.operation.size)


class HostKind(IntEnum):
    """What a host range is; the values are those of the column `kind` of `HostRanges`."""

    OPERATOR = 0
    ANNOTATION = 1
    CALL = 2


@dataclass(frozen=True, slots=True, eq=False)
class HostRanges:
    """What the host did, one row each, sorted by start: operators, calls and annotations.

    `name` indexes `Trace.names`; `thread` tells threads apart; `kind` is a `HostKind`.
    """

    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    name: NDArray[np.int32]
    thread: NDArray[np.int64]
    kind: NDArray[np.int8]

    def __len__(self) -> int:
        return int(self.start_ns.size)


@dataclass(frozen=True, slots=True, eq=False)
class Gradients:
    """The gradients that a recording tells the sizes of, one row each, sorted by start.

    `start_ns` and `thread` are those of the operator that took the gradient in; `element` is the
    type of its numbers as PyTorch names it, in the order of `elements`.
    """

    start_ns: NDArray[np.int64]
    thread: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    element: NDArray[np.int32]
    elements: tuple[str, ...]

    def __len__(self) -> int:
        return int(self.start_ns.size)


@dataclass(frozen=True, slots=True)
class Facts:
    """What a recording says about itself; None where it does not.

    `gpu` tells the GPU of the process from all others in the world, unlike its number. `switches`
    are the options of torch.profiler that were on.
    """

    world_size: int | None = None
    backend: str | None = None
    device_name: str | None = None
    process: str | None = None
    host: str | None = None
    gpu: str | None = None
    versions: dict[str, str] = field(default_factory=dict)
    switches: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """One recording of one rank: the content of one file, or of one rank's part of a merged file.

    Invariants: tables are sorted by start; `marks` are sorted and have distinct indices.
    `part` is None where nothing tells of parts, `gradients` where nothing tells their sizes.
    `partial` says in words why the recording is not whole; figures from it are lower bounds.
    `lost_graph_launch_ns` are the moments at which graphs without recorded kernels were launched.
    `comm_missing` is true when collectives were called and no comm kernel was recorded, or when
    nothing tells which kernels are comm.
    """

    rank: int
    path: str
    source: Source
    device: Device
    clock: Clock
    names: tuple[str, ...]
    ops: Ops
    host: HostRanges
    marks: tuple[Mark, ...]
    facts: Facts
    collectives: Collectives
    groups: tuple[Group, ...] = ()
    part: Part | None = None
    gradients: Gradients | None = None
    lost_graph_launch_ns: tuple[int, ...] = ()
    comm_missing: bool = False
    partial: str | None = None
    warnings: tuple[Warn, ...] = ()

    @property
    def start_ns(self) -> int:
        """First moment of the recorded work."""
        return int(self.ops.start_ns[0])

    @property
    def end_ns(self) -> int:
        """Last moment of the recorded work."""
        return int(self.ops.end_ns.max())

    def name_of(self, code: int) -> str:
        """Return the name of a code of an operation; "unknown" where the trace does not tell."""
        return self.names[code] if code >= 0 else "unknown"

    def frame(self) -> pd.DataFrame:
        """Return the operations as a table, with rank, kind, name, device, stream and times.

        One row each, sorted by start, times in ns; `launch_ns` is missing where none is known.
        """
        import pandas as pd  # imported at its first use, see above

        ops = self.ops
        launched = ops.launch_ns != NEVER_NS
        frame: pd.DataFrame = pd.DataFrame(
            {
                "rank": np.full(len(ops), self.rank, np.int32),
                "kind": _categories(ops.kind, [kind.name.lower() for kind in Kind]),
                "name": _categories(ops.name, self.names),
                "device": ops.device,
                "stream": ops.stream,
                "start_ns": ops.start_ns,
                "end_ns": ops.end_ns,
                "dur_ns": ops.end_ns - ops.start_ns,
                "launch_ns": pd.arrays.IntegerArray(ops.launch_ns.copy(), ~launched),
            }
        )
        return frame


def _categories(codes: NDArray[Any], names: Sequence[str]) -> pd.Categorical[str]:
    import pandas as pd  # imported at its first use, see above

    return pd.Categorical.from_codes(codes, pd.Index(list(names)))


def figures_of(traces: Sequence[Trace]) -> tuple[Trace, ...]:
    """Return the recordings to take figures from: of every rank the same part.

    These are the figures parts when each rank has them, whole and with step marks. Else they are
    the other recordings, and for a rank without any its figures part.
    """
    cheap = [trace for trace in traces if trace.part == "figures"]
    others = {trace.rank for trace in traces if trace.part != "figures"}
    unusable = {trace.rank for trace in cheap if trace.partial or not trace.marks}
    if {trace.rank for trace in cheap} - unusable >= others:
        return tuple(cheap)
    return tuple(trace for trace in traces if trace.part != "figures" or trace.rank not in others)


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """All recordings of one job, sorted by rank and start.

    `world_size` is None when no file tells it; `missing_ranks` are the ranks that were wanted (all
    of the job, if nothing else was said) and have no recording, `missing_reasons` why, where that
    is known; `unreadable` holds one sentence for each file of the run that could not be used at
    all, or not to its end while the figures of its rank come from another one. `manifest` is what
    the recorder told; None without one.
    """

    traces: tuple[Trace, ...]
    world_size: int | None
    missing_ranks: tuple[int, ...] = ()
    warnings: tuple[Warn, ...] = ()
    unreadable: tuple[str, ...] = ()
    missing_reasons: dict[int, str] = field(default_factory=dict)
    manifest: Manifest | None = None

    @property
    def ranks(self) -> list[int]:
        """The ranks with at least one recording, rising."""
        return sorted({trace.rank for trace in self.traces})

    @property
    def figures(self) -> tuple[Trace, ...]:
        """The recordings that figures of steps and collectives come from; see `figures_of`."""
        return figures_of(self.traces)

    @property
    def causes(self) -> tuple[Trace, ...]:
        """The recordings that tell what the host did; those of `figures` in a one-part run."""
        return tuple(trace for trace in self.traces if trace.part != "figures")

    @property
    def partial_ranks(self) -> list[int]:
        """The ranks of which a recording that figures come from is not whole."""
        return sorted({trace.rank for trace in self.figures if trace.partial})

    @property
    def all_warnings(self) -> list[Warn]:
        """The warnings about the set of files, then those about each recording.

        What the figures' recordings of a rank say already is not said again of its other ones.
        """
        figures = [warning for trace in self.figures for warning in trace.warnings]
        said = {(warning.code, warning.rank) for warning in figures}
        others = (trace for trace in self.traces if trace not in self.figures)
        more = (warning for trace in others for warning in trace.warnings)
        return [*self.warnings, *figures, *(w for w in more if (w.code, w.rank) not in said)]

    def frame(self) -> pd.DataFrame:
        """Return the operations that figures come from; see `Trace.frame` for the columns."""
        import pandas as pd  # imported at its first use, see above

        frames = [trace.frame() for trace in self.figures]
        joined: pd.DataFrame = pd.concat(frames, ignore_index=True).astype({"name": "category"})
        return joined
