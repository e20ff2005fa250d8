"""The report as tables: SQLite, CSV and Parquet hold what the JSON does, row for row."""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace
from pathlib import Path
from types import UnionType
from typing import get_type_hints

import pytest
from exported import ODD, SHOWN, assert_equal, exported, full, rows_of
from pages import two_ranks
from traces import run, trace

from ddptrace import analyze, load_run
from ddptrace.diagnosis.finding import Finding
from ddptrace.metrics.collective_rows import Collective, CollectiveOnRank
from ddptrace.outputs.exports import Target, write
from ddptrace.outputs.tables import NAMES, tables
from ddptrace.report import Report, RunFacts, to_json

SAMPLES = Path(__file__).parent.parent / "sample_traces"
CASES = sorted(path.name for path in SAMPLES.iterdir() if path.is_dir())
DOCS = (Path(__file__).parent.parent / "docs" / "export.md").read_text(encoding="utf-8")


# --- what is exported equals the JSON ---


@pytest.mark.parametrize("ending", SHOWN)
@pytest.mark.parametrize("case", CASES)
def test_an_export_of_a_sample_equals_its_json(case, ending, tmp_path):
    report = analyze(load_run(SAMPLES / case))
    assert_equal(exported(report, tmp_path, ending), json.loads(to_json(report)), ending)


@pytest.mark.parametrize("ending", SHOWN)
def test_text_survives_and_every_table_has_rows(ending, tmp_path):
    found = exported(full(), tmp_path, ending)
    assert_equal(found, json.loads(to_json(full())), ending)
    assert all(found.values())
    assert found["steps"][0]["name"] == ODD
    assert json.loads(found["run"][0]["unreadable"]) == [ODD]


@pytest.mark.parametrize("ending", SHOWN)
def test_what_was_not_measured_is_no_number(ending, tmp_path):
    report = analyze(run(trace(("compute", 0, 100), marks=(), comm_missing=True)))
    found = exported(replace(report, stragglers=None), tmp_path, ending)
    nothing = "" if ending == ".csv" else None
    (row,) = found["steps"]
    assert {row[name] for name in ("step", "comm_ns", "idle_ns", "overlap_ratio")} == {nothing}
    assert found["run"][0]["median_step_ns"] == nothing
    assert found["run"][0]["straggler_rank"] == nothing
    assert found["collectives"] == []


def test_no_field_of_a_report_is_forgotten():
    """Who adds one decides where it is exported; see `told`."""
    kept = {"run", "steps", "collectives", "summary", "diagnosis", "whatif", "schema"}
    kept |= {"stragglers", "buckets"}
    assert {field.name for field in fields(Report)} == kept | {"timeline"}
    columns = {name for table in tables(full()) for name in table.columns}
    elsewhere = {
        *("ranks", "missing_ranks", "partial_ranks", "sources", "missing_reasons"),
        *("unmatched_collectives", "warnings", "buckets", "clocks"),
    }
    assert {field.name for field in fields(RunFacts)} - elsewhere <= columns


def test_a_step_of_a_rank_that_is_there_twice_is_not_guessed(tmp_path):
    report = full()
    (first, *_) = report.steps
    found = exported(replace(report, steps=[*report.steps, first]), tmp_path)
    twice = {row["id"] for row in found["collectives"] if row["step"] == first.step}
    for row in found["collective_ranks"]:
        known = row["collective_id"] not in twice or row["rank"] != first.rank
        assert (row["step_id"] is not None) == known


# --- the database ---


@pytest.mark.parametrize("case", CASES)
def test_every_reference_of_a_sample_is_valid(case, tmp_path):
    write(analyze(load_run(SAMPLES / case)), Target.of(str(tmp_path / "out.db"), replace=False))
    assert rows_of(tmp_path / "out.db", "pragma foreign_key_check") == []
    assert rows_of(tmp_path / "out.db", "pragma integrity_check") == [{"integrity_check": "ok"}]


