"""The comm operations of a rank as one table, in the order in which its program called them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ddptrace.intervals import IntArray
from ddptrace.kernels import Kind
from ddptrace.metrics.recorded import Recorded
from ddptrace.metrics.windows import Windows
from ddptrace.model import NEVER_NS, Group

NONE = -1
_LATEST_NS = np.iinfo(np.int64).max
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Numbers for the operations and the groups of all ranks, in the order of first sight."""

    operations: dict[str, int] = field(default_factory=dict)
    groups: dict[Group, int] = field(default_factory=dict)

    def operation(self, code: int) -> str | None:
        """Return the operation of a number; None for -1."""
        return None if code < 0 else list(self.operations)[code]


@dataclass(frozen=True, slots=True, eq=False)
class CommTable:
    """The comm operations of one rank, one row each, in the order of their launches.

    `recording` and `row` find the operation among the rank's recordings; times are those of its
    clock, `launch_ns` may be NEVER_NS. `step` is the number of the step that it belongs to, `place`
    the same for an operation that belongs to none as well, from those around it: where in the
    program it was called, as far as ranks can agree on that. `operation` and `group` are numbers
    of the `Vocabulary`, `window` says which of the recording's it belongs to. All of them are -1
    where they are not known.
    """

    recording: NDArray[np.int32]
    row: NDArray[np.intp]
    start_ns: IntArray
    end_ns: IntArray
    launch_ns: IntArray
    in_backward: NDArray[np.bool_]
    step: IntArray
    place: IntArray
    operation: NDArray[np.int32]
    group: NDArray[np.int32]
    size_bytes: IntArray
    part_bytes: IntArray
    call_bytes: IntArray
    sequence: IntArray
    source: NDArray[np.int32]
    destination: NDArray[np.int32]
    of_integers: NDArray[np.bool_]
    window: NDArray[np.intp]

    def __len__(self) -> int:
        return int(self.row.size)


def comm_table(recordings: Sequence[Recorded], words: Vocabulary) -> CommTable:
    """Return the comm operations of a rank's recordings, which are in order of time."""
    pieces = [_piece(number, one, words) for number, one in enumerate(recordings)]
    return CommTable(
        *(np.concatenate([piece[column.name] for piece in pieces]) for column in fields(CommTable))
    )


def _piece(number: int, recorded: Recorded, words: Vocabulary) -> dict[str, NDArray[Any]]:
    trace, ops = recorded.trace, recorded.trace.ops
    rows = np.flatnonzero(ops.kind == Kind.COMM)
    rows = rows[_program_order(ops.start_ns[rows], ops.launch_ns[rows], ops.stream[rows])]
    told = trace.collectives
    of_told = ops.collective[rows]
    owner = recorded.steps.owner[rows]
    step = _step_numbers(recorded.steps)[owner]
    return {
        "recording": np.full(rows.size, number, np.int32),
        "row": rows,
        "start_ns": ops.start_ns[rows],
        "end_ns": ops.end_ns[rows],
        "launch_ns": ops.launch_ns[rows],
        "in_backward": ops.in_backward[rows],
        "step": step,
        "place": _filled(step),
        "operation": _numbers(words.operations, told.operation, trace.names)[of_told],
        "group": _numbers(words.groups, told.group, trace.groups)[of_told],
        "size_bytes": told.size_bytes[of_told],
        "part_bytes": told.part_bytes[of_told],
        # As the call tells it: of an all-reduce that is the whole array.
        "call_bytes": np.maximum(told.size_bytes, told.part_bytes)[of_told],
        "sequence": told.sequence[of_told],
        "source": told.source[of_told],
        "destination": told.destination[of_told],
        "of_integers": told.of_integers[of_told],
        "window": owner,
    }


def _program_order(start_ns: IntArray, launch_ns: IntArray, stream: IntArray) -> NDArray[np.intp]:
    """Return the rows in the order of their launches; `start_ns` is rising.

    The operations of a stream run in that order, so one whose launch is unknown was launched
    before the next one of its stream.
    """
    by_stream = np.argsort(stream, kind="stable")
    known = np.where(launch_ns == NEVER_NS, _LATEST_NS, launch_ns)[by_stream]
    before = np.empty_like(known)
    for one in np.unique(stream):
        rows = stream[by_stream] == one
        before[rows] = np.minimum.accumulate(known[rows][::-1])[::-1]
    launched = np.empty_like(before)
    launched[by_stream] = before
    return np.lexsort((start_ns, launched))


def _step_numbers(steps: Windows) -> IntArray:
    """Return the number of each step, and at the end -1, which an owner of -1 finds."""
    numbers = [NONE if mark is None else mark.index for mark in steps.marks]
    return np.array([*numbers, NONE], np.int64)


def _filled(step: IntArray) -> IntArray:
    """Return steps with the unknown ones filled from the next known one, else from the last."""
    known = np.flatnonzero(step != NONE)
    if not known.size:
        return step
    following = np.searchsorted(known, np.arange(step.size))
    return step[known[np.minimum(following, known.size - 1)]]


def _numbers(
    known: dict[_Value, int], codes: NDArray[np.int32], values: Sequence[_Value]
) -> NDArray[np.int32]:
    """Return for each code the number of its value; new values get the next numbers."""
    number = np.full(len(values) + 1, NONE, np.int32)  # the last one is what a code of -1 finds
    for code in np.unique(codes[codes >= 0]):
        number[code] = known.setdefault(values[code], len(known))
    return number[codes]
