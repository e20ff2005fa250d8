"""What is told of one finding, and how its numbers are written."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a finding means, how it is computed, when it misleads, a picture, and what to try.

    The first sentence of `meaning` is short: it stands for the finding in a list. `picture` is
    plain text, drawn as it is.
    """

    code: str
    meaning: str
    how: str
    misleads: str
    picture: str
    advice: str

    @property
    def first_sentence(self) -> str:
        """The sentence that stands for the finding in a list, without its full stop."""
        return self.meaning.split(". ", 1)[0].rstrip(".")


def percent(ratio: float) -> str:
    """Return a ratio as a person reads it: "5 %"."""
    return f"{100 * ratio:g} %"


def microseconds(ns: float) -> str:
    """Return a time in microseconds: "50 us"."""
    return f"{ns / 1e3:g} us"


def milliseconds(ns: float) -> str:
    """Return a time in milliseconds: "1.5 ms"."""
    return f"{ns / 1e6:g} ms"


def kibibytes(size_bytes: int) -> str:
    """Return a size in KiB, from 1 MiB on in MiB: "128 KiB", "25 MiB"."""
    if size_bytes >= 1 << 20:
        return f"{size_bytes / (1 << 20):g} MiB"
    return f"{size_bytes / (1 << 10):g} KiB"
