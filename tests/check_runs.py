"""Runs to check, stated by their steps in µs, and what a check says of them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ddptrace import load_run
from ddptrace.check.figures import METRICS, RunFigures, Series
from ddptrace.check.judge import Rules, check
from ddptrace.check.limits import parse
from ddptrace.check.measured import figures_of

US = 1000
SAMPLES = Path(__file__).parent.parent / "sample_traces"
SMALL = (-50, 20, -10, 40, 0, -30, 10, 0, 30, -10)
"""Noise of some µs around a step, whose median is 0."""


@cache
def sample(name):
    """Return the figures of a sample trace."""
    return figures_of(load_run(SAMPLES / name))


def steps_of(step_us, count=10, noise=SMALL):
    """State steps around a time: as many of the noise as are asked for, beginning anew."""
    return [step_us + noise[place % len(noise)] for place in range(count)]


def series(rank=0, first=1, **metrics):
    """State a rank's steps: the values of each metric in µs, None for what is not known."""
    lengths = {len(values) for values in metrics.values()}
    (count,) = lengths
    known = {name: [None if one is None else round(one * US) for one in values]
             for name, values in metrics.items()}  # fmt: skip
    unknown = {name: [None] * count for name in METRICS}
    return Series(rank, list(range(first, first + count)), unknown | known)


def a_run(step=(), *, name="run", timed=(), facts=None, ranks=None, **metrics):
    """State a run of one rank by its recorded steps, or of several ranks by their series."""
    recorded = ranks or ([series(step=list(step), **metrics)] if step else [])
    plain = [Series(0, list(range(len(timed))), {"step": [round(one * US) for one in timed]})]
    return RunFigures(
        name=name,
        fingerprint={"gpu": "H200", "world_size": 1} | (facts or {}),
        recorded=recorded,
        timed=plain if timed else [],
    )


def checked(baseline, current, *limits, **rules):
    """Hold runs (or one run each) against each other."""
    sides = [side if isinstance(side, list) else [side] for side in (baseline, current)]
    chosen = tuple(map(parse, limits or ["step:5%"]))
    return check(*sides, Rules(limits=chosen, **rules))


def outcome(baseline, current, *limits, **rules):
    """Return the exit code of a check, and the outcome of its first limit."""
    found = checked(baseline, current, *limits, **rules)
    return found.exit_code, found.limits[0].outcome
