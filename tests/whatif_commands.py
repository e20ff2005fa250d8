"""Commands in this process: what they print, or the one line with which they refuse."""

from __future__ import annotations

import contextlib
import io
import sys

from ddptrace.cli import main


def _run(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["ddptrace", *map(str, words)])
    stdout, stderr = io.StringIO(), io.StringIO()
    code = 0
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    return code, stdout.getvalue(), stderr.getvalue()


def command(monkeypatch, *words) -> str:
    """Return what a command prints that succeeds."""
    code, stdout, stderr = _run(monkeypatch, *words)
    assert code == 0, stderr
    return stdout


def refused(monkeypatch, *words) -> str:
    """Return the one line with which a command refuses."""
    code, stdout, stderr = _run(monkeypatch, *words)
    assert (code, stdout, stderr.count("\n")) == (2, "", 1), stderr
    assert stderr.startswith("ddptrace: ")
    return stderr
