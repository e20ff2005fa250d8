"""What of a recording a picture shows beside its busy times: operations by name, host ranges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddptrace import kernels
from ddptrace.intervals import IntArray
from ddptrace.kernels import Kind
from ddptrace.metrics.idle import IdleTimes
from ddptrace.metrics.recorded import Recorded
from ddptrace.model import HostKind, HostRanges, Ops

_Named: TypeAlias = tuple[IntArray, IntArray, IntArray]

_PHASES = {
    "forward": kernels.is_ddp_range,
    "optimizer": kernels.is_optimizer_range,
    "data_loader": kernels.is_loader,
}
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
    def _rows(self) -> dict[str, _Named]:
        """Start, end and code of the name of each row of all that `times` can be asked for."""
        ops, host = self._recorded.trace.ops, self._recorded.trace.host
        rows = {
            what: _of(ops, ops.kind == kind)
            for what, kind in (("kernels", Kind.COMPUTE), ("copies", Kind.MEM))
        }
        rows |= {what: _of(host, self._is_named(test)) for what, test in _PHASES.items()}
        rows["sync_calls"] = _of(
            host, self._is_named(kernels.is_sync_call) & (host.kind == HostKind.CALL)
        )
        engine = _of(host, self._is_named(kernels.is_backward_operator))
        rows[_BACKWARD] = _passes(engine, rows["forward"], rows["optimizer"])
        return rows

    def _is_named(self, test: Callable[[str], bool]) -> NDArray[np.bool_]:
        """Tell which host ranges have a name that passes a test; each name is asked once."""
        names, name = self._recorded.trace.names, self._recorded.trace.host.name
        passed = np.zeros(len(names), np.bool_)
        used = np.flatnonzero(np.bincount(name, minlength=1)).tolist()
        passed[[code for code in used if test(names[code])]] = True
        found: NDArray[np.bool_] = passed[name]
        return found


def _of(rows: Ops | HostRanges, chosen: NDArray[np.bool_]) -> _Named:
    mine = np.flatnonzero(chosen)
    return rows.start_ns[mine], rows.end_ns[mine], rows.name[mine].astype(np.int64)


def _passes(engine: _Named, forward: _Named, optimizer: _Named) -> _Named:
    """Return each backward pass as one range: what the engine ran between two forward passes.

    Where no forward pass was recorded they end with the optimizer's steps.
    """
    borders = np.sort(np.concatenate((forward[0], optimizer[0])))
    _, first = np.unique(np.searchsorted(borders, engine[0]), return_index=True)
    nothing = np.full(first.size, -1, np.int64)
    if not first.size:
        return nothing, nothing, nothing
    return engine[0][first], np.maximum.reduceat(engine[1], first), nothing
