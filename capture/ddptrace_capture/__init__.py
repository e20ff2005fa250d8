"""Records the ranks of an unedited training script; torch and the standard library only."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["step"]

_listeners: list[Callable[[], None]] = []


def step() -> None:
    """Mark the end of a training step, exactly; does nothing outside `ddptrace capture`.

    Once a script calls this, its optimizers' steps are no longer taken for ends of steps.
    """
    for listener in tuple(_listeners):
        listener()