def test_references_are_declared_and_indexed(tmp_path):
    exported(full(), tmp_path)
    path = tmp_path / "out.db"
    found = {}
    for name in NAMES:
        indexed = {
            column["name"]
            for index in rows_of(path, f"pragma index_list({name})")
            for column in rows_of(path, f"pragma index_info({index['name']})")
        }
        refers = rows_of(path, f"pragma foreign_key_list({name})")
        assert {one["from"] for one in refers} <= indexed
        found |= {f"{name}.{one['from']}": f"{one['table']}.{one['to']}" for one in refers}
        (key,) = [row for row in rows_of(path, f"pragma table_info({name})") if row["pk"]]
        assert key["type"] == "INTEGER"
    assert found == {
        "run.straggler_rank": "ranks.rank",
        "steps.rank": "ranks.rank",
        "collective_ranks.collective_id": "collectives.id",
        "collective_ranks.step_id": "steps.id",
        "collective_ranks.rank": "ranks.rank",
        "bucket_ranks.bucket": "buckets.bucket",
        "bucket_ranks.rank": "ranks.rank",
        "clocks.rank": "ranks.rank",
        "clocks.reference": "ranks.rank",
        "stragglers.rank": "ranks.rank",
        "warnings.rank": "ranks.rank",
    }


def test_the_view_joins_a_rank_s_part_with_its_collective_and_step(tmp_path):
    report = two_ranks()
    exported(report, tmp_path)
    found = rows_of(tmp_path / "out.db", "select * from collective_details order by id")
    steps = {(row.rank, row.step): row.step_ns for row in report.steps}
    assert [
        (row["op"], row["step"], row["rank"], row["wait_ns"], row["duration_ns"], row["step_ns"])
        for row in found
    ] == [
        ("all_reduce", one.step, each.rank, each.wait_ns, each.end_ns - each.start_ns,
         steps[each.rank, one.step])
        for one in report.collectives for each in one.ranks
    ]  # fmt: skip


def test_the_view_tells_what_a_bucket_waited_for(tmp_path):
    report = analyze(load_run(SAMPLES / "slow-link"))
    write(report, Target.of(str(tmp_path / "out.db"), replace=False))
    of_bucket = ("queue_ns", "blocked", "blocked_ns", "backlog")
    columns = ", ".join(("bucket", "backward_pass", *of_bucket))
    found = rows_of(tmp_path / "out.db", f"select {columns} from collective_details order by id")
    assert [tuple(row.values()) for row in found] == [
        (one.bucket, one.backward_pass, *(getattr(each.bucket, name, None) for name in of_bucket))
        for one in report.collectives for each in one.ranks
    ]  # fmt: skip


def test_numbers_of_64_bits_are_whole(tmp_path):
    report = two_ranks()
    large = 2**62 + 1
    steps = [replace(report.steps[0], start_ns=large), *report.steps[1:]]
    facts = replace(report.run, origin_ns="1700000000000000001")
    found = exported(replace(report, steps=steps, run=facts), tmp_path)
    assert found["steps"][0]["start_ns"] == large
    assert found["run"][0]["origin_ns"] == "1700000000000000001"


def test_columns_without_a_value_have_their_types(tmp_path):
    report = analyze(run(trace(("compute", 0, 100))))
    exported(report, tmp_path)
    types = {
        row["name"]: row["type"]
        for row in rows_of(tmp_path / "out.db", "pragma table_info(collectives)")
    }
    assert types["busbw_gb_s"] in ("REAL", "FLOAT")  # sqlite-utils changed its word
    assert types["size_bytes"] == "INTEGER"
    parquet = pytest.importorskip("pyarrow.parquet")
    exported(report, tmp_path, ".parquet")
    schema = parquet.read_schema(tmp_path / "out.collectives.parquet")
    assert [str(schema.field(name).type) for name in ("busbw_gb_s", "size_bytes", "op")] == [
        "double", "int64", "string"
    ]  # fmt: skip


