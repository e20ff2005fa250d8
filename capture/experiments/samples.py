"""Record the example job with each of its switches, as the folders of sample_traces are made.

    python capture/experiments/samples.py --output DIR --ranks 2 [--share-gpu] [--size large]
    python capture/experiments/samples.py --output DIR --profiler nsys late-compute one-bucket

Each recording is a folder DIR/<switch>, `healthy` the job without a switch. What stands after `--`
is for the job. A table of exit codes and sizes goes to standard output.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
PACKAGE = EXAMPLES.parent
HEALTHY = "healthy"
STEPS = 32  # 29 are followed in two parts


def main(words: Sequence[str] | None = None) -> int:
    """Record, and return how many recordings failed."""
    options = parse(words)
    failed = 0
    for name in options.switches or [HEALTHY, *switch_names()]:
        started = time.monotonic()
        code = record(name, options)
        # This job stops before it trains, as it should.
        failed += (code == 0) if name == "hook-forgets-division" else (code != 0)
        folder = options.output / name
        sizes = [
            f"{path.name} {path.stat().st_size / 1e6:.2f} MB"
            for path in sorted(folder.glob("rank*"))
        ]
        seconds = time.monotonic() - started
        sys.stdout.write(f"{name:22} exit {code}  {seconds:5.1f} s  {', '.join(sizes)}\n")
        sys.stdout.flush()
    return failed


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--profiler", choices=("torch", "nsys"), default="torch")
    parser.add_argument("--size", default="large", help="as train_ddp.py has them")
    parser.add_argument("--share-gpu", action="store_true")
    parser.add_argument("--nsys", help="the nsys to use")
    parser.add_argument("switches", nargs="*", help="default: all, and healthy")
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
    """Record the job with one switch, and return the exit code of the capture."""
    job = [str(EXAMPLES / "train_ddp.py"), "--size", options.size, "--steps", str(STEPS)]
    job += options.job
    job += [] if name == HEALTHY else ["--switch", name]
    job += ["--share-gpu"] if options.share_gpu else []
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={options.ranks}"]
    capture = ["-m", "ddptrace_capture", "--force", "--profiler", options.profiler]
    capture += ["--output", str(options.output / name)]
    capture += ["--nsys", options.nsys] if options.nsys else []
    command = [sys.executable, *capture, "--", sys.executable, *launcher, *job]
    log = options.output / f"{name}.log"
    options.output.mkdir(parents=True, exist_ok=True)
    with log.open("w") as said:
        return subprocess.call(command, cwd=PACKAGE, stdout=said, stderr=subprocess.STDOUT)


if __name__ == "__main__":
    sys.exit(main())
