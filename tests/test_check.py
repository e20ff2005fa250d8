"""What makes a check pass, fail or stay open: every rule, and the other side of each limit."""

import pytest
from check_runs import a_run, checked, outcome, series, steps_of

from ddptrace.check.judge import Rules, check, on_inconclusive
from ddptrace.errors import UsageError

PASS, REGRESSION, OPEN, UNLIKE = (
    (0, "pass"),
    (1, "regression"),
    (2, "inconclusive"),
    (
        2,
        "not_comparable",
    ),
)
BASE = a_run(steps_of(10_000))


# --- limits ---


@pytest.mark.parametrize(
    ("step_us", "found"), [(10_500, PASS), (10_500.001, REGRESSION), (10_499, PASS)]
)
def test_only_more_than_the_limit_is_a_regression(step_us, found):
    """10,500 against 10,000 µs is 5 % exactly, whatever a float makes of it."""
    assert outcome(a_run([10_000] * 9), a_run([step_us] * 9), "step:5%") == found


@pytest.mark.parametrize("limit", ["0.1%", "0.3%", "0.7%", "1.1%", "3.3%", "7.7%"])
def test_a_decimal_limit_is_exact(limit):
    grown = 1_000_000 + round(float(limit[:-1]) * 10_000)
    assert outcome(a_run([1_000_000] * 9), a_run([grown] * 9), f"step:{limit}") == PASS
    assert outcome(a_run([1_000_000] * 9), a_run([grown + 1] * 9), f"step:{limit}") == REGRESSION


@pytest.mark.parametrize(("grown_us", "found"), [(50, PASS), (50.001, REGRESSION)])
def test_a_change_within_50_us_passes_where_a_limit_states_no_floor(grown_us, found):
    """Steps of 100 µs: 50 % more, and still nothing that is worth a failure."""
    assert outcome(a_run([100] * 9), a_run([100 + grown_us] * 9), "step:5%") == found


@pytest.mark.parametrize(
    ("floor", "found"),
    [("min=0", REGRESSION), ("min=29us", REGRESSION), ("min=30us", PASS), ("min=1ms", PASS)],
)
def test_a_floor_that_is_stated_holds(floor, found):
    assert outcome(a_run([100] * 9), a_run([130] * 9), f"step:5%,{floor}") == found


def test_the_default_is_three_percent():
    found = check([a_run([10_000] * 9)], [a_run([10_301] * 9)], Rules())
    assert found.limits[0].limit == "step@slowest:3%,min=50us"
    assert found.exit_code == 1
    assert check([a_run([10_000] * 9)], [a_run([10_300] * 9)], Rules()).exit_code == 0


@pytest.mark.parametrize(("limit", "found"), [("step:300us", REGRESSION), ("step:400us", PASS)])
def test_a_limit_may_be_a_time(limit, found):
    assert outcome(a_run([10_000] * 9), a_run([10_400] * 9), limit) == found


@pytest.mark.parametrize("share", [0.5, 0.8, 0.999, 1.0])
def test_faster_is_never_a_regression(share):
    assert outcome(BASE, a_run(steps_of(10_000 * share))) == PASS


def test_what_became_faster_asks_for_a_new_baseline_and_says_what_would_pass_unseen():
    """A limit of 5 % of 10 ms lets 10.5 ms pass, 31.2 % more than today's 8 ms."""
    found = checked(a_run([10_000] * 9), a_run([8_000] * 9))
    assert found.exit_code == 0
    assert any("step is -20.0 %" in note and "+31.2 %" in note for note in found.notes)
    assert found.next_steps == ["keep the gain: --save-baseline"]
    within = checked(a_run([10_000] * 9), a_run([9_600] * 9))
    assert (within.notes, within.next_steps) == ([], [])


def test_every_limit_counts_and_each_is_told():
    grown = a_run([10_000] * 9, idle=[3_000] * 9, compute=[7_000] * 9)
    base = a_run([10_000] * 9, idle=[1_000] * 9, compute=[9_000] * 9)
    found = checked(base, grown, "step:5%", "idle:10%", "compute:10%")
    assert [one.outcome for one in found.limits] == ["pass", "regression", "pass"]
    assert (found.exit_code, found.outcome) == (1, "regression")
    assert found.headline.startswith("regression: idle: 1.00 to 3.00 ms (+200.0 %)")


