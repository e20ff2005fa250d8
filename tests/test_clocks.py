"""Clocks of ranks: how far they are apart is told by the ends of collectives, and only drawn."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from traces import run, trace

from ddptrace import analyze
from ddptrace.intervals import Intervals
from ddptrace.manifest import Manifest, RankFacts
from ddptrace.metrics.clock_fit import estimates, fit
from ddptrace.metrics.timebase import Correction, Timebase
from ddptrace.model import Facts
from ddptrace.outputs.clocks import clock_lines, clock_sentences
from ddptrace.report import from_json, to_json

TIMES = ("start_ns", "end_ns", "launch_ns")
MOMENTS = (*TIMES, "first_ready_ns", "ready_ns", "released_ns")


def job(*late_us, ahead_us=None, steps=4, step_us=10_000, **facts):
    """State ranks that compute this much longer in each step and then reduce twice, ending at once.

    rank 0  compute  ####.......####     the clock of each rank is ahead by `ahead_us`
            comm     ....#######....##
    rank 1  compute  #########..####
            comm     .........##....##
    """
    ahead_us = ahead_us or [0] * len(late_us)
    return [
        trace(
            *(
                (kind, begin + start, begin + end)
                for begin in range(ahead, ahead + steps * step_us, step_us)
                for kind, start, end in (
                    ("compute", 0, 1000 + late),
                    ("comm", 1000 + late, 5000),
                    ("compute", 5000, 6000),
                    ("comm", 6000, 6500),
                )
            ),
            marks=[
                (begin, begin + step_us) for begin in range(ahead, ahead + steps * step_us, step_us)
            ],
            rank=rank,
            world_size=len(late_us),
            **facts,
        )
        for rank, (late, ahead) in enumerate(zip(late_us, ahead_us, strict=True))
    ]


def shifted(one, by_ns):
    """Return a recording as a clock that is ahead by so much would have told it."""
    ops = replace(one.ops, **{name: getattr(one.ops, name) + by_ns for name in TIMES})
    marks = tuple(
        replace(mark, start_ns=mark.start_ns + by_ns, end_ns=mark.end_ns + by_ns)
        for mark in one.marks
    )
    return replace(one, ops=ops, marks=marks)


def of_host(one, host):
    return replace(one, facts=replace(one.facts, host=host))


def starts(report):
    return [
        (one.rank, one.start_ns, one.end_ns)
        for one in (*report.steps, *(rank for each in report.collectives for rank in each.ranks))
    ]


def without_moments(report):
    """Return all of a report that no clock may change."""
    document = json.loads(to_json(report))
    document["run"] |= {"clocks": None, "origin_ns": None}

    def kept(node):
        if isinstance(node, dict):
            return {name: kept(value) for name, value in node.items() if name not in MOMENTS}
        return [kept(value) for value in node] if isinstance(node, list) else node

    return kept(document)


def lengths(report):
    return [
        [end - start for start, end in getattr(one, kind)]
        for one in report.timeline.recordings
        for kind in ("compute", "hidden_comm", "exposed_comm", "mem")
    ]


def told(report):
    return [(one.rank, one.offset_ns, one.applied) for one in report.run.clocks]


def test_ends_meet_and_the_straggler_stays_late_whatever_the_clocks_say():
    report = analyze(run(*job(3000, 0, 0, 0, ahead_us=[0, 1500, 3000, 4500])))
    assert told(report) == [(1, 1_500_000, True), (2, 3_000_000, True), (3, 4_500_000, True)]
    assert {one.spread_ns for one in report.run.clocks} == {0}
    for collective in report.collectives:
        assert len({one.end_ns for one in collective.ranks}) == 1
    first = report.collectives[0].ranks
    assert [one.start_ns for one in first] == [4_000_000, 1_000_000, 1_000_000, 1_000_000]
    assert [one.wait_ns for one in first] == [0, 3_000_000, 3_000_000, 3_000_000]


def test_pictures_and_steps_are_on_the_clock_of_the_reference():
    true = analyze(run(*job(0, 500)))
    wrong = analyze(run(*job(0, 500, ahead_us=[0, 7000])))
    assert starts(wrong) == starts(true)
    assert wrong.timeline == true.timeline
    assert wrong.run.origin_ns == true.run.origin_ns == "0"


def test_the_origin_is_the_first_moment_on_the_clock_of_the_reference():
    late_start = job(0, 0, ahead_us=[9000, 0])
    report = analyze(run(*late_start))
    assert report.run.origin_ns == "9000000"
    assert min(row.start_ns for row in report.steps) == 0


@given(st.integers(0, 3), st.integers(-500 * 10**9, 500 * 10**9))
def test_no_clock_changes_a_duration(rank, by_ns):
    ranks = job(3000, 0, 700, 100)
    moved = [shifted(one, by_ns) if one.rank == rank else one for one in ranks]
    before, after = analyze(run(*ranks)), analyze(run(*moved))
    assert without_moments(after) == without_moments(before)
    assert lengths(after) == lengths(before)


@given(st.integers(0, 3), st.integers(1_100_000, 500 * 10**9), st.sampled_from((-1, 1)))
def test_aligned_moments_do_not_depend_on_how_far_a_clock_is_off(rank, by_ns, sign):
    rough = np.random.default_rng(rank).integers(-20_000, 20_000, (4, 16))
    ranks = [jittered(one, rough[one.rank]) for one in job(3000, 0, 700, 100)]
    moved = [shifted(one, sign * by_ns) if one.rank == rank else one for one in ranks]
    before, after = analyze(run(*ranks)), analyze(run(*moved))
    assert [one.applied for one in before.run.clocks] == [False] * 3
    spread_ns = max(one.spread_ns for one in (*before.run.clocks, *after.run.clocks))
    for one, other in zip(starts(before), starts(after), strict=True):
        assert abs(one[1] - other[1]) <= spread_ns


def jittered(one, by_ns):
    """Return a recording whose operations end a little earlier or later."""
    return replace(one, ops=replace(one.ops, end_ns=one.ops.end_ns + by_ns))


@pytest.mark.parametrize(("ahead_us", "applied"), [(1000, False), (1001, True), (-1001, True)])
def test_below_a_millisecond_ends_of_collectives_differ_anyway(ahead_us, applied):
    report = analyze(run(*job(0, 0, ahead_us=[0, ahead_us])))
    assert told(report) == [(1, 1000 * ahead_us, applied)]


def test_what_is_not_more_than_the_ends_differ_is_no_offset():
    one, other = job(0, 0)
    rough = np.arange(len(other.ops)) % 3 * 2_000_000
    report = analyze(run(one, jittered(other, rough)))
    (clock,) = report.run.clocks
    assert clock.offset_ns == 2_000_000
    assert (clock.spread_ns, clock.applied) == (2_000_000, False)


def test_ranks_of_one_host_need_no_offset():
    ranks = job(0, 0, 0, ahead_us=[0, 5000, 9000])
    hosts = [of_host(one, host) for one, host in zip(ranks, "aab", strict=True)]
    report = analyze(run(*hosts))
    assert told(report) == [(1, 5_000_000, False), (2, 9_000_000, True)]
    assert [one.shares_clock for one in report.run.clocks] == [True, False]
    (moved, odd) = clock_sentences(report)
    assert "rank 2 are moved by 9.000 ms onto the clock of rank 0" in moved
    assert "rank 1 end 5.000 ms apart from those of rank 0, on one clock" in odd


def test_ranks_of_another_host_are_moved_together():
    ranks = job(0, 0, 0, 0, ahead_us=[0, 0, 5000, 5010])
    hosts = [of_host(one, host) for one, host in zip(ranks, "aabb", strict=True)]
    report = analyze(run(*hosts))
    assert told(report) == [(1, 0, False), (2, 5_000_000, True), (3, 5_000_000, True)]


def test_the_manifest_tells_hosts_and_a_name_of_two_nodes_is_of_two_hosts():
    ranks = run(*job(0, 0, ahead_us=[0, 5000]))
    for nodes, applied in (((0, 0), False), ((None, None), False), ((0, 1), True)):
        facts = tuple(RankFacts(rank, node=nodes[rank], host="localhost") for rank in range(2))
        report = analyze(replace(ranks, manifest=Manifest(ranks=facts)))
        assert told(report) == [(1, 5_000_000, applied)]


@pytest.mark.parametrize(
    "known",
    [{"facts": Facts(gpu="GPU-1")}, {"source": "nsys", "path": "all.sqlite"}],
    ids=["one GPU", "one report of nsys"],
)
def test_one_gpu_or_one_report_of_nsys_is_one_clock(known):
    ranks = [replace(one, **known) for one in job(0, 0, ahead_us=[0, 5000])]
    assert told(analyze(run(*ranks))) == [(1, 5_000_000, False)]


def test_recordings_without_the_time_of_day_are_placed_by_their_collectives():
    one, other = job(0, 0)
    report = analyze(run(one, replace(shifted(other, -7_777), clock="relative")))
    assert told(report) == [(1, 0, True)]
    assert report.run.origin_ns == "0"
    later = replace(shifted(job(0, 0, steps=3)[0], 10**16), clock="relative", path="a.json")
    report = analyze(run(later, other))
    assert report.run.origin_ns == "0"
    assert [one.reference for one in report.run.clocks] == [1]


def test_all_ranks_may_lack_the_time_of_day():
    ranks = [replace(one, clock="relative") for one in job(0, 0, 0, ahead_us=[0, 400, 800])]
    first = replace(ranks[0], ops=ranks[0].ops.take(slice(2, None)))  # its first step lost work
    report = analyze(run(first, *ranks[1:]))
    assert report.run.origin_ns is None
    assert min(row.start_ns for row in report.steps) == 0
    for collective in report.collectives[1:]:
        assert len({one.end_ns for one in collective.ranks}) == 1


def test_without_collectives_in_common_no_clock_is_compared():
    lonely = [trace(("compute", 0, 10), marks=[(0, 10)], rank=rank) for rank in range(2)]
    report = analyze(run(*lonely))
    assert report.run.clocks == []
    assert clock_lines(report) == []


def test_ranks_of_one_relative_file_stay_together():
    ranks = [
        replace(one, clock="relative", path="all.json") for one in job(0, 0, ahead_us=[0, 300])
    ]
    report = analyze(run(*ranks))
    assert told(report) == [(1, 300_000, False)]
    assert min(one.start_ns for one in report.steps if one.rank == 1) == 300_000


def test_a_clock_that_drifts_is_followed_and_lengths_stay():
    """Rank 1's clock gains 50 µs a second: 3 ms over a minute."""
    one, other = job(0, 0, steps=120, step_us=500_000)
    ops = other.ops
    gained = ops.start_ns // 20_000
    drifting = replace(
        other,
        ops=replace(ops, **{name: getattr(ops, name) + gained for name in TIMES}),
        marks=tuple(
            replace(
                mark,
                start_ns=mark.start_ns + mark.start_ns // 20_000,
                end_ns=mark.end_ns + mark.end_ns // 20_000,
            )
            for mark in other.marks
        ),
    )
    report = analyze(run(one, drifting))
    (clock,) = report.run.clocks
    assert clock.applied
    assert clock.drift_ppb == pytest.approx(50_000, abs=10)
    assert abs(clock.offset_ns) < 2000
    true = analyze(run(one, other))
    for found, known in zip(starts(report), starts(true), strict=True):
        assert found[0] == known[0]
        assert found[1] == pytest.approx(known[1], abs=2000)
    for row in report.steps:
        assert row.end_ns - row.start_ns == row.step_ns
    for before, after in zip(lengths(report), lengths(true), strict=True):
        assert np.abs(np.array(before) - after).max(initial=0) <= 1
    for each in report.timeline.recordings:
        ends = [end for _, end in each.compute]
        assert all(end <= start for end, (start, _) in zip(ends, each.compute[1:], strict=False))
    for collective in report.collectives:
        for mine in collective.ranks:
            assert mine.hidden_ns + mine.exposed_ns == mine.end_ns - mine.start_ns


