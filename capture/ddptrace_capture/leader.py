"""Which of several optimizers ends an iteration with its step."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

_PATIENCE = 8
_RAREST = 6
"""An optimizer that steps more rarely than every sixth step of another one ends no iteration."""


@dataclass
class _Seen:
    """The steps of one optimizer, as numbers of all optimizers' steps."""

    steps: int
    first: int
    last: int
    is_alive: Callable[[], bool]

    @property
    def interval(self) -> float:
        """How many steps of all optimizers lie between two of this one, on average."""
        return (self.last - self.first) / (self.steps - 1)


class Leader:
    """Tells which of several optimizers ends an iteration with its step.

    It is the rarest of those that step again and again (of a generator and its discriminator the
    one that ends the round), the last in order among equals. Until `settle` it is the one with the
    most steps, the first among equals.
    All ranks must choose alike, so only the order of the steps counts. An optimizer that is made
    anew for the same parameters is the same one.
    """

    def __init__(self) -> None:
        self._seen: dict[Hashable, _Seen] = {}
        self._now = 0
        self._leader: Hashable = None
        self._settled = False

    def ends_iteration(self, optimizer: Any) -> bool:  # noqa: ANN401 - torch's, or like it
        """Note a step of an optimizer, and tell whether an iteration ends with it."""
        key, is_alive = _identity(optimizer)
        self._now += 1
        seen = self._seen.setdefault(key, _Seen(0, self._now, self._now, is_alive))
        seen.steps, seen.last, seen.is_alive = seen.steps + 1, self._now, is_alive
        if self._leader is None or self._gives_way(self._seen[self._leader], seen):
            self._leader = key
        return key == self._leader

    def _gives_way(self, leader: _Seen, other: _Seen) -> bool:
        return self._is_gone(leader) or (not self._settled and other.steps > leader.steps)

    def settle(self) -> bool:
        """Choose by what was seen so far, once; tell whether the choice is another one now."""
        regular = {key: seen for key, seen in self._seen.items() if self._is_regular(seen)}
        if self._settled or not regular:
            return False
        self._settled = True
        often = min(seen.interval for seen in regular.values())
        usual = {key: seen for key, seen in regular.items() if seen.interval <= _RAREST * often}
        fewest = min(seen.steps for seen in usual.values())
        # One that has yet to step in this round is one step behind.
        before, last = self._leader, [k for k, seen in usual.items() if seen.steps <= fewest + 1]
        self._leader = last[-1]
        return before != self._leader

    def _is_regular(self, seen: _Seen) -> bool:
        return seen.steps > 1 and self._now - seen.last <= 2 * seen.interval

    def _is_gone(self, seen: _Seen) -> bool:
        usual = seen.interval if seen.steps > 1 else 1.0
        return not seen.is_alive() or self._now - seen.last > 2 * usual + _PATIENCE


def _identity(optimizer: Any) -> tuple[Hashable, Callable[[], bool]]:  # noqa: ANN401 - as above
    """Return what an optimizer has in common with one made anew, and whether that still lives."""
    groups = getattr(optimizer, "param_groups", None)
    parameters = groups[0]["params"] if groups else []
    owner = parameters[0] if parameters else optimizer
    alive = weakref.ref(owner)
    return (type(optimizer), id(owner)), lambda: alive() is not None
