"""A file that is cut anywhere is PARTIAL or refused, never a whole rank."""

from __future__ import annotations

import gzip
import json

import pytest
from commands import (
    ARRAY_END,
    NULL_WHEN_PARTIAL,
    PACKED,
    TEXT,
    assert_refused,
    quick,
    report,
    two_steps,
)
from traces import Kineto, plain, step_rows

from ddptrace import DdptraceError, analyze, load_run

# --- cut files


def assert_partial_or_refused(done, name):
    """Check that a cut rank 1 is PARTIAL or refused, and whole rank 0 has its figures."""
    assert done.returncode == 2
    if not done.stdout:
        assert_refused(done, name)
        return
    found = json.loads(done.stdout)
    rows = {row["rank"]: row for row in found["steps"] if row["step"] == 5}
    assert rows[0]["exposed_comm_ns"] == 100_000
    for row in found["steps"]:
        if row["rank"] == 1:
            assert row["partial"]
            assert {row[key] for key in NULL_WHEN_PARTIAL} == {None}
    told = found["run"]["partial_ranks"] == [1] or name in "".join(found["run"]["unreadable"])
    assert told
    assert any(name in warning["message"] for warning in found["run"]["warnings"])


@pytest.mark.parametrize("end", [*range(0, ARRAY_END, 97), ARRAY_END - 1])
def test_a_cut_file_is_partial_or_unreadable_wherever_it_is_cut(tmp_path, monkeypatch, end):
    plain(0).write(tmp_path / "rank0.json")
    (tmp_path / "rank1.json").write_bytes(TEXT[:end])
    assert_partial_or_refused(quick(monkeypatch, tmp_path, "--json", "-"), "rank1.json")
    assert quick(monkeypatch, tmp_path, "--json", "-", "--partial").returncode == 0


@pytest.mark.parametrize("end", range(0, len(PACKED), 41))
def test_a_cut_gzip_is_partial_or_unreadable_wherever_it_is_cut(tmp_path, monkeypatch, end):
    plain(0).write(tmp_path / "rank0.json")
    (tmp_path / "rank1.json.gz").write_bytes(PACKED[:end])
    assert_partial_or_refused(quick(monkeypatch, tmp_path, "--json", "-"), "rank1.json.gz")


@pytest.mark.parametrize("end", range(0, ARRAY_END, 397))
def test_a_cut_file_alone_gets_no_percentage(tmp_path, monkeypatch, end):
    (tmp_path / "rank1.json").write_bytes(TEXT[:end])
    done = quick(monkeypatch, tmp_path)
    assert done.returncode == 2
    assert "%" not in done.stdout
    if done.stdout:
        assert "PARTIAL" in done.stdout
        assert "cut short" in done.stdout
    else:
        assert_refused(done, "rank1.json")


@pytest.mark.parametrize("end", range(ARRAY_END + 1, len(TEXT) + 1, 5))
def test_a_file_cut_behind_its_last_event_has_whole_figures_or_none(tmp_path, monkeypatch, end):
    (tmp_path / "rank1.json").write_bytes(TEXT[:end])
    done = quick(monkeypatch, tmp_path, "--json", "-")
    rows = json.loads(done.stdout)["steps"]
    assert {row["comm_ns"] for row in rows} == {310_000}
    assert {row["idle_ns"] for row in rows if row["step"] == 5} <= {120_000, None}