def test_a_clock_that_is_only_noisy_does_not_drift():
    rng = np.random.default_rng(1)
    ends = np.cumsum(rng.integers(10**7, 10**8, (400, 1)), axis=0).astype(float)
    both = np.hstack((ends, ends + 4e6 + rng.normal(0, 30_000, ends.shape)))
    found = fit(both, 1, 0)
    assert found.drift_ppb == 0
    assert abs(found.offset_ns - 4e6) < 10_000


def test_a_few_collectives_that_do_not_end_together_change_nothing():
    ends = np.arange(20.0)[:, None] * 1e6 * [[1, 1]] + [[0, 2e6]]
    ends[::5, 1] += 7e6
    found = fit(ends, 1, 0)
    assert (found.offset_ns, found.spread_ns) == (2_000_000, 7_000_000)
    ends[0::10, 1] -= 7e6  # now nine of ten are right
    assert fit(ends, 1, 0).spread_ns == 0


def test_a_rank_is_reached_over_the_fewest_others_and_the_most_collectives():
    """Columns are ranks: 3 has nothing in common with 0, one with 1 and two with 2."""
    gap = np.nan
    ends = np.array(
        [
            [0, 10, 20, gap],
            [100, 110, 120, gap],
            [gap, 200, gap, 999],
            [gap, gap, 320, 330],
            [gap, gap, 420, 430],
        ]
    )
    found = estimates([ends], range(4))
    assert {clock: (root, one.offset_ns) for clock, (root, one) in found.items()} == {
        0: (0, 0), 1: (0, 10), 2: (0, 20), 3: (0, 30)
    }  # fmt: skip
    assert (found[3][1].count, found[3][1].spread_ns) == (2, 0)


