"""The model: independent branches, one parameter each, and a spin in the backward of each."""

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from configurations import MIB, Configuration
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx
from torch.nn.parallel import DistributedDataParallel

BATCH_SIZE = 32
LEARNING_RATE = 1e-3
CPU_CYCLES_A_SECOND = 2e9


@dataclass(frozen=True)
class Place:
    """Where this rank runs; `control` is a gloo group, so that meeting launches no kernel."""

    rank: int
    world_size: int
    device: torch.device
    control: dist.ProcessGroup

    def synchronize(self) -> None:
        """Wait until the device has done all it was given."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def meet(self) -> None:
        """Wait until every rank's device is idle."""
        self.synchronize()
        dist.barrier(self.control)


class Spin(torch.autograd.Function):
    """The identity, whose backward first keeps the device busy for a number of cycles."""

    @staticmethod
    def forward(ctx: FunctionCtx, output: Tensor, cycles: int) -> Tensor:
        """Return `output` and keep `cycles` for the backward."""
        ctx.cycles = cycles  # type: ignore[attr-defined]
        return output.view_as(output)

    @staticmethod
    def backward(ctx: FunctionCtx, *gradients: Tensor) -> tuple[Tensor, None]:
        """Return the gradient once the device has spun."""
        spin(gradients[0].device, ctx.cycles)  # type: ignore[attr-defined]
        return gradients[0], None


def spin(device: torch.device, cycles: int) -> None:
    """Launch a kernel that counts clock cycles; on a CPU, sleep for as long at 2 GHz."""
    if device.type == "cuda":
        torch.cuda._sleep(cycles)
    else:
        # A loop would take the core from the threads that communicate; a kernel takes it from none.
        time.sleep(cycles / CPU_CYCLES_A_SECOND)


class Branches(nn.Module):
    """The sum of independent matrix products, one square matrix each."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__()
        side = math.isqrt(configuration.branch_bytes // 4)
        self.spin_cycles = configuration.spin_cycles
        self.weights = nn.ParameterList(
            torch.randn(side, side) / side for _ in range(configuration.branches)
        )

    def forward(self, inputs: Tensor, skipped: int | None = None) -> Tensor:
        """Return the sum of all branches but the skipped one."""
        used = (weight for index, weight in enumerate(self.weights) if index != skipped)
        return torch.stack(list(self._outputs(inputs, used))).sum(0)

    def _outputs(self, inputs: Tensor, weights: Iterable[Tensor]) -> Iterable[Tensor]:
        for weight in weights:
            output = inputs @ weight
            yield Spin.apply(output, self.spin_cycles) if self.spin_cycles else output


@dataclass(frozen=True)
class Job:
    """A model that trains, with the inputs of this rank."""

    configuration: Configuration
    model: DistributedDataParallel
    optimizer: torch.optim.Optimizer
    inputs: Tensor

    def loss(self, step: int, model: nn.Module | None = None) -> Tensor:
        """Return the loss of a step, through `model` if it is given and DDP's if not."""
        outputs: Tensor = (model or self.model)(
            self.inputs, self.configuration.skipped_branch(step)
        )
        return outputs.square().mean()

    def step(self, number: int) -> None:
        """Train one step."""
        self.loss(number).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


def build(configuration: Configuration, place: Place) -> Job:
    """Return a new model; weights and inputs differ by rank until DDP makes the weights equal."""
    torch.manual_seed(place.rank)
    network = Branches(configuration).to(place.device)
    model = DistributedDataParallel(
        network,
        device_ids=[place.device.index] if place.device.type == "cuda" else None,
        bucket_cap_mb=configuration.cap_bytes / MIB,
        gradient_as_bucket_view=True,
        find_unused_parameters=configuration.find_unused_parameters,
        static_graph=configuration.static_graph,
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    inputs = torch.randn(BATCH_SIZE, network.weights[0].shape[0]).to(place.device)
    return Job(configuration, model, optimizer, inputs)
