"""Write made-up Kineto traces of a DDP job, of about a wanted size and the same for each seed."""

from __future__ import annotations

import argparse
import gzip
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal, TypeAlias, cast

from operators import COMM_STREAM, COMPUTE_STREAM, EVENT, Call, DeviceWork, Node, Op, annotation
from workload import Workload, training_step

BASE_TIME_NS = 1_790_857_026_000_000_000
FIRST_STAMP_NS = 5_096_038_922_981_779
# A larger trace has a deeper model and hardly more steps: HTA's load takes time for every event
# times step, so that many steps would flatter ddptrace.
MINIMUM_STEPS = 10
MB_PER_LAYER_AND_STEP = 0.26
MAXIMUM_LAYERS = 96

Section: TypeAlias = Literal["autograd", "main", "device"]
SECTIONS: tuple[Section, ...] = ("autograd", "main", "device")
Record: TypeAlias = tuple[str, tuple[object, ...]]

FLOW = (
    '  {\n    "ph": "%s", "id": %%d, "pid": %%d, "tid": %%d, "ts": %%d.%%03d,\n'
    '    "cat": "%s", "name": "%s"%s\n  }'
)
LAUNCH_OUT = FLOW % ("s", "ac2g", "ac2g", "")
LAUNCH_IN = FLOW % ("f", "ac2g", "ac2g", ', "bp": "e"')
GRADIENT_OUT = FLOW % ("s", "fwdbwd", "fwdbwd", "")
GRADIENT_IN = FLOW % ("f", "fwdbwd", "fwdbwd", ', "bp": "e"')


@dataclass(frozen=True, slots=True)
class Plan:
    """What to write: where, how much of it, and for which rank of how many."""

    directory: Path
    rank: int
    world_size: int
    size_mb: float
    seed: int
    compress: bool
    stacks: bool

    @property
    def path(self) -> Path:
        """The file of this rank."""
        return self.directory / f"rank{self.rank}.pt.trace.json{'.gz' if self.compress else ''}"

    @property
    def layers(self) -> int:
        """As many transformer blocks as leave room for enough steps."""
        wanted = self.size_mb / (1.2 * MINIMUM_STEPS) / MB_PER_LAYER_AND_STEP
        return min(MAXIMUM_LAYERS, max(1, int(wanted)))

    @property
    def pid(self) -> int:
        """The process id of this rank."""
        return 2040 + self.rank


@dataclass(slots=True)
class Step:
    """The records of one step by section, and its ranges on the device."""

    records: dict[Section, list[Record]] = field(
        default_factory=lambda: {section: [] for section in SECTIONS}
    )
    device_ranges: list[Record] = field(default_factory=list)


