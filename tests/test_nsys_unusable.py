"""Kernels whose times are no use, and processes without kernels: each is said as what it is."""

from __future__ import annotations

import pytest
from commands import assert_refused, quick
from folders import codes
from nsys_exports import COLUMNS, Nsys, plain, two_ranks

from ddptrace import analyze, load_run

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
COPY = "CUPTI_ACTIVITY_KIND_MEMCPY"


def set_kernels(values, where="1"):
    """Return a change that writes these values into all kernels."""

    def change(connection):
        # Without declared types, so that the values are kept as they are.
        names = ", ".join(COLUMNS[KERNEL].split())
        connection.execute(f"CREATE TABLE loose ({names})")
        connection.execute(f"INSERT INTO loose SELECT * FROM {KERNEL}")
        connection.execute(f"DROP TABLE {KERNEL}")
        connection.execute(f"ALTER TABLE loose RENAME TO {KERNEL}")
        connection.execute(f"UPDATE {KERNEL} SET {values} WHERE {where}")

    return change


def drop(*columns):
    def change(connection):
        for column in columns:
            connection.execute(f"ALTER TABLE {KERNEL} DROP COLUMN {column}")

    return change


def said(run, code="process_without_kernels"):
    return [warning.message for warning in run.all_warnings if warning.code == code]


# --- no kernel has usable times

NO_TIMES = {
    "negative": (set_kernels("end = start - 1"), "end before they start"),
    "zero": (set_kernels("start = 0, end = 0"), "end before they start"),
    "no start": (drop("start"), "its table has no column start"),
    "no end": (drop("end"), "its table has no column end"),
    "neither": (drop("start", "end"), "its table has no columns start and end"),
    "NULL": (set_kernels("start = NULL"), "are no numbers"),
    "text": (set_kernels("start = 'abc'"), "are no numbers"),
    "half a number": (set_kernels("end = end || ' us'"), "are no numbers"),
    "blob": (set_kernels("end = x'0102'"), "are no numbers"),
    "far too large": (set_kernels("end = 1e300"), "are no numbers"),
}


@pytest.mark.parametrize(("change", "words"), NO_TIMES.values(), ids=NO_TIMES)
def test_kernels_of_which_none_has_usable_times_are_refused(tmp_path, monkeypatch, change, words):
    path = plain().write(tmp_path / "rank0.sqlite", change=change)
    done = quick(monkeypatch, path)
    assert_refused(
        done, "rank0.sqlite: none of its 6 GPU kernels has usable times", words, "export it again"
    )


def test_copies_do_not_hide_kernels_without_times(tmp_path, monkeypatch):
    nsys = plain().gpu(900, 910, cat="gpu_memcpy")
    path = nsys.write(tmp_path / "rank0.sqlite", change=set_kernels("end = start - 1"))
    assert_refused(quick(monkeypatch, path), "none of its 6 GPU kernels has usable times")


def test_copies_alone_without_usable_times_are_refused_as_what_they_are(tmp_path, monkeypatch):
    nsys = Nsys().row(COPY, start=9, end=5, correlationId=1, globalPid=1 << 24)
    path = nsys.write(tmp_path / "rank0.sqlite")
    assert_refused(quick(monkeypatch, path), "none of its 1 GPU operations has usable times")


@pytest.mark.parametrize("value", ["'abc'", "x'00'", "1e300", "NULL"])
def test_a_single_time_that_is_no_number_is_an_operation_that_is_lost(tmp_path, monkeypatch, value):
    """It was read as 0 before, which made a kernel that ran since 1970."""
    change = set_kernels(f"start = {value}", where="start = 100000")
    path = plain().write(tmp_path / "rank0.sqlite", change=change)
    (trace,) = load_run(path).traces
    assert (len(trace.ops), trace.partial) == (5, "1 GPU operation without readable times")


@pytest.mark.parametrize("values", ["start = start || ''", "start = start + 0.0"])
def test_numbers_that_are_stored_as_texts_or_floats_are_read(tmp_path, values):
    path = plain().write(tmp_path / "rank0.sqlite", change=set_kernels(values))
    assert load_run(path).traces[0].partial is None


# --- processes beside others


def test_a_process_whose_kernels_all_lack_times_is_said_as_that(tmp_path):
    change = set_kernels("end = start - 1", where="globalPid >> 24 & 0xFFFFFF = 4101")
    two_ranks().write(tmp_path / "run.sqlite", change=change)
    run = load_run(tmp_path)
    assert run.ranks == [0]
    (message,) = said(run)
    assert "1 process with kernels of which none has usable times (4101)" in message


def test_a_process_that_only_copies_beside_others_is_no_rank_and_that_is_said(tmp_path):
    nsys = two_ranks()
    for pid in (4200, 4201):
        copy = nsys.process(pid).launch(5, name="cudaMemcpyAsync_v3020")
        nsys.row(COPY, start=1, end=2, correlationId=copy, globalPid=nsys.global_pid)
    nsys.write(tmp_path / "run.sqlite")
    run = load_run(tmp_path)
    assert run.ranks == [0, 1]
    (message,) = said(run)
    assert "2 processes only copied or set memory on the GPU (4200, 4201)" in message
    assert "no rank" in message


def test_a_process_that_calls_without_any_gpu_work_is_not_spoken_of(tmp_path):
    nsys = two_ranks().process(4000).call("cudaGetDeviceCount", 0, 5).step(1, 0, 10)
    nsys.write(tmp_path / "run.sqlite")
    run = load_run(tmp_path)
    assert (run.ranks, "process_without_kernels" in codes(run)) == ([0, 1], False)


# --- kernels without names


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM StringIds",
        "UPDATE StringIds SET value = ''",
        "UPDATE StringIds SET value = NULL",
    ],
    ids=["no strings", "empty", "null"],
)
def test_kernels_of_which_none_has_a_name_are_refused(tmp_path, monkeypatch, change):
    plain().write(tmp_path / "rank0.sqlite", change=lambda database: database.execute(change))
    done = quick(monkeypatch, tmp_path)
    assert_refused(done, "rank0.sqlite: none of its 6 kernels has a name", "export it again")


def test_where_some_kernels_have_no_name_communication_is_unknown_and_never_0(tmp_path):
    def change(connection):
        connection.execute("DELETE FROM StringIds WHERE value LIKE 'nccl%'")

    plain().write(tmp_path / "rank0.sqlite", change=change)
    run = load_run(tmp_path)
    (message,) = said(run, "names_not_recorded")
    assert "2 of 6 kernels have no name" in message
    (row,) = analyze(run).steps
    assert (row.comm_ns, row.exposed_comm_ns, row.hidden_comm_ns) == (None, None, None)
