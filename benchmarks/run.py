"""Measure how fast and small ddptrace is beside `json.load` and HTA, in one run on one machine."""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
HEADINGS = ("Measurement", "Measured", "Beside", "Ratio", "Target", "Met")

LOAD = "import sys, ddptrace; run = ddptrace.load_run(sys.argv[1])"
LOAD_ALONE = "import sys, ddptrace; run = ddptrace.load_run(sys.argv[1], jobs=1)"
JSON_LOAD = "import json, sys; document = json.load(open(sys.argv[1]))"
HTA_IMPORT = "from hta.trace_analysis import TraceAnalysis"
HTA_LOAD = (
    "import sys; from hta.trace_analysis import TraceAnalysis;"
    " analysis = TraceAnalysis(trace_dir=sys.argv[1])"
)


@dataclass(frozen=True, slots=True)
class Command:
    """A process to measure."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cost:
    """What one process took, its children that it waited for included."""

    cpu_s: float
    wall_s: float
    peak_mb: float


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; a limit of `None` means that there is no target."""

    name: str
    measured: str
    beside: str
    ratio: float | None = None
    target: str = ""
    met: bool | None = None

    @property
    def cells(self) -> tuple[str, ...]:
        """The texts of the line."""
        ratio = "" if self.ratio is None else f"{self.ratio:.3f}"
        met = {None: "", True: "yes", False: "no"}[self.met]
        return self.name, self.measured, self.beside, ratio, self.target, met


@dataclass(frozen=True, slots=True)
class Data:
    """Generated traces of one shape and the bytes of JSON that each rank holds."""

    directory: Path
    sizes_bytes: tuple[int, ...]

    @property
    def size_mb(self) -> float:
        """The JSON of all ranks together."""
        return sum(self.sizes_bytes) / 1e6

    @property
    def first(self) -> Path:
        """The trace of rank 0."""
        return next(iter(sorted(self.directory.glob("rank0.*"))))


def say(text: str) -> None:
    """Tell how far the benchmark is, beside the table on stdout."""
    print(text, file=sys.stderr, flush=True)


def python(code: str, *arguments: object, executable: str = sys.executable) -> Command:
    """Give the command that runs this code in a fresh interpreter."""
    return Command((executable, "-c", code, *map(str, arguments)))


def report(directory: Path, *options: str) -> Command:
    """Give the whole command for these traces."""
    return Command((sys.executable, "-m", "ddptrace", "report", str(directory), *options))


def environment_of(command: Command) -> dict[str, str]:
    """Give the environment in which this checkout's package is importable."""
    # Idle BLAS threads of numpy spin at start, for all that import it: no reader here needs them.
    environment = dict(os.environ) | {"OPENBLAS_NUM_THREADS": "1"}
    # An installed package is compiled: without this each process compiled all modules again.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if command.words[0] == sys.executable:
        inherited = environment.get("PYTHONPATH")
        paths = [inherited, str(HERE.parent)] if inherited else [str(HERE.parent)]
        environment["PYTHONPATH"] = os.pathsep.join(paths)
    else:
        environment.pop("PYTHONPATH", None)
    return environment