class Timeline:
    """Two host threads and two streams on one clock; it only moves forward, step by step."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.random = random.Random(plan.seed).random
        self.skew = random.Random(f"{plan.seed}/{plan.rank}").random
        self.thread: Section = "main"
        self.clock_ns = FIRST_STAMP_NS + 90_000
        self.free_ns = {COMPUTE_STREAM: 0, COMM_STREAM: 0}
        self.ids: Counter[str] = Counter(external=12_800, correlation=1_008_000)
        self.sequence = 32_000
        self.open_sequences: list[tuple[int, int]] = []
        self.current_sequence = 0
        self.current_flow = 0
        self.parents: list[int] = []
        self.step = Step()

    def next_id(self, kind: str) -> int:
        """Give the next number of its kind."""
        self.ids[kind] += 1
        return self.ids[kind]

    def spend(self, typical_ns: int) -> None:
        """Let about this much host time pass."""
        self.clock_ns += int(typical_ns * (0.6 + 0.8 * self.random()))

    @property
    def tid(self) -> int:
        """The thread that runs now."""
        return self.plan.pid + (23 if self.thread == "autograd" else 0)

    def run(self, nodes: Iterable[Node], external_id: int) -> None:
        """Run operators and calls one after another on the current thread."""
        for node in nodes:
            if isinstance(node, Op):
                self.run_op(node)
            else:
                self.run_call(node, external_id)

    def run_op(self, op: Op) -> None:
        """Run one operator with everything in it."""
        records = self.step.records[self.thread]
        tid = self.tid
        place = len(records)
        begin_ns = self.clock_ns
        external_id = self.next_id("external")
        arguments = self.numbers(op, external_id)
        records.append((op.template, ()))
        if op.flow:
            text = GRADIENT_OUT if op.sequence == "forward" else GRADIENT_IN
            stamp = (self.plan.pid, tid, *divmod(begin_ns, 1000))
            records.append((text, (self.current_flow, *stamp)))
        self.spend(op.typical_ns)
        self.run(op.children, external_id)
        self.spend(op.typical_ns >> 1)
        if op.sequence == "python":
            self.parents.pop()
        spent_ns = self.clock_ns - begin_ns
        times = (*divmod(begin_ns, 1000), *divmod(spent_ns, 1000))
        records[place] = (op.template, (self.plan.pid, tid, *times, *arguments))
        self.spend(700)

    def numbers(self, op: Op, external_id: int) -> tuple[object, ...]:
        """Give the ids that the operator's template asks for, opening or answering a sequence."""
        event = self.next_id("event")
        if op.sequence == "none":
            return external_id, event
        if op.sequence == "python":
            parent = self.parents[-1] if self.parents else "null"
            self.parents.append(self.next_id("python"))
            return self.parents[-1], parent, event
        if op.sequence == "forward":
            self.sequence += 1
            self.current_flow = self.next_id("flow")
            self.open_sequences.append((self.sequence, self.current_flow))
            return external_id, self.sequence, event
        if not op.flow:
            self.current_sequence, self.current_flow = self.open_sequences.pop()
        return external_id, self.current_sequence, event

    def run_call(self, call: Call, external_id: int) -> None:
        """Run a CUDA call, and its work on the device when there is some."""
        correlation = self.next_id("correlation")
        begin_ns = self.clock_ns
        self.spend(call.typical_ns)
        if call.waits:
            self.clock_ns = max(self.clock_ns, *self.free_ns.values()) + 1500
        if call.work is not None:
            self.launch(call.work, external_id, correlation)
        pid, tid = self.plan.pid, self.tid
        spent_ns = self.clock_ns - begin_ns
        times = (*divmod(begin_ns, 1000), *divmod(spent_ns, 1000))
        arrow = LAUNCH_IN if call.work is None else LAUNCH_OUT
        self.step.records["device"] += (
            (call.template, (pid, tid, *times, external_id, correlation)),
            (arrow, (correlation, pid, tid, *times[:2])),
        )
        self.spend(500)

    def launch(self, work: DeviceWork, external_id: int, correlation: int) -> None:
        """Put work on its stream, behind what is there and never before its launch."""
        stream, rank = work.stream, self.plan.rank
        begin_ns = max(self.clock_ns + 1800, self.free_ns[stream] + 900)
        spent_ns = int(work.typical_ns * (0.9 + 0.2 * self.random()))
        if stream == COMM_STREAM:
            # All ranks leave a collective together; how early each one enters differs.
            begin_ns = max(begin_ns, self.free_ns[COMPUTE_STREAM])
            early_ns = int(spent_ns * 0.4 * self.skew())
            begin_ns, spent_ns = begin_ns + early_ns, spent_ns - early_ns
        self.free_ns[stream] = begin_ns + spent_ns
        times = (*divmod(begin_ns, 1000), *divmod(spent_ns, 1000))
        if stream == COMM_STREAM:
            self.mark_device("nccl:all_reduce", stream, (begin_ns, spent_ns), external_id)
        self.step.records["device"] += (
            (work.template, (rank, stream, *times, external_id, correlation)),
            (LAUNCH_IN, (correlation, rank, stream, *times[:2])),
        )

    def mark_device(
        self, name: str, stream: int, span_ns: tuple[int, int], external_id: int
    ) -> None:
        """Note the device side of an annotation."""
        template = EVENT % ("gpu_user_annotation", name, '"External id": %d')
        begin_ns, spent_ns = span_ns
        times = (*divmod(begin_ns, 1000), *divmod(spent_ns, 1000))
        record = (template, (self.plan.rank, stream, *times, external_id))
        self.step.device_ranges.append(record)

    def run_step(self, number: int, workload: Workload) -> Step:
        """Run one training step and give its records."""
        self.step = Step()
        self.thread = "main"
        self.parents.clear()
        device_begin_ns = max(self.clock_ns, self.free_ns[COMPUTE_STREAM])
        begin_ns = self.clock_ns
        range_id, event = self.next_id("external"), self.next_id("event")
        main = self.step.records["main"]
        main.append(("", ()))
        self.run(workload.before, range_id)
        self.thread = "autograd"
        self.spend(60_000)
        self.run(workload.backward, range_id)
        self.thread = "main"
        self.spend(20_000)
        self.free_ns[COMPUTE_STREAM] = max(self.free_ns.values())
        self.run(workload.after, range_id)
        spent_ns = self.clock_ns - begin_ns
        name = f"ProfilerStep#{number}"
        times = (*divmod(begin_ns, 1000), *divmod(spent_ns, 1000))
        pid = self.plan.pid
        main[0] = (annotation(name).template, (pid, pid, *times, range_id, event))
        device_span_ns = (device_begin_ns, self.free_ns[COMPUTE_STREAM] - device_begin_ns)
        self.mark_device(name, COMPUTE_STREAM, device_span_ns, range_id)
        self.spend(30_000)
        return self.step


