"""Slow drift, and a run held against a history: what is found, what is not, what counts."""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from histories import figures, history, named, timed
from hypothesis import given, settings
from hypothesis import strategies as st

from ddptrace.check.judge import Rules
from ddptrace.check.limits import parse
from ddptrace.errors import HistoryError
from ddptrace.history.drift import FEWEST_RUNS, MOST_RUNS, drifts, trend_p_value
from ddptrace.history.runs import ALL, Choice
from ddptrace.history.series import check_against, past_of
from ddptrace.history.store import reading
from ddptrace.outputs.check import render
from ddptrace.outputs.terminal import Destination

STEP_NS = 10_000_000
LIMIT = Fraction(3, 100)


def growing(ratio, count, flat=0):
    levels = [1.0] * flat + [(1 + ratio) ** place for place in range(count)]
    return [round(STEP_NS * level) for level in levels]


def is_found(values, limit=LIMIT):
    return any(one.exceeds(limit * one.best_ns) for one in drifts(values))


# --- the trend ---


def test_the_trend_of_mann_and_kendall_is_the_textbooks():
    """Ten rising values: S = 45, variance 125, z = 44 ÷ √125 = 3.935, p = 4.15e-5."""
    assert trend_p_value(range(10)) == pytest.approx(4.152e-5, rel=1e-3)
    # One pair in the wrong order: S = 43, z = 42 ÷ √125 = 3.757.
    assert trend_p_value([1, 0, *range(2, 10)]) == pytest.approx(8.61e-5, rel=1e-2)


def test_values_that_are_equal_tell_less():
    """Pairs of equal values: S = 24 of 28, variance (8·7·21 − 4·2·1·9) ÷ 18 = 61.33."""
    assert trend_p_value([0, 0, 1, 1, 2, 2, 3, 3]) == pytest.approx(0.00166, rel=1e-2)


@pytest.mark.parametrize("values", [[5] * 10, list(range(10, 0, -1)), [1, 2] * 5 + [1]])
def test_no_rise_is_no_trend(values):
    assert trend_p_value(values) > 0.3


@settings(deadline=None)
@given(st.lists(st.integers(0, 1000), min_size=8, max_size=60))
def test_a_p_value_is_one_and_does_not_depend_on_the_unit(values):
    found = trend_p_value(values)
    assert 0 <= found <= 1
    assert trend_p_value([7 * value for value in values]) == pytest.approx(found)


def test_runs_that_follow_each_other_tell_less_than_their_number():
    """Five runs at each of six levels are hardly more than six runs."""
    levels = [0, 3, 1, 5, 2, 6]
    waves = [1000 * level + place for level in levels for place in range(5)]
    turns = [1000 * level + place for place in range(5) for level in levels]
    for values, factor in ((waves, 3.0), (turns, 1.0)):
        rises = sum(np.sign(b - a) for at, a in enumerate(values) for b in values[at + 1 :])
        z = (rises - 1) / math.sqrt(30 * 29 * 65 / 18)
        told_z = -NormalDist().inv_cdf(trend_p_value(values))
        assert (told_z < z / math.sqrt(factor)) if factor > 1 else (told_z == pytest.approx(z))


# --- drift ---


def test_ten_runs_each_one_percent_slower_are_drift_though_no_step_is_three():
    found = drifts(growing(0.01, 10))
    assert [one.runs for one in found] == [10]
    assert found[0].best_ns == STEP_NS * 101 // 100
    assert found[0].now_ns == round(STEP_NS * 1.01**8)
    assert is_found(growing(0.01, 10))


@pytest.mark.parametrize(("count", "told"), [(FEWEST_RUNS - 1, 0), (FEWEST_RUNS, 1)])
def test_fewer_runs_than_these_tell_nothing(count, told):
    assert len(drifts(growing(0.05, count))) == told


def test_drift_after_a_long_flat_time_is_found():
    values = growing(0.01, 10, flat=30)
    assert is_found(values)
    assert [one.runs for one in drifts(values)] == [40, 20, 10]


def test_drift_that_is_too_slow_for_few_runs_is_found_over_many():
    values = growing(0.002, 40)
    assert not is_found(values[:14])
    assert is_found(values)


def test_runs_of_longer_ago_do_not_count():
    values = growing(0, 1) + [STEP_NS * 2] * MOST_RUNS
    assert [one.best_ns for one in drifts(values)] == [STEP_NS * 2] * 3
    assert drifts(values)[0].best_at == 1


@pytest.mark.parametrize("growth", [0, -0.01])
def test_flat_and_shrinking_series_are_none(growth):
    assert not is_found(growing(growth, 30))


def test_a_level_is_held_against_runs_of_before_it_alone():
    (drift,) = drifts(growing(-0.01, 10))
    assert drift.change_ns < 0
    assert (drift.best_at, drift.best_ns) == (4, round(STEP_NS * 0.99**5))


