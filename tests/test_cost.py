"""What a collective costs: lines through transfers, how sure they are, what is assumed."""

from __future__ import annotations

import numpy as np
import pytest

from ddptrace.whatif.cost import (
    ASSUMED_ALPHA_NS,
    LEAST_OTHER_JOB,
    MOST_OTHER_JOB,
    OUTSIDE_RATIO,
    REACH,
    SPREADS,
    UNKNOWN_OTHER_JOB,
    Samples,
    fit,
    nine_in_ten,
)
from ddptrace.whatif.curves import Lines, straight

MB = 10**6


def samples(*pairs, hidden=None):
    sizes, times = zip(*pairs, strict=True)
    return Samples(
        np.array(sizes, np.int64),
        np.array(times, np.float64),
        np.zeros(len(sizes)) if hidden is None else np.array(hidden, np.float64),
    )


def on_line(alpha, per_mb, sizes=(4, 8, 16, 32, 64), repeat=3):
    return [(size * MB, alpha + size * per_mb) for size in sizes for _ in range(repeat)]


def test_a_line_gives_its_alpha_and_bandwidth():
    found = fit(samples(*on_line(60_000, 40_000)))
    assert found.curve.alpha_ns == pytest.approx((60_000,), abs=1)
    assert found.curve(10 * MB) == pytest.approx(460_000)
    assert (found.samples, found.sizes, found.is_assumed) == (15, 5, False)
    assert found.residual_ratio == pytest.approx(0, abs=1e-6)


def test_residuals_are_those_of_the_line_that_is_given():
    """60 µs + 40 µs a MB against 460 µs + 40: of 16 MB 700 µs instead of 1100."""
    found = fit(samples(*on_line(60_000, 40_000))).with_line(460_000, None)
    assert found.residual_ratio == pytest.approx(400 / 1100)


def test_one_cold_transfer_does_not_turn_the_line():
    pairs = on_line(60_000, 40_000)
    pairs[-1] = (64 * MB, 90 * MB)
    assert fit(samples(*pairs)).curve(64 * MB) == pytest.approx(60_000 + 64 * 40_000)


def test_small_and_large_messages_may_follow_two_lines():
    """30 µs + 20 µs a MB up to 4 MB; 400 µs + 50 µs a MB from 16 MB on."""
    small, large = on_line(30_000, 20_000, (1, 2, 4)), on_line(400_000, 50_000, (16, 32, 64))
    found = fit(samples(*small, *large))
    assert found.curve.alpha_ns == pytest.approx((30_000, 400_000), abs=5)
    assert found.curve(2 * MB) == pytest.approx(70_000)
    assert found.curve(32 * MB) == pytest.approx(2_000_000)
    assert 4 * MB < found.curve.from_bytes[1] < 16 * MB


def test_a_side_of_one_size_takes_the_fixed_cost_of_the_other():
    """30 µs + 20 µs a MB up to 16 MB; 32 MB, the only larger size, takes 1.5 times as long."""
    small = on_line(30_000, 20_000, (2, 4, 8, 16))
    found = fit(samples(*small, *[(32 * MB, 1_005_000)] * 3))
    assert found.curve(8 * MB) == pytest.approx(190_000)
    assert found.curve(32 * MB) == pytest.approx(1_005_000)
    assert found.curve(64 * MB) == pytest.approx(30_000 + 2 * 975_000)


def test_a_line_never_begins_below_nothing():
    """Twice the size takes 2.6 times as long: two lines, and both begin at 0 or above."""
    found = fit(samples(*[(16 * MB, 900_000)] * 4, *[(32 * MB, 2_340_000)] * 4))
    assert min(found.curve.alpha_ns) >= 0
    assert found.curve(16 * MB) == pytest.approx(900_000)
    assert found.curve(32 * MB) == pytest.approx(2_340_000)


def test_noise_about_one_line_makes_no_second_one():
    chooser = np.random.default_rng(3)
    pairs = [
        (size, time * chooser.normal(1, 0.03))
        for size, time in on_line(60_000, 40_000, (1, 2, 4, 8, 16, 32, 64))
    ]
    found = fit(samples(*pairs))
    assert len(found.curve.from_bytes) == 1
    low, high = found.bounds(20 * MB)
    assert low < 60_000 + 20 * 40_000 < high
    assert high - low < 0.2 * found.curve(20 * MB)


def test_noisier_transfers_are_less_sure():
    def width(noise):
        chooser = np.random.default_rng(5)
        pairs = [(s, t * chooser.normal(1, noise)) for s, t in on_line(60_000, 40_000)]
        low, high = fit(samples(*pairs)).bounds(20 * MB)
        return high - low

    assert width(0.1) > 2 * width(0.01)


@pytest.mark.parametrize(("likely", "bounds"), [(10, (1, 19)), (0, (0, 19)), (20, (1, 20))])
def test_nine_in_ten_and_the_likeliest_are_between_the_bounds(likely, bounds):
    assert nine_in_ten([*range(20, -1, -1)], likely) == bounds


def test_the_likeliest_is_between_the_bounds_where_few_resampled_curves_are_as_low():
    pairs = [(4, 220), (8, 380), (8, 570), (16, 700), (16, 700), (32, 2010)]
    found = fit(samples(*[(size * MB, time * 1000) for size, time in pairs]))
    low, high = found.bounds(2 * MB)
    assert low <= found.curve(2 * MB) < high


