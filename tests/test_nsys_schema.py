"""Exports of all versions: tables and columns come, go, and change their names."""

from __future__ import annotations

import sqlite3

import pytest
from nsys_exports import COLUMNS, MACHINE, PUSH_POP, Nsys, plain
from shapes import PLAIN, figures

from ddptrace import analyze, load_run

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"


def only(folder, **options):
    """Return the one row of a report."""
    (row,) = analyze(load_run(folder, **options)).steps
    return row


def everything():
    """State the plain rank with a row in every table, none of which changes a figure."""
    nsys = plain().recorder(0, world_size=1)
    nsys.row("PROCESSES", globalPid=nsys.global_pid, pid=nsys.pid, name="python3")
    nsys.row("TARGET_INFO_GPU", id=0, name="NVIDIA H200")
    nsys.row("TARGET_INFO_CUDA_DEVICE", gpuId=0, cudaId=0, pid=nsys.pid)
    nsys.row("TARGET_INFO_SYSTEM_ENV", name="CudaDriverVersion", value="13000")
    nsys.row("META_DATA_CAPTURE", name="DEVICE_ID", value="Local (CLI)")
    nsys.name_thread(nsys.thread, "python3").noted(1, "Profiling has started.")
    nsys.row("NVTX_PAYLOAD_SCHEMA_ENTRIES", domainId=1, schemaId=1, idx=0, name="x", type=5)
    nsys.row("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", start=0, end=990_000, deviceId=7)
    return nsys


def test_every_table_together_has_the_plain_figures(tmp_path):
    everything().write(tmp_path / "rank0.sqlite")
    report = analyze(load_run(tmp_path))
    assert [figures(row) for row in report.steps] == [PLAIN]
    assert (report.run.device, report.run.world_size) == ("NVIDIA H200", 1)
    assert report.run.versions == {"driver": "13.0", "nsys": "2025.3.2.0"}


NEEDED = {"StringIds", KERNEL, "CUPTI_ACTIVITY_KIND_RUNTIME"}


@pytest.mark.parametrize("table", sorted(COLUMNS.keys() - NEEDED))
def test_every_table_but_the_strings_may_be_missing(tmp_path, table):
    everything().write(tmp_path / "rank0.sqlite", without=[table])
    row = only(tmp_path)
    assert (row.compute_ns, row.comm_ns, row.tail_ns) == (640_000, 310_000, 100_000)


def test_without_calls_no_operation_has_a_step_and_there_is_one_window(tmp_path):
    plain().write(tmp_path / "rank0.sqlite", without=["CUPTI_ACTIVITY_KIND_RUNTIME"])
    run = load_run(tmp_path)
    (row,) = analyze(run).steps
    assert (row.step, row.step_ns, row.compute_ns) == (None, 760_000, 640_000)
    (said,) = [w.message for w in run.all_warnings if w.code == "calls_not_recorded"]
    assert "--trace=cuda,nvtx" in said


def test_no_ranges_at_all_leave_one_window_and_the_advice(tmp_path):
    plain().write(tmp_path / "rank0.sqlite", without=["NVTX_EVENTS"])
    report = analyze(load_run(tmp_path))
    (row,) = report.steps
    assert (row.step, row.step_ns, report.summary.step_ns) == (None, 760_000, None)
    (said,) = [w.message for w in report.run.warnings if w.code == "no_step_marks"]
    assert "nvtx.range_push" in said
    assert "--step-range" in said
    assert "prof.step()" not in said


# --- columns


