"""`ddptrace sweep`: run a job with several bucket caps, and say which one to take."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from ddptrace.cli.capture import become_recorder, run_recorder
from ddptrace.cli.numbers import MIB, bounded, processes
from ddptrace.cli.progress import on_stderr
from ddptrace.cli.terminal import stdout_destination, write
from ddptrace.errors import RunError, UsageError

if TYPE_CHECKING:
    from ddptrace.model import Run  # numpy behind it would slow `--help` down

FOLDER = "ddptrace-sweep"
NOTHING = 2
INTERRUPTED = 130


def sweep(context: typer.Context) -> None:
    """Run a job with each of several bucket caps, without a change to it, and say which is best.

    ddptrace sweep --bucket-cap-mb 1,25,100 -- torchrun --nproc-per-node 4 train.py …

    What the sweep in a folder found is shown again without a command: ddptrace sweep -o DIR
    """
    try:
        code = _sweep(*_around_dashes(context.args))
    except KeyboardInterrupt:  # while what is there is read
        code = INTERRUPTED
    raise typer.Exit(code)


def _sweep(words: list[str], command: list[str]) -> int:
    """Run and show what was asked for, and return the exit code."""
    ours, recorders = _parser().parse_known_args(words)
    predict_from = None
    if ours.predict_from is not None:
        predict_from = bounded("--predict-from", ours.predict_from, MIB)
    folder = Path(ours.output)
    code = 0
    if {"--help", "-h"} & {*recorders}:
        become_recorder(["sweep", "--help"])
    if command or recorders:
        before = _stamp(folder)
        code = run_recorder(["sweep", "-o", ours.output, *recorders, *command])
        if _stamp(folder) == before:
            return code  # refused, in words of the recorder's own
    try:
        is_measured = _show(folder, predict_from, ours.json, ours.jobs)
    except RunError:
        if not code:
            raise
        return code  # the recorder has said why
    return code or (0 if is_measured else NOTHING)


def _around_dashes(words: Sequence[str]) -> tuple[list[str], list[str]]:
    place = list(words).index("--") if "--" in words else len(words)
    return list(words[:place]), list(words[place:])


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see ddptrace sweep --help")


def _parser() -> argparse.ArgumentParser:
    """Return the parser of what is not the recorder's to know; it reads `--output`, too."""
    found = _Parser(add_help=False, allow_abbrev=False)
    found.add_argument("-o", "--output", default=FOLDER)
    found.add_argument("--json")
    found.add_argument("--predict-from")
    found.add_argument("--jobs", type=processes)
    return found


def _stamp(folder: Path) -> tuple[int, int] | None:
    """Return what changes when the recorder begins a sweep: it writes its file anew."""
    from ddptrace.sweep.folder import NAME

    try:
        told = (folder / NAME).stat()
    except OSError:
        return None
    return told.st_ino, told.st_mtime_ns


def _show(folder: Path, predict_from: float | None, json: str | None, jobs: int | None) -> bool:
    """Print what a sweep found; tell whether anything was measured."""
    from ddptrace import load_run
    from ddptrace.outputs.sweep import render
    from ddptrace.sweep.build import sweep_of
    from ddptrace.sweep.document import to_json

    def read(run: Path) -> Run:
        return load_run([str(run)], jobs=jobs, progress=on_stderr("reading"))

    found = sweep_of(folder, read, predict_from)
    if json is not None:
        write(json, to_json(found))
    if json != "-":
        write("-", render(found, stdout_destination()))
    if not found.is_measured:
        sys.stderr.write("ddptrace: no configuration was measured\n")
    return found.is_measured
