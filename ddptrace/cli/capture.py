"""`ddptrace capture` and `ddptrace doctor`: the recorder's own commands, which share no code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from types import FrameType

import typer
from typer.core import TyperCommand

_STDIN, _STDERR = 0, 2
_PASSED_ON = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")


class PassOn(TyperCommand):
    """A command whose words are all for the recorder, `--help` and `--` included."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Keep the words as they are."""
        ctx.args = list(args)
        return ctx.args


def capture(context: typer.Context) -> None:
    """Record some steps of every rank of a training script, without a change to it.

    ddptrace capture [options] -- torchrun --nproc-per-node 4 train.py …
    """
    become_recorder(context.args)


def doctor(context: typer.Context) -> None:
    """Say what this machine can record: torch, CUDA, CUPTI, NCCL, nsys, permissions, disk."""
    become_recorder(["doctor", *context.args])


def become_recorder(words: list[str]) -> None:
    """Put the recorder in the place of this process, so that signals and exit codes are its own."""
    sys.stdout.flush()
    command = _recorder(words)
    os.execv(command[0], command)


def run_recorder(words: Sequence[str]) -> int:
    """Run the recorder with all output of its jobs on stderr, and return its exit code.

    It is 128 + N when signal N ended it.
    """
    sys.stdout.flush()
    early: list[int] = []
    recorder: subprocess.Popen[bytes] | None = None

    def pass_on(number: int, _frame: FrameType | None) -> None:
        if recorder is None:
            early.append(number)
        # A Ctrl-C at the terminal has reached the recorder already.
        elif not (number == signal.SIGINT and _at_terminal()):
            recorder.send_signal(number)

    numbers = [getattr(signal, name) for name in _PASSED_ON if hasattr(signal, name)]
    # First, so that no signal ends us and leaves the recorder running.
    heard = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, pass_on) for number in heard}
    try:
        recorder = subprocess.Popen(_recorder(words), stdout=_STDERR)
        for number in early:
            pass_on(number, None)
        code = recorder.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 128 - code if code < 0 else code


def _at_terminal() -> bool:
    """Tell whether this process is in the foreground of a terminal, which signals all of them."""
    try:
        return os.tcgetpgrp(_STDIN) == os.getpgrp()
    except OSError:
        return False


def _recorder(words: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "ddptrace_capture", *words]
