"""What a user may ask of a sweep."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ddptrace_capture.errors import CaptureError
from ddptrace_capture.options import (
    TIMED_IN_SWEEP,
    OneLineParser,
    Options,
    add_recording_options,
    around_dashes,
    cap_mb,
    no_command,
    options_of,
)

FOLDER = "ddptrace-sweep"
FEWEST_TIMED = 5
_MOST_CAPS = 100
_MOST_REPEATS = 100
_OF_ONE_RUN = ("output", "bucket_cap_mb", "check_replicas", "measure_link", "nsys_each_rank")


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """One call of the command: `options` are those of each run, but for its cap and folder.

    `caps_mb` are distinct and as the user ordered them.
    """

    options: Options
    command: tuple[str, ...]
    caps_mb: tuple[float, ...]
    repeat: int
    keep_going: bool
    force: bool

    def told_options(self) -> dict[str, Any]:
        """Return the options that make runs comparable: in one folder they are the same."""
        told = asdict(self.options)
        for name in _OF_ONE_RUN:
            del told[name]
        return told


def parse(words: Sequence[str]) -> SweepRequest:
    """Return what the words after `ddptrace sweep` ask for; CaptureError if they make no sense."""
    before, command = around_dashes(words)
    given = parser().parse_args(before)
    if not command:
        raise no_command("sweep --bucket-cap-mb 1,25,100")
    given.stop_after = not given.whole_job
    given.timed = TIMED_IN_SWEEP if given.timed is None else given.timed
    if given.timed < FEWEST_TIMED:
        raise CaptureError(
            f"--timed {given.timed}: a sweep compares timed steps; {FEWEST_TIMED} are the least"
        )
    given.check_replicas, given.measure_link = True, False  # the latter is for each run to say
    given.bucket_cap_mb, caps_mb = None, given.bucket_cap_mb
    return SweepRequest(
        options=options_of(given),
        command=command,
        caps_mb=caps_mb,
        repeat=given.repeat,
        keep_going=given.keep_going,
        force=given.force,
    )


def _caps(text: str) -> tuple[float, ...]:
    caps = tuple(dict.fromkeys(cap_mb(word.strip()) for word in text.split(",")))
    if len(caps) > _MOST_CAPS:
        raise argparse.ArgumentTypeError(f"{len(caps)} caps are too many; {_MOST_CAPS} is the most")
    return caps


def _repeats(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text[:9]) <= _MOST_REPEATS:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no number from 1 to {_MOST_REPEATS}")
    return int(text)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the words before `--`."""
    found = OneLineParser(
        prog="ddptrace sweep",
        usage="ddptrace sweep --bucket-cap-mb 1,25,100 [options] -- COMMAND …",
        description="Run a job once with each bucket cap, without a change to it, and say which "
        "one is the fastest. A sweep that was interrupted goes on when it is started again.",
        epilog="Exit code: that of a run that failed; 2 when nothing was recorded. Analysis "
        "(ddptrace only): --json FILE, --predict-from CAP, --jobs N; without a command, what is "
        "in DIR is shown again.",
        allow_abbrev=False,
    )
    add = found.add_argument
    add(
        "--bucket-cap-mb",
        type=_caps,
        required=True,
        metavar="LIST",
        help="the caps to try, in MiB; the script's own is run first, untouched",
    )
    add(
        "--repeat",
        type=_repeats,
        default=1,
        metavar="N",
        help="runs of each; those after the first are timed only (default: %(default)s)",
    )
    add("--keep-going", action="store_true", help="go on after a run that failed")
    add("--whole-job", action="store_true", help="let the job end by itself, not once recorded")
    add(
        "--profiler",
        choices=("torch", "nsys", "none"),
        default="torch",
        help="torch.profiler or Nsight Systems; none only times steps (default: %(default)s)",
    )
    add_recording_options(found, folder=FOLDER, timed=str(TIMED_IN_SWEEP))
    return found
