"""Record four training steps of a small DDP job whose ranks share one GPU.

    torchrun --nproc-per-node 2 capture/examples/two_ranks_one_gpu.py --output DIR

Every rank writes DIR/rank<R>.pt.trace.json.gz. With --device-per-rank each rank has its own GPU.
"""

import argparse
import gzip
import os
import re
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, schedule

WIDTH = 256
LAYERS = 6
BATCH_SIZE = 32768
BUCKET_CAP_MB = 3  # 13 MB of gradients then travel in five buckets

WAIT_STEPS = 8  # DDP lays its buckets out anew after the first step; NCCL and the allocator settle
WARM_UP_STEPS = 2  # the profiler runs, what it sees is thrown away
RECORDED_STEPS = 4


class Block(nn.Module):
    """The feed-forward half of a transformer layer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` plus what this layer adds to it."""
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def share_one_gpu(rank: int) -> None:
    """Let NCCL take the ranks for different hosts: it refuses two of one host on one GPU."""
    os.environ.update(
        NCCL_HOSTID=f"rank{rank}",
        NCCL_P2P_DISABLE="1",
        NCCL_SHM_DISABLE="1",
        NCCL_IB_DISABLE="1",
        NCCL_SOCKET_IFNAME="lo",
    )


def train(device: torch.device, profiler: profile) -> None:
    """Train for as many steps as the profiler's schedule has."""
    layers = [Block(WIDTH) for _ in range(LAYERS)]
    network = nn.Sequential(nn.Linear(WIDTH, WIDTH), *layers, nn.Linear(WIDTH, WIDTH)).to(device)
    model = DistributedDataParallel(
        network,
        device_ids=[device.index],
        bucket_cap_mb=BUCKET_CAP_MB,
        gradient_as_bucket_view=True,
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    inputs = torch.randn(BATCH_SIZE, WIDTH, device=device)
    targets = inputs.roll(1, dims=1)

    for _ in range(WAIT_STEPS + WARM_UP_STEPS + RECORDED_STEPS):
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        profiler.step()


def save(profiler: profile, path: Path) -> None:
    """Write the recording without the folder it was made in and without the time of writing."""
    plain = path.with_suffix("")
    profiler.export_chrome_trace(str(plain))
    # On the bytes: a round trip through `json` would rewrite every number and blank.
    name = b'"' + plain.name.encode() + b'"'
    text = re.sub(rb'(?<="traceName": )"[^"]*"', lambda _: name, plain.read_bytes())
    path.write_bytes(gzip.compress(text, mtime=0))
    plain.unlink()


def main() -> None:
    """Train, and write this rank's recording of the last steps."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, required=True, help="the folder to write to")
    parser.add_argument("--device-per-rank", action="store_true", help="one GPU for each rank")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)

    rank = int(os.environ["RANK"])
    if not arguments.device_per_rank:
        share_one_gpu(rank)
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) if arguments.device_per_rank else 0)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)

    path = arguments.output / f"rank{rank}.pt.trace.json.gz"
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
        schedule=schedule(wait=WAIT_STEPS, warmup=WARM_UP_STEPS, active=RECORDED_STEPS, repeat=1),
        on_trace_ready=lambda profiler: save(profiler, path),
    ) as profiler:
        train(device, profiler)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
