"""The timeline of a report: operations by name, idle time by cause, what the host did."""

from __future__ import annotations

from pathlib import Path

import pytest
from captured import captured
from hosts import call, loading, operator, sync
from traces import run, trace

from ddptrace import analyze, load_run
from ddptrace.metrics.host_evidence import idle_by_cause, times_of_causes
from ddptrace.metrics.measured import Measured
from ddptrace.metrics.recorded import Recorded
from ddptrace.metrics.timebase import timebase
from ddptrace.metrics.timeline import (
    NAMED,
    PAIRS,
    Made,
    NamedRows,
    Spans,
    intervals,
    rank_timeline,
)
from ddptrace.report import from_json, only_step, to_json

SAMPLES = Path(__file__).parent.parent / "sample_traces"
CAUSES = ("input", "sync", "launch", "unknown")


def recorded(*rows, **facts):
    (found,) = analyze(run(trace(*rows, **facts))).timeline.recordings
    return found


def named(found, what: str) -> list[tuple[int, int, str]]:
    """Return rows of a recording in µs, with their names."""
    return [
        (start // 1000, end // 1000, found.names[name]) for start, end, name in getattr(found, what)
    ]


def test_kernels_and_copies_come_one_by_one_with_their_names():
    found = recorded(("compute", 0, 10), ("compute", 5, 20), ("mem", 30, 31), ("comm", 40, 50))
    assert named(found, "kernels") == [(0, 10, "kernel"), (5, 20, "kernel")]
    assert named(found, "copies") == [(30, 31, "kernel")]


def test_an_operation_without_a_name_has_none():
    one = trace(("compute", 0, 10), ("compute", 20, 30))
    one.ops.name[1] = -1
    known = Recorded.of(one)
    found = rank_timeline(known, timebase({0: [known]}), 0, lambda: times_of_causes(known))
    assert [name for *_, name in found.kernels] == [0, -1]
    assert found.names[0] == "kernel"


def test_the_phases_of_the_host_are_told():
    """
    host     L|forward.|backward..|opt|L|forward|
    """
    found = recorded(
        ("compute", 0, 1000),
        host=[
            loading(0, 5),
            ("annotation", "DistributedDataParallel.forward", 10, 100),
            ("operator", "autograd::engine::evaluate_function: AddBackward0", 120, 150, 1),
            ("operator", "autograd::engine::evaluate_function: MulBackward0", 140, 260, 1),
            ("annotation", "Optimizer.step#AdamW.step", 300, 400),
            sync(410, 450),
            ("operator", "cudaStreamSynchronize", 410, 450),
            ("annotation", "DistributedDataParallel.forward", 500, 600),
            ("operator", "autograd::engine::evaluate_function: MulBackward0", 610, 700, 1),
        ],
    )
    assert named(found, "forward") == [
        (10, 100, "DistributedDataParallel.forward"),
        (500, 600, "DistributedDataParallel.forward"),
    ]
    assert named(found, "backward") == [(120, 260, "backward"), (610, 700, "backward")]
    assert named(found, "optimizer") == [(300, 400, "Optimizer.step#AdamW.step")]
    assert [row[:2] for row in named(found, "data_loader")] == [(0, 5)]
    assert [row[:2] for row in named(found, "sync_calls")] == [(410, 450)]


def test_without_a_host_there_is_nothing_of_it():
    found = recorded(("compute", 0, 1000))
    assert not any(
        getattr(found, name) for name in ("forward", "backward", "optimizer", "sync_calls")
    )


def test_each_cause_of_idle_time_has_its_intervals():
    """
    gpu      ###...###
    host     Loo...L..
    """
    found = recorded(
        ("compute", 0, 3000, 0),
        ("compute", 4500, 7500, 4500),
        marks=[(0, 3500), (3500, 20000)],
        host=[call(0, 5), operator(10, 3000), call(4500, 4510)],
    )
    assert list(found.idle_input) == [(3_000_000, 4_500_000)]
    assert [len(getattr(found, f"idle_{cause}")) for cause in CAUSES] == [1, 0, 0, 0]


@pytest.mark.parametrize(
    "sample", ["input-bound", "item-in-forward", "late-host", "late-input", "two_ranks_one_gpu"]
)
def test_the_intervals_of_a_cause_are_as_long_as_what_the_ledger_has_of_it(sample):
    measured = Measured.of(load_run(SAMPLES / sample))
    report = analyze(load_run(SAMPLES / sample))
    for found, causes, rows in zip(
        report.timeline.recordings, idle_by_cause(measured), measured.rows, strict=True
    ):
        for row, one in zip(rows, causes, strict=True):
            (mine,) = [s for s in report.steps if (s.rank, s.step) == (row.rank, row.step)]
            lengths = [
                intervals(getattr(found, f"idle_{cause}")).clip(mine.start_ns, mine.end_ns).total_ns
                for cause in CAUSES
            ]
            assert sum(lengths) == row.idle_ns
            if one is not None:
                expected = [one.input_ns, one.sync_ns, one.launch_ns, one.unknown_ns]
                assert lengths == expected


@pytest.mark.parametrize("facts", [{"device": "host"}, {"marks": ()}])
def test_where_no_cause_is_known_all_idle_time_is_of_an_unknown_one(facts):
    found = recorded(("compute", 0, 10), ("comm", 30, 40), ("compute", 60, 70), **facts)
    assert [len(getattr(found, f"idle_{cause}")) for cause in CAUSES[:3]] == [0, 0, 0]
    assert list(found.idle_unknown)[:2] == [(10_000, 30_000), (40_000, 60_000)]


def test_the_recording_of_the_host_is_there_beside_that_of_the_figures(tmp_path):
    report = analyze(load_run(captured(tmp_path)))
    timeline = report.timeline
    assert [(one.rank, one.part) for one in timeline.recordings] == [(0, "figures"), (1, "figures")]
    assert [(one.rank, one.part) for one in timeline.causes] == [(0, "full"), (1, "full")]
    first = timeline.causes[0]
    assert [window.step for window in first.windows] == [26, 27, 28]
    origin_ns = int(report.run.origin_ns)
    assert origin_ns + first.kernels[0][0] == 1_700_000_000_000_000_000 + 10_100_000
    assert len(first.kernels) == 3
    rows = {(row.rank, row.step): row for row in report.steps}
    for window in timeline.recordings[0].windows:
        row = rows[0, window.step]
        assert (window.start_ns, window.end_ns) == (row.start_ns, row.end_ns)


def test_a_run_of_one_part_has_no_other_recording():
    report = analyze(run(trace(("compute", 0, 10))))
    assert list(report.timeline.causes) == []


@pytest.mark.parametrize("sample", ["late-compute", "late-compute-nsys", "two_gpus"])
def test_what_is_worked_out_when_asked_for_survives_json(sample):
    report = analyze(load_run(SAMPLES / sample))
    again = from_json(to_json(report, timeline=True))
    assert again == report
    assert report == again
    assert all(isinstance(one.kernels, list) for one in again.timeline.recordings)


def test_a_report_saved_before_these_fields_can_be_read():
    report = analyze(run(trace(("compute", 0, 10))))
    old = to_json(report, timeline=True)
    bare = '{"rank": 0, "compute": [[0, 10000]], "hidden_comm": [], "exposed_comm": [], "mem": []}'
    head = old[: old.index('"timeline"')]
    tail = old[old.index('"whatif"') :]
    found = from_json(f'{head}"timeline": {{"recordings": [{bare}]}},{tail}')
    assert list(found.timeline.recordings[0].kernels) == []
    assert list(found.timeline.causes) == []


def test_one_step_has_its_part_of_everything():
    report = analyze(load_run(SAMPLES / "late-compute"))
    (row,) = [row for row in report.steps if (row.rank, row.step) == (0, 24)]
    picked = only_step(report, 24).timeline.recordings[0]
    for name in (*NAMED, *PAIRS):
        every = getattr(report.timeline.recordings[0], name)
        expected = [
            (max(start, row.start_ns), min(end, row.end_ns), *rest)
            for start, end, *rest in every
            if end > row.start_ns and start < row.end_ns
        ]
        assert list(getattr(picked, name)) == expected, name
    assert [window.step for window in picked.windows] == [24]


def test_nothing_is_worked_out_before_it_is_asked_for():
    asked = []

    def words():
        asked.append("words")
        return ["a", "b"]

    made = Made(words)
    assert asked == []
    assert (list(made), made[-1], made[0:1], len(made)) == (["a", "b"], "b", ["a"], 2)
    assert asked == ["words"]
    assert made == ["a", "b"]
    assert made != ["a"]
    with pytest.raises(IndexError):
        made[2]


def test_rows_read_like_lists():
    found = recorded(("compute", 0, 10), ("compute", 20, 30))
    assert isinstance(found.kernels, NamedRows)
    assert isinstance(found.compute, Spans)
    assert found.kernels[-1] == (20_000, 30_000, 0)
    assert found.compute[1] == (20_000, 30_000)
    assert repr(found.compute) == "Spans([(0, 10000), (20000, 30000)])"


def test_all_of_a_rank_is_moved_onto_the_common_clock():
    """
    rank 1   does the same, and its clock is 5 ms ahead, which the ends of collectives tell
    """

    def rows(ahead):
        for number, at in enumerate(range(ahead, ahead + 5000, 500)):
            yield "compute", at, at + 300
            yield "mem", at + 320, at + 330
            yield "comm", at + 340, at + 400, at + 340, False, {"group": "0", "seq": number}

    report = analyze(run(trace(*rows(0)), trace(*rows(5000), rank=1)))
    assert [clock.applied for clock in report.run.clocks] == [True]
    first, second = report.timeline.recordings
    for name in ("kernels", "copies", "compute", "exposed_comm", "idle_launch", "idle_unknown"):
        assert list(getattr(first, name)) == list(getattr(second, name)), name
    assert len(first.kernels) == 10
