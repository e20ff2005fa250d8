"""What `whatif` predicts from each recording of a sweep, beside what was measured: a table.

    python benchmarks/predictions.py RUN RUN … [--without-link]
    python benchmarks/predictions.py RUN RUN … --measured steps.json

The runs are of one job, recorded by `ddptrace capture` or `ddptrace sweep` with a bucket cap each.
Measured is the step without a profiler in the manifest of each, or in ms what the file tells of
each cap. `!` marks a measured step outside the interval. `--without-link` leaves out what
`--measure-link` told.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from ddptrace import load_run, predict
from ddptrace.errors import DdptraceError
from ddptrace.metrics.recording import recording
from ddptrace.model import Run
from ddptrace.whatif.document import Prediction, WhatIf


def main(words: Sequence[str] | None = None) -> int:
    """Print the table, and how many measured steps lie in their intervals."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--measured", type=Path)
    parser.add_argument("--without-link", action="store_true")
    given = parser.parse_args(words)
    runs = {path: _read(path, with_link=not given.without_link) for path in given.runs}
    told = None if given.measured is None else json.loads(given.measured.read_text("utf-8"))
    measured = dict(sorted(_measured([*runs.values()]) if told is None else _numbers(told)))
    found = [predict(run, list(measured)) for run in runs.values()]
    for line in _table(measured, found):
        print(line)
    rows = [
        (one, measured[one.bucket_cap_mb])
        for each in found
        for one in each.predictions
        if one.bucket_cap_mb != _cap(each)  # that one is no prediction
    ]
    inside = sum(_is_inside(*row) for row in rows)
    print(f"\n{inside} of {len(rows)} predicted steps lie in their intervals", file=sys.stderr)
    return 0


def _read(path: Path, *, with_link: bool) -> Run:
    run = load_run(path, jobs=1)
    if with_link or run.manifest is None:
        return run
    return replace(run, manifest=replace(run.manifest, link=None))


def _measured(runs: Sequence[Run]) -> list[tuple[float, float]]:
    steps = []
    for run in runs:
        cost = recording(run)
        if cost is None or cost.unprofiled_step_ns is None:
            sys.exit("a run tells no step without a profiler: give --measured")
        steps.append((_cap(predict(run, [25])), cost.unprofiled_step_ns / 1e6))
    return steps


def _numbers(told: Mapping[str, float]) -> list[tuple[float, float]]:
    try:
        return [(float(cap), float(step_ms)) for cap, step_ms in told.items()]
    except (TypeError, ValueError):
        sys.exit('--measured: give a file such as {"1": 38.1, "25": 37.1}')


def _cap(found: WhatIf) -> float:
    if found.recorded_cap_mb is None:
        sys.exit("no cap gives the buckets of a run")
    return found.recorded_cap_mb


def _table(measured: Mapping[float, float], found: Sequence[WhatIf]) -> list[str]:
    caps = " | ".join(f"{cap:g}" for cap in measured)
    steps = " | ".join(f"**{step_ms:.1f}**" for step_ms in measured.values())
    lines = [f"| cap in MiB | {caps} | median, worst |", "| --- |" + " --- |" * (len(measured) + 1)]
    lines.append(f"| **measured** | {steps} | |")
    for each in sorted(found, key=_cap):
        off = [abs(one.step_ns / 1e6 / measured[one.bucket_cap_mb] - 1) for one in each.predictions]
        cells = " | ".join(_cell(one, measured[one.bucket_cap_mb]) for one in each.predictions)
        last = f"{100 * median(off):.1f} %, {100 * max(off):.1f} %"
        lines.append(f"| from {_cap(each):g} | {cells} | {last} |")
    return lines


def _cell(one: Prediction, step_ms: float) -> str:
    return f"{one.step_ns / 1e6:.1f}" + ("" if _is_inside(one, step_ms) else " !")


def _is_inside(one: Prediction, step_ms: float) -> bool:
    return one.low_ns <= step_ms * 1e6 <= one.high_ns


if __name__ == "__main__":
    try:
        sys.exit(main())
    except DdptraceError as error:
        sys.exit(str(error))
