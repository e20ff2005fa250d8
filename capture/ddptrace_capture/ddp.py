"""What DistributedDataParallel tells of itself: its buckets, its settings, its own averages."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from typing import Any

from ddptrace_capture.bucket_cap import BucketCap

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
_MIB = 1 << 20
_MOST_DIGITS = 9
_DEFAULT_CAP_BYTES = 25 * _MIB
_FLAGS = ("find_unused_parameters", "static_graph", "gradient_as_bucket_view")


def ddp_modules(cap: BucketCap | None = None) -> list[dict[str, Any]]:
    """Return what each living DDP module of this process tells; see docs/formats.md, "ddp"."""
    return [
        _about(module, module._get_ddp_logging_data()) | _caps(module, cap)
        for module in living_modules()
    ]


def living_modules() -> list[Any]:
    """Return the DDP modules of this process."""
    from torch.nn.parallel import DistributedDataParallel

    # `type()`, since `isinstance` asks lazy proxies for their class and so wakes them up.
    return [each for each in gc.get_objects() if issubclass(type(each), DistributedDataParallel)]


def name_of(module: Any) -> str:  # noqa: ANN401 - torch's module
    """Return the name of the model in a DDP module, that of its class."""
    return type(module.module).__name__


def _caps(module: Any, cap: BucketCap | None) -> dict[str, Any]:  # noqa: ANN401 - torch's module
    """Return the cap that the script asked for, and the one that was set in its place."""
    if cap is not None and module in cap.asked:
        return {"asked_bucket_cap_mb": cap.asked[module], "set_bucket_cap_mb": cap.cap_mb}
    several = getattr(module, "bucket_bytes_cap_list", None)
    if several:
        return {"asked_bucket_cap_mb": [*map(_cap_mb, several)], "set_bucket_cap_mb": None}
    cap_bytes = getattr(module, "bucket_bytes_cap", None)
    # PyTorch before 2.4 does not tell its default from the same cap, and treats them alike.
    is_default = getattr(module, "bucket_bytes_cap_default", cap_bytes == _DEFAULT_CAP_BYTES)
    asked = None if cap_bytes is None or is_default else _cap_mb(cap_bytes)
    return {"asked_bucket_cap_mb": asked, "set_bucket_cap_mb": None}


def _cap_mb(cap_bytes: int) -> float:
    """Return the shortest number of MiB that makes so many bytes: PyTorch rounds them down."""
    exact = cap_bytes / _MIB
    shorter = (round(exact, digits) for digits in range(_MOST_DIGITS))
    return next((cap for cap in shorter if int(cap * _MIB) == cap_bytes), exact)


def _about(module: Any, told: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - torch's module
    parameters = reduced_parameters(module)
    names = dict(enumerate(parameters))
    buckets = _lists(told.get("rebuilt_per_bucket_param_indices"))
    return {
        "module": str(told.get("module_name") or name_of(module)),
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


def reduced_parameters(module: Any) -> dict[str, Any]:  # noqa: ANN401 - torch's module
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
