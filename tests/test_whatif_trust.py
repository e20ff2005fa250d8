"""How sure predictions of stated jobs are: intervals, what the host has to do with it, trust."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from whatif_jobs import (
    CAPS,
    PLAIN,
    SIZES,
    recorded,
    step_of,
    steps,
    with_cap,
    write,
)

from ddptrace import analyze, load_run
from ddptrace.metrics.measured import Measured
from ddptrace.whatif.anchor import Anchoring
from ddptrace.whatif.contention import Slowed
from ddptrace.whatif.job import job_of
from ddptrace.whatif.known import Known
from ddptrace.whatif.models import Pauses, bucket_fit
from ddptrace.whatif.packing import Packing
from ddptrace.whatif.predict import predict
from ddptrace.whatif.scenario import Scenario
from ddptrace.whatif.trust import Grounds, judged


def test_the_interval_holds_the_step_and_the_noise_of_runs(tmp_path):
    for one in predict(recorded(PLAIN, tmp_path), CAPS).predictions:
        assert one.low_ns < one.step_ns < one.high_ns
        assert one.high_ns - one.low_ns >= 0.039 * one.step_ns


def test_what_nothing_ran_beside_of_may_slow_compute(tmp_path):
    """One bucket, which hides nothing: compute beside smaller ones is as fast as alone, or 1.4."""
    job = with_cap(PLAIN, 100)
    found = predict(recorded(job, tmp_path), [8, 100], Scenario(alpha_ns=20_000)).predictions
    for slow in (1.0, 1.2, 1.4):
        step_us = step_of(with_cap(replace(PLAIN, slow=slow), 8))
        assert found[0].low_ns < 1000 * step_us < found[0].high_ns
    assert found[0].step_ns / 1000 == pytest.approx(
        step_of(with_cap(replace(PLAIN, slow=1.2), 8)), rel=0.005
    )
    assert found[1].step_ns / 1000 == pytest.approx(step_of(job), rel=0.002)


def test_another_job_may_have_slower_transfers_than_this_one(tmp_path):
    """With other buckets transfers may be 10 % longer: 9 of them, of 2 sizes, tell no less."""
    slow = recorded(with_cap(replace(PLAIN, per_mib=40), 16), tmp_path)
    other, own = predict(slow, [8, 16]).predictions
    assert own.high_ns < 1.03 * own.step_ns
    dearer = replace(PLAIN, per_mib=44, alpha=22)
    assert other.high_ns / 1000 > step_of(with_cap(dearer, 8))


@pytest.mark.parametrize(
    ("misfit", "trust", "words"),
    [(0.02, "medium", ""), (0.05, "medium", "+5.0 % off"), (-0.2, "low", "-20.0 % off")],
)
def test_a_replay_that_misses_the_recorded_step_is_trusted_less(misfit, trust, words, tmp_path):
    measured = Measured.of(recorded(PLAIN, tmp_path))
    grounds = Grounds(
        measured, job_of(measured), bucket_fit(measured), Slowed(1.0, 1.0, 1.3, 0.0),
        Anchoring(1e6, "recorded", 1e6, 1e4, 1.0), Packing(), misfit, is_reproduced=True,
    )  # fmt: skip
    found, notes = judged(grounds, [])
    assert found == trust
    assert [words in note for note in notes if "replay" in note] == ([True] if words else [])


@pytest.mark.parametrize(("bandwidth_gb_s", "trust"), [(95, "medium"), (1, "low")])
def test_a_line_that_is_given_and_not_of_the_recording_is_trusted_less(
    bandwidth_gb_s, trust, tmp_path
):
    """It is 105 GB/s."""
    run = recorded(PLAIN, tmp_path)
    found = predict(run, CAPS, Scenario(bandwidth_gb_s=bandwidth_gb_s))
    assert found.trust == trust
    is_said = any("not those of the line that was given" in note for note in found.notes)
    assert is_said == (trust == "low")


def unprofiled(folder, step_us, **told):
    ranks = [
        {"rank": rank, "files": [f"rank{rank}.json"],
         "unprofiled": {"first_step": 0, "step_ns": [round(step_us * 1000)] * 6},
         "parts": [{"part": "full", "file": f"rank{rank}.json", "step_ns": [9_000_000] * 3}]}
        for rank in (0, 1)
    ]  # fmt: skip
    document = {"ddptrace_manifest": 1, "ranks": ranks} | told
    (folder / "manifest.json").write_text(json.dumps(document))


def test_steps_timed_without_a_profiler_come_first(tmp_path):
    write(PLAIN, tmp_path)
    unprofiled(tmp_path, step_of(PLAIN) - 20)
    found = predict(load_run(tmp_path), [8, 100])
    assert found.anchor == "unprofiled"
    assert found.measured_step_ns / 1000 == pytest.approx(step_of(PLAIN) - 20)
    grows = step_of(with_cap(PLAIN, 100)) - step_of(with_cap(PLAIN, 8))
    assert steps(found)[100] - steps(found)[8] == pytest.approx(grows, abs=5)


@pytest.mark.parametrize(("times", "trust"), [(0.9, "medium"), (0.82, "medium"), (0.75, "low")])
def test_a_job_that_was_much_faster_without_a_profiler_is_hardly_this_one(times, trust, tmp_path):
    """No host explains it: by 11 and 22 % less it is less sure, by a third hardly sure at all."""
    write(PLAIN, tmp_path)
    unprofiled(tmp_path, times * step_of(PLAIN))
    found = predict(load_run(tmp_path), CAPS, Scenario(alpha_ns=20_000))
    assert found.trust == trust
    assert any("the job is not always as fast" in note for note in found.notes)


@pytest.mark.parametrize(
    ("job", "scenario"),
    [
        (replace(PLAIN, late={"1": 900}), Scenario(without_straggler=True)),
        (replace(PLAIN, per_mib=40), Scenario(bandwidth_gb_s=0.5)),
        (replace(PLAIN, per_mib=40), Scenario(alpha_ns=1e9)),
        (replace(PLAIN, per_mib=40), Scenario(link=0.25)),
        (replace(PLAIN, per_mib=40), Scenario(perfect_overlap=True)),
        (PLAIN, Scenario(is_compressed=True)),
    ],
)
def test_bounds_are_those_of_the_scenario_and_no_less_than_nothing(job, scenario, tmp_path):
    found = predict(recorded(job, tmp_path), CAPS, scenario)
    least = min(one.step_ns for one in found.predictions)
    assert 0 <= found.bounds.free_communication_ns <= found.bounds.perfect_overlap_ns <= least


def test_a_step_without_communication_is_without_the_straggler_too(tmp_path):
    """Communication takes longer than compute, so that overlap is no bound of this."""
    late = recorded(replace(PLAIN, late={"1": 900}, per_mib=60), tmp_path)
    bounds = predict(late, CAPS, Scenario(without_straggler=True)).bounds
    compute_us = PLAIN.forward + len(PLAIN.sizes) * PLAIN.kernel + PLAIN.optimizer
    assert bounds.free_communication_ns / 1000 < compute_us + 100
    with_it = predict(late, CAPS).bounds.free_communication_ns
    assert with_it / 1000 > compute_us + 700


def test_communication_that_takes_no_time_takes_none_alone(tmp_path):
    found = predict(recorded(PLAIN, tmp_path), CAPS, Scenario(free_communication=True))
    assert found.bounds.communication_only_ns == 0


def test_no_step_takes_less_than_nothing(tmp_path):
    """The buckets cost more than the whole step is said to take."""
    job = with_cap(replace(PLAIN, per_mib=60), 100)
    write(job, tmp_path)
    unprofiled(tmp_path, 500)
    for one in predict(load_run(tmp_path), CAPS).predictions:
        assert 0 <= one.low_ns <= one.step_ns <= one.high_ns


SLOW_HOST = replace(PLAIN, kernel=60, host=180)


def test_a_recording_whose_host_is_the_limit_gets_a_range(tmp_path):
    found = predict(recorded(SLOW_HOST, tmp_path), [8, 100])
    assert found.trust == "low"
    assert "waits for the host" in found.notes[0]
    for one in found.predictions:
        assert one.low_ns < 0.95 * found.measured_step_ns
        assert one.high_ns >= found.measured_step_ns


def test_the_profilers_part_of_the_waiting_is_known_with_a_step_without_it(tmp_path):
    """Without the profiler the host keeps up: the step is that of the GPU."""
    fast = replace(SLOW_HOST, host=1)
    write(SLOW_HOST, tmp_path)
    unprofiled(tmp_path, step_of(fast))
    found = predict(load_run(tmp_path), [8, 100])
    assert found.trust != "low"
    assert steps(found)[100] == pytest.approx(step_of(with_cap(fast, 100)), rel=0.03)


def test_a_host_that_is_the_limit_without_profiler_too_gains_nothing(tmp_path):
    write(SLOW_HOST, tmp_path)
    slow_us = load_step_us(tmp_path)
    unprofiled(tmp_path, slow_us * 0.9)
    found = predict(load_run(tmp_path), [8, 16])
    assert found.trust == "low"
    assert "the host decides" in found.notes[0]
    assert {round(each) for each in steps(found).values()} == {round(slow_us * 0.9)}
    assert found.best.gain_ns == 0


def test_a_shorter_tail_gains_nothing_where_the_host_decides(tmp_path):
    """One bucket behind everything: with more of them the GPU only idles longer."""
    job = replace(SLOW_HOST, buckets=[list(range(len(SIZES)))], per_mib=2)
    write(job, tmp_path)
    slow_us = load_step_us(tmp_path)
    unprofiled(tmp_path, slow_us * 0.9)
    (one,) = predict(load_run(tmp_path), [8]).predictions
    assert one.step_ns == round(slow_us * 900)
    assert one.low_ns < one.step_ns - 50_000


def load_step_us(folder):
    return analyze(load_run(folder)).summary.step_ns.median / 1000


def test_a_slowdown_that_is_only_guessed_costs_nothing(tmp_path):
    """Kernels with a name each are never seen both alone and beside communication."""
    job = replace(PLAIN, per_mib=20)
    known = predict(recorded(job, tmp_path / "known"))
    guessed = predict(recorded(replace(job, names="gemm {}"), tmp_path / "guessed"))
    assert (known.model.compute_slowdown_ratio, guessed.model.compared_ratio) == (1.0, 0.0)
    assert guessed.model.compute_slowdown_ratio > 1.0
    assert guessed.costs == known.costs


@pytest.mark.parametrize(("compared", "certain"), [(0.19, 1.01), (0.2, 1.3)])
def test_of_a_slowdown_only_what_many_kernels_show_is_certain(compared, certain):
    known = Known(fit=None, beside=Slowed(1.3, 1.01, 1.6, compared), pauses=Pauses(0.0, 0.0))
    assert known.certain().beside.ratio == certain
