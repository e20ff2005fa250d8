"""The command line called in this process, and what a refusal looks like."""

from __future__ import annotations

import contextlib
import io
import sys
from dataclasses import dataclass

from ddptrace.cli import main


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    stdout: str
    stderr: str


def call(monkeypatch, *words) -> Done:
    """Run `ddptrace` with these words."""
    monkeypatch.setattr(sys, "argv", ["ddptrace", *map(str, words)])
    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
    assert "Traceback" not in stderr.getvalue()
    return Done(code, stdout.getvalue(), stderr.getvalue())


def refused(done: Done, words: str) -> None:
    """Check that a command failed with one line that holds these words."""
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr.startswith("ddptrace: ")
    assert done.stderr.count("\n") == 1
    assert words in done.stderr


def csv(path, step_ms, count=20):
    """Write step times, all of this length."""
    path.write_text("step_ms\n" + f"{step_ms}\n" * count)
    return path
