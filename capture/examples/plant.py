"""Change the model as the switches say, and wrap it for data parallel training."""

import argparse
import shutil
from typing import Any

import delays
import torch
import torch.distributed as dist
from gpt import GPT
from link import add_communication_hook
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parametrize

PIECES = 32
TINY_BUCKET_MB = 0.05
BUFFER_TIMES = 4  # as many values as the token embedding has
COMPILED_BUCKET_MB = 1.0  # the least that torch.compile accepts when it splits the graph by bucket


class Pieces(nn.Module):
    """A weight kept as many small parameters."""

    def forward(self, *pieces: Tensor) -> Tensor:
        """Return the whole weight."""
        return torch.cat(pieces)

    def right_inverse(self, weight: Tensor) -> list[Tensor]:
        """Return the parameters to keep in the weight's place."""
        return [piece.clone() for piece in weight.chunk(PIECES)]


class EveryOtherTime(nn.Module):
    """A layer that is skipped in every other forward pass."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        """Return what the layer returns, or `x` itself."""
        self.calls += 1
        return self.layer(x) if self.calls % 2 else x


def stop_when_not_finite(_: nn.Module, __: tuple[Tensor], output: Tensor) -> None:
    """Look at a layer's output, for which the host must wait."""
    if not output.isfinite().all().item():
        raise FloatingPointError("a layer's output is not finite")


def change_parameters(model: GPT, switches: set[str]) -> None:
    """Plant what lies in how the model holds its parameters."""
    if "late-first-parameter" in switches:
        # DDP expects gradients in the reverse order of registration: it waits for this one first.
        embedding = model.token_embedding
        del model.token_embedding
        model.token_embedding = embedding
    if "fine-parameters" in switches:
        for layer in [module for module in model.modules() if isinstance(module, nn.Linear)]:
            parametrize.register_parametrization(layer, "weight", Pieces())
    if "unused-static" in switches:
        model.never_used = nn.Linear(PIECES, PIECES)


def change_layers(model: GPT, switches: set[str], delay_ms: float) -> None:
    """Plant what lies in how the model computes."""
    if "long-last-backward" in switches:
        model.token_embedding = delays.LongLastBackward(model.token_embedding, delay_ms)
    if "long-layer" in switches:
        halfway = len(model.blocks) // 2
        model.blocks[halfway] = delays.LongBackward(model.blocks[halfway], delay_ms)
    if "large-buffer" in switches:
        values = BUFFER_TIMES * model.token_embedding.weight.numel()
        model.register_buffer("statistics", torch.zeros(values))
    if "item-in-forward" in switches:
        for block in model.blocks:
            block.register_forward_hook(stop_when_not_finite)
    if "unused-dynamic" in switches:
        model.blocks[-1] = EveryOtherTime(model.blocks[-1])


def compiled(model: nn.Module, device: torch.device) -> nn.Module:
    """Return the model compiled; without a compiler, split into graphs that run as they are."""
    compilers = ["g++", "clang++"] if device.type == "cpu" else ["gcc", "clang"]
    if any(shutil.which(compiler) for compiler in compilers):
        return torch.compile(model)
    if dist.get_rank() == 0:
        print("no compiler here: torch.compile runs with backend aot_eager", flush=True)
    return torch.compile(model, backend="aot_eager")


def ddp_arguments(
    model: nn.Module, switches: set[str], bucket_cap_mb: float | None
) -> dict[str, Any]:
    """Return what DistributedDataParallel is called with."""
    if "one-bucket" in switches:
        bucket_cap_mb = sum(each.nbytes for each in model.parameters()) / 2**20 + 1
    if "tiny-buckets" in switches:
        bucket_cap_mb = TINY_BUCKET_MB
    if "compile" in switches and bucket_cap_mb:
        bucket_cap_mb = max(bucket_cap_mb, COMPILED_BUCKET_MB)
    return {
        "gradient_as_bucket_view": "no-bucket-view" not in switches,
        "static_graph": "unused-static" in switches,
        # While DDP looks for unused parameters it never lays out its buckets anew.
        "find_unused_parameters": bool({"unused-dynamic", "late-first-parameter"} & switches),
        **({"bucket_cap_mb": bucket_cap_mb} if bucket_cap_mb else {}),
    }


def fully_sharded(model: GPT, device: torch.device) -> nn.Module:
    """Return the model with the parameters of each layer spread over the ranks."""
    if torch.__version__ < (2, 7):  # there fully_shard needs a GPU, or does not exist
        from torch.distributed.fsdp import FullyShardedDataParallel

        for index, block in enumerate(model.blocks):
            model.blocks[index] = FullyShardedDataParallel(block, device_id=device)
        return FullyShardedDataParallel(model, device_id=device)

    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    for layer in [*model.blocks, model]:
        fully_shard(layer, mesh=mesh)
    return model


def delay_last_rank(model: nn.Module, switches: set[str], delay_ms: float) -> None:
    """Let the last rank come late to its forward pass."""
    if dist.get_rank() != dist.get_world_size() - 1:
        return
    if "late-compute" in switches:
        model.register_forward_pre_hook(
            lambda _, inputs: delays.compute(delay_ms, inputs[0].device)
        )
    if "late-host" in switches:
        model.register_forward_pre_hook(lambda _, __: delays.keep_python_busy(delay_ms))


def parallel(model: GPT, options: argparse.Namespace, device: torch.device) -> nn.Module:
    """Return the model, changed and wrapped as the options say."""
    switches = options.switches
    change_parameters(model, switches)
    change_layers(model, switches, options.delay_ms)
    model.to(device)
    if "fsdp" in switches:
        wrapped = fully_sharded(model, device)
    else:
        wrapped = DistributedDataParallel(
            compiled(model, device) if "compile" in switches else model,
            device_ids=[device.index] if device.type == "cuda" else None,
            **ddp_arguments(model, switches, options.bucket_cap_mb),
        )
        add_communication_hook(wrapped, switches, device)
    delay_last_rank(wrapped, switches, options.delay_ms)
    return wrapped
