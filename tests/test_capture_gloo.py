"""The real thing on the CPU: gloo ranks, torch's own profiler, and the reader on what is left."""

import json
import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from ddptrace import analyze, load_run
from ddptrace.check.step_times import timed_run
from ddptrace.errors import RunError

pytestmark = pytest.mark.torch
pytest.importorskip("torch")

JOB = """
import os, sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

def train(steps, broken_rank=None, at=None):
    torch.set_num_threads(1)
    model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(4)))
    model = DistributedDataParallel(model, bucket_cap_mb=0.02)
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(steps):
        if (dist.get_rank(), step) == (broken_rank, at):
            raise ValueError("not a number")
        model(torch.ones(8, 64)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    print(f"trained {steps}", flush=True)

if __name__ == "__main__":
    dist.init_process_group("gloo")
    train(*map(int, sys.argv[1:]))
    dist.destroy_process_group()
"""

SPAWNED = """
import os, sys
import torch.multiprocessing as multiprocessing
import torch.distributed as dist

def rank(index, folder, method):
    import job
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=index, world_size=2)
    job.train(9)
    dist.destroy_process_group()

if __name__ == "__main__":
    multiprocessing.start_processes(rank, sys.argv[1:], nprocs=2, start_method=sys.argv[2])
"""

BARE = """
import os
import torch, ddptrace_capture
from torch.utils.data import DataLoader

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
os.chdir(os.sep)
for batch in DataLoader(torch.ones(40, 8), batch_size=4, num_workers=2):
    model(batch).sum().backward()
    optimizer.step()
    ddptrace_capture.step()
"""

PROFILED = """
import sys, torch
from torch.profiler import profile, schedule

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
plan = schedule(wait=int(sys.argv[1]), warmup=2, active=3, repeat=1)
counted = []
with profile(schedule=plan, on_trace_ready=lambda p: counted.append(len(p.events()))) as profiler:
    for _ in range(20):
        model(torch.ones(4, 8)).sum().backward()
        optimizer.step()
        profiler.step()
print(bool(counted[0]))
"""

TORCHRUN = [
    sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"
]  # fmt: skip
SHORT = ["--warmup", "2", "--timed", "2", "--steps", "3"]


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scripts")
    (folder / "job.py").write_text(JOB)
    (folder / "spawned.py").write_text(SPAWNED)
    (folder / "bare.py").write_text(BARE)
    (folder / "profiled.py").write_text(PROFILED)
    return folder


class Captured:
    """A run of `ddptrace capture` and what it left."""

    def __init__(self, folder, options, command):
        self.folder = folder / "run"
        words = [sys.executable, "-m", "ddptrace", "capture", "-o", str(self.folder)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [*words, *options, "--", *map(str, command)],
            capture_output=True, text=True, check=False, timeout=300, cwd=folder, env=environment,
        )  # fmt: skip
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    @property
    def manifest(self):
        return json.loads((self.folder / "manifest.json").read_text())

    @property
    def names(self):
        return {path.name for path in self.folder.iterdir()}

    def steps(self):
        return [[mark.index for mark in trace.marks] for trace in load_run(self.folder).traces]


