"""Puts nsys around each rank from inside: the launcher's command line stays as it is."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ddptrace_capture import nsys
from ddptrace_capture.options import Options

_UNDER_NSYS = "DDPTRACE_UNDER_NSYS"
_LAUNCHER = re.compile(
    r"(^|[/.])(torchrun|torch[./]distributed[./](run|launch)|accelerate|deepspeed|lightning|fabric"
    r"|accelerate[./]commands[./](launch|accelerate_cli)|deepspeed[./]launcher[./](runner|launch))"
    r"(\.py)?$"
)


def starts_ranks(command: Sequence[str]) -> bool:
    """Tell whether a command is a launcher that gives each rank a process with RANK set."""
    return any(_LAUNCHER.search(word) for word in command[:4])


def report_of(output: str, name: str) -> Path:
    """Return the report, without its suffix, that nsys is told to write for a rank or the job."""
    return Path(output) / name


def run_under_nsys(options: Options) -> None:
    """Replace this process, if it is a rank that is to be recorded, by nsys running it anew."""
    rank = os.environ.get("RANK", "")
    local_rank = os.environ.get("LOCAL_RANK", "")
    if not options.nsys_each_rank or not rank.isdecimal() or _UNDER_NSYS in os.environ:
        return
    if not options.wants(int(rank), int(local_rank) if local_rank.isdecimal() else None):
        return
    program = [sys.executable, *sys.orig_argv[1:]]
    output = report_of(options.output, f"rank{rank}")
    command = nsys.profile_command(Path(str(options.nsys)), output, program)
    os.environ[_UNDER_NSYS] = str(_talk_on_stderr())
    os.execv(command[0], command)


def _talk_on_stderr() -> int:
    """Point standard output to stderr, for what nsys itself says; return where it went before."""
    kept = os.dup(1)
    os.set_inheritable(kept, True)
    os.dup2(2, 1)
    return kept


def give_back_stdout() -> None:
    """Let the program that nsys started write to where its output went before nsys."""
    kept = os.environ.get(_UNDER_NSYS, "")
    if kept.isdecimal() and int(kept) > 2:
        with suppress(OSError):  # an nsys that keeps descriptors from its program
            os.dup2(int(kept), 1)
            os.close(int(kept))
        os.environ[_UNDER_NSYS] = "0"
