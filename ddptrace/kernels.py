"""What a recorded operation is, from its category and name. Nothing else asks a name."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from enum import IntEnum
from typing import TypeAlias

from ddptrace.errors import UsageError
from ddptrace.expressions import Expression, UserExpression

Patterns: TypeAlias = tuple[Expression, ...]
Test: TypeAlias = Callable[[str], bool]


class Kind(IntEnum):
    """What an operation does to the step; the values are those of the column `kind`."""

    COMPUTE = 0
    COMM = 1
    MEM = 2


GPU_CATEGORIES = {
    "kernel": Kind.COMPUTE,
    "concurrent_kernel": Kind.COMPUTE,
    "memcpy": Kind.MEM,
    "gpu_memcpy": Kind.MEM,
    "memset": Kind.MEM,
    "gpu_memset": Kind.MEM,
    "cuda functions": Kind.COMPUTE,  # the profiler before Kineto named the process, not a category
}
_CALL_CATEGORY = re.compile(r"(?:\w+_)?(?:runtime|driver)")  # cuda_runtime, xpu_driver, Runtime
OPERATOR_CATEGORIES = frozenset({"cpu_op", "operator", "cpu functions"})
ANNOTATION_CATEGORIES = frozenset({"user_annotation"})
STACK_CATEGORY = "python_function"

# NCCL in every spelling, RCCL, and MSCCL (RCCL's own algorithms), at the start of the name or
# after `void `; in a mangled name after the length that C++ writes before an identifier.
_COMM_NAME = re.compile(r"\s*(?:void\s+)?(?:_Z\w*?\d+)?(?:ncclx?|rccl|msccl)", re.IGNORECASE)
_LIKELY_COMM = re.compile(
    r"all_?reduce|reduce_?scatter|all_?gather|all_?(?:2|to)_?all|cross_device|multimem"
    r"|symm_?mem|nvshmem|one_?shot|two_?shot|userbuffers|deep_?ep",
    re.IGNORECASE,
)
_OPERATIONS = (
    "all_reduce",
    "reduce_scatter",
    "all_gather",
    "all_to_all",
    "broadcast",
    "send_recv",
    "reduce",
    "gather",
    "scatter",
    "barrier",
)
_GIVEN_IN_PARTS = frozenset({"all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"})
# The names that PyTorch's metadata uses, in small letters.
_ELEMENT_BYTES = {
    **dict.fromkeys(("byte", "char", "bool", "qint8", "quint8", "bits8"), 1),
    **dict.fromkeys(("int8", "uint8", "int1", "float8_e5m2", "float8_e4m3fn"), 1),
    **dict.fromkeys(("float8_e5m2fnuz", "float8_e4m3fnuz", "float8_e8m0fnu"), 1),
    **dict.fromkeys(("short", "half", "bfloat16", "uint16", "int16", "float16", "bits16"), 2),
    **dict.fromkeys(("int", "float", "qint32", "uint32", "int32", "float32", "complexhalf"), 4),
    **dict.fromkeys(("long", "double", "uint64", "int64", "float64", "complexfloat"), 8),
    "complexdouble": 16,
}
_INTEGER_TYPE = re.compile(r"byte|char|bool|short|int|long|q?u?int\d+")
# NCCL's _u32_ and _i8_, and the C++ type in the names of older versions: _Sum_uint8_t(
_INTEGER_KERNEL = re.compile(r"_(?:[iu](?:8|32|64)|u?int(?:\d+_t)?)(?![a-z0-9])", re.IGNORECASE)
POINT_TO_POINT = frozenset({"send", "recv"})
"""Transfers between two ranks, as metadata tells them; a kernel's name says both at once."""
SIZES_MAY_DIFFER = frozenset({"all_to_all", "send_recv"})
"""Operations whose ranks need not have arrays of one size."""
ENDS_TOGETHER = frozenset({"all_reduce", "reduce_scatter", "all_gather", "all_to_all", "barrier"})
"""Operations that no rank can end before all have taken part."""
GRADIENT_OPERATIONS = frozenset({"all_reduce", "reduce_scatter", "reduce"})
_LAUNCH_CALL = re.compile(r"(?:cuda|cu|hip)(?:Ext)?(?:Module)?Launch(?!HostFunc)", re.IGNORECASE)
_GRAPH_LAUNCH_CALL = re.compile(r"(?:cuda|cu|hip)GraphLaunch", re.IGNORECASE)
_SYNC_CALL = re.compile(
    r"(?:cuda|cu|hip)(?:(?:Stream|Device|Event|Ctx|Thread)Synchronize"
    r"|Memcpy(?!\w*Async)|Free(?!\w*Async)|MemFree(?!\w*Async))"
)
_LOADER = re.compile(r"enumerate\(DataLoader\)|\w*\.?(?:_next_data|train_dataloader_next)\b")
# PyTorch's foreach and fused optimizers, Apex and the like. Norms of all gradients count, too.
_OPTIMIZER_KERNEL = re.compile(r"multi_tensor_apply|adam|lamb|(?<![a-z])sgd", re.IGNORECASE)
_COPY = re.compile(r"Memcpy DtoD|direct_copy_kernel")
_STEP_MARK = re.compile(r"ProfilerStep\s*#\s*(\d+)")
# What torch.autograd.profiler.emit_nvtx adds to the names of ranges.
_RANGE_TAIL = r"(?:, (?:seq|op_id|sizes|input_op_ids|stashed)\b.*)?"
_RANGE_NUMBER = r"[\s_#:=\[(-]*(\d+)[\])]?(?:\s*(?:/|of)\s*\d+)?"
_STEP_RANGES = tuple(
    re.compile(rf"\A{pattern}{_RANGE_TAIL}\Z", re.IGNORECASE)
    for pattern in (
        r"ProfilerStep\s*#\s*(\d+)",
        # step 5, training_step_5, iteration 5, epoch 1 step 5, global step 5/100
        rf"(?:(?:train(?:ing)?|global|epoch[\s_#:=-]*\d+)[\s_,:/-]*)*(?:step|iter(?:ation)?)"
        rf"{_RANGE_NUMBER}",
        r"(?:\[pl\]\[profile\])?(?:\[[^\]]*\][\w.]*\.)?run_training_batch",  # Lightning
        r"(?:megatron[\w.]*\.)?train(?:ing)?_step",  # Megatron
    )
)
STEP_RANGE_INITIALS = "pPsStTgGeEiIrRm["
"""What the names of step ranges begin with, when nothing else was said."""

