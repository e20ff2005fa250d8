"""DDP jobs stated by the sizes of parameters, recorded as torch.profiler would; times in µs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import cache

from traces import Kineto

from ddptrace import load_run
from ddptrace.whatif.packing import Limits, pack

MIB = 1 << 20
ENGINE = "autograd::engine::evaluate_function: "
GRADIENT = "torch::autograd::AccumulateGrad"
LOOP, AUTOGRAD = 1, 2
GAP = 3
"""Between a collective and the next one that was waiting."""


@dataclass
class Job:
    """A job: gradient k of `sizes` MiB is ready when k + 1 kernels of `kernel` µs have run.

    `buckets` are lists of places; a bucket takes `alpha` + its MiB × `per_mib`. Beside it compute
    takes `slow` times as long. `late` ranks compute so much longer in forward. The host launches
    each kernel of backward `host` µs after the one before, `names` is what kernel k is called. A
    bucket that waited for one before it starts `room` µs after it while compute runs, else `GAP`.
    """

    sizes: list[float]
    buckets: list[list[int]]
    kernel: float = 200
    alpha: float = 20
    per_mib: float = 10
    slow: float = 1.0
    forward: float = 400
    optimizer: float = 100
    late: dict[str, float] = field(default_factory=dict)
    steps: int = 4
    ranks: int = 2
    host: float = 1
    shapes: bool = True
    dtype: str = "float"
    unused: bool = False
    names: str = "gemm"
    room: float = GAP

    @property
    def ahead(self) -> float:
        """When the host begins a step, from its begin on the GPU: long before, if it can."""
        return 0.0 if self.host > 50 else -1000.0

    def cost(self, bucket: list[int]) -> float:
        return self.alpha + sum(self.sizes[place] for place in bucket) * self.per_mib


def timeline(job: Job, begin: float):
    """Return when kernels start and end on each rank, the buckets, and the end of both."""
    starts, ends, reduced, end = _timeline(json.dumps(vars(job)))
    return (
        {rank: [begin + each for each in mine] for rank, mine in starts.items()},
        {rank: [begin + each for each in mine] for rank, mine in ends.items()},
        [(begin + first, begin + last) for first, last in reduced],
        begin + end,
    )


@cache
def _timeline(told: str):  # noqa: C901  # a simulation in one place is easier to trust
    """Replay a job from 0, independently of the library: in steps of 1 µs.

    Compute of a rank starts with forward; it advances by 1 / slow a µs beside a bucket, and stands
    still in front of a kernel that is not launched.
    """
    job = Job(**json.loads(told))
    count = len(job.sizes)
    forward = {r: job.forward + job.late.get(str(r), 0) for r in range(job.ranks)}
    done = dict.fromkeys(range(job.ranks), 0.0)
    starts = {r: [0.0] * count for r in range(job.ranks)}
    ends = {r: [None] * count for r in range(job.ranks)}
    reduced, running, free_at, now = [], None, 0.0, 0.0
    need = [max(bucket) + 1 for bucket in job.buckets]

    def ready(rank, kernels):
        return done[rank] >= forward[rank] + kernels * job.kernel - 1e-9

    while len(reduced) < len(job.buckets) or not all(ready(r, count) for r in done):
        if running is None and len(reduced) < len(job.buckets) and now >= free_at:
            wanted = need[len(reduced)]
            if all(ready(r, wanted) for r in done):
                running = (now, now + job.cost(job.buckets[len(reduced)]))
        for rank in done:
            place = next((p for p in range(count) if not ready(rank, p + 1)), None)
            at_border = place is not None and ready(rank, place) and not (ready(rank, place + 1e-6))
            if not (at_border and now < launch_of(job, place) + 5):
                done[rank] += 1 / (job.slow if running else 1.0)
        now += 1
        for rank in done:
            for place in range(count):
                if done[rank] < forward[rank] + place * job.kernel + 1e-9:
                    starts[rank][place] = now
                if ends[rank][place] is None and ready(rank, place + 1):
                    ends[rank][place] = now
        if running and now >= running[1]:
            reduced.append(running)
            computes = not all(ready(r, count) for r in done)
            running, free_at = None, now + (job.room if computes else GAP)
    return starts, ends, reduced, now


def room_behind(reduced_at: float, job: Job, ends) -> float:
    return job.room if reduced_at < max(mine[-1] for mine in ends.values()) else GAP


def launch_of(job: Job, place: int) -> float:
    """Return when the host launches a kernel of backward, from the step's begin on the GPU."""
    return job.ahead + 20 + place * job.host


