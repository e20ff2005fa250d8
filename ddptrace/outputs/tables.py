"""A report as flat tables: the one home of what an export holds, whatever the format.

Columns are the fields of the report's own records, so that what is added there is exported, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, TypeAlias, Union, get_args, get_origin, get_type_hints

import msgspec

from ddptrace.diagnosis.finding import Finding
from ddptrace.metrics.bucket_rows import BucketOnRank
from ddptrace.metrics.bucket_summary import Bucket, BucketFacts, BucketMedians
from ddptrace.metrics.clocks import RankClock
from ddptrace.metrics.collective_rows import Collective, CollectiveOnRank
from ddptrace.metrics.steps import StepMetrics
from ddptrace.metrics.stragglers import StepStraggler, Stragglers
from ddptrace.metrics.summary import FIGURES, StepTimes
from ddptrace.model import Warn
from ddptrace.report import Report, RunFacts

Kind: TypeAlias = type[bool] | type[int] | type[float] | type[str]
Value: TypeAlias = bool | int | float | str | None

_PLAIN = (bool, int, float, str)


@dataclass(frozen=True, slots=True)
class Table:
    """One table: `rows` have a value for each of `columns`; the first column is the key.

    `refers` names the table that a column holds a key of. `lookups` are columns to search by.
    """

    name: str
    columns: dict[str, Kind]
    rows: Sequence[tuple[Value, ...]]
    refers: dict[str, str] = field(default_factory=dict)
    lookups: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The name of the column that tells rows apart."""
        return next(iter(self.columns))


NAMES = (
    *("ranks", "run", "steps", "collectives", "collective_ranks"),
    *("buckets", "bucket_ranks", "clocks", "stragglers", "findings", "warnings"),
)
"""The names of all tables, each after those that it refers to."""


def tables(report: Report) -> list[Table]:
    """Return all tables of a report, in the order of NAMES."""
    late = [] if report.stragglers is None else report.stragglers.steps
    return [
        _ranks(report),
        _run(report),
        _records("steps", StepMetrics, report.steps, lookups=("step",)),
        _collectives(report.collectives),
        _collective_ranks(report),
        _buckets(report.buckets),
        _bucket_ranks(report.buckets),
        _records("clocks", RankClock, report.run.clocks, more=("reference",)),
        _records("stragglers", StepStraggler, late, lookups=("step",)),
        _records("findings", Finding, report.diagnosis.findings),
        _records("warnings", Warn, report.run.warnings),
    ]


def _records(
    name: str,
    record: type,
    records: Sequence[Any],
    *,
    more: tuple[str, ...] = (),
    lookups: tuple[str, ...] = (),
) -> Table:
    """Return a table of records of one kind, numbered from 1.

    `rank` refers to a rank, and so do the columns `more`.
    """
    columns = _columns(record)
    return Table(
        name,
        {"id": int} | columns,
        [(number, *row) for number, row in enumerate(_values(columns, records), 1)],
        refers={name: "ranks" for name in columns if name in ("rank", *more)},
        lookups=lookups,
    )


# --- the run and its ranks ---

_OF_RANKS = (
    *("ranks", "missing_ranks", "partial_ranks", "sources", "missing_reasons"),
    "unmatched_collectives",
)


def _run(report: Report) -> Table:
    """Return the table of one row: what is not of a rank, a step or a collective."""
    facts = _columns(RunFacts, without=(*_OF_RANKS, "warnings", "buckets", "clocks"))
    times = _columns(StepTimes)
    late = _columns(Stragglers, without=("steps",))
    buckets = _columns(BucketFacts)
    summary = report.summary
    columns = {"id": int, "schema": int} | facts
    columns |= {"bottleneck": str, "headline": str, "median_step": int, "whatif": str}
    columns |= {f"{name}_step_ns": kind for name, kind in times.items()}
    columns |= {f"straggler_{name}": kind for name, kind in late.items()}
    columns |= {f"buckets_{name}": kind for name, kind in buckets.items()}
    row = (
        *(1, report.schema, *_row(facts, report.run)),
        *(report.diagnosis.bottleneck, report.diagnosis.headline),
        *(summary.median_step, _value(report.whatif)),
        *_row(times, summary.step_ns),
        *_row(late, report.stragglers),
        *_row(buckets, report.run.buckets),
    )
    return Table("run", columns, [row], refers={"straggler_rank": "ranks"})


def _ranks(report: Report) -> Table:
    """Return the table of all ranks that the report speaks of: facts, and medians over steps."""
    run = report.run
    medians = {int(row["rank"] or 0): row for row in report.summary.ranks}
    figures = {name: kind for name, kind in _columns(StepMetrics).items() if name in FIGURES}
    columns: dict[str, Kind] = {
        "rank": int,
        "recorded": bool,
        "missing": bool,
        "partial": bool,
        "source": str,
        "missing_reason": str,
        "unmatched_collectives": int,
    }
    columns |= {f"median_{name}": kind for name, kind in figures.items()}
    rows = [
        (
            *(rank, rank in run.ranks, rank in run.missing_ranks, rank in run.partial_ranks),
            *(run.sources.get(str(rank)), run.missing_reasons.get(str(rank))),
            run.unmatched_collectives.get(str(rank)),
            *(medians.get(rank, {}).get(name) for name in figures),
        )
        for rank in sorted(_all_ranks(report))
    ]
    return Table("ranks", columns, rows)


