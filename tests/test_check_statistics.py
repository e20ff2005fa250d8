"""Where a change lies: how wide the interval is, what makes it wider, what so many steps show."""

import math

import numpy as np
import pytest
from check_runs import steps_of

from ddptrace.check import statistics
from ddptrace.check.statistics import (
    FEW_STEPS,
    detectable_ratio,
    detectable_with,
    excludes_no_change,
    interval,
    mann_whitney,
    middle,
)


def noise(seed, count, deviation=0.02, follow=0.0):
    """Return steps around 10 ms as ns; each keeps a share `follow` of how far off the last was."""
    random = np.random.default_rng(seed)
    off, found = 0.0, []
    for each in random.normal(size=count + 50):
        off = follow * off + math.sqrt(1 - follow * follow) * float(each)
        found.append(round(1e7 * math.exp(deviation * off)))
    return found[50:]


def width(found):
    return math.log1p(found.high_ratio) - math.log1p(found.low_ratio)


def test_the_middle_is_the_median_in_whole_ns():
    assert middle([[1, 2, 4]]) == 2
    assert middle([[1, 2, 3, 4]]) == 2
    assert middle([[1, 2, 9], [4, 4, 4], [7, 7, 7]]) == 4


def test_the_interval_holds_the_change_and_is_even_on_the_logarithm():
    found = interval([noise(1, 50)], [noise(2, 50)])
    change = middle([noise(2, 50)]) / middle([noise(1, 50)])
    low, high = 1 + found.low_ratio, 1 + found.high_ratio
    assert low < change < high
    assert low * high == pytest.approx(change * change)
    assert found.confidence == 0.99
    assert found.low_ns == math.floor(found.low_ratio * middle([noise(1, 50)]))


def test_the_same_steps_always_give_the_same_interval():
    assert interval([noise(1, 30)], [noise(2, 30)]) == interval([noise(1, 30)], [noise(2, 30)])


def test_steps_that_do_not_vary_leave_no_doubt():
    found = interval([[10_000] * 9], [[10_500] * 9])
    assert found.low_ratio == pytest.approx(0.05)
    assert found.low_ratio == found.high_ratio
    assert excludes_no_change(found)


@pytest.mark.parametrize(("to", "sure"), [(10_000, False), (9_000, False), (10_001, True)])
def test_only_what_lies_above_no_change_altogether_excludes_it(to, sure):
    assert excludes_no_change(interval([[10_000] * 9], [[to] * 9])) is sure
    assert excludes_no_change(interval([[0] * 9], [[to - 10_000] * 9])) is sure


def test_more_steps_and_less_noise_make_it_narrower():
    few, many = ([noise(1, count)] for count in (20, 320))
    loud = [noise(1, 20, 0.1)]
    assert width(interval(many, many)) < 0.5 * width(interval(few, few))
    assert width(interval(loud, loud)) > 3 * width(interval(few, few))


def test_steps_that_follow_each_other_make_it_wider():
    """The same values say less when each resembles the last one than when they are shuffled."""
    slow = noise(3, 200, follow=0.9)
    shuffled = list(np.random.default_rng(4).permutation(slow))
    assert width(interval([slow], [slow])) > 2 * width(interval([shuffled], [shuffled]))


def test_few_steps_make_it_wider_than_their_noise_alone():
    """Five steps of twenty that are alike in all else: wider by more than the root of four."""
    few, many = [steps_of(10_000, 5)], [steps_of(10_000, 20)]
    assert width(interval(few, few)) > 2 * width(interval(many, many))


def test_next_to_zero_it_is_of_the_difference():
    found = interval([[0, 0, 10, 0, 0, 10, 0]], [[500, 510, 490, 500, 505, 500, 495]])
    assert (found.low_ratio, found.high_ratio) == (None, None)
    assert 400 < found.low_ns < 500 < found.high_ns < 600


def test_a_spike_moves_it_little():
    plain = noise(5, 40)
    spiked = [*plain[:20], 10**9, *plain[21:]]
    assert middle([spiked]) == pytest.approx(middle([plain]), rel=0.01)
    assert width(interval([plain], [spiked])) < 1.5 * width(interval([plain], [plain]))