def record(job: Job, rank: int) -> Kineto:
    """State the recording of a rank."""
    kineto = Kineto(rank=rank, world_size=job.ranks)
    begin = 10_000.0
    for number in range(job.steps):
        starts, ends, reduced, end = timeline(job, begin)
        host = begin + job.ahead
        kineto.step(number, host, host + _host_length(job))
        forward_end = begin + job.forward + job.late.get(str(rank), 0)
        kineto.gpu(begin, forward_end, name="forward", launch=host + 10, thread=LOOP)
        kineto.event("user_annotation", "DistributedDataParallel.forward", host + 5, 10, tid=LOOP)
        at = host + 20
        for place, size in enumerate(job.sizes):
            kineto.event("cpu_op", ENGINE + "MulBackward0", at, 0.4, tid=AUTOGRAD)
            kineto.gpu(
                starts[rank][place], ends[rank][place], name=job.names.format(place),
                launch=at + 0.1, thread=AUTOGRAD,
            )  # fmt: skip
            shape = {"Input Dims": [[round(size * MIB / 4)]], "Input type": [job.dtype]}
            kineto.event("cpu_op", ENGINE + GRADIENT, at + 0.5, 0.4, tid=AUTOGRAD)
            kineto.event(
                "cpu_op", GRADIENT, at + 0.55, 0.1, tid=AUTOGRAD,
                **(shape if job.shapes else {}),
            )  # fmt: skip
            for bucket, (first, last) in zip(job.buckets, reduced, strict=True):
                if max(bucket) == place:
                    # A rank that comes earlier waits in the kernel.
                    ready_at = max(ends[rank][one] for one in bucket)
                    before = [b for a, b in reduced if b <= first]
                    own = max([ready_at, *[each + room_behind(each, job, ends) for each in before]])
                    _comm(kineto, job, bucket, (own, last, at + 0.7))
            at += job.host
        kineto.gpu(end, end + job.optimizer, name="adam", launch=at + 5, thread=LOOP)
        if job.unused:
            kineto.event(
                "cpu_op", "torch.distributed.ddp.reducer::search_unused_parameters", at, 1, tid=LOOP
            )
        begin = end + job.optimizer
    return kineto


def _host_length(job: Job) -> float:
    return 40 + len(job.sizes) * job.host + 20


def _comm(kineto, job, bucket, times):
    start, end, launch = times
    elements = sum(round(job.sizes[place] * MIB / 4) for place in bucket)
    told = {
        "Collective name": "allreduce", "In msg nelems": elements, "Out msg nelems": elements,
        "dtype": "Float", "Process Group Name": "0", "Group size": job.ranks,
        "Process Group Ranks": json.dumps(list(range(job.ranks))),
    }  # fmt: skip
    kineto.comm(start, end, launch=launch, thread=AUTOGRAD, **told)


def write(job: Job, folder):
    """Write the run of a job, and return its folder."""
    folder.mkdir(exist_ok=True)
    for rank in range(job.ranks):
        record(job, rank).write(folder / f"rank{rank}.json")
    return folder


def recorded(job: Job, folder):
    """Return the run of a job."""
    return load_run(write(job, folder))


def step_of(job: Job) -> float:
    """Return how long a step of a job takes, in µs: what a prediction of it should be."""
    *_, end = timeline(job, 0.0)
    return end + job.optimizer


SIZES = [4, 4, 8, 2, 2, 16, 4, 4]


CAPS = [1, 5, 8, 16, 100]


PLAIN = Job(SIZES, [[0, 1, 2], [3, 4, 5], [6, 7]])


def with_cap(job, cap):
    sizes = [round(size * MIB) for size in job.sizes]
    limit = int(cap * MIB)
    return replace(job, buckets=pack(sizes, [0] * len(sizes), Limits(limit, limit)))


def steps(found):
    return {one.bucket_cap_mb: one.step_ns / 1000 for one in found.predictions}
