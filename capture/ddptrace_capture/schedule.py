"""Which step of a job is warmed up, timed or recorded; no torch, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ddptrace_capture.options import Options

Kind: TypeAlias = Literal["warmup", "timed", "prepare", "record", "linger"]
Part: TypeAlias = Literal["figures", "full"]


@dataclass(frozen=True, slots=True)
class Phase:
    """Steps [first, end) of the job; `part` is what is prepared or recorded in them."""

    kind: Kind
    first: int
    end: int
    part: Part | None = None


def plan(options: Options, parts: tuple[Part, ...]) -> tuple[Phase, ...]:
    """Return the phases of a rank in order, without a gap, from step 0 on.

    The figures come first: a recording of CUDA alone costs as much as a full one once a full one
    was made in the process. With nsys one more step goes by before the range is closed: one nsys
    around several ranks stops with the first of them, and once a rank has ended another step with
    the others, they have all ended those that are recorded.
    """
    lengths: list[tuple[Kind, int, Part | None]] = [
        # The recorder finds the job's loop at the end of its first step.
        ("warmup", max(options.warmup, 1), None),
        ("timed", options.timed, None),
    ]
    for recorded in parts:
        lengths += [("prepare", 1, recorded), ("record", options.steps, recorded)]
    if options.profiler == "nsys":
        lengths.append(("linger", 1, parts[-1]))
    phases: list[Phase] = []
    first = 0
    for kind, length, part in lengths:
        if length:
            phases.append(Phase(kind, first, first + length, part))
        first += length
    return tuple(phases)


def first_recorded(phases: tuple[Phase, ...]) -> int:
    """Return the step with which the first recording begins; of no recording, the first timed."""
    by_kind = {phase.kind: phase.first for phase in reversed(phases)}
    return by_kind.get("record", by_kind.get("timed", phases[-1].end))