# --- the page ---

TYPES = {int: "INTEGER", bool: "INTEGER", float: "REAL", str: "TEXT"}


def page_of(table: str) -> dict[str, str]:
    (section,) = re.findall(rf"^### `{table}`\n(.*?)(?=^###|\Z)", DOCS, re.MULTILINE | re.DOTALL)
    return {
        name: kind
        for names, kind in re.findall(r"^\| (`[^|]*) \| ([A-Z]+) \|", section, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", names)
    }


def test_the_page_tells_every_column_and_its_type():
    real = {table.name: table.columns for table in tables(full())}
    assert re.findall(r"^### `(\w+)`", DOCS, re.MULTILINE) == list(real) == list(NAMES)
    for name, columns in real.items():
        assert list(page_of(name).items()) == [
            (column, TYPES[kind]) for column, kind in columns.items()
        ]


def test_the_page_tells_what_refers_to_what():
    for table in tables(full()):
        (section,) = re.findall(
            rf"^### `{table.name}`\n(.*?)(?=^###|\Z)", DOCS, re.MULTILINE | re.DOTALL
        )
        found = re.findall(r"^\| `(\w+)` \| INTEGER \|.*→ `(\w+)`", section, re.MULTILINE)
        assert dict(found) == table.refers


def test_the_answers_on_the_page_are_those_of_the_sample(tmp_path):
    report = analyze(load_run(SAMPLES / "late-compute-nsys"))
    write(report, Target.of(str(tmp_path / "out.db"), replace=False))
    asked = re.findall(r"```sql\n(.*?)```\n\n```csv\n(.*?)```", DOCS, re.DOTALL)
    assert len(asked) == DOCS.count("```sql") == 4
    for query, answer in asked:
        found = rows_of(tmp_path / "out.db", query)
        lines = [",".join(found[0]), *(",".join(map(str, row.values())) for row in found)]
        assert lines == answer.splitlines()


def test_a_field_that_is_a_list_of_numbers_is_no_number():
    hints = get_type_hints(Finding)
    assert hints["ranks"] == list[int]
    assert isinstance(hints["cost_ns"], UnionType)
    columns = {table.name: table.columns for table in tables(full())}["findings"]
    assert (columns["ranks"], columns["cost_ns"]) == (str, int)


# --- speed ---


def test_eighty_thousand_parts_take_seconds(tmp_path):
    report = two_ranks()
    parts = [CollectiveOnRank(rank, rank, 9, rank, 1, 2, None) for rank in range(8)]
    many = [
        Collective(0, "dp", order, "all_reduce", 8, 10**7, None, 100, 5, 1.5, 2.5, parts)
        for order in range(10_000)
    ]
    found = tables(replace(report, collectives=many))
    assert len(found[NAMES.index("collective_ranks")].rows) == 80_000
    write(replace(report, collectives=many), Target.of(str(tmp_path / "out.db"), replace=False))
    assert rows_of(tmp_path / "out.db", "select count(*) as n from collective_details") == [
        {"n": 80_000}
    ]


# --- csv ---


def test_lines_of_csv_end_as_the_standard_says(tmp_path):
    exported(full(), tmp_path, ".csv")
    data = (tmp_path / "out.findings.csv").read_bytes()
    assert data.startswith(b"id,code,cost_ns,ranks,evidence,advice\r\n")
    assert data.endswith(b"\r\n")
    assert not data.startswith(b"\xef\xbb\xbf")


def test_true_and_false_are_numbers_in_csv(tmp_path):
    rows = exported(full(), tmp_path, ".csv")["ranks"]
    assert [(row["recorded"], row["missing"]) for row in rows] == [
        ("1", "0"), ("1", "0"), ("0", "1"), ("0", "0")
    ]  # fmt: skip
