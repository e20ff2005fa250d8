"""Two runs side by side: differences add up, and what changed is told."""

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pages import two_ranks
from traces import run, trace

from ddptrace import analyze
from ddptrace.compare.comparison import compare, to_json
from ddptrace.compare.facts import Unknown
from ddptrace.compare.parts import Difference, changes, grouped, parts_of
from ddptrace.diagnosis.finding import Diagnosis
from ddptrace.diagnosis.ledger import PARTS, Ledger
from ddptrace.metrics.bucket_summary import Bucket, BucketFacts
from ddptrace.metrics.recording import PartTime, Recording, RunPart
from ddptrace.metrics.settings import DdpSettings, Settings
from ddptrace.metrics.summary import StepTimes, Summary
from ddptrace.outputs.comparison import render
from ddptrace.outputs.terminal import Destination
from ddptrace.report import from_json
from ddptrace.report import to_json as report_to_json

MS = 1_000_000


def ledger(rank=0, step=7, **parts) -> Ledger:
    """State a ledger in ms; what is not stated is 0."""
    every = {name: round(parts.get(name.removesuffix("_ns"), 0) * MS) for name in PARTS}
    return Ledger(rank=rank, step=step, step_ns=sum(every.values()), **every)


BASE = two_ranks()


def report(*ledgers, counted=9, run_facts=None, spread_ms=0.0):
    """State a report with these ledgers; its steps vary by `spread_ms` around the longest one."""
    diagnosis = Diagnosis(None, "", [], "median step", None, None, list(ledgers))
    facts = replace(BASE.run, **(run_facts or {}))
    longest = max((each.step_ns for each in ledgers), default=10 * MS)
    spread = round(spread_ms * MS)
    times = StepTimes(longest, longest + spread, longest - spread, longest + spread)
    summary = Summary(times, 7, [], counted)
    return replace(BASE, run=facts, diagnosis=diagnosis, summary=summary)


def codes(found):
    return [one.code for one in found.cautions]


def changed(found):
    return {f"{one.topic}.{one.what}": (one.a, one.b) for one in found.changed}


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


# --- how far times can be compared ---


def with_settings(**told):
    return {"run_facts": {"settings": Settings(**told)}}


FULL = [RunPart("full", ["cpu", "cuda"], [7], ["steps"])]
CHEAP = [RunPart("figures", ["cuda"], [7], ["steps"]), RunPart("full", ["cpu"], [9], ["causes"])]


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        ({"measured": "host"}, "other_measure"),
        ({"sources": {"0": "nsys", "1": "nsys"}}, "other_profiler"),
        ({"parts": CHEAP}, "other_recording"),
        ({"settings": Settings(switches=["with_stack"])}, "other_options"),
        ({"settings": Settings(options={"record_shapes": True})}, "other_options"),
    ],
)
def test_runs_that_were_recorded_otherwise_are_not_comparable(facts, code):
    found = compare(report(ledger(compute=9)), report(ledger(compute=8), run_facts=facts))
    assert codes(found) == [code]
    assert not found.comparable
    assert found.step_ns.difference_ns == -MS  # shown all the same


def test_shapes_of_other_steps_than_those_of_the_figures_do_not_matter():
    """Options of the recorder are of its full part; figures come from GPU activities alone."""
    plain, shapes = ({"parts": CHEAP, "settings": Settings(options={"record_shapes": on})}
                     for on in (False, True))  # fmt: skip
    found = compare(report(ledger(), run_facts=plain), report(ledger(), run_facts=shapes))
    assert (codes(found), found.comparable) == ([], True)
    assert changed(found) == {"options.record_shapes": (False, True)}


def test_a_slowed_or_partial_run_is_said_to_be():
    slow = Recording(10 * MS, [PartTime("full", 12 * MS, 0.2)])
    facts = {"recording": slow, "partial_ranks": [1], "missing_ranks": [2, 3]}
    found = compare(report(ledger(compute=9)), report(ledger(compute=9), run_facts=facts))
    assert [(one.code, one.message) for one in found.cautions] == [
        ("partial", "B: rank 1 was not read whole and does not count"),
        ("missing_ranks", "B: rank 2-3 is not recorded"),
        ("slowed", "B: recording made the step 20 % longer"),
    ]
    assert found.comparable
    calm = replace(slow, parts=[PartTime("full", 11 * MS, 0.1)])
    facts = {"recording": calm}
    assert codes(compare(report(ledger()), report(ledger(), run_facts=facts))) == []


@pytest.mark.parametrize(
    ("steps", "few"), [(0, False), (1, True), (2, True), (3, False), (None, False)]
)
def test_few_steps_are_said_to_be_few(steps, few):
    found = compare(report(ledger(compute=9)), report(ledger(compute=8), counted=steps))
    assert codes(found) == ["few_steps"] * few


@pytest.mark.parametrize(("spread_ms", "overlap"), [(0.5, True), (0.499, False)])
def test_steps_that_vary_by_as_much_as_the_difference_are_said_to(spread_ms, overlap):
    runs = [report(ledger(compute=ms), spread_ms=spread_ms) for ms in (9, 10)]
    assert codes(compare(*runs)) == ["within_spread"] * overlap