# --- noise ---


NOISY = (0, 3000, -2500, 400, -300, 2200, -2800, 900, -100, 100)


def test_a_change_within_the_noise_is_inconclusive():
    base = a_run(steps_of(10_000, noise=NOISY))
    assert outcome(base, a_run(steps_of(10_900, noise=NOISY))) == OPEN
    assert outcome(base, a_run(steps_of(10_400, noise=NOISY))) == PASS
    assert outcome(a_run(steps_of(10_000)), a_run(steps_of(10_900))) == REGRESSION


def test_enough_steps_tell_a_change_from_noise():
    base = a_run(steps_of(10_000, 400, NOISY))
    assert outcome(base, a_run(steps_of(10_900, 400, NOISY))) == REGRESSION


@pytest.mark.parametrize(("word", "code"), [("error", 2), ("pass", 0), ("fail", 1)])
def test_what_an_inconclusive_check_is_worth_can_be_chosen(word, code):
    base, current = a_run(steps_of(10_000, noise=NOISY)), a_run(steps_of(10_900, noise=NOISY))
    assert outcome(base, current, inconclusive=word) == (code, "inconclusive")
    few = a_run(steps_of(10_900, 4))
    assert outcome(BASE, few, inconclusive=word) == (code, "inconclusive")


@pytest.mark.parametrize("word", ["error", "pass", "fail"])
def test_doubt_never_changes_what_is_certain(word):
    slower = a_run(steps_of(11_000), facts={"gpu": "H100"})
    assert outcome(BASE, a_run(steps_of(11_000)), inconclusive=word) == REGRESSION
    assert outcome(BASE, BASE, inconclusive=word) == PASS
    assert outcome(BASE, slower, inconclusive=word) == UNLIKE


def test_a_regression_counts_whatever_else_could_not_be_told():
    base, slow = a_run(steps_of(10_000)), a_run(steps_of(11_000))
    found = checked(base, slow, "comm:5%", "step:5%")
    assert [one.outcome for one in found.limits] == ["not_comparable", "regression"]
    assert found.exit_code == 1


@pytest.mark.parametrize(("count", "found"), [(4, OPEN), (5, REGRESSION)])
@pytest.mark.parametrize("few_before", [True, False])
def test_fewer_than_five_steps_of_either_tell_nothing(count, found, few_before):
    few, many = 10_000 if few_before else 12_000, 12_000 if few_before else 10_000
    sides = [a_run([few] * count), a_run([many] * 9)]
    assert outcome(*(sides if few_before else reversed(sides))) == found


def test_fewer_than_five_steps_tell_of_no_gain_either():
    found = checked(BASE, a_run([9_000] * 4))
    assert found.outcome == "inconclusive"
    assert "only 4 steps of the current run counted, and 5 are needed" in found.headline
    assert found.limits[0].interval is None


def test_an_unknown_word_for_doubt_is_refused():
    with pytest.raises(UsageError, match="give error, pass or fail"):
        on_inconclusive("perhaps")


# --- which steps ---


def timed(recorded_us, timed_us, count=10):
    return a_run([recorded_us] * 9, timed=[timed_us] * count)


def test_the_step_without_a_profiler_counts_where_both_sides_have_it():
    found = checked(timed(10_000, 8_000), timed(10_000, 9_000))
    assert (found.exit_code, found.limits[0].source) == (1, "timed")
    assert (found.limits[0].baseline_ns, found.limits[0].current_ns) == (8_000_000, 9_000_000)
    found = checked(timed(10_000, 8_000), timed(11_000, 8_000))
    assert found.exit_code == 0


def test_where_one_side_was_not_timed_the_recorded_steps_count():
    found = checked(timed(10_000, 8_000), a_run([11_000] * 9))
    assert (found.exit_code, found.limits[0].source) == (1, "recorded")


@pytest.mark.parametrize(("count", "source"), [(4, "recorded"), (5, "timed")])
def test_times_of_too_few_steps_do_not_stand_in_for_enough_recorded_ones(count, source):
    found = checked(timed(10_000, 8_000), timed(10_000, 9_000, count))
    assert found.limits[0].source == source


