"""The one sentence of a report: a danger is said first, a doubt last; times are µs."""

from __future__ import annotations

import pytest
from hosts import call, operator, sync
from jobs import MB, backward, both, bucket, diagnosis, forward, repeated
from ranks import PAIR, comm, rank, report
from test_confidence import job

from ddptrace.outputs.findings import confidence_line


def early(start, end=9000):
    """State two ranks whose optimizer starts at `start`, while their bucket moves until `end`."""
    rows = [
        forward(0, 2000),
        backward(2000, 4000),
        bucket(4000, end, 3000, 100 * MB),
        forward(start, 10_000, 4500),
    ]
    host = [("annotation", "Optimizer.step#SGD.step", 4400, 4600)]
    return both(*rows, marks=[(0, 10_000)], host=host)


def test_a_danger_is_said_before_what_costs_time():
    said = diagnosis(*early(7000))
    assert said.bottleneck == "comm_bandwidth"
    assert said.headline.startswith(
        "danger of wrong parameters (optimizer_before_comm); comm_bandwidth costs "
    )
    safe = diagnosis(*early(9000))
    assert safe.headline.startswith("comm_bandwidth costs ")


def test_a_danger_is_the_first_advice_however_little_it_costs():
    """Each step broadcasts for 2 ms, too, which has a cost."""
    rows = [
        comm(0, 2000, 0, op="broadcast", group=PAIR, size=MB),
        forward(2000, 4000, 1),
        backward(4000, 6000, 2),
        bucket(6000, 11_000, 3, 100 * MB),
        forward(9000, 12_000, 4500),
    ]
    host = [("annotation", "Optimizer.step#SGD.step", 4400, 4600)]
    found = diagnosis(*both(*rows, marks=[(0, 12_000)], host=host)).findings
    advice = [(one.code, one.cost_ns) for one in found if one.code not in ("comm_bandwidth",)]
    assert advice == [("optimizer_before_comm", None), ("buffer_broadcast", 2_000_000)]


def test_a_low_confidence_is_said_in_the_sentence_and_not_once_more():
    doubtful = report(*job((2000, 100 * MB), idle=2001))
    assert doubtful.diagnosis.confidence == "low"
    assert doubtful.diagnosis.headline.endswith(f" (confidence low: {doubtful.diagnosis.reason})")
    assert confidence_line(doubtful) is None


@pytest.mark.parametrize(("steps", "confidence"), [(4, "high"), (2, "medium")])
def test_any_other_confidence_has_a_line_of_its_own(steps, confidence):
    made = report(*job((2000, 100 * MB), steps=steps))
    assert confidence_line(made) == f"confidence {confidence}: {made.diagnosis.reason}"
    assert "confidence" not in made.diagnosis.headline


def late_by_its_host(*ranges, gap=6000):
    """State two ranks, the second of which idles for `gap` between its two kernels."""

    def one(number, later, host):
        rows = [
            forward(0, 1000, 0),
            backward(1000 + later, 3000 + later, 900 + later),
            bucket(3000 + later, 11_000, 900 + later, 50 * MB),
        ]
        made, marks = repeated(rows, 11_000)
        hosts = [
            (kind, name, start + at, end + at, thread)
            for at in range(0, 33_000, 11_000)
            for kind, name, start, end, thread in host
        ]
        return rank(number, *made, marks=marks, host=hosts)

    usual = [call(0, 5), operator(10, 890), call(895, 905)]
    return one(0, 0, usual), one(1, gap, [call(0, 5), *ranges, call(895 + gap, 905 + gap)])


@pytest.mark.parametrize(
    ("ranges", "word"),
    [
        ([operator(10, 6890)], "while its host is launching (launch_bound)"),
        ([sync(10, 6890)], "in which its host waits for it (sync_wait)"),
        ([], "while its host does something else"),
    ],
)
def test_why_a_late_host_lets_its_gpu_idle_is_said(ranges, word):
    made = diagnosis(*late_by_its_host(*ranges))
    (found,) = (one for one in made.findings if one.code == "straggler")
    assert found.ranks == [1]
    assert word in found.advice