def test_runs_that_differ_make_it_as_wide_as_runs_differ():
    alike = [[10_000_000] * 20, [10_010_000] * 20, [9_990_000] * 20, [10_000_000] * 20]
    apart = [[10_000_000] * 20, [10_500_000] * 20, [9_500_000] * 20, [10_000_000] * 20]
    assert width(interval(apart, apart)) > 20 * width(interval(alike, alike))


def test_what_differs_between_runs_of_one_side_holds_for_a_lone_run_of_the_other():
    apart = [[9_500_000] * 20, [10_000_000] * 20, [10_500_000] * 20]
    assert not excludes_no_change(interval(apart, [[10_700_000] * 20]))
    assert excludes_no_change(interval([[10_000_000] * 20], [[10_700_000] * 20]))


@pytest.mark.parametrize(
    ("degrees", "t"), [(2, 9.925), (4, 4.604), (10, 3.169), (30, 2.750), (1e9, 2.576)]
)
def test_the_quantile_is_students(degrees, t):
    assert statistics._quantile(degrees) == pytest.approx(t, abs=0.001)


def test_between_the_degrees_of_the_table_the_quantile_is_near():
    assert statistics._quantile(11) == pytest.approx(3.106, abs=0.005)
    assert statistics._quantile(40) == pytest.approx(2.704, abs=0.005)


# --- Mann-Whitney ---


def test_mann_whitney_is_as_computed_by_hand():
    """Eight against eight, every one longer: U = 64, mean 32, deviation √(64/12 · 17) = 9.52."""
    first, second = [list(range(8))], [list(range(10, 18))]
    expected = math.erfc((64 - 32 - 0.5) / math.sqrt(64 / 12 * 17) / math.sqrt(2))
    assert mann_whitney(first, second) == pytest.approx(expected)
    assert mann_whitney(second, first) == pytest.approx(expected)


def test_mann_whitney_corrects_ties():
    """Ranks 4.5 and 12.5, 8 times each: Σ(t³ − t) = 2 · 504, the variance is 64/12 · (17 − 4.2)."""
    expected = math.erfc(31.5 / math.sqrt(64 / 12 * (17 - 2 * 504 / 240)) / math.sqrt(2))
    assert mann_whitney([[1] * 8], [[2] * 8]) == pytest.approx(expected)


def test_mann_whitney_of_equal_steps_is_sure_of_nothing():
    assert mann_whitney([[5] * 9], [[5] * 9]) == 1.0
    assert mann_whitney([[1, 2, 3, 4] * 3], [[1, 2, 3, 4] * 3]) == 1.0


@pytest.mark.parametrize(("count", "told"), [(7, False), (8, True)])
def test_mann_whitney_needs_eight_of_each(count, told):
    assert (mann_whitney([[1] * count], [[2] * 9]) is not None) is told
    assert (mann_whitney([[1] * 9], [[2] * count]) is not None) is told


def test_mann_whitney_takes_the_steps_of_all_runs():
    assert mann_whitney([[1, 2, 3, 4], [1, 2, 3, 4]], [[5] * 8]) is not None


# --- what so many steps can show ---


def test_more_steps_show_smaller_growth_and_never_less_than_the_limit():
    runs = [noise(6, 50)]
    found = [detectable_with(runs, runs, 0.03, steps) for steps in (10, 50, 1000, 10**7)]
    assert found == sorted(found, reverse=True)
    assert found[-1] == pytest.approx(0.03, abs=0.0005)
    assert detectable_with(runs, runs, 0.03, 50) == pytest.approx(
        detectable_ratio(runs, runs, 0.03), rel=0.01
    )


def test_a_growth_that_is_called_detectable_is_detected():
    """Nine of ten runs are promised; 60 of 60 to 45 of 60 are within chance of that."""
    promised = detectable_ratio([noise(7, 50)], [noise(8, 50)], 0.03)
    found = 0
    for seed in range(60):
        base, grown = noise(100 + seed, 50), noise(200 + seed, 50)
        grown = [round(each * (1 + promised)) for each in grown]
        change = middle([grown]) / middle([base]) - 1
        found += change > 0.03 and excludes_no_change(interval([base], [grown]))
    assert found >= 45