@pytest.mark.parametrize(
    ("order", "found"), [([0, 1, 2, 4, 3, 5, 6, 7], True), ([1, 0, 2, 4, 3, 5, 6, 7], False)]
)
def test_a_trend_is_one_at_a_risk_of_one_in_a_thousand(order, found):
    """Of 28 pairs one or two in the wrong order: p is 0.00099 and 0.0022."""
    assert is_found([round(STEP_NS * 1.02**place) for place in order]) == found


def test_the_risk_is_shared_by_the_lengths():
    """Eleven runs are looked at as eleven and as the last ten."""
    order = (0, 2, 1, 4, 3, 6, 5, 8, 7, 9, 10)  # of the last ten four pairs are in the wrong order
    found = drifts([STEP_NS + 1_000_000 * place for place in order])
    assert [one.runs for one in found] == [11, 10]
    assert found[0].p_value < 0.0005 < found[1].p_value < 0.001
    assert [one.is_trend for one in found] == [True, False]


def test_a_trend_within_the_limit_is_none_and_one_beyond_it_is():
    """From the second run to the ninth of ten it is seven times the growth of a run."""
    assert not is_found(growing(0.004, 10))
    assert is_found(growing(0.0045, 10))
    values = growing(0.01, 10)
    (drift,) = drifts(values)
    assert not drift.exceeds(Fraction(drift.change_ns))
    assert drift.exceeds(Fraction(drift.change_ns) - Fraction(1, 10))


def test_one_slow_run_among_flat_ones_is_none():
    values = growing(0, 20)
    values[-1] = 2 * STEP_NS
    assert not is_found(values)


@pytest.mark.parametrize("spread", [0.005, 0.01, 0.02])
def test_flat_noise_is_hardly_ever_drift(spread):
    random = np.random.default_rng(3)
    noise = 1 + spread * random.standard_normal((400, 30))
    assert sum(is_found([round(STEP_NS * each) for each in row]) for row in noise) <= 4


# --- a run held against a history ---


def against(path, run, *limits, choice=ALL, allowed=(), **options):
    rules = Rules(tuple(map(parse, limits or ["step:3%"])), frozenset(allowed))
    with reading(path) as database:
        past = past_of(database, [run], choice, allowed=rules.allowed, **options)
    return past, check_against(past, [run], rules)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "history.db"


def test_the_baseline_is_the_median_of_the_last_comparable_runs(path):
    history(path, 30, 20, 10, 11, 12)
    past, result = against(path, figures(11.2), window=3)
    assert past.numbers == [1, 2, 3, 4, 5]
    assert result.limits[0].baseline_ns == 11_000_000
    assert (result.outcome, result.exit_code) == ("pass", 0)
    assert "the baseline is the median of 3 comparable runs of the history (3-5)" in result.notes
    assert "drift is looked for over 8 runs and more; there are 6" in result.notes
    assert result.baseline.names == ["run 3 (run 2)", "run 4 (run 3)", "run 5 (run 4)"]


def test_the_text_names_the_runs_of_the_baseline_in_their_order(path):
    history(path, *(10 + place / 1000 for place in range(11)))
    _, result = against(path, figures(10.02))
    assert render(result, Destination()).startswith(
        "baseline: run 2 (run 1), run 3 (run 2), run 4 (run 3), run 5 (run 4) and 6 more: 10 runs,"
    )


def test_a_slower_run_is_a_regression_and_which_part_grew_is_told(path):
    history(path, 10, 10.01, 9.99)
    _, result = against(path, figures(11, exposed_ms=2))
    assert (result.outcome, result.exit_code) == ("regression", 1)
    assert result.growth.change_ns == 1_000_000
    assert result.next_steps == [
        "where it went: ddptrace compare OLD-RUN RUN; if it is meant: "
        "ddptrace history add RUN --new-start"
    ]


def test_runs_that_are_unlike_are_left_out_and_counted(path):
    history(path, 10, figures(20, gpu="NVIDIA A100"), 10.01)
    past, result = against(path, figures(10.02))
    assert past.numbers == [1, 3]
    assert result.outcome == "pass"
    assert any(note.endswith("(1, 3); 1 run left out, unlike this one") for note in result.notes)
    past, result = against(path, figures(10.02), allowed=["gpu"])
    assert past.numbers == [1, 2, 3]


def test_without_a_comparable_run_nothing_is_compared_and_the_difference_is_told(path):
    history(path, 10, figures(20, gpu="NVIDIA A100"))
    _, result = against(path, figures(10, gpu="NVIDIA B200"))
    assert (result.outcome, result.exit_code) == ("not_comparable", 2)
    assert "NVIDIA A100 vs NVIDIA B200" in result.headline
    assert result.next_steps == [
        "begin with runs of this kind: ddptrace history add RUN; to compare all the same: "
        "--allow gpu"
    ]


def test_only_the_branch_and_tags_that_are_meant_count(path):
    history(path, 10, branch="main", tags=["nightly"])
    history(path, 20, branch="main")
    history(path, 30, branch="other", tags=["nightly"])
    for choice, numbers in (
        (ALL, [1, 2, 3]), (Choice("main"), [1, 2]), (Choice("main", ("nightly",)), [1]),
    ):  # fmt: skip
        assert against(path, figures(10.5), choice=choice)[0].numbers == numbers
    with pytest.raises(HistoryError, match="has no run of branch none with tag nightly; add one"):
        against(path, figures(10.5), choice=Choice("none", ("nightly",)))