def drop(table, *columns):
    """Return a change that makes the export one without these columns."""

    def change(connection):
        for column in columns:
            connection.execute(f'ALTER TABLE {table} DROP COLUMN "{column}"')

    return change


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        (KERNEL, ["greenContextId"]),
        (KERNEL, ["mangledName", "graphNodeId"]),
        (KERNEL, ["contextId", "deviceId"]),
        (KERNEL, ["shortName", "mangledName"]),
        ("NVTX_EVENTS", ["jsonTextId", "jsonText", "binaryData"]),
        ("NVTX_EVENTS", ["domainId", "endGlobalTid", "rangeId"]),
        ("NVTX_EVENTS", ["textId"]),
        ("NVTX_EVENTS", ["eventType"]),
        ("CUPTI_ACTIVITY_KIND_RUNTIME", ["eventClass", "returnValue"]),
        ("TARGET_INFO_SESSION_START_TIME", ["utcTime"]),
    ],
)
def test_columns_that_a_version_lacks_change_no_figure(tmp_path, table, columns):
    plain().write(tmp_path / "rank0.sqlite", change=drop(table, *columns))
    assert figures(only(tmp_path)) == PLAIN


def test_columns_that_a_later_version_adds_are_ignored(tmp_path):
    """Wherever they are: columns are found by name."""

    def change(connection):
        connection.execute(f"ALTER TABLE {KERNEL} ADD COLUMN tensorSize TEXT DEFAULT '[]'")
        connection.execute(f"CREATE TABLE moved AS SELECT graphNodeId, * FROM {KERNEL}")
        connection.execute(f"DROP TABLE {KERNEL}")
        connection.execute(f"ALTER TABLE moved RENAME TO {KERNEL}")

    plain().write(tmp_path / "rank0.sqlite", change=change)
    assert figures(only(tmp_path)) == PLAIN


@pytest.mark.parametrize("kept", ["demangledName", "mangledName", "shortName"])
def test_any_of_the_three_names_of_a_kernel_will_do(tmp_path, kept):
    nsys = plain()
    for row in nsys.tables[KERNEL]:
        row["mangledName"] = row["shortName"] = row["demangledName"]
    others = {"demangledName", "mangledName", "shortName"} - {kept}
    nsys.write(tmp_path / "rank0.sqlite", change=drop(KERNEL, *others))
    assert figures(only(tmp_path)) == PLAIN


def test_a_name_that_is_no_string_leaves_a_kernel_compute(tmp_path):
    nsys = Nsys().step(0, 0, 100).gpu(10, 20).gpu(30, 40)
    nsys.tables[KERNEL][0]["demangledName"] = 10**9
    nsys.write(tmp_path / "rank0.sqlite")
    assert only(tmp_path).compute_ns == 20_000


def test_the_text_of_a_range_may_be_a_registered_string(tmp_path):
    nsys = plain()
    nsys.tables["NVTX_EVENTS"].clear()
    nsys.range("ProfilerStep#5", 0, 1000, registered=True)
    nsys.write(tmp_path / "rank0.sqlite")
    assert figures(only(tmp_path)) == PLAIN


def test_the_facts_of_the_export_had_another_name_before_2023_3(tmp_path):
    def change(connection):
        connection.execute("ALTER TABLE META_DATA_EXPORT RENAME TO EXPORT_META_DATA")

    plain().write(tmp_path / "rank0.sqlite", change=change)
    assert load_run(tmp_path).traces[0].facts.versions == {"nsys": "2025.3.2.0"}


def test_the_gpus_of_old_versions_are_in_a_table_of_another_name(tmp_path):
    def change(connection):
        connection.execute("CREATE TABLE TARGET_INFO_CUDA_GPU (id INTEGER, name TEXT)")
        connection.execute("INSERT INTO TARGET_INFO_CUDA_GPU VALUES (0, 'Tesla V100')")

    plain().write(tmp_path / "rank0.sqlite", change=change)
    assert analyze(load_run(tmp_path)).run.device == "Tesla V100"


@pytest.mark.parametrize("columns", ["graphNodeId, originalGraphNodeId", "graphId, graphExecId"])
def test_the_table_of_graph_events_changed_its_meaning_and_is_not_read(tmp_path, columns):
    def change(connection):
        connection.execute(f"CREATE TABLE CUDA_GRAPH_EVENTS (start, end, nameId, {columns})")
        connection.execute("INSERT INTO CUDA_GRAPH_EVENTS VALUES (0, 900000, 1, 2, 3)")

    plain().write(tmp_path / "rank0.sqlite", change=change)
    assert figures(only(tmp_path)) == PLAIN


