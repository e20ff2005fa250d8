"""Train a small GPT with DistributedDataParallel, and plant bottlenecks in it when asked to.

    torchrun --nproc-per-node 2 capture/examples/train_ddp.py
    torchrun --nproc-per-node 2 capture/examples/train_ddp.py --switch late-input,one-bucket

The model is in gpt.py. What a switch plants is in plant.py, link.py and delays.py.
"""

import argparse
import itertools
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext

import torch
import torch.distributed as dist
from delays import sleepy_collate
from gpt import GPT, loss_of
from gradient_check import GradientError, check_gradients
from link import nccl_environment
from options import parse
from plant import parallel
from switches import GRADIENT_CHECKS
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler, default_collate

LEARNING_RATE = 1e-3
MICRO_STEPS = 4  # of one step with `accumulate` or `accumulate-no-sync`
PRINT_EVERY = 10
SEQUENCES = 65536


class Countings(Dataset[tuple[Tensor, Tensor]]):
    """Sequences that count up, each from its own start and by its own stride."""

    def __init__(self, context: int, vocabulary: int, seed: int) -> None:
        self.context = context
        self.vocabulary = vocabulary
        self.seed = seed

    def __len__(self) -> int:
        return SEQUENCES

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        """Return a sequence, and the token that follows each of its tokens."""
        random = torch.Generator().manual_seed(self.seed + index)
        start = torch.randint(self.vocabulary, (1,), generator=random)
        stride = torch.randint(1, 4, (1,), generator=random)
        tokens = (start + stride * torch.arange(self.context + 1)) % self.vocabulary
        return tokens[:-1], tokens[1:]


def batches(options: argparse.Namespace, device: torch.device) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield this rank's batches, without end."""
    data = Countings(options.context, options.vocabulary, options.seed)
    sampler = DistributedSampler(data, seed=options.seed)
    is_last = dist.get_rank() == dist.get_world_size() - 1
    slow = "input-bound" in options.switches or ("late-input" in options.switches and is_last)
    loader = DataLoader(
        data,
        options.batch_size,
        sampler=sampler,
        collate_fn=sleepy_collate(options.delay_ms) if slow else default_collate,
        pin_memory=device.type == "cuda",
    )
    for epoch in itertools.count():
        sampler.set_epoch(epoch)
        for tokens, targets in loader:
            yield tokens.to(device, non_blocking=True), targets.to(device, non_blocking=True)


def train(options: argparse.Namespace, device: torch.device) -> nn.Module:
    """Train, and return the model as it was wrapped."""
    torch.manual_seed(options.seed)
    gpt = GPT(options.vocabulary, options.context, options.layers, options.width, options.heads)
    model = parallel(gpt, options, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    data = batches(options, device)
    if GRADIENT_CHECKS & options.switches:
        check_gradients(model, *next(data))

    precision = torch.float16 if options.grad_scaler else getattr(torch, options.precision)
    autocast = torch.autocast(device.type, precision, enabled=precision != torch.float32)
    scale = options.grad_scaler or 1.0
    scaler = torch.amp.GradScaler(device.type, init_scale=scale, enabled=bool(options.grad_scaler))
    accumulates = {"accumulate", "accumulate-no-sync"} & options.switches
    micro_steps = MICRO_STEPS if accumulates else 1
    clock = time.perf_counter()
    for step in range(1, options.steps + 1):
        for micro_step in range(1, micro_steps + 1):
            tokens, targets = next(data)
            keep = "accumulate-no-sync" in options.switches and micro_step < micro_steps
            with model.no_sync() if keep else nullcontext():
                with autocast:
                    loss = loss_of(model, tokens, targets)
                scaler.scale(loss / micro_steps).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        if step % PRINT_EVERY == 0 and dist.get_rank() == 0:
            loss_now = loss.item()  # waits for the GPU: the clock is read after it
            milliseconds = (time.perf_counter() - clock) / PRINT_EVERY * 1000
            print(f"step {step}  loss {loss_now:.2f}  {milliseconds:.1f} ms", flush=True)
            clock = time.perf_counter()
    return model


def start(options: argparse.Namespace) -> torch.device:
    """Join the other ranks, and return the device to train on."""
    if options.device == "cpu":
        dist.init_process_group("gloo")
        return torch.device("cpu")
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    os.environ |= nccl_environment(
        options.switches, rank=rank, ranks=ranks, share_gpu=options.share_gpu
    )
    device = torch.device("cuda", 0 if options.share_gpu else int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    return device


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, and return the exit code: 3 when the ranks' gradients are wrong."""
    options = parse(arguments)
    device = start(options)
    try:
        train(options, device)
        outcome, exit_code = f"trained {options.steps} steps", 0
    except GradientError as error:
        outcome, exit_code = str(error), 3
    if dist.get_rank() == 0:
        print(outcome, file=sys.stderr if exit_code else sys.stdout, flush=True)
    if exit_code:
        dist.barrier()  # torchrun ends every rank once one has failed: rank 0 must have printed
    dist.destroy_process_group()
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
