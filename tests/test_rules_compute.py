"""What a run is like in which no cause costs enough; times are µs, a character is 10 ms."""

from __future__ import annotations

import pytest
from jobs import backward, both, costs, diagnosis, forward, other
from ranks import PAIR, comm, rank, report
from traces import trace

STEP = 100_000


def said_of(*rows):
    """Return what is said of two ranks with these rows and a little communication at the end."""
    return diagnosis(*both(*rows, other(STEP - 100, STEP, STEP - 200, 1000), marks=[(0, STEP)]))


def one(said):
    (found,) = said.findings
    return found


@pytest.mark.parametrize(("copies", "verdict"), [(29_900, "compute_bound"), (29_901, "unknown")])
def test_compute_bound_is_a_step_of_which_most_is_compute(copies, verdict):
    """
    gpu      ######cccc    c: copies, which are no bottleneck of the list
    """
    said = said_of(("mem", 0, copies), forward(copies, STEP - 100))
    assert (said.bottleneck, one(said).cost_ns) == (verdict, None)
    assert one(said).evidence[0].metric == "compute_ratio"


def test_the_largest_kernels_are_in_the_evidence():
    said = said_of(forward(0, STEP - 100))
    assert [each.metric for each in one(said).evidence] == ["compute_ratio", "kernel_ns: kernel"]
    assert one(said).evidence[1].value == 99_900_000


def tail(last, other_length=1000, after=()):
    """State a backward pass of kernels of one length and a last one of another.

    gpu      fffffffffffffffbbbbbbB    B: the last one
    """
    begin = STEP - 100 - last - 6 * other_length - sum(after)
    rows, at = [forward(0, begin)], begin
    for length in (*[other_length] * 6, last, *after):
        rows.append(backward(at, at + length))
        at += length
    return said_of(*rows)


@pytest.mark.parametrize(("last", "verdict"), [(4999, "compute_bound"), (5000, "compute_tail")])
def test_a_tail_is_a_last_kernel_of_five_percent_of_the_step(last, verdict):
    assert tail(last).bottleneck == verdict


@pytest.mark.parametrize(("last", "verdict"), [(9999, "compute_bound"), (10_000, "compute_tail")])
def test_a_tail_is_five_times_as_long_as_the_others(last, verdict):
    said = tail(last, other_length=2000)
    assert said.bottleneck == verdict
    if verdict == "compute_tail":
        found = {each.metric: (each.value, each.limit) for each in one(said).evidence}
        assert found["last_kernel_ns"] == (10_000_000, 10_000_000)


def test_small_kernels_behind_the_long_one_hide_no_tail():
    """The last gradient is divided and copied into its bucket."""
    assert tail(10_000, after=(5, 3)).bottleneck == "compute_tail"


def test_a_long_kernel_with_as_much_behind_it_is_no_tail():
    assert tail(10_000, after=(4000, 4000, 2000)).bottleneck == "compute_bound"


def test_many_tiny_kernels_do_not_make_each_long_one_a_tail():
    """All long kernels take 10 ms; between them are 20 of 2 µs, whose median is that of all."""
    rows, at = [forward(0, 40_000)], 40_000
    for _ in range(5):
        for length in (*[2] * 20, 10_000):
            rows.append(backward(at, at + length))
            at += length
    rows.append(forward(at, STEP - 100))
    assert said_of(*rows).bottleneck == "compute_bound"


def test_a_long_kernel_of_the_forward_pass_is_no_tail():
    said = said_of(
        forward(0, 50_000), *(backward(at, at + 1000) for at in range(50_000, 99_000, 1000))
    )
    assert said.bottleneck == "compute_bound"


def test_without_communication_the_kernels_are_named():
    said = diagnosis(trace(forward(0, STEP), rank=0))
    assert costs(said) == {"no_communication": None}
    assert [each.metric for each in one(said).evidence] == ["kernel_ns: kernel"]


def test_a_cpu_run_that_mostly_computes_is_compute_bound():
    rows = forward(0, STEP - 100), other(STEP - 100, STEP, STEP - 200, 1000, op="all_reduce")
    said = diagnosis(*both(*rows, device="host", marks=[(0, STEP)]))
    assert said.bottleneck == "compute_bound"


@pytest.mark.parametrize(("exposed", "verdict"), [(499, "compute_bound"), (500, "unknown")])
def test_much_exposed_communication_of_unknown_cause_is_no_compute_bound(exposed, verdict):
    """One of two ranks is recorded: nothing tells its waiting from transfer."""
    alone = rank(
        0, ("compute", 0, 10_000 - exposed, 0), comm(10_000 - exposed, 10_000, 10, group=PAIR)
    )
    said = report(alone, world_size=2).diagnosis
    assert said.bottleneck == verdict
    assert ("0.50 of 10.00 ms are exposed communication" in said.headline) == (exposed == 500)


def test_communication_that_is_exposed_is_not_called_hidden():
    rows = ("compute", 0, 9900, 0), comm(9900, 10_000, 10, size=10**9, group=PAIR)
    said = report(*(rank(number, *rows) for number in (0, 1))).diagnosis
    assert said.bottleneck == "compute_bound"
    assert "exposed communication is no more than 1.0 % of the step" in said.headline
