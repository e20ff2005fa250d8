"""How messages name files, numbers and counts, so that a line stays a line."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

_MOST_LISTED = 4
# Controls of terminals, what ends a line, and what turns the direction of what follows.
_CONTROL = r"\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069"
_CONTROLS = re.compile(f"[{_CONTROL}]+")
_CONTROL_IN_LINES = re.compile(f"(?!\n)[{_CONTROL}]")


def one_line(text: object) -> str:
    """Return any text as one line that can be printed and written: no controls, no odd bytes."""
    printable = _CONTROLS.sub(" ", str(text))
    return printable.encode("utf-8", "replace").decode()


def safe_lines(text: str) -> str:
    """Return lines as they are, with a space for each control but the ends of lines."""
    return _CONTROL_IN_LINES.sub(" ", text)


def listed(words: Collection[str]) -> str:
    """Return some words in order: a few of them, and how many more there are."""
    few = sorted(words)[:_MOST_LISTED]
    more = len(words) - len(few)
    return ", ".join(few) + (f" and {more} more" if more else "")


def capital(words: str) -> str:
    """Return words with a capital at their start, as a sentence has it."""
    return words[:1].upper() + words[1:]


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: "1 file", "2 files", "2 launches"."""
    plural = "es" if noun.endswith(("s", "ch")) else "s"
    return f"{number} {noun}{'' if number == 1 else plural}"


def ranges(numbers: Collection[int]) -> str:
    """Return whole numbers as runs: "0-2, 5, 7-9"."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in runs)


def of_ranks(numbers: Collection[int]) -> str:
    """Return ranks with their noun: "rank 3", "ranks 0-2, 5"."""
    return f"rank{'s' if len(numbers) > 1 else ''} {ranges(numbers)}"


def explained(numbers: Collection[int], reasons: Mapping[int, str]) -> str:
    """Return whole numbers as runs, those with a reason behind: "0-2, 5; 3 (killed)"."""
    groups: dict[str | None, list[int]] = {None: []}
    for number in sorted(numbers):
        groups.setdefault(reasons.get(number), []).append(number)
    return "; ".join(
        ranges(group) if reason is None else f"{ranges(group)} ({reason})"
        for reason, group in groups.items()
        if group
    )
