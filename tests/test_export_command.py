"""`ddptrace export` as a user meets it: what it writes, what it refuses, what it never destroys."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import sys
from pathlib import Path

import pytest
from calling import call, refused
from traces import Kineto, plain

from ddptrace.outputs import database, exports
from ddptrace.outputs.tables import NAMES


@pytest.fixture
def export(tmp_path, monkeypatch):
    """Return a function that runs the command in a folder with a run of two ranks."""
    for rank in range(2):
        plain(rank).write(tmp_path / "run" / f"rank{rank}.json")
    monkeypatch.chdir(tmp_path)

    return lambda *words: call(monkeypatch, "export", *words)


def files() -> set[str]:
    return {path.name for path in Path().iterdir() if path.name != "run"}


def steps(path="out.db") -> list[tuple]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute("select rank, step, compute_ns from steps").fetchall()


def test_a_database_is_one_file(export):
    done = export("run", "-o", "out.db")
    assert (done.code, done.stdout, done.stderr) == (0, "", "wrote out.db\n")
    assert files() == {"out.db"}
    assert steps() == [(0, 5, 640_000), (1, 5, 640_000)]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_other_endings_give_a_file_a_table(export, ending):
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    done = export("run", "-o", f"out.{ending}")
    names = [f"out.{name}.{ending}" for name in NAMES]
    assert (done.code, done.stderr) == (0, "".join(f"wrote {name}\n" for name in names))
    assert files() == set(names)


@pytest.mark.parametrize("name", ["out", "out.sqlite", "out.json", "-", ".db", "out.db.gz"])
def test_another_ending_is_refused(export, name):
    refused(export("run", "-o", name), f"--output {name}: what to write is told by the ending")
    assert files() == set()


def test_an_ending_may_be_in_capitals(export):
    assert export("run", "-o", "OUT.DB").code == 0
    assert files() == {"OUT.DB"}


def test_what_is_there_is_not_touched(export):
    Path("out.db").write_text("mine")
    refused(export("run", "-o", "out.db"), "out.db: is there already; choose another name, or say")
    assert Path("out.db").read_text() == "mine"
    assert export("run", "-o", "out.db", "--replace").code == 0
    assert len(steps()) == 2


def test_one_table_s_file_in_the_way_is_enough(export):
    Path("out.steps.csv").write_text("mine")
    refused(export("run", "-o", "out.csv"), "out.steps.csv: is there already")
    assert files() == {"out.steps.csv"}
    assert export("run", "-o", "out.csv", "--replace").code == 0
    assert Path("out.steps.csv").read_text().startswith("id,")


def test_what_is_in_the_way_is_said_before_anything_is_read(export):
    Path("out.db").write_text("mine")
    refused(export("no-such-run", "-o", "out.db"), "out.db: is there already")


def test_a_folder_that_is_not_there_is_one_line(export):
    refused(export("run", "-o", "no/out.db"), "no: no such folder")


def test_a_folder_is_never_replaced(export):
    Path("out.db").mkdir()
    refused(export("run", "-o", "out.db", "--replace"), "out.db: is a folder")


@pytest.mark.parametrize("ending", ["-wal", "-journal"])
def test_a_database_in_use_is_not_replaced(export, ending):
    """Its log of changes would be applied to the new one."""
    Path(f"out.db{ending}").write_text("changes")
    refused(export("run", "-o", "out.db", "--replace"), f"out.db{ending}: is there, so")


def test_a_recording_is_never_replaced(export, tmp_path):
    recording = plain(0).write(tmp_path / "rank0.db")
    before = recording.read_bytes()
    refused(export("rank0.db", "-o", "rank0.db", "--replace"), "is a recording of this run")
    assert recording.read_bytes() == before


def test_without_pyarrow_the_way_out_is_said(export, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    refused(export("no-such-run", "-o", "out.parquet"), 'pip install "ddptrace[parquet]"')


@pytest.mark.parametrize("ending", ["csv", "db"])
def test_there_never_is_half_an_export(export, monkeypatch, ending):
    """The disk is full in the middle: what was there stays, and nothing else is left."""
    assert export("run", "-o", f"out.{ending}", "--ranks", "0").code == 0
    before = {name: Path(name).read_bytes() for name in files()}

    def full_csv(path, table):
        if table.name == "collectives":
            raise OSError(28, "No space left on device")
        path.write_text("half")

    def full_database(made, tables):
        made.conn.execute("create table half (id integer)")
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setitem(exports._WRITERS, ".csv", full_csv)
    monkeypatch.setattr(database, "_fill", full_database)
    done = export("run", "-o", f"out.{ending}", "--replace")
    assert done.code == 2
    assert done.stderr.startswith(f"ddptrace: out.{ending}: cannot be written: ")
    assert done.stderr.count("\n") == 1
    assert {name: Path(name).read_bytes() for name in files()} == before


def test_what_a_killed_export_left_is_not_in_the_way(export):
    Path(f".out.db.{os.getpid()}").write_text("half")  # of a process that had the same number
    assert export("run", "-o", "out.db").code == 0
    assert files() == {"out.db"}


def test_a_name_that_is_too_long_is_one_line(export):
    refused(export("run", "-o", f"{'n' * 250}.db"), "cannot be written: ")


def test_ranks_can_be_picked(export):
    assert export("run", "-o", "out.db", "--ranks", "1").code == 0
    assert [rank for rank, *_ in steps()] == [1]


def test_names_of_custom_collectives_can_be_taught(export, tmp_path):
    kineto = Kineto(rank=0, world_size=1).step(1, 0, 900)
    kineto.gpu(100, 200).gpu(200, 300, name="my_all_reduce").write(tmp_path / "own" / "rank0.json")
    assert export("own", "-o", "out.db", "--comm-kernel", "all_reduce", "--jobs", "1").code == 0
    assert steps() == [(0, 1, 100_000)]


def test_a_cut_file_is_exit_2_and_exported_all_the_same(export):
    whole = Path("run/rank1.json").read_bytes()
    Path("run/rank1.json").write_bytes(whole[: len(whole) * 3 // 4])
    done = export("run", "-o", "out.db")
    assert done.code == 2
    assert "not read whole: rank 1; --partial exits with 0 all the same\n" in done.stderr
    assert [rank for rank, *_ in steps()] == [0, 1]
    accepted = export("run", "-o", "out.db", "--replace", "--partial")
    assert accepted.code == 0
    assert "not read whole" not in accepted.stderr


def test_warnings_are_counted(export):
    Path("run/rank1.json").unlink()
    done = export("run", "-o", "out.db")
    assert done.code == 0
    assert done.stderr == "wrote out.db\nthe table `warnings` has 1 warning\n"


def test_an_export_beside_the_traces_is_not_read_as_one(export):
    """A later report of the same folder reads what it read before."""
    pytest.importorskip("pyarrow")
    for ending in ("db", "csv", "parquet"):
        assert export("run", "-o", f"run/out.{ending}").code == 0
    assert export("run", "-o", "out.db").stderr == "wrote out.db\n"


def test_bad_usage_is_exit_2_and_one_line(export):
    refused(export("no-such-run", "-o", "out.db"), "no-such-run: no such file or folder")
    refused(export("run", "-o", "out.db", "--ranks", "1-0"), "--ranks 1-0")
    refused(export("run", "-o", "out.db", "--comm-kernel", "("), "--comm-kernel")
    assert files() == set()


def test_an_output_is_asked_for(export):
    done = export("run")
    assert done.code == 2
    assert "--output" in done.stderr
