"""Exports read back as rows, and what a report's JSON says they have to hold."""

from __future__ import annotations

import csv
import json
import sqlite3
from dataclasses import fields, replace
from pathlib import Path

import pytest
from pages import two_ranks

from ddptrace.diagnosis.finding import Evidence, Finding
from ddptrace.metrics.bucket_rows import BucketOnRank
from ddptrace.model import Warn
from ddptrace.outputs.exports import Target, write
from ddptrace.outputs.tables import NAMES
from ddptrace.report import Report
from ddptrace.whatif.document import Best, Bounds, Costs, Model, Prediction, WhatIf

WAITS = [field.name for field in fields(BucketOnRank)]
ODD = 'a,"b"\r\nc; \u00e9 \u4e2d'


def rows_of(path: Path, query: str) -> list[dict]:
    connection = sqlite3.connect(path)
    connection.row_factory = sqlite3.Row
    try:
        return [dict(row) for row in connection.execute(query)]
    finally:
        connection.close()


def exported(report: Report, folder: Path, ending=".db") -> dict[str, list[dict]]:
    """Return the rows of every table, as its format gives them back."""
    files = write(report, Target.of(str(folder / f"out{ending}"), replace=False))
    if ending == ".db":
        return {name: rows_of(files[0], f'select * from "{name}"') for name in NAMES}
    names = [path.name.split(".")[1] for path in files]
    assert names == list(NAMES)
    return {name: READERS[ending](path) for name, path in zip(names, files, strict=True)}


def read_csv(path: Path) -> list[dict]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, strict=True))


def read_parquet(path: Path) -> list[dict]:
    parquet = pytest.importorskip("pyarrow.parquet")
    return parquet.read_table(path).to_pylist()


READERS = {".csv": read_csv, ".parquet": read_parquet}


def full() -> Report:
    """State a report with something in every table, and with odd text wherever text may be."""
    report = two_ranks()
    finding = Finding("code", 5, [0, 1], [Evidence("metric", 1.5, None)], ODD)
    facts = replace(
        report.run,
        device=ODD,
        warnings=[Warn("code", ODD), Warn("code", "of a rank that nothing else tells of", 7)],
        missing_ranks=[3],
        missing_reasons={"3": ODD},
        unreadable=[ODD],
        versions={"torch": ODD},
    )
    steps = [replace(row, name=ODD, overlap_ratio=None) for row in report.steps]
    collectives = [replace(one, group=ODD, algbw_gb_s=0.1) for one in report.collectives]
    buckets = [replace(one, parameters=[ODD, "b"]) for one in report.buckets]
    diagnosis = replace(report.diagnosis, findings=[finding])
    return replace(
        report,
        run=facts,
        steps=steps,
        collectives=collectives,
        buckets=buckets,
        diagnosis=diagnosis,
        whatif=predicted(),
    )


def predicted() -> WhatIf:
    """State predictions: of one cap, of a link whose bandwidth is not known."""
    model = Model(
        operation="all_reduce", group_size=2, alpha_ns=5, alpha_low_ns=4, alpha_high_ns=6,
        bandwidth_gb_s=None, bandwidth_low_gb_s=None, bandwidth_high_gb_s=0.1, is_assumed=True,
        samples=3, sizes=1, smallest_bytes=1, largest_bytes=2, residual_ratio=0.1, lines=[],
        comm_slowdown_ratio=1.0,
    )  # fmt: skip
    return WhatIf(
        model=model, measured_step_ns=9, anchor="recorded", recorded_step_ns=9, replayed_step_ns=8,
        recorded_buckets=1, recorded_cap_mb=None, resolution="buckets", packing=ODD, scenario=[],
        predictions=[Prediction(1.5, 2, 9, 8, 10, 1, 1)], best=Best(1.5, 9, 0, -1, 1),
        bounds=Bounds(7, 8, 1), costs=Costs(0, 1, 2), trust="low", notes=[ODD],
    )  # fmt: skip


# --- what is exported equals the JSON ---