def text_of(records: Iterable[Record], device: str) -> str:
    """Give the JSON of these records, each followed by a comma."""
    joined = "".join([template % values + ",\n" for template, values in records])
    return joined.replace('"device": DEVICE', f'"device": {device}')


def header(plan: Plan) -> str:
    """Give everything before the first event."""
    device = (
        '    {\n      "id": %d, "name": "NVIDIA H200", "totalGlobalMem": 150109880320,\n'
        '      "computeMajor": 9, "computeMinor": 0,\n'
        '      "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048,\n'
        '      "regsPerBlock": 65536, "warpSize": 32,\n'
        '      "sharedMemPerBlock": 49152, "numSms": 132\n'
        '    , "regsPerMultiprocessor": 65536, "sharedMemPerBlockOptin": 232448,'
        ' "sharedMemPerMultiprocessor": 233472\n    }'
    )
    size = plan.world_size
    trace_id = f"{random.Random(plan.seed + plan.rank).getrandbits(128):032X}"
    return (
        '\n  {\n    "schemaVersion": 1,\n    "deviceProperties": [\n'
        + ",\n".join(device % rank for rank in range(size))
        + f'\n    ],\n      "trace_id": "{trace_id}",\n      "record_shapes": 1,\n'
        + ('      "with_stack": 1,\n' if plan.stacks else "")
        + f'      "distributedInfo": {{"backend": "nccl", "rank": {plan.rank},'
        f' "world_size": {size}, "pg_count": 1, "pg_config": [{{"pg_name": "0",'
        f' "pg_desc": "default_pg", "backend_config": "cuda:nccl", "pg_size": {size},'
        f' "ranks": {list(range(size))}}}], "nccl_version": "2.28.9"}},\n'
        '      "cuda_driver_version": 13000,\n      "cuda_runtime_version": 13000,\n'
        '      "cupti_version": 130001,\n  "displayTimeUnit": "ms",\n'
        f'  "baseTimeNanoseconds": {BASE_TIME_NS},\n  "traceEvents": [\n'
    )


def stamp(time_ns: int) -> str:
    """Give a time as Kineto writes it, in microseconds with three decimals."""
    return f"{time_ns // 1000}.{time_ns % 1000:03d}"


def names(plan: Plan) -> Iterator[str]:
    """Give the metadata events that name processes, devices, streams and threads."""
    text = (
        '  {\n    "name": "%s", "ph": "M", "ts": %s, "pid": %d, "tid": %d,\n'
        '    "args": {\n      "%s": %s\n    }\n  },\n'
    )
    first = stamp(FIRST_STAMP_NS + 69_482)
    processes = [(plan.pid, "CPU", plan.pid)]
    processes += [(gpu, f"GPU {gpu}", 5_000_000 + gpu) for gpu in range(16)]
    for pid, label, order in processes:
        yield text % ("process_name", first, pid, 0, "name", '"python3"')
        yield text % ("process_labels", first, pid, 0, "labels", f'"{label}"')
        yield text % ("process_sort_index", first, pid, 0, "sort_index", order)
    autograd_tid = plan.pid + 23
    threads = [
        (plan.rank, COMPUTE_STREAM, f"stream {COMPUTE_STREAM} "),
        (plan.rank, COMM_STREAM, f"stream {COMM_STREAM} "),
        (plan.pid, autograd_tid, f"thread {autograd_tid} (pt_autograd_0)"),
        (plan.pid, plan.pid, f"thread {plan.pid} (python3)"),
    ]
    for pid, tid, label in threads:
        yield text % ("thread_name", first, pid, tid, "name", f'"{label}"')
        yield text % ("thread_sort_index", first, pid, tid, "sort_index", tid)


