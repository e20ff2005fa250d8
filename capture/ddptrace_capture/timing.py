"""Step times without a step's synchronisation: CUDA events on GPUs, the host's clock elsewhere."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Times:
    """How long steps took: each by its own clock, and the whole block by the host's."""

    first_step: int
    block_ns: int
    step_ns: list[int]


class StepClock:
    """Times consecutive steps; between `begin` and `end` the GPU is never waited for."""

    def __init__(self, *, cuda: bool) -> None:
        self._cuda = cuda
        self._first_step = 0
        self._start_ns = 0
        self._stamps: list[Any] = []

    def begin(self, first_step: int, *, synchronize: bool) -> None:
        """Start with the step that begins now, after the GPU's earlier work if that is asked."""
        if synchronize:
            self._wait()
        self._first_step = first_step
        self._start_ns = time.perf_counter_ns()
        self._stamps = [self._stamp()]

    def tick(self) -> None:
        """Note that a step ended."""
        self._stamps.append(self._stamp())

    def end(self) -> Times:
        """Wait for the GPU once, and return the times of the steps that ended."""
        self._wait()
        block_ns = time.perf_counter_ns() - self._start_ns
        pairs = zip(self._stamps, self._stamps[1:])  # noqa: B905 - the shift is the point
        return Times(self._first_step, block_ns, [self._between(*pair) for pair in pairs])

    def _wait(self) -> None:
        if self._cuda:
            import torch

            torch.cuda.synchronize()

    def _stamp(self) -> Any:  # noqa: ANN401 - an event of CUDA or a number
        if not self._cuda:
            return time.perf_counter_ns()
        import torch

        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _between(self, first: Any, second: Any) -> int:  # noqa: ANN401 - as above
        if self._cuda:
            return round(float(first.elapsed_time(second)) * 1e6)
        return int(second) - int(first)
