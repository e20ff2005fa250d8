"""`ddptrace capture` and `ddptrace doctor`: the recorder's own commands, which share no code."""

from __future__ import annotations

import os
import sys

import typer
from typer.core import TyperCommand


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
    _become_recorder(context.args)


def doctor(context: typer.Context) -> None:
    """Say what this machine can record: torch, CUDA, CUPTI, NCCL, nsys, permissions, disk."""
    _become_recorder(["doctor", *context.args])


def _become_recorder(words: list[str]) -> None:
    """Put the recorder in the place of this process, so that signals and exit codes are its own."""
    sys.stdout.flush()
    command = [sys.executable, "-m", "ddptrace_capture", *words]
    os.execv(command[0], command)
