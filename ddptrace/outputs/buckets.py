"""How DDP laid out the gradients, in one line: the buckets, and what holds them up as a rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ddptrace.metrics.bucket_summary import Bucket
from ddptrace.report import Report
from ddptrace.wording import ranges

_OFTEN = 0.5
"""What happens to a bucket on every rank in this part of its all-reduces is the rule."""
_NOTABLE = 0.25
"""A backlog is told of when at least this part of the buckets has one."""
_MOST_BLOCKERS = 3


def bucket_lines(report: Report) -> list[str]:
    """Return how many buckets there are, how large, and what is odd; nothing without buckets."""
    if report.run.buckets is None or not report.buckets:
        return []
    return [f"buckets: {'; '.join([_layout(report.buckets), *_oddities(report)])}"]


def _layout(buckets: Sequence[Bucket]) -> str:
    known = [one.size_bytes for one in buckets if one.size_bytes is not None]
    if len(known) < len(buckets):
        return f"{len(buckets)} of unknown size"
    (least, unit), (most, most_unit) = map(_size, (min(known), max(known)))
    if (least, unit) == (most, most_unit):
        each = f"{least} {unit}"
    else:
        each = f"{least}{'' if unit == most_unit else f' {unit}'} to {most} {most_unit}"
    total = "" if len(known) == 1 else f", {' '.join(_size(sum(known)))} in all"
    return f"{len(buckets)} of {each}{total}"


def _size(size_bytes: int) -> tuple[str, str]:
    if size_bytes < 100_000:
        return f"{size_bytes / 1e3:.1f}", "kB"
    return f"{size_bytes / 1e6:.1f}", "MB"


def _oddities(report: Report) -> Iterator[str]:
    if report.run.buckets is not None and report.run.buckets.rebuilt is False:
        yield "not rebuilt after the first step"
    blocked = {
        one.bucket: _least([each.blocked_ratio for each in one.ranks]) for one in report.buckets
    }
    behind = _behind([number for number, ratio in blocked.items() if ratio >= _OFTEN])
    for blocker, mine in list(behind.items())[:_MOST_BLOCKERS]:
        always = all(blocked[number] == 1 for number in mine)
        yield (
            f"{_named(mine)} for the gradients of bucket {blocker} in "
            f"{'every step' if always else 'most steps'}"
        )
    more = sum(map(len, list(behind.values())[_MOST_BLOCKERS:]))
    if more:
        yield f"and {more} more wait like that"
    backlog = [
        one
        for one in report.buckets
        if _least([each.backlog_ratio for each in one.ranks]) >= _OFTEN > blocked[one.bucket]
    ]
    if len(backlog) >= _NOTABLE * len(report.buckets):
        those = f"{len(backlog)} of {len(report.buckets)}"
        yield f"{those} wait for the all-reduce before them as a rule"


def _named(blocked: Sequence[int]) -> str:
    if len(blocked) == 1:
        return f"bucket {blocked[0]} is ready before and waits"
    return f"buckets {ranges(blocked)} are ready before and wait"


def _behind(blocked: Sequence[int]) -> dict[int, list[int]]:
    """Return blocked buckets by whose gradients they wait for: the last one before that is not."""
    found: dict[int, list[int]] = {}
    for number in blocked:
        blocker = number - 1
        while blocker in blocked:
            blocker -= 1
        found.setdefault(blocker, []).append(number)
    return found


def _least(ratios: Sequence[float | None]) -> float:
    return min((ratio for ratio in ratios if ratio is not None), default=0)