def test_other_metrics_are_those_of_the_recorded_steps():
    base = a_run([10_000] * 9, timed=[9_000] * 9, idle=[1_000] * 9)
    found = checked(base, a_run([10_000] * 9, timed=[9_000] * 9, idle=[2_000] * 9), "idle:5%")
    assert (found.exit_code, found.limits[0].source) == (1, "recorded")


def test_runs_of_which_one_was_only_timed_and_one_only_recorded_have_nothing_in_common():
    found = checked(a_run(timed=[9_000] * 9), a_run([11_000] * 9))
    assert (found.exit_code, found.limits[0].outcome) == UNLIKE
    assert "the baseline has steps timed without a profiler of rank 0" in found.headline
    assert found.limits[0].change_ratio is None


def test_a_run_without_steps_is_not_comparable():
    found = checked(BASE, a_run())
    assert found.exit_code == 2
    assert "the current run has no step that counts" in found.headline


@pytest.mark.parametrize(("sides", "side"), [((1, 0), "current run"), ((0, 1), "baseline")])
def test_a_metric_that_one_run_does_not_tell_is_never_a_percentage(sides, side):
    known = a_run([10_000] * 9, idle=[1_000] * 9)
    runs = [known if told else a_run([10_000] * 9) for told in sides]
    found = checked(*runs, "idle:5%")
    one = found.limits[0]
    assert (found.exit_code, one.outcome) == UNLIKE
    assert one.reason == f"idle could not be measured in the {side} on rank 0"
    assert (one.change_ns, one.change_ratio, one.interval, one.baseline_ns) == (None,) * 4


def test_steps_in_which_a_metric_is_unknown_do_not_count():
    grown = [5_000, None, 5_000, 5_000, None, 5_000, 5_000]
    base = a_run([10_000] * 7, idle=[1_000] * 7)
    found = checked(base, a_run([10_000] * 7, idle=grown), "idle:5%")
    assert (found.exit_code, found.limits[0].current.steps) == (1, 5)


# --- ranks ---


def of_ranks(*steps_us, **more):
    return a_run(ranks=[series(rank, step=[us] * 9, **more) for rank, us in enumerate(steps_us)])


def test_the_slowest_rank_decides_where_none_is_named():
    base = of_ranks(10_000, 10_000, 10_000)
    assert outcome(base, of_ranks(10_000, 11_000, 10_000)) == REGRESSION
    assert outcome(base, of_ranks(10_000, 10_000, 10_000)) == PASS
    assert outcome(base, of_ranks(10_000, 11_000, 10_000), "step@slowest:5%") == REGRESSION


def test_another_rank_that_is_the_slowest_now_is_no_regression():
    assert outcome(of_ranks(11_000, 10_000), of_ranks(10_000, 11_000)) == PASS


def test_of_each_step_the_rank_counts_on_which_it_took_longest():
    """Rank 0 is slow in the odd steps, rank 1 in the even ones: every step of the job is slow."""
    turns = [10_000, 11_000] * 5
    current = a_run(ranks=[series(0, step=turns), series(1, step=turns[::-1])])
    base = of_ranks(10_000, 10_000)
    assert outcome(base, current) == REGRESSION
    assert outcome(base, of_ranks(10_500, 10_500)) == PASS


@pytest.mark.parametrize(("limit", "found"), [("step@0:5%", PASS), ("step@1:5%", REGRESSION)])
def test_a_rank_that_is_named_is_held_against_itself(limit, found):
    assert outcome(of_ranks(10_000, 10_000), of_ranks(10_000, 11_000), limit) == found


def test_a_rank_that_is_not_there_is_said():
    found = checked(of_ranks(10_000, 10_000), of_ranks(10_000, 10_000), "step@2:5%")
    assert (found.exit_code, found.limits[0].outcome) == UNLIKE
    assert "has no recorded steps of rank 2, only of ranks 0-1" in found.headline


def test_the_slowest_is_not_known_where_a_rank_does_not_tell():
    told = [series(0, step=[10_000] * 9, idle=[1_000] * 9), series(1, step=[10_000] * 9)]
    whole = [series(rank, step=[10_000] * 9, idle=[1_000] * 9) for rank in (0, 1)]
    found = checked(a_run(ranks=whole), a_run(ranks=told), "idle:5%")
    assert found.limits[0].reason.endswith("in the current run on rank 1")
    assert outcome(a_run(ranks=whole), a_run(ranks=told), "idle@0:5%") == PASS


