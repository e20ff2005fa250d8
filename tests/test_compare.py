"""Two runs side by side: differences add up, and what changed is told."""

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledgers import MS, codes, ledger, report
from pages import two_ranks
from traces import run, trace

from ddptrace import analyze
from ddptrace.compare.comparison import compare, to_json
from ddptrace.compare.parts import Difference, changes, grouped, parts_of
from ddptrace.diagnosis.finding import Diagnosis
from ddptrace.diagnosis.ledger import PARTS, Ledger
from ddptrace.outputs.comparison import render
from ddptrace.outputs.terminal import Destination
from ddptrace.report import from_json
from ddptrace.report import to_json as report_to_json

# --- the parts ---

TIMES = st.integers(0, 10**12)
LEDGERS = st.builds(
    lambda rank, times: Ledger(rank, 7, sum(times), **dict(zip(PARTS, times, strict=True))),
    st.integers(0, 7),
    st.lists(TIMES, min_size=len(PARTS), max_size=len(PARTS)),
)
RUNS = st.lists(LEDGERS, min_size=1, max_size=4, unique_by=lambda one: one.rank)


@given(RUNS, RUNS)
def test_the_parts_of_any_two_runs_add_up_to_the_step_exactly(first, second):
    found = compare(report(*first), report(*second))
    tables = [(found.step_ns, found.parts), *((one.step_ns, one.parts) for one in found.ranks)]
    for step, parts in tables:
        assert [part.part for part in parts] == [name.removesuffix("_ns") for name in PARTS]
        for name in ("a_ns", "b_ns", "difference_ns"):
            assert sum(getattr(part, name) for part in parts) == getattr(step, name)
            groups = [getattr(whole, name) for whole, _ in grouped(parts)]
            assert sum(groups) == getattr(step, name)
        if step.difference_ns:
            assert sum(part.share_ratio for part in parts) == pytest.approx(
                1, abs=1e-3, rel=1e-3
            ) or (max(abs(part.share_ratio) for part in parts) > 1e6)


@given(RUNS, RUNS)
def test_swapping_the_runs_negates_every_difference(first, second):
    one = compare(report(*first), report(*second))
    other = compare(report(*second), report(*first))
    assert one.step_ns.difference_ns == -other.step_ns.difference_ns
    assert [part.difference_ns for part in one.parts] == [
        -part.difference_ns for part in other.parts
    ]
    assert [(part.a_ns, part.share_ratio) for part in one.parts] == [
        (part.b_ns, part.share_ratio) for part in other.parts
    ]
    assert [row.rank for row in one.ranks] == [row.rank for row in other.ranks]
    assert [(each.what, each.a, each.b) for each in one.changed] == [
        (each.what, each.b, each.a) for each in other.changed
    ]


@given(RUNS)
def test_a_run_beside_itself_differs_in_nothing(ledgers):
    found = compare(report(*ledgers), report(*ledgers))
    assert {part.difference_ns for part in found.parts} == {0} == {found.step_ns.difference_ns}
    assert {part.share_ratio for part in found.parts} == {None}
    assert (found.changed, found.cautions, found.comparable) == ([], [], True)
    assert found.headline.startswith("B's step takes as long as A's")


def test_the_step_is_that_of_the_rank_on_which_it_took_longest_in_each_run():
    a = report(ledger(0, compute=10, straggler=1), ledger(1, compute=10))
    b = report(ledger(0, compute=10, straggler=5), ledger(1, compute=20))
    found = compare(a, b)
    assert (found.a.rank, found.b.rank) == (0, 1)
    assert found.step_ns == Difference(11 * MS, 20 * MS, 9 * MS)
    assert [(row.rank, row.step_ns.difference_ns) for row in found.ranks] == [
        (0, 4 * MS), (1, 10 * MS)
    ]  # fmt: skip


def test_of_ranks_that_took_equally_long_the_lowest_is_shown():
    found = compare(
        report(ledger(3, compute=5), ledger(1, compute=5)), report(ledger(2, compute=5))
    )
    assert (found.a.rank, found.b.rank, found.ranks) == (1, 2, [])


def test_only_ranks_of_both_runs_are_held_against_themselves():
    a = report(*(ledger(rank, compute=5) for rank in range(2)))
    b = report(*(ledger(rank, compute=6) for rank in range(1, 4)))
    assert [row.rank for row in compare(a, b).ranks] == [1]


def test_parts_belong_to_the_figure_of_the_step_that_they_divide():
    every = ledger(**{name.removesuffix("_ns"): 1 for name in PARTS})
    assert {
        whole.part: [part.part for part in mine] for whole, mine in grouped(parts_of(every, every))
    } == {
        "compute": ["compute"],
        "exposed_comm": [
            *("straggler", "bucket_schedule", "comm_bandwidth", "comm_latency", "comm_unknown")
        ],
        "exposed_mem": ["exposed_mem"],
        "idle": ["input_stall", "sync_wait", "launch_bound", "idle_unknown"],
    }


