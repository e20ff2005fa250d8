"""How often `ddptrace check --history` finds drift that is there, and drift that is not.

Prints the tables of docs/history.md; the same numbers every time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np

from ddptrace.history.drift import FEWEST_RUNS, drifts

SERIES = 2_000
LENGTH = 60
STEP_NS = 10_000_000
LIMIT = Fraction(3, 100)

DRIFTS = (
    (0.01, 10, 0),
    (0.01, 10, 20),
    (0.005, 20, 0),
    (0.005, 20, 20),
    (0.002, 40, 0),
    (0.001, 50, 0),
)
"""Growth a run, over how many runs, after how many flat ones."""

Noise = Callable[[np.random.Generator, int], np.ndarray]


def independent(random: np.random.Generator, count: int) -> np.ndarray:
    """Return runs that tell nothing of each other."""
    return random.standard_normal(count)


def following(random: np.random.Generator, count: int) -> np.ndarray:
    """Return runs of which each is half like the one before it, of the same spread."""
    values = independent(random, count)
    for at in range(1, count):
        values[at] = 0.5 * values[at - 1] + np.sqrt(0.75) * values[at]
    return values


def with_outliers(random: np.random.Generator, count: int) -> np.ndarray:
    """Return runs of which one in twenty is off by ten times the spread, upward."""
    return independent(random, count) + 10 * (random.random(count) < 0.05)


NOISES: dict[str, Noise] = {
    "independent": independent,
    "each half like the last": following,
    "one in twenty slow": with_outliers,
}


def is_found(steps: np.ndarray) -> bool:
    """Tell whether the last run of a series is said to have drifted."""
    values = [round(float(step)) for step in steps]
    return any(one.exceeds(LIMIT * one.best_ns) for one in drifts(values))


def false_alarms(noise: Noise, spread: float) -> tuple[float, float]:
    """Return the part of checks, and of whole series checked after every run, with an alarm."""
    random = np.random.default_rng(7)
    checks = alarms = series = 0
    for _ in range(SERIES // 10):
        steps = STEP_NS * (1 + spread * noise(random, LENGTH))
        found = [is_found(steps[:count]) for count in range(FEWEST_RUNS, LENGTH + 1)]
        checks += len(found)
        alarms += sum(found)
        series += any(found)
    return alarms / checks, series / (SERIES // 10)


def detected(noise: Noise, spread: float, growth: float, count: int, flat: int) -> float:
    """Return the part of series found that grow over `count` runs after some flat ones."""
    random = np.random.default_rng(11)
    ramp = np.concatenate([np.ones(flat), (1 + growth) ** np.arange(count)])
    found = [
        is_found(STEP_NS * ramp * (1 + spread * noise(random, flat + count)))
        for _ in range(SERIES // 4)
    ]
    return sum(found) / len(found)


def tables() -> Iterator[str]:
    """Yield the lines of both tables."""
    yield "| noise between runs | spread | checks with an alarm | series of 60 runs with any |"
    yield "| --- | --- | --- | --- |"
    for name, noise in NOISES.items():
        for spread in (0.005, 0.01, 0.02, 0.04):
            checks, series = false_alarms(noise, spread)
            yield f"| {name} | {spread:.1%} | {checks:.2%} | {series:.1%} |"
    yield ""
    yield "| drift | spread 0.5 % | 1 % | 2 % |"
    yield "| --- | --- | --- | --- |"
    for growth, count, flat in DRIFTS:
        parts = [
            f"{detected(independent, spread, growth, count, flat):.0%}"
            for spread in (0.005, 0.01, 0.02)
        ]
        before = f" after {flat} flat ones" if flat else ""
        yield f"| {growth:.1%} a run over {count} runs{before} | {' | '.join(parts)} |"


if __name__ == "__main__":
    for line in tables():
        print(line)
