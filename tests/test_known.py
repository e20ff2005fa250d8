"""What is known of a job, its extremes, and what predictions make of them; fitted to one line."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_cost import MB, on_line, samples
from whatif_jobs import PLAIN, recorded, with_cap

from ddptrace.metrics.measured import Measured
from ddptrace.whatif.anchor import Anchoring
from ddptrace.whatif.contention import Slowed
from ddptrace.whatif.cost import LEAST_OTHER_JOB, REACH, fit
from ddptrace.whatif.job import job_of
from ddptrace.whatif.known import Known
from ddptrace.whatif.models import Pauses, bucket_model
from ddptrace.whatif.packing import Limits, Packing
from ddptrace.whatif.predict import predict
from ddptrace.whatif.scenario import Scenario
from ddptrace.whatif.scenes import OUTSIDE_DOUBLINGS, Scenes
from ddptrace.whatif.schedule import packed

KNOWN = Known(
    fit(samples(*on_line(60_000, 40_000, repeat=4))), Slowed(1.0, 1.0, 1.0, 1.0), Pauses(9.0, 5.0)
)


def test_a_job_knows_its_pauses_beside_compute_and_alone():
    found = KNOWN.point(1.0).contention
    assert (found.pause_beside_ns, found.pause_ns) == (9, 5)


def test_without_fixed_costs_there_are_bytes_alone():
    physics = KNOWN.without_alpha(1.0)
    assert physics.cost(10 * MB) == pytest.approx(400_000)
    assert (physics.contention.pause_ns, physics.contention.pause_beside_ns) == (0, 0)


def test_a_faster_link_moves_bytes_faster_and_nothing_else():
    after = replace(KNOWN, link=2).after(KNOWN.point(1.0))
    assert after.cost(10 * MB) == pytest.approx(60_000 + 200_000)


def test_a_transfer_without_time_for_its_bytes_is_no_shorter_on_a_faster_link():
    cheap = replace(KNOWN.point(1.0), cost=lambda _size: 20_000.0)
    assert replace(KNOWN, link=2).after(cheap).cost(MB) == 20_000


def test_other_jobs_are_as_much_faster_as_slower():
    low, high = (each.cost(10 * MB) for each in KNOWN.other_jobs(1.0))
    assert low == pytest.approx(460_000 / (1 + LEAST_OTHER_JOB))
    assert high == pytest.approx(460_000 * (1 + LEAST_OTHER_JOB))


@pytest.fixture
def scenes(tmp_path):
    """Return the replays of a job whose step is known without any noise, and the job."""
    job = job_of(Measured.of(recorded(PLAIN, tmp_path)))
    return scenes_of(job, KNOWN), job


def scenes_of(job, known):
    return Scenes(job, known, Anchoring(3e6, "recorded", 3e6, 0.0, 1.0), Scenario(), None)


@pytest.mark.parametrize(("nearer", "is_outside"), [(0.99, True), (1.01, False)])
def test_a_size_half_a_doubling_further_out_than_what_was_seen_is_outside(
    scenes, nearer, is_outside
):
    _, job = scenes
    one = packed(job.pieces, Packing(), Limits(1 << 30, 1 << 30))
    seen = round(nearer * int(one.size_bytes[0]) / REACH / 2**OUTSIDE_DOUBLINGS)
    known = replace(KNOWN, fit=replace(KNOWN.fit, smallest_bytes=MB, largest_bytes=seen))
    assert scenes_of(job, known).predicted(1024, one, 0.0).is_outside == is_outside


def test_what_the_replay_misses_grows_with_how_much_is_changed(scenes):
    found, job = scenes
    one = packed(job.pieces, Packing(), Limits(1 << 30, 1 << 30))
    sure, unsure = (found.predicted(1024, one, misfit) for misfit in (0.0, 0.5))
    change = abs(sure.step_ns - 3e6)
    assert change > 100_000
    for near, far in ((sure.low_ns, unsure.low_ns), (sure.high_ns, unsure.high_ns)):
        known, all_of_it = (abs(each - sure.step_ns) for each in (near, far))
        assert all_of_it == pytest.approx((known**2 + (0.5 * change) ** 2) ** 0.5, abs=2)


def test_a_bound_is_beaten_by_no_prediction_of_other_buckets(scenes):
    """The bounds are of the best cap's buckets; fewer of them may slow compute for less time."""
    found, job = scenes
    each = packed(job.pieces, Packing(), Limits(1, 1))
    one = found.predicted(1024, each, 0.0)
    alone = found.bounds(each, [])
    assert found.bounds(each, [replace(one, step_ns=2 * alone.perfect_overlap_ns)]) == alone
    beaten = found.bounds(each, [replace(one, step_ns=100_000)])
    assert (beaten.free_communication_ns, beaten.perfect_overlap_ns) == (100_000, 100_000)


def test_communication_alone_has_the_pauses_of_a_gpu_that_does_nothing_else(scenes):
    found, job = scenes
    each = packed(job.pieces, Packing(), Limits(1, 1))
    expected = sum(60_000 + 0.04 * size for size in each.size_bytes.tolist())
    bound_ns = found.bounds(each, []).communication_only_ns
    assert bound_ns == pytest.approx(expected + 5 * (len(each) - 1), abs=2)


def test_an_assumed_fixed_cost_is_told_and_the_bandwidth_lies_between_its_extremes(tmp_path):
    found = predict(recorded(with_cap(PLAIN, 100), tmp_path), [100])
    assert any(" 50 µs is assumed" in note for note in found.notes)
    model = found.model
    assert model.bandwidth_low_gb_s < model.bandwidth_gb_s < model.bandwidth_high_gb_s
    assert model.alpha_low_ns < model.alpha_ns < model.alpha_high_ns


def test_the_fixed_cost_that_is_told_is_between_its_extremes(tmp_path):
    """The line begins at 0, as those of hardly any resampled transfers do."""
    times = [(16, 658_640), (8, 357_806), (8, 399_013), (8, 370_279), (64, 2_678_967)]
    times += [(32, 1_297_073), (32, 1_343_101)]
    odd = fit(samples(*[(size * MB, time) for size, time in times]))
    model = bucket_model(Measured.of(recorded(PLAIN, tmp_path)), odd, KNOWN.beside)
    assert model.alpha_low_ns <= model.alpha_ns < model.alpha_high_ns
    assert model.bandwidth_low_gb_s < model.bandwidth_gb_s < model.bandwidth_high_gb_s