def test_one_size_has_an_assumed_alpha_and_bandwidth_to_go_with_it():
    found = fit(samples((100 * MB, 4 * MB), (100 * MB, 4 * MB)))
    assert found.is_assumed
    assert found.curve(100 * MB) == pytest.approx(4 * MB)
    assert found.curve.alpha_ns == (ASSUMED_ALPHA_NS,)
    low, high = found.bounds(MB)
    third, triple = ASSUMED_ALPHA_NS / 3, ASSUMED_ALPHA_NS * 3
    assert low < third + 40_000
    assert high > triple + 35_000


def test_an_alpha_that_is_known_is_not_assumed():
    found = fit(samples((100 * MB, 4 * MB)), alpha_ns=20_000).with_line(20_000, None)
    assert not found.is_assumed
    assert found.curve.alpha_ns == (20_000,)
    assert found.curve(100 * MB) == pytest.approx(4 * MB)


def test_an_assumed_alpha_leaves_something_for_the_bytes():
    found = fit(samples((100_000, 30_000)))
    assert found.curve.alpha_ns == (15_000,)
    assert found.curve(100_000) == pytest.approx(30_000)


def test_a_bandwidth_that_is_known_counts_for_all_sizes():
    found = fit(samples(*on_line(60_000, 40_000))).with_line(None, 100)
    assert found.curve(10 * MB) == pytest.approx(60_000 + 10 * 10_000)


def test_beyond_the_sizes_that_were_seen_it_is_less_sure():
    found = fit(samples(*on_line(60_000, 40_000)))
    low, high = found.bounds(80 * MB)
    assert (high - low) / found.curve(80 * MB) < 0.01
    near, far = (found.bounds(size * MB) for size in (64 * 2, 64 * 12))
    assert near[1] / found.curve(64 * 2 * MB) < 1 + OUTSIDE_RATIO
    quarter = 64 * REACH * 2**0.25 * MB
    assert found.bounds(quarter)[1] / found.curve(quarter) == pytest.approx(1 + OUTSIDE_RATIO / 2)
    assert far[1] / found.curve(64 * 12 * MB) == pytest.approx(1 + OUTSIDE_RATIO)
    assert far[0] / found.curve(64 * 12 * MB) == pytest.approx(1 / (1 + OUTSIDE_RATIO))
    assert found.bounds(MB / 4)[1] / found.curve(MB / 4) == pytest.approx(1 + OUTSIDE_RATIO)
    assert found.doublings_outside(64 * 10 * MB) == pytest.approx(3)
    assert found.doublings_outside(4 * MB / 10) == pytest.approx(3)
    assert found.doublings_outside(10 * MB) == 0


def test_transfers_beside_compute_do_not_count_as_a_slow_link():
    """Each size ran alone, and beside compute for a tenth longer."""
    alone, beside = on_line(60_000, 40_000), on_line(66_000, 44_000)
    found = fit(samples(*alone, *beside, hidden=[0.0] * len(alone) + [1.0] * len(beside)))
    assert found.contention == pytest.approx(1.1)
    assert found.curve(10 * MB) == pytest.approx(460_000)


def test_without_transfers_of_both_kinds_contention_is_not_known():
    pairs = on_line(66_000, 44_000)
    assert fit(samples(*pairs, hidden=[1.0] * len(pairs))).contention == 1


def test_a_thousand_sizes_are_fitted_as_well():
    pairs = [(MB + number * 20_000, 50_000 + number * 700) for number in range(1000)]
    found = fit(samples(*pairs))
    assert found.curve(MB + 500 * 20_000) == pytest.approx(400_000, rel=0.02)


def test_a_straight_curve_is_a_line():
    assert straight(5, 2)(10) == 25


def test_a_line_counts_from_its_first_size_on():
    assert [Lines((0, 10), (1, 5), (0, 0))(size) for size in (9, 10)] == [1, 5]


def test_transfers_of_a_steady_link_are_as_long_in_other_jobs():
    assert fit(samples(*on_line(60_000, 40_000) * 2)).other_job_ratio == LEAST_OTHER_JOB


def test_transfers_that_differ_in_one_job_differ_more_between_jobs():
    """Those of one size are between 5 % shorter and 5 % longer than the middle."""
    pairs = [(10 * MB, round(1e6 * (1 + off / 100))) for off in range(-5, 6)] * 3
    expected = SPREADS * 0.04  # eight in ten are within 4 %
    assert fit(samples(*pairs)).other_job_ratio == pytest.approx(expected, rel=0.1)
    wild = [(10 * MB, round(1e6 * (1 + off / 10))) for off in range(-5, 6)] * 3
    assert fit(samples(*wild)).other_job_ratio == MOST_OTHER_JOB


def test_few_transfers_tell_little_of_other_jobs():
    """Of 19 it is not known how much others differ; of 20 it is."""
    enough = on_line(60_000, 40_000, repeat=4)
    assert fit(samples(*enough)).other_job_ratio == LEAST_OTHER_JOB
    assert fit(samples(*enough[1:])).other_job_ratio == UNKNOWN_OTHER_JOB
    wild = [(10 * MB, 1e6 * (1 + off / 10)) for off in range(-5, 6)]
    assert fit(samples(*wild)).other_job_ratio == MOST_OTHER_JOB
