"""A link that its recorder timed: whose times count, and what transfers of steps make of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from test_cost import MB, samples
from whatif_jobs import Job, recorded, step_of

from ddptrace import predict
from ddptrace.manifest import Link, LinkGroup, Manifest
from ddptrace.outputs.predictions import grounds
from ddptrace.whatif.cost import LEAST_OTHER_JOB, OUTSIDE_RATIO, fit
from ddptrace.whatif.link_times import LinkTimes, link_times
from ddptrace.whatif.scenario import Scenario

MIB = 1 << 20
KIB = 1 << 10
SIZES = (MB // 10, MB, 10 * MB, 100 * MB)
TIMES = LinkTimes(np.array(SIZES), np.array([30_000.0, 60_000, 500_000, 6_000_000]))
"""20 GB/s up to 10 MB, and 16.4 from there to 100: messages of one kind are slower than others."""


def group(*members, sizes=(KIB, MIB), times=((9, 8, 7), (80, 90, 70)), operation="all_reduce"):
    return LinkGroup(members, operation, tuple(sizes), tuple(times))


def test_the_times_of_the_group_are_the_shortest_of_its_calls():
    """What else is going on only makes a call longer."""
    found = link_times(Link((group(0, 1),)), [0, 1], 2)
    assert (found.size_bytes.tolist(), found.time_ns.tolist()) == ([KIB, MIB], [7, 70])


def test_sizes_may_be_told_in_any_order():
    turned = group(0, 1, sizes=(MIB, KIB), times=((80, 90, 70), (9, 8, 7)))
    found = link_times(Link((turned,)), [0, 1], 2)
    assert (found.size_bytes.tolist(), found.time_ns.tolist()) == ([KIB, MIB], [7, 70])


def test_a_message_that_took_longer_than_a_larger_one_was_disturbed():
    times = link_times(Link((group(0, 1, times=((90,), (80,))),)), [0, 1], 2).time_ns
    assert times.tolist() == [80, 80]


@pytest.mark.parametrize(("ranks", "size"), [([0, 2], 2), ([0, 1], 4), ([0, 1, 2], None), ([4], 2)])
def test_another_group_tells_nothing(ranks, size):
    assert link_times(Link((group(0, 1),)), ranks, size) is None


def test_ranks_that_were_not_recorded_may_be_of_the_group():
    assert link_times(Link((group(0, 1, 2, 3),)), [0, 2], 4) is not None
    assert link_times(Link((group(0, 1, 2, 3),)), [0, 2], None) is not None


@pytest.mark.parametrize(
    "broken",
    [
        group(0, 1, operation="all_gather"),
        group(0, 1, sizes=(KIB,)),
        group(0, 1, times=((), ())),
        group(0, 1, sizes=(0, 0)),
        group(0, 1, sizes=(KIB, KIB)),
        group(0, 1, sizes=(KIB, MIB, 2 * MIB)),
        group(0, 1, times=((9,),)),
        group(0, 1, times=((9, 0), (80,))),
        group(0, 1, times=((9,), ())),
    ],
)
def test_what_cannot_be_used_is_not(broken):
    assert link_times(Link((broken,)), [0, 1], 2) is None


def test_a_run_without_a_measured_link_has_no_times():
    assert link_times(None, [0, 1], 2) is None
    assert link_times(Link((), "rank 0 ended"), [0, 1], 2) is None


def test_between_sizes_that_were_timed_there_are_straight_lines():
    """Transfers of 10 MB take the 500 µs that were timed: so do all others."""
    found = fit(samples(*[(10 * MB, 500_000)] * 4), timed=TIMES)
    assert not found.is_assumed
    assert found.timed_ratio == pytest.approx(1)
    assert found.curve(MB) == pytest.approx(60_000)
    assert found.curve(5.5 * MB) == pytest.approx(280_000)
    assert found.curve(55 * MB) == pytest.approx(3_250_000)
    assert found.curve(200 * MB) == pytest.approx(12_000_000)
    assert found.curve.fixed_ns(100 * MB) == pytest.approx(30_000 - 30_000 / 9)
    assert found.curve(MB // 20) == pytest.approx(30_000 - 30_000 / 18)


def test_no_transfer_begins_below_nothing():
    """Twice the size takes three times as long: from 0 on."""
    steep = LinkTimes(np.array((MB, 2 * MB)), np.array((50_000.0, 150_000)))
    found = fit(samples((MB, 50_000)), timed=steep).curve
    assert (found.fixed_ns(MB), found(MB // 2)) == (0, pytest.approx(25_000))


def test_transfers_that_take_longer_than_timed_make_all_others_longer():
    found = fit(samples(*[(10 * MB, 600_000)] * 4), timed=TIMES)
    assert found.timed_ratio == pytest.approx(1.2)
    assert found.curve(MB) == pytest.approx(72_000)
    assert found.residual_ratio == pytest.approx(0)


def test_what_is_longer_beside_compute_alone_is_not_a_slow_link():
    """Those alone take what was timed, those beside compute 1.5 times as long."""
    pairs = [(10 * MB, 500_000)] * 3 + [(MB, 90_000)] * 5
    found = fit(samples(*pairs, hidden=[0] * 3 + [1] * 5), timed=TIMES)
    assert found.contention == pytest.approx(1.5)
    assert found.timed_ratio == pytest.approx(1)


def test_without_a_transfer_alone_those_that_were_timed_are():
    found = fit(samples(*[(MB, 90_000)] * 5, hidden=[1] * 5), timed=TIMES)
    assert (found.contention, found.timed_ratio) == (pytest.approx(1.5), pytest.approx(1))


@pytest.mark.parametrize(
    ("alone_ns", "beside_ns", "expected"),
    [
        ([], [90_000], 1),  # one beside compute tells nothing
        ([1_000_000], [90_000] * 2, 1.5),  # one alone tells less than what was timed
        ([1_000_000] * 2, [90_000] * 2, 1),  # none is shorter beside compute
        ([], [118_000] * 2, 118 / 60),
        ([], [122_000] * 2, 1),  # more than twice as long: the link was another one
    ],
)
def test_how_much_longer_it_takes_beside_compute_is_told_by_two_or_more(
    alone_ns, beside_ns, expected
):
    pairs = [(10 * MB, each) for each in alone_ns] + [(MB, each) for each in beside_ns]
    hidden = [0] * len(alone_ns) + [1] * len(beside_ns)
    assert fit(samples(*pairs, hidden=hidden), timed=TIMES).contention == pytest.approx(expected)


def test_one_cold_transfer_does_not_make_all_others_longer():
    cold = fit(samples(*[(10 * MB, 500_000)] * 4, (10 * MB, 5_000_000)), timed=TIMES)
    assert cold.timed_ratio == pytest.approx(1)


def test_transfers_that_differ_leave_open_how_much_longer_than_timed_they_are():
    low, high = fit(samples(*[(MB, 54_000), (MB, 66_000)] * 3), timed=TIMES).bounds(MB)
    assert low < 59_000
    assert high > 61_000


def test_the_line_that_is_told_comes_nearest_to_what_was_timed():
    """30 µs + 50 µs a MB, of which the transfers of steps take 1.2 times as much."""
    sizes = np.array((MB, 2 * MB, 4 * MB))
    line = fit(samples((MB, 96_000)), timed=LinkTimes(sizes, 30_000 + sizes * 0.05)).curve.lines
    assert line.alpha_ns == pytest.approx((36_000,), rel=0.001)
    assert line.ns_per_byte == pytest.approx((0.06,), rel=0.001)


def test_sizes_that_are_too_much_alike_tell_no_fixed_cost():
    near = LinkTimes(np.array((10 * MB, 12 * MB)), np.array((500_000.0, 600_000)))
    line = fit(samples((10 * MB, 500_000)), timed=near).curve.lines
    assert (line.alpha_ns, line.ns_per_byte) == ((0,), (pytest.approx(0.05),))


def test_sizes_that_were_timed_are_known():
    found = fit(samples(*[(10 * MB, 500_000)] * 4), timed=TIMES)
    assert (found.smallest_bytes, found.largest_bytes) == (10 * MB, 10 * MB)
    assert [found.doublings_outside(size) for size in SIZES] == [0] * 4
    low, high = found.bounds(MB)
    assert high / low < 1.01
    low, high = found.bounds(1000 * MB)
    assert high / low == pytest.approx((1 + OUTSIDE_RATIO) ** 2)


def test_a_line_that_somebody_gives_counts_more_than_what_was_timed():
    found = fit(samples(*[(10 * MB, 500_000)] * 4), timed=TIMES).with_line(20_000, 10)
    assert (found.timed, found.timed_ratio) == (None, None)
    assert found.curve(MB) == pytest.approx(120_000)


SMALL_IS_FAST = Job(sizes=[16.0] * 6, buckets=[[0, 1], [2, 3], [4, 5]], kernel=300, per_mib=60)


def timed_run(job, folder, cost_us):
    """Return a recording of a job whose recorder has timed the link, too."""
    run = recorded(job, folder)
    sizes = (MIB, 4 * MIB, 16 * MIB, 32 * MIB, 96 * MIB)
    times = tuple((round(1000 * cost_us(size / MIB)),) * 3 for size in sizes)
    link = Link((LinkGroup((0, 1), "all_reduce", sizes, times),))
    return replace(run, manifest=Manifest(link=link))


def test_a_cap_with_faster_messages_is_found_though_none_was_recorded(tmp_path):
    """32 MiB take 1940 µs; the link moves 16 MiB in half of what a straight line would say."""
    job = SMALL_IS_FAST
    told = timed_run(job, tmp_path, lambda mib: job.alpha + mib * (60 if mib > 20 else 30))
    fast = replace(job, per_mib=30, buckets=[[place] for place in range(6)])
    known = predict(told, [16, 32])
    assert known.predictions[0].step_ns / 1000 == pytest.approx(step_of(fast), rel=0.03)
    assert known.predictions[1].step_ns / 1000 == pytest.approx(step_of(job), rel=0.002)
    assert known.best.bucket_cap_mb == 16
    assert known.best.gain_low_ns > 0
    unknown = predict(replace(told, manifest=None), [16, 32])
    assert unknown.best.bucket_cap_mb == 32 or unknown.best.gain_low_ns < 0


def test_what_was_timed_is_told_in_the_model_and_in_words(tmp_path):
    job = SMALL_IS_FAST
    found = predict(timed_run(job, tmp_path, lambda mib: job.alpha + mib * 60), [16])
    assert found.model.timed.size_bytes == [MIB, 4 * MIB, 16 * MIB, 32 * MIB, 96 * MIB]
    assert found.model.timed.time_ns[0] == 80_000
    assert found.model.timed.ratio == pytest.approx(1, rel=0.001)
    assert "5 sizes timed on the link alone, 1.00 times as long in steps; " in next(grounds(found))
    assert not any("assumed" in note for note in found.notes)
    assert not found.predictions[0].is_outside


def test_a_faster_link_moves_the_bytes_of_what_was_timed_faster(tmp_path):
    job = SMALL_IS_FAST
    told = timed_run(job, tmp_path, lambda mib: job.alpha + mib * 60)
    found = predict(told, [32], Scenario(link=2))
    faster = step_of(replace(job, per_mib=30))
    assert found.predictions[0].step_ns / 1000 == pytest.approx(faster, abs=15)


def test_ranks_that_share_a_gpu_take_turns_and_tell_nothing_of_the_link(tmp_path):
    run = timed_run(SMALL_IS_FAST, tmp_path, lambda mib: 20 + mib * 60)
    traces = [replace(one, facts=replace(one.facts, gpu="GPU-0")) for one in run.traces]
    shared = predict(replace(run, traces=tuple(traces)), [16])
    assert (shared.model.timed, shared.trust) == (None, "low")
    assert predict(run, [16]).model.timed is not None


def test_what_was_timed_in_a_larger_group_is_not_of_the_buckets(tmp_path):
    told = timed_run(SMALL_IS_FAST, tmp_path, lambda mib: 20 + mib * 60)
    wide = replace(told.manifest.link.groups[0], members=(0, 1, 2, 3))
    found = predict(replace(told, manifest=Manifest(link=Link((wide,)))), [16])
    assert found.model.timed is None


def test_why_the_link_was_not_measured_is_a_note(tmp_path):
    run = recorded(SMALL_IS_FAST, tmp_path)
    failed = replace(run, manifest=Manifest(link=Link((), "rank 1 has no room")))
    assert "the link was not measured: rank 1 has no room" in predict(failed, [16]).notes


@pytest.mark.parametrize(
    ("factor", "is_used"), [(0.51, True), (0.49, False), (1.99, True), (2.1, False)]
)
def test_a_link_that_was_another_one_in_the_steps_is_not_used(factor, is_used):
    found = fit(samples(*[(10 * MB, round(500_000 * factor))] * 4), timed=TIMES)
    assert (found.timed is not None) == is_used
    assert found.is_assumed != is_used
    if not is_used:
        assert found.refused_ratio == pytest.approx(factor)
        assert found.curve(10 * MB) == pytest.approx(500_000 * factor)


def test_the_further_off_the_link_was_the_less_sure_is_another_job():
    def ratio(factor):
        pairs = [(10 * MB, round(500_000 * factor))] * 30
        return fit(samples(*pairs), timed=TIMES).other_job_ratio

    assert ratio(1.04) == LEAST_OTHER_JOB
    assert ratio(1.2) == pytest.approx(0.1)
    assert ratio(0.8) == pytest.approx(0.1)


def test_far_from_all_that_was_timed_and_recorded_nothing_is_known():
    """Recorded is 1 GB, timed up to 100 MB: 300 MB is far from both."""
    found = fit(samples(*[(1000 * MB, 60_000_000)] * 4), timed=TIMES)
    assert found.timed is not None
    assert found.doublings_outside(100 * MB) == found.doublings_outside(1000 * MB) == 0
    assert found.doublings_outside(300 * MB) == pytest.approx(np.log2(3 / 1.25))


@pytest.mark.parametrize(
    ("cost", "scenario", "words"),
    [
        (lambda mib: 20 + mib * 20, None, "the middle transfer of the steps took 2."),
        (lambda mib: 20 + mib * 60, Scenario(alpha_ns=20_000), "the line that was given counts"),
        (lambda mib: 0, None, "of no such group, of one size, or not of each size"),
    ],
)
def test_why_what_was_timed_is_not_used_is_a_note(cost, scenario, words, tmp_path):
    found = predict(timed_run(SMALL_IS_FAST, tmp_path, cost), [16], scenario)
    assert found.model.timed is None
    assert any(words in note for note in found.notes)
