"""Exports that are no use, through the command line: one line, exit code 2, nothing changed."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing

import pytest
from commands import assert_refused, quick, report
from folders import state
from nsys_exports import Nsys, plain, two_ranks
from traces import plain as plain_kineto

from ddptrace import load_run
from ddptrace.errors import TraceFileError
from ddptrace.sources.nsys_files import is_nsys
from ddptrace.sources.nsys_sqlite import SqliteStore


def test_an_export_is_never_changed_and_nothing_is_left_beside_it(tmp_path, monkeypatch):
    path = two_ranks().write(tmp_path / "run.sqlite")
    before = state(tmp_path)
    assert quick(monkeypatch, path).returncode == 0
    assert state(tmp_path) == before


@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
def test_an_export_is_opened_to_be_read_only(tmp_path, monkeypatch, journal):
    path = plain().write(tmp_path / "rank0.sqlite")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA journal_mode = {journal}")
    opened: list[str] = []
    connect = sqlite3.connect

    def noted(database, **options):
        opened.append(database)
        return connect(database, **options)

    monkeypatch.setattr(sqlite3, "connect", noted)
    load_run(path)
    (uri,) = opened
    assert "mode=ro" in uri
    assert ("immutable=1" in uri) == (journal == "WAL")  # else a file would be made beside it


def test_nobody_changes_an_export_while_it_is_read(tmp_path):
    path = plain().write(tmp_path / "rank0.sqlite")
    with (
        closing(SqliteStore(path)),
        closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as writer,
        pytest.raises(sqlite3.OperationalError, match="locked"),
    ):
        writer.execute("BEGIN EXCLUSIVE")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_an_export_in_a_folder_that_may_not_be_written_is_read(tmp_path, monkeypatch):
    path = plain().write(tmp_path / "rank0.sqlite")
    path.chmod(0o400)
    tmp_path.chmod(0o500)
    try:
        assert quick(monkeypatch, path).returncode == 0
    finally:
        tmp_path.chmod(0o700)


# --- files

NO_EXPORTS = {
    "nothing": (b"", "0 bytes"),
    "text": (b"hello", "no SQLite file"),
    "the start of one": (b"SQLite format 3\0" + b"\x10\0", "no SQLite file"),
    "a head and nothing else": (b"SQLite format 3\0" + b"\0" * 500, "rank0.sqlite"),
    "a JSON trace": (plain_kineto().text().encode(), "no SQLite file"),
}


@pytest.mark.parametrize(("data", "words"), NO_EXPORTS.values(), ids=NO_EXPORTS)
@pytest.mark.parametrize("given", ["file", "folder"])
def test_what_is_no_export_is_refused(tmp_path, monkeypatch, data, words, given):
    path = tmp_path / "rank0.sqlite"
    path.write_bytes(data)
    done = quick(monkeypatch, path if given == "file" else tmp_path)
    assert_refused(done, "rank0.sqlite", words)


def test_an_sqlite_file_of_another_program_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "app.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE users (id, name)")
        connection.commit()
    assert_refused(quick(monkeypatch, path), "app.sqlite", "not an export of Nsight Systems")


def test_an_sqlite_file_of_another_program_beside_traces_is_left_out(tmp_path, monkeypatch):
    plain().write(tmp_path / "rank0.sqlite")
    with closing(sqlite3.connect(tmp_path / "cache.sqlite")) as connection:
        connection.execute("CREATE TABLE users (id, name)")
        connection.commit()
    done = quick(monkeypatch, tmp_path)
    assert done.returncode == 0
    assert "cache.sqlite: left out" in done.stdout


def test_what_is_no_sqlite_file_beside_traces_is_left_out(tmp_path, monkeypatch):
    plain().write(tmp_path / "rank0.sqlite")
    (tmp_path / "x.sqlite").write_bytes(b"hello")
    done = quick(monkeypatch, tmp_path)
    assert (done.returncode, "x.sqlite: left out" in done.stdout) == (0, True)


def test_an_export_is_told_by_its_content_whatever_its_name(tmp_path, monkeypatch):
    path = plain().write(tmp_path / "rank0.db")
    assert quick(monkeypatch, path).returncode == 0


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
def test_asking_what_a_pipe_holds_takes_nothing_from_it(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert not is_nsys(pipe)


@pytest.mark.parametrize("part", [0.3, 0.6, 0.95])
def test_an_export_that_is_cut_short_is_refused_with_how_much_is_there(tmp_path, monkeypatch, part):
    path = two_ranks().write(tmp_path / "rank0.sqlite")
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * part)])
    assert_refused(quick(monkeypatch, tmp_path), "rank0.sqlite", "cut short", f"{len(data):,}")


def test_an_export_with_damaged_pages_is_refused(tmp_path, monkeypatch):
    path = two_ranks().write(tmp_path / "rank0.sqlite")
    data = bytearray(path.read_bytes())
    data[4096:] = os.urandom(len(data) - 4096)
    path.write_bytes(data)
    assert_refused(quick(monkeypatch, tmp_path), "rank0.sqlite", "export it again")


def test_an_export_that_another_program_holds_locked_is_refused(tmp_path, monkeypatch):
    path = plain().write(tmp_path / "rank0.sqlite")
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        assert_refused(quick(monkeypatch, path), "rank0.sqlite", "locked", "wait")


def test_an_export_that_is_being_written_is_refused(tmp_path, monkeypatch):
    path = plain().write(tmp_path / "rank0.sqlite")
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("PRAGMA cache_size = 1")
        writer.execute("BEGIN IMMEDIATE")
        for number in range(5000):
            writer.execute("INSERT INTO StringIds VALUES (?, ?)", (10**6 + number, "x" * 50))
        assert_refused(quick(monkeypatch, path), "rank0.sqlite", "is being written", "-journal")
        writer.execute("ROLLBACK")
    assert quick(monkeypatch, path).returncode == 0


def test_an_export_with_a_log_of_changes_is_refused_and_one_whose_log_is_empty_is_read(
    tmp_path, monkeypatch
):
    path = plain().write(tmp_path / "rank0.sqlite")
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("INSERT INTO StringIds VALUES (1000000, 'x')")
        assert_refused(quick(monkeypatch, path), "rank0.sqlite", "is being written", "-wal")
    before = state(tmp_path)
    assert quick(monkeypatch, path).returncode == 0
    assert state(tmp_path) == before


def test_an_unreadable_export_beside_whole_ranks_is_an_unreadable_rank(tmp_path):
    plain(0).write(tmp_path / "rank0.sqlite")
    (tmp_path / "rank1.sqlite").write_bytes(b"")
    done = report(tmp_path)
    assert done.returncode == 2
    assert "rank1.sqlite: the file is empty" in done.stdout


# --- exports without GPU work


def test_launches_without_kernels_are_refused_with_the_count_and_the_causes(tmp_path, monkeypatch):
    nsys = Nsys().step(0, 0, 1000)
    for at in range(12):
        nsys.launch(at * 10)
    nsys.write(tmp_path / "rank0.sqlite")
    done = quick(monkeypatch, tmp_path)
    assert_refused(done, "12 kernel launches but no GPU kernels", "capture range", "--trace")


def test_one_launch_is_singular(tmp_path, monkeypatch):
    nsys = Nsys()
    nsys.launch(0)
    nsys.write(tmp_path / "rank0.sqlite")
    assert_refused(quick(monkeypatch, tmp_path), "1 kernel launch but")


def test_launches_and_copies_without_kernels_are_refused(tmp_path, monkeypatch):
    nsys = plain()
    nsys.gpu(900, 910, cat="gpu_memcpy")
    nsys.write(tmp_path / "rank0.sqlite", without=["CUPTI_ACTIVITY_KIND_KERNEL"])
    assert_refused(quick(monkeypatch, tmp_path), "7 kernel launches but no GPU kernels")


def test_nothing_of_the_gpu_is_refused_with_how_to_record_it(tmp_path, monkeypatch):
    Nsys().step(0, 0, 1000).write(tmp_path / "rank0.sqlite")
    assert_refused(quick(monkeypatch, tmp_path), "holds no GPU work", "--trace=cuda,nvtx")


def test_whole_graphs_alone_are_refused_with_their_time_and_the_option(tmp_path, monkeypatch):
    nsys = Nsys()
    for at in (0, 1000):
        number = nsys.launch(at, name="cudaGraphLaunch_v10000")
        nsys.row(
            "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", start=at * 1000, end=at * 1000 + 860_000,
            correlationId=number, globalPid=nsys.global_pid,
        )  # fmt: skip
    nsys.write(tmp_path / "rank0.sqlite")
    done = quick(monkeypatch, tmp_path)
    assert_refused(done, "2 graph launches (1,720 µs on the GPU)", "--cuda-graph-trace=node")


def test_copies_alone_are_work(tmp_path):
    nsys = Nsys().step(0, 0, 100)
    copy = nsys.launch(5, name="cudaMemcpyAsync_v3020")
    nsys.row(
        "CUPTI_ACTIVITY_KIND_MEMCPY", start=10_000, end=30_000, correlationId=copy,
        globalPid=nsys.global_pid,
    )  # fmt: skip
    nsys.write(tmp_path / "rank0.sqlite")
    assert load_run(tmp_path).traces[0].ops.kind.tolist() == [2]


def test_the_reader_says_what_is_wrong_in_python_too(tmp_path):
    (tmp_path / "rank0.sqlite").write_bytes(b"")
    with pytest.raises(TraceFileError, match="0 bytes"):
        load_run(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        ("NVTX_EVENTS", "start", 2**63 - 1),
        ("NVTX_EVENTS", "start", -(2**63)),
        ("NVTX_EVENTS", "start", 1e300),
        ("NVTX_EVENTS", "start", "abc"),
        ("NVTX_EVENTS", "end", 2**63 - 1),
        ("NVTX_EVENTS", "end", "abc"),
        ("NVTX_EVENTS", "globalTid", "abc"),
        ("NVTX_EVENTS", "globalTid", 1e300),
        ("NVTX_EVENTS", "textId", 10**6),
        ("ThreadNames", "globalTid", "x"),
        ("TARGET_INFO_SESSION_START_TIME", "utcEpochNs", 2**63 - 1),
    ],
)
def test_an_odd_value_costs_what_it_is_of_and_no_traceback(tmp_path, monkeypatch, change):
    table, column, value = change
    path = plain().row("ThreadNames", nameId=1, globalTid=5).write(tmp_path / "rank0.sqlite")
    with closing(sqlite3.connect(path)) as connection:
        text = ", text = NULL" if column == "textId" else ""
        connection.execute(f"UPDATE {table} SET {column} = ?{text}", (value,))
        connection.commit()
    done = quick(monkeypatch, path)
    assert done.returncode == 0
    assert "e+" not in done.stdout


def test_a_schema_that_is_no_text_is_one_line(tmp_path, monkeypatch):
    path = plain().write(tmp_path / "rank0.sqlite")
    data = path.read_bytes()
    path.write_bytes(data.replace(b"CREATE TABLE", b"CREATE \xff\xfeBLE", 1))
    assert_refused(quick(monkeypatch, path), "rank0.sqlite")


def test_a_view_that_no_longer_works_is_nobodys_concern(tmp_path, monkeypatch):
    path = plain().write(tmp_path / "rank0.sqlite")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE VIEW theirs AS SELECT * FROM gone")
    assert quick(monkeypatch, path).returncode == 0


def test_a_link_to_itself_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "loop.sqlite").symlink_to(tmp_path / "loop.sqlite")
    assert_refused(quick(monkeypatch, tmp_path / "loop.sqlite"), "loop.sqlite")


def test_a_pipe_by_the_name_of_an_export_is_one_line(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "run.sqlite")
    assert_refused(quick(monkeypatch, tmp_path / "run.sqlite"), "is no file")
