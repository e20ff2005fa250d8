"""Record jobs with what is planted in them, as the folders of sample_traces are made.

    python capture/experiments/samples.py --output DIR --ranks 2 [--share-gpu] [--size large]
    python capture/experiments/samples.py --output DIR --profiler nsys late-compute one-bucket
    python capture/experiments/samples.py --output DIR --ranks 4 --link shm cap1 cap25 cap1000
    python capture/experiments/samples.py --output DIR --ranks 4 12x4-cap4-spin 12x4-cap64-spin

A name is a switch of the example job or several with commas between them, `healthy` for the job
without one, `cap25` for the job with buckets of 25 MiB, or a configuration of the bucket
experiment. Each recording is a folder DIR/<name>. What stands after `--` is for the example job. A
table of exit codes, step times and sizes goes to standard output.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from configurations import all_configurations

EXPERIMENTS = Path(__file__).resolve().parent
EXAMPLES = EXPERIMENTS.parent / "examples"
PACKAGE = EXPERIMENTS.parent
HEALTHY = "healthy"
CAP = re.compile(r"cap(\d+)")
STEPS_OF_ITS_OWN = 5  # between the parts, and so that the job outlasts the recording
# What lets NCCL use a worse link than it finds.
LINKS = {
    "best": {},
    "shm": {"NCCL_P2P_DISABLE": "1"},
    "tcp": {
        "NCCL_P2P_DISABLE": "1",
        "NCCL_SHM_DISABLE": "1",
        "NCCL_IB_DISABLE": "1",
        "NCCL_SOCKET_IFNAME": "lo",
    },
}


def main(words: Sequence[str] | None = None) -> int:
    """Record, and return how many recordings failed."""
    options = parse(words)
    failed = 0
    began = time.monotonic()
    for name in options.names or [HEALTHY, *switch_names()]:
        started = time.monotonic()
        if options.until and started - began > options.until:
            say(f"{name:28} left out: {options.until} s have passed")
            continue
        code = record(name, options)
        # This job stops before it trains, as it should.
        failed += (code == 0) if name == "hook-forgets-division" else (code != 0)
        folder = options.output / name
        seconds = time.monotonic() - started
        say(f"{name:28} exit {code}  {seconds:5.1f} s  {step_time(folder)}  {sizes(folder)}")
    return failed


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def step_time(folder: Path) -> str:
    """Return the median unprofiled step of the longest rank, as far as the manifest tells."""
    try:
        ranks = json.loads((folder / "manifest.json").read_text())["ranks"]
        medians = [statistics.median(rank["unprofiled"]["step_ns"]) for rank in ranks]
    except (OSError, KeyError, TypeError, ValueError):
        return "no step times"
    return f"step {max(medians) / 1e6:.2f} ms"


def sizes(folder: Path) -> str:
    """Return how many files of ranks there are, and their size."""
    paths = list(folder.glob("rank*"))
    return f"{len(paths)} files, {sum(path.stat().st_size for path in paths) / 1e6:.2f} MB"


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--profiler", choices=("torch", "nsys"), default="torch")
    parser.add_argument("--size", default="large", help="as train_ddp.py has them")
    parser.add_argument("--share-gpu", action="store_true")
    parser.add_argument("--link", choices=LINKS, default="best", help="what NCCL may use")
    parser.add_argument("--timed", type=int, default=10, help="steps to time")
    parser.add_argument("--recorded", type=int, default=3, help="steps to record in each part")
    parser.add_argument("--warmup", type=int, default=11, help="steps to leave alone first")
    parser.add_argument("--record-shapes", action="store_true", help="record operators' shapes")
    parser.add_argument("--measure-link", action="store_true", help="time all-reduces at the end")
    parser.add_argument("--nsys", help="the nsys to use")
    parser.add_argument("--until", type=float, help="start nothing after so many seconds")
    parser.add_argument("names", nargs="*", help="default: all switches, and healthy")
    given = list(sys.argv[1:] if words is None else words)
    place = given.index("--") if "--" in given else len(given)
    options = parser.parse_args(given[:place])
    options.job = given[place + 1 :]
    return options


def switch_names() -> list[str]:
    """Return the switches of the example job."""
    sys.path.insert(0, str(EXAMPLES))
    from switches import SWITCHES

    return list(SWITCHES)


def record(name: str, options: argparse.Namespace) -> int:
    """Record one job, and return the exit code of the capture."""
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={options.ranks}"]
    capture = ["-m", "ddptrace_capture", "--force", "--profiler", options.profiler]
    capture += ["--output", str(options.output / name)]
    capture += ["--warmup", str(options.warmup), "--timed", str(options.timed)]
    capture += ["--steps", str(options.recorded)]
    capture += ["--record-shapes"] if options.record_shapes else []
    capture += ["--measure-link"] if options.measure_link else []
    capture += ["--nsys", options.nsys] if options.nsys else []
    job = job_of(name, options)
    command = [sys.executable, *capture, "--", sys.executable, *launcher, *job]
    options.output.mkdir(parents=True, exist_ok=True)
    with (options.output / f"{name}.log").open("w") as said:
        return subprocess.call(
            command,
            cwd=PACKAGE,
            env=os.environ | LINKS[options.link],
            stdout=said,
            stderr=subprocess.STDOUT,
        )


def job_of(name: str, options: argparse.Namespace) -> list[str]:
    """Return the command of a job, long enough to be recorded in two parts."""
    count = options.warmup + options.timed + 2 * options.recorded + STEPS_OF_ITS_OWN
    steps = ["--steps", str(count)]
    if name in {row.name for row in all_configurations(1, 1)}:
        return [str(EXPERIMENTS / "train_branches.py"), "--configuration", name, *steps]
    job = [str(EXAMPLES / "train_ddp.py"), "--size", options.size, *steps, *options.job]
    if cap := CAP.fullmatch(name):
        job += ["--bucket-cap-mb", cap[1]]
    elif name != HEALTHY:
        job += ["--switch", name]
    return [*job, "--share-gpu"] if options.share_gpu else job


if __name__ == "__main__":
    sys.exit(main())
