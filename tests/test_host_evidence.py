"""Silence at a step's start, in a recording of CUDA alone beside a full one; times are in µs."""

from __future__ import annotations

import pytest
from captured import figures_file, full_file, rank_entry, write_manifest
from traces import Kineto

from ddptrace import load_run
from ddptrace.metrics.host_evidence import idle_by_cause, times_by_cause
from ddptrace.metrics.measured import Measured

STEP = 100_000
SILENCE = 40_000
LATER = 10 * STEP


def job(folder, loader):
    """State a rank whose GPU idles 40 ms at the start of each step; `loader` is its data loader.

    host     ........L..    of the full part: the data loader's range, or none
    compute  ########....
    """
    figures, full = Kineto(rank=0, world_size=1), Kineto(rank=0, world_size=1)
    for at in range(3):
        start = at * STEP
        figures.gpu(start + SILENCE, start + STEP - 100)
        start += LATER
        full.step(at + 30, start, start + STEP)
        if loader:
            name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
            full.event("user_annotation", name, start + 10, loader)
        full.event("cpu_op", "aten::mm", start + SILENCE - 20, 15)
        full.gpu(start + SILENCE, start + STEP - 100)
    figures.write(figures_file(folder))
    full.write(full_file(folder))
    marks = [
        {"step": 20 + at, "start_ns": _ns(at * STEP), "end_ns": _ns((at + 1) * STEP)}
        for at in range(3)
    ]
    entry = rank_entry(0)
    entry["parts"][0]["marks"] = marks
    entry["parts"][1]["marks"] = []
    write_manifest(folder, entry)
    return load_run(folder)


def _ns(us):
    return 1_700_000_000_000_000_000 + us * 1000


@pytest.mark.parametrize(
    ("loader", "is_input"), [(SILENCE - 100, True), (25_000, True), (15_000, False), (100, False)]
)
def test_silence_is_the_input_s_where_the_full_part_has_a_loader_in_most_of_it(
    tmp_path, loader, is_input
):
    run = job(tmp_path, loader)
    ((*_, last),) = idle_by_cause(Measured.of(run))
    assert last.loader_ns == last.input_ns  # either all of it, or there is no input
    found = last.input_ns if is_input else last.silent_ns
    assert found == pytest.approx(SILENCE * 1000, abs=200_000)
    assert last.input_ns + last.sync_ns + last.launch_ns + last.unknown_ns == pytest.approx(
        SILENCE * 1000, abs=200_000
    )


def test_without_a_full_part_silence_at_the_start_is_the_input_s(tmp_path):
    job(tmp_path, 100)
    full_file(tmp_path).unlink()
    ((*_, last),) = idle_by_cause(Measured.of(load_run(tmp_path)))
    assert last.input_ns == pytest.approx(SILENCE * 1000, abs=200_000)
    assert last.loader_ns == 0


@pytest.mark.parametrize(("loader", "is_input"), [(25_000, True), (15_000, False)])
def test_the_times_to_draw_have_the_same_causes(tmp_path, loader, is_input):
    measured = Measured.of(job(tmp_path, loader))
    found = times_by_cause(measured, 0, 0)
    ((*_, last),) = idle_by_cause(measured)
    (*_, row) = measured.rows[0]
    parts = [
        one.clip(row.start_ns, row.end_ns).total_ns
        for one in (found.input, found.sync, found.launch, found.unknown)
    ]
    assert parts == [last.input_ns, last.sync_ns, last.launch_ns, last.unknown_ns]
    assert (parts[0] > parts[3]) == is_input