def test_a_damaged_gzip_is_partial_or_unreadable(tmp_path, monkeypatch):
    plain(0).write(tmp_path / "rank0.json")
    broken = bytearray(PACKED)
    broken[len(broken) // 2] ^= 255
    (tmp_path / "rank1.json.gz").write_bytes(bytes(broken))
    assert_partial_or_refused(quick(monkeypatch, tmp_path, "--json", "-"), "rank1.json.gz")


def test_a_cut_rank_is_a_process_that_exits_2_and_0_with_partial(tmp_path):
    plain(0).write(tmp_path / "rank0.json")
    (tmp_path / "rank1.json").write_bytes(TEXT[: ARRAY_END * 2 // 3])
    done = report(tmp_path)
    assert done.returncode == 2
    assert "PARTIAL" in done.stdout
    assert report(tmp_path, "--partial").returncode == 0


@pytest.mark.parametrize("end", range(ARRAY_END + 2, len(TEXT), 5))
def test_a_file_cut_after_its_events_is_partial(tmp_path, monkeypatch, end):
    (tmp_path / "rank1.json").write_bytes(TEXT[:end])
    done = quick(monkeypatch, tmp_path, "--json", "-")
    assert done.returncode == 2
    assert json.loads(done.stdout)["run"]["partial_ranks"] == [1]


def test_a_base_time_cut_in_its_digits_is_not_believed(tmp_path):
    kineto = plain(0)
    text = json.dumps({"traceEvents": kineto.events} | kineto.header)
    end = text.index("1700000000") + 6
    (tmp_path / "rank0.json").write_text(text[:end])
    (trace,) = load_run(tmp_path).traces
    assert (trace.clock, trace.partial is None) == ("relative", False)


@pytest.mark.parametrize("end", range(600, ARRAY_END, 17))
def test_figures_of_a_cut_file_are_lower_bounds(tmp_path, end):
    """A number that was cut (12 of 120) must never be taken for a whole one."""
    (tmp_path / "rank1.json").write_bytes(TEXT[:end])
    try:
        run = load_run(tmp_path)
    except DdptraceError:
        return
    whole = {row.step: row for row in analyze_text(tmp_path / "whole", TEXT)}
    names = {"compute_ns", "comm_ns", "compute_kernels", "comm_kernels"}
    for rows in map(step_rows, run.traces):
        for row in rows:
            for name in names:
                assert (getattr(row, name) or 0) <= getattr(whole[row.step], name)


def analyze_text(folder, text):
    folder.mkdir()
    (folder / "rank1.json").write_bytes(text)
    return analyze(load_run(folder)).steps


@pytest.mark.parametrize("number", ["1.", "-", "4-0", "100.5.1", "1e", "0x"])
def test_a_number_that_is_none_is_no_traceback(tmp_path, monkeypatch, number):
    text = plain(0, world_size=1).text(indent=None)
    place = text.index('"dur": 200') + len('"dur": ')
    (tmp_path / "rank0.json").write_text(text[:place] + number + text[place + 3 :])
    assert quick(monkeypatch, tmp_path, "--json", "-").returncode == 2
    (tmp_path / "rank0.json").write_text(text[:place] + number)
    assert quick(monkeypatch, tmp_path, "--json", "-").returncode == 2


def test_a_file_cut_before_its_first_kernel_says_that_it_is_cut(tmp_path, monkeypatch):
    kineto = Kineto(world_size=1).step(5, 0, 900)
    for number in range(9):
        kineto.event("cuda_runtime", "cudaLaunchKernel", 10 + number, 1, correlation=number + 1)
    text = kineto.gpu(100, 300).text(indent=None)
    (tmp_path / "rank0.json").write_text(text[: text.index('"cat": "kernel"')])
    assert_refused(quick(monkeypatch, tmp_path), "cut short", "no GPU operations yet")


@pytest.mark.parametrize("byte", [-6, -1], ids=["checksum", "length"])
def test_a_gzip_with_a_wrong_end_is_partial_and_loses_no_event(tmp_path, byte):
    data = bytearray(PACKED)
    data[byte] ^= 0xFF
    (tmp_path / "rank1.json.gz").write_bytes(data)
    (trace,) = load_run(tmp_path).traces
    assert "damaged" in trace.partial
    assert len(trace.ops) == 12


def test_what_stands_before_the_damage_of_a_gzip_is_kept(tmp_path):
    text = plain(0, world_size=1).text(indent=None)
    noise = json.dumps({"ph": "i", "name": "x" * 50}) + ","
    long = text.replace('"traceEvents": [', '"traceEvents": [' + noise * 20_000)
    data = bytearray(gzip.compress(long.encode()))
    data[-40] ^= 0xFF
    (tmp_path / "rank0.json.gz").write_bytes(data)
    (trace,) = load_run(tmp_path).traces
    assert trace.partial is not None


@pytest.mark.parametrize("end", ["", ", "], ids=["after an event", "after a comma"])
@pytest.mark.parametrize("last", [9, 20])
def test_a_bare_list_that_is_left_open_is_partial(tmp_path, end, last):
    text = json.dumps(two_steps(rank=0).events[:last])[:-1]
    (tmp_path / "rank0.json").write_text(text + end)
    assert load_run(tmp_path).partial_ranks == [0]
