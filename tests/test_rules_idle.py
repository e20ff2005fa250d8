"""Findings of an idle GPU: input, synchronisation, launches; times are µs."""

from __future__ import annotations

import pytest
from hosts import call, loading, operator, sync
from jobs import both, costs, diagnosis, forward, other

STEP = 100_000


def one(said, code):
    (found,) = (each for each in said.findings if each.code == code)
    return found


def stalled(idle, *, host=()):
    """State steps of 100 ms that begin with so much idle time, with a little communication."""
    rows = [
        forward(idle, STEP - 100, idle),
        other(STEP - 100, STEP, idle + 10, 1000, op="broadcast"),
    ]
    return both(*rows, host=[*host, call(idle, idle + 5)], marks=[(0, STEP)])


def launching(idle):
    """State a gap in which the host runs operators."""
    rows = [
        forward(0, 10_000, 0),
        forward(10_000 + idle, STEP - 100, 9990 + idle),
        other(STEP - 100, STEP, 9999 + idle, 1000),
    ]
    host = [call(0, 5), operator(10, 9995 + idle), call(9990 + idle, 9998 + idle)]
    return both(*rows, host=host, marks=[(0, STEP)])


def synchronising(idle):
    """State a call that drains the GPU; it had blocked the host for longer than the gap."""
    rows = [
        forward(0, 10_000, 0),
        forward(10_000 + idle, STEP - 100, 9990 + idle),
        other(STEP - 100, STEP, 9999 + idle, 1000),
    ]
    host = [
        call(0, 5),
        operator(8, 10_005, "aten::item"),
        sync(10, 10_001),
        operator(10_010, 9995 + idle),
        call(9990 + idle, 9998 + idle),
    ]
    return both(*rows, host=host, marks=[(0, STEP)])


def loaded(idle):
    return stalled(idle, host=[loading(0, idle)])


CASES = [("input_stall", loaded), ("launch_bound", launching), ("sync_wait", synchronising)]


@pytest.mark.parametrize(("idle", "count"), [(999, 0), (1000, 1)])
@pytest.mark.parametrize(("code", "made"), CASES)
def test_they_are_listed_from_one_percent(code, made, idle, count):
    said = diagnosis(*made(idle))
    assert [each.code for each in said.findings].count(code) == count
    assert said.bottleneck == "compute_bound"


@pytest.mark.parametrize(("idle", "is_verdict"), [(4999, False), (5000, True)])
@pytest.mark.parametrize(("code", "made"), CASES)
def test_they_are_the_verdict_from_five_percent(code, made, idle, is_verdict):
    said = diagnosis(*made(idle))
    assert said.bottleneck == (code if is_verdict else "compute_bound")
    assert costs(said)[code] == idle


def test_a_stall_in_the_data_loader_and_one_asleep_are_told_apart():
    assert "in its data loader" in one(diagnosis(*loaded(20_000)), "input_stall").advice
    asleep = one(diagnosis(*stalled(20_000)), "input_stall")
    assert "asleep" in asleep.advice
    assert {each.metric: each.value for each in asleep.evidence} == {
        "input_stall_ns": 20_000_000,
        "loader_ns": 0,
    }


def test_the_call_that_blocks_is_named_with_its_operator():
    found = one(diagnosis(*synchronising(5000)), "sync_wait")
    assert "cudaStreamSynchronize in aten::item" in found.advice
    assert {each.metric: each.value for each in found.evidence}["sync_calls"] == 1


def test_the_evidence_of_slow_launches_says_how_much_there_is_to_launch():
    found = one(diagnosis(*launching(5000)), "launch_bound")
    told = {each.metric: each.value for each in found.evidence}
    assert told["launch_bound_ns"] == 5_000_000
    assert told["kernels"] == 3
    assert set(told) == {"launch_bound_ns", "kernels", "kernel_ns", "interval_ns", "operators"}


def test_a_synchronisation_that_leaves_no_gap_costs_nothing():
    """The host is blocked for 90 ms, but the next kernel had been launched before."""
    rows = [
        forward(0, 50_000, 0),
        forward(50_000, STEP - 100, 10),
        other(STEP - 100, STEP, 20, 1000),
    ]
    host = [call(0, 5), call(10, 15), sync(100, 90_000)]
    said = diagnosis(*both(*rows, host=host, marks=[(0, STEP)]))
    assert costs(said) == {"compute_bound": None}


def test_a_gap_in_which_the_work_was_queued_is_no_fault_of_the_host():
    """The kernel was launched before the gap: the GPU worked for another process."""
    rows = [forward(0, 40_000, 0), forward(90_000, STEP - 100, 10), other(STEP - 100, STEP, 20, 9)]
    host = [call(0, 5), call(10, 15), operator(20, 99_000)]
    said = diagnosis(*both(*rows, host=host, marks=[(0, STEP)]))
    assert said.bottleneck == "unknown"
    assert {each.metric for each in said.findings[0].evidence} == {
        "compute_ratio",
        "idle_unknown_ns",
        "comm_latency_ns",
    }