@pytest.fixture(scope="module")
def whole(scripts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    return Captured(folder, [], [*TORCHRUN, scripts / "job.py", 30])


def test_one_folder_holds_each_rank_and_a_manifest(whole):
    assert whole.code == 0, whole.err
    assert whole.names == {"rank0.pt.trace.json.gz", "rank1.pt.trace.json.gz", "manifest.json"}
    assert whole.out.count("trained 30") == 2
    assert "ddptrace: recorded 2 of 2 ranks, 3 steps (cpu) each" in whole.err


def test_the_steps_carry_the_numbers_of_the_job(whole):
    assert whole.steps() == [[22, 23, 24]] * 2


def test_the_report_measures_the_host_and_every_step_adds_up(whole):
    report = analyze(load_run(whole.folder))
    assert (report.run.ranks, report.run.world_size, report.run.measured) == ([0, 1], 2, "host")
    assert len(report.steps) == 6
    for row in report.steps:
        assert row.comm_ns > 0
        parts = row.compute_ns + row.exposed_comm_ns + row.exposed_mem_ns + row.idle_ns
        assert parts == row.step_ns


def test_the_manifest_tells_the_job_and_the_cost_of_recording(whole):
    told = whole.manifest
    assert (told["world_size"], told["exit_code"], told["profiler"]) == (2, 0, "torch")
    assert {"torch", "python", "ddptrace"} <= set(told["versions"])
    for rank, entry in enumerate(told["ranks"]):
        assert (entry["rank"], entry["local_rank"], entry["node"]) == (rank, rank, 0)
        assert (entry["status"], entry["backend"], entry["device"]) == ("recorded", "gloo", "CPU")
        assert len(entry["unprofiled"]["step_ns"]) == 10
        assert sum(entry["unprofiled"]["step_ns"]) <= entry["unprofiled"]["block_ns"]
        assert len(entry["parts"][0]["step_ns"]) == 3


def test_the_manifest_tells_ddps_buckets(whole):
    (module,) = whole.manifest["ranks"][0]["ddp"]
    # 4 layers of 64 × 64 + 64 float32, of which a bucket of 0.02 MB holds one.
    assert sum(module["rebuilt_bucket_bytes"]) == sum(module["initial_bucket_bytes"]) == 66_560
    assert module["bucket_cap_bytes"] == int(0.02 * 2**20)
    assert len(module["bucket_parameters"]) == len(module["rebuilt_bucket_bytes"]) > 1
    assert module["bucket_parameters"][0][0].startswith("3.")
    assert module["parameter_names"][:2] == ["0.weight", "0.bias"]
    assert module["parameter_bytes"] == [64 * 64 * 4, 64 * 4] * 4
    assert set(module["parameter_types"]) == {"torch.float32"}
    assert not module["find_unused_parameters"]
    assert "not" in module["ddp_averages"]["note"]


def test_nodes_that_record_below_one_folder_are_one_run(scripts, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def node(number):
        launch = ["--nnodes", "2", "--nproc-per-node", "1", "--node-rank", number]
        launch += ["--master-addr", "127.0.0.1", "--master-port", port]
        command = [sys.executable, "-m", "torch.distributed.run", *launch, scripts / "job.py", 20]
        folder = tmp_path / f"node{number}"
        folder.mkdir()
        return Captured(folder, SHORT, command)

    with ThreadPoolExecutor(2) as pool:
        nodes = list(pool.map(node, range(2)))
    assert [done.code for done in nodes] == [0, 0], nodes[0].err
    run = load_run(tmp_path)
    assert (run.ranks, run.world_size, run.missing_ranks) == ([0, 1], 2, ())
    assert [done.manifest["ranks"][0]["node"] for done in nodes] == [0, 1]


def test_one_rank_may_be_recorded_and_the_job_may_end_with_it(scripts, tmp_path):
    done = Captured(
        tmp_path, [*SHORT, "--ranks", "0", "--stop-after"], [*TORCHRUN, scripts / "job.py", 10**6]
    )
    assert done.code == 0, done.err
    assert "trained" not in done.out
    assert done.names == {"rank0.pt.trace.json.gz", "manifest.json"}
    assert [rank["status"] for rank in done.manifest["ranks"]] == ["recorded", "not_chosen"]
    assert done.manifest["ranks"][1]["unprofiled"]["first_step"] == 2


def test_without_a_profiler_the_steps_are_timed_for_a_check(scripts, tmp_path):
    words = ["--profiler", "none", "--warmup", "2", "--timed", "6", "--stop-after"]
    done = Captured(tmp_path, words, [*TORCHRUN, scripts / "job.py", 10**6])
    assert done.code == 0, done.err
    assert "timed 6 steps of 2 of 2 ranks" in done.err
    assert done.names == {"manifest.json"}
    found = timed_run(done.folder)
    assert [(one.rank, one.steps) for one in found.timed] == [
        (rank, list(range(2, 8))) for rank in (0, 1)
    ]
    assert (found.fingerprint["gpu"], found.fingerprint["backend"]) == ("CPU", "gloo")
    assert found.fingerprint["buckets"]
    with pytest.raises(RunError, match="timed and not recorded"):
        load_run(done.folder)


def test_a_rank_that_dies_leaves_the_other_one_and_its_reason(scripts, tmp_path):
    done = Captured(tmp_path, SHORT, [*TORCHRUN, scripts / "job.py", 400, 1, 7])
    assert done.code == 1
    assert "ValueError: not a number" in done.err
    problems = {rank["rank"]: rank["problem"] for rank in done.manifest["ranks"]}
    assert "the job ended with ValueError: not a number after 7 steps" in problems[1]
    # Two of three steps were whole when it died.
    assert 1 in load_run(done.folder).ranks


def test_a_job_that_is_too_short_is_2_with_the_number(scripts, tmp_path):
    done = Captured(tmp_path, [], [*TORCHRUN, scripts / "job.py", 12])
    assert done.code == 2
    assert (
        "nothing was recorded: the job made 12 steps, and the recording would have begun after 22; "
        "try --warmup 4 --timed 3" in done.err
    )
    assert done.names == {"manifest.json"}


def test_a_short_job_records_what_is_left(scripts, tmp_path):
    done = Captured(tmp_path, SHORT, [*TORCHRUN, scripts / "job.py", 7])
    assert done.code == 0
    assert "the job ended after 7 steps; 8 make a whole recording" in done.err
    assert done.steps() == [[5, 6]] * 2


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_ranks_of_multiprocessing_are_recorded(scripts, tmp_path, method):
    done = Captured(tmp_path, SHORT, [sys.executable, scripts / "spawned.py", tmp_path, method])
    assert done.code == 0, done.err
    assert done.steps() == [[5, 6, 7]] * 2


@pytest.mark.parametrize("wait", [1, 3, 4, 5])
def test_a_script_that_profiles_itself_keeps_its_profile(scripts, tmp_path, wait):
    # SHORT prepares at step 4 and records steps 5 to 7.
    done = Captured(tmp_path, SHORT, [sys.executable, scripts / "profiled.py", wait])
    assert (done.code, done.out) == (2, "True\n")
    assert "the script uses torch.profiler itself" in done.err


def test_a_profile_of_the_script_after_the_recording_disturbs_nobody(scripts, tmp_path):
    done = Captured(tmp_path, SHORT, [sys.executable, scripts / "profiled.py", 9])
    assert (done.code, done.out) == (0, "True\n"), done.err
    assert done.steps() == [[5, 6, 7]]


def test_a_bare_script_with_workers_and_marked_steps_is_rank_0(scripts, tmp_path):
    done = Captured(tmp_path, SHORT, [sys.executable, scripts / "bare.py"])
    assert done.code == 0, done.err
    assert done.names == {"rank0.pt.trace.json.gz", "manifest.json"}
    assert done.steps() == [[5, 6, 7]]


def test_the_link_is_measured_once_all_is_recorded(scripts, tmp_path):
    done = Captured(tmp_path, [*SHORT, "--measure-link"], [*TORCHRUN, scripts / "job.py", 12])
    assert (done.code, done.out.count("trained 12")) == (0, 2), done.err
    assert "not measured" not in done.err
    (group,) = done.manifest["link"]["groups"]
    assert (group["members"], group["operation"]) == ([0, 1], "all_reduce")
    assert group["size_bytes"] == [65_536, 66_560]  # all gradients have 66,560 bytes
    assert [len(times) for times in group["time_ns"]] == [3, 3]
    assert min(min(times) for times in group["time_ns"]) > 0
    known = load_run(tmp_path / "run").manifest.link
    assert (known.reason, known.groups[0].members) == (None, (0, 1))
    assert known.groups[0].size_bytes == (65_536, 66_560)


def test_a_job_that_ends_early_has_no_measured_link_and_says_so(scripts, tmp_path):
    done = Captured(tmp_path, [*SHORT, "--measure-link"], [*TORCHRUN, scripts / "job.py", 7])
    assert done.code == 0
    assert "the link was not measured: rank 0 ended before its last step" in done.err
    assert done.manifest["link"]["groups"] == []


def test_a_link_that_nobody_asks_for_is_null(whole):
    assert whole.manifest["link"] is None
