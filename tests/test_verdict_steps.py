"""The verdict where steps are unlike each other, or little was recorded; times are µs."""

from __future__ import annotations

import pytest
from hosts import call, operator, sync
from jobs import MB, backward, both, bucket, costs, diagnosis, forward, late_job, ledger, other
from ranks import comm, rank
from traces import trace

# --- steps that are not like the others


def slowed_steps(extra, count=6):
    """State two ranks with steps of 10 ms compute, of which some idle longer at their end."""
    rows, marks, at = [], [], 0
    for number in range(count):
        long = extra.get(number, 0)
        rows += [
            forward(at, at + 9000),
            other(at + 9000, at + 9100, at + 10, MB),
            forward(at + 9100 + long, at + 10_000 + long),
        ]
        marks.append((at, at + 10_000 + long))
        at += 10_000 + long
    return both(*rows, marks=marks)


@pytest.mark.parametrize("extra", [{0: 500_000}, {3: 80_000}, {2: 5000, 4: 7000}])
def test_a_long_first_step_or_a_checkpoint_is_not_the_usual_step(extra):
    said = diagnosis(*slowed_steps(extra))
    assert said.bottleneck == "compute_bound"
    assert {one.step_ns for one in said.ledger} == {10_000_000}


def test_a_checkpoint_of_one_rank_costs_the_usual_step_nothing():
    """In step 3 rank 0 saves for 80 ms, and rank 1 waits for it."""
    traces = []
    for number in (0, 1):
        rows, marks, at = [], [], 0
        for step in range(6):
            long = 80_000 if step == 3 else 0
            start = at + (long if number == 0 else 0)
            rows += [
                forward(start, start + 9000),
                comm(start + 9000, at + long + 9100, start + 10, size=MB),
            ]
            marks.append((at, at + 9100 + long))
            at += 9100 + long
        traces.append(rank(number, *rows, marks=marks))
    said = diagnosis(*traces)
    assert (said.bottleneck, said.confidence) == ("compute_bound", "high")
    assert costs(said) == {"compute_bound": None, "cold_steps": None}


def test_an_evaluation_between_steps_is_no_fault_of_the_schedule():
    """
    marks    [      ]......[      ]......[      ]
    gpu      fbb.bb.feeee..fbb.bb.feeee..fbb.bb.f   e: evaluates, then reduces a number
    """
    rows, marks = [], []
    for at in range(0, 80_000, 20_000):
        rows += [
            forward(at, at + 2000),
            backward(at + 2000, at + 4000),
            backward(at + 4000, at + 8000),
            bucket(at + 4000, at + 5000, at + 3500, 20 * MB),
            bucket(at + 8000, at + 8100, at + 7500, MB),
            forward(at + 8100, at + 9000),
            forward(at + 9000, at + 19_900),
            other(at + 19_900, at + 20_000, at + 9500, 8, op="all_reduce"),
        ]
        marks.append((at, at + 8950))
    said = diagnosis(*both(*rows, marks=marks))
    assert said.bottleneck == "compute_bound"


def test_a_short_synchronisation_in_every_step_is_not_listed():
    """.item() drains the GPU for 0.5 % of the step."""
    rows = [
        forward(0, 50_000, 0),
        forward(50_490, 99_000, 50_480),
        other(99_000, 100_000, 50_485, 10 * MB),
    ]
    host = [call(0, 5), sync(100, 50_010), operator(50_010, 50_485), call(50_480, 50_489)]
    said = diagnosis(*both(*rows, host=host))
    assert said.bottleneck == "compute_bound"
    assert "sync_wait" not in costs(said)
    longer = [
        forward(0, 50_000, 0),
        forward(56_000, 99_000, 55_990),
        other(99_000, 100_000, 55_995, 10 * MB),
    ]
    host = [call(0, 5), sync(100, 50_010), operator(50_010, 55_995), call(55_990, 55_999)]
    said = diagnosis(*both(*longer, host=host))
    assert said.bottleneck == "sync_wait"
    assert costs(said)["sync_wait"] == 6000


# --- smaller runs


def test_without_communication_there_is_none_to_blame():
    said = diagnosis(trace(forward(0, 9000), ("mem", 9000, 10_000)))
    assert (said.bottleneck, said.findings[0].cost_ns) == ("no_communication", None)
    assert said.headline.startswith("no_communication: this run does not communicate")


def test_one_step_is_judged_with_less_confidence():
    said = diagnosis(*late_job(0, 20, steps=1))
    assert (said.bottleneck, said.confidence) == ("straggler", "low")


def test_without_steps_nothing_is_weighed_and_everything_listed():
    rows = forward(0, 1000), other(1000, 3000, 500, MB)
    said = diagnosis(*both(*rows, marks=()))
    assert (said.bottleneck, said.confidence) == ("unknown", None)
    assert costs(said) == {"comm_bandwidth": 2000, "unknown": None}
    assert "no step marks" in said.headline


def test_without_recorded_communication_the_verdict_is_unknown():
    said = diagnosis(trace(forward(0, 1000), comm_missing=True))
    assert said.bottleneck == "unknown"
    assert "was not recorded" in said.headline


def test_a_partial_recording_alone_has_no_verdict():
    said = diagnosis(trace(forward(0, 1000), partial="cut"))
    assert (said.bottleneck, said.ledger) == ("unknown", [])


def test_a_partial_rank_beside_whole_ones_lowers_the_confidence():
    first, second, third = late_job(0, 0, 20)
    cut = trace(forward(0, 1000), rank=3, partial="cut")
    said = diagnosis(first, second, third, cut)
    assert (said.bottleneck, said.confidence) == ("straggler", "low")


def test_a_single_rank_whose_communication_may_be_waiting_is_unknown():
    rows = forward(0, 1000), backward(1000, 2000), bucket(2000, 6000, 1500, 100 * MB)
    said = diagnosis(rank(0, *rows), world_size=2)
    assert said.bottleneck == "unknown"
    assert {one.metric: one.value for one in said.findings[0].evidence} == {
        "compute_ratio": pytest.approx(1 / 3),
        "comm_unknown_ns": 4_000_000,
    }


def test_a_cpu_run_is_judged_by_its_communication():
    rows = forward(0, 1000), backward(1000, 3000), bucket(3000, 8000, 3000, 100 * MB)
    said = diagnosis(*both(*rows, device="host", marks=[(0, 8000)]))
    assert said.bottleneck in {"comm_bandwidth", "bucket_schedule"}
    assert ledger(said)["compute"] == 3000