def test_clocks_that_nothing_connects_have_references_of_their_own():
    gap = np.nan
    ends = np.array([[0, 5, gap, gap], [gap, gap, 50, 57]])
    found = estimates([ends], [2, 0, 1, 3])
    assert {clock: (root, one.offset_ns) for clock, (root, one) in found.items()} == {
        2: (2, 0), 3: (2, 7), 0: (0, 0), 1: (0, 5)
    }  # fmt: skip


def test_operations_that_one_rank_may_end_early_count_only_without_others():
    gap = np.nan
    sure = np.array([[0, 10, gap]])
    unsure = np.array([[0, 99, gap], [gap, 99, 120]])
    found = estimates([sure, unsure], range(3))
    assert [found[clock][1].offset_ns for clock in range(3)] == [0, 10, 31]
    assert found[1][1].spread_ns is None


def test_the_table_of_clocks_has_a_line_a_rank():
    report = analyze(run(*job(0, 0, 0, ahead_us=[0, 1500, -20])))
    assert clock_lines(report) == [
        "clocks, from the ends of collectives; nine of ten end within the spread",
        "rank  against  ahead ms  drift ppm  spread ms  collectives",
        "   1   rank 0    +1.500          -      0.000            8  aligned",
        "   2   rank 0    -0.020          -      0.000            8  not moved",
    ]
    (line,) = clock_sentences(report)
    assert line == (
        "clocks: the times of rank 1 are moved by 1.500 ms onto the clock of rank 0, so that the "
        "ends of collectives meet (nine of ten within 0.000 ms)"
    )


