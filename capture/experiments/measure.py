"""What one rank measures of one configuration: three clocks that are never mixed."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.distributed as dist
from branches import Job, Place, build
from configurations import Configuration
from overlap import overlap_figures
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.profiler import ProfilerActivity, profile, schedule

WARM_UP_STEPS = 11  # DDP's own logger synchronises at the start of iterations 2 to 11
HOOK_WARM_UP_STEPS = 2  # DDP lays its buckets out anew after the first
HOOK_STEPS = 2
RECORDED_STEPS = 3

Mark = tuple[int, "torch.cuda.Event | None"]


class Clocks:
    """The times of a block of steps: stamps of the host, and events on the GPU where there is one.

    Neither is ever subtracted from the other; GPU times are read once the block has ended.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.host_ns: dict[str, list[int]] = {}
        self._events: dict[str, list[tuple[torch.cuda.Event, torch.cuda.Event]]] = {}

    def mark(self) -> Mark:
        """Return the present moment on both clocks."""
        if self.place.device.type != "cuda":
            return time.perf_counter_ns(), None
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return time.perf_counter_ns(), event

    def add(self, name: str, start: Mark, end: Mark) -> None:
        """Keep what lies between two marks as one time of `name`."""
        self.host_ns.setdefault(name, []).append(end[0] - start[0])
        if start[1] is not None and end[1] is not None:
            self._events.setdefault(name, []).append((start[1], end[1]))

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Time what is done inside; the GPU's events enclose the host's stamps."""
        start = self.mark()
        began = time.perf_counter_ns()
        yield
        ended = time.perf_counter_ns()
        self.add(name, (began, start[1]), (ended, self.mark()[1]))

    def gpu_ns(self, name: str) -> list[int] | None:
        """Return the times of `name` on the GPU's clock, or None without a GPU."""
        pairs = self._events.get(name)
        return [round(start.elapsed_time(end) * 1e6) for start, end in pairs] if pairs else None


def timed_steps(job: Job, place: Place, first: int, count: int) -> dict[str, Any]:
    """Train `count` pipelined steps without hook or profiler and return their times."""
    clocks = Clocks(place)
    place.meet()
    began = time.perf_counter_ns()
    _train(job, clocks, range(first, first + count))
    place.synchronize()
    block_ns = time.perf_counter_ns() - began
    return {
        "block_ns": block_ns,
        "step_ns": clocks.gpu_ns("step") or clocks.host_ns["step"],
        "backward_gpu_ns": clocks.gpu_ns("backward"),
        "backward_host_ns": clocks.host_ns["backward"],
        "optimizer_host_ns": clocks.host_ns["optimizer"],
    }


def _train(job: Job, clocks: Clocks, steps: range) -> None:
    start = clocks.mark()
    for number in steps:
        loss = job.loss(number)
        with clocks.timed("backward"):
            loss.backward()
        with clocks.timed("optimizer"):
            job.optimizer.step()
        job.optimizer.zero_grad()
        end = clocks.mark()
        clocks.add("step", start, end)
        start = end


def hook_stamps(configuration: Configuration, place: Place) -> list[list[dict[str, Any]]]:
    """Return the calls of a comm hook in each of a few steady steps of a model of its own."""
    job = build(configuration, place)
    calls: list[dict[str, Any]] = []

    def stamp(_: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        calls.append(
            {
                "stamp_ns": time.perf_counter_ns(),
                "bucket": bucket.index(),
                "bytes": bucket.buffer().nbytes,
                "last": bucket.is_last(),
            }
        )
        return allreduce_hook(None, bucket)  # type: ignore[arg-type]

    job.model.register_comm_hook(None, stamp)
    steps = [_stamped_step(job, place, calls, n) for n in range(HOOK_WARM_UP_STEPS + HOOK_STEPS)]
    return steps[HOOK_WARM_UP_STEPS:]


def _stamped_step(
    job: Job, place: Place, calls: list[dict[str, Any]], number: int
) -> list[dict[str, Any]]:
    """Train one step from an idle GPU and return its calls, stamped from the backward's start."""
    calls.clear()
    place.meet()
    loss = job.loss(number)
    began = time.perf_counter_ns()
    loss.backward()
    job.optimizer.step()
    job.optimizer.zero_grad()
    return [call | {"stamp_ns": call["stamp_ns"] - began} for call in calls]


def recorded_steps(job: Job, place: Place, first: int) -> dict[str, Any]:
    """Record a few pipelined steps with the profiler and return what overlapped in them."""
    on_gpu = place.device.type == "cuda"
    with TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        with profile(
            # Kernels alone: with the host's events on, the host is slower and the overlap another.
            activities=[ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU],
            schedule=schedule(wait=0, warmup=1, active=RECORDED_STEPS, repeat=1),
            on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(path)),
        ) as profiler:
            _record(job, place, profiler, first)
        # Decimal, because a float of microseconds cannot hold nanoseconds exactly.
        trace = json.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)
    return overlap_figures(trace["traceEvents"], on_gpu=on_gpu) | {"steps": RECORDED_STEPS}


def _record(job: Job, place: Place, profiler: profile, first: int) -> None:
    """Train a step that is thrown away and those that are kept, with idle devices at both ends."""
    job.step(first)
    place.meet()
    profiler.step()
    place.meet()
    for number in range(first + 1, first + 1 + RECORDED_STEPS):
        job.step(number)
        if number == first + RECORDED_STEPS:
            place.synchronize()
        profiler.step()


def ddp_logger_data(job: Job) -> dict[str, Any]:
    """Return what DDP's own logger says: its bucket layout and its times, in nanoseconds."""
    data = job.model._get_ddp_logging_data()
    rebuilt = bool(data.get("has_rebuilt_buckets"))
    sizes = str(data.get("rebuilt_bucket_sizes" if rebuilt else "bucket_sizes", ""))
    times = ("backward_compute_time", "backward_comm_time", "backward_compute_comm_overlap_time")
    return {
        "rebuilt": rebuilt,
        "bucket_bytes": [int(size) for size in sizes.split(",") if size.strip()],
        "mean_ns": {name: data.get(f"avg_{name}") for name in times},
        "last_ns": {name: data.get(name) for name in times},
    }
