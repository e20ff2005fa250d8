"""What every reader gives: one recording of one rank."""

from __future__ import annotations

from dataclasses import dataclass

from ddptrace.model import Trace, Warn


@dataclass(frozen=True, slots=True)
class Recording:
    """One recording and the rank that the file itself tells for it; None where it tells none.

    `about_file` are warnings that are not about this recording alone, but about its whole file.
    """

    trace: Trace
    told_rank: int | None
    about_file: tuple[Warn, ...] = ()
