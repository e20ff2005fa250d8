"""The database file of a history: whole after every crash, and never another program's."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sqlite3
import tempfile
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from histories import NOWHERE, figures, history, named, timed

from ddptrace.errors import HistoryError
from ddptrace.history import place, runs, schema, store
from ddptrace.history.revision import Revision
from ddptrace.history.runs import Choice, Entry, add, figures_of, rank_rows, stored_runs
from ddptrace.history.store import reading, writing


def rows(path, query):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def refused(path, open_it=reading):
    with pytest.raises(HistoryError) as caught, open_it(path):
        pass
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message


@pytest.fixture
def path(tmp_path):
    return tmp_path / "history.db"


# --- what is stored ---


def test_a_run_has_a_row_a_rank_with_its_medians_and_its_ledger(path):
    history(path, figures(10, exposed_ms=2), branch="main", tags=["nightly", "h200"])
    assert rows(
        path,
        "select rank, step_ns, exposed_comm_ns, idle_ns, ledger_step_ns, ledger_compute_ns, "
        "ledger_straggler_ns, branch, tags from run_ranks",
    ) == [
        (rank, 10_000_000, 2_000_000, None, 10_000_000, 8_000_000, 2_000_000, "main",
         '["h200","nightly"]')
        for rank in (0, 1)
    ]  # fmt: skip


def test_what_is_read_is_what_was_added(path):
    run = figures(10, gpu='"quoted" GPU', world_size=4)
    history(path, run, timed(8), branch="main", tags=["b", "a", "b"])
    with reading(path) as database:
        first, second = stored_runs(database)
        assert figures_of(database, [2, 1]) == [timed(8), run]
        assert [row["rank"] for row in rank_rows(database, 1)] == [0, 1]
    assert (first.number, first.branch, first.commit, first.tags) == (1, "main", None, ["a", "b"])
    assert (first.step_ns, first.counted_steps, first.timed_step_ns) == (10_000_000, 10, None)
    assert (second.step_ns, second.counted_steps, second.timed_step_ns) == (None, 0, 8_000_000)
    assert (second.timed_steps, second.ranks, first.ranks) == (50, [0], [0, 1])
    assert first.fingerprint == run.fingerprint


def test_every_column_of_a_figure_is_one_that_a_run_can_have():
    from ddptrace.check.figures import METRICS
    from ddptrace.diagnosis.ledger import PARTS

    assert {name.removesuffix("_ns") for name in schema.FIGURES} <= set(METRICS)
    assert set(schema.PARTS) == set(PARTS)


def test_runs_are_found_by_branch_and_all_of_the_tags(path):
    history(path, 10, branch="main", tags=["a", "b"])
    history(path, 11, branch="main", tags=["a"])
    history(path, 12, branch="other", tags=["a", "b"])
    with reading(path) as database:
        found = {
            choice: [run.number for run in stored_runs(database, choice)]
            for choice in (
                Choice(), Choice("main"), Choice(None, ("a", "b")), Choice("main", ("b",)),
                Choice("no"), Choice(None, ("%",)),
            )
        }  # fmt: skip
    assert list(found.values()) == [[1, 2, 3], [1, 2], [1, 3], [1], [], []]


def test_the_same_run_is_added_once_wherever_it_was_read_from(path):
    with writing(path) as writer:
        first = add(writer, Entry(figures(10), NOWHERE))
        again = add(writer, Entry(named(figures(10), "a copy"), Revision("abc", "main"), ("x",)))
        other = add(writer, Entry(figures(10, exposed_ms=2), NOWHERE))
    assert [(one.number, one.is_new) for one in (first, again, other)] == [
        (1, True), (1, False), (2, True)
    ]  # fmt: skip
    assert rows(path, "select count(*) from tags") == [(0,)]


def test_odd_characters_are_kept_as_what_can_be_printed(path):
    with writing(path) as writer:
        odd = named(figures(10), "a\udcffb\nc")
        add(writer, Entry(odd, Revision("'; drop table runs; --", "br\udcff"), ("t\n",)))
    with reading(path) as database:
        (run,) = stored_runs(database)
        assert stored_runs(database, Choice("br\udcff", ("t\n",))) == [run]
    assert (run.name, run.commit, run.branch, run.tags) == (
        "a?b c", "'; drop table runs; --", "br?", ["t "]
    )  # fmt: skip


def test_a_run_that_is_not_there_is_said(path):
    history(path, 10)
    with reading(path) as database, pytest.raises(HistoryError, match="has no run 7"):
        figures_of(database, [7])


def test_a_damaged_document_is_one_line(path):
    history(path, 10)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("update runs set document = '{'")
        connection.commit()
    with reading(path) as database, pytest.raises(HistoryError, match="run 1 of the history"):
        figures_of(database, [1])


# --- several jobs at once, and one that is killed ---

FORK = multiprocessing.get_context("fork")


def _job(path: Path, job: int, count: int, killed_at: int | None) -> None:
    """Add runs and write down each that was acknowledged; die between two ranks of one."""
    whole = runs._rank_rows

    def until_killed(found):
        for place_of_row, row in enumerate(whole(found)):
            if place_of_row == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            yield row

    with writing(path) as writer:
        for number in range(count):
            if number == killed_at:
                runs._rank_rows = until_killed
            entry = Entry(figures(10 + job + number / 100, ranks=range(3)), NOWHERE, (f"{job}",))
            found = add(writer, entry)
            with path.with_name(f"acknowledged.{job}").open("a") as file:
                file.write(f"{found.number}\n")


def _run_jobs(path, killed_at):
    jobs = [FORK.Process(target=_job, args=(path, job, 6, killed_at.get(job))) for job in range(8)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    return [job.exitcode for job in jobs]


def _acknowledged(path):
    return [
        {int(line) for line in file.read_text().split()}
        for file in sorted(path.parent.glob("acknowledged.*"))
    ]


def test_eight_jobs_add_at_once_and_one_is_killed_but_no_run_is_lost_or_half_there(path):
    assert _run_jobs(path, {3: 4}) == [0, 0, 0, -signal.SIGKILL, 0, 0, 0, 0]
    acknowledged = _acknowledged(path)
    assert [len(one) for one in acknowledged] == [6, 6, 6, 4, 6, 6, 6, 6]
    every = set().union(*acknowledged)
    assert rows(path, "pragma integrity_check") == [("ok",)]
    assert rows(path, "pragma foreign_key_check") == []
    assert {number for (number,) in rows(path, "select id from runs")} == every
    assert len(every) == 46
    ranks = rows(path, "select run_id, group_concat(rank) from ranks group by run_id")
    assert dict(ranks) == dict.fromkeys(every, "0,1,2")
    assert {number for (number,) in rows(path, "select run_id from tags")} == every


def test_the_first_eight_jobs_of_all_make_one_history_between_them(tmp_path):
    """Nobody has made the file before; the rounds differ in who comes first."""
    for attempt in range(3):
        path = tmp_path / str(attempt) / "history.db"
        path.parent.mkdir()
        jobs = [FORK.Process(target=_job, args=(path, job, 1, None)) for job in range(8)]
        for job in jobs:
            job.start()
        for job in jobs:
            job.join()
        assert [job.exitcode for job in jobs] == [0] * 8
        assert rows(path, "select count(*) from runs") == [(8,)]


def test_a_job_that_is_killed_leaves_a_history_that_is_read_without_a_repair(path):
    history(path, 10)
    job = FORK.Process(target=_job, args=(path, 0, 1, 0))
    job.start()
    job.join()
    with reading(path) as database:
        assert [run.number for run in stored_runs(database)] == [1]
    history(path, 11)
    assert rows(path, "select count(*) from ranks") == [(4,)]


def test_an_error_in_the_middle_of_a_run_leaves_nothing_of_it(path, monkeypatch):
    def broken(found):
        yield {"rank": 0}
        raise KeyboardInterrupt

    history(path, 10)
    monkeypatch.setattr(runs, "_rank_rows", broken)
    with writing(path) as writer:
        with pytest.raises(KeyboardInterrupt):
            add(writer, Entry(figures(11), NOWHERE))
        monkeypatch.undo()
        assert add(writer, Entry(figures(12), NOWHERE)).is_new
    assert rows(path, "select count(*) from runs") == [(2,)]
    assert rows(path, "select count(*) from ranks") == [(4,)]


def test_a_reader_sees_a_history_as_it_was_when_it_began(path):
    history(path, 10)
    with reading(path) as database:
        history(path, 11)
        assert len(stored_runs(database)) == 1
    with reading(path) as database:
        assert len(stored_runs(database)) == 2


def test_what_is_acknowledged_is_on_the_disk(path):
    """Nothing is left to be written by a later process or a later sync."""
    with writing(path) as writer:
        connection = writer.database.conn
        assert connection.execute("pragma journal_mode").fetchone() == ("wal",)
        assert connection.execute("pragma synchronous").fetchone() == (2,)  # full


def test_a_writer_waits_for_another_one_and_gives_up_in_one_line(path):
    history(path, 10)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("begin immediate")
        assert "locked by another program" in refused(path, partial(writing, wait_s=0.05))
        with reading(path) as database:  # readers do not wait
            assert len(stored_runs(database)) == 1


def test_a_change_of_the_journal_is_tried_again_while_others_write():
    """SQLite does not wait there, however long its timeout is."""
    answers = [sqlite3.OperationalError("database is locked")] * 2

    def attempt():
        if answers:
            raise answers.pop()
        return "wal"

    assert store._patiently(attempt, 60) == "wal"
    answers[:] = [sqlite3.OperationalError("database is locked")]
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        store._patiently(attempt, -1)
    answers[:] = [sqlite3.OperationalError("disk I/O error")]
    with pytest.raises(sqlite3.OperationalError, match="disk"):
        store._patiently(attempt, 60)


# --- files that are no history, or no longer one, or not yet ---


def test_a_database_of_another_program_is_refused_and_not_touched(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table runs (id integer primary key)")
    before = path.read_bytes()
    for open_it in (reading, writing):
        assert "no history of ddptrace" in refused(path, open_it)
    with pytest.raises(HistoryError, match="no history of ddptrace"):
        store.check_place(path)
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_refused_and_not_touched(path):
    path.write_text("step,ms\n" * 1000)
    before = path.read_bytes()
    for open_it in (reading, writing):
        assert "no SQLite database" in refused(path, open_it)
    assert path.read_bytes() == before


def test_a_newer_history_is_refused_and_not_touched(path):
    history(path, 10)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"pragma user_version = {schema.VERSION + 1}")
    before = path.read_bytes()
    for open_it in (reading, writing):
        assert f"newer ddptrace (version {schema.VERSION + 1}" in refused(path, open_it)
    assert path.read_bytes() == before


def test_a_damaged_history_is_one_line(path):
    history(path, *range(10, 40))
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    with pytest.raises(HistoryError, match="is damaged"), reading(path) as database:
        stored_runs(database)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(HistoryError, match="is damaged"), reading(path) as database:
        figures_of(database, range(1, 31))


def test_a_history_that_is_not_there_is_read_by_nobody(path):
    assert "no such history; `ddptrace history add" in refused(path)
    assert not path.exists()


def test_an_empty_file_becomes_a_history_and_is_read_as_one_without_runs(path):
    path.touch()
    with reading(path) as database:
        assert stored_runs(database) == []
    assert path.read_bytes() == b""
    history(path, 10)
    with reading(path) as database:
        assert len(stored_runs(database)) == 1


def test_a_place_where_no_file_can_be_is_told_before_anything_is_read(tmp_path):
    for where, words in ((tmp_path, "is a folder"), (tmp_path / "no" / "h.db", "no such folder")):
        with pytest.raises(HistoryError, match=words):
            store.check_place(where)
    store.check_place(tmp_path / "new.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a b.db", "ä?#%20.db", "'; --.db"])
def test_a_name_of_any_characters_is_that_files_name(tmp_path, name):
    history(tmp_path / name, 10)
    with reading(tmp_path / name) as database:
        assert len(stored_runs(database)) == 1
    assert [each.name for each in tmp_path.iterdir()] == [name]


def _as_nobody(path, sender):
    """Read and write a history as one who may not write; root becomes another user first."""
    if os.geteuid() == 0:
        os.setuid(65534)
    for attempt in (_count, _add):
        try:
            sender.send(attempt(path))
        except HistoryError as error:
            sender.send(str(error))


def _count(path):
    with reading(path) as database:
        return len(stored_runs(database))


def _add(path):
    history(path, 11)
    return "written"


def _tried_as_nobody(path):
    receiver, sender = FORK.Pipe(duplex=False)
    child = FORK.Process(target=_as_nobody, args=(path, sender))
    child.start()
    child.join()
    return receiver.recv(), receiver.recv()


@pytest.mark.parametrize(("folder_mode", "file_mode"), [(0o555, 0o444), (0o555, 0o666)])
def test_a_history_in_a_read_only_folder_is_read_while_no_log_is_beside_it(folder_mode, file_mode):
    with tempfile.TemporaryDirectory() as folder:  # pytest's own is closed to other users
        path = history(Path(folder) / "history.db", 10)
        path.chmod(file_mode)
        Path(folder).chmod(folder_mode)
        count, message = _tried_as_nobody(path)
        assert (count, message.startswith(f"{path}: ")) == (1, True)
        Path(folder).chmod(0o755)
        Path(f"{path}-wal").touch(0o600)
        Path(folder).chmod(folder_mode)
        message, _ = _tried_as_nobody(path)
        assert message.startswith(f"{path}: ")
        Path(folder).chmod(0o755)


def test_a_history_that_may_not_be_written_is_one_line():
    with tempfile.TemporaryDirectory() as folder:
        path = history(Path(folder) / "history.db", 10)
        Path(folder).chmod(0o777)
        path.chmod(0o444)
        assert _tried_as_nobody(path) == (
            1, f"{path}: may not be written here; change its permissions, or name another file"
        )  # fmt: skip


# --- where there is no write-ahead log ---


def test_on_a_file_system_of_several_hosts_a_journal_is_used_and_said(path, monkeypatch):
    monkeypatch.setattr(store, "shared_file_system", lambda _: "nfs4")
    with writing(path) as writer:
        assert add(writer, Entry(figures(10), NOWHERE)).is_new
        assert writer.database.conn.execute("pragma journal_mode").fetchone() == ("delete",)
    assert writer.notice.startswith(f"{path}: is on nfs4, where SQLite has no write-ahead log")


def test_a_history_with_a_log_that_comes_to_such_a_file_system_goes_on_without(path, monkeypatch):
    history(path, 10)
    assert rows(path, "pragma journal_mode") == [("wal",)]
    monkeypatch.setattr(store, "shared_file_system", lambda _: "nfs4")
    history(path, 11)
    assert rows(path, "pragma journal_mode") == [("delete",)]
    assert rows(path, "select count(*) from runs") == [(2,)]


def test_a_file_system_that_takes_no_log_is_said(path, monkeypatch):
    monkeypatch.setattr(store, "_patiently", lambda attempt, wait_s: "delete")
    with writing(path) as writer:
        assert add(writer, Entry(figures(10), NOWHERE)).is_new
    assert "takes no write-ahead log (journal mode delete)" in writer.notice


def test_on_a_local_disk_nothing_is_said(path):
    with writing(path) as writer:
        assert writer.notice is None


MOUNTS = r"""
22 1 254:1 / / rw,relatime - ext4 /dev/vda1 rw
30 22 0:40 / /mnt/a\040b rw - nfs4 server:/x rw
31 22 0:41 / /mnt rw shared:1 - cifs //server/y rw
32 31 0:42 / /mnt/deep rw - tmpfs tmpfs rw
33 32 0:43 / /mnt/deep rw - fuse.sshfs user@host:/ rw
broken line
"""


@pytest.mark.parametrize(
    ("where", "kind"),
    [
        ("/home/me/h.db", "ext4"),
        ("/mnt/a b/h.db", "nfs4"),
        ("/mnt/a bc/h.db", "cifs"),
        ("/mntx/h.db", "ext4"),
        ("/mnt/deep/h.db", "fuse.sshfs"),
    ],
)
def test_the_deepest_and_last_mount_tells_the_file_system(where, kind):
    assert place._type_of(Path(where), MOUNTS) == kind


def test_a_system_that_tells_no_mounts_is_taken_as_local(tmp_path, monkeypatch):
    monkeypatch.setattr(place, "_MOUNTS", tmp_path / "none")
    assert place.shared_file_system(tmp_path) is None


def test_only_types_of_several_hosts_are_told(tmp_path, monkeypatch):
    mounts = tmp_path / "mounts"
    monkeypatch.setattr(place, "_MOUNTS", mounts)
    for kind, told in (("nfs", "nfs"), ("ext4", None)):
        mounts.write_text(f"22 1 254:1 / / rw - {kind} /dev/vda1 rw\n")
        assert place.shared_file_system(tmp_path) == told


def test_documents_are_json_that_other_programs_read(path):
    history(path, 10)
    ((document,),) = rows(path, "select document from runs")
    assert json.loads(document)["kind"] == "ddptrace baseline"