_COLLECTIVE_RANGE = (
    r"nccl(?:All)?(?:Reduce(?:Scatter)?|Gather|ToAll|toAll|Scatter|Broadcast|Bcast|Send|Recv)\b"
)
_BACKWARD_OPERATOR = "autograd::engine::evaluate_function"
_HOST_COLLECTIVE = re.compile(r"gloo:(?!:)")
_GPU_COLLECTIVE = re.compile(r"(?:nccl|rccl):(?!:)|" + _COLLECTIVE_RANGE)
_COLLECTIVE_CALL = re.compile(r"record_param_comms|c10d::(?:\w+_)?\w*(?:reduce|gather|all|cast)")
_COLLECTIVE_FRAME = re.compile(r"c10d::|gloo:")
# Ranges that old versions file among the operators although they only enclose other work.
_WRAPPER = re.compile(
    r"ProfilerStep|DistributedDataParallel\.|Optimizer\.|enumerate\(DataLoader\)|##|profiler::"
)


PAYLOAD_NAMES = {
    "communicator": "NCCL communicator ID",
    "size_bytes": "Message size [bytes]",
    "ranks": "No. of ranks",
    "rank": "Rank",
}
"""What NCCL calls the values that it attaches to its NVTX ranges."""

GPU_BACKEND = "nccl"  # what PyTorch calls the backend whose work is GPU kernels

COMM_LIBRARY_VERSION = "nccl_version"  # in a trace's header; RCCL writes its own under this name


def comm_library(versions: Collection[str]) -> str:
    """Return the name of the collectives library of a run with these kinds of versions."""
    return "rccl" if "hip" in versions else "nccl"


