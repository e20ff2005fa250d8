"""Real recordings of ours give the reports that were once looked at and kept."""

import json
import os
from itertools import pairwise
from pathlib import Path

import pytest

from ddptrace import analyze, load_run
from ddptrace.report import to_json

SAMPLES = Path(__file__).parent.parent / "sample_traces"
CASES = sorted(path.name for path in SAMPLES.iterdir() if path.is_dir())


@pytest.mark.parametrize("case", CASES)
def test_the_report_of_a_sample_is_the_one_kept(case, monkeypatch):
    monkeypatch.chdir(SAMPLES)
    found = to_json(analyze(load_run(case)))
    kept = SAMPLES / case / "expected.json"
    if os.environ.get("UPDATE_GOLDEN"):
        kept.write_text(found, encoding="utf-8")
    assert json.loads(found) == json.loads(kept.read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES)
def test_the_parts_of_each_real_step_add_up(case):
    report = analyze(load_run(SAMPLES / case))
    for row in report.steps:
        assert (
            row.compute_ns + row.exposed_comm_ns + row.exposed_mem_ns + row.idle_ns == row.step_ns
        )
        assert row.hidden_comm_ns + row.exposed_comm_ns == row.comm_ns
    for before, after in pairwise(report.steps):
        assert before.rank != after.rank or before.end_ns == after.start_ns


@pytest.mark.parametrize("case", CASES)
def test_samples_stay_small_and_hold_no_paths(case):
    import gzip

    for path in (SAMPLES / case).glob("*.json.gz"):
        assert path.stat().st_size <= 1_000_000
        text = gzip.decompress(path.read_bytes())
        for word in (b"/home/", b"/root/", b"/tmp/", b"/opt/", b"PATH="):
            assert word not in text