def test_a_run_is_not_held_against_itself(path):
    history(path, 10, 12)
    past, _ = against(path, named(figures(12), "read from elsewhere"))
    assert past.numbers == [1]
    (path.parent / "one.db").unlink(missing_ok=True)
    history(path.parent / "one.db", 12)
    with pytest.raises(HistoryError, match="has no run besides this one; add one"):
        against(path.parent / "one.db", figures(12))


def test_an_accepted_change_begins_anew(path):
    from histories import NOWHERE

    from ddptrace.history.runs import Entry, add
    from ddptrace.history.store import writing

    history(path, *(10 + place / 1000 for place in range(9)))
    with writing(path) as writer:
        add(writer, Entry(figures(12), NOWHERE, starts_anew=True))
    history(path, 12.01)
    past, result = against(path, figures(12.02))
    assert past.numbers == [10, 11]
    assert (result.outcome, len(result.limits)) == ("pass", 1)
    with writing(path) as writer:
        add(writer, Entry(figures(13), NOWHERE, starts_anew=True))
    assert against(path, figures(12.02))[0].numbers == [12]


def drifting(path, count=9, ratio=0.01):
    return history(path, *(10 * (1 + ratio) ** place for place in range(count)))


def test_slow_drift_fails_though_the_last_run_alone_passes(path):
    drifting(path)
    _, result = against(path, figures(10 * 1.01**9), window=1)
    alone, drift = result.limits
    assert (alone.outcome, drift.outcome, result.exit_code) == ("pass", "regression", 1)
    assert (drift.over_runs, drift.baseline.runs, drift.baseline_ns) == (10, 3, 10_100_000)
    assert drift.place == "step, drift over 10 runs"
    assert drift.reason.startswith("+7.2 % since runs 1-3, a trend over the last 10 runs")
    assert drift.allowed_ns == 303_000
    assert result.headline == f"regression: step, drift over 10 runs: {drift.reason}"
    # Since the best runs, of which the second is the one in the middle.
    assert result.growth.baseline_ns == 10_100_000


def test_a_flat_history_shows_no_drift_and_says_that_it_was_looked_for(path):
    history(path, *(10 + place % 3 / 100 + place / 1e5 for place in range(12)))
    _, result = against(path, figures(10.005))
    assert [(one.outcome, one.over_runs) for one in result.limits] == [
        ("pass", None), ("pass", 13)
    ]  # fmt: skip
    assert result.limits[1].reason == "no drift of more than the limit"
    assert (result.outcome, result.headline) == ("pass", "passed: 2 limits kept")


def test_each_limit_is_looked_at_for_drift_with_its_own_floor(path):
    history(path, *(figures(10 + place / 10_000, exposed_ms=1.1**place) for place in range(9)))
    run = figures(10.01, exposed_ms=1.1**9)
    limits = ["exposed_comm:30%", "exposed_comm@1:30%,min=2ms", "step:3%"]
    _, result = against(path, run, *limits, window=1)
    assert [(one.limit, one.outcome) for one in result.limits if one.over_runs] == [
        ("exposed_comm@slowest:30%,min=50us", "regression"),
        ("exposed_comm@1:30%,min=2ms", "pass"),
        ("step@slowest:3%,min=50us", "pass"),
    ]


def test_drift_is_of_steps_from_the_same_source(path):
    history(path, *(timed(10 * 1.01**place) for place in range(9)), *(10.0, 10.001))
    past, result = against(path, timed(10 * 1.01**9), window=1)
    assert len(past.numbers) == 11
    # The last run has recorded steps only, this one timed steps only.
    assert [one.outcome for one in result.limits] == ["not_comparable"]
    past, result = against(path, timed(10 * 1.01**9), window=3)
    assert [one.outcome for one in result.limits] == ["pass", "regression"]
    assert result.limits[1].over_runs == 10


def test_runs_of_before_that_drifted_say_nothing_of_one_that_cannot_be_compared(path):
    drifting(path)
    _, result = against(path, timed(10))
    assert [one.outcome for one in result.limits] == ["not_comparable"]


def test_a_metric_that_no_run_tells_is_no_drift(path):
    drifting(path)
    _, result = against(path, figures(10), "tail:3%")
    assert [one.outcome for one in result.limits] == ["not_comparable"]
    assert result.exit_code == 2


def test_drift_from_nothing_is_told_in_ms(path):
    exposed = (0, 0, 0, 0, 0.1, 0.2, 0.3, 0.4)
    history(path, *(figures(10 + at / 1e4, exposed_ms=ms) for at, ms in enumerate(exposed)))
    _, result = against(path, figures(10, exposed_ms=0.5), "exposed_comm:30%", window=1)
    drift = result.limits[1]
    assert (drift.outcome, drift.change_ratio) == ("regression", None)
    assert drift.reason.startswith("+0.40 ms since runs 1-3, ")
