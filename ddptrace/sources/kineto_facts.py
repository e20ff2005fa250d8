"""What the header of a Kineto file says about the run, the rank and the recording's clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from ddptrace import kernels
from ddptrace.manifest import Part
from ddptrace.model import Facts, Group
from ddptrace.sources.told import listed_groups
from ddptrace.wording import one_line

_VERSIONS = {
    "cuda_runtime_version": "cuda",
    "cuda_driver_version": "driver",
    "cupti_version": "cupti",
    "hip_runtime_version": "hip",
}
_SWITCHES = ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules")
CAPTURED = "ddptrace"  # what `ddptrace capture` adds to the header
_LARGEST_NS = 1 << 62
_LARGEST_WORLD = 1_000_000  # beyond it a number is damage, not a job


def base_ns(header: Mapping[str, Any]) -> int | None:
    """Return the Unix time in ns that the stamps count from; None when the header has none."""
    base = _integer(header.get("baseTimeNanoseconds"))
    return base if base is not None and 0 < base < _LARGEST_NS else None


def told_rank(header: Mapping[str, Any]) -> int | None:
    """Return the rank in `distributedInfo`, else the one that capture wrote; None without both."""
    told = (_integer(found.get("rank")) for found in (_distributed(header), _captured(header)))
    return next((rank for rank in told if rank is not None and rank >= 0), None)


def part(header: Mapping[str, Any]) -> Part | None:
    """Return which part of a rank's recording the file is; None when capture did not write it."""
    told = _captured(header).get("part")
    return told if told in get_args(Part) else None


def groups(header: Mapping[str, Any]) -> dict[str, Group]:
    """Return the process groups of the rank that `distributedInfo` lists, by name."""
    return listed_groups(_distributed(header).get("pg_config"))


def facts(header: Mapping[str, Any], *, device: int | None, process: str | None) -> Facts:
    """Return the header's facts; `device` is the GPU that the recording's work ran on."""
    distributed, captured = _distributed(header), _captured(header)
    world_size = _integer(distributed.get("world_size", captured.get("world_size")))
    backend = distributed.get("backend")
    return Facts(
        world_size=world_size if world_size and 0 < world_size <= _LARGEST_WORLD else None,
        backend=_word(backend),
        device_name=_device_name(header, device),
        process=process,
        gpu=_word(captured.get("gpu")),
        host=_word(captured.get("host")),
        versions=_versions(header, distributed),
        switches=tuple(name for name in _SWITCHES if header.get(name) in (1, True)),
    )


def _distributed(header: Mapping[str, Any]) -> Mapping[str, Any]:
    return _object(header, "distributedInfo")


def _captured(header: Mapping[str, Any]) -> Mapping[str, Any]:
    return _object(header, CAPTURED)


def _object(header: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = header.get(key)
    return found if isinstance(found, dict) else {}


def _integer(value: object) -> int | None:
    try:
        return int(str(value))
    except ValueError:
        return None


def _device_name(header: Mapping[str, Any], device: int | None) -> str | None:
    listed = header.get("deviceProperties")
    entries = listed if isinstance(listed, list) else []
    known = [entry for entry in entries if isinstance(entry, dict)]
    match = [entry for entry in known if entry.get("id") == device] or known
    return _word(match[0].get("name")) if match else None


def _word(value: object) -> str | None:
    return one_line(value).strip() if value else None


def _versions(header: Mapping[str, Any], distributed: Mapping[str, Any]) -> dict[str, str]:
    versions = {}
    for key, name in _VERSIONS.items():
        number = _integer(header.get(key))
        if number:
            versions[name] = dotted(number) if name in ("cuda", "driver") else str(number)
    library = _word(distributed.get(kernels.COMM_LIBRARY_VERSION))
    if library:
        versions[kernels.comm_library(versions)] = library
    return versions


def dotted(number: int) -> str:
    """Return a CUDA version, which is written as 1000 × major + 10 × minor."""
    return f"{number // 1000}.{number % 1000 // 10}"
