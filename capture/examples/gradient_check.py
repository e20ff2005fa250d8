"""A check that the gradients which DDP delivers are the average over the ranks."""

import torch
import torch.distributed as dist
from gpt import loss_of
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

TOLERANCE = 0.01


class GradientError(Exception):
    """The gradients that arrive are not the average over the ranks."""


def check_gradients(model: DistributedDataParallel, tokens: Tensor, targets: Tensor) -> None:
    """Raise GradientError, on all ranks, when the delivered gradients are not the average."""
    ranks = dist.get_world_size()
    parameters = list(model.parameters())
    # Unlike `backward()`, this fills no `.grad`, so DDP does not notice and sends nothing.
    own = torch.autograd.grad(loss_of(model.module, tokens, targets), parameters, allow_unused=True)
    average = joined(own, parameters)
    dist.all_reduce(average)
    average /= ranks

    loss_of(model, tokens, targets).backward()
    delivered = joined([parameter.grad for parameter in parameters], parameters)
    model.zero_grad()

    error = (delivered - average).norm() / average.norm()
    dist.all_reduce(error, op=dist.ReduceOp.MAX)
    if not error.item() <= TOLERANCE:  # not a number is an error too
        raise GradientError(
            f"gradient check failed: the delivered gradients are not the average over the {ranks}"
            f" ranks, but {(delivered.norm() / average.norm()).item():.2f} times as large; does a"
            " communication hook forget to divide by the number of ranks?"
        )


def joined(gradients: list[Tensor | None], parameters: list[Tensor]) -> Tensor:
    """Return all gradients as one vector; an unused parameter's gradient is zero."""
    pairs = zip(gradients, parameters, strict=True)
    return torch.cat(
        [torch.zeros_like(p).flatten() if g is None else g.flatten() for g, p in pairs]
    )
