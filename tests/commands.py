"""`ddptrace report` as a process and in this one, and what holds of it for every input."""

from __future__ import annotations

import contextlib
import gzip
import io
import re
import subprocess
import sys

from traces import plain

from ddptrace.cli import main

NOT_A_NUMBER = re.compile(r"\b(?:nan|inf|infinity)\b", re.IGNORECASE)
NULL_WHEN_PARTIAL = (
    *("overlap_ratio", "hidden_comm_ns", "exposed_comm_ns", "exposed_mem_ns", "idle_ns", "tail_ns"),
)


def report(*arguments):
    """Run `ddptrace report` as a process; check what holds for every input."""
    command = [sys.executable, "-m", "ddptrace", "report", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    check_always(done.returncode, done.stdout, done.stderr)
    return done


def check_always(code, stdout, stderr):
    assert code in (0, 2), stderr
    assert "Traceback" not in stderr
    assert not NOT_A_NUMBER.search(stdout)


class Done:
    """The end of a command that ran in this process: what `report` returns, at once."""

    def __init__(self, code, stdout, stderr):
        self.returncode, self.stdout, self.stderr = code, stdout, stderr


def quick(monkeypatch, *arguments):
    """Run `ddptrace report` in this process, since a hundred processes would take a minute."""
    monkeypatch.setattr(sys, "argv", ["ddptrace", "report", *map(str, arguments)])
    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
    check_always(code, stdout.getvalue(), stderr.getvalue())
    return Done(code, stdout.getvalue(), stderr.getvalue())


def assert_refused(done, *words):
    """Check that the command failed with one line that holds these words."""
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("ddptrace: ")
    for word in words:
        assert word.lower() in done.stderr.lower()


def pair(folder):
    for rank in (0, 1):
        plain(rank).write(folder / f"rank{rank}.json")
    return folder


def two_steps(rank=1):
    """State a rank with steps 5 and 6, each of 640 µs compute and 310 µs communication."""
    kineto = plain(rank).step(6, 1000, 1000)
    for start, end in ((1100, 1300), (1300, 1500), (1500, 1700), (1820, 1860)):
        kineto.gpu(start, end)
    return kineto.comm(1450, 1600).comm(1640, 1800)


TEXT = two_steps().text(indent=None).encode()
ARRAY_END = TEXT.index(b'], "traceName"')
PACKED = gzip.compress(TEXT)
