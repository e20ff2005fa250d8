"""A file that is cut anywhere is PARTIAL or refused, never a whole rank."""

from __future__ import annotations

import json

import pytest
from commands import ARRAY_END, NULL_WHEN_PARTIAL, PACKED, TEXT, assert_refused, quick, report
from traces import plain

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
