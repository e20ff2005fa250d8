"""The document about a run: what it holds, its JSON, and what is typical of the run."""

import gc
import json
import re
import weakref
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
from traces import run, trace

from ddptrace import analyze
from ddptrace.errors import RunError, UsageError
from ddptrace.metrics import collective_rows
from ddptrace.metrics.steps import StepMetrics
from ddptrace.report import Report, from_json, only_step, to_json


def steps_of(*lengths, rank=0, **facts):
    """State a recording whose steps last these times in µs, each all compute."""
    rows, marks, at = [], [], 0
    for length in lengths:
        rows.append(("compute", at, at + length))
        marks.append((at, at + length))
        at += length
    return trace(*rows, marks=marks, rank=rank, **facts)


def test_a_report_survives_its_json():
    report = analyze(run(steps_of(100, 200, 300), steps_of(110, 210, 290, rank=1)))
    assert from_json(to_json(report, timeline=True)) == report


def both_ranks():
    """State two ranks that reduce one array, the second 20 µs later than the first."""
    return run(
        *(
            trace(("compute", 0, 100), ("comm", late, 300), rank=rank, marks=[(0, 300)])
            for rank, late in enumerate((100, 120))
        )
    )


def test_the_records_of_collectives_are_made_when_they_are_asked_for(monkeypatch):
    made = []
    make = collective_rows._records
    monkeypatch.setattr(
        collective_rows, "_records", lambda columns: made.append(columns) or make(columns)
    )
    report = analyze(both_ranks())
    assert (len(report.collectives), made) == (1, [])
    (one,) = report.collectives
    assert (one.transfer_ns, one.skew_ns) == (180_000, 20_000)
    assert report.collectives[0] is one
    assert report.collectives == [one]
    assert report.collectives != []
    assert len(made) == 1


def test_the_collectives_of_a_report_do_not_hold_the_recordings():
    recordings = both_ranks()
    seen = weakref.ref(recordings.traces[0].ops.launch_ns)
    collectives = analyze(recordings).collectives
    del recordings
    gc.collect()
    assert seen() is None
    assert len(collectives[0].ranks) == 2


def test_the_timeline_is_in_the_json_only_when_asked_for():
    report = analyze(run(steps_of(100)))
    assert report.timeline is not None
    assert json.loads(to_json(report))["timeline"] is None
    assert json.loads(to_json(report, timeline=True))["timeline"] is not None


def test_the_json_has_the_keys_of_the_contract():
    document = json.loads(to_json(analyze(run(steps_of(100)))))
    assert next(iter(document)) == "schema"
    assert document["schema"] == 1
    assert {"run", "steps", "collectives", "summary", "diagnosis", "timeline", "whatif"} <= set(
        document
    )
    assert {
        "world_size",
        "ranks",
        "missing_ranks",
        "origin_ns",
        "sources",
        "device",
        "backend",
        "versions",
        "warnings",
    } <= set(document["run"])
    assert set(document["steps"][0]) >= {field.name for field in fields(StepMetrics)}
    assert set(document["summary"]["step_ns"]) == {"median", "p95", "min", "max"}


def test_other_json_is_no_report():
    with pytest.raises(RunError, match="no ddptrace report"):
        from_json("{}")
    report = to_json(analyze(run(steps_of(100))), timeline=True)
    with pytest.raises(RunError, match="schema 2"):
        from_json(report.replace('"schema": 1', '"schema": 2'))


def test_times_count_from_the_first_recorded_work_and_unix_time_is_text():
    shifted = trace(("compute", 500, 600), marks=[(500, 600)])
    report = analyze(run(shifted, steps_of(300, rank=1)))
    assert report.run.origin_ns == "0"
    assert [row.start_ns for row in report.steps] == [500_000, 0]


def test_no_window_begins_before_the_origin():
    report = analyze(run(trace(("compute", 500, 600), marks=[(400, 600)])))
    assert report.steps[0].start_ns == 0


def test_recordings_without_the_time_of_day_count_from_their_own_start():
    report = analyze(run(trace(("compute", 500, 600), marks=[(500, 600)], clock="relative")))
    assert report.run.origin_ns is None
    assert report.steps[0].start_ns == 0


def test_with_three_steps_the_first_window_of_a_recording_does_not_count():
    summary = analyze(run(steps_of(9000, 100, 300))).summary
    assert (summary.step_ns.min, summary.step_ns.max) == (100_000, 300_000)
    assert summary.ranks[0]["step_ns"] == 200_000


def test_with_two_steps_all_count():
    summary = analyze(run(steps_of(900, 100))).summary
    assert (summary.step_ns.min, summary.step_ns.max) == (100_000, 900_000)


def test_each_recording_of_a_rank_leaves_its_first_window_out_and_no_other():
    first = steps_of(9000, 100)
    later = trace(
        ("compute", 20000, 29000), ("compute", 29000, 29300), marks=[(20000, 29000), (29000, 29300)]
    )
    summary = analyze(run(first, later, world_size=1)).summary
    assert summary.ranks[0]["step_ns"] == 200_000


def test_the_median_step_is_recorded_and_the_lower_one_of_two():
    report = analyze(run(steps_of(1, 100, 300, 200, 400)))
    assert report.summary.median_step == 3
    assert report.summary.step_ns.median == 250_000
    assert report.diagnosis.where.startswith("median step 3 ")


def test_step_time_is_that_of_the_longest_rank():
    summary = analyze(run(steps_of(100, 200), steps_of(150, 120, rank=1))).summary
    assert (summary.step_ns.min, summary.step_ns.max) == (150_000, 200_000)


