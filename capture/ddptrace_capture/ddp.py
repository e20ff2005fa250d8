"""What DistributedDataParallel tells of itself: its buckets, its settings, its own averages."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from typing import Any

_AVERAGES = {
    "forward_compute_ns": "avg_forward_compute_time",
    "backward_compute_ns": "avg_backward_compute_time",
    "backward_comm_ns": "avg_backward_comm_time",
    "backward_compute_comm_overlap_ns": "avg_backward_compute_comm_overlap_time",
}
_NOTE = (
    "DDP's logger's own averages over the iterations that it samples, from a few stamps of each; "
    "they are not the union of intervals and agree with no figure of the report"
)
_FLAGS = ("find_unused_parameters", "static_graph", "gradient_as_bucket_view")


def ddp_modules() -> list[dict[str, Any]]:
    """Return what each living DDP module of this process tells; see docs/formats.md, "ddp"."""
    from torch.nn.parallel import DistributedDataParallel

    # `type()`, since `isinstance` asks lazy proxies for their class and so wakes them up.
    living = [each for each in gc.get_objects() if issubclass(type(each), DistributedDataParallel)]
    return [_about(module, module._get_ddp_logging_data()) for module in living]


def _about(module: Any, told: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - torch's module
    parameters = _parameters(module)
    names = dict(enumerate(parameters))
    buckets = _lists(told.get("rebuilt_per_bucket_param_indices"))
    return {
        "module": str(told.get("module_name") or type(module.module).__name__),
        "bucket_cap_bytes": _whole(told.get("bucket_cap_bytes")),
        **{flag: bool(told.get(flag, 0)) for flag in _FLAGS},
        "comm_hook": told.get("comm_hook") or None,
        "has_rebuilt_buckets": bool(told.get("has_rebuilt_buckets", 0)),
        "initial_bucket_bytes": _flat(told.get("bucket_sizes")),
        "rebuilt_bucket_bytes": _flat(told.get("rebuilt_bucket_sizes")),
        "bucket_parameters": [[names.get(index, str(index)) for index in each] for each in buckets],
        "parameter_names": list(parameters),
        "parameter_bytes": [each.numel() * each.element_size() for each in parameters.values()],
        "parameter_types": [str(each.dtype) for each in parameters.values()],
        "ddp_averages": {
            "note": _NOTE,
            **{name: _whole(told.get(source)) for name, source in _AVERAGES.items()},
        },
    }


def _parameters(module: Any) -> dict[str, Any]:  # noqa: ANN401 - torch's module
    """Return what DDP reduces by its name, in DDP's own order: that of the module."""
    ignored = getattr(module, "parameters_to_ignore", ())
    return {
        name: parameter
        for name, parameter in module.module.named_parameters()
        if parameter.requires_grad and name not in ignored
    }


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _flat(text: object) -> list[int]:
    """Return the numbers of a list as DDP's logger writes it: `1050624, 1050624`."""
    return [int(word) for word in str(text or "").replace(",", " ").split()]


def _lists(text: object) -> list[list[int]]:
    """Return lists of numbers as DDP's logger writes them: `3 2, 1 0`."""
    groups = str(text or "").split(",")
    return [[int(word) for word in group.split()] for group in groups if group.strip()]
