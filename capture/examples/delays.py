"""Ways to be late: the device computes, Python computes, or the process sleeps."""

import functools
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx
from torch.utils.data import default_collate

CALIBRATION_CLOCKS = 50_000_000


@functools.cache
def clocks_per_ms() -> float:
    """Return how many clocks of the GPU pass in a millisecond."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(CALIBRATION_CLOCKS)  # an idle GPU first has to raise its clock
    start.record()
    torch.cuda._sleep(CALIBRATION_CLOCKS)
    end.record()
    end.synchronize()
    return CALIBRATION_CLOCKS / start.elapsed_time(end)


def compute(milliseconds: float, device: torch.device) -> None:
    """Keep the device computing for this long."""
    if device.type == "cuda":
        # It spins for a number of clocks: sharing the GPU does not make it longer.
        torch.cuda._sleep(round(milliseconds * clocks_per_ms()))
        return
    matrix = torch.ones(256, 256)
    end = time.perf_counter() + milliseconds / 1000
    while time.perf_counter() < end:
        torch.mm(matrix, matrix)


def keep_python_busy(milliseconds: float) -> None:
    """Keep this process's main thread computing in Python for this long."""
    end = time.perf_counter() + milliseconds / 1000
    while time.perf_counter() < end:
        pass


def sleepy_collate(milliseconds: float) -> Callable[[list[object]], object]:
    """Return a way to make a batch that first waits this long, as for a slow disk."""

    def collate(samples: list[object]) -> object:
        time.sleep(milliseconds / 1000)
        return default_collate(samples)

    return collate


class ComputeInBackward(torch.autograd.Function):
    """Returns what it is given; its backward pass takes long."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, milliseconds: float) -> Tensor:
        """Return `x`."""
        ctx.milliseconds = milliseconds
        return x.view_as(x)

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[None, None]:
        """Compute for long, for nothing."""
        compute(ctx.milliseconds, gradient.device)
        return None, None


class ComputeBeforeBackward(torch.autograd.Function):
    """Returns what it is given, and its gradient once the device has computed for long."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, milliseconds: float) -> Tensor:
        """Return `x`."""
        ctx.milliseconds = milliseconds
        return x.view_as(x)

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor, None]:
        """Return the gradient, late."""
        compute(ctx.milliseconds, gradient.device)
        return gradient, None


class LongBackward(nn.Module):
    """A layer whose backward pass begins with one long computation."""

    def __init__(self, layer: nn.Module, milliseconds: float) -> None:
        super().__init__()
        self.layer = layer
        self.milliseconds = milliseconds

    def forward(self, x: Tensor) -> Tensor:
        """Return what the layer returns."""
        return ComputeBeforeBackward.apply(self.layer(x), self.milliseconds)


class LongLastBackward(nn.Module):
    """A first layer whose backward pass goes on after all its gradients are ready."""

    def __init__(self, layer: nn.Module, milliseconds: float) -> None:
        super().__init__()
        self.layer = layer
        self.milliseconds = milliseconds

    def forward(self, tokens: Tensor) -> Tensor:
        """Return what the layer returns."""
        zero = torch.zeros((), device=tokens.device, requires_grad=True)
        # Called before the layer: autograd runs last what the forward pass ran first.
        nothing = ComputeInBackward.apply(zero, self.milliseconds)
        return self.layer(tokens) + nothing