def comm_patterns(expressions: str | Sequence[str]) -> Patterns:
    """Return the user's names of collectives as patterns; UsageError for a bad expression."""
    several = [expressions] if isinstance(expressions, str) else expressions
    patterns = tuple(UserExpression(expression, "--comm-kernel") for expression in several)
    for pattern in patterns:
        if pattern.search(""):
            raise UsageError(
                f"--comm-kernel {pattern.pattern!r} matches every kernel; name the collectives"
            )
    return patterns


_MOST_DIGITS = 18  # of a step's number: more do not fit 64 bits


def step_range_patterns(expression: str | None) -> Patterns:
    """Return what names a step among NVTX ranges, best first: the user's pattern, or the usual."""
    if expression == "":
        raise UsageError("--step-range: an empty expression is in every name; name your ranges")
    return _STEP_RANGES if expression is None else (UserExpression(expression, "--step-range"),)


def range_number(pattern: Expression, name: str) -> int | None:
    """Return the number of a step in the name of its range; None when there is none or several.

    A group of the pattern tells it, else the only whole number of the name.
    """
    found = pattern.search(name)
    groups = [text for text in (found.groups() if found else ()) if text and text.isdecimal()]
    told = groups or re.findall(r"\d+", re.sub(_RANGE_TAIL + r"\Z", "", name))
    return int(told[0]) if len(told) == 1 and len(told[0]) <= _MOST_DIGITS else None


def is_call_category(category: str) -> bool:
    """Tell whether events of a category, in small letters, are calls of a GPU's runtime."""
    return _CALL_CATEGORY.fullmatch(category) is not None


def is_comm_name(name: str) -> bool:
    """Tell whether a kernel of this name belongs to a collectives library."""
    return _COMM_NAME.match(name) is not None


def is_likely_comm(name: str) -> bool:
    """Tell whether a kernel that counts as compute may be somebody's own collective."""
    head = re.split(r"[<(]", name.removeprefix("void "), maxsplit=1)[0]
    return _LIKELY_COMM.search(head) is not None


def collective_operation(name: str, told: str | None) -> str | None:
    """Return what a comm kernel does ("all_reduce", …), from its metadata, else from its name."""
    text = (told or name).lower().replace("_", "")
    if text in POINT_TO_POINT:
        return text
    for operation in _OPERATIONS:
        if operation.replace("_", "") in text:
            return operation
    return None


def element_bytes(dtype: str) -> int | None:
    """Return the size of one element of a type as PyTorch names it; None for an unknown one."""
    return _ELEMENT_BYTES.get(dtype.lower())


def is_integer_type(dtype: str) -> bool:
    """Tell whether a type, as PyTorch names it, is one of whole numbers, as no gradient is."""
    return _INTEGER_TYPE.fullmatch(dtype.lower()) is not None


def works_on_integers(name: str) -> bool:
    """Tell whether the name of a comm kernel says that it works on whole numbers."""
    return _INTEGER_KERNEL.search(name.split("(", maxsplit=1)[0]) is not None


def whole_elements(operation: str | None, given: int, received: int, ranks: int) -> int | None:
    """Return how many elements the whole array of a collective has, over all its ranks.

    `given` and `received` are those of one rank, -1 where unknown like `ranks`; None when they do
    not tell. The whole array is what NCCL's own tests count as the size.
    """
    known = max(given, received)
    if known < 0:
        return None
    parts = {"all_gather": given, "gather": given, "reduce_scatter": received, "scatter": received}
    part = parts.get(operation or "", -1)
    # The known one may be more than the part times the ranks: parts can be of different sizes.
    return max(part * ranks, known) if min(part, ranks) >= 0 else known


def parts_of_whole(operation: str | None, ranks: int | None) -> int | None:
    """Return how many times what one rank's call of the library was given is the whole array.

    None when that depends on how many ranks there are, and this is unknown.
    """
    return ranks if operation in _GIVEN_IN_PARTS else 1


def is_launch_call(name: str) -> bool:
    """Tell whether a runtime or driver call puts a kernel or a graph on the GPU."""
    return _LAUNCH_CALL.match(name) is not None or is_graph_launch(name)


