"""Which NVTX ranges are steps, and what their numbers are."""

from __future__ import annotations

import pytest
from folders import codes
from nsys_exports import MARK, START_END, Nsys
from traces import Kineto

from ddptrace import analyze, load_run
from ddptrace.errors import UsageError


def steps(folder, *ranges, **options):
    """Return number and name of the steps of a rank with these ranges: (name, start, end) in µs.

    A kernel runs in each 100 µs.
    """
    nsys = Nsys()
    for name, start, end, *more in ranges:
        nsys.range(name, start, end, **(more[0] if more else {}))
    for at in range(0, 1000, 100):
        nsys.gpu(at + 20, at + 90, launch=at + 10)
    nsys.write(folder / "rank0.sqlite")
    return [(row.step, row.name) for row in analyze(load_run(folder, **options)).steps]


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("ProfilerStep#12", 12),
        ("ProfilerStep#12, op_id = 4711", 12),
        ("step 12", 12),
        ("Step_12", 12),
        ("step=12", 12),
        ("step[12]", 12),
        ("Step::12", 12),
        ("step 12/500", 12),
        ("train step 12", 12),
        ("training_step_12", 12),
        ("global_step 12", 12),
        ("iteration12", 12),
        ("iter 12", 12),
        ("epoch 3 step 12", 12),
        ("Epoch 3, Step 12", 12),
        ("step 12, seq = 5", 12),
        ("run_training_batch", 0),
        ("[pl][profile]run_training_batch", 0),
        ("[pl][profile][_TrainingEpochLoop].run_training_batch, op_id = 9", 0),
        ("train_step", 0),
        ("megatron.training.training.train_step", 0),
    ],
)
@pytest.mark.parametrize("registered", [False, True])
def test_the_usual_names_are_steps_and_the_number_is_the_one_in_the_name(
    tmp_path, name, number, registered
):
    assert steps(tmp_path, (name, 0, 500, {"registered": registered})) == [(number, name)]


@pytest.mark.parametrize(
    "name",
    [
        "optimizer step",
        "Optimizer.step#AdamW.step",
        "forward_step 3",
        "stepwise 3",
        "steps 3",
        "step",
        "batch 3",
        "validation_step 3",
        "ProfilerStep",
        "aten::step 3",
        "my train_step",
    ],
)
def test_other_names_are_no_steps(tmp_path, name):
    assert steps(tmp_path, (name, 0, 500)) == [(None, None)]


def test_ranges_without_a_number_are_numbered_in_their_order(tmp_path):
    found = steps(tmp_path, ("train_step", 0, 300), ("train_step", 300, 500))
    assert found == [(0, "train_step"), (1, "train_step")]


def test_numbers_that_come_again_tell_no_step(tmp_path):
    found = steps(
        tmp_path,
        ("step 0", 0, 300),
        ("step 1", 300, 500),
        ("step 0", 500, 700),
        ("step 1", 700, 900),
    )
    assert [number for number, _ in found] == [0, 1, 2, 3]


def test_our_recorders_marks_count_before_all_others(tmp_path):
    """The user's own ranges begin and end elsewhere."""
    found = steps(tmp_path, ("step 0", 0, 1000), ("ProfilerStep#7", 0, 500), ("step 1", 500, 900))
    assert found == [(7, "ProfilerStep#7")]


def test_numbered_ranges_count_before_those_inside_without_a_number(tmp_path):
    assert steps(tmp_path, ("step 4", 0, 500), ("train_step", 10, 490)) == [(4, "step 4")]


def test_a_range_inside_another_step_is_no_step(tmp_path):
    """Micro-batches are called steps, too: what is outside counts."""
    found = steps(tmp_path, ("step 4", 0, 500), ("step 0", 0, 200), ("step 1", 250, 500))
    assert found == [(4, "step 4")]


def test_ranges_that_merely_overlap_are_steps(tmp_path):
    """A launch in both belongs to the later one."""
    options = {"eventType": START_END}
    found = steps(tmp_path, ("step 1", 0, 500, options), ("step 2", 400, 900, options))
    assert found == [(1, "step 1"), (2, "step 2")]


def test_a_mark_is_no_range(tmp_path):
    assert steps(tmp_path, ("step 3", 0, None, {"eventType": MARK})) == [(None, None)]
    found = steps(tmp_path, ("step 3", 0, 500), ("step 4", 500, None, {"eventType": MARK}))
    assert found == [(3, "step 3")]
    assert "open_step" not in codes(load_run(tmp_path))


def test_a_step_that_the_recording_ended_in_is_left_out_and_said(tmp_path):
    assert steps(tmp_path, ("step 3", 0, 500), ("step 4", 500, None)) == [(3, "step 3")]
    (said,) = [w for w in load_run(tmp_path).all_warnings if w.code == "open_step"]
    assert "ended inside 1 step range" in said.message