def told(document: dict) -> dict[str, list[dict]]:
    """Return a report's JSON as rows: what an export has to hold, said once more."""
    steps, collectives = document["steps"], document["collectives"]
    ids: dict[tuple, list[int]] = {}
    for number, row in enumerate(steps, 1):
        ids.setdefault((row["rank"], row["step"]), []).append(number)
    parts = [
        {
            "collective_id": number,
            "step_id": mine[0]
            if len(mine := ids.get((each["rank"], one["step"]), [])) == 1
            else None,
            **{name: value for name, value in each.items() if name != "bucket"},
            **(each["bucket"] or dict.fromkeys(WAITS)),
        }
        for number, one in enumerate(collectives, 1)
        for each in one["ranks"]
    ]
    late = document["stragglers"] or {}
    return {
        "ranks": rank_rows(document),
        "run": numbered([run_row(document, late)]),
        "steps": numbered(steps),
        "collectives": numbered(
            {
                {"group": "group_name", "order": "group_order"}.get(name, name): value
                for name, value in one.items()
                if name != "ranks"
            }
            for one in collectives
        ),
        "collective_ranks": numbered(parts),
        "buckets": [
            {name: value for name, value in one.items() if name != "ranks"}
            for one in document["buckets"]
        ],
        "bucket_ranks": numbered(
            {"bucket": one["bucket"], **each}
            for one in document["buckets"]
            for each in one["ranks"]
        ),
        "clocks": numbered(document["run"]["clocks"]),
        "stragglers": numbered(late.get("steps", [])),
        "findings": numbered(document["diagnosis"]["findings"]),
        "warnings": numbered(document["run"]["warnings"]),
    }


def numbered(rows) -> list[dict]:
    return [{"id": number} | row for number, row in enumerate(rows, 1)]


def run_row(document: dict, late: dict) -> dict:
    elsewhere = {
        *("ranks", "missing_ranks", "partial_ranks", "sources", "missing_reasons"),
        *("unmatched_collectives", "warnings", "buckets", "clocks"),
    }
    facts = {name: value for name, value in document["run"].items() if name not in elsewhere}
    times = document["summary"]["step_ns"] or dict.fromkeys(("median", "p95", "min", "max"))
    names = [field.name for field in fields(type(full().stragglers)) if field.name != "steps"]
    return {
        "schema": document["schema"],
        **facts,
        "bottleneck": document["diagnosis"]["bottleneck"],
        "headline": document["diagnosis"]["headline"],
        "median_step": document["summary"]["median_step"],
        "whatif": document["whatif"],
        **{f"{name}_step_ns": value for name, value in times.items()},
        **{f"straggler_{name}": late.get(name) for name in names},
        **{
            f"buckets_{name}": (document["run"]["buckets"] or {}).get(name)
            for name in ("count", "total_bytes", "rebuilt")
        },
    }


def rank_rows(document: dict) -> list[dict]:
    facts = document["run"]
    medians = {row["rank"]: row for row in document["summary"]["ranks"]}
    figures = [name for name in next(iter(medians.values())) if name != "rank"]
    named = {warning["rank"] for warning in facts["warnings"]} - {None}
    return [
        {
            "rank": rank,
            "recorded": rank in facts["ranks"],
            "missing": rank in facts["missing_ranks"],
            "partial": rank in facts["partial_ranks"],
            "source": facts["sources"].get(str(rank)),
            "missing_reason": facts["missing_reasons"].get(str(rank)),
            "unmatched_collectives": facts["unmatched_collectives"].get(str(rank)),
            **{f"median_{name}": medians.get(rank, {}).get(name) for name in figures},
        }
        for rank in sorted({*facts["ranks"], *facts["missing_ranks"], *named})
    ]


def as_sqlite(value):
    if isinstance(value, (list, dict)):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return int(value) if isinstance(value, bool) else value


def as_csv(value) -> str:
    plain_value = as_sqlite(value)
    return "" if plain_value is None else str(plain_value)


def as_parquet(value):
    return value if isinstance(value, bool) else as_sqlite(value)


SHOWN = {".db": as_sqlite, ".csv": as_csv, ".parquet": as_parquet}


def assert_equal(found: dict, document: dict, ending: str) -> None:
    for name, rows in told(document).items():
        shown = [{key: SHOWN[ending](value) for key, value in row.items()} for row in rows]
        assert found[name] == shown, name
