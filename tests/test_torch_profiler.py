"""What torch's own profiler writes on this machine is read: two gloo ranks on the CPU."""

import subprocess
import sys

import pytest

from ddptrace import analyze, load_run

pytestmark = pytest.mark.torch
pytest.importorskip("torch")

JOB = """
import sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, schedule

rank, folder = int(sys.argv[1]), sys.argv[2]
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
model = DistributedDataParallel(torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(4))))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
inputs = torch.randn(32, 64)


def save(profiler):
    profiler.export_chrome_trace(f"{folder}/rank{rank}.json.gz")


with profile(
    activities=[ProfilerActivity.CPU],
    schedule=schedule(wait=1, warmup=1, active=3, repeat=1),
    on_trace_ready=save,
) as profiler:
    for _ in range(5):
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
        profiler.step()
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def gloo_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gloo")
    job = folder / "job.py"
    job.write_text(JOB)
    ranks = [
        subprocess.Popen([sys.executable, str(job), str(rank), str(folder)]) for rank in range(2)
    ]
    try:
        assert [rank.wait(timeout=240) for rank in ranks] == [0, 0]
    finally:
        for rank in ranks:
            rank.kill()
    job.unlink()
    return load_run(folder)


def test_both_ranks_are_found_with_their_steps(gloo_run):
    assert gloo_run.ranks == [0, 1]
    assert gloo_run.world_size == 2
    assert [mark.index for mark in gloo_run.traces[0].marks] == [2, 3, 4]


def test_the_host_is_measured_and_said_so(gloo_run):
    report = analyze(gloo_run)
    assert report.run.measured == "host"
    assert "host_measured" in {warning.code for warning in report.run.warnings}


def test_gloo_is_communication_and_every_step_adds_up(gloo_run):
    report = analyze(gloo_run)
    assert len(report.steps) == 6
    for row in report.steps:
        assert row.comm_ns > 0
        assert row.compute_ns > 0
        assert row.first_comm_delay_ns > 0
        assert (
            row.compute_ns + row.exposed_comm_ns + row.exposed_mem_ns + row.idle_ns == row.step_ns
        )
        assert row.hidden_comm_ns + row.exposed_comm_ns == row.comm_ns