def test_a_report_with_clocks_survives_its_json():
    report = analyze(run(*job(0, 0, ahead_us=[0, 1500])))
    assert from_json(to_json(report, timeline=True)) == report
    assert json.loads(to_json(report))["run"]["clocks"] == [
        {
            "rank": 1, "reference": 0, "offset_ns": 1_500_000, "drift_ppb": None, "spread_ns": 0,
            "collectives": 8, "shares_clock": False, "applied": True,
        }
    ]  # fmt: skip


def test_intervals_of_a_drifting_clock_stay_apart_and_keep_their_lengths():
    """A clock that gains a thousandth puts two neighbours of 1 s each 1 ms into each other."""
    base = Timebase({0: (0,)}, 0, is_common=True, corrections={0: Correction(500, 1_000_000)})
    second = np.array([0, 10**9, 3 * 10**9])
    moved = base.moved_set(0, 0, Intervals(second, second + 10**9))
    assert moved.start.tolist() == [-500, 998_999_500, 2_996_999_500]
    assert moved.end.tolist() == [998_999_500, 1_998_999_500, 3_996_999_500]


def test_the_drifts_of_two_links_count_from_the_same_moment():
    """Clock 2 is 10 s ahead of clock 1, which gains 50 µs a second on clock 0."""
    true = np.arange(0, 30e9, 1e9)
    one = true / (1 - 50e-6)
    gap = np.full(30, np.nan)
    ends = np.concatenate(
        (np.stack((true, one, gap), axis=1), np.stack((gap, one, one + 10e9), axis=1))
    )
    found = estimates([ends], range(3))[2][1]
    behind = one + 10e9 - found.offset_ns - found.drift_ppb * 1e-9 * (one + 10e9)
    assert found.drift_ppb == 50_000
    assert np.abs(behind - true).max() < 10
