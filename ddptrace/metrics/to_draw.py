"""What of a recording a picture shows beside its busy times: operations by name, host ranges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ddptrace import kernels
from ddptrace.intervals import IntArray
from ddptrace.kernels import Kind
from ddptrace.metrics.idle import IdleTimes
from ddptrace.metrics.recorded import Recorded
from ddptrace.model import HostKind, HostRanges

_PHASES = ("forward", "backward", "optimizer", "data_loader", "sync_calls")
_BACKWARD = "backward"


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """Operations or ranges, one row each, sorted by start; `name` is a place, -1 for none."""

    start_ns: IntArray
    end_ns: IntArray
    name: IntArray

    def __len__(self) -> int:
        return int(self.start_ns.size)

    def clip(self, start_ns: int, end_ns: int) -> Times:
        """Return the rows inside [start_ns, end_ns), cut at its ends."""
        rows = np.flatnonzero((self.end_ns > start_ns) & (self.start_ns < end_ns))
        return Times(
            np.maximum(self.start_ns[rows], start_ns),
            np.minimum(self.end_ns[rows], end_ns),
            self.name[rows],
        )


class ToDraw:
    """What a picture shows of one recording, worked out when it is first asked for.

    `shift` gives what to take off times that start at some moments; `idle` the idle times.
    """

    def __init__(
        self,
        recorded: Recorded,
        idle: Callable[[], IdleTimes],
        shift: Callable[[IntArray], IntArray],
    ) -> None:
        self._recorded = recorded
        self._idle = idle
        self._shift = shift

    @cached_property
    def idle(self) -> IdleTimes:
        """The idle times by cause, on the clock of the recording."""
        return self._idle()

    @cached_property
    def names(self) -> list[str]:
        """What the rows of `times` are called, each name once."""
        names = self._recorded.trace.names
        return [*(names[code] for code in self._codes.tolist()), _BACKWARD]

    def times(self, what: str) -> Times:
        """Return the compute kernels, the copies, or the host ranges of one of the phases."""
        start_ns, end_ns, name = self._rows[what]
        shift_ns = self._shift(start_ns)
        place = np.searchsorted(self._codes, name)
        known = np.append(self._codes, -1)[place] == name
        is_backward = what == _BACKWARD
        place = np.where(known & (name >= 0), place, self._codes.size if is_backward else -1)
        return Times(start_ns - shift_ns, end_ns - shift_ns, place)

    @cached_property
    def _codes(self) -> NDArray[np.int64]:
        """The codes of all names in use, rising."""
        used = np.unique(np.concatenate([name for *_, name in self._rows.values()]))
        return used[used >= 0].astype(np.int64)

    @cached_property
    def _rows(self) -> dict[str, tuple[IntArray, IntArray, IntArray]]:
        ops = self._recorded.trace.ops
        rows = {}
        for what, kind in (("kernels", Kind.COMPUTE), ("copies", Kind.MEM)):
            mine = np.flatnonzero(ops.kind == kind)
            rows[what] = ops.start_ns[mine], ops.end_ns[mine], ops.name[mine].astype(np.int64)
        return rows | {what: self._phase(what) for what in _PHASES}

    def _phase(self, what: str) -> tuple[IntArray, IntArray, IntArray]:
        host = self._recorded.trace.host
        if what == _BACKWARD:
            return self._backward_passes(host)
        mine = np.flatnonzero(self._is_phase[what][host.name]) if len(host) else np.empty(0, int)
        if what == "sync_calls":
            mine = mine[host.kind[mine] == HostKind.CALL]
        return host.start_ns[mine], host.end_ns[mine], host.name[mine].astype(np.int64)

    def _backward_passes(self, host: HostRanges) -> tuple[IntArray, IntArray, IntArray]:
        """Return each backward pass as one range: what the engine ran between two forward passes.

        Where no forward pass was recorded they end with the optimizer's steps.
        """
        is_engine = self._is_phase[_BACKWARD]
        rows = np.flatnonzero(is_engine[host.name]) if len(host) else np.empty(0, int)
        borders = np.sort(np.concatenate((self._phase("forward")[0], self._phase("optimizer")[0])))
        _, first = np.unique(np.searchsorted(borders, host.start_ns[rows]), return_index=True)
        if not first.size:
            nothing = np.empty(0, np.int64)
            return nothing, nothing, nothing
        end_ns = np.maximum.reduceat(host.end_ns[rows], first)
        return host.start_ns[rows][first], end_ns, np.full(first.size, -1, np.int64)

    @cached_property
    def _is_phase(self) -> dict[str, NDArray[np.bool_]]:
        """Which names mean which phase, each name in use asked once."""
        trace = self._recorded.trace
        tests = {
            "forward": kernels.is_ddp_range,
            _BACKWARD: kernels.is_backward_operator,
            "optimizer": kernels.is_optimizer_range,
            "data_loader": kernels.is_loader,
            "sync_calls": kernels.is_sync_call,
        }
        used = np.flatnonzero(np.bincount(trace.host.name, minlength=1)).tolist()
        found = {}
        for what, test in tests.items():
            passed = np.zeros(len(trace.names) + 1, np.bool_)
            if len(trace.host):
                passed[[code for code in used if test(trace.names[code])]] = True
            found[what] = passed
        return found
