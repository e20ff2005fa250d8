"""An export that another program is writing is refused, however that program writes."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager

import pytest
from commands import assert_refused, quick
from folders import state
from nsys_exports import plain

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="locks are asked about on Linux")

# Locks of one's own process are never seen, so another one has to write.
WRITER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
for statement in sys.argv[2:]:
    connection.execute(statement).fetchall()
print("ready", flush=True)
sys.stdin.read()
"""
INSERT = "INSERT INTO StringIds VALUES (1000000, 'x')"


@contextmanager
def writer(path, *statements):
    """Let another process execute these statements and then stay as it is."""
    command = [sys.executable, "-c", WRITER, str(path), *statements]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        yield
        process.stdin.close()


WRITING = {
    "nothing changed yet": ("BEGIN IMMEDIATE",),
    "no journal": ("PRAGMA journal_mode = OFF", "BEGIN", INSERT),
    "journal in memory": ("PRAGMA journal_mode = MEMORY", "BEGIN", INSERT),
    "journal": ("BEGIN", INSERT),
    "exclusive": ("BEGIN EXCLUSIVE",),
    "log, nothing changed yet": ("PRAGMA journal_mode = WAL", "BEGIN IMMEDIATE"),
    "log, change held back": ("PRAGMA journal_mode = WAL", "BEGIN", INSERT),
    "log, change written": ("PRAGMA journal_mode = WAL", INSERT),
    "log without shared memory": (
        "PRAGMA locking_mode = EXCLUSIVE", "PRAGMA journal_mode = WAL", "BEGIN", INSERT,
    ),
}  # fmt: skip


@pytest.mark.parametrize("statements", WRITING.values(), ids=WRITING)
def test_an_export_with_an_unfinished_change_is_refused_and_read_afterwards(
    tmp_path, monkeypatch, statements
):
    path = plain().write(tmp_path / "rank0.sqlite")
    with writer(path, *statements):
        before = state(tmp_path)
        assert_refused(quick(monkeypatch, path), "rank0.sqlite: is ", "writ", "wait until")
        assert state(tmp_path) == before
    assert quick(monkeypatch, path).returncode == 0


@pytest.mark.parametrize(
    "statements",
    [
        (),
        ("BEGIN",),
        ("BEGIN", "SELECT count(*) FROM StringIds"),
        ("PRAGMA journal_mode = WAL", "SELECT count(*) FROM StringIds"),
    ],
    ids=["open", "transaction", "reader", "reader with a log"],
)
def test_an_export_that_another_program_reads_is_read(tmp_path, monkeypatch, statements):
    path = plain().write(tmp_path / "rank0.sqlite")
    with writer(path, *statements):
        assert quick(monkeypatch, path).returncode == 0


@pytest.mark.parametrize("statements", WRITING.values(), ids=WRITING)
def test_the_writer_of_what_a_link_leads_to_is_noticed(tmp_path, monkeypatch, statements):
    path = plain().write(tmp_path / "data/rank0.sqlite")
    link = tmp_path / "link.sqlite"
    link.symlink_to(path)
    with writer(path, *statements):
        assert_refused(quick(monkeypatch, link), "link.sqlite: is ", "writ", "wait until")
