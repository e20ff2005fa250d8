"""Ranks that are not here, and why, as far as the manifest tells; what it adds to the facts."""

from __future__ import annotations

import pytest
from captured import captured, full_file, full_part, rank_entry, said, write_manifest
from pages import page
from traces import Kineto

from ddptrace import analyze, load_run
from ddptrace.errors import RunError
from ddptrace.report import from_json, to_json


def absent(rank, **facts):
    """State a rank of which nothing was recorded."""
    return {"rank": rank, "files": [], **facts}


def with_missing(folder, *entries, world_size=2, **facts):
    """Write a run whose rank 0 is here and whose manifest tells these entries of others."""
    full_part(world_size=world_size).write(full_file(folder))
    entry = rank_entry()
    first = entry | {"parts": entry["parts"][1:], "files": entry["files"][1:]}
    write_manifest(folder, first, *entries, world_size=world_size, **facts)
    return folder


def test_a_missing_rank_is_said_with_its_reason(tmp_path):
    with_missing(tmp_path, absent(1, problem="ended by SIGKILL at step 12"))
    assert said(tmp_path, "missing_ranks") == [
        "1 of 2 ranks are here; missing: 1 (ended by SIGKILL at step 12)"
    ]
    assert said(tmp_path, "incomplete_recording") == []


def test_ranks_without_a_reason_come_first_and_one_reason_is_said_once(tmp_path):
    killed = [absent(rank, problem="killed") for rank in (1, 2, 5)]
    with_missing(tmp_path, *killed, absent(4), world_size=6)
    assert said(tmp_path, "missing_ranks") == [
        "1 of 6 ranks are here; missing: 3-4; 1-2, 5 (killed)"
    ]


@pytest.mark.parametrize(
    ("options", "words"),
    [({"ranks": "0"}, "--ranks 0"), ({"ranks": None}, "to leave it out"), ({}, "to leave it out")],
)
def test_a_rank_that_was_not_chosen_is_said_to_be_that(tmp_path, options, words):
    entry = absent(1, status="not_chosen", problem="the job ended early")
    with_missing(tmp_path, entry, options=options)
    (message,) = said(tmp_path, "missing_ranks")
    assert message.endswith(f"missing: 1 (not recorded, since capture was told {words})")
    assert analyze(load_run(tmp_path)).is_whole


def test_a_file_that_was_recorded_and_is_not_here_is_named(tmp_path):
    with_missing(tmp_path, rank_entry(1, files=["rank1.json"], parts=[]))
    (message,) = said(tmp_path, "missing_ranks")
    assert message.endswith("missing: 1 (rank1.json is not here)")


def test_a_file_that_is_here_and_cannot_be_read_is_not_said_to_be_away(tmp_path):
    with_missing(tmp_path, rank_entry(1, files=["rank1.json"], parts=[]))
    (tmp_path / "rank1.json").write_text("")
    (message,) = said(tmp_path, "missing_ranks")
    assert message.endswith("missing: 1")


def test_a_rank_of_which_the_manifest_tells_nothing_is_just_missing(tmp_path):
    assert said(with_missing(tmp_path), "missing_ranks") == ["1 of 2 ranks are here; missing: 1"]


def test_a_long_reason_is_cut(tmp_path):
    with_missing(tmp_path, absent(1, problem="x" * 5000))
    assert len(said(tmp_path, "missing_ranks")[0]) < 300


def test_a_rank_that_is_here_but_not_whole_is_said(tmp_path):
    captured(tmp_path)
    why = "the job ended after 24 steps"
    write_manifest(tmp_path, *(rank_entry(rank, problem=why) for rank in (0, 1)))
    assert said(tmp_path, "incomplete_recording") == [f"rank 0-1: {why}"]


def test_the_reasons_are_in_the_json_and_on_the_page(tmp_path):
    killed = [absent(rank, problem="killed & <gone>") for rank in (1, 2)]
    report = analyze(load_run(with_missing(tmp_path, *killed, world_size=4)))
    assert report.run.missing_ranks == [1, 2, 3]
    assert report.run.missing_reasons == {"1": "killed & <gone>", "2": "killed & <gone>"}
    assert from_json(to_json(report, timeline=True)) == report
    text = page(report).all_text
    assert "Missing: ranks 1-3. No recording was found. Rank 1-2: killed & <gone>." in text


# --- facts that only the manifest tells


def bare(**header):
    """State a recording that tells nothing but its rank."""
    kineto = Kineto(rank=None).step(5, 0, 1000).gpu(100, 300)
    kineto.header |= header
    return kineto


def facts_of(folder, kineto, **facts):
    kineto.write(folder / "rank0.json")
    entry = {"rank": 0, "files": ["rank0.json"], "device": "NVIDIA H200", "backend": "nccl"}
    write_manifest(folder, entry, **facts)
    return analyze(load_run(folder)).run


def test_the_manifest_fills_what_the_files_do_not_say(tmp_path):
    found = facts_of(tmp_path, bare(), versions={"torch": "2.11.0", "nccl": "2.28.9"})
    assert (found.device, found.backend, found.world_size) == ("NVIDIA H200", "nccl", 1)
    assert found.versions == {"torch": "2.11.0", "nccl": "2.28.9"}


def test_what_the_files_say_counts_before_the_manifest(tmp_path):
    kineto = bare(
        distributedInfo={"rank": 0, "world_size": 1, "backend": "gloo", "nccl_version": "2.20"},
        deviceProperties=[{"id": 0, "name": "A100"}],
    )
    found = facts_of(tmp_path, kineto, versions={"nccl": "2.28.9"})
    assert (found.device, found.backend) == ("A100", "gloo")
    assert found.versions == {"nccl": "2.20"}


def test_the_drivers_own_version_counts_before_the_cuda_that_it_can_run(tmp_path):
    kineto = bare(cuda_driver_version=13000, cuda_runtime_version=12080)
    found = facts_of(tmp_path, kineto, versions={"driver": "580.65.06", "cuda": "12.4"})
    assert found.versions == {"driver": "580.65.06", "cuda": "12.8"}
    assert facts_of(tmp_path, kineto).versions == {"driver": "13.0", "cuda": "12.8"}


def test_a_folder_with_a_manifest_alone_is_told_with_its_reasons(tmp_path):
    entry = rank_entry(parts=[], files=[], status="incomplete", problem="killed in step 7")
    write_manifest(tmp_path, entry)
    with pytest.raises(RunError, match="no rank was recorded: rank 0: killed in step 7"):
        load_run(tmp_path)
