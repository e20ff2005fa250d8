"""What else is changed beside the bucket cap."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

HALVED = 0.5


@dataclass(frozen=True, slots=True)
class Scenario:
    """Changes to a job; without any it is as it was recorded.

    `link` is how many times the bandwidth the link has. `is_compressed` sends numbers of four bytes
    as two, of the type `compression`. `alpha_ns` and `bandwidth_gb_s` are known better than what
    the recording tells: they are of the job as it was, too.
    """

    link: float = 1.0
    is_compressed: bool = False
    compression: str = "fp16"
    without_straggler: bool = False
    free_communication: bool = False
    perfect_overlap: bool = False
    alpha_ns: float | None = None
    bandwidth_gb_s: float | None = None

    @property
    def is_line_given(self) -> bool:
        """Whether somebody gives what a collective costs."""
        return self.alpha_ns is not None or self.bandwidth_gb_s is not None

    @property
    def words(self) -> list[str]:
        """What is changed, in words."""
        return list(self._words())

    def _words(self) -> Iterator[str]:
        if self.link != 1:
            yield f"a link of {self.link:g} times the bandwidth"
        if self.is_compressed:
            yield (
                f"gradients sent with half the bytes ({self.compression}), what packing them costs "
                "left out"
            )
        if self.without_straggler:
            yield "the straggler as fast as the median of the others"
        if self.free_communication:
            yield "communication that takes no time"
        if self.perfect_overlap:
            yield "communication that may begin with the step"
