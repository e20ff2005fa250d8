"""Which runs are held against each other, and which are refused with what they differ in."""

import pytest
from captured import captured, full_file, full_part, rank_entry, write_manifest
from check_runs import a_run, checked, outcome
from traces import Kineto, run, trace

from ddptrace import load_run
from ddptrace.check.measured import figures_of
from ddptrace.errors import UsageError

FACTS = {"gpu": "NVIDIA A100", "torch_version": "2.6", "ranks": [0, 1], "buckets": [4_000_000]}


def of(step_us=10_000, **changed):
    return a_run([step_us] * 9, facts=FACTS | changed)


def without(name):
    facts = {key: value for key, value in FACTS.items() if key != name}
    return a_run([10_000] * 9, facts=facts)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"gpu": "NVIDIA H100"}, "GPU: NVIDIA A100 vs NVIDIA H100"),
        ({"torch_version": "2.7"}, "torch version: 2.6 vs 2.7"),
        ({"ranks": [0]}, "ranks: 0-1 vs 0"),
        ({"buckets": [1, 2]}, "gradient buckets: 1 of 4.00 MB vs 2 of 0.00, 0.00 MB"),
        ({"world_size": 4}, "world size: 1 vs 4"),
    ],
)
def test_unlike_runs_are_refused_with_what_they_differ_in(changed, words):
    found = checked(of(), of(20_000, **changed))
    assert (found.exit_code, found.outcome) == (2, "not_comparable")
    assert found.headline == f"not comparable: {words}"
    assert [one.name for one in found.differences] == list(changed)
    assert found.growth is None
    one = found.limits[0]
    assert (one.baseline_ns, one.change_ratio, one.interval) == (None, None, None)


def test_a_faster_machine_is_no_pass():
    assert outcome(of(), of(6_000, gpu="NVIDIA H100")) == (2, "not_comparable")


def test_what_is_allowed_may_differ_and_is_said():
    other = of(11_000, gpu="NVIDIA H100", torch_version="2.7")
    found = checked(of(), other, allowed=frozenset({"gpu", "torch_version"}))
    assert found.exit_code == 1
    assert "allowed to differ: torch version: 2.6 vs 2.7" in found.notes
    found = checked(of(), other, allowed=frozenset({"gpu"}))
    assert found.headline == "not comparable: torch version: 2.6 vs 2.7"
    assert found.next_steps[0].endswith("--allow torch_version")


@pytest.mark.parametrize(
    ("name", "words"), [("torch", "did you mean torch_version?"), ("colour", "no such name")]
)
def test_a_name_that_is_none_is_refused_even_where_nothing_differs(name, words):
    with pytest.raises(UsageError, match="--allow") as refused:
        checked(of(), of(), allowed=frozenset({name}))
    assert words in str(refused.value)


def test_a_name_of_which_no_run_tells_may_be_allowed():
    assert outcome(of(), of(), allowed=frozenset({"driver_version", "step_mark"})) == (0, "pass")


def test_a_name_that_any_of_the_runs_tells_may_be_allowed():
    odd = of(rocm_version="6.3")
    assert checked([of(), odd], of(), allowed=frozenset({"rocm_version"})).exit_code == 0
    assert checked(of(), [of(), odd], allowed=frozenset({"rocm_version"})).exit_code == 0


@pytest.mark.parametrize("name", list(FACTS))
def test_what_only_one_run_tells_is_said_and_refuses_nothing(name):
    found = checked(of(), without(name))
    if name == "gpu":  # stated for every run, as another one
        return
    assert found.exit_code == 0
    assert found.notes == [f"not told of the current run, so not compared: {name}"]
    assert checked(without(name), of()).notes == [
        f"not told of the baseline, so not compared: {name}"
    ]


def test_every_run_is_held_against_the_first_of_the_baseline():
    other = of(gpu="NVIDIA H100")
    assert checked([of(), other], of()).exit_code == 2
    assert checked(of(), [of(), other]).exit_code == 2
    assert checked([of(), of()], [of(), of()]).exit_code == 0


# --- what a run tells ---


def steps(**header):
    """State a recording of five steps of 1 ms."""
    kineto = Kineto(rank=0, world_size=1)
    kineto.header |= header
    for number in range(5):
        kineto.step(number, number * 1000, (number + 1) * 1000)
        kineto.gpu(number * 1000 + 100, number * 1000 + 800)
    return kineto


def facts_of(kineto, folder):
    kineto.write(folder / "rank0.json")
    return figures_of(load_run(folder)).fingerprint


def test_a_recording_tells_its_gpu_ranks_and_profiler(tmp_path):
    found = facts_of(steps(deviceProperties=[{"id": 0, "name": "NVIDIA H100"}]), tmp_path)
    assert found["gpu"] == "NVIDIA H100"
    assert (found["world_size"], found["ranks"]) == (1, [0])
    assert (found["profiler"], found["recorded"]) == ("torch.profiler", "full recordings")
    assert found["options"] == "no option that slows the host"
    assert "step_mark" not in found


@pytest.mark.parametrize("switch", ["with_stack", "record_shapes", "profile_memory"])
def test_a_recording_tells_the_options_that_slow_the_host(tmp_path, switch):
    assert facts_of(steps(**{switch: 1}), tmp_path)["options"] == switch


def test_gpus_of_several_models_are_all_told(tmp_path):
    for rank, name in enumerate(("NVIDIA H100", "NVIDIA A100")):
        kineto = Kineto(rank=rank, world_size=2)
        kineto.header["deviceProperties"] = [{"id": 0, "name": name}]
        kineto.step(1, 0, 1000).gpu(100, 800).write(tmp_path / f"rank{rank}.json")
    assert figures_of(load_run(tmp_path)).fingerprint["gpu"] == "NVIDIA A100, NVIDIA H100"


def test_a_rank_that_was_not_read_whole_is_not_among_those_that_count():
    rows = [("compute", at, at + 800) for at in range(0, 5000, 1000)]
    marks = [(at, at + 1000) for at in range(0, 5000, 1000)]
    whole = run(*(trace(*rows, rank=rank, marks=marks) for rank in (0, 1)))
    cut = run(
        trace(*rows, rank=0, marks=marks), trace(*rows, rank=1, marks=marks, partial="it stops")
    )
    found = checked(figures_of(whole), figures_of(cut))
    assert found.headline == "not comparable: ranks: 0-1 vs 0"


def test_the_manifest_tells_versions_and_what_ended_a_step(tmp_path):
    full_part(world_size=1).write(full_file(tmp_path))
    options = {"step_mark": "train_step"}
    versions = {"torch": "2.11", "driver": "580.1", "ddptrace": "0.1"}
    write_manifest(tmp_path, rank_entry(), options=options, versions=versions)
    found = figures_of(load_run(tmp_path)).fingerprint
    assert (found["torch_version"], found["step_mark"]) == ("2.11", "train_step")
    assert "ddptrace_version" not in found


def test_the_cuda_that_a_driver_runs_is_not_held_against_the_drivers_own_version(tmp_path):
    found = facts_of(steps(cuda_driver_version=12040), tmp_path)
    assert found["cuda_of_driver"] == "12.4"
    assert "driver_version" not in found


def test_what_was_recorded_is_told(tmp_path):
    captured(tmp_path)
    assert figures_of(load_run(tmp_path)).fingerprint["recorded"] == "GPU activities only"