def test_the_summary_is_the_same_for_ranks_in_any_order():
    one, two = steps_of(100, 200), steps_of(150, 120, rank=1)
    assert analyze(run(one, two)).summary == analyze(run(two, one)).summary


def test_without_marks_step_time_is_not_available():
    report = analyze(run(trace(("compute", 0, 100), marks=())))
    assert report.summary.step_ns is None
    assert report.summary.median_step is None
    assert report.steps[0].step_ns == 100_000
    assert "not available" in report.diagnosis.where
    assert [warning.code for warning in report.run.warnings] == ["no_step_marks"]


def test_marks_without_work_are_refused_in_a_sentence():
    with pytest.raises(RunError, match="record whole steps"):
        analyze(run(trace(("compute", 0, 100, 0), marks=[(500, 600)])))


def test_a_partial_rank_counts_in_no_total_and_gets_no_percentage():
    report = analyze(run(steps_of(100), steps_of(900, rank=1, partial="is cut short")))
    assert not report.is_whole
    assert report.summary.step_ns.max == 100_000
    assert [entry["rank"] for entry in report.summary.ranks] == [0]
    (partial,) = [row for row in report.steps if row.rank == 1]
    assert partial.overlap_ratio is None


def test_when_every_rank_is_partial_there_is_no_step_to_show():
    report = analyze(run(steps_of(100, partial="is cut short")))
    assert "%" not in report.diagnosis.where
    assert report.summary.step_ns is None
    assert report.summary.ranks == []


def test_the_headline_has_shares_only_when_every_part_is_known():
    whole = analyze(run(trace(("compute", 0, 75), ("comm", 75, 100)))).diagnosis.where
    assert "compute 0.07 ms (75.0 %)" in whole or "compute 0.08 ms (75.0 %)" in whole
    unknown = analyze(run(trace(("compute", 0, 75), comm_missing=True))).diagnosis.where
    assert "%" not in unknown
    assert "exposed communication unknown" in unknown


def test_one_step_can_be_picked():
    report = analyze(run(steps_of(100, 200), steps_of(150, 120, rank=1)))
    assert [(row.rank, row.step) for row in only_step(report, 1).steps] == [(0, 1), (1, 1)]
    with pytest.raises(UsageError, match="the run has steps 0-1"):
        only_step(report, 7)


def test_headline_and_timeline_are_those_of_the_picked_step():
    picked = only_step(analyze(run(steps_of(100, 200), steps_of(150, 120, rank=1))), 1)
    assert picked.diagnosis.where.startswith("step 1 (rank 0, its longest) took 0.20 ms")
    assert [recording.compute for recording in picked.timeline.recordings] == [
        [(100_000, 300_000)], [(150_000, 270_000)]
    ]  # fmt: skip


def test_a_picked_step_has_its_collectives_and_stragglers_only_and_the_run_s_summary():
    rows = [("compute", 0, 100), ("comm", 100, 200), ("compute", 200, 300), ("comm", 300, 400)]
    marks = [(0, 200), (200, 400)]
    report = analyze(run(*(trace(*rows, marks=marks, rank=rank) for rank in (0, 1))))
    picked = only_step(report, 1)
    assert [one.step for one in report.collectives] == [0, 1]
    assert picked.collectives == report.collectives[1:]
    assert picked.stragglers.steps == report.stragglers.steps[1:]
    assert replace(picked.stragglers, steps=report.stragglers.steps) == report.stragglers
    assert (picked.summary, picked.buckets, picked.run) == (
        report.summary, report.buckets, report.run
    )  # fmt: skip
    assert only_step(replace(report, stragglers=None), 1).stragglers is None


def test_frames_have_one_row_a_step_and_one_an_operation():
    recorded = run(trace(("compute", 0, 100), ("comm", 50, 200, None)))
    steps = analyze(recorded).frame()
    assert list(steps["step_ns"]) == [100_000]
    assert steps["first_comm_delay_ns"].isna().all()
    ops = recorded.frame()
    assert list(ops["dur_ns"]) == [100_000, 150_000]
    assert list(ops["kind"]) == ["compute", "comm"]
    assert list(ops["launch_ns"].isna()) == [False, True]


def test_the_public_names_are_there_and_no_other():
    import ddptrace

    for name in ddptrace.__all__:
        assert getattr(ddptrace, name)
    with pytest.raises(AttributeError):
        ddptrace.nothing  # noqa: B018  # asking for it is the test


def test_no_figure_is_ever_not_a_number():
    text = to_json(analyze(run(trace(("compute", 0, 100)))), timeline=True)
    json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} in the JSON"))
    assert np.isfinite(json.loads(text)["steps"][0]["step_ns"])


def fields_of(kind: Any) -> set[str]:
    """Return the names of a record's fields and of all records in it, but for those of steps."""
    if kind is StepMetrics:
        return set()
    if not is_dataclass(kind):
        return {name for part in get_args(kind) for name in fields_of(part)}
    hints = get_type_hints(kind)
    return set(hints) | {name for part in hints.values() for name in fields_of(part)}


def test_the_page_of_formats_names_every_field_of_the_json():
    page = (Path(__file__).parent.parent / "docs" / "formats.md").read_text(encoding="utf-8")
    (block,) = re.findall(r'```\n(\{"schema": 1,.*?)```', page, re.DOTALL)
    assert set(re.findall(r'"([a-z_0-9]+)"', block)) >= fields_of(Report)
