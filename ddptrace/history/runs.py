"""Runs in a history: one is put in whole, once, and found again."""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any, TypeVar

import msgspec
from sqlite_utils import Database

from ddptrace import __version__
from ddptrace.check.baseline import Baseline, from_json, to_json
from ddptrace.check.figures import STEP, Fact, RunFigures, Series, Source, longest
from ddptrace.diagnosis.ledger import Ledger
from ddptrace.errors import HistoryError, RunError
from ddptrace.history.revision import Revision
from ddptrace.history.schema import FIGURES, LEDGER
from ddptrace.history.store import Writer
from ddptrace.wording import one_line

_T = TypeVar("_T")
_RUN = (
    "select id, added_at, name, commit_id, branch, fingerprint, step_ns, counted_steps, "
    "timed_step_ns, timed_steps, tool, starts_anew from runs"
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A run to be added, and what is told of it.

    One that `starts_anew` is not compared with earlier ones, nor is any later one.
    """

    figures: RunFigures
    revision: Revision
    tags: tuple[str, ...] = ()
    starts_anew: bool = False


@dataclass(frozen=True, slots=True)
class Added:
    """The number of a run in the history; `is_new` is false when it was there before."""

    number: int
    is_new: bool


@dataclass(frozen=True, slots=True)
class StoredRun:
    """One run of a history: times are medians in ns, on the rank where a step took longest.

    `step_ns` is of recorded steps, `timed_step_ns` of steps without a profiler; None without any.
    """

    number: int
    added_at: str
    name: str
    commit: str | None
    branch: str | None
    tags: list[str]
    ranks: list[int]
    fingerprint: dict[str, Fact]
    step_ns: int | None
    counted_steps: int
    timed_step_ns: int | None
    timed_steps: int
    tool: str
    starts_anew: bool


@dataclass(frozen=True, slots=True)
class Choice:
    """Which runs of a history are meant: all of a branch, all with each of the tags."""

    branch: str | None = None
    tags: tuple[str, ...] = field(default=())

    @property
    def words(self) -> str:
        """The choice as the end of a sentence; nothing where every run is meant."""
        branch = [] if self.branch is None else [f" of branch {one_line(self.branch)}"]
        return "".join([*branch, *(f" with tag {one_line(tag)}" for tag in self.tags)])


ALL = Choice()
"""Every run of a history."""


def add(writer: Writer, entry: Entry) -> Added:
    """Put a run into a history, with all of its ranks or not at all.

    When this returns the run is on the disk. A run of the same content is not added again; it
    starts anew from then on when that is asked for.
    """
    with writer.transaction() as database:
        digest = digest_of(entry.figures)
        there = number_of(database, digest)
        if there is not None:
            if entry.starts_anew:
                database.conn.execute("update runs set starts_anew = 1 where id = ?", [there])
            return Added(there, is_new=False)
        number = _insert(database, "runs", _run_row(entry, digest))
        for tag in dict.fromkeys(entry.tags):
            _insert(database, "tags", {"run_id": number, "tag": one_line(tag)})
        for row in _rank_rows(entry.figures):
            _insert(database, "ranks", {"run_id": number} | row)
        return Added(number, is_new=True)


def number_of(database: Database, digest: str) -> int | None:
    """Return the number of the run with a digest; None when it is not in the history."""
    rows = list(database.query("select id from runs where digest = ?", [digest]))
    return int(rows[0]["id"]) if rows else None


def digest_of(figures: RunFigures) -> str:
    """Return what tells a run from any other one, wherever it was read from.

    A saved report gives the digest of its traces: what only these tell does not count.
    """
    steps = [
        [one.rank, one.steps, [one.values.get(name.removesuffix("_ns")) for name in FIGURES]]
        for one in figures.recorded or figures.timed
    ]
    content = msgspec.json.encode([figures.fingerprint, steps], order="sorted")
    return hashlib.sha256(content).hexdigest()


def stored_runs(database: Database, choice: Choice = ALL) -> list[StoredRun]:
    """Return the runs that are meant, in the order in which they were added."""
    where, values = _where(choice)
    tags = _grouped(database, "select run_id, tag as value from tags order by tag")
    ranks = _grouped(database, "select run_id, rank as value from ranks order by rank")
    return [
        _stored(row, tags.get(row["id"], []), ranks.get(row["id"], []))
        for row in database.query(f"{_RUN}{where} order by id", values)
    ]


def stored_run(database: Database, number: int) -> StoredRun:
    """Return the run with a number; HistoryError when there is none."""
    for run in stored_runs(database):
        if run.number == number:
            return run
    raise _no_run(number)


def figures_of(database: Database, numbers: Sequence[int]) -> list[RunFigures]:
    """Return what runs are held against, in the order of their numbers given."""
    return [_figures(database, number) for number in numbers]


def rank_rows(database: Database, number: int) -> list[dict[str, Any]]:
    """Return the figures of each rank of a run, by the names of the columns."""
    return [
        _converted(
            {name: value for name, value in row.items() if name != "run_id"},
            dict[str, int | None],
            number,
        )
        for row in database.query("select * from ranks where run_id = ? order by rank", [number])
    ]


def slowest_ledgers(database: Database) -> dict[int, Ledger]:
    """Return of each run that has ledgers the one of the rank on which the step took longest."""
    names = ", ".join(
        f"max(ledger_step_ns) as {LEDGER[0]}" if name == LEDGER[0] else name for name in LEDGER
    )
    query = (
        f"select run_id, rank, ledger_step, {names} from ranks where ledger_step_ns is not null "
        "group by run_id"  # of the row with the largest step, by SQLite's rule for bare columns
    )
    return {row["run_id"]: _ledger(row) for row in database.query(query)}


def _ledger(row: dict[str, Any]) -> Ledger:
    parts = {name.removeprefix("ledger_"): row[name] for name in LEDGER}
    told = {"rank": row["rank"], "step": row["ledger_step"]} | parts
    return _converted(told, Ledger, row["run_id"])


def _figures(database: Database, number: int) -> RunFigures:
    for row in database.query("select document from runs where id = ?", [number]):
        try:
            return from_json(_converted(row["document"], str, number)).runs[0]
        except RunError as error:
            raise HistoryError(f"run {number} of the history cannot be read: {error}") from error
    raise _no_run(number)


def _no_run(number: int) -> HistoryError:
    return HistoryError(f"the history has no run {number}; `ddptrace history list` tells which")


def _stored(row: dict[str, Any], tags: list[Any], ranks: list[Any]) -> StoredRun:
    number = row["id"]
    try:
        fingerprint = msgspec.json.decode(_converted(row["fingerprint"], str, number))
    except msgspec.DecodeError as error:
        raise _unreadable(number, error) from error
    renamed = {
        "number": number,
        "commit": row["commit_id"],
        "starts_anew": bool(row["starts_anew"]),
    }
    made = {"tags": tags, "ranks": ranks, "fingerprint": fingerprint}
    return _converted(row | renamed | made, StoredRun, number)


def _converted(value: object, wanted: type[_T], number: int) -> _T:
    """Return what a column holds as what it should be: SQLite keeps any type in any column."""
    try:
        return msgspec.convert(value, wanted)
    except msgspec.ValidationError as error:
        raise _unreadable(number, error) from error


def _unreadable(number: int, error: Exception) -> HistoryError:
    return HistoryError(
        f"run {number} of the history is damaged ({one_line(error)}); restore it from a copy"
    )


def _where(choice: Choice) -> tuple[str, list[str]]:
    wanted = [] if choice.branch is None else ["branch = ?"]
    wanted += ["id in (select run_id from tags where tag = ?)"] * len(choice.tags)
    values = [*([] if choice.branch is None else [choice.branch]), *choice.tags]
    return (f" where {' and '.join(wanted)}" if wanted else ""), [one_line(word) for word in values]


def _grouped(database: Database, query: str) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for row in database.query(query):
        found.setdefault(row["run_id"], []).append(row["value"])
    return found


def _insert(database: Database, table: str, row: dict[str, Any]) -> int:
    """Insert a row and return its number: sqlite-utils' own insert would end the transaction."""
    names = ", ".join(row)
    places = ", ".join("?" * len(row))
    done = database.conn.execute(
        f"insert into {table} ({names}) values ({places})", list(row.values())
    )
    return int(done.lastrowid or 0)


def _run_row(entry: Entry, digest: str) -> dict[str, Any]:
    figures = entry.figures
    return {
        "digest": digest,
        "added_at": datetime.now(timezone.utc).isoformat(timespec="microseconds"),
        "name": one_line(figures.name),
        "commit_id": _word(entry.revision.commit),
        "branch": _word(entry.revision.branch),
        "fingerprint": msgspec.json.encode(figures.fingerprint, order="sorted").decode(),
        "step_ns": _longest_ns(figures, "recorded"),
        "counted_steps": len(longest(figures.recorded, STEP)),
        "timed_step_ns": _longest_ns(figures, "timed"),
        "timed_steps": len(longest(figures.timed, STEP)),
        "tool": __version__,
        "starts_anew": entry.starts_anew,
        "document": to_json(Baseline([replace(figures, name=one_line(figures.name))])),
    }


def _word(text: str | None) -> str | None:
    return None if text is None else one_line(text)


def _longest_ns(figures: RunFigures, source: Source) -> int | None:
    return _median(list(longest(figures.series(source), STEP).values()))


def _rank_rows(figures: RunFigures) -> Iterator[dict[str, Any]]:
    recorded = {one.rank: one for one in figures.recorded}
    timed = {one.rank: one for one in figures.timed}
    ledgers = {one.rank: one for one in figures.ledgers}
    for rank in figures.ranks:
        ledger = ledgers.get(rank)
        yield {
            "rank": rank,
            **{name: _median_of(recorded.get(rank), name) for name in FIGURES},
            "timed_step_ns": _median_of(timed.get(rank), "step_ns"),
            "ledger_step": None if ledger is None else ledger.step,
            **{
                name: None if ledger is None else getattr(ledger, name.removeprefix("ledger_"))
                for name in LEDGER
            },
        }


def _median_of(series: Series | None, column: str) -> int | None:
    values = () if series is None else series.values.get(column.removesuffix("_ns")) or ()
    return _median([value for value in values if value is not None])


def _median(values: Sequence[int]) -> int | None:
    return int(statistics.median(values)) if values else None
