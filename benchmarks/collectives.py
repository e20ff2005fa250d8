"""Measure what collectives over all ranks (matching, waits, buckets, clocks) add to an analysis."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ddptrace.kernels import Kind
from ddptrace.manifest import Mark
from ddptrace.metrics.bucket_summary import bucket_list
from ddptrace.metrics.buckets import find_buckets, with_sizes
from ddptrace.metrics.clocks import clocks
from ddptrace.metrics.collective_rows import Collective, collective_rows
from ddptrace.metrics.collectives import collect, waits
from ddptrace.metrics.exposure import with_exposure
from ddptrace.metrics.recorded import Recorded
from ddptrace.metrics.steps import step_metrics
from ddptrace.metrics.stragglers import stragglers
from ddptrace.metrics.summary import kept_rows
from ddptrace.metrics.timebase import timebase
from ddptrace.model import Collectives, Facts, Group, HostRanges, Ops, Run, Trace

NAMES = ("gemm", "ncclDevKernel_AllReduce", "all_reduce")
STEP_NS = 50_000_000
FORWARD = 0.1  # of the step; all collectives are buckets of the backward pass behind it


def trace(rank: int, ranks: int, kernels: int, steps: int, share: float) -> Trace:
    """Return a made-up recording: kernels back to back, `share` of them collectives beside them."""
    random = np.random.default_rng(rank)
    comm = max(int(kernels * share) // steps, 1)
    compute = kernels // steps - comm
    starts, ends, kinds, streams = [], [], [], []
    for step in range(steps):
        at = step * STEP_NS
        edges = at + np.linspace(0, 0.9 * STEP_NS, compute + 1).astype(np.int64)
        starts.append(edges[:-1])
        ends.append(edges[1:] - 500)
        meet = at + np.linspace(0.2 * STEP_NS, 0.95 * STEP_NS, comm).astype(np.int64)
        longest = max(int(0.7 * STEP_NS / comm), 2_000)
        starts.append(meet - random.integers(1_000, longest, comm))
        ends.append(meet)
        kinds += [np.full(compute, Kind.COMPUTE, np.int8), np.full(comm, Kind.COMM, np.int8)]
        streams += [np.full(compute, 7), np.full(comm, 28)]
    start_ns = np.concatenate(starts)
    order = np.argsort(start_ns, kind="stable")
    return _trace(
        rank,
        ranks,
        [start_ns[order], *(np.concatenate(each)[order] for each in (ends, kinds, streams))],
        steps,
    )


def _trace(rank: int, ranks: int, columns: list[Any], steps: int) -> Trace:
    start_ns, end_ns, kind, stream = columns
    is_comm = kind == Kind.COMM
    count, calls = start_ns.size, int(is_comm.sum())
    untold = np.full(calls, -1, np.int64)
    none, code = np.empty(0, np.int64), np.empty(0, np.int32)
    return Trace(
        rank=rank,
        path=f"rank{rank}",
        source="kineto",
        device="gpu",
        clock="unix",
        names=NAMES,
        ops=Ops(
            start_ns=start_ns,
            end_ns=end_ns,
            kind=kind,
            name=is_comm.astype(np.int32),
            device=np.zeros(count, np.int64),
            stream=stream,
            correlation=np.arange(count),
            launch_ns=start_ns - 500,
            thread=np.zeros(count, np.int64),
            collective=np.where(is_comm, np.cumsum(is_comm) - 1, -1).astype(np.int32),
            in_graph=np.zeros(count, np.bool_),
            in_backward=is_comm | (start_ns % STEP_NS > FORWARD * STEP_NS),
        ),
        host=HostRanges(none, none, code, none, code.astype(np.int8)),
        marks=tuple(
            Mark(step, f"step {step}", step * STEP_NS - 1_000, (step + 1) * STEP_NS - 1_000)
            for step in range(steps)
        ),
        facts=Facts(world_size=ranks),
        collectives=Collectives(
            operation=np.full(calls, 2, np.int32),
            group=np.zeros(calls, np.int32),
            size_bytes=np.full(calls, 1 << 20, np.int64),
            part_bytes=untold,
            sequence=untold,
            source=untold.astype(np.int32),
            destination=untold.astype(np.int32),
            of_integers=np.zeros(calls, np.bool_),
        ),
        groups=(Group("0", tuple(range(ranks)), ranks),),
    )


def measured(traces: list[Trace]) -> tuple[float, float, float]:
    """Return the CPU seconds of the steps alone, what the collectives add, and their records."""
    alone_s, found = _timed(
        lambda: {one.trace.rank: (one, step_metrics(one)) for one in map(Recorded.of, traces)}
    )
    recordings = {rank: [one] for rank, (one, _) in found.items()}
    run = Run(traces=tuple(traces), world_size=len(traces), missing_ranks=())

    def collectives() -> Sequence[Collective]:
        collected = collect(recordings, len(traces))
        buckets = find_buckets(collected, run)
        collected = with_sizes(collected, buckets)
        split = [
            with_exposure(steps, one, waits(collected, rank, 0))
            for rank, (one, steps) in found.items()
        ]
        counted = kept_rows(split)
        rows = collective_rows(collected, buckets, clocks(run, collected, timebase(recordings))[1])
        bucket_list(buckets, collected, {row.step for row in counted})
        stragglers(collected, counted, ())
        return rows

    added_s, rows = _timed(collectives)
    records_s, _ = _timed(lambda: list(rows))
    return alone_s, added_s, records_s


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def main() -> None:
    """Print a table: a row for each part of the kernels that may be collectives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--kernels", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    print(
        "| comm kernels a rank | steps, CPU | collectives add, CPU | ratio | target | met |"
        " as records, CPU |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for share in (0.02, 0.1, 0.3):
        traces = [
            trace(rank, arguments.ranks, arguments.kernels, arguments.steps, share)
            for rank in range(arguments.ranks)
        ]
        runs = [measured(traces) for _ in range(arguments.repeats)]
        alone_s, added_s, records_s = (statistics.median(each) for each in zip(*runs, strict=True))
        calls = int((traces[0].ops.kind == Kind.COMM).sum())
        print(
            f"| {calls:,} | {alone_s:.2f} s | {added_s:.2f} s | {added_s / alone_s:.2f} | < 1 s | "
            f"{'yes' if added_s < 1 else 'no'} | {records_s:.2f} s |"
        )


if __name__ == "__main__":
    main()
