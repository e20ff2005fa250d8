"""Runs with stated figures, and histories that hold them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ledgers import MS, ledger

from ddptrace.check.figures import RunFigures, Series
from ddptrace.history.revision import Revision
from ddptrace.history.runs import Entry, add
from ddptrace.history.store import writing

FINGERPRINT = {"gpu": "NVIDIA H200", "world_size": 2, "ranks": [0, 1], "torch_version": "2.9"}
NOWHERE = Revision(None, None)


def figures(step_ms=10.0, *, steps=10, ranks=(0, 1), name="run", exposed_ms=1.0, **facts):
    """State a run: each rank has steps as long as this, with a tenth of a percent around it."""
    base, exposed = round(step_ms * MS), round(exposed_ms * MS)
    numbers = list(range(1, steps + 1))
    series = [
        Series(
            rank,
            numbers,
            {
                "step": [base + (number % 3 - 1) * base // 1000 for number in numbers],
                "exposed_comm": [exposed] * steps,
            },
        )
        for rank in ranks
    ]
    rows = [ledger(rank, compute=step_ms - exposed_ms, straggler=exposed_ms) for rank in ranks]
    return RunFigures(name, FINGERPRINT | facts, series, ledgers=rows)


def timed(step_ms=10.0, steps=50):
    """State a run of which step times alone are known, on one rank."""
    series = Series(0, list(range(steps)), {"step": [round(step_ms * MS)] * steps})
    return RunFigures("timed", dict(FINGERPRINT), timed=[series])


def history(path: Path, *runs, branch=None, tags=()) -> Path:
    """Make a history, or go on with it, of runs: figures, or numbers of ms of their steps."""
    with writing(path) as writer:
        for place, run in enumerate(runs):
            found = run if isinstance(run, RunFigures) else figures(run, name=f"run {place}")
            add(writer, Entry(found, Revision(None, branch), tuple(tags)))
    return path


def named(run: RunFigures, name: str) -> RunFigures:
    return replace(run, name=name)
