"""Take from recordings what the page of the experiments shows of them.

    python capture/experiments/recordings.py --output FILE.json [--link WORDS] RECORDING...

A recording is a folder that `samples.py` left for a row of the bucket experiment or for a bucket
cap of the example job; it is read by ddptrace. `buckets.py --tables` takes the file.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ddptrace import Run, analyze, load_run
from ddptrace.metrics.recorded import Recorded

SPIN = "spin_kernel"
SOURCES = {"kineto": "torch.profiler", "nsys": "Nsight Systems"}
FIGURES = ("rank", "step_ns", "comm_kernels", "comm_ns", "hidden_comm_ns", "exposed_comm_ns")


def main(words: Sequence[str] | None = None) -> int:
    """Write the figures of all recordings to one file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--link", default="NVLink", help="how the GPUs were linked, in your words")
    parser.add_argument("recordings", type=Path, nargs="+")
    options = parser.parse_args(words)
    found = {
        "ddptrace_recordings": 1,
        "link": options.link,
        "recordings": [recording(path) for path in options.recordings],
    }
    options.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


def recording(folder: Path) -> dict[str, Any]:
    """Return the figures of one recording: of every rank the medians over its counted steps."""
    run = load_run(folder)
    report = analyze(run)
    spins = spin_kernels(run)
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    return {
        **job_of(manifest["command"]),
        "unprofiled_ns": unprofiled_ns(manifest),
        "source": SOURCES[run.figures[0].source],
        "steps": report.summary.counted_steps,
        "verdict": report.diagnosis.bottleneck,
        "ranks": [
            {name: of_rank[name] for name in FIGURES} | {"spin_kernels": spins[of_rank["rank"]]}
            for of_rank in report.summary.ranks
        ],
    }


def job_of(command: list[str]) -> dict[str, Any]:
    """Return the row of the experiment, or the cap of the example job, that a command runs."""
    if "--configuration" in command:
        return {"name": command[command.index("--configuration") + 1]}
    return {"cap_mib": int(command[command.index("--bucket-cap-mb") + 1])}


def unprofiled_ns(manifest: dict[str, Any]) -> float:
    """Return the median step of the slowest rank in the steps that were timed unrecorded."""
    return max(statistics.median(rank["unprofiled"]["step_ns"]) for rank in manifest["ranks"])


def spin_kernels(run: Run) -> dict[Any, int]:
    """Return how many spin kernels a step of each rank launched: the median over its steps."""
    found = {}
    for trace in run.figures:
        steps = Recorded.of(trace).steps
        codes = [code for code, name in enumerate(trace.names) if SPIN in name]
        spins = np.isin(trace.ops.name, codes)
        found[trace.rank] = statistics.median_low(
            int(spins[steps.own(position)].sum()) for position in range(len(steps.marks))
        )
    return found


if __name__ == "__main__":
    sys.exit(main())
