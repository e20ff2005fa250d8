"""Everything in an export goes by process, and each process has a rank."""

from __future__ import annotations

import json

import pytest
from folders import codes, manifest, refused
from nsys_exports import MACHINE, Nsys, plain, two_ranks
from shapes import PLAIN, figures

from ddptrace import analyze, load_run

# --- by process


def test_ids_that_repeat_between_processes_are_kept_apart(tmp_path):
    """Both ranks have the correlation ids 501 to 506, stream 7 and 28, context 1 and device 0."""
    path = two_ranks().write(tmp_path / "run.sqlite")
    run = load_run(path)
    assert run.ranks == [0, 1]
    assert [figures(row) for row in analyze(run).steps] == [PLAIN, PLAIN]


def test_a_launch_in_one_process_is_none_of_anothers(tmp_path):
    """The second process has a kernel with the id of a call that only the first one made."""
    nsys = plain(0).process(4101).step(5, 0, 1000).gpu(100, 300)
    kernel = nsys.tables["CUPTI_ACTIVITY_KIND_KERNEL"][-1]
    nsys.row("CUPTI_ACTIVITY_KIND_KERNEL", **kernel | {"correlationId": 506, "start": 310_000})
    nsys.tables["CUPTI_ACTIVITY_KIND_KERNEL"][-1]["end"] = 320_000
    nsys.write(tmp_path / "run.sqlite")
    rows = analyze(load_run(tmp_path)).steps
    assert [(row.rank, row.compute_kernels) for row in rows] == [(0, 4), (1, 1)]


def test_processes_of_one_id_on_two_machines_are_two(tmp_path):
    nsys = plain(0)
    nsys.global_pid += MACHINE
    nsys.thread += MACHINE
    nsys.correlation.clear()
    plain_again = nsys.step(5, 0, 1000).gpu(100, 400)
    plain_again.write(tmp_path / "run.sqlite")
    rows = analyze(load_run(tmp_path)).steps
    assert [(row.rank, row.compute_ns) for row in rows] == [(0, 640_000), (1, 300_000)]


def test_devices_and_streams_of_synchronisation_mean_nothing(tmp_path):
    nsys = plain()
    nsys.row(
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", start=0, end=10**6, deviceId=3, streamId=99,
        globalPid=nsys.global_pid, correlationId=501, syncType=2,
    )  # fmt: skip
    nsys.write(tmp_path / "rank0.sqlite")
    (trace,) = load_run(tmp_path).traces
    assert set(trace.ops.device.tolist()) == {0}
    assert len(trace.ops) == 6


def test_a_process_whose_kernels_were_all_lost_is_said(tmp_path):
    nsys = two_ranks().process(4102)
    nsys.launch(10)
    nsys.write(tmp_path / "run.sqlite")
    run = load_run(tmp_path)
    assert run.ranks == [0, 1]
    (said,) = [w.message for w in run.all_warnings if w.code == "process_without_kernels"]
    assert "1 process launched kernels of which none was recorded (4102)" in said


def test_the_gpu_of_a_masked_process_is_its_own(tmp_path):
    nsys = two_ranks().process(4102).gpu(1, 2)
    for number, (pid, name) in enumerate([(4100, "A"), (4101, "B"), (4102, "B")]):
        nsys.row("TARGET_INFO_CUDA_DEVICE", gpuId=number, cudaId=0, pid=pid)
        nsys.row("TARGET_INFO_GPU", id=number, name=f"NVIDIA {name}")
    nsys.write(tmp_path / "run.sqlite")
    found = [trace.facts.device_name for trace in load_run(tmp_path).traces]
    assert found == ["NVIDIA A", "NVIDIA B", "NVIDIA B"]


# --- rank: recorder's mark, environment, communicator, manifest, name, order of process ids


def communicator(nsys, rank, ranks=2, communicator=77):
    """Add the range in which a communicator is made, with its payload as JSON."""
    told = {"NCCL communicator ID": communicator, "No. of ranks": ranks, "Rank": rank}
    return nsys.range("ncclCommInitRankConfig", -90, -10, jsonText=json.dumps(told), domainId=1)


def environment(nsys, *texts):
    for text in texts:
        nsys.row("META_DATA_CAPTURE", name="PROCESS_0:ENVIRONMENT_VARIABLE", value=text)
    return nsys


def lone(folder, nsys, name="host.sqlite"):
    """Return the rank of a lone export, and the world size."""
    nsys.write(folder / name)
    run = load_run(folder)
    return run.ranks[0], run.world_size


def test_our_recorders_mark_tells_first(tmp_path):
    nsys = environment(plain().recorder(3, 8), "RANK=1", "WORLD_SIZE=4")
    assert lone(tmp_path, communicator(nsys, 2), "rank5.sqlite") == (3, 8)


@pytest.mark.parametrize("quote", ["", '"'])
def test_the_environment_of_a_launched_rank_tells_second(tmp_path, quote):
    nsys = environment(plain(), f"RANK={quote}1{quote}", f"WORLD_SIZE={quote}4{quote}")
    assert lone(tmp_path, communicator(nsys, 2), "rank5.sqlite") == (1, 4)


def test_only_rank_and_world_size_are_taken_from_the_environment(tmp_path):
    nsys = environment(plain(), "LOCAL_RANK=7", "NODE_RANK=6", "RANKS=5", "SECRET_RANK=4", "RANK=x")
    assert lone(tmp_path, nsys, "rank2.sqlite") == (2, None)