def _all_ranks(report: Report) -> set[int]:
    """Return every rank that any row of any table may be about."""
    ranks = {*report.run.ranks, *report.run.missing_ranks, *report.run.partial_ranks}
    ranks |= {row.rank for row in report.steps}
    ranks |= {each.rank for one in report.collectives for each in one.ranks}
    ranks |= {rank for each in report.run.clocks for rank in (each.rank, each.reference)}
    ranks |= {each.rank for each in report.run.warnings if each.rank is not None}
    found = report.stragglers
    if found is not None:
        late = {found.rank, *(step.rank for step in found.steps)}
        ranks |= {rank for rank in late if rank is not None}
    return ranks


# --- collectives ---

_NOT_SQL = {"group": "group_name", "order": "group_order"}  # these words mean something in SQL


def _collectives(collectives: Sequence[Collective]) -> Table:
    columns = _columns(Collective, without=("ranks",))
    return Table(
        "collectives",
        {"id": int} | {_NOT_SQL.get(name, name): kind for name, kind in columns.items()},
        [(number, *row) for number, row in enumerate(_values(columns, collectives), 1)],
        lookups=("step", "op"),
    )


def _collective_ranks(report: Report) -> Table:
    """Return the table of each rank's part in each collective, and in which of its steps.

    What a gradient bucket waited for is in columns of the same row.
    """
    columns = _columns(CollectiveOnRank, without=("bucket",))
    waits = _columns(BucketOnRank)
    step_ids = _step_ids(report.steps)
    of = [
        (number, step_ids.get((each.rank, one.step)))
        for number, one in enumerate(report.collectives, 1)
        for each in one.ranks
    ]
    ranks = [each for one in report.collectives for each in one.ranks]
    parts = zip(
        of, _values(columns, ranks), (_row(waits, each.bucket) for each in ranks), strict=True
    )
    return Table(
        "collective_ranks",
        {"id": int, "collective_id": int, "step_id": int} | columns | waits,
        [(number, *ids, *row, *more) for number, (ids, row, more) in enumerate(parts, 1)],
        refers={"collective_id": "collectives", "step_id": "steps", "rank": "ranks"},
    )


def _step_ids(steps: Sequence[StepMetrics]) -> dict[tuple[int, int | None], int]:
    """Return the row of the table of steps for a rank and a step, where it is the only one."""
    rows: dict[tuple[int, int | None], list[int]] = defaultdict(list)
    for number, row in enumerate(steps, 1):
        rows[row.rank, row.step].append(number)
    return {place: mine[0] for place, mine in rows.items() if len(mine) == 1}


def _buckets(buckets: Sequence[Bucket]) -> Table:
    columns = _columns(Bucket, without=("ranks",))
    return Table("buckets", columns, list(_values(columns, buckets)))


def _bucket_ranks(buckets: Sequence[Bucket]) -> Table:
    """Return the table of what is typical of each bucket on each rank."""
    columns = _columns(BucketMedians)
    rows = [(one.bucket, *row) for one in buckets for row in _values(columns, one.ranks)]
    return Table(
        "bucket_ranks",
        {"id": int, "bucket": int} | columns,
        [(number, *row) for number, row in enumerate(rows, 1)],
        refers={"bucket": "buckets", "rank": "ranks"},
    )


# --- columns of records ---


def _columns(record: type, *, without: Iterable[str] = ()) -> dict[str, Kind]:
    """Return the fields of a record as columns; what is no single value is text: its JSON."""
    hints = get_type_hints(record)
    return {
        each.name: _kind(hints[each.name]) for each in fields(record) if each.name not in without
    }


def _kind(hint: Any) -> Kind:  # noqa: ANN401  # whatever a field may be annotated with
    options = {hint}
    if get_origin(hint) in (Union, UnionType):
        options = set(get_args(hint)) - {NoneType}
    plain = [kind for kind in _PLAIN if kind in options]
    return plain[-1] if len(plain) == len(options) else str


def _values(columns: Iterable[str], records: Iterable[Any]) -> Iterator[tuple[Value, ...]]:
    """Give what records have in some columns, which are at least two."""
    for row in map(attrgetter(*columns), records):
        yield tuple(map(_value, row))


def _row(columns: Collection[str], record: object) -> tuple[Value, ...]:
    """Return what a record has in some columns; nothing in any of them where there is none."""
    return (None,) * len(columns) if record is None else next(_values(columns, [record]))


def _value(value: Any) -> Value:  # noqa: ANN401  # whatever a field may hold
    if value is None or isinstance(value, _PLAIN):
        plain: Value = value
        return plain
    return msgspec.json.encode(value).decode()
