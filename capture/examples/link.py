"""How gradients travel: slow links (NCCL's environment, or hooks with gloo) and DDP's hooks."""

from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

OVER_TCP = {"NCCL_IB_DISABLE": "1", "NCCL_SOCKET_IFNAME": "lo"}
NO_SHORT_CUTS = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NVLS_ENABLE": "0"}
# Few bytes can be under way then: a loopback socket fell from 3 to 0.5 GB/s.
NARROW = {"NCCL_SOCKET_RCVBUF": "8192"}
GLOO_COPIES = 8


def nccl_environment(
    switches: set[str], *, rank: int, ranks: int, share_gpu: bool
) -> dict[str, str]:
    """Return what NCCL must find in a rank's environment before it starts."""
    slow = "slow-link" in switches or ("slow-link-one" in switches and rank == ranks - 1)
    if share_gpu:
        # NCCL refuses two ranks of one host on one GPU: let it take them for different hosts.
        shared = {"NCCL_HOSTID": f"rank{rank}", **OVER_TCP, **NO_SHORT_CUTS}
        return shared | (NARROW if slow else {})
    if "slow-link" in switches:
        return OVER_TCP | NO_SHORT_CUTS
    if "slow-link-one" in switches:
        # NCCL takes the last rank for a host of its own, which it reaches over TCP only.
        return OVER_TCP | ({"NCCL_HOSTID": "far"} if slow else {})
    return {}


def add_communication_hook(
    model: DistributedDataParallel, switches: set[str], device: torch.device
) -> None:
    """Let the gradients travel as the switches say; without one, as DDP does it."""
    if "hook-fp16" in switches:
        model.register_comm_hook(None, fp16_compress_hook)
    if "hook-forgets-division" in switches:
        model.register_comm_hook(None, forget_division)
    if "hook-same-stream" in switches:
        model.register_comm_hook(None, reduce_on_compute_stream)
    if "hook-no-wait" in switches:
        model.register_comm_hook(None, let_nobody_wait)
    if device.type == "cpu" and "slow-link" in switches:
        model.register_comm_hook(None, carry_copies)
    if device.type == "cpu" and "slow-link-one" in switches:
        model.register_comm_hook(LastLink.crowded(), crowd_last_link)


def forget_division(_: None, bucket: dist.GradBucket) -> Future[Tensor]:
    """Sum a bucket's gradients over the ranks: the mistake is that nothing divides them."""
    work = dist.all_reduce(bucket.buffer(), async_op=True)
    return work.get_future().then(lambda future: future.value()[0])


def reduce_on_compute_stream(_: None, bucket: dist.GradBucket) -> Future[Tensor]:
    """Average a bucket's gradients on the current stream: backward computes behind it."""
    gradients = bucket.buffer().div_(dist.get_world_size())
    dist.all_reduce(gradients)  # not asynchronous: since PyTorch 2.8 on the caller's own stream
    return ended(gradients)


def let_nobody_wait(_: None, bucket: dist.GradBucket) -> Future[Tensor]:
    """Average a bucket's gradients, and say that it is done before it is: a bug of such hooks."""
    gradients = bucket.buffer().div_(dist.get_world_size())
    dist.all_reduce(gradients, async_op=True)
    return ended(gradients)


def ended(gradients: Tensor) -> Future[Tensor]:
    """Return a future that holds these gradients already."""
    on_gpu = gradients.device.type == "cuda"
    future: Future[Tensor] = Future(devices=[gradients.device]) if on_gpu else Future()
    future.set_result(gradients)
    return future


def carry_copies(_: None, bucket: dist.GradBucket) -> Future[Tensor]:
    """Average a bucket's gradients, and send eight times their bytes to do it."""
    gradients = bucket.buffer()
    copies = gradients.div(dist.get_world_size()).repeat(GLOO_COPIES)
    work = dist.all_reduce(copies, async_op=True)
    return work.get_future().then(
        lambda future: gradients.copy_(future.value()[0][: gradients.numel()])
    )


class LastLink(NamedTuple):
    """The last rank and the first, between which other data travel too."""

    pair: dist.ProcessGroup
    in_pair: bool

    @classmethod
    def crowded(cls) -> "LastLink":
        """Return the link; every rank must call this."""
        ranks = [0, dist.get_world_size() - 1]
        return cls(dist.new_group(ranks), dist.get_rank() in ranks)


def crowd_last_link(link: LastLink, bucket: dist.GradBucket) -> Future[Tensor]:
    """Average a bucket's gradients while eight times their bytes use the last rank's link."""
    gradients = bucket.buffer()
    others = gradients.repeat(GLOO_COPIES)
    works = [dist.all_reduce(others, group=link.pair, async_op=True)] if link.in_pair else []
    works.append(dist.all_reduce(gradients.div_(dist.get_world_size()), async_op=True))
    done = torch.futures.collect_all([work.get_future() for work in works])
    return done.then(lambda _: gradients)
