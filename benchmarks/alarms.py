"""How often `ddptrace check` alarms without a reason, and how often it finds a slowdown.

    python benchmarks/alarms.py [--pairs 600] [--seed 1]

Prints the tables of docs/ci.md. A pair is two runs with the same noise, held against each other at
a limit: as they are (an alarm is false), and with every step of the second one longer.

Noise is real: steps that `ddptrace capture` timed without a profiler, of each job in sample_traces
(10 steps a job, put together anew in blocks of 5 to longer runs), and steps of 8 runs on a machine
that others load (loaded_steps.json, parts of the same run). It is also simulated: a first-order
autoregression and spikes, as deviating, as autocorrelated and as spiked as the jobs are.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ddptrace.check.figures import RunFigures, Series
from ddptrace.check.judge import Rules, check
from ddptrace.check.limits import DEFAULT, parse

ROOT = Path(__file__).resolve().parent.parent
BLOCK = 5
SLOWDOWNS = (0.02, 0.05, 0.10)
SPIKES = 0.05  # of the steps of the sample jobs are longer than the others by a fifth on average
SPIKE = 0.2

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], tuple[Floats, Floats]]


@dataclass(frozen=True)
class Noise:
    """One kind of noise: its name, how two runs of so many steps are drawn, and which numbers."""

    name: str
    draw: Draw
    steps: tuple[int, ...]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for limit, fewest in ((DEFAULT, 0), ("step:1%", 50)):
        print(f"\nlimit {limit}, {options.pairs} pairs a row\n")
        print("| noise | steps a run | false alarms | inconclusive |", end="")
        print("".join(f" {share:.0%} found |" for share in SLOWDOWNS))
        print("| --- |" + " --- |" * (3 + len(SLOWDOWNS)))
        for noise in kinds():
            for steps in (steps for steps in noise.steps if steps >= fewest):
                print(row(noise, steps, limit, options.pairs, options.seed), flush=True)
    print_runs()


def row(noise: Noise, steps: int, limit: str, pairs: int, seed: int) -> str:
    """Return one line of the table: shares of pairs."""
    random = np.random.default_rng(seed)
    drawn = [noise.draw(random, steps) for _ in range(pairs)]
    same = Counter(outcome([first], [second], limit) for first, second in drawn)
    found = [
        Counter(outcome([first], [second * (1 + share)], limit) for first, second in drawn)
        for share in SLOWDOWNS
    ]
    cells = [same["regression"], same["inconclusive"], *(one["regression"] for one in found)]
    shares = " | ".join(f"{100 * cell / pairs:.1f} %" for cell in cells)
    return f"| {noise.name} | {steps} | {shares} |"


def outcome(baseline: list[Floats], current: list[Floats], limit: str) -> str:
    """Return what a check says of runs of steps in ns."""
    sides = [[run_of(steps) for steps in side] for side in (baseline, current)]
    return check(sides[0], sides[1], Rules((parse(limit),))).outcome


def run_of(steps: Floats) -> RunFigures:
    """Return a run that has these times of steps."""
    values = [round(float(each)) for each in steps]
    return RunFigures("run", timed=[Series(0, list(range(len(values))), {"step": [*values]})])


# --- noise ---


def kinds() -> Iterator[Noise]:
    """Give all kinds of noise."""
    jobs = sample_jobs()
    yield Noise("two H200, recorded", lambda random, n: of_jobs(jobs, random, n), (5, 10, 20, 50))
    for deviation, follow in ((0.02, 0.0), (0.02, 0.3), (0.02, 0.6), (0.05, 0.3)):
        name = f"simulated, {deviation:.0%} and spikes, autocorrelation {follow}"
        yield Noise(name, simulated(deviation, follow), (5, 10, 20, 50))
    loaded = [np.array(run, np.float64) * 1000 for run in loaded_steps()]
    yield Noise("loaded CPUs, recorded", lambda random, n: of_parts(loaded, random, n), (10, 50))


def sample_jobs() -> list[Floats]:
    """Return the steps of each sample job without a profiler, on its longest rank."""
    found = []
    for path in sorted((ROOT / "sample_traces").glob("*/manifest.json")):
        ranks = json.loads(path.read_text(encoding="utf-8"))["ranks"]
        times = [rank["unprofiled"]["step_ns"] for rank in ranks if rank.get("unprofiled")]
        if times:
            found.append(np.max(np.array(times, np.float64), axis=0))
    return found


def of_jobs(jobs: list[Floats], random: np.random.Generator, steps: int) -> tuple[Floats, Floats]:
    """Draw two runs of one job: blocks of its steps, put together anew."""
    job = jobs[int(random.integers(len(jobs)))]
    return anew(job, random, steps), anew(job, random, steps)


def anew(job: Floats, random: np.random.Generator, steps: int) -> Floats:
    """Put blocks of a job's steps together to a run of so many steps."""
    starts = random.integers(0, job.size, size=-(-steps // BLOCK))
    places = (starts[:, None] + np.arange(BLOCK)).reshape(-1)[:steps] % job.size
    return job[places]


def simulated(deviation: float, follow: float) -> Draw:
    """Return what draws two runs around 100 ms of an autoregression with spikes."""

    def one(random: np.random.Generator, steps: int) -> Floats:
        off = random.normal(size=steps + 50)
        for place in range(1, off.size):
            off[place] = follow * off[place - 1] + (1 - follow * follow) ** 0.5 * off[place]
        spikes = (random.random(steps) < SPIKES) * random.exponential(SPIKE, size=steps)
        run: Floats = 1e8 * np.exp(deviation * off[50:] + spikes)
        return run

    return lambda random, steps: (one(random, steps), one(random, steps))


def loaded_steps() -> list[list[int]]:
    """Return the steps, in µs, of each run on a machine that others load."""
    path = Path(__file__).with_name("loaded_steps.json")
    found: list[list[int]] = json.loads(path.read_text(encoding="utf-8"))["step_us"]
    return found


def of_parts(runs: list[Floats], random: np.random.Generator, steps: int) -> tuple[Floats, Floats]:
    """Draw two parts of one run that do not overlap, in either order."""
    run = runs[int(random.integers(len(runs)))]
    first = int(random.integers(0, run.size - 2 * steps + 1))
    second = int(random.integers(first + steps, run.size - steps + 1))
    parts = run[first : first + steps], run[second : second + steps]
    return parts if random.random() < 0.5 else parts[::-1]


def print_runs() -> None:
    """Print what several runs of a loaded machine tell: every half of them against the other."""
    runs = [np.array(run, np.float64) * 1000 for run in loaded_steps()]
    halves = list(combinations(range(len(runs)), len(runs) // 2))
    told: dict[str, Counter[str]] = {"as they are": Counter(), "twice as slow": Counter()}
    for half in halves:
        first = [runs[place] for place in half]
        second = [runs[place] for place in range(len(runs)) if place not in half]
        told["as they are"][outcome(first, second, DEFAULT)] += 1
        told["twice as slow"][outcome(first, [run * 2 for run in second], DEFAULT)] += 1
    alone = Counter(outcome([a], [b], DEFAULT) for a in runs for b in runs if a is not b)
    print(f"\nloaded CPUs, {len(halves)} ways of 4 runs against the other 4:", told)
    print("each run against each other:", alone)


if __name__ == "__main__":
    main()
