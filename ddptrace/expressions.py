"""Regular expressions of the user's, each asked once about a name and not for ever."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn, Protocol

from ddptrace.errors import UsageError
from ddptrace.wording import one_line

_LIMIT_S = 5.0
_SHOWN = 60


class Expression(Protocol):
    """What may be asked about names: a compiled pattern of ours or the user's."""

    @property
    def pattern(self) -> str:
        """The expression as it was written."""

    def search(self, string: str, /) -> re.Match[str] | None:
        """Return where the expression is found in a text."""


class UserExpression:
    """A compiled expression that gives up when all its names took more than a few seconds.

    Nested repetitions such as `(a+)+b` may need ages for a single name.
    """

    def __init__(self, expression: str, option: str) -> None:
        """Compile the expression that was given for an option; UsageError for a bad one."""
        try:
            self._compiled = re.compile(expression)
        except re.error as error:
            raise UsageError(
                f"{option} {expression!r} is not a regular expression ({error}); quote it and "
                "escape characters such as ( [ +"
            ) from error
        self.pattern = expression
        self._option = option
        self._found: dict[str, re.Match[str] | None] = {}
        self._left_s = _LIMIT_S

    def __reduce__(self) -> tuple[type[UserExpression], tuple[str, str]]:
        """Compile anew in another process: what was found cannot be sent there."""
        return type(self), (self.pattern, self._option)

    def search(self, string: str, /) -> re.Match[str] | None:
        """Return where the expression is found in a text; UsageError when that takes too long."""
        if string not in self._found:
            try:
                with self._limited():
                    self._found[string] = self._compiled.search(string)
            except _TooLongError:
                name = one_line(string)
                shown = name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…"
                raise UsageError(
                    f"{self._option} {self.pattern!r} takes more than {_LIMIT_S:g} s on names such "
                    f"as {shown!r}; write it without nested repetitions such as (a+)+"
                ) from None
        return self._found[string]

    @contextmanager
    def _limited(self) -> Iterator[None]:
        """Interrupt what is done inside when the time is over; the module `re` looks for signals.

        Processor time counts, so that a busy machine changes nothing. Python handles signals in
        the main thread alone, and Windows has no such clock: there nothing is limited.
        """
        if not (
            hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
        ):
            yield
            return
        if self._left_s <= 0:
            raise _TooLongError
        started_s = time.thread_time()
        before = signal.signal(signal.SIGVTALRM, _too_long)
        signal.setitimer(signal.ITIMER_VIRTUAL, self._left_s)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, signal.SIG_DFL if before is None else before)
            # The timer itself counts in ticks, of which most names take none.
            self._left_s -= time.thread_time() - started_s


class _TooLongError(Exception):
    pass


def _too_long(number: int, frame: FrameType | None) -> NoReturn:
    raise _TooLongError
