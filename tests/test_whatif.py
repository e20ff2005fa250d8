"""Predictions of stated jobs, held against an independent replay of what they would do."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from whatif_jobs import (
    CAPS,
    GRADIENT,
    LOOP,
    MIB,
    PLAIN,
    SIZES,
    record,
    recorded,
    step_of,
    steps,
    with_cap,
    write,
)

from ddptrace import analyze, load_run
from ddptrace.errors import RunError
from ddptrace.whatif.document import to_json
from ddptrace.whatif.packing import Limits, pack
from ddptrace.whatif.predict import predict
from ddptrace.whatif.scenario import Scenario


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


def test_exposed_and_tail_are_those_of_the_step(tmp_path):
    """One bucket of 44 MiB behind all compute: nothing but it is exposed."""
    (one,) = predict(recorded(PLAIN, tmp_path), [100]).predictions
    assert one.buckets == 1
    assert one.exposed_comm_ns / 1000 == pytest.approx(44 * 10 + 20, abs=2)
    assert one.tail_ns == one.exposed_comm_ns


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


def test_an_order_that_is_not_told_is_not_said_to_be_kept(tmp_path):
    found = predict(recorded(replace(PLAIN, unused=True), tmp_path), [8])
    assert found.packing.startswith("as gradients come")
    assert any("the order of registration" in note for note in found.notes)


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


def test_one_rank_of_several_is_refused_with_what_to_give(tmp_path):
    write(PLAIN, tmp_path)
    (tmp_path / "rank1.json").unlink()
    with pytest.raises(RunError, match=r"one rank of 2 is here.*give the files of all ranks"):
        predict(load_run(tmp_path))


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


OTHER = {
    "Collective name": "broadcast", "In msg nelems": 1000, "Out msg nelems": 1000,
    "dtype": "Float", "Process Group Name": "0", "Group size": 2,
    "Process Group Ranks": "[0, 1]",
}  # fmt: skip


@pytest.mark.parametrize(("step", "known"), [(0, []), (1, ["broadcast"])])
def test_other_collectives_are_those_of_steps_that_count(step, known, tmp_path):
    """Of four steps the first does not count."""
    for rank in (0, 1):
        kineto = record(PLAIN, rank)
        at = 10_000 + step * step_of(PLAIN) + 100
        kineto.comm(at, at + 50, launch=at - 1085, thread=LOOP, **OTHER)
        kineto.write(tmp_path / f"rank{rank}.json")
    assert [one.operation for one in predict(load_run(tmp_path)).other_models] == known


def test_other_collectives_of_one_group_are_told_apart_by_what_they_do(tmp_path):
    """In each step but the first a broadcast of 50 µs and a reduction of 90."""
    for rank in (0, 1):
        kineto = record(PLAIN, rank)
        for step in (1, 2, 3):
            at = 10_000 + step * step_of(PLAIN) + 100
            kineto.comm(at, at + 50, launch=at - 1085, thread=LOOP, **OTHER)
            told = OTHER | {"Collective name": "reduce"}
            kineto.comm(at + 60, at + 150, launch=at - 1075, thread=LOOP, **told)
        kineto.write(tmp_path / f"rank{rank}.json")
    found = predict(load_run(tmp_path)).other_models
    assert {(one.operation, one.samples) for one in found} == {("broadcast", 3), ("reduce", 3)}


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
