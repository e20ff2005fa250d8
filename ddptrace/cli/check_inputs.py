"""What `check` is given: baselines, runs, saved reports and CSV files, told apart by content."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ddptrace.cli.chosen import rank_list
from ddptrace.cli.inputs import read
from ddptrace.cli.saved import saved_report
from ddptrace.errors import RunError, SavedReportError, TraceFileError

if TYPE_CHECKING:
    from ddptrace.check.figures import RunFigures  # numpy behind it would slow `--help` down


@dataclass(frozen=True, slots=True)
class Reading:
    """How traces are read, as the options say it."""

    ranks: str | None = None
    comm_kernel: list[str] | None = None
    step_range: str | None = None
    jobs: int | None = None

    @property
    def given(self) -> list[str]:
        """The options that a saved file cannot follow any more."""
        options = {
            "--ranks": self.ranks,
            "--comm-kernel": self.comm_kernel,
            "--step-range": self.step_range,
        }
        return [name for name, value in options.items() if value]


def all_figures(places: list[str], reading: Reading) -> list[RunFigures]:
    """Return the figures of all runs that some places name, in their order."""
    return [one for place in places for one in figures_at(place, reading)]


def baseline_figures(places: list[str], reading: Reading) -> list[RunFigures]:
    """Return the figures of all runs that are a baseline, in their order."""
    try:
        return all_figures(places, reading)
    except TraceFileError as error:
        raise RunError(
            f"{error} (--baseline takes what --save-baseline wrote, or a run)"
        ) from error


def step_times(places: list[str], reading: Reading) -> list[RunFigures]:
    """Return the step times in CSV files, whatever they are called."""
    from ddptrace.check.step_times import read_csv

    return [_of_ranks(read_csv(Path(place)), reading) for place in places]


def _of_ranks(figures: RunFigures, reading: Reading) -> RunFigures:
    """Return the step times of the ranks that the options name; RunError where one has none."""
    from ddptrace.check.step_times import of_ranks

    return figures if reading.ranks is None else of_ranks(figures, rank_list(reading.ranks))


def figures_at(place: str, reading: Reading) -> list[RunFigures]:
    """Return the figures of what a place names: one run, or those of a saved baseline."""
    from ddptrace.check import baseline, step_times

    path = Path(place)
    if path.suffix.lower() == ".csv":
        return [_of_ranks(step_times.read_csv(path), reading)]
    if baseline.is_one(path):
        return baseline.read(path).runs
    return [_of_run(place, reading)]


def _of_run(place: str, reading: Reading) -> RunFigures:
    from ddptrace.check.measured import figures_of
    from ddptrace.check.step_times import timed_run

    try:
        run = read([place], reading.ranks, reading.comm_kernel, reading.step_range, reading.jobs)
    except SavedReportError as found:
        if Path(place).is_dir():
            raise  # a run was meant
        return figures_of(saved_report(Path(found.path), reading.given), place)
    except RunError:
        timed = timed_run(Path(place)) if Path(place).is_dir() else None
        if timed is None:
            raise
        return _of_ranks(timed, reading)
    return figures_of(run, place)
