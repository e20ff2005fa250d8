"""Predictions of stated jobs, held against an independent replay of what they would do."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from whatif_jobs import GRADIENT, LOOP, MIB, Job, record, recorded, step_of, write

from ddptrace import analyze, load_run
from ddptrace.errors import RunError
from ddptrace.metrics.measured import Measured
from ddptrace.whatif.anchor import Anchoring
from ddptrace.whatif.contention import Slowed
from ddptrace.whatif.document import to_json
from ddptrace.whatif.job import job_of
from ddptrace.whatif.known import Known
from ddptrace.whatif.models import bucket_fit
from ddptrace.whatif.packing import Limits, Packing, pack
from ddptrace.whatif.predict import predict
from ddptrace.whatif.scenario import Scenario
from ddptrace.whatif.trust import Grounds, judged

SIZES = [4, 4, 8, 2, 2, 16, 4, 4]
CAPS = [1, 5, 8, 16, 100]
PLAIN = Job(SIZES, [[0, 1, 2], [3, 4, 5], [6, 7]])


def with_cap(job, cap):
    sizes = [round(size * MIB) for size in job.sizes]
    limit = int(cap * MIB)
    return replace(job, buckets=pack(sizes, [0] * len(sizes), Limits(limit, limit)))


def steps(found):
    return {one.bucket_cap_mb: one.step_ns / 1000 for one in found.predictions}


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(PLAIN, id="plain"),
        pytest.param(replace(PLAIN, slow=1.5), id="compute is slower beside communication"),
        pytest.param(replace(PLAIN, per_mib=40), id="a slow link"),
        pytest.param(replace(PLAIN, late={"1": 180}), id="a late rank"),
        pytest.param(replace(PLAIN, ranks=4, late={"2": 60, "3": 20}), id="four ranks"),
        pytest.param(replace(PLAIN, buckets=[[0, 1, 2, 3], [4, 5], [6, 7]]), id="other buckets"),
    ],
)
def test_the_step_with_any_cap_is_what_the_job_would_take(job, tmp_path):
    found = predict(recorded(job, tmp_path), CAPS)
    for cap, step_us in steps(found).items():
        assert step_us == pytest.approx(step_of(with_cap(job, cap)), rel=0.002)
    assert found.measured_step_ns == pytest.approx(1000 * step_of(job), rel=1e-6)
    assert found.replayed_step_ns == pytest.approx(found.recorded_step_ns, rel=0.002)
    assert found.anchor == "recorded"
    assert found.resolution == "parameters"


def test_the_interval_holds_the_step_and_the_noise_of_runs(tmp_path):
    for one in predict(recorded(PLAIN, tmp_path), CAPS).predictions:
        assert one.low_ns < one.step_ns < one.high_ns
        assert one.high_ns - one.low_ns >= 0.039 * one.step_ns


def test_the_cap_of_the_recorded_buckets_is_found(tmp_path):
    found = predict(recorded(PLAIN, tmp_path), CAPS)
    assert found.recorded_cap_mb == 16
    assert found.recorded_buckets == 3


def test_the_cost_of_a_bucket_is_found(tmp_path):
    """20 µs + 10 µs a MiB."""
    model = predict(recorded(PLAIN, tmp_path), CAPS).model
    assert model.alpha_ns == pytest.approx(20_000, abs=5)
    assert model.bandwidth_gb_s == pytest.approx(MIB / 10_000, rel=1e-4)
    assert (model.operation, model.group_size) == ("all_reduce", 2)
    assert (model.samples, model.sizes) == (9, 3)


def test_a_default_cap_is_known_by_its_small_first_bucket(tmp_path):
    job = replace(PLAIN, sizes=[2, 12, 14, 30], buckets=[[0], [1, 2], [3]])
    assert predict(recorded(job, tmp_path), [25]).recorded_cap_mb == 25


@pytest.mark.parametrize(("cap", "best"), [(30, 1), (1, 1)])
def test_the_best_cap_gains_what_it_would(cap, best, tmp_path):
    job = with_cap(PLAIN, cap)
    found = predict(recorded(job, tmp_path), CAPS, Scenario(alpha_ns=20_000))
    assert found.best.bucket_cap_mb == best
    gain = step_of(job) - step_of(with_cap(job, best))
    assert found.best.gain_ns / 1000 == pytest.approx(gain, abs=4)
    assert found.best.gain_low_ns <= found.best.gain_ns <= found.best.gain_high_ns


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


def test_a_cap_that_is_as_good_stays(tmp_path):
    """Everything is hidden but the last bucket, which is the same one with three caps."""
    found = predict(recorded(with_cap(PLAIN, 8), tmp_path), [2, 5, 8, 16])
    assert found.best.bucket_cap_mb == 8 or found.best.gain_ns > 0.002 * found.measured_step_ns


def test_a_link_of_twice_the_bandwidth_halves_the_bytes_part(tmp_path):
    job = replace(PLAIN, per_mib=40)
    found = predict(recorded(job, tmp_path), [8], Scenario(link=2))
    assert steps(found)[8] == pytest.approx(step_of(with_cap(replace(job, per_mib=20), 8)), abs=5)
    assert "2 times" in found.scenario[0]


def test_half_the_bytes_are_as_good_as_twice_the_bandwidth(tmp_path):
    run = recorded(replace(PLAIN, per_mib=40), tmp_path)
    faster = predict(run, CAPS, Scenario(link=2))
    assert steps(predict(run, CAPS, Scenario(is_compressed=True))) == steps(faster)


def test_numbers_of_two_bytes_are_not_made_smaller(tmp_path):
    run = recorded(replace(PLAIN, per_mib=40, dtype="c10::BFloat16"), tmp_path)
    assert predict(run, [8]).resolution != "parameters"  # of an unknown type no size is known


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_without_the_straggler_it_comes_with_the_median_of_the_others(ranks, tmp_path):
    job = replace(PLAIN, ranks=ranks, late={str(ranks - 1): 180})
    found = predict(recorded(job, tmp_path), [8], Scenario(without_straggler=True))
    assert steps(found)[8] == pytest.approx(step_of(with_cap(replace(job, late={}), 8)), abs=5)


def test_free_communication_leaves_compute(tmp_path):
    found = predict(recorded(PLAIN, tmp_path), CAPS, Scenario(free_communication=True))
    compute = 400 + len(SIZES) * 200 + 100
    assert list(steps(found).values()) == pytest.approx([compute] * len(CAPS), abs=2)
    assert found.bounds.free_communication_ns / 1000 == pytest.approx(compute, abs=2)


def test_perfect_overlap_is_the_longer_of_both(tmp_path):
    """44 MiB at 80 µs each and three alphas take longer than all compute."""
    job = replace(PLAIN, per_mib=80)
    found = predict(recorded(job, tmp_path), [8], Scenario(perfect_overlap=True))
    count = len(with_cap(job, 8).buckets)
    alone = 44 * 80 + count * 20 + (count - 1) * 3
    assert steps(found)[8] == pytest.approx(alone, abs=10)
    assert found.bounds.communication_only_ns / 1000 == pytest.approx(alone, abs=2)


def test_no_cap_beats_the_bounds(tmp_path):
    found = predict(recorded(replace(PLAIN, per_mib=40), tmp_path), CAPS)
    least = min(one.step_ns for one in found.predictions)
    assert found.bounds.free_communication_ns <= found.bounds.perfect_overlap_ns <= least


def test_of_caps_that_are_as_good_the_middle_one_is_taken(tmp_path):
    run = recorded(PLAIN, tmp_path)
    free = Scenario(free_communication=True)
    assert predict(run, [1, 2, 3, 4, 5], free).best.bucket_cap_mb == 3
    assert predict(run, [1, 2, 3, 4, 16], free).best.bucket_cap_mb == 16  # the recorded one


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


def test_exposed_and_tail_are_those_of_the_step(tmp_path):
    """One bucket of 44 MiB behind all compute: nothing but it is exposed."""
    (one,) = predict(recorded(PLAIN, tmp_path), [100]).predictions
    assert one.buckets == 1
    assert one.exposed_comm_ns / 1000 == pytest.approx(44 * 10 + 20, abs=2)
    assert one.tail_ns == one.exposed_comm_ns


# --- what it starts from ---


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


SLOW_HOST = replace(PLAIN, kernel=60, host=180)
"""The host launches a kernel of 60 µs every 180 µs."""


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


# --- what is known of gradients ---


def test_without_shapes_buckets_are_cut_into_pieces_and_that_is_said(tmp_path):
    found = predict(recorded(replace(PLAIN, shapes=False), tmp_path), [16, 24, 100])
    assert found.resolution == "buckets"
    assert any("no size of a parameter" in note for note in found.notes)
    assert steps(found)[100] == pytest.approx(step_of(with_cap(PLAIN, 100)), rel=0.002)


def test_the_cap_that_a_job_has_gives_the_recorded_buckets_however_little_is_known(tmp_path):
    job = replace(PLAIN, shapes=False)
    write(job, tmp_path)
    sizes = [sum(round(job.sizes[p] * MIB) for p in each) for each in job.buckets]
    told = {"rebuilt_bucket_bytes": sizes, "bucket_cap_bytes": 9 * MIB}
    found = predict(tell(tmp_path, told), [9, 16])
    assert found.predictions[0].buckets == 3
    assert found.predictions[0].step_ns == pytest.approx(found.measured_step_ns, rel=1e-6)


def parameters(job, **told):
    names = [f"p{place}" for place in range(len(job.sizes))]
    sizes = [round(size * MIB) for size in job.sizes]
    buckets = [sum(sizes[place] for place in bucket) for bucket in job.buckets]
    return {
        "bucket_parameters": [[names[place] for place in bucket] for bucket in job.buckets],
        "rebuilt_bucket_bytes": buckets,
        "parameter_names": names[::-1],
        "parameter_bytes": sizes[::-1],
        "parameter_types": ["torch.float32"] * len(names),
    } | told


def tell(folder, module, versions=()):
    ranks = [
        {"rank": rank, "files": [f"rank{rank}.json"], "ddp": [module]} for rank in (0, 1)
    ]  # fmt: skip
    document = {"ddptrace_manifest": 1, "ranks": ranks, "versions": dict(versions)}
    (folder / "manifest.json").write_text(json.dumps(document))
    return load_run(folder)


def test_sizes_that_the_manifest_tells_are_as_good_as_shapes(tmp_path):
    job = replace(PLAIN, shapes=False)
    write(job, tmp_path)
    found = predict(tell(tmp_path, parameters(job)), CAPS)
    assert found.resolution == "parameters"
    for cap, step_us in steps(found).items():
        assert step_us == pytest.approx(step_of(with_cap(job, cap)), rel=0.002)


def test_sizes_without_times_come_evenly_and_that_is_said(tmp_path):
    job = replace(PLAIN, shapes=False)
    for rank in (0, 1):
        kineto = record(job, rank)
        kineto.events = [one for one in kineto.events if one["name"] != GRADIENT]
        kineto.write(tmp_path / f"rank{rank}.json")
    found = predict(tell(tmp_path, parameters(job)), CAPS)
    assert found.resolution == "sizes"
    assert any("come evenly" in note for note in found.notes)
    for cap, step_us in steps(found).items():
        assert step_us == pytest.approx(step_of(with_cap(job, cap)), rel=0.05)


def test_buckets_in_the_order_of_registration_stay_so(tmp_path):
    """Registered from the last gradient to the first: packed forward, launched backward."""
    sizes = [round(size * MIB) for size in SIZES[::-1]]
    last = len(SIZES) - 1
    buckets = [[last - place for place in each] for each in packed_forward(sizes, 8)]
    job = replace(PLAIN, buckets=buckets, shapes=False)
    write(job, tmp_path)
    told = {
        "find_unused_parameters": True, "bucket_parameters": [], "rebuilt_bucket_bytes": [],
        "initial_bucket_bytes": [sum(round(SIZES[p] * MIB) for p in each) for each in buckets],
    }  # fmt: skip
    found = predict(tell(tmp_path, parameters(job, **told)), [8, 16])
    assert "order of registration" in found.packing
    wanted = [[last - place for place in each] for each in packed_forward(sizes, 16)]
    assert found.predictions[1].buckets == len(wanted)
    assert steps(found)[8] == pytest.approx(step_of(job), rel=0.01)
    assert steps(found)[16] == pytest.approx(step_of(replace(job, buckets=wanted)), rel=0.05)


def packed_forward(sizes, cap):
    limit = cap * MIB
    return pack(sizes, [0] * len(sizes), Limits(limit, limit))[::-1]


def test_the_version_of_pytorch_decides_about_the_first_bucket(tmp_path):
    """Gradients of 1 MiB first: the first one closes a bucket of its own in an old PyTorch."""
    job = with_cap(replace(PLAIN, sizes=[1, 1, 1, 1, 4, 4], shapes=False), 100)
    write(job, tmp_path)
    old = predict(tell(tmp_path, parameters(job), {"torch": "2.3.1"}.items()), [3])
    new = predict(tell(tmp_path, parameters(job), {"torch": "2.11.0"}.items()), [3])
    assert [old.predictions[0].buckets, new.predictions[0].buckets] == [4, 3]
    assert "2.3.1 always" in old.packing
    assert (
        "2.11.0 limits the first bucket to 1 MiB only while the cap is the default" in new.packing
    )


# --- refusals ---


@pytest.mark.parametrize(
    ("job", "words"),
    [
        pytest.param(replace(PLAIN, ranks=1), "one rank", id="one rank"),
        pytest.param(replace(PLAIN, buckets=[]), "nothing is communicated", id="no communication"),
    ],
)
def test_a_job_that_cannot_be_replayed_is_refused_with_the_reason(job, words, tmp_path):
    with pytest.raises(RunError, match=words):
        predict(recorded(job, tmp_path))


@pytest.mark.parametrize("is_autograd_told", [True, False])
def test_buckets_on_the_stream_of_compute_overlap_with_nothing(is_autograd_told, tmp_path):
    for rank in (0, 1):
        kineto = record(PLAIN, rank)
        if not is_autograd_told:
            told = ("user_annotation", "cuda_runtime", "kernel", "ac2g")
            kineto.events = [event for event in kineto.events if event["cat"] in told]
            for event in kineto.events:
                if event["cat"] == "cuda_runtime":
                    event["tid"] = LOOP
        for event in kineto.events:
            if event["cat"] == "kernel":
                event["args"]["stream"] = event["tid"] = 7
        kineto.write(tmp_path / f"rank{rank}.json")
    with pytest.raises(RunError, match="on the stream of compute"):
        predict(load_run(tmp_path))


def test_gradients_reduced_in_each_micro_step_are_refused(tmp_path):
    for rank in (0, 1):
        kineto = record(replace(PLAIN, steps=6), rank)
        marks = [one for one in kineto.events if "ProfilerStep" in one["name"]]
        for first, second in zip(marks[::2], marks[1::2], strict=True):
            first["dur"] = second["ts"] + second["dur"] - first["ts"]
            kineto.events.remove(second)
        kineto.write(tmp_path / f"rank{rank}.json")
    with pytest.raises(RunError, match="several times a step"):
        predict(load_run(tmp_path))


def test_a_run_without_step_marks_is_refused(tmp_path):
    for rank in (0, 1):
        kineto = record(PLAIN, rank)
        kineto.events = [one for one in kineto.events if "ProfilerStep" not in one["name"]]
        kineto.write(tmp_path / f"rank{rank}.json")
    with pytest.raises(RunError, match="no step marks"):
        predict(load_run(tmp_path))


def test_all_reduces_outside_backward_are_no_buckets(tmp_path):
    for rank in (0, 1):
        kineto = record(PLAIN, rank)
        kineto.events = [one for one in kineto.events if "Distributed" not in one["name"]]
        kineto.write(tmp_path / f"rank{rank}.json")
    with pytest.raises(RunError, match="no all-reduce is known to be of DDP's gradients"):
        predict(load_run(tmp_path))


# --- the report and the diagnosis ---


def test_the_report_has_the_predictions(tmp_path):
    run = recorded(PLAIN, tmp_path)
    report = analyze(run)
    assert report.whatif == predict(run)


def test_a_report_without_a_replay_has_none(tmp_path):
    assert analyze(recorded(replace(PLAIN, buckets=[]), tmp_path)).whatif is None


def test_the_costs_are_what_a_replay_without_them_saves(tmp_path):
    job = with_cap(replace(PLAIN, per_mib=20), 100)
    costs = predict(recorded(job, tmp_path), CAPS, Scenario(alpha_ns=20_000)).costs
    best = min(step_of(with_cap(job, cap)) for cap in CAPS)
    assert costs.bucket_schedule_ns / 1000 == pytest.approx(step_of(job) - best, rel=0.05)
    assert costs.comm_latency_ns / 1000 == pytest.approx(20, abs=1)


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
    known = Known(fit=None, beside=Slowed(1.3, 1.01, 1.6, compared), pause_ns=0.0)
    assert known.certain().beside.ratio == certain


def test_the_advice_names_the_cap_and_what_it_saves(tmp_path):
    job = with_cap(replace(PLAIN, per_mib=20), 100)
    report = analyze(recorded(job, tmp_path))
    (finding,) = [one for one in report.diagnosis.findings if one.code == "bucket_schedule"]
    best = report.whatif.best
    assert f"bucket_cap_mb={best.bucket_cap_mb:g} is predicted to save" in finding.advice
    assert finding.cost_ns == report.whatif.costs.bucket_schedule_ns
    evidence = {one.metric: one.value for one in finding.evidence}
    assert evidence["predicted_step_ns"] == best.step_ns


def test_the_json_has_what_is_promised(tmp_path):
    document = json.loads(to_json(predict(recorded(PLAIN, tmp_path), CAPS)))
    assert next(iter(document)) == "schema"
    assert {"alpha_ns", "bandwidth_gb_s"} <= document["model"].keys()
    assert {"measured_step_ns", "predictions", "best", "bounds"} <= document.keys()
    promised = "bucket_cap_mb buckets step_ns low_ns high_ns exposed_comm_ns tail_ns"
    for one in document["predictions"]:
        assert set(promised.split()) <= one.keys()
