"""Operations that tell no process: those of a lone one are its, of several they are refused."""

from __future__ import annotations

import pytest
from commands import assert_refused, quick
from folders import codes
from nsys_exports import Nsys, plain, two_ranks
from shapes import PLAIN, figures

from ddptrace import analyze, load_run

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
COPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
GRAPH = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"


def statement(*texts):
    def change(connection):
        for text in texts:
            connection.execute(text)

    return change


UNTOLD = {
    "no column": f"ALTER TABLE {KERNEL} DROP COLUMN globalPid",
    "NULL": f"UPDATE {KERNEL} SET globalPid = NULL",
    "0": f"UPDATE {KERNEL} SET globalPid = 0",
    "the plain process id": f"UPDATE {KERNEL} SET globalPid = globalPid >> 24 & 0xFFFFFF",
}


@pytest.mark.parametrize("text", UNTOLD.values(), ids=UNTOLD)
def test_kernels_of_several_processes_that_tell_none_are_refused(tmp_path, monkeypatch, text):
    path = two_ranks().write(tmp_path / "run.sqlite", change=statement(text))
    assert_refused(
        quick(monkeypatch, path),
        "which of its 2 processes (4100, 4101) 12 GPU operations belong to",
        "globalPid",
        "export it again",
    )


@pytest.mark.parametrize("text", UNTOLD.values(), ids=UNTOLD)
def test_kernels_of_a_lone_process_are_its(tmp_path, text):
    """A launcher that only asks how many GPUs there are launches nothing."""
    nsys = plain().process(4000).call("cudaGetDeviceCount", 0, 5, correlation=501)
    nsys.write(tmp_path / "rank0.sqlite", change=statement(text))
    run = load_run(tmp_path)
    assert [figures(row) for row in analyze(run).steps] == [PLAIN]
    assert run.traces[0].facts.process == "4100"
    assert "process_without_kernels" not in codes(run)


@pytest.mark.parametrize("table", [COPY, GRAPH])
def test_other_operations_that_tell_no_process_are_refused_too(tmp_path, monkeypatch, table):
    nsys = two_ranks().gpu(900, 910, cat="gpu_memcpy")
    nsys.row(GRAPH, start=1, end=2, correlationId=7, globalPid=nsys.global_pid)
    path = nsys.write(
        tmp_path / "run.sqlite", change=statement(f"UPDATE {table} SET globalPid = NULL")
    )
    assert_refused(quick(monkeypatch, path), "which of its 2 processes", "1 GPU operation ")


def test_a_single_kernel_that_tells_none_is_refused_and_merged_with_nobody(tmp_path, monkeypatch):
    change = statement(f"UPDATE {KERNEL} SET globalPid = NULL WHERE rowid = 3")
    path = two_ranks().write(tmp_path / "run.sqlite", change=change)
    assert_refused(quick(monkeypatch, path), "which of its 2 processes", "1 GPU operation ")


def test_without_calls_the_ranges_tell_the_processes(tmp_path, monkeypatch):
    path = two_ranks().write(
        tmp_path / "run.sqlite", without=[CALLS], change=statement(UNTOLD["no column"])
    )
    assert_refused(quick(monkeypatch, path), "which of its 2 processes (4100, 4101)")


@pytest.mark.parametrize(("device", "code"), [(0, 0), (1, 2)])
def test_without_any_process_several_gpus_are_refused(tmp_path, monkeypatch, device, code):
    nsys = Nsys().gpu(100, 200).gpu(100, 200, deviceId=device)
    path = nsys.write(
        tmp_path / "rank0.sqlite", without=[CALLS], change=statement(UNTOLD["no column"])
    )
    done = quick(monkeypatch, path)
    assert done.returncode == code
    if code:
        assert_refused(done, "which process", "2 GPU operations", "2 GPUs")


def test_calls_that_tell_no_thread_are_those_of_a_lone_process(tmp_path):
    change = statement(f"ALTER TABLE {CALLS} DROP COLUMN globalTid")
    plain().write(tmp_path / "rank0.sqlite", change=change)
    (row,) = analyze(load_run(tmp_path)).steps
    assert figures(row) == PLAIN


def test_calls_that_tell_no_thread_are_nobodys_of_several(tmp_path):
    change = statement(f"ALTER TABLE {CALLS} DROP COLUMN globalTid")
    two_ranks().write(tmp_path / "run.sqlite", change=change)
    run = load_run(tmp_path)
    assert codes(run) >= {"calls_not_recorded"}
    assert "process_without_kernels" not in codes(run)


def test_kernels_without_times_are_refused_before_their_process_is_asked(tmp_path, monkeypatch):
    change = statement(UNTOLD["no column"], f"UPDATE {KERNEL} SET end = start - 1")
    path = two_ranks().write(tmp_path / "run.sqlite", change=change)
    assert_refused(quick(monkeypatch, path), "none of its 12 GPU kernels has usable times")


def test_dropped_kernels_of_a_lone_process_are_counted_as_its(tmp_path):
    change = statement(UNTOLD["no column"], f"UPDATE {KERNEL} SET end = 0 WHERE rowid = 1")
    plain().write(tmp_path / "rank0.sqlite", change=change)
    (trace,) = load_run(tmp_path).traces
    assert any("1 GPU operation without usable times" in one.message for one in trace.warnings)