def measure(command: Command) -> Cost:
    """Run the command once and give its cost, or stop with what it said when it failed."""
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryFile() as errors:
        begin_s = time.perf_counter()
        process = subprocess.Popen(
            command.words,
            cwd=scratch,
            env=environment_of(command),
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - begin_s
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            message = errors.read().decode(errors="replace")[-3000:]
            raise SystemExit(f"{' '.join(command.words)}: exit {process.returncode}\n{message}")
    return Cost(usage.ru_utime + usage.ru_stime, wall_s, usage.ru_maxrss * 1024 / 1e6)


def median(costs: Sequence[Cost]) -> Cost:
    """Give the median of each part of these costs."""
    return Cost(
        statistics.median(cost.cpu_s for cost in costs),
        statistics.median(cost.wall_s for cost in costs),
        statistics.median(cost.peak_mb for cost in costs),
    )


def interleaved(commands: Mapping[str, Command], repeats: int) -> dict[str, Cost]:
    """Run all commands in turn, again and again, and give the medians."""
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for turn in range(repeats):
        for name, command in commands.items():
            cost = measure(command)
            costs[name].append(cost)
            say(
                f"{turn + 1}/{repeats} {name}: {cost.cpu_s:.2f} s CPU,"
                f" {cost.wall_s:.2f} s, {cost.peak_mb:.0f} MB"
            )
    return {name: median(each) for name, each in costs.items()}


def less(whole: Cost, part: Cost) -> Cost:
    """Give what is left of a cost without another one; the peak stays."""
    return Cost(whole.cpu_s - part.cpu_s, whole.wall_s - part.wall_s, whole.peak_mb)


def generated(directory: Path, ranks: int, size_mb: float, *options: str) -> Data:
    """Write traces, and read them once so that all later readers find them in memory."""
    say(f"writing {ranks} x {size_mb:g} MB to {directory}")
    words = (sys.executable, str(HERE / "generate.py"), str(directory), "--ranks", str(ranks))
    done = subprocess.run(
        (*words, "--mb", str(size_mb), *options), check=True, capture_output=True, text=True
    )
    sizes_bytes = tuple(int(line.split("\t")[1]) for line in done.stdout.splitlines())
    for path in directory.iterdir():
        with path.open("rb") as file:
            while file.read(1 << 20):
                pass
    return Data(directory, sizes_bytes)


def cpu_row(name: str, ours: Cost, other: tuple[str, Cost], limit: tuple[float, str]) -> Row:
    """Compare the CPU seconds of two processes."""
    ratio = ours.cpu_s / other[1].cpu_s
    beside = f"{other[0]} {other[1].cpu_s:.2f} s CPU"
    return Row(name, f"{ours.cpu_s:.2f} s CPU", beside, ratio, limit[1], ratio <= limit[0])


def memory_row(name: str, peak_mb: float, json_mb: float) -> Row:
    """Compare a peak with the size of the JSON and with the limit that follows from it."""
    limit_mb = 0.35 * json_mb + 80
    target = f"≤ 0.35 x JSON + 80 MB = {limit_mb:.0f} MB"
    beside = f"JSON {json_mb:.0f} MB"
    return Row(name, f"{peak_mb:.0f} MB", beside, peak_mb / json_mb, target, peak_mb <= limit_mb)


def single_rank_rows(data: Data, hta_python: str | None, repeats: int) -> list[Row]:
    """Compare reading and reporting one rank with the two other readers."""
    commands = {
        "interpreter": python("pass"),
        "import": python("from ddptrace import load_run"),
        "load": python(LOAD, data.directory),
        "report": report(data.directory),
        "json.load": python(JSON_LOAD, data.first),
    }
    if hta_python:
        commands["HTA import"] = python(HTA_IMPORT, executable=hta_python)
        commands["HTA"] = python(HTA_LOAD, data.directory, executable=hta_python)
    costs = interleaved(commands, repeats)
    load, whole, document = costs["load"], costs["report"], ("json.load", costs["json.load"])
    reading = less(load, costs["import"])
    rows = [cpu_row("reading alone, CPU", reading, document, (0.1, "≤ 0.1"))]
    if hta_python:
        hta = ("HTA load alone", less(costs["HTA"], costs["HTA import"]))
        rows.append(cpu_row("reading alone, CPU", reading, hta, (1 / 15, "≤ 1/15")))
    rows.append(cpu_row("`load_run` with its imports, CPU", load, document, (0.2, "≤ 0.2")))
    return [
        *rows,
        cpu_row("`ddptrace report`, CPU", whole, document, (0.2, "≤ 0.2")),
        Row("a bare interpreter, CPU", f"{costs['interpreter'].cpu_s:.2f} s CPU", ""),
        Row("importing `load_run`, CPU", f"{costs['import'].cpu_s:.2f} s CPU", ""),
        memory_row("`load_run`, peak memory", load.peak_mb, data.size_mb),
        memory_row("`ddptrace report`, peak memory", whole.peak_mb, data.size_mb),
        *other_peaks(costs, data.size_mb),
    ]


def other_peaks(costs: Mapping[str, Cost], json_mb: float) -> list[Row]:
    """Give the peaks of the two other readers, for comparison only."""
    peaks_mb = {name: costs[name].peak_mb for name in ("json.load", "HTA") if name in costs}
    beside = f"JSON {json_mb:.0f} MB"
    return [
        Row(f"{name}, peak memory", f"{peak_mb:.0f} MB", beside, peak_mb / json_mb)
        for name, peak_mb in peaks_mb.items()
    ]


def big_rows(data: Data) -> list[Row]:
    """Give the peaks for one large compressed trace; one run, as they hardly vary."""
    commands = {"load": python(LOAD, data.directory), "report": report(data.directory)}
    costs = interleaved(commands, 1)
    return [
        memory_row("`load_run` of a large .gz, peak memory", costs["load"].peak_mb, data.size_mb),
        memory_row(
            "`ddptrace report` of a large .gz, peak memory", costs["report"].peak_mb, data.size_mb
        ),
    ]


def many_rank_rows(data: Data, repeats: int) -> list[Row]:
    """Compare the wall clock of many ranks on all cores with one rank after the other."""
    load, whole = python(LOAD, data.directory), report(data.directory)
    commands = {
        "load, all cores": load,
        "load, one process": python(LOAD_ALONE, data.directory),
        "report, all cores": whole,
        "report, one process": report(data.directory, "--jobs", "1"),
    }
    costs = interleaved(commands, repeats)
    ranks = len(data.sizes_bytes)
    return [
        speedup_row(
            f"`load_run`, {ranks} ranks", costs["load, all cores"], costs["load, one process"]
        ),
        speedup_row(
            f"`ddptrace report`, {ranks} ranks",
            costs["report, all cores"],
            costs["report, one process"],
        ),
    ]


def speedup_row(name: str, together: Cost, one_by_one: Cost) -> Row:
    """Give how many times faster all cores are."""
    ratio = one_by_one.wall_s / together.wall_s
    measured, beside = f"{together.wall_s:.2f} s", f"one process {one_by_one.wall_s:.2f} s"
    return Row(f"{name} on all cores, wall", measured, beside, ratio, "≥ 1.6", ratio >= 1.6)


def help_row(repeats: int) -> Row:
    """Give the wall clock of `--help`."""
    command = Command((sys.executable, "-m", "ddptrace", "--help"))
    measure(command)  # The first run may have to compile the modules.
    wall_s = interleaved({"--help": command}, repeats)["--help"].wall_s
    return Row("`ddptrace --help`, wall", f"{wall_s:.3f} s", "", None, "< 0.25 s", wall_s < 0.25)


def table_of(rows: Sequence[Row]) -> str:
    """Give the rows as a markdown table."""
    lines = [HEADINGS, tuple("---" for _ in HEADINGS), *(row.cells for row in rows)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def described(options: argparse.Namespace) -> str:
    """Say in a line where and how the table was made."""
    return (
        f"Medians of {options.repeats} interleaved runs, each in a fresh process and with a warm"
        f" file cache; {os.cpu_count()} cores, Python {platform.python_version()},"
        f" {platform.system()} {platform.machine()}. Peaks are those of the largest process."
        " Only the ratios carry over to another machine.\n"
    )


def rows_of(options: argparse.Namespace, directory: Path) -> list[Row]:
    """Generate the traces below this directory and measure everything."""
    one = generated(directory / "one", 1, options.mb)
    many = generated(directory / "many", options.ranks, options.rank_mb)
    rows = [help_row(max(5, options.repeats))]
    rows += single_rank_rows(one, options.hta_python, options.repeats)
    rows += many_rank_rows(many, options.repeats)
    if options.big:
        rows += big_rows(generated(directory / "big", 1, options.big_mb, "--gz"))
    return rows


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=float, default=200, help="JSON of the one large rank")
    parser.add_argument("--ranks", type=int, default=8, help="ranks of the many-rank run")
    parser.add_argument("--rank-mb", type=float, default=100, help="JSON of each of these ranks")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--hta-python", metavar="PYTHON", help="a Python that has traceinsight")
    parser.add_argument("--big", action="store_true", help="also measure a large .gz")
    parser.add_argument("--big-mb", type=float, default=2000, help="JSON inside that .gz")
    parser.add_argument("--output", type=Path, help="write the table here too")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> None:
    """Print the table of one run."""
    options = parsed(arguments)
    with tempfile.TemporaryDirectory(prefix="ddptrace-benchmark-") as directory:
        text = f"{table_of(rows_of(options, Path(directory)))}\n{described(options)}"
    print(text, end="")
    if options.output:
        options.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
