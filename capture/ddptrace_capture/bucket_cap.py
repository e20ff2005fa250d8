"""Gives DistributedDataParallel another bucket cap than the script asks for, from outside."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Mapping
from typing import Any

_CAP = "bucket_cap_mb"
_LIST = "bucket_cap_mb_list"  # newer PyTorch: a cap for each bucket, which goes before the one cap


class BucketCap:
    """Sets the cap of every DDP model that is made from now on, until `close`.

    `asked` holds what the script asked for, by model: None is PyTorch's default.
    """

    def __init__(self, cap_mb: float) -> None:
        from torch.nn.parallel import DistributedDataParallel

        # A whole number stays one: that is what PyTorch's own default is.
        self.cap_mb = int(cap_mb) if cap_mb == int(cap_mb) else cap_mb
        self.asked: weakref.WeakKeyDictionary[Any, float | list[float] | None] = (
            weakref.WeakKeyDictionary()
        )
        self._class: Any = DistributedDataParallel
        self._original = DistributedDataParallel.__init__
        self._class.__init__ = self._around(inspect.signature(self._original))

    def close(self) -> None:
        """Leave nothing behind in torch."""
        self._class.__init__ = self._original

    def _around(self, signature: inspect.Signature) -> Any:  # noqa: ANN401 - a function like torch's
        original = self._original

        @functools.wraps(original)
        def made(*args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - what torch takes
            try:
                given = signature.bind(*args, **kwargs)
            except TypeError:
                original(*args, **kwargs)  # whose own words are the better ones
                return
            asked = _asked(given.arguments)
            given.arguments.pop(_LIST, None)
            given.arguments[_CAP] = self.cap_mb
            original(*given.args, **given.kwargs)
            self.asked[args[0]] = asked

        return made


def _asked(given: Mapping[str, Any]) -> float | list[float] | None:
    """Return the cap in the arguments of a call, or its caps."""
    several = given.get(_LIST)
    if several:
        return [float(each) for each in several]
    cap = given.get(_CAP)
    return None if cap is None else float(cap)
