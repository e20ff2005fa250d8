"""Starts the user's command with the recorder within reach, and stands aside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

from ddptrace_capture.errors import CaptureError
from ddptrace_capture.options import VARIABLE, Options

_BOOTSTRAP = Path(__file__).parent / "bootstrap"
_ENDING = ("SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT")
_PASSED_ON = (*_ENDING, "SIGUSR1", "SIGUSR2")


def environment(options: Options, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the child's environment: the inherited one, with the recorder in every Python."""
    path = [str(_BOOTSTRAP), *filter(None, [inherited.get("PYTHONPATH")])]
    # A job may change its folder.
    told = replace(options, output=str(Path(options.output).absolute()))
    return {**inherited, VARIABLE: told.to_text(), "PYTHONPATH": os.pathsep.join(path)}


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: its exit code, 128 + N when signal N ended it.

    `interrupted` says that somebody meant to end it meanwhile, `by` with which signal.
    """

    code: int
    interrupted: bool = False
    by: int = signal.SIGINT


def run(command: Sequence[str], variables: Mapping[str, str], *, is_nsys: bool = False) -> Ended:
    """Run a command to its end.

    Its standard streams are ours. Signals that we get are passed on; a Ctrl-C at the terminal has
    reached the command already. nsys ends with 0 after a signal, and SIGHUP would end it alone and
    leave its program running.
    """
    got: list[int] = []
    child: subprocess.Popen[bytes] | None = None

    def tell(number: int) -> None:
        if child is not None and not (number == signal.SIGINT and _at_terminal()):
            lone = is_nsys and number == signal.SIGHUP
            child.send_signal(signal.SIGTERM if lone else number)

    def pass_on(number: int, _frame: FrameType | None) -> None:
        got.append(number)
        tell(number)

    numbers = [getattr(signal, name) for name in _PASSED_ON if hasattr(signal, name)]
    # First, so that no signal ends us and leaves the command running.
    heard = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, pass_on) for number in heard}
    try:
        child = subprocess.Popen(list(command), env=dict(variables))
        for number in tuple(got):
            tell(number)
        code = child.wait()
    except OSError as error:
        raise CaptureError(f"{command[0]}: cannot be started: {error.strerror}") from error
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    ending = [number for number in got if signal.Signals(number).name in _ENDING]
    if is_nsys and code == 0 and got:
        code = 128 + got[-1]
    by = ending[0] if ending else signal.SIGINT
    return Ended(128 - code if code < 0 else code, interrupted=bool(ending), by=by)


def _at_terminal() -> bool:
    """Tell whether this process is in the foreground of a terminal, which signals all of them."""
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError):
        return False
