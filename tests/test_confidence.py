"""How sure a verdict is, and what makes it less so; times are µs."""

from __future__ import annotations

import pytest
from hosts import operator
from jobs import MB, both, costs, diagnosis, forward, late_job, ledger, other, repeated
from ranks import rank
from test_recording import part
from test_recording import rank as told

from ddptrace.manifest import Manifest

STEP = 10_000


def job(*exposed, steps=4, idle=0, **options):
    """State two ranks with steps of 10 ms, in which collectives are exposed one after another.

    `idle` is how long the GPU idles at the end of each step before a last kernel of 1 µs, which
    had been launched long before: nothing tells why.
    """
    end = STEP - 1 - idle
    rows, at = [], end - sum(length for length, _ in exposed)
    rows.append(forward(0, at))
    for length, size in exposed:
        rows.append(other(at, at + length, 5, size, op="scatter" if size < MB else "all_gather"))
        at += length
    rows.append(forward(STEP - 1, STEP, 6))
    made, marks = repeated(rows, STEP, steps)
    return both(*made, marks=marks, **options)


def test_a_clear_cause_in_three_steps_is_sure():
    said = diagnosis(*job((2000, 100 * MB)))
    assert (said.bottleneck, said.confidence) == ("comm_bandwidth", "high")
    assert said.reason == "nothing speaks against it"


@pytest.mark.parametrize(
    ("steps", "confidence", "reason"),
    [
        (1, "medium", "1 step counted, which are few"),
        (2, "medium", "2 steps counted"),
        (3, "medium", "2 steps counted"),  # the first of three or more does not count
        (4, "high", "nothing"),
    ],
)
def test_few_steps_are_less_sure(steps, confidence, reason):
    said = diagnosis(*job((2000, 100 * MB), steps=steps))
    assert said.confidence == confidence
    assert said.reason.startswith(reason)


def test_a_missing_rank_is_less_sure():
    said = diagnosis(*job((2000, 100 * MB)), world_size=4)
    assert (said.confidence, said.reason) == ("medium", "no recording of ranks 2-3")


@pytest.mark.parametrize(("second", "confidence"), [(799, "high"), (800, "medium")])
def test_a_second_cause_that_costs_nearly_as_much_makes_it_less_sure(second, confidence):
    said = diagnosis(*job((1000, 100 * MB), (second, 1000)))
    assert list(costs(said)) == ["comm_bandwidth", "comm_latency"]
    assert said.confidence == confidence


@pytest.mark.parametrize(("cost", "confidence"), [(399, "high"), (400, "medium")])
def test_a_cause_that_is_nearly_the_verdict_makes_a_run_without_one_less_sure(cost, confidence):
    said = diagnosis(*job((cost, 1000)))
    assert (said.bottleneck, said.confidence) == ("compute_bound", confidence)


@pytest.mark.parametrize(("idle", "confidence"), [(499, "high"), (500, "medium")])
def test_idle_time_without_a_cause_makes_compute_bound_less_sure(idle, confidence):
    said = diagnosis(*job((99, 1000), idle=idle))
    assert (said.bottleneck, said.confidence) == ("compute_bound", confidence)


@pytest.mark.parametrize(("idle", "confidence"), [(1000, "high"), (1001, "low")])
def test_more_time_without_a_cause_than_the_verdict_costs_makes_it_doubtful(idle, confidence):
    said = diagnosis(*job((1000, 100 * MB), idle=idle))
    assert (said.bottleneck, said.confidence) == ("comm_bandwidth", confidence)


def test_waiting_of_which_nobody_can_be_blamed_has_no_cause():
    """Ranks that share one GPU take turns on it; they wait 500 µs of 10 ms for each other."""
    traces = []
    for number, arrival in enumerate((9000, 9500)):
        rows = [forward(0, arrival), other(arrival, 9600, 5, 1000), forward(9600, STEP, 6)]
        made, marks = repeated(rows, STEP, 4)
        traces.append(rank(number, *made, marks=marks, gpu="GPU-1"))
    said = diagnosis(*traces)
    assert (said.bottleneck, said.confidence) == ("compute_bound", "medium")
    assert said.reason.startswith("0.50 ms of the step have no cause")


def test_what_a_late_rank_does_is_no_doubt_of_its_being_late():
    """All idle for 1 ms, rank 2 for 21: nothing tells why, its work had been launched before."""
    said = diagnosis(*late_job(1, 1, 21, idles=True, launched=True))
    assert ledger(said, 0)["idle_unknown"] == 1000
    assert ledger(said, 2)["idle_unknown"] == 21_000
    assert costs(said)["straggler"] == 20_000
    assert (said.bottleneck, said.confidence) == ("straggler", "high")


def test_a_rank_that_is_late_in_few_steps_is_a_doubtful_straggler():
    said = diagnosis(*late_job(0, 20, steps=1))
    assert (said.bottleneck, said.confidence, said.reason) == (
        "straggler",
        "low",
        "late in 1 of 1 steps",
    )


def test_transfers_of_ranks_on_one_gpu_are_doubtful():
    said = diagnosis(*job((2000, 100 * MB), gpu="GPU-1"))
    assert (said.bottleneck, said.confidence) == ("comm_bandwidth", "low")
    assert "ranks 0-1 share one GPU" in said.reason


# --- the profiler


def slowed(percent):
    """State a manifest that tells how much longer steps were than without a profiler."""
    times = [STEP * 1000 * (100 + percent) // 100] * 4
    return Manifest(
        ranks=tuple(told(number, [STEP * 1000] * 4, part("full", *times)) for number in (0, 1))
    )


def launch_bound():
    """State steps of 10 ms in which the GPU waits for launches."""
    rows = [forward(0, 5000, 0), forward(7000, 9900, 6990), other(9900, STEP, 6995, 1000)]
    made, marks = repeated(rows, STEP, 4)
    host = [operator(at + 10, at + 6985) for at, _ in marks]
    return both(*made, marks=marks, host=host, part="full")


@pytest.mark.parametrize(("percent", "confidence"), [(10, "high"), (11, "low")])
def test_a_profiler_that_slowed_the_host_makes_causes_of_the_host_doubtful(percent, confidence):
    said = diagnosis(*launch_bound(), manifest=slowed(percent))
    assert said.bottleneck == "launch_bound"
    assert said.confidence == confidence
    assert (confidence == "high") or "11 % longer" in said.reason


@pytest.mark.parametrize(("idles", "confidence"), [(True, "low"), (False, "medium")])
def test_a_host_that_is_late_under_a_profiler_that_slows_it_is_doubtful(idles, confidence):
    """A rank that computes longer does so without a profiler, too."""
    made = late_job(0, 20, idles=idles, launched=True, part="full")
    said = diagnosis(*made, manifest=slowed(11))
    assert (said.bottleneck, said.confidence) == ("straggler", confidence)


@pytest.mark.parametrize(("percent", "confidence"), [(10, "high"), (11, "medium")])
def test_a_profiler_that_slowed_the_run_makes_other_causes_less_sure(percent, confidence):
    said = diagnosis(*job((2000, 100 * MB), part="full"), manifest=slowed(percent))
    assert (said.bottleneck, said.confidence) == ("comm_bandwidth", confidence)


def test_a_verdict_that_is_unknown_says_why_and_has_no_confidence():
    said = diagnosis(rank(0, forward(0, 1000), marks=()))
    assert (said.bottleneck, said.confidence) == ("unknown", None)
    assert said.reason == said.findings[0].advice
