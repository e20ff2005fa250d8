"""A Parquet export gives what the SQLite export of the same recording gives."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing

import numpy as np
import pytest
from commands import assert_refused, quick
from nsys_exports import Nsys, plain, two_ranks
from shapes import PLAIN, figures

from ddptrace import analyze, load_run

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def export(nsys, folder, *, without=(), kinds=None):
    """Write the tables as the files of a Parquet export; `kinds` are the types of columns."""
    path = nsys.write(folder.with_suffix(".tmp"), without=without)
    folder.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        for (table,) in connection.execute("SELECT name FROM sqlite_master").fetchall():
            rows = connection.execute(f"SELECT * FROM {table}").fetchall()
            names = [column[1] for column in connection.execute(f"PRAGMA table_info({table})")]
            columns = {
                name: arrow.array([row[name] for row in rows], (kinds or {}).get(name))
                for name in names
            }
            parquet.write_table(arrow.table(columns), folder / f"{table}.parquet")
    path.unlink()
    return folder


def rich():
    """State two ranks with everything that is read in some way of its own."""
    nsys = two_ranks().recorder(1).process(4100).recorder(0)
    engine = nsys.global_pid + 9
    nsys.name_thread(engine, "pt_autograd_0").noted(2, "Not all CUDA events.")
    nsys.gpu(870, 880, thread=engine).gpu(880, 890, cat="gpu_memcpy").gpu(1, 2, cat="gpu_memset")
    nsys.range("ncclAllReduce", 440, 450, registered=True, jsonText='{"Rank": 0}')
    nsys.row("TARGET_INFO_GPU", id=0, name="NVIDIA H200")
    return nsys


def test_both_exports_give_the_same_recordings(tmp_path):
    sqlite = load_run(rich().write(tmp_path / "run.sqlite"))
    found = load_run(export(rich(), tmp_path / "run_pqtdir"))
    assert [w.message.partition(": ")[2] for w in found.all_warnings] == [
        w.message.partition(": ")[2] for w in sqlite.all_warnings
    ]
    for one, other in zip(sqlite.traces, found.traces, strict=True):
        assert (one.rank, one.marks, one.facts, one.clock) == (
            other.rank, other.marks, other.facts, other.clock,
        )  # fmt: skip
        for table in ("ops", "host"):
            mine, theirs = getattr(one, table), getattr(other, table)
            for column in mine.__slots__:
                assert np.array_equal(getattr(mine, column), getattr(theirs, column)) or (
                    column in ("name", "collective")
                    and texts(one, getattr(mine, column)) == texts(other, getattr(theirs, column))
                )


def texts(trace, codes):
    return [trace.names[code] if code >= 0 else None for code in codes]


@pytest.mark.parametrize("name", ["rank3_pqtdir", "rank3/report_pqtdir", "rank_3/x"])
@pytest.mark.parametrize("given", ["export", "above"])
def test_a_folder_of_tables_is_one_file_of_a_run(tmp_path, name, given):
    folder = export(plain(), tmp_path / "run" / name)
    if given == "above":
        export(plain(1), tmp_path / "run" / "rank4_pqtdir")
    run = load_run(folder if given == "export" else tmp_path / "run")
    assert run.ranks == ([3] if given == "export" and "rank3_" in name else run.ranks)
    assert [figures(row) for row in analyze(run).steps] == [PLAIN] * len(run.ranks)


def test_ranks_may_be_exported_in_different_ways(tmp_path):
    export(plain(0), tmp_path / "rank0_pqtdir")
    plain(1).write(tmp_path / "rank1.sqlite")
    assert load_run(tmp_path).ranks == [0, 1]


def test_a_recording_beside_its_export_is_not_spoken_of(tmp_path):
    export(plain(), tmp_path / "rank0_pqtdir")
    (tmp_path / "rank0.nsys-rep").write_bytes(b"x")
    assert not [w for w in load_run(tmp_path).all_warnings if w.code == "ignored_file"]


@pytest.mark.parametrize("table", ["NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_MEMCPY", "ThreadNames"])
def test_tables_may_be_missing(tmp_path, table):
    folder = export(plain(), tmp_path / "rank0_pqtdir", without=[table])
    (row,) = analyze(load_run(folder)).steps
    assert row.compute_ns == 640_000


def test_numbers_without_a_sign_and_encoded_texts_are_read(tmp_path):
    unsigned = dict.fromkeys(["globalTid", "globalPid", "correlationId"], arrow.uint64())
    kinds = unsigned | {"text": arrow.dictionary(arrow.int32(), arrow.string())}
    folder = export(plain(), tmp_path / "rank0_pqtdir", kinds=kinds)
    assert figures(analyze(load_run(folder)).steps[0]) == PLAIN


def test_a_registered_name_of_a_step_is_found(tmp_path):
    nsys = Nsys().range("step 7", 0, 100, registered=True).gpu(10, 20)
    (row,) = analyze(load_run(export(nsys, tmp_path / "rank0_pqtdir"))).steps
    assert (row.step, row.name) == (7, "step 7")


@pytest.mark.parametrize("table", ["CUPTI_ACTIVITY_KIND_KERNEL", "StringIds", "ThreadNames"])
@pytest.mark.parametrize("damage", ["no table", "empty", "cut", "pages"])
def test_a_damaged_table_is_refused_by_its_name(tmp_path, monkeypatch, table, damage):
    folder = export(rich(), tmp_path / "rank0_pqtdir")
    path = folder / f"{table}.parquet"
    data = path.read_bytes()
    path.write_bytes(
        {
            "no table": b"PAR1 and no more",
            "empty": b"",
            "cut": data[: len(data) // 2],
            "pages": data[:4] + b"\xff" * (len(data) // 3) + data[4 + len(data) // 3 :],
        }[damage]
    )
    done = quick(monkeypatch, folder)
    assert_refused(done, f"rank0_pqtdir/{table}.parquet", "cannot be read", "export it again")


def test_an_empty_table_of_strings_is_refused_for_want_of_work(tmp_path, monkeypatch):
    folder = export(Nsys(), tmp_path / "rank0_pqtdir")
    assert_refused(quick(monkeypatch, folder), "rank0_pqtdir", "no GPU work")


def test_of_the_strings_only_those_that_are_used_are_held(tmp_path):
    """A table of 40 MB in four groups of rows, of which one holds what is asked for."""
    folder = export(plain(), tmp_path / "rank0_pqtdir")
    known = parquet.read_table(folder / "StringIds.parquet").to_pylist()
    more = [{"id": 10**6 + number, "value": f"{number:>100}"} for number in range(400_000)]
    parquet.write_table(
        arrow.Table.from_pylist(known + more), folder / "StringIds.parquet", row_group_size=100_000
    )
    pool = arrow.system_memory_pool()
    before = arrow.default_memory_pool()
    arrow.set_memory_pool(pool)
    try:
        (row,) = analyze(load_run(folder)).steps
    finally:
        arrow.set_memory_pool(before)
    assert figures(row) == PLAIN
    assert pool.max_memory() < 20_000_000


def test_without_pyarrow_the_way_out_is_said(tmp_path, monkeypatch):
    folder = export(plain(), tmp_path / "rank0_pqtdir")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert_refused(quick(monkeypatch, folder), "pip install 'ddptrace[parquet]'", "SQLite")