def test_what_forbids_to_compare_comes_first():
    nsys = {"sources": {"0": "nsys"}, "device": "another"}
    found = compare(report(ledger(), run_facts={"device": "one"}), report(ledger(), run_facts=nsys))
    assert codes(found) == ["other_profiler", "other_device"]
    assert [one.comparable for one in found.cautions] == [False, True]


def test_another_gpu_and_another_number_of_ranks_are_said_first():
    a = report(ledger(compute=9), run_facts={"device": "A100", "world_size": 2})
    b = report(ledger(compute=9), run_facts={"device": "H100", "world_size": 4})
    found = compare(a, b)
    assert [one.message for one in found.cautions] == [
        "A ran on A100, B on H100", "A has 2 ranks, B 4"
    ]  # fmt: skip
    assert changed(found) == {"run.device": ("A100", "H100"), "run.world_size": (2, 4)}


# --- what changed ---

DDP = DdpSettings(26_214_400, False, False, True, None)


def test_what_the_recorder_tells_is_compared():
    a = Settings(command=["train", "--bf16"], options={"steps": 3, "new": 1}, ddp=[DDP])
    b = Settings(
        command=["train"],
        options={"steps": 5},
        ddp=[replace(DDP, bucket_cap_bytes=1, static_graph=True, comm_hook="bf16")],
    )
    versions = {"torch": "2.10", "nccl": "2.28", "cupti": "1"}, {"torch": "2.11", "nccl": "2.28"}
    found = compare(
        report(ledger(), run_facts={"settings": a, "versions": versions[0]}),
        report(ledger(), run_facts={"settings": b, "versions": versions[1], "ranks": [0]}),
    )
    assert changed(found) == {
        "run.ranks": ([0, 1], [0]),
        "command.command": (["train", "--bf16"], ["train"]),
        "versions.torch": ("2.10", "2.11"),
        "ddp.bucket_cap_bytes": (26_214_400, 1),
        "ddp.static_graph": (False, True),
        "ddp.comm_hook": ("none told", "bf16"),
        "options.steps": (3, 5),
    }
    assert Unknown("versions", "cupti", ["b"]) in found.unknown
    assert Unknown("options", "new", ["b"]) in found.unknown


def test_buckets_are_compared_by_their_number_and_sizes():
    def with_buckets(*sizes, total=None):
        layout = [Bucket(number, size, None, None, []) for number, size in enumerate(sizes)]
        facts = BucketFacts(len(sizes), total, None)
        return replace(report(ledger(), run_facts={"buckets": facts}), buckets=layout)

    assert changed(compare(with_buckets(1, 2, total=3), with_buckets(3, total=3))) == {
        "buckets.count": (2, 1),
        "buckets.sizes": ([1, 2], [3]),
    }
    unsized = compare(with_buckets(1, 2, total=3), with_buckets(None, None))
    assert changed(unsized) == {}
    assert Unknown("buckets", "sizes", ["b"]) in unsized.unknown
    without = compare(with_buckets(1), report(ledger(), run_facts={"buckets": None}))
    assert Unknown("buckets", None, ["b"]) in without.unknown


def test_the_cuda_that_a_driver_runs_is_no_version_of_the_driver():
    versions = [{"driver": word} for word in ("12.4", "13.0", "580.65.06", "570.1")]
    runs = [report(ledger(), run_facts={"versions": one}) for one in versions]
    assert changed(compare(*runs[:2])) == {"versions.CUDA that the driver runs": ("12.4", "13.0")}
    assert changed(compare(*runs[1:3])) == {}
    assert changed(compare(*runs[2:])) == {"versions.driver": ("580.65.06", "570.1")}


def test_a_world_size_that_is_not_known_is_no_other_one():
    found = compare(report(ledger(), run_facts={"world_size": None}), report(ledger()))
    assert (codes(found), changed(found)) == ([], {})
    assert Unknown("run", "world_size", ["a"]) in found.unknown


def test_several_modules_are_compared_one_by_one():
    a, b = (Settings(ddp=[DDP, replace(DDP, bucket_cap_bytes=cap)]) for cap in (1, 2))
    found = compare(*(report(ledger(), run_facts={"settings": one}) for one in (a, b)))
    assert changed(found) == {"ddp.bucket_cap_bytes of module 1": (1, 2)}


def test_what_a_report_does_not_tell_is_said_of_it():
    old = report(ledger(), counted=None, run_facts={"settings": None})
    new = report(ledger(), run_facts={"settings": Settings(command=["x"], ddp=[DDP])})
    found = compare(old, new)
    assert changed(found) == {}
    unknown = [(one.topic, one.what, one.runs) for one in found.unknown]
    assert ("command", None, ["a"]) in unknown
    assert ("ddp", None, ["a"]) in unknown
    assert ("options", None, ["a", "b"]) in unknown
    assert ("recording", "switches", ["a"]) in unknown
    assert ("steps", None, ["a"]) in unknown


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