def test_of_many_ranks_those_that_differ_most_are_shown():
    a = report(*(ledger(rank, compute=10) for rank in range(20)))
    b = report(*(ledger(rank, compute=10 + rank) for rank in range(20)))
    found = compare(a, b)
    assert len(found.ranks) == 20
    lines = render(found, Destination()).splitlines()
    shown = [int(line.split()[0]) for line in lines if re.match(r" *\d+ +10\.00 ", line)]
    assert shown == list(range(4, 20))
    assert "the 16 of 20 ranks that differ most" in lines


# --- the headline ---


def test_the_headline_names_the_step_and_what_changed_most():
    a = ledger(compute=40, comm_bandwidth=5, input_stall=4, straggler=1)
    b = ledger(compute=38, comm_bandwidth=15.1, input_stall=8.2, straggler=1)
    found = compare(report(a), report(b))
    assert found.headline == (
        "B's step is 12.30 ms (24.6 %) longer than A's: transfer due to bandwidth grew by "
        "10.10 ms, waiting for the input grew by 4.20 ms, compute shrank by 2.00 ms"
    )


def test_no_more_than_three_parts_are_named():
    a = ledger(compute=10)
    b = ledger(compute=15, straggler=4, input_stall=3, exposed_mem=2)
    named = [part.part for part in changes(Difference.of(a.step_ns, b.step_ns), parts_of(a, b))]
    assert named == ["compute", "straggler", "input_stall"]


@pytest.mark.parametrize(("grown_ms", "named"), [(1.0, ["compute"]), (0.9, [])])
def test_what_changed_by_less_than_one_percent_of_the_longer_step_is_not_named(grown_ms, named):
    a = ledger(compute=50, exposed_mem=50 - grown_ms)
    b = ledger(compute=50 + grown_ms, exposed_mem=50 - grown_ms)
    step = Difference.of(a.step_ns, b.step_ns)
    assert [part.part for part in changes(step, parts_of(a, b))] == named
    assert ("no part changed" in compare(report(a), report(b)).headline) == (not named)


def test_time_that_only_one_run_tells_apart_is_named_as_a_whole():
    """A knows what its exposed communication was, B does not: 3 ms more of it, not 10 less."""
    a = ledger(compute=40, straggler=4, comm_bandwidth=6)
    b = ledger(compute=40, comm_unknown=13)
    assert compare(report(a), report(b)).headline.endswith(
        "longer than A's: exposed communication grew by 3.00 ms"
    )


# --- runs without a ledger ---


def test_without_a_ledger_the_medians_of_the_steps_are_compared():
    found = compare(report(spread_ms=1), report(ledger(compute=12), spread_ms=0.5))
    assert found.step_ns == Difference(10 * MS, 12 * MS, 2 * MS)
    assert (found.parts, found.ranks) == ([], [])
    assert found.reason == "A lacks figures of which the parts are made"
    assert found.headline == "B's step is 2.00 ms (20.0 %) longer than A's"


def test_a_report_of_before_there_was_a_ledger_says_so():
    old = replace(report(), diagnosis=Diagnosis(None, "", []))
    assert compare(report(ledger(compute=1)), old).reason == (
        "B was saved before reports told what a step is made of"
    )


def test_a_recording_without_steps_has_no_step_to_compare():
    whole = analyze(run(trace(("compute", 0, 100), marks=())))
    found = compare(whole, report(ledger(compute=1)))
    assert (found.step_ns, found.parts, found.ranks) == (None, [], [])
    assert found.headline == "no step to compare: A has no step marks"
    assert not found.comparable


def test_a_run_whose_ranks_are_all_partial_says_so():
    cut = analyze(run(trace(("compute", 0, 100), marks=[(0, 100)], partial="it stops")))
    found = compare(report(ledger(compute=1)), cut)
    assert found.headline == "no step to compare: B has no rank that was read whole"
    assert codes(found)[-1] == "partial"


def test_runs_of_a_cpu_are_compared():
    rows = [("compute", 0, 80), ("comm", 60, 100)]
    host = analyze(run(trace(*rows, marks=[(0, 100)], device="host")))
    found = compare(host, host)
    assert found.step_ns.difference_ns == 0
    assert sum(part.a_ns for part in found.parts) in (0, found.step_ns.a_ns)


# --- the JSON ---


def test_a_saved_report_compares_as_the_run_does():
    report_of_run = two_ranks()
    saved = from_json(report_to_json(report_of_run))
    other = report(ledger(compute=1))
    assert compare(saved, other) == compare(report_of_run, other)
    assert compare(other, saved) == compare(other, report_of_run)


def test_the_json_holds_everything_and_begins_with_its_version():
    found = compare(report(ledger(compute=9)), report(ledger(compute=8))).named("x", "y")
    document = json.loads(to_json(found))
    assert next(iter(document)) == "schema"
    assert document["schema"] == 1
    assert (document["a"]["name"], document["b"]["name"]) == ("x", "y")
    assert document["step_ns"] == {"a_ns": 9 * MS, "b_ns": 8 * MS, "difference_ns": -MS}
    assert document["parts"][0] == {
        "part": "compute",
        "group": "compute",
        "words": "compute",
        "a_ns": 9 * MS,
        "b_ns": 8 * MS,
        "difference_ns": -MS,
        "share_ratio": 1.0,
    }
