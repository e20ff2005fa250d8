"""What a user may ask of a recording: the command line, and its way into each rank."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

from ddptrace_capture.errors import CaptureError

VARIABLE = "DDPTRACE_CAPTURE"
"""The environment variable that carries the options into the ranks, as JSON."""

Profiler: TypeAlias = Literal["torch", "nsys", "both", "none"]

FEW_STEPS = 11
"""DDP's logger synchronises with the GPU in iterations 2 to 11, so a warm-up covers these."""
TIMED_STEPS = 10
TIMED_IN_SWEEP = 20
"""Configurations that differ by little are told apart by more steps than a report needs."""
TIMED_ALONE = 50
"""Without a recording the times are all there is, and a change of some percent takes so many."""
RECORDED_STEPS = 3
_MOST_DIGITS = 6
_LARGEST_CAP_MB = 1e6


@dataclass(frozen=True, slots=True)
class Options:
    """What is recorded; counts are steps of the job, `ranks` is as the user wrote it.

    `bucket_cap_mb` is what DDP gets in the place of what the script asks for; None leaves it alone.
    """

    output: str
    profiler: Profiler = "torch"
    warmup: int = FEW_STEPS
    timed: int = TIMED_STEPS
    steps: int = RECORDED_STEPS
    ranks: str = "all"
    step_mark: str | None = None
    record_shapes: bool = False
    with_stack: bool = False
    stop_after: bool = False
    bucket_cap_mb: float | None = None
    check_replicas: bool = False
    measure_link: bool = False
    nsys: str | None = None
    nsys_each_rank: bool = False
    keep_nsys_rep: bool = False

    def to_text(self) -> str:
        """Return the options as the text of `VARIABLE`."""
        return json.dumps(asdict(self))

    def wants(self, rank: int, local_rank: int | None) -> bool:
        """Tell whether a rank is to be recorded."""
        if self.ranks == "all":
            return True
        if self.ranks == "first-per-node":
            return (rank if local_rank is None else local_rank) == 0
        return rank in rank_list(self.ranks)


@dataclass(frozen=True, slots=True)
class Request:
    """One call of the command: what to record, of which command, and whether to overwrite."""

    options: Options
    command: tuple[str, ...]
    force: bool
    scrub: tuple[str, ...] = ()


def from_environment(environment: Mapping[str, str]) -> Options | None:
    """Return the options that a rank was started with; None outside a capture."""
    text = environment.get(VARIABLE)
    return Options(**json.loads(text)) if text else None


def rank_list(text: str) -> frozenset[int]:
    """Return the ranks in a list such as 0,3 or 0-7; CaptureError for any other text."""
    ranks: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise CaptureError(
                f"--ranks {text[:40]}: give all, first-per-node, or numbers such as 0,3 or 0-7"
            )
        if max(len(first), len(last)) > _MOST_DIGITS:
            raise CaptureError(f"--ranks {text[:40]}: no job has so many ranks")
        if int(last or first) < int(first):
            raise CaptureError(f"--ranks {text[:40]}: {part.strip()} runs backwards")
        ranks.update(range(int(first), int(last or first) + 1))
    return frozenset(ranks)


def parse(words: Sequence[str]) -> Request:
    """Return what the words after `ddptrace capture` ask for; CaptureError when it makes no sense.

    Everything after the first `--` is the command to run.
    """
    before, command = around_dashes(words)
    given = parser().parse_args(before)
    if not command and not given.scrub:
        raise no_command("capture")
    return Request(options_of(given), command, given.force, tuple(given.scrub or ()))


