"""What the recorder says of a sweep: `sweep.json`, described in docs/formats.md."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from ddptrace.errors import RunError
from ddptrace.wording import one_line

NAME = "sweep.json"
VERSION = 1

LARGEST_CAP_MB = 1e9
_Cap = Annotated[float, msgspec.Meta(gt=0, le=LARGEST_CAP_MB)]
_Folder = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][\w.\-+]*$", max_length=200)]


@dataclass(frozen=True, slots=True)
class MadeRun:
    """One run: its folder inside that of the sweep, and how it ended.

    The cap is None for the script's own; `problem` says why a run that failed is no measurement.
    """

    folder: _Folder
    bucket_cap_mb: _Cap | None
    repeat: Annotated[int, msgspec.Meta(ge=1)]
    status: Literal["done", "failed"]
    exit_code: int
    problem: str | None = None
    started_ns: int | None = None


@dataclass(frozen=True, slots=True)
class SweepFile:
    """A whole sweep as the recorder tells it; see `State` there for `own_cap_mb` and `problem`."""

    ddptrace_sweep: int
    command: list[str]
    bucket_caps_mb: list[_Cap]
    repeat: int
    runs: list[MadeRun]
    own_cap_mb: _Cap | None = None
    problem: str | None = None

    @property
    def missing(self) -> list[str]:
        """The names of runs that were wanted and not made, in the order of caps."""
        made = {(run.bucket_cap_mb, run.repeat) for run in self.runs}
        caps = [None, *(cap for cap in self.bucket_caps_mb if cap != self.own_cap_mb)]
        wanted = [(cap, number + 1) for cap in caps for number in range(self.repeat)]
        return [name_of(*each) for each in wanted if each not in made]


def name_of(cap_mb: float | None, repeat: int = 1) -> str:
    """Return how a run is called in messages."""
    name = "the script's own cap" if cap_mb is None else f"bucket_cap_mb={cap_mb:.12g}"
    return name if repeat == 1 else f"{name} (run {repeat})"


def read_sweep(folder: Path) -> SweepFile:
    """Return what the recorder told; RunError, in one line, when there is none to be used."""
    path, where = folder / NAME, one_line(folder / NAME)
    try:
        found = msgspec.json.decode(path.read_bytes(), type=SweepFile)
    except FileNotFoundError as error:
        raise RunError(
            f"{one_line(folder)}: no sweep is there; make one with "
            "ddptrace sweep --bucket-cap-mb 1,25,100 -- COMMAND"
        ) from error
    except OSError as error:
        raise RunError(f"{where}: cannot be read: {error.strerror}") from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise RunError(
            f"{where}: is not what a sweep wrote ({one_line(error)}); its runs can be read one by "
            "one with ddptrace report, or made again with ddptrace sweep --force"
        ) from error
    if found.ddptrace_sweep != VERSION:
        raise RunError(
            f"{where}: has version {found.ddptrace_sweep}, and this ddptrace reads {VERSION}"
        )
    if found.problem is not None:
        raise RunError(f"{one_line(folder)}: {one_line(found.problem)}")
    return found
