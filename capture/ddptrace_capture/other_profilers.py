"""Notices when the script uses torch.profiler itself: torch records for one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_BEGIN = ("_prepare_profiler", "_enable_profiler")
_END = "_disable_profiler"


class OtherProfilers:
    """Whether a profiler of the script's own is at work; calls a listener before one begins.

    Two that begin beside each other end in an exception, or in a crash of the process.
    """

    def __init__(self, before_one_begins: Callable[[], None]) -> None:
        import torch.autograd.profiler as module

        self.active = False
        self._before_one_begins = before_one_begins
        self._module: Any = module
        self._ours = False
        self._originals: dict[str, Any] = {}
        for name in (*_BEGIN, _END):
            if hasattr(module, name):
                self._wrap(name)

    @contextmanager
    def ours(self) -> Iterator[None]:
        """Mark what is done to torch's profiler meanwhile as the recorder's own doing."""
        before, self._ours = self._ours, True
        try:
            yield
        finally:
            self._ours = before

    def close(self) -> None:
        """Leave nothing behind in torch."""
        while self._originals:
            setattr(self._module, *self._originals.popitem())

    def _wrap(self, name: str) -> None:
        original = self._originals[name] = getattr(self._module, name)

        def wrapper(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            if not self._ours:
                self._note(begins=name != _END)
            return original(*args, **kwargs)

        setattr(self._module, name, wrapper)

    def _note(self, *, begins: bool) -> None:
        self.active = begins
        if begins:
            self._before_one_begins()