def around_dashes(words: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Return the words before the first `--`, and those after it."""
    place = list(words).index("--") if "--" in words else len(words)
    return list(words[:place]), tuple(words[place + 1 :])


def no_command(name: str) -> CaptureError:
    """Return what is said when there is nothing to run."""
    return CaptureError(
        "no command is given; write it after two dashes: "
        f"ddptrace {name} -- torchrun --nproc-per-node 2 train.py"
    )


def options_of(given: argparse.Namespace) -> Options:
    """Return the options that parsed words ask for; CaptureError when they make no sense."""
    options = Options(
        output=given.output,
        profiler=given.profiler,
        warmup=FEW_STEPS if given.warmup is None else given.warmup,
        timed=_timed(given),
        steps=given.steps,
        ranks=given.ranks,
        step_mark=given.step_mark,
        record_shapes=given.record_shapes,
        with_stack=given.with_stack,
        stop_after=given.stop_after,
        bucket_cap_mb=given.bucket_cap_mb,
        check_replicas=given.check_replicas,
        measure_link=given.measure_link,
        nsys=given.nsys,
        keep_nsys_rep=given.keep_nsys_rep,
    )
    if options.ranks not in ("all", "first-per-node"):
        rank_list(options.ranks)
    if not options.output:
        raise CaptureError("--output needs the name of a folder")
    return options


def _timed(given: argparse.Namespace) -> int:
    """Return how many steps are timed: a warm-up that was shortened is the sign of a short job."""
    if given.timed == 0 and given.profiler == "none":
        raise CaptureError("--profiler none --timed 0: nothing would be left to do")
    if given.timed is not None:
        return int(given.timed)
    if given.profiler == "none":
        return TIMED_ALONE
    return TIMED_STEPS if given.warmup is None else min(TIMED_STEPS, max(given.warmup, 2))


class OneLineParser(argparse.ArgumentParser):
    """Raises the one-line error of this package instead of printing a usage and leaving."""

    def error(self, message: str) -> None:  # type: ignore[override]
        """Raise the error."""
        raise CaptureError(f"{message}; see {self.prog} --help")


def _count(text: str) -> int:
    if not text.isdecimal() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no whole number of steps")
    return int(text)


def count_above_zero(text: str) -> int:
    """Return a number of one or more steps."""
    number = _count(text)
    if number == 0:
        raise argparse.ArgumentTypeError("at least one step is needed")
    return number


def cap_mb(text: str) -> float:
    """Return a bucket cap in MiB."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    # Below a byte DDP would have no cap at all.
    if not 1 / (1 << 20) <= number <= _LARGEST_CAP_MB:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no bucket cap in MiB, such as 25")
    return number


def parser() -> argparse.ArgumentParser:
    """Return the parser of the words before `--`."""
    found = OneLineParser(
        prog="ddptrace capture",
        usage="ddptrace capture [options] -- COMMAND …",
        description="Record some steps of every rank of a training script, without a change to it.",
        epilog="Exit code: the command's own; 2 when that is 0 and nothing was recorded.",
        allow_abbrev=False,
    )
    usual = f"{TIMED_STEPS}; fewer with --warmup below that; {TIMED_ALONE} with --profiler none"
    add_recording_options(found, folder="ddptrace-run", timed=usual)
    add = found.add_argument
    add(
        "--profiler",
        choices=("torch", "nsys", "both", "none"),
        default="torch",
        help="torch.profiler, Nsight Systems, or both in two runs one after the other, since CUPTI "
        "serves one tool a process; none only times steps (default: %(default)s)",
    )
    add("--stop-after", action="store_true", help="end the job once everything is recorded")
    add(
        "--bucket-cap-mb",
        type=cap_mb,
        default=None,
        metavar="MB",
        help="the bucket cap that DDP gets, whatever the script asks for",
    )
    add(
        "--check-replicas",
        action="store_true",
        help="tell in the manifest whether all ranks have the same parameters at the end",
    )
    add(
        "--measure-link",
        action="store_true",
        help="after the last recorded step, time all-reduces of many sizes, for ddptrace whatif",
    )
    add(
        "--scrub",
        nargs="+",
        default=None,
        metavar="FILE",
        help="remove the environment from nsys SQLite files, and record nothing",
    )
    return found


def add_recording_options(found: argparse.ArgumentParser, *, folder: str, timed: str) -> None:
    """Add what every command has that records a job."""
    add = found.add_argument
    add(
        "-o",
        "--output",
        default=folder,
        metavar="DIR",
        help="the folder to write (default: %(default)s)",
    )
    add("--force", action="store_true", help="overwrite an earlier recording in DIR")
    add(
        "--warmup",
        type=_count,
        default=None,
        metavar="N",
        help=f"steps to leave alone first (default: {FEW_STEPS})",
    )
    add(
        "--timed",
        type=_count,
        default=None,
        metavar="N",
        help=f"steps to time without the profiler (default: {timed})",
    )
    add(
        "--steps",
        type=count_above_zero,
        default=RECORDED_STEPS,
        metavar="N",
        help="steps to record in each part (default: %(default)s)",
    )
    add(
        "--ranks",
        default="all",
        metavar="LIST",
        help="all, first-per-node, or numbers such as 0,3 (default: %(default)s)",
    )
    add(
        "--step-mark",
        default=None,
        metavar="NAME",
        help="what ends a step, if no optimizer does: a function of the script (train_step or "
        "package.module:function), or a record_function or NVTX range",
    )
    add("--record-shapes", action="store_true", help="record the operators' input shapes")
    add("--with-stack", action="store_true", help="record the operators' Python stacks")
    add("--nsys", default=None, metavar="PATH", help="the nsys to use")
    add(
        "--keep-nsys-rep",
        action="store_true",
        help="keep the .nsys-rep files; they hold the job's whole environment",
    )
