"""The differences of two ledgers, which add up to the difference of their steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ddptrace.diagnosis.finding import LISTED_PART
from ddptrace.diagnosis.ledger import PARTS, Ledger

Group: TypeAlias = Literal["compute", "exposed_comm", "exposed_mem", "idle"]

_MOST_NAMED = 3
_GROUPS: dict[Group, str] = {
    "compute": "compute",
    "exposed_comm": "exposed communication",
    "exposed_mem": "exposed copies",
    "idle": "idle time",
}
WORDS: dict[str, tuple[Group, str]] = {
    "compute_ns": ("compute", "compute"),
    "straggler_ns": ("exposed_comm", "waiting for another rank"),
    "bucket_schedule_ns": ("exposed_comm", "transfer that a schedule could hide"),
    "comm_bandwidth_ns": ("exposed_comm", "transfer due to bandwidth"),
    "comm_latency_ns": ("exposed_comm", "transfer due to fixed cost"),
    "comm_unknown_ns": ("exposed_comm", "communication of unknown cause"),
    "exposed_mem_ns": ("exposed_mem", "exposed copies"),
    "input_stall_ns": ("idle", "waiting for the input"),
    "sync_wait_ns": ("idle", "waiting after a synchronization"),
    "launch_bound_ns": ("idle", "waiting for launches"),
    "idle_unknown_ns": ("idle", "idle time of unknown cause"),
}
"""The group of each part of a ledger, and what it is called where people read it."""

_UNKNOWN = ("comm_unknown_ns", "idle_unknown_ns")


@dataclass(frozen=True, slots=True)
class Difference:
    """One time in two runs, in ns; `difference_ns` is b_ns − a_ns."""

    a_ns: int
    b_ns: int
    difference_ns: int

    @classmethod
    def of(cls, a_ns: int, b_ns: int) -> Difference:
        """Return the difference of two times."""
        return cls(a_ns, b_ns, b_ns - a_ns)

    @property
    def is_listed(self) -> bool:
        """Whether a step's times differ by enough to speak of."""
        return abs(self.difference_ns) >= listed_ns(self)


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the ledger in two runs; `share_ratio` is its share of the step's difference.

    The share is None where the steps do not differ.
    """

    part: str
    group: Group
    words: str
    a_ns: int
    b_ns: int
    difference_ns: int
    share_ratio: float | None


def listed_ns(step: Difference) -> int:
    """Return what a difference has to be to be named: a part of the longer step."""
    return max(round(LISTED_PART * max(step.a_ns, step.b_ns)), 1)


def parts_of(a: Ledger, b: Ledger) -> list[Part]:
    """Return the differences of all parts of two ledgers, which add up to that of their steps."""
    whole_ns = b.step_ns - a.step_ns
    return [_part(name, getattr(a, name), getattr(b, name), whole_ns) for name in PARTS]


def _part(name: str, a_ns: int, b_ns: int, whole_ns: int) -> Part:
    group, words = WORDS[name]
    found_ns = b_ns - a_ns
    return Part(
        part=name.removesuffix("_ns"),
        group=group,
        words=words,
        a_ns=a_ns,
        b_ns=b_ns,
        difference_ns=found_ns,
        share_ratio=found_ns / whole_ns if whole_ns else None,
    )


def grouped(parts: Sequence[Part]) -> list[tuple[Part, list[Part]]]:
    """Return the sum of each group with those of its parts that any run has, in order."""
    found = []
    for group, words in _GROUPS.items():
        mine = [part for part in parts if part.group == group]
        shares = [part.share_ratio for part in mine if part.share_ratio is not None]
        whole = Part(
            part=group,
            group=group,
            words=words,
            a_ns=sum(part.a_ns for part in mine),
            b_ns=sum(part.b_ns for part in mine),
            difference_ns=sum(part.difference_ns for part in mine),
            share_ratio=sum(shares) if shares else None,
        )
        found.append((whole, [part for part in mine if part.a_ns or part.b_ns]))
    return found


def changes(step: Difference, parts: Sequence[Part]) -> list[Part]:
    """Return what differs most: at most three of those that are worth naming, the largest first.

    A group is named as a whole where its part of unknown cause differs: what one run tells apart
    and the other does not is no change of the job.
    """
    limit_ns = listed_ns(step)
    named: list[Part] = []
    for whole, mine in grouped(parts):
        is_vague = any(
            f"{part.part}_ns" in _UNKNOWN and abs(part.difference_ns) >= limit_ns for part in mine
        )
        named += [whole] if is_vague else mine
    large = [part for part in named if abs(part.difference_ns) >= limit_ns]
    return sorted(large, key=lambda part: -abs(part.difference_ns))[:_MOST_NAMED]