def test_ids_that_are_not_whole_numbers_are_read_as_sqlite_would_read_them(tmp_path):
    """A float or a text among the numbers makes SQLite itself read the table."""

    def change(connection):
        connection.execute(f"CREATE TABLE loose AS SELECT * FROM {KERNEL}")
        connection.execute(f"DROP TABLE {KERNEL}")
        columns = ", ".join(COLUMNS[KERNEL].split())
        connection.execute(f"CREATE TABLE {KERNEL} ({columns})")
        connection.execute(f"INSERT INTO {KERNEL} SELECT * FROM loose")
        connection.execute(f"UPDATE {KERNEL} SET streamId = CAST(streamId AS TEXT)")
        connection.execute(f"UPDATE {KERNEL} SET start = start + 0.0")

    plain().write(tmp_path / "rank0.sqlite", change=change)
    assert figures(only(tmp_path)) == PLAIN


@pytest.mark.parametrize(
    "statement",
    [
        f"CREATE VIEW t AS SELECT * FROM {KERNEL}_",
        f"CREATE TABLE t (id INTEGER PRIMARY KEY, {', '.join(COLUMNS[KERNEL].split())}) "
        "WITHOUT ROWID",
        f"CREATE TABLE t ({', '.join(COLUMNS[KERNEL].split())}, twice AS (start * 2))",
    ],
    ids=["view", "without row ids", "generated column"],
)
def test_kernels_that_are_stored_in_an_unusual_way_are_read_all_the_same(tmp_path, statement):
    def change(connection):
        connection.execute(f"ALTER TABLE {KERNEL} RENAME TO {KERNEL}_")
        connection.execute(statement)
        if "VIEW" not in statement:
            names = "id, " * ("PRIMARY" in statement) + ", ".join(COLUMNS[KERNEL].split())
            number = "row_number() OVER (), " * ("PRIMARY" in statement)
            connection.execute(f"INSERT INTO t ({names}) SELECT {number} * FROM {KERNEL}_")
            connection.execute(f"ALTER TABLE t RENAME TO {KERNEL}")
        else:
            connection.execute("DROP VIEW t")
            connection.execute(f"CREATE VIEW {KERNEL} AS SELECT * FROM {KERNEL}_")

    plain().write(tmp_path / "rank0.sqlite", change=change)
    assert figures(only(tmp_path)) == PLAIN


# --- strings


def test_the_strings_are_never_loaded_whole(tmp_path, monkeypatch):
    """Each query of the strings says which it wants, and a string of no use is never seen."""
    nsys = plain()
    for number in range(1000):
        nsys.string(f"useless {number}")
    path = nsys.write(tmp_path / "rank0.sqlite")
    asked: list[str] = []
    connect = sqlite3.connect

    def traced(*arguments, **options):
        connection = connect(*arguments, **options)
        connection.set_trace_callback(asked.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", traced)
    (trace,) = load_run(path, jobs=1).traces
    queries = [query for query in asked if "FROM StringIds" in query]
    assert queries
    assert all(" WHERE " in query.partition("FROM StringIds")[2] for query in queries)
    assert not [name for name in trace.names if name.startswith("useless")]


def test_bytes_that_are_no_text_are_replaced(tmp_path):
    def change(connection):
        connection.execute(
            "UPDATE StringIds SET value = CAST(x'67ff6d6d' AS TEXT) WHERE value = 'gemm'"
        )
        connection.execute(
            "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid) "
            f"VALUES (0, 1, {PUSH_POP}, CAST(x'7374ff' AS TEXT), {MACHINE})"
        )

    plain().write(tmp_path / "rank0.sqlite", change=change)
    run = load_run(tmp_path)
    assert figures(analyze(run).steps[0]) == PLAIN
    assert "g\ufffdmm" in set(run.frame()["name"])
