"""The finding that others wait for a rank, and the line that says it; times are in µs."""

from __future__ import annotations

import pytest
from ranks import PAIR, comm, rank, report
from test_stragglers import steps

from ddptrace.outputs.stragglers import straggler_lines


def late_by(cost, step=100_000):
    """State two ranks with steps of 100 ms, of which rank 0 waits `cost` µs exposed."""
    return report(
        rank(0, ("compute", 0, step - 1000 - cost), comm(step - 1000 - cost, step, group=PAIR)),
        rank(1, ("compute", 0, step - 1000), comm(step - 1000, step, group=PAIR)),
    )


def findings(made):
    return [one for one in made.diagnosis.findings if one.code == "straggler"]


@pytest.mark.parametrize(("cost", "count"), [(999, 0), (1000, 1)])
def test_it_is_listed_from_one_percent_of_the_median_step(cost, count):
    found = findings(late_by(cost))
    assert [(one.cost_ns, one.ranks) for one in found] == [(cost * 1000, [1])] * count


def test_the_evidence_holds_each_figure_beside_its_limit():
    (found,) = findings(late_by(5000))
    assert {one.metric: (one.value, one.limit) for one in found.evidence} == {
        "exposed_wait_ns": (5_000_000, 1_000_000),
        "transfer_alone_ns": (0, None),
        "slowed_ns": (0, None),
        "late_ns": (5_000_000, 50_000),
        "led": (1, None),
        "collectives": (1, None),
        "steps_late": (1, None),
    }


@pytest.mark.parametrize(
    ("kind", "advice", "line"),
    [
        ("compute", "GPU clock", "its GPU computes longer"),
        ("input", "data loading", "launches nothing at the start"),
        ("host", "its cores", "its host is behind"),
    ],
)
def test_advice_and_line_follow_the_cause(kind, advice, line):
    made = report(*steps(*[(0, 900)] * 4, kind=kind))
    (found,) = findings(made)
    assert advice in found.advice
    (said,) = straggler_lines(made)
    assert "wait for rank 1" in said
    assert "3 of 3 collectives" in said
    assert line in said


def test_hidden_waiting_costs_nothing():
    """Rank 0 computes while it waits for rank 1."""
    made = report(
        rank(0, ("compute", 0, 9000), comm(1000, 9500, group=PAIR)),
        rank(1, ("compute", 0, 9000), comm(9000, 9500, group=PAIR)),
    )
    assert made.stragglers.rank == 1
    assert made.stragglers.cost_ns == 0
    assert findings(made) == []


def test_ranks_that_are_late_in_turn_are_all_named_and_cost_each_step_in_full():
    made = report(*steps((0, 0), (0, 900), (900, 0), (0, 900), (900, 0), length=4000))
    (found,) = findings(made)
    assert (found.cost_ns, found.ranks) == (900_000, [0, 1])
    assert found.advice.startswith("ranks 0-1 are late in turn")
    assert {one.metric: one.value for one in found.evidence}["exposed_wait_ns"] == 900_000


def test_of_ranks_of_which_one_is_late_in_turn_with_nobody_only_that_is_named():
    made = report(*steps((0, 0), (0, 900), (0, 900), (0, 0), (0, 0)))
    assert made.stragglers.pattern == "occasional"
    (found,) = findings(made)
    assert (found.cost_ns, found.ranks) == (450_000, [1])


def test_why_nobody_is_named_is_said_only_when_somebody_could_be():
    shared = [rank(number, comm(number * 500, 1000), gpu="GPU-1") for number in (0, 1)]
    assert "take turns" in straggler_lines(report(*shared))[0]
    assert straggler_lines(report(rank(0, comm(0, 9)))) == []
    assert straggler_lines(report(*(rank(number, ("compute", 0, 9)) for number in (0, 1)))) == []


def test_a_job_without_a_late_rank_has_no_line():
    made = report(*(rank(number, comm(0, 9)) for number in (0, 1)))
    assert straggler_lines(made) == []


def test_a_delay_of_a_single_step_is_not_said_to_cost_nothing():
    made = report(*steps(*[(0, 900 if at == 2 else 0) for at in range(5)]))
    (said,) = straggler_lines(made)
    assert "in a single step; it arrives" in said
