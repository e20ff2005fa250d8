"""Where the experiment runs: found at run time, never assumed."""

import os
import platform
from itertools import permutations
from typing import Any

import torch
import torch.distributed as dist
from branches import Place

# What decides how NCCL moves data; the rest of the environment is nobody's business.
NCCL_SETTINGS = (
    "NCCL_ALGO",
    "NCCL_IB_DISABLE",
    "NCCL_MAX_NCHANNELS",
    "NCCL_NVLS_ENABLE",
    "NCCL_P2P_DISABLE",
    "NCCL_P2P_LEVEL",
    "NCCL_PROTO",
    "NCCL_SHM_DISABLE",
    "NCCL_SOCKET_IFNAME",
)


def share_one_gpu(rank: int) -> None:
    """Let NCCL take the ranks for different hosts: it refuses two of one host on one GPU."""
    os.environ.update(
        NCCL_HOSTID=f"rank{rank}",
        NCCL_P2P_DISABLE="1",
        NCCL_SHM_DISABLE="1",
        NCCL_IB_DISABLE="1",
        NCCL_SOCKET_IFNAME="lo",
    )


def hardware(place: Place, link: str | None) -> dict[str, Any]:
    """Return what this job runs on; every rank must call it."""
    mine = (int(os.environ.get("GROUP_RANK", "0")), str(place.device))
    devices: list[tuple[int, str]] = [mine] * place.world_size
    dist.all_gather_object(devices, mine, place.control)
    on_gpu = place.device.type == "cuda"
    return {
        "device": torch.cuda.get_device_name(place.device) if on_gpu else _processor(),
        "devices": len(set(devices)),
        "nodes": len({node for node, _ in devices}),
        "ranks": place.world_size,
        "backend": dist.get_backend(),
        "link": link or _detected_link(place, devices),
        "nccl_settings": {name: os.environ[name] for name in NCCL_SETTINGS if name in os.environ},
        "versions": _versions(on_gpu=on_gpu),
    }


def _processor() -> str:
    return f"CPU ({platform.machine()}, {os.cpu_count()} cores)"


def _versions(*, on_gpu: bool) -> dict[str, str]:
    found = {"PyTorch": str(torch.__version__), "Python": platform.python_version()}
    if on_gpu:
        found["CUDA"] = str(torch.version.cuda)
        found["NCCL"] = ".".join(str(part) for part in torch.cuda.nccl.version())
    return found


def _detected_link(place: Place, devices: list[tuple[int, str]]) -> str:
    """Return how the ranks reach each other, as far as torch can tell."""
    if len({node for node, _ in devices}) > 1:
        return "the network between the nodes"
    if place.device.type != "cuda":
        return "gloo on one host"
    if len(set(devices)) == 1:
        return "one GPU for all ranks, NCCL over TCP on one host"
    return _peer_access(len(set(devices)))


def _peer_access(count: int) -> str:
    if torch.cuda.device_count() < count:
        return "not known: a rank does not see all GPUs"
    reached = [torch.cuda.can_device_access_peer(a, b) for a, b in permutations(range(count), 2)]
    if os.environ.get("NCCL_P2P_DISABLE") == "1" or not any(reached):
        return "through the host's memory, no peer access"
    return "peer access between " + ("all GPUs" if all(reached) else "some of the GPUs")
