"""How much of a run a page may hold, so that no run makes it larger than a mail can carry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

MOST_BYTES = 8_000_000
"""Of a page, whatever the run."""
_SMALLEST = 1_000


@dataclass(frozen=True, slots=True)
class Budget:
    """What a page may hold: rows of timelines, names, values of waiting, bytes of the report.

    The usual amounts fit for all runs but those whose data can hardly be compressed.
    """

    rows: int = 250_000
    names: int = 20_000
    waits: int = 200_000
    report_bytes: int = 3_500_000

    def half(self) -> Budget:
        """Return half of everything."""
        return Budget(self.rows // 2, self.names // 2, self.waits // 2, self.report_bytes // 2)


def fitting(page: Callable[[Budget], str]) -> str:
    """Return a page of at most 8 MB: with half as much of everything until it is as small."""
    budget = Budget()
    while True:
        text = page(budget)
        # Most of a page is base64: its characters are bytes.
        if len(text) <= MOST_BYTES // 2 or len(text.encode()) <= MOST_BYTES:
            return text
        if budget.rows < _SMALLEST:
            return text
        budget = budget.half()