def footer(end_ns: int) -> str:
    """Give the profiler's own span and marks, and the end of the document."""
    begin = stamp(FIRST_STAMP_NS)
    return (
        f'  {{\n    "ph": "X", "cat": "Trace", "ts": {begin}, "dur": '
        f'{stamp(end_ns - FIRST_STAMP_NS)},\n    "pid": "Spans", "tid": "PyTorch Profiler",\n'
        '    "name": "PyTorch Profiler (0)",\n    "args": {\n      "Op count": 0\n    }\n  },\n'
        f'  {{\n    "name": "process_sort_index", "ph": "M", "ts": {begin},\n'
        '    "pid": "Spans", "tid": 0,\n    "args": {\n      "sort_index": 536870912\n    }\n  },\n'
        '  {\n    "name": "Iteration Start: PyTorch Profiler", "ph": "i", "s": "g",\n'
        f'    "pid": "Traces", "tid": "Trace PyTorch Profiler", "ts": {begin}\n  }},\n'
        '  {\n    "name": "Record Window End", "ph": "i", "s": "g",\n'
        f'    "pid": "", "tid": "", "ts": {stamp(end_ns + 900_000)}\n  }}\n  ],\n'
        '  "traceName": "/tmp/benchmark.json"\n}'
    )


def document(plan: Plan) -> Iterator[str]:
    """Give the trace in pieces of a step and section, in the order in which Kineto writes it."""
    workload = training_step(plan.layers, plan.rank, plan.world_size, stacks=plan.stacks)
    device = str(plan.rank)
    sample = Timeline(plan).run_step(0, workload)
    step_characters = sum(len(text_of(records, device)) for records in sample.records.values())
    steps = max(MINIMUM_STEPS, round(plan.size_mb * 1e6 / step_characters))
    yield header(plan)
    device_ranges: list[Record] = []
    end_ns = FIRST_STAMP_NS
    # The operators of all steps come before the device's events of all steps, so that the same
    # timeline is run once for each section: cheaper than to hold the others in memory or on disk.
    for section in SECTIONS:
        timeline = Timeline(plan)
        for number in range(2, 2 + steps):
            step = timeline.run_step(number, workload)
            yield text_of(step.records[section], device)
            if section == "device":
                device_ranges += step.device_ranges
        end_ns = timeline.clock_ns
    yield text_of(device_ranges, device)
    yield from names(plan)
    yield footer(end_ns)


def opened(plan: Plan) -> AbstractContextManager[IO[bytes]]:
    """Open the file of a plan for writing."""
    if plan.compress:
        return cast("IO[bytes]", gzip.open(plan.path, "wb", compresslevel=1))
    return plan.path.open("wb")


def write_rank(plan: Plan) -> int:
    """Write the trace of one rank and give the size of its JSON in bytes."""
    size_bytes = 0
    with opened(plan) as file:
        for piece in document(plan):
            size_bytes += file.write(piece.encode())
    return size_bytes


def parsed(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path, metavar="OUT_DIR")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--mb", type=float, default=200, help="JSON of one rank, in 10^6 bytes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--gz", action="store_true", help="compress")
    parser.add_argument("--stacks", action="store_true", help="add Python frames")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> None:
    """Write one trace for each rank, the ranks side by side."""
    options = parsed(arguments)
    options.directory.mkdir(parents=True, exist_ok=True)
    plans = [
        Plan(options.directory, rank, max(2, options.ranks), options.mb, options.seed, options.gz,
             options.stacks)
        for rank in range(options.ranks)
    ]  # fmt: skip
    with ProcessPoolExecutor() as pool:
        for plan, size_bytes in zip(plans, pool.map(write_rank, plans), strict=True):
            sys.stdout.write(f"{plan.path}\t{size_bytes}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
