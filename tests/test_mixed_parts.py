"""Runs that mix a figures part of torch.profiler with what Nsight Systems recorded, in one part."""

from __future__ import annotations

import pytest
from captured import (
    FULL_AT_US,
    figures_file,
    figures_part,
    full_file,
    full_part,
    rank_entry,
    said,
    write_manifest,
)
from commands import quick
from folders import codes
from nsys_exports import Nsys

from ddptrace import analyze, load_run
from ddptrace.metrics.recording import PartTime

FULL = "the full parts"
BY_NSYS = "the recordings of Nsight Systems, which may slow the steps more"


def recorded_by_nsys(folder, rank, world_size):
    """Write an export with the same steps and work as the full part."""
    nsys = Nsys(pid=4100 + rank).recorder(rank, world_size)
    for place, step in enumerate((26, 27, 28)):
        at = FULL_AT_US + 1500 * place
        nsys.step(step, at, at + 1500).gpu(at + 100, at + 700).comm(at + 1100, at + 1300)
    nsys.write(folder / f"rank{rank}.sqlite")


def mixed(folder, *, figures=(), full=(), nsys=()):
    """Write these ranks' parts, and the manifest of those of torch.profiler."""
    size = len({*figures, *full, *nsys})
    for rank in figures:
        figures_part(rank, world_size=size).write(figures_file(folder, rank))
    for rank in full:
        full_part(rank, world_size=size).write(full_file(folder, rank))
    for rank in nsys:
        recorded_by_nsys(folder, rank, size)
    write_manifest(folder, *map(rank_entry, sorted({*figures, *full})), world_size=size)
    return folder


def activities(folder):
    return {part.part: part.activities for part in analyze(load_run(folder)).run.parts or []}


def test_nsys_is_said_to_record_the_host_and_the_gpu(tmp_path, monkeypatch):
    mixed(tmp_path, figures=(0, 1), nsys=(0, 1))
    assert activities(tmp_path) == {"figures": ["cuda"], "full": ["cpu", "cuda"]}
    assert codes(load_run(tmp_path)) == set()
    assert "names from steps 26-28 (host and GPU)" in quick(monkeypatch, tmp_path).stdout


def test_what_a_full_part_cost_that_is_not_here_is_no_fact_about_nsys(tmp_path, monkeypatch):
    """The manifest tells 50 % for the full parts of torch.profiler."""
    mixed(tmp_path, figures=(0, 1), nsys=(0, 1))
    cost = analyze(load_run(tmp_path)).run.recording
    assert cost.parts == [PartTime("figures", 1_020_000, pytest.approx(0.02))]
    assert "50.0 %" not in quick(monkeypatch, tmp_path).stdout


def test_what_the_manifest_tells_of_the_recording_by_nsys_itself_is_kept(tmp_path):
    mixed(tmp_path, figures=(0, 1), nsys=(0, 1))
    entries = [rank_entry(rank) for rank in (0, 1)]
    for rank, entry in enumerate(entries):
        entry["parts"][1]["file"] = f"rank{rank}.sqlite"
    write_manifest(tmp_path, *entries)
    cost = analyze(load_run(tmp_path)).run.recording
    assert [(part.part, part.step_ns) for part in cost.parts] == [
        ("figures", 1_020_000), ("full", 1_500_000),
    ]  # fmt: skip


def test_a_rank_of_nsys_beside_one_of_both_parts_leaves_these_unused(tmp_path):
    mixed(tmp_path, figures=[0], full=[0], nsys=[1])
    (message,) = said(tmp_path, "figures_not_used")
    assert message == (
        f"rank 1 was recorded with Nsight Systems, in one part, so figures come from {FULL} and "
        f"{BY_NSYS}"
    )


def test_a_rank_of_nsys_beside_a_figures_part_alone_is_to_be_compared_with_care(tmp_path):
    """Nothing is left unused: the figures of each rank come from what there is of it."""
    mixed(tmp_path, figures=[0], nsys=[1])
    (message,) = said(tmp_path, "figures_not_used")
    assert message == (
        "rank 1 was recorded with Nsight Systems, in one part, so its steps may be slowed more "
        "than those of the figures parts; compare them with care"
    )
    (message,) = said(tmp_path, "causes_not_recorded")
    assert "rank 0" in message
    assert "recording_slowed_run" not in [
        one.code for one in analyze(load_run(tmp_path)).run.warnings
    ]


def test_figures_parts_without_marks_give_way_to_nsys_by_its_name(tmp_path):
    mixed(tmp_path, figures=(0, 1), nsys=(0, 1))
    (tmp_path / "manifest.json").unlink()
    (message,) = said(tmp_path, "figures_not_used")
    assert f"nothing tells the steps, so figures come from {BY_NSYS}; keep" in message
    assert "full part" not in message


def test_a_lost_figures_part_of_torch_is_said_apart_from_a_rank_of_nsys(tmp_path):
    mixed(tmp_path, figures=[0], full=[0, 2], nsys=[1])
    lost, by_nsys = said(tmp_path, "figures_not_used")
    assert lost.startswith("no figures part of rank 2 can be read, so figures come from")
    assert by_nsys.startswith("rank 1 was recorded with Nsight Systems")
