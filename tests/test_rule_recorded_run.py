"""A recording that slowed the run, steps unlike the others, and DDP's own averages; in µs."""

import pytest
from findings import STEP, backward, costs, figures, findings, of_ddp, reduce
from test_recording import part, rank
from traces import run, trace

from ddptrace import analyze
from ddptrace.manifest import DdpModule, Manifest, RankFacts
from ddptrace.model import Group

# --- slowed by recording


def slowed(unprofiled, recorded):
    recording = trace(("compute", 0, 100), marks=((0, 100),), part="full")
    manifest = Manifest(ranks=(rank(0, [unprofiled], part("full", recorded)),))
    return findings("recording_slowed_run", recording, manifest=manifest)


@pytest.mark.parametrize(("recorded", "count"), [(110_000, 0), (110_001, 1), (150_000, 1)])
def test_a_recording_that_makes_steps_a_tenth_longer_slowed_the_run(recorded, count):
    found = slowed(100_000, recorded)
    assert [one.cost_ns for one in found] == [recorded - 100_000] * count


def test_what_a_slowed_run_rests_on():
    (found,) = slowed(100_000, 150_000)
    assert figures(found) == {
        "slowdown_ratio": (0.5, 0.1),
        "step_ns": (150_000, None),
        "unprofiled_step_ns": (100_000, None),
    }


def test_another_part_than_that_of_the_figures_may_be_slowed():
    cheap = trace(("compute", 0, 100), marks=((0, 100, 1),), part="figures")
    full = trace(("compute", 500, 600), marks=((500, 600, 2),), part="full")
    parts = part("figures", 100_000), part("full", 200_000)
    manifest = Manifest(ranks=(rank(0, [100_000], *parts),))
    assert costs("recording_slowed_run", cheap, full, manifest=manifest) == []
    assert costs("recording_slowed_run", full, manifest=manifest) == [100_000]


def test_without_times_nobody_knows_what_recording_cost():
    assert findings("recording_slowed_run", trace(("compute", 0, 100))) == []


# --- cold steps


def lasting(*lengths):
    """State steps of these lengths; the first of a recording does not count."""
    rows, marks, at = [], [], 0
    for length in (1000, *lengths):
        rows.append(("compute", at, at + length))
        marks.append((at, at + length))
        at += length
    return trace(*rows, marks=marks)


@pytest.mark.parametrize(
    ("lengths", "said"),
    [
        ((1500, 1000, 1000, 1000), "step 1 "),
        ((1499, 1000, 1000, 1000), None),
        ((2000, 2000, *(1000,) * 6), "step 1-2 "),
        ((2000, 2000, *(1000,) * 5), None),  # too many to be exceptions
        ((1000, 1000, 1000, 3000, 1000), "step 4 "),
        ((1000, 3000, 1000, 1000, 1000, 3000, 1000, 1000), None),  # in turn: they do more
        ((3000, 1000, 1000), None),  # too few to tell
    ],
)
def test_first_steps_or_a_single_one_may_be_unlike_the_others(lengths, said):
    found = findings("cold_steps", lasting(*lengths))
    assert [one.advice.startswith(said or "-") for one in found] == [True] * (said is not None)
    assert all(one.cost_ns is None for one in found)


def test_each_slow_step_is_held_against_the_limit():
    (found,) = findings("cold_steps", lasting(2000, *(1000,) * 4))
    assert figures(found) == {"step_ns: step 1": (2_000_000, 1_500_000)}
    assert "before recording" in found.advice
    (found,) = findings("cold_steps", lasting(1000, 2000, *(1000,) * 4))
    assert "checkpoint" in found.advice


# --- DDP's averages


def bucket_span(span=1000, passes=1, rank=0):
    rows, group = [], Group(str(rank), (rank,), 1)
    for number in range(passes):
        at = 2000 * number
        rows += [("compute", at, at + 100), backward(at + 100, at + 200)]
        rows += [reduce(at + 200, at + 200 + span // 2, at + 101, group=group)]
        rows += [reduce(at + 200 + span // 2, at + 200 + span, at + 102, group=group)]
    return trace(*rows, ("compute", 9000, STEP), marks=((0, STEP),), rank=rank)


@pytest.mark.parametrize(
    ("told", "count"),
    [(3_000_000, 0), (3_000_001, 1), (333_334, 0), (333_333, 1), (0, 0), ("x", 0), (None, 0)],
)
def test_averages_that_are_three_times_off_disagree(told, count):
    manifest = of_ddp(ddp_averages={"backward_comm_ns": told})
    found = findings("ddp_logger_disagrees", bucket_span(), manifest=manifest)
    assert [one.cost_ns for one in found] == [None] * count


def test_both_values_are_shown():
    manifest = of_ddp(ddp_averages={"backward_comm_ns": 4_000_000})
    (found,) = findings("ddp_logger_disagrees", bucket_span(), manifest=manifest)
    assert figures(found) == {
        "ratio": (4.0, 3.0),
        "backward_comm_ns": (4_000_000, None),
        "bucket_span_ns": (1_000_000, None),
    }


def test_ranks_whose_logs_disagree_are_one_finding_with_the_figures_of_the_worst():
    told = ({0: 4_000_000, 1: 1_100_000, 2: 100_000}, {0: 3_100_000, 1: 3_000_000})
    for averages, expected in zip(told, ([0, 2], [0]), strict=True):
        traces = [bucket_span(rank=rank) for rank in averages]
        manifest = Manifest(
            ranks=tuple(
                RankFacts(rank=rank, ddp=(DdpModule(ddp_averages={"backward_comm_ns": ns}),))
                for rank, ns in averages.items()
            )
        )
        (found,) = findings("ddp_logger_disagrees", *traces, manifest=manifest)
        assert found.ranks == expected
        assert figures(found)["ratio"][0] == (10.0 if len(averages) == 3 else 3.1)


def test_of_several_modules_nobody_knows_whose_buckets_are_meant():
    module = DdpModule(ddp_averages={"backward_comm_ns": 40_000_000})
    for modules, found in (((module,), [None]), ((module, module), [])):
        manifest = Manifest(ranks=(RankFacts(rank=0, ddp=modules),))
        assert costs("ddp_logger_disagrees", bucket_span(), manifest=manifest) == found


def test_what_is_far_below_a_step_s_percent_may_be_off():
    manifest = of_ddp(ddp_averages={"backward_comm_ns": 99_000})
    assert costs("ddp_logger_disagrees", bucket_span(10), manifest=manifest) == []


def test_of_several_passes_or_none_there_is_no_span_to_compare():
    manifest = of_ddp(ddp_averages={"backward_comm_ns": 40_000_000})
    assert costs("ddp_logger_disagrees", bucket_span(passes=2), manifest=manifest) == []
    assert costs("ddp_logger_disagrees", lasting(1000), manifest=manifest) == []


def test_none_of_this_is_the_verdict():
    made = analyze(run(lasting(2000, *(1000,) * 4)))
    assert made.diagnosis.bottleneck == "no_communication"
    assert made.diagnosis.findings[-1].code == "cold_steps"
