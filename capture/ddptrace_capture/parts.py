"""One recording of some steps of a rank: by torch.profiler or by Nsight Systems."""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ddptrace_capture.options import Options
from ddptrace_capture.rank import Rank
from ddptrace_capture.schedule import Part
from ddptrace_capture.timing import StepClock
from ddptrace_capture.trace_file import StepMark, finish


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recording as the manifest tells it; `step_ns` are the steps' times while recorded."""

    part: Part
    file: str
    activities: list[str]
    marks: list[StepMark]
    step_ns: list[int]


class Recording(Protocol):
    """Records consecutive steps; all methods are called between two steps of the job."""

    def prepare(self) -> None:
        """Warm the profiler up."""

    def start(self, step: int) -> None:
        """Begin to record with `step`, which begins now."""

    def tick(self, *, last: bool) -> None:
        """Note that a step ended; unless it was the last one, the next one begins."""

    def stop(self) -> Recorded | None:
        """End, and write what was recorded; None when not one step ended meanwhile."""

    def abandon(self) -> None:
        """End, and write nothing."""


class Marks:
    """Host stamps and step times of consecutive steps."""

    def __init__(self, *, cuda: bool) -> None:
        self._clock = StepClock(cuda=cuda)
        self._first = 0
        self._stamps_ns: list[int] = []

    def start(self, step: int) -> None:
        """Begin with `step`; the GPU may still work on earlier ones."""
        self._first = step
        self._clock.begin(step, synchronize=False)
        self._stamps_ns = [time.time_ns()]

    def tick(self) -> int:
        """Note the end of a step, and return the number of the next one."""
        self._stamps_ns.append(time.time_ns())
        self._clock.tick()
        return self._first + len(self._stamps_ns) - 1

    def all(self) -> list[StepMark]:
        """Return the steps that ended."""
        ends = enumerate(self._stamps_ns[1:])
        return [StepMark(self._first + place, self._stamps_ns[place], end) for place, end in ends]

    def step_ns(self) -> list[int]:
        """Return the times of the steps that ended, after waiting for the GPU."""
        return self._clock.end().step_ns


class TorchRecording:
    """Records with torch.profiler: CUDA alone for the figures, everything for the causes."""

    def __init__(
        self,
        part: Part,
        rank: Rank,
        options: Options,
        ours: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        from torch.profiler import ProfilerActivity, _KinetoProfile

        cuda = [ProfilerActivity.CUDA] if rank.cuda else []
        cpu = [] if part == "figures" else [ProfilerActivity.CPU]
        full = part == "full"
        self._profile = _KinetoProfile(
            activities=[*cpu, *cuda],
            record_shapes=full and options.record_shapes,
            with_stack=full and options.with_stack,
        )
        self._activities = [*(["cpu"] if cpu else []), *(["cuda"] if cuda else [])]
        self._ours = ours
        self._part = part
        self._rank = rank
        infix = "" if full else f".{part}"
        self._target = Path(options.output) / f"rank{rank.rank}{infix}.pt.trace.json.gz"
        self._marks = Marks(cuda=rank.cuda)
        self._prepared = False
        self._running = False
        self._thread = (os.getpid(), threading.get_native_id())

    def prepare(self) -> None:
        """See `Recording`."""
        with self._ours(), warnings.catch_warnings():
            # torch tells everybody that one profiler keeps one recording: here it makes only one.
            warnings.filterwarnings("ignore", message=".*Profiler clears events")
            self._profile.prepare_trace()
        self._prepared = True

    def start(self, step: int) -> None:
        """See `Recording`."""
        with self._ours():
            self._profile.start_trace()
        self._prepared, self._running = False, True
        self._marks.start(step)

    def tick(self, *, last: bool) -> None:
        """See `Recording`."""
        self._marks.tick()

    def stop(self) -> Recorded | None:
        """See `Recording`."""
        marks = self._marks.all()
        if not marks:
            self.abandon()
            return None
        step_ns = self._marks.step_ns()
        self._end()
        self._write(marks)
        return Recorded(self._part, self._target.name, self._activities, marks, step_ns)

    def abandon(self) -> None:
        """See `Recording`."""
        with suppress(Exception), self._ours():
            if self._prepared:  # only what has begun can end
                self._profile.start_trace()
                self._prepared, self._running = False, True
            self._end()

    def _end(self) -> None:
        if self._running:
            self._running = False
            with self._ours():
                self._profile.stop_trace()

    def _write(self, marks: list[StepMark]) -> None:
        hidden = f".{self._target.name}"
        plain = self._target.with_name(f"{hidden}.plain")
        about = {"part": self._part, **self._rank.identity()}
        try:
            self._profile.export_chrome_trace(str(plain))
            finish(plain, self._target, marks, self._thread, about)
        finally:
            for left in self._target.parent.glob(f"{hidden}.*"):
                left.unlink(missing_ok=True)


class NsysRecording:
    """Opens nsys's capture range around the steps, and names them and the rank with NVTX."""

    def __init__(self, rank: Rank) -> None:
        self._rank = rank
        self._marks = Marks(cuda=True)
        self._running = False

    def prepare(self) -> None:
        """See `Recording`; nsys needs no warm-up of its own."""

    def start(self, step: int) -> None:
        """See `Recording`."""
        import torch

        # Work that is still queued would be recorded without its launches.
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStart()
        self._running = True
        told = self._rank.identity() | {"utc_ns": time.time_ns()}
        words = " ".join(f"{key}={value}" for key, value in told.items() if value is not None)
        torch.cuda.nvtx.range_push(f"ddptrace {words}")
        torch.cuda.nvtx.range_pop()
        self._marks.start(step)
        self._open(step)

    def tick(self, *, last: bool) -> None:
        """See `Recording`."""
        import torch

        torch.cuda.nvtx.range_pop()
        following = self._marks.tick()
        if not last:
            self._open(following)

    def stop(self) -> Recorded | None:
        """See `Recording`; nsys itself writes the file when the process has ended."""
        marks = self._marks.all()
        step_ns = self._marks.step_ns() if marks else []
        self.abandon()
        if not marks:
            return None
        name = f"rank{self._rank.rank}.sqlite"
        return Recorded("full", name, ["cuda", "nvtx"], marks, step_ns)

    def abandon(self) -> None:
        """See `Recording`; the range of a step that did not end stays open, so it has no end."""
        import torch

        if self._running:
            self._running = False
            torch.cuda.synchronize()
            torch.cuda.cudart().cudaProfilerStop()

    def _open(self, step: int) -> None:
        import torch

        torch.cuda.nvtx.range_push(f"ProfilerStep#{step}")