def test_open_ranges_alone_are_no_steps(tmp_path):
    assert steps(tmp_path, ("step 4", 0, None)) == [(None, None)]


def test_steps_of_one_process_are_not_anothers(tmp_path):
    nsys = Nsys(pid=4100).step(5, 0, 500).gpu(100, 200).process(4101).step(9, 0, 500).gpu(100, 200)
    nsys.write(tmp_path / "run.sqlite")
    run = load_run(tmp_path)
    assert [[mark.index for mark in trace.marks] for trace in run.traces] == [[5], [9]]
    assert "steps_differ" in codes(run)


# --- --step-range


def test_the_user_may_name_the_ranges(tmp_path):
    found = steps(
        tmp_path, ("work A", 0, 400), ("work B", 400, 900), ("step 1", 0, 900), step_range="^work"
    )
    assert found == [(0, "work A"), (1, "work B")]


@pytest.mark.parametrize(
    ("expression", "name", "number"),
    [
        ("batch", "batch 12", 12),
        ("batch", "epoch 3 batch 12", 0),
        (r"batch (\d+)", "epoch 3 batch 12", 12),
        (r"(epoch|run) \d+ batch (\d+)", "epoch 3 batch 12", 12),
        ("batch", "batch", 0),
        ("batch", "batch 12, op_id = 4711", 12),
        ("(?i)BATCH", "batch 12", 12),
    ],
)
def test_a_group_tells_the_number_else_the_only_one_of_the_name(tmp_path, expression, name, number):
    assert steps(tmp_path, (name, 0, 500), step_range=expression) == [(number, name)]


def test_a_name_that_matches_nothing_leaves_one_window(tmp_path):
    assert steps(tmp_path, ("step 3", 0, 500), step_range="other") == [(None, None)]


@pytest.mark.parametrize("expression", ["(", "[a", "*"])
def test_a_bad_expression_is_refused_before_anything_is_read(tmp_path, expression):
    Kineto().step(0, 0, 9).gpu(1, 2).write(tmp_path / "rank0.json")
    with pytest.raises(UsageError, match="--step-range"):
        load_run(tmp_path, step_range=expression)


def test_ranges_of_a_thread_that_runs_beside_the_loop_are_no_steps(tmp_path):
    beside = {"thread": Nsys().thread + 1}
    found = steps(tmp_path, ("step 1", 0, 400), ("step 1", 150, 550, beside), ("step 2", 400, 900))
    assert found == [(1, "step 1"), (2, "step 2")]


def test_ranges_of_threads_that_take_turns_are_all_steps(tmp_path):
    other = {"thread": Nsys().thread + 1}
    found = steps(tmp_path, ("step 1", 0, 400), ("step 2", 400, 900, other))
    assert found == [(1, "step 1"), (2, "step 2")]


def test_a_range_of_no_length_is_no_step(tmp_path):
    found = steps(tmp_path, ("step 1", 0, 400), ("step 2", 450, 440), ("step 3", 500, 900))
    assert found == [(1, "step 1"), (3, "step 3")]


def test_a_lone_range_that_the_recording_ended_in_is_said(tmp_path):
    assert steps(tmp_path, ("step 1", 0, None)) == [(None, None)]
    assert "open_step" in codes(load_run(tmp_path))


def test_an_empty_expression_is_refused(tmp_path):
    Nsys().gpu(10, 20).write(tmp_path / "rank0.sqlite")
    with pytest.raises(UsageError, match="an empty expression is in every name"):
        load_run(tmp_path, step_range="")


def test_a_number_beyond_64_bits_is_none(tmp_path):
    assert steps(tmp_path, (f"step {10**25}", 0, 900)) == [(0, f"step {10**25}")]


def test_launches_lost_after_the_first_step_are_counted(tmp_path):
    nsys = Nsys().step(1, 0, 500).step(2, 500, 1000)
    for at in range(100, 1000, 100):
        lost = {"correlationId": 0} if at in (300, 600, 700) else {}
        nsys.gpu(at + 20, at + 90, launch=at + 10, **lost)
    nsys.write(tmp_path / "rank0.sqlite")
    (said,) = [
        each.message
        for each in load_run(tmp_path).all_warnings
        if each.code == "launches_not_recorded"
    ]
    assert "the launch of 2 operations of 3 was not recorded" in said


def test_work_of_before_the_recording_is_no_lost_launch(tmp_path):
    nsys = Nsys().step(1, 0, 500).step(2, 500, 900).gpu(100, 200)
    nsys.gpu(210, 220, correlationId=0).gpu(600, 700).gpu(700, 800)
    nsys.write(tmp_path / "rank0.sqlite")
    assert "launches_not_recorded" not in codes(load_run(tmp_path))