def test_next_to_zero_no_ratio_is_detectable():
    assert detectable_ratio([[0] * 9], [[5] * 9], 0.0) is None
    assert detectable_with([[5] * 9], [[0] * 9], 0.0, 10) is None


# --- false alarms and detection, in small; benchmarks/alarms.py has the table ---


@pytest.mark.parametrize(("count", "follow"), [(FEW_STEPS, 0.0), (10, 0.0), (10, 0.5), (50, 0.5)])
def test_runs_of_the_same_job_are_hardly_ever_called_different(count, follow):
    """At one in a hundred, more than 5 of 150 come about once in a thousand tests."""
    alarms = 0
    for seed in range(150):
        sides = [[noise(2 * seed + side, count, 0.05, follow)] for side in (0, 1)]
        alarms += excludes_no_change(interval(*sides))
    assert alarms <= 5


def test_a_slowdown_of_five_percent_is_found_in_fifty_steps_with_two_percent_noise():
    found = 0
    for seed in range(100):
        base, grown = noise(2 * seed, 50), [each * 21 // 20 for each in noise(2 * seed + 1, 50)]
        change = middle([grown]) / middle([base]) - 1
        found += change > 0.03 and excludes_no_change(interval([base], [grown]))
    assert found >= 95


# --- drift ---


WARMING_UP = (102.6, 91.1, 86.6, 84.9, 82.9, 83.1, 83.2, 82.9, 83.1, 85.0)  # a real job's, in ms
SLOW = (127.5, 123.0, 122.9, 123.5, 123.5, 122.8, 123.7, 124.0, 123.8, 124.4)


def ns(*ms):
    return [[round(each * 1e6) for each in ms]]


def test_a_run_that_still_warms_up_leaves_a_small_change_open_and_not_a_large_one():
    """Steps that fall all the time tell little of where they end; but all 10 are 20 % longer."""
    assert excludes_no_change(interval(ns(*WARMING_UP), ns(*SLOW)))
    grown = ns(*(1.05 * each for each in WARMING_UP))
    assert not excludes_no_change(interval(ns(*WARMING_UP), grown))


@pytest.mark.parametrize(("gap_ms", "sure"), [(1.001, True), (0.999, False)])
def test_steps_that_keep_a_distance_of_half_their_ranges_are_longer(gap_ms, sure):
    """Both fall by 1 ms in all, one by one, so that the blocks of a run show nothing."""
    falling = [21 - place / 9 for place in range(10)]
    later = [each + 1 + gap_ms for each in falling]
    found = statistics._outermost(*ns(*falling), *ns(*later), by_ratio=False)
    assert (found[0] > 0) is sure
    whole = interval(ns(*falling), ns(*later))
    assert whole.low_ratio >= math.expm1(
        statistics._outermost(*ns(*falling), *ns(*later), by_ratio=True)[0]
    )


def test_an_interval_reaches_to_a_thousandfold_at_most():
    """Two runs of one side that have nothing in common leave everything open, and no overflow."""
    wild = [[10] * 9, [10**15] * 9]
    found = interval(wild, [[1000] * 9])
    assert not excludes_no_change(found)
    assert found.high_ratio == pytest.approx(999)
    assert detectable_ratio(wild, [[1000] * 9], 0.03) == pytest.approx(999)
    grown = interval([[1] * 9], [[10**12] * 9])
    assert grown.high_ratio == pytest.approx(1e12)


def test_long_runs_are_resampled_piece_by_piece(monkeypatch):
    runs = [noise(9, 400)]
    at_once = interval(runs, runs)
    monkeypatch.setattr(statistics, "_MOST_AT_ONCE", 1000)
    piece_by_piece = interval(runs, runs)
    assert width(piece_by_piece) == pytest.approx(width(at_once), rel=0.1)
    monkeypatch.setattr(statistics, "_MOST_VALUES", 0)
    assert statistics._medians(np.arange(5.0), 2).size == 30