def is_graph_launch(name: str) -> bool:
    """Tell whether a runtime or driver call launches a whole CUDA graph."""
    return _GRAPH_LAUNCH_CALL.match(name) is not None


def is_sync_call(name: str) -> bool:
    """Tell whether a runtime or driver call returns only after work of the GPU has ended."""
    return _SYNC_CALL.match(name) is not None


def is_loader(name: str) -> bool:
    """Tell whether a host range is that of fetching the next batch from a data loader."""
    return _LOADER.search(name) is not None


def step_number(name: str) -> int | None:
    """Return N of a step mark `ProfilerStep#N`; None when the name marks no step."""
    found = _STEP_MARK.match(name)
    return int(found[1]) if found else None


def mentions_step(text: str) -> bool:
    """Tell whether the text of an event that cannot be read may be that of a step mark."""
    return _STEP_MARK.search(text) is not None


def is_backward_operator(name: str) -> bool:
    """Tell whether only the autograd engine runs an operator of this name."""
    return name.startswith(_BACKWARD_OPERATOR)


GRADIENT_OPERATOR = "torch::autograd::AccumulateGrad"


def is_gradient_operator(name: str) -> bool:
    """Tell whether an operator takes in the gradient of a parameter, which is then ready."""
    return name == GRADIENT_OPERATOR


def is_gradient_range(name: str) -> bool:
    """Tell whether a range is all that the engine does for one gradient: DDP's hook, too."""
    return name.startswith(_BACKWARD_OPERATOR) and name.endswith(GRADIENT_OPERATOR)


def is_ddp_range(name: str) -> bool:
    """Tell whether a host range is the forward pass of DistributedDataParallel."""
    return name.startswith("DistributedDataParallel.forward")


def is_optimizer_range(name: str) -> bool:
    """Tell whether a host range is a step of an optimizer."""
    return name.startswith("Optimizer.step#")


def is_optimizer_kernel(name: str) -> bool:
    """Tell whether a kernel of this name changes parameters or is given all gradients at once."""
    return _OPTIMIZER_KERNEL.search(name) is not None


def is_unused_search(name: str) -> bool:
    """Tell whether a host range is DDP's search for parameters that a step does not use."""
    return name == "torch.distributed.ddp.reducer::search_unused_parameters"


def is_copy_to_gradient(name: str) -> bool:
    """Tell whether a host range is DDP's copying of a reduced bucket back into gradients."""
    return name == "torch.distributed.ddp.reducer::copy_bucket_to_grad"


def is_copy_kernel(name: str) -> bool:
    """Tell whether an operation of this name copies an array on the GPU as it is."""
    return _COPY.search(name) is not None


def is_backward_thread(name: str) -> bool:
    """Tell whether a thread of this name belongs to the autograd engine."""
    return "pt_autograd" in name


def is_collective_range(name: str) -> bool:
    """Tell whether an NVTX range is a call of the collectives library itself."""
    return name.startswith("nccl")


def called_collective(name: str) -> str:
    """Return what the range of a collective's call is about, as metadata would tell it."""
    return name.removeprefix("nccl").replace("Bcast", "Broadcast")


def is_host_collective(name: str) -> bool:
    """Tell whether a host range is a collective that the host itself carries out (gloo)."""
    return _HOST_COLLECTIVE.match(name) is not None


def is_gpu_collective_call(name: str) -> bool:
    """Tell whether a host range calls a collective whose work is a GPU kernel."""
    return _GPU_COLLECTIVE.match(name) is not None


def is_collective_call(name: str) -> bool:
    """Tell whether a host range calls a collective of any backend."""
    return _COLLECTIVE_CALL.match(name) is not None


def is_collective_frame(name: str) -> bool:
    """Tell whether host work inside this range is bookkeeping of a collective, not compute."""
    return _COLLECTIVE_FRAME.match(name) is not None


def is_wrapper(name: str) -> bool:
    """Tell whether a host range only encloses the work of others."""
    return _WRAPPER.match(name) is not None
