"""A signal that comes while a command is being started ends that command, too."""

import os
import signal
import subprocess
import sys
import time
from importlib import import_module

import pytest

from ddptrace_capture import child

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
POPEN = subprocess.Popen
CAPTURE = import_module("ddptrace.cli.capture")  # the package's attribute is the command


@pytest.fixture
def signalled(monkeypatch, request):
    """Send a signal to this process as soon as a command was started, before anybody knows it.

    Which one is the parameter, else that of Ctrl-C, from no terminal.
    """
    for module in (child, CAPTURE):
        monkeypatch.setattr(module, "_at_terminal", lambda: False)
    number = getattr(request, "param", signal.SIGINT)

    def start(*words, **options):
        started = POPEN(*words, **options)
        time.sleep(0.5)  # Python dies of a signal that comes before it is up, and says so with 1
        os.kill(os.getpid(), number)
        return started

    monkeypatch.setattr(subprocess, "Popen", start)
    return number


@pytest.mark.parametrize(
    ("signalled", "is_nsys", "passed_on"),
    [
        (signal.SIGINT, False, signal.SIGINT),
        (signal.SIGHUP, False, signal.SIGHUP),
        (signal.SIGHUP, True, signal.SIGTERM),
    ],
    indirect=["signalled"],
)
def test_the_recorder_passes_it_on_to_the_job(signalled, is_nsys, passed_on):
    began = time.monotonic()
    ended = child.run(SLEEP, os.environ, is_nsys=is_nsys)
    assert (ended.code, ended.interrupted, ended.by) == (128 + passed_on, True, signalled)
    assert time.monotonic() - began < 30


def test_the_sweep_passes_it_on_to_the_recorder(signalled, monkeypatch):
    monkeypatch.setattr(CAPTURE, "_recorder", lambda words: [*SLEEP, *words])
    began = time.monotonic()
    assert CAPTURE.run_recorder([]) == 130
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("missing", ["no-such-command-here", ""])
def test_a_command_that_cannot_be_started_leaves_signals_as_they_were(missing):
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(child.CaptureError, match="cannot be started"):
        child.run([missing], os.environ)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(
    "run", [lambda: child.run(SLEEP, os.environ), lambda: CAPTURE.run_recorder([])]
)
def test_a_signal_that_we_were_told_to_ignore_is_ignored(run, monkeypatch):
    """As `nohup` has it: the command inherits that, and goes on."""
    asks = "import signal; print(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN)"
    seen = []

    def start(*_, **options):
        seen.append(signal.getsignal(signal.SIGHUP))
        return POPEN([sys.executable, "-c", asks], **options)

    monkeypatch.setattr(subprocess, "Popen", start)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        run()
    finally:
        signal.signal(signal.SIGHUP, before)
    assert seen == [signal.SIG_IGN]
