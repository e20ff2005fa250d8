"""Who a process is in its job, and what it runs on."""

from __future__ import annotations

import os
import platform
import socket
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ddptrace_capture import machine

_LOCAL_RANK = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
_NODE = ("GROUP_RANK", "SLURM_NODEID")


@dataclass(frozen=True, slots=True)
class Rank:
    """One process of the job; `loop_thread` runs its training loop, `cuda`: it uses a GPU.

    `gpu` tells its GPU from all others in the world; None where torch does not.
    """

    rank: int
    world_size: int
    local_rank: int | None
    node: int | None
    host: str
    pid: int
    loop_thread: int
    cuda: bool
    device: str
    backend: str | None
    gpu: str | None = None

    def identity(self) -> dict[str, str | int | None]:
        """Return what tells this rank from all others, as its recordings carry it."""
        return {
            "rank": self.rank,
            "world_size": self.world_size,
            "local_rank": self.local_rank,
            "host": self.host,
            "gpu": self.gpu,
        }

    def facts(self) -> dict[str, Any]:
        """Return what the manifest tells of the rank."""
        told = asdict(self)
        del told["world_size"], told["cuda"]
        return told


def this_rank(environment: Mapping[str, str] = os.environ) -> Rank:
    """Return who this process is: as torch.distributed knows it, else as the launcher said."""
    import torch
    import torch.distributed as dist

    grouped = dist.is_available() and dist.is_initialized()
    cuda = torch.cuda.is_available() and torch.cuda.is_initialized()
    return Rank(
        rank=dist.get_rank() if grouped else _number(environment, ("RANK",)) or 0,
        world_size=dist.get_world_size() if grouped else _number(environment, ("WORLD_SIZE",)) or 1,
        local_rank=_number(environment, _LOCAL_RANK),
        node=_number(environment, _NODE),
        host=socket.gethostname(),
        pid=os.getpid(),
        loop_thread=threading.get_ident(),
        cuda=cuda,
        device=torch.cuda.get_device_name() if cuda else "CPU",
        backend=str(dist.get_backend()) if grouped else None,
        gpu=_gpu(torch) if cuda else None,
    )


def _gpu(torch: Any) -> str | None:  # noqa: ANN401 - torch's module, or one that stands in for it
    """Return the UUID of this process's GPU, written as nsys does it; old torch tells none."""
    told = getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "uuid", None)
    return None if told is None else str(told).removeprefix("GPU-")


def versions() -> dict[str, str]:
    """Return the versions of what runs here; what is not there is left out."""
    import torch

    found = {"python": platform.python_version(), "torch": str(torch.__version__)}
    if torch.version.cuda:
        found["cuda"] = str(torch.version.cuda)
    if torch.cuda.is_available():
        found["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
        found["driver"] = machine.driver_version() or ""
    return {name: version for name, version in found.items() if version}


def _number(environment: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    return next(
        (int(environment[name]) for name in names if environment.get(name, "").isdecimal()), None
    )
