"""What the options that several commands have mean."""

from __future__ import annotations

from ddptrace.errors import UsageError

MOST_DIGITS = 18
_LARGEST_RANK = 1_000_000


def rank_list(text: str) -> set[int]:
    """Return the ranks that a list such as 0,3 or 0-7 names; UsageError for any other text."""
    ranks: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise UsageError(f"--ranks {text[:40]}: give numbers, such as 0,3 or 0-7")
        if max(len(first), len(last)) >= MOST_DIGITS or int(last or first) > _LARGEST_RANK:
            raise UsageError(f"--ranks {text[:40]}: no run has so many ranks")
        if int(last or first) < int(first):
            raise UsageError(f"--ranks {text[:40]}: {part.strip()} runs backwards")
        ranks.update(range(int(first), int(last or first) + 1))
    return ranks
