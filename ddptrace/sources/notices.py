"""The sentences that a file's recordings earn: what was dropped, mended, cut or is missing."""

from __future__ import annotations

import numpy as np

from ddptrace import kernels
from ddptrace.kernels import Kind
from ddptrace.model import NEVER_NS, Trace, Warn
from ddptrace.sources.kineto import Reading
from ddptrace.sources.names import Names
from ddptrace.sources.streams import Cut
from ddptrace.wording import counted, one_line


def partial(reading: Reading, lost: int) -> str | None:
    """Return in words why the recording is not whole; None when it is.

    `lost` events of the rank, besides those of the file, have times or ids that cannot be read.
    """
    if reading.cut:
        return reading.cut
    unreadable = reading.lost + lost
    if unreadable:
        return f"{unreadable} of its events that the figures need cannot be read"
    return None


def of_operations(path: str, *, dropped: int, cut: Cut) -> tuple[Warn, ...]:
    """Return the warnings about GPU operations that cannot have been as they were recorded."""
    found = {
        "dropped_events": dropped
        and f"{counted(dropped, 'GPU operation')} without usable times dropped",
        "impossible_length": cut.count
        and f"{counted(cut.count, 'operation')} longer than the whole next one on the same stream, "
        f"which cannot be (the longest {cut.longest_ns / 1e3:,.1f} µs on stream {cut.stream}); cut "
        "where the next one starts",
    }
    return tuple(Warn(code, f"{path}: {said}") for code, said in found.items() if said)


def of_reading(reading: Reading, *, dropped: int, cut: Cut) -> tuple[Warn, ...]:
    """Return the warnings about the file's events."""
    found = {
        "repaired_text": reading.repaired
        and f"text that is not clean JSON repaired in {counted(reading.repaired, 'place')} (odd "
        "bytes, control characters, quotes in names)",
        "skipped_events": reading.skipped
        and f"{counted(reading.skipped, 'unreadable host event')} skipped; no figure needs them",
        "recorded_with_stacks": (reading.stacks or None)
        and "recorded with Python stacks, which slow the host down; use with_stack=False for "
        "timings",
    }
    about_text = [Warn(code, f"{reading.path}: {said}") for code, said in found.items() if said]
    return (*of_operations(reading.path, dropped=dropped, cut=cut), *about_text)


def of_trace(trace: Trace) -> tuple[Warn, ...]:
    """Return the warnings about what the recording holds."""
    return (
        *_likely_comm(trace),
        *_lost_graphs(trace),
        *_lost_launches(trace),
        *_measured_host(trace),
    )


def _lost_launches(trace: Trace) -> list[Warn]:
    """Warn of operations that no step can be given, since their launch was not recorded.

    Those in the first step may have been launched before the recording, so they do not count.
    """
    ops, marks = trace.ops, trace.marks
    if trace.device == "host" or not marks:
        return []
    own = (ops.launch_ns >= marks[0].end_ns) & (ops.launch_ns < marks[-1].end_ns)
    if not own.any():
        return []
    inside = (ops.start_ns > ops.start_ns[own].min()) & (ops.start_ns < ops.start_ns[own].max())
    lost = int(((ops.launch_ns == NEVER_NS) & inside).sum())
    if not lost:
        return []
    return [
        Warn(
            "launches_not_recorded",
            f"{trace.path}: the launch of {counted(lost, 'operation')} of {int(inside.sum())} was "
            "not recorded, so their step is unknown and windows may be wrong; record again, with "
            "fewer steps",
        )
    ]


def missing_comm(trace: Trace) -> Warn | None:
    """Return a warning when collectives were called on the host and no comm kernel was recorded."""
    if trace.device == "host" or trace.facts.world_size == 1:
        return None
    calls = _collective_calls(trace)
    if not calls or (trace.ops.kind == Kind.COMM).any():
        return None
    return Warn(
        "comm_not_recorded",
        f"{trace.path}: {counted(calls, 'collective call')} but no NCCL kernels were recorded: "
        "communication time is unknown. Name the kernels of another library with "
        "--comm-kernel REGEX",
    )


def _collective_calls(trace: Trace) -> int:
    """Count the calls of collectives whose work the GPU does; nested ranges say the same twice."""
    names = Names(trace.names)
    on_gpu = int(names.where(kernels.is_gpu_collective_call, trace.host.name).sum())
    if on_gpu or names.where(kernels.is_host_collective, trace.host.name).any():
        return on_gpu
    called = trace.host.name[names.where(kernels.is_collective_call, trace.host.name)]
    return int(np.bincount(called).max()) if called.size else 0


def _likely_comm(trace: Trace) -> tuple[Warn, ...]:
    compute = trace.ops.name[trace.ops.kind == Kind.COMPUTE]
    likely = compute[Names(trace.names).where(kernels.is_likely_comm, compute)]
    if not likely.size or trace.device == "host":
        return ()
    names = [trace.names[code].split("(")[0] for code in np.unique(likely)[:3]]
    examples = [one_line(name)[:60] for name in names]
    return (
        Warn(
            "likely_comm",
            f"{trace.path}: counted as compute, but by name like collectives: "
            f"{counted(likely.size, 'kernel')} ({', '.join(examples)}); if they are, name them "
            "with --comm-kernel REGEX",
        ),
    )


def _lost_graphs(trace: Trace) -> tuple[Warn, ...]:
    lost = len(trace.lost_graph_launch_ns)
    if not lost:
        return ()
    return (
        Warn(
            "graph_kernels_not_recorded",
            f"{trace.path}: the kernels of {counted(lost, 'launched CUDA graph')} were not "
            "recorded, so idle time is unknown there; record with a CUPTI that traces graphs node "
            "by node (nsys: --cuda-graph-trace=node)",
        ),
    )


def _measured_host(trace: Trace) -> tuple[Warn, ...]:
    if trace.device == "gpu":
        return ()
    return (
        Warn(
            "host_measured",
            f"{trace.path}: no GPU work: compute is the time of host operators, communication "
            "that of gloo ranges",
        ),
    )
