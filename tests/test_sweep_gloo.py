"""A real sweep on the CPU: two gloo ranks, the cap set from outside, replicas looked at."""

import json
import os
import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.torch
pytest.importorskip("torch")

JOB = """
import sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(0)
torch.set_num_threads(1)
net = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(4)))
model = DistributedDataParallel(net, None, None, 0, None, True, None, 0.02)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(14):
    model(torch.ones(8, 64)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if "drift" in sys.argv and dist.get_rank() == 1 and step == 3:
        with torch.no_grad():
            net[2].bias[5] += 1e-3
print("trained", flush=True)
dist.destroy_process_group()
"""
TORCHRUN = [
    sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"
]  # fmt: skip
SHORT = ["--warmup", "2", "--timed", "5", "--steps", "2"]


def ddptrace(folder, *words):
    return subprocess.run(
        [sys.executable, "-m", "ddptrace", *map(str, words)],
        capture_output=True, text=True, check=False, timeout=300, cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("swept")
    (folder / "job.py").write_text(JOB)
    words = [
        "sweep",
        "--bucket-cap-mb",
        "0.02,25",
        *SHORT,
        "--json",
        "-",
        "--",
        *TORCHRUN,
        "job.py",
    ]
    return folder, words, ddptrace(folder, *words)


def test_the_script_runs_with_each_cap_and_its_output_is_not_the_result(swept):
    folder, _, done = swept
    assert done.returncode == 0, done.stderr
    own, other = json.loads(done.stdout)["configurations"]
    assert (own["is_own"], own["bucket_cap_mb"], other["bucket_cap_mb"]) == (True, 0.02, 25.0)
    assert {path.name for path in (folder / "ddptrace-sweep").iterdir()} == {
        "own", "cap-25", "sweep.json",
    }  # fmt: skip


def test_the_buckets_are_those_of_the_cap_that_was_set(swept):
    own, other = json.loads(swept[2].stdout)["configurations"]
    assert own["buckets"] > other["buckets"] == 1
    told = json.loads((swept[0] / "ddptrace-sweep" / "cap-25" / "manifest.json").read_text())
    (model,) = told["ranks"][1]["ddp"]
    assert (model["asked_bucket_cap_mb"], model["set_bucket_cap_mb"]) == (0.02, 25)
    assert model["bucket_cap_bytes"] == 25 << 20


def test_every_rank_was_timed_and_ended_with_the_same_parameters(swept):
    for one in json.loads(swept[2].stdout)["configurations"]:
        assert (one["steps"], one["replicas_equal"], one["replicas_reason"]) == (5, True, None)
        assert 0 < one["step_ns"] <= one["p95_ns"]


def test_the_same_command_again_runs_nothing(swept):
    folder, words, first = swept
    again = ddptrace(folder, *words)
    assert (again.returncode, json.loads(again.stdout)) == (0, json.loads(first.stdout))
    assert again.stderr.count("done before") == 2


def test_one_value_that_drifts_on_one_rank_is_found(tmp_path):
    (tmp_path / "job.py").write_text(JOB)
    words = ["capture", *SHORT, "--check-replicas", "--bucket-cap-mb", "1"]
    done = ddptrace(tmp_path, *words, "--", *TORCHRUN, "job.py", "drift")
    assert (done.returncode, done.stdout.count("trained")) == (0, 2)
    told = json.loads((tmp_path / "ddptrace-run" / "manifest.json").read_text())
    assert told["replicas"]["equal"] is False
    # The gradients, and so all later updates, are the same on both ranks.
    assert told["replicas"]["reason"] == "1 of 8 parameters differ, first 2.bias"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_job_and_the_sweep_and_what_is_there_is_kept(number, tmp_path):
    script = (
        "import signal, sys, time; signal.signal(signal.SIGINT, signal.SIG_DFL); "
        "print('up', file=sys.stderr, flush=True); time.sleep(60)"
    )
    words = ["-m", "ddptrace", "sweep", "--bucket-cap-mb", "1", "--keep-going", "--"]
    running = subprocess.Popen(
        [sys.executable, *words, sys.executable, "-c", script],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, cwd=tmp_path,
    )  # fmt: skip
    while running.stderr.readline() != b"up\n":
        assert running.poll() is None
    running.send_signal(number)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 128 + number
    assert b"note: own: interrupted" in out
    assert b"Traceback" not in err
    told = json.loads((tmp_path / "ddptrace-sweep" / "sweep.json").read_text())
    assert [(run["folder"], run["problem"]) for run in told["runs"]] == [("own", "interrupted")]


def test_a_command_that_trains_nothing_is_2(tmp_path):
    done = ddptrace(
        tmp_path, "sweep", "--bucket-cap-mb", "1", "--", sys.executable, "-c", "print(5)"
    )
    assert done.returncode == 2
    assert "nothing was recorded" in done.stdout
    assert "5\n" in done.stderr