# --- zero ---


@pytest.mark.parametrize(
    ("grown_us", "limit", "found"),
    [
        (50, "idle:5%", PASS),
        (51, "idle:5%", REGRESSION),
        (500, "idle:5%,min=1ms", PASS),
        (500, "idle:400us", REGRESSION),
        (500, "idle:600us", PASS),
        (0, "idle:0%,min=0", PASS),
    ],
)
def test_from_zero_the_time_decides_and_there_is_no_percentage(grown_us, limit, found):
    base = a_run([10_000] * 9, idle=[0] * 9)
    result = checked(base, a_run([10_000] * 9, idle=[grown_us] * 9), limit)
    one = result.limits[0]
    assert (result.exit_code, one.outcome) == found
    assert one.change_ratio is None
    assert (one.interval.low_ratio, one.interval.high_ratio) == (None, None)
    assert "%" not in one.reason.replace("no percentage", "")
    assert ("from zero" in one.reason) == (found == REGRESSION)


def test_down_to_zero_is_a_gain():
    base = a_run([10_000] * 9, idle=[1_000] * 9)
    found = checked(base, a_run([10_000] * 9, idle=[0] * 9), "idle:5%")
    assert (found.exit_code, found.limits[0].change_ratio) == (0, -1.0)


def test_a_single_zero_among_the_steps_takes_no_logarithm():
    base = a_run([10_000] * 9, idle=[0, 900, 1_100, 1_000, 1_000, 900, 1_100, 1_000, 1_000])
    found = checked(base, a_run([10_000] * 9, idle=[2_000] * 9), "idle:5%")
    assert (found.exit_code, found.limits[0].change_ratio) == (1, 1.0)


# --- several runs ---


def test_of_several_runs_the_median_of_their_medians_counts():
    base = [a_run([us] * 9) for us in (10_000, 9_900, 10_100)]
    found = checked(base, [a_run([us] * 9) for us in (10_300, 10_200, 10_500)])
    assert found.limits[0].current_ns == 10_300_000
    assert (found.limits[0].baseline.runs, found.limits[0].baseline.steps) == (3, 27)


def test_runs_that_differ_from_each_other_make_a_small_change_uncertain():
    """Steps of each run hardly vary; the runs vary by 10 %, so 6 % more in one of them is nothing.

    The same 6 % against runs that repeat are a regression.
    """
    apart = [a_run([us] * 30) for us in (9_000, 10_000, 11_000, 9_500, 10_500)]
    alike = [a_run([us] * 30) for us in (9_990, 10_000, 10_010, 9_995, 10_005)]
    assert outcome(apart, a_run([10_600] * 30)) == OPEN
    assert outcome(alike, a_run([10_600] * 30)) == REGRESSION


def test_steps_of_short_runs_count_together():
    base = [a_run([us] * 2) for us in (10_000, 10_001, 9_999)]
    slow = [a_run([us] * 2) for us in (11_000, 11_001, 10_999)]
    assert outcome(base, slow) == REGRESSION
    assert outcome(base, slow[:2]) == OPEN


def test_there_must_be_a_run_and_a_baseline():
    for sides in (([], [BASE]), ([BASE], [])):
        with pytest.raises(UsageError, match="no run to check"):
            check(*sides, Rules())


# --- notes ---


def test_cold_steps_are_pointed_out_and_count():
    found = checked(BASE, a_run([30_000, *steps_of(10_000, 9)]))
    assert found.exit_code == 0
    assert [note for note in found.notes if "step 1 of the current run took 15.0" in note]
    assert found.limits[0].current.steps == 10
    assert not checked(BASE, BASE).notes


def test_power_is_told_when_it_is_asked_for():
    noisy = a_run(steps_of(10_000, 40, NOISY))
    found = checked(noisy, noisy, power=True)
    assert checked(noisy, noisy).power == []
    first, *others = found.power
    assert (first.baseline_steps, first.current_steps) == (40, 40)
    assert [one.baseline_steps for one in others] == [5, 10, 20, 50, 100, 200]
    ratios = [one.detectable_ratio for one in others]
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[0] > 2 * ratios[-1] > 0.05


def test_nothing_is_told_of_power_with_too_few_steps():
    assert checked(BASE, a_run([10_000] * 4), power=True).power == []
