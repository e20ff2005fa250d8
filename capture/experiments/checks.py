"""Whether what was measured also computed the right thing."""

import math
from typing import Any

import torch
import torch.distributed as dist
from branches import Job, Place, build
from configurations import Configuration
from torch import Tensor


def correctness(job: Job, place: Place, first: int) -> dict[str, Any]:
    """Return whether this rank's replica equals rank 0's, and the error of two steps' gradients."""
    return {
        "replica_equal": replica_equal(job),
        "gradient_errors": [gradient_error(job, place, number) for number in (first, first + 1)],
    }


def replica_equal(job: Job) -> bool:
    """Return whether every parameter has the bits of rank 0's."""
    # A list first: every rank takes part in every broadcast, whatever it finds.
    equal = [_equals_first(parameter.detach()) for parameter in job.model.parameters()]
    return all(equal)


def _equals_first(tensor: Tensor) -> bool:
    first = tensor.clone()
    dist.broadcast(first, 0)
    return torch.equal(first, tensor)


def gradient_error(job: Job, place: Place, number: int) -> float | None:
    """Return the largest error of DDP's gradients ÷ the largest right one, None if not finite."""
    parameters = list(job.model.parameters())
    expected = [_mean_over_ranks(local, place) for local in _local_gradients(job, number)]
    job.optimizer.zero_grad()
    job.loss(number).backward()
    found = [_or_zero(parameter.grad, parameter) for parameter in parameters]
    error = _largest([a - b for a, b in zip(found, expected, strict=True)]) / _largest(expected)
    return error if math.isfinite(error) else None


def _largest(tensors: list[Tensor]) -> float:
    """Return the largest magnitude; unlike Python's `max`, torch's lets no NaN slip by."""
    return float(torch.stack([tensor.abs().max() for tensor in tensors]).max())


def _local_gradients(job: Job, number: int) -> list[Tensor]:
    """Return this rank's gradients before any reduction; DDP does not notice."""
    network = job.model.module
    cycles, network.spin_cycles = network.spin_cycles, 0  # to spin takes time and changes nothing
    parameters = list(network.parameters())
    gradients = torch.autograd.grad(job.loss(number, network), parameters, allow_unused=True)
    network.spin_cycles = cycles
    return [_or_zero(gradient, p) for gradient, p in zip(gradients, parameters, strict=True)]


def _or_zero(gradient: Tensor | None, parameter: Tensor) -> Tensor:
    return torch.zeros_like(parameter) if gradient is None else gradient


def _mean_over_ranks(local: Tensor, place: Place) -> Tensor:
    total = local.clone()
    dist.all_reduce(total)
    return total / place.world_size


def undetected_unused(configuration: Configuration, place: Place) -> dict[str, Any]:
    """Train two steps that leave a branch out, unknown to DDP; return how that ended."""
    error = _error_of_second_step(build(configuration, place))
    place.meet()
    ones = torch.ones(1, device=place.device)
    dist.all_reduce(ones)
    return {"error": error, "group_usable": ones.item() == place.world_size}


def _error_of_second_step(job: Job) -> str | None:
    job.step(0)
    try:
        job.step(1)
    except RuntimeError as error:
        return str(error)
    return None
