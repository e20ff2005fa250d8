"""Whether all ranks hold the same parameters, bit by bit.

Each rank leaves a hash of every parameter that DDP keeps alike, and the launcher compares them: no
collective, no random number and no memory of the GPU is used for it.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ddptrace_capture.ddp import living_modules, name_of, reduced_parameters

_PIECE_BYTES = 1 << 26
_HEX_DIGITS = 16


def replica() -> dict[str, Any]:
    """Return the hashes of this rank's parameters, or in `problem` why there are none."""
    try:
        models = [_model(module) for module in living_modules()]
    except Exception as error:
        words = " ".join(f"{type(error).__name__}: {error}".split())
        return {"models": [], "problem": f"its parameters cannot be read: {words}"[:300]}
    return {"models": models, "problem": None if models else "it has no DDP model"}


def _model(module: Any) -> dict[str, Any]:  # noqa: ANN401 - torch's module
    import torch.distributed as dist

    return {
        "module": name_of(module),
        # DDP averages in its own group: others may hold another part of the model.
        "ranks": sorted(dist.get_process_group_ranks(module.process_group)),
        "hashes": {name: _hash(each) for name, each in reduced_parameters(module).items()},
    }


def _hash(parameter: Any) -> str:  # noqa: ANN401 - a tensor of torch
    found = hashlib.sha256()
    for piece in _pieces(parameter):
        found.update(piece)
    return found.hexdigest()[:_HEX_DIGITS]


def _pieces(parameter: Any) -> Iterator[bytes]:  # noqa: ANN401 - a tensor of torch
    """Give the bytes of a tensor piece by piece, so that the host never holds a large copy."""
    local = parameter.to_local() if hasattr(parameter, "to_local") else parameter
    flat = local.detach().reshape(-1)
    count = max(_PIECE_BYTES // flat.element_size(), 1)
    for start in range(0, flat.numel(), count):
        piece = flat[start : start + count].cpu()
        yield ctypes.string_at(piece.data_ptr(), piece.numel() * piece.element_size())


def compared(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the manifest tells: `equal` is None, with the reason, where it is not known."""
    reason = _why_unknown(records)
    hashes = {} if reason else _by_model(records)
    shared = {key: ranks for key, ranks in hashes.items() if len(ranks) > 1}
    if not reason and not shared:
        reason = "every rank has a model of its own"
    count = max((len(ranks) for ranks in hashes.values()), default=0)
    if reason:
        return {"equal": None, "reason": reason, "ranks": count, "parameters": None, "step": None}
    unlike = [name for key, ranks in shared.items() for name in _unlike(ranks)]
    parameters = sum(len(next(iter(ranks.values()))) for ranks in shared.values())
    return {
        "equal": not unlike,
        "reason": f"{len(unlike)} of {parameters} parameters differ, first {unlike[0]}"
        if unlike
        else None,
        "ranks": count,
        "parameters": parameters,
        "step": records[0]["steps_seen"] - 1,
    }


def _why_unknown(records: Sequence[Mapping[str, Any]]) -> str | None:
    told = {record["rank"]["rank"]: record.get("replica") for record in records}
    size = max((record["world_size"] for record in records), default=0)
    silent = [rank for rank in range(size) if told.get(rank) is None]
    if silent:
        return f"rank {silent[0]} ended before its last step was recorded, or told nothing"
    for rank, one in sorted(told.items()):
        if one is not None and one["problem"]:
            return f"rank {rank}: {one['problem']}"
    if len({record["steps_seen"] for record in records}) > 1:
        return "ranks were looked at after different steps"
    return None


def _by_model(
    records: Sequence[Mapping[str, Any]],
) -> dict[tuple[Any, ...], dict[int, dict[str, list[str]]]]:
    """Return the hashes by model and group, then by rank and by name.

    Models of one class in one group cannot be told apart, so a name may have several hashes.
    """
    found: dict[tuple[Any, ...], dict[int, dict[str, list[str]]]] = {}
    for record in records:
        for model in record["replica"]["models"]:
            of_ranks = found.setdefault((model["module"], *model["ranks"]), {})
            mine = of_ranks.setdefault(record["rank"]["rank"], defaultdict(list))
            for name, each in model["hashes"].items():
                mine[name] = sorted([*mine[name], each])
    return found


def _unlike(ranks: Mapping[int, Mapping[str, list[str]]]) -> list[str]:
    """Return the names of parameters that are not the same on all ranks of a model."""
    first, *others = ranks.values()
    names = dict.fromkeys(name for one in ranks.values() for name in one)
    return [name for name in names if any(one.get(name) != first.get(name) for one in others)]