def test_the_environment_of_a_launcher_of_several_tells_nothing(tmp_path):
    environment(two_ranks(), "RANK=5", "WORLD_SIZE=6").write(tmp_path / "run.sqlite")
    run = load_run(tmp_path)
    assert (run.ranks, run.world_size) == ([0, 1], None)


def test_the_communicator_of_all_ranks_tells_third(tmp_path):
    nsys = communicator(plain(), 0, ranks=2)
    assert lone(tmp_path, communicator(nsys, 6, ranks=8), "rank5.sqlite") == (6, 8)


def test_communicators_tell_the_ranks_of_one_report(tmp_path):
    nsys = communicator(two_ranks(), 0).process(4100)
    communicator(nsys, 1).write(tmp_path / "run.sqlite")
    run = load_run(tmp_path)
    assert run.world_size == 2
    assert [(trace.rank, trace.facts.process) for trace in run.traces] == [
        (0, "4101"), (1, "4100"),
    ]  # fmt: skip
    assert "rank_from_process_ids" not in codes(run)


def test_communicators_of_parts_of_the_run_tell_no_rank(tmp_path):
    """Two groups of two: their ranks 0 and 1 come twice."""
    nsys = two_ranks()
    for number, pid in enumerate((4100, 4101, 4102, 4103)):
        nsys.process(pid).gpu(1, 2)
        communicator(nsys, number % 2, communicator=number // 2)
    nsys.write(tmp_path / "run.sqlite")
    run = load_run(tmp_path)
    assert (run.ranks, run.world_size) == ([0, 1, 2, 3], None)
    assert "rank_from_process_ids" in codes(run)


def test_the_manifest_tells_fourth(tmp_path):
    plain().write(tmp_path / "rank5.sqlite")
    manifest(tmp_path, {"rank5.sqlite": 2}, world_size=4)
    run = load_run(tmp_path)
    assert (run.ranks, run.world_size) == ([2], 4)


def test_the_name_of_the_file_tells_fifth(tmp_path):
    for rank in (0, 1):
        plain(rank).write(tmp_path / f"report_rank{rank}.sqlite")
    run = load_run(tmp_path)
    assert run.ranks == [0, 1]
    assert "rank_from_name" in codes(run)


def test_a_lone_process_that_nothing_tells_is_rank_0_with_a_warning(tmp_path):
    plain().write(tmp_path / "host.sqlite")
    run = load_run(tmp_path)
    assert (run.ranks, "rank_assumed" in codes(run)) == ([0], True)


def test_processes_that_nothing_tells_are_numbered_by_their_ids_and_that_is_said(tmp_path):
    nsys = plain(nsys=Nsys(pid=4205), pid=4205)
    plain(nsys=nsys, pid=4101).write(tmp_path / "rank7.sqlite")
    run = load_run(tmp_path)
    assert [(trace.rank, trace.facts.process) for trace in run.traces] == [
        (0, "4101"), (1, "4205"),
    ]  # fmt: skip
    (said,) = [w for w in run.all_warnings if w.code == "rank_from_process_ids"]
    assert "rank 0 is process 4101, rank 1 is process 4205" in said.message
    assert said.rank is None


def test_a_process_that_nothing_tells_beside_others_gets_a_free_rank(tmp_path):
    two_ranks().process(4100).recorder(1).write(tmp_path / "run.sqlite")
    run = load_run(tmp_path)
    assert [(trace.rank, trace.facts.process) for trace in run.traces] == [
        (0, "4101"), (1, "4100"),
    ]  # fmt: skip
    assert "rank_from_process_ids" in codes(run)


def test_a_process_beside_all_ranks_is_none_and_left_out(tmp_path):
    """An evaluation beside the training, whose two ranks our recorder told."""
    nsys = two_ranks().recorder(1).process(4100).recorder(0).process(4000).gpu(1, 2)
    nsys.write(tmp_path / "run.sqlite")
    run = load_run(tmp_path)
    assert [(trace.rank, trace.facts.process) for trace in run.traces] == [(0, "4100"), (1, "4101")]
    (said,) = [w.message for w in run.all_warnings if w.code == "process_left_out"]
    assert "process 4000" in said
    assert "rank_from_process_ids" not in codes(run)


def test_two_reports_that_claim_the_same_ranks_are_refused(tmp_path):
    two_ranks().write(tmp_path / "node0.sqlite")
    two_ranks().write(tmp_path / "node1.sqlite")
    assert "two files for rank 0" in refused(tmp_path)


def test_a_rank_beyond_the_world_size_of_its_own_mark_leaves_that_unknown(tmp_path):
    assert lone(tmp_path, plain().recorder(5, world_size=2)) == (5, None)


@pytest.mark.parametrize("name", ["ddptrace rank=x", "ddptrace rank=", "my ddptrace rank=4"])
def test_other_names_are_no_marks_of_our_recorder(tmp_path, name):
    assert lone(tmp_path, plain().range(name, 0, 0), "rank2.sqlite") == (2, None)


def test_chosen_ranks_of_one_report_are_kept(tmp_path):
    two_ranks().write(tmp_path / "run.sqlite")
    assert load_run(tmp_path, ranks=[1]).ranks == [1]
