"""Step times alone: from a CSV file, or from a run that was timed and not recorded."""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import ROUND_HALF_EVEN, Decimal, DecimalException
from pathlib import Path

from ddptrace.check import fingerprint
from ddptrace.check.figures import STEP, RunFigures, Series
from ddptrace.check.measured import timed_series
from ddptrace.errors import RunError
from ddptrace.sources.manifest import PATTERN, read_manifests
from ddptrace.wording import of_ranks as words_of
from ddptrace.wording import one_line

_MOST_BYTES = 1 << 24
_LONGEST_NS = 1 << 62
_LARGEST_STEP = 10**12
_LARGEST_RANK = 1_000_000
_UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "sec": 10**9, "seconds": 10**9}
_TIME = re.compile(rf"(?:(.*?)[ _(\[]*)?\b({'|'.join(_UNITS)})[)\]]?")
_OF_EXPORT = {"step_ns", "compute_ns", "exposed_comm_ns", "idle_ns", "partial"}
_HOW = "name the column of step times with its unit, such as step_ms (ns, us, ms or s)"


def read_csv(path: Path) -> RunFigures:
    """Return the step times in a CSV file; RunError, in one line, when there are none.

    One column has them, its name ends in the unit; `rank` and `step` may say whose they are.
    """
    where = one_line(path)
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise RunError(f"{where}: cannot be read: {error.strerror}") from error
    if len(data) > _MOST_BYTES:
        raise RunError(f"{where}: is larger than {_MOST_BYTES >> 20} MiB; keep fewer steps")
    try:
        series, is_recorded = _from_text(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise RunError(f"{where}: is no CSV file: it is no text") from error
    except (RunError, csv.Error) as error:
        raise RunError(f"{where}: {error}") from error
    if is_recorded:
        return RunFigures(name=where, recorded=series)
    return RunFigures(name=where, timed=series)


def _from_text(text: str) -> tuple[list[Series], bool]:
    """Return the series of each rank, and whether `ddptrace export` wrote them of recordings."""
    reader = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True)
    header = next((row for row in reader if any(row)), None)
    if header is None:
        raise RunError(f"holds no step times; {_HOW}")
    names = [name.strip().lower() for name in header]
    column, unit_ns = _time_column(names)
    places = {name: names.index(name) for name in ("rank", STEP) if name in names}
    rows = ((reader.line_num, row) for row in reader if any(cell.strip() for cell in row))
    found = _by_rank(rows, column, unit_ns, places, len(names))
    if not found:
        raise RunError(f"holds no step times below its header; {_HOW}")
    series = [
        Series(rank, list(times), {STEP: [*times.values()]})
        for rank, times in sorted(found.items())
    ]
    return series, set(names) >= _OF_EXPORT


def _time_column(names: Sequence[str]) -> tuple[int, int]:
    """Return the place of the column of step times, and its unit in ns."""
    found = {
        place: _UNITS[match[2]]
        for place, name in enumerate(names)
        if (match := _TIME.fullmatch(name.replace("_", " ").replace("µ", "u")))
    }
    steps = [place for place in found if names[place].startswith(STEP)]
    chosen = steps or list(found)
    if len(chosen) != 1:
        what = "no column" if not chosen else "more than one column"
        raise RunError(f"{what} in its first line has step times; {_HOW}")
    return chosen[0], found[chosen[0]]


def _by_rank(
    rows: Iterator[tuple[int, list[str]]],
    column: int,
    unit_ns: int,
    places: Mapping[str, int],
    width: int,
) -> dict[int, dict[int, int]]:
    """Return the times by rank and step; steps without a number count from 0 in each rank."""
    found: dict[int, dict[int, int]] = defaultdict(dict)
    for line, row in rows:
        if len(row) <= max(column, *places.values(), 0):
            raise RunError(f"line {line} has fewer cells than the first line")
        if any(cell.strip() for cell in row[width:]):
            raise RunError(
                f"line {line} has more cells than the first line; write times with a decimal point"
            )
        rank = _whole(row, places.get("rank"), line, _LARGEST_RANK)
        times = found[0 if rank is None else rank]
        step = _whole(row, places.get(STEP), line, _LARGEST_STEP)
        number = len(times) if step is None else step
        if number in times:
            raise RunError(f"line {line} has step {number} of its rank again")
        times[number] = _ns(row[column], unit_ns, line)
    return found


def _whole(row: Sequence[str], place: int | None, line: int, largest: int) -> int | None:
    if place is None:
        return None
    word = row[place].strip()
    if not re.fullmatch(r"[0-9]{1,15}", word) or int(word) > largest:
        raise RunError(f"line {line}: {one_line(word)[:20]!r} is no number of a rank or step")
    return int(word)


def _ns(word: str, unit_ns: int, line: int) -> int:
    try:
        value = Decimal(word.strip()) * unit_ns
    except DecimalException:
        value = Decimal("NaN")
    if not value.is_finite() or not 0 < value <= _LONGEST_NS:
        raise RunError(f"line {line}: {one_line(word)[:20]!r} is no step time")
    if not (rounded := int(value.to_integral_value(ROUND_HALF_EVEN))):
        raise RunError(
            f"line {line}: {one_line(word)[:20]!r} is no step time: it is less than 1 ns"
        )
    return rounded


def of_ranks(figures: RunFigures, ranks: Collection[int]) -> RunFigures:
    """Return the step times of some ranks; RunError, in one line, for a rank without any."""
    if missing := set(ranks) - set(figures.ranks):
        raise RunError(f"{figures.name}: has no step times of {words_of(missing)}")
    told = figures.fingerprint
    return replace(
        figures,
        recorded=[one for one in figures.recorded if one.rank in ranks],
        timed=[one for one in figures.timed if one.rank in ranks],
        fingerprint=told | ({"ranks": sorted(ranks)} if "ranks" in told else {}),
    )


def timed_run(folder: Path) -> RunFigures | None:
    """Return the steps that a capture timed and did not record; None where there are none.

    A run whose recordings are named and lost is none: what was recorded was meant.
    """
    folders = {path.parent for path in folder.rglob(PATTERN) if path.is_file()}
    found = read_manifests(sorted(folders))
    manifest = found.manifest
    if manifest is None or any(facts.files or facts.parts for facts in manifest.ranks):
        return None
    series = timed_series(manifest)
    if not series:
        return None
    told = fingerprint.of_manifest(manifest, [one.rank for one in series])
    return RunFigures(
        name=one_line(folder), fingerprint=told, timed=series, notes=[*found.problems]
    )
