"""Measure how DDP's buckets decide what communication is hidden, as one command a table.

    torchrun --nproc-per-node 2 capture/experiments/buckets.py --output DIR

Every configuration runs in one process group, one after another. DIR/results.json holds every
number, the tables go to standard output and to the file that --markdown names. Tables of several
machines are written from their saved results, without torch:

    python capture/experiments/buckets.py --tables A.json B.json --markdown FILE

A file of `recordings.py` among them adds the tables of what ddptrace recorded.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from configurations import all_configurations, chosen
from recorded_tables import beside_section, caps_section, recorded_section
from tables import page
from verdicts import failures

FOUR = 4  # GPUs, as others used for the same experiment
SHRINKS = (1, 4, 16, 64, 256)  # powers of 4: a quarter of a square matrix is a square matrix


def parsed(words: list[str] | None = None) -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    task = parser.add_mutually_exclusive_group(required=True)
    task.add_argument("--output", type=Path, help="run, and write results.json to this folder")
    task.add_argument("--tables", type=Path, nargs="+", help="write tables from saved results")
    parser.add_argument("--markdown", type=Path, help="also write the tables to this file")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--share-gpu", action="store_true", help="all ranks use one GPU, over TCP")
    parser.add_argument("--link", help="how the GPUs are linked, in your words")
    parser.add_argument("--configurations", nargs="+", default=["*"], help="names or patterns")
    parser.add_argument("--steps", type=int, default=20, help="steps timed for each configuration")
    parser.add_argument("--spin-cycles", type=int, default=10_000_000, help="of a branch's kernel")
    parser.add_argument(
        "--shrink", type=int, choices=SHRINKS, default=1, help="divide all sizes by this"
    )
    arguments = parser.parse_args(words)
    if arguments.output and "RANK" not in os.environ:
        parser.error("--output needs ranks: start it with torchrun --nproc-per-node N")
    if min(arguments.steps, arguments.spin_cycles) < 1:
        parser.error("--steps and --spin-cycles are at least 1")
    rows = all_configurations(arguments.spin_cycles, arguments.shrink)
    try:
        arguments.rows = chosen(rows, arguments.configurations)
    except ValueError as error:
        parser.error(str(error))
    return arguments


def run_and_show(arguments: argparse.Namespace) -> int:
    """Run the experiment; rank 0 writes. Return 1 when a check failed, on every rank."""
    from experiment import run

    results = run(arguments.rows, arguments)
    found = failures(results)
    if os.environ["RANK"] == "0":
        show(page([results]), arguments.markdown)
        sys.stderr.writelines(f"FAILED: {line}\n" for line in found)
    return 1 if found else 0


def saved(path: Path) -> dict[str, Any]:
    """Return the results that a run left, or refuse another file."""
    results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if 1 not in (results.get("ddptrace_experiment"), results.get("ddptrace_recordings")):
        sys.exit(f"{path}: not a results.json of this experiment, nor of its recordings")
    return results


def whole_page(results: list[dict[str, Any]]) -> str:
    """Return the page of all that was saved: runs, recordings of rows, recordings by cap."""
    runs = [one for one in results if "ddptrace_experiment" in one]
    recorded = [one for one in results if "ddptrace_recordings" in one]
    caps = [one for one in recorded if "cap_mib" in one["recordings"][0]]
    on_four = [one for one in runs if one["hardware"]["devices"] == FOUR]
    parts = [page(runs)]
    parts += [recorded_section(one) for one in recorded if one not in caps]
    parts += [beside_section(on_four)] if on_four else []
    parts += [caps_section(caps)] if caps else []
    return "\n".join(parts)


def show(text: str, markdown: Path | None) -> None:
    """Write the tables to standard output and to a file."""
    sys.stdout.write(text)
    if markdown:
        markdown.parent.mkdir(parents=True, exist_ok=True)
        markdown.write_text(text, encoding="utf-8")


def main() -> int:
    """Run, or write the tables of what was run."""
    arguments = parsed()
    if arguments.output:
        return run_and_show(arguments)
    show(whole_page([saved(path) for path in arguments.tables]), arguments.markdown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
