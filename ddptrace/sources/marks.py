"""Step marks of a recording, numbered so that each number is there once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ddptrace.manifest import Mark


def distinct(marks: Sequence[Mark]) -> list[Mark]:
    """Return the marks as they are, or numbered in their order when a number comes again."""
    if len({mark.index for mark in marks}) < len(marks):
        return [replace(mark, index=place) for place, mark in enumerate(marks)]
    return list(marks)
