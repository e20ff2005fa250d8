"""Operators and launches of a made-up training step, as the profiler would write them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal, TypeAlias

ROWS = 4096
WIDTH = 1024
HEADS = 16
VOCABULARY = 32000
COMPUTE_STREAM = 7
COMM_STREAM = 17

EVENT = (
    '  {\n    "ph": "X", "cat": "%s", "name": "%s", "pid": %%d, "tid": %%d,\n'
    '    "ts": %%d.%%03d, "dur": %%d.%%03d,\n    "args": {\n      %s\n    }\n  }'
)
"""One complete event; category, name and arguments are filled in once, the rest on writing."""

Sequence: TypeAlias = Literal["none", "forward", "backward", "python"]


@dataclass(frozen=True, slots=True)
class DeviceWork:
    """A kernel, copy or fill; `template` takes pid, tid, times, external id and correlation."""

    template: str
    stream: int
    typical_ns: int


@dataclass(frozen=True, slots=True)
class Call:
    """A CUDA call on the host, with the device work that it launches, if any."""

    template: str
    typical_ns: int
    work: DeviceWork | None = None
    waits: bool = False


@dataclass(frozen=True, slots=True)
class Op:
    """A host operator or range; `flow` says that a forward-backward arrow leaves or enters it."""

    name: str
    template: str
    typical_ns: int
    sequence: Sequence
    flow: bool
    children: tuple[Op | Call, ...]


Node: TypeAlias = Op | Call


@dataclass(frozen=True, slots=True)
class Value:
    """One operator input as the profiler writes it: its type, its shape, its concrete text."""

    type: str
    shape: tuple[int, ...] = ()
    concrete: str = ""

    @property
    def strides(self) -> tuple[int, ...]:
        """The strides of a contiguous tensor of this shape."""
        strides: list[int] = []
        step = 1
        for size in reversed(self.shape):
            strides.insert(0, step)
            step *= size
        return tuple(strides)


def half(*shape: int) -> Value:
    """Give a bfloat16 tensor."""
    return Value("c10::BFloat16", shape)


def full(*shape: int) -> Value:
    """Give a float32 tensor."""
    return Value("float", shape)


def scalar(text: str) -> Value:
    """Give a number or option."""
    return Value("Scalar" if text else "", (), text)


def input_arguments(inputs: tuple[Value, ...]) -> str:
    """Give the four argument lists that describe the inputs of an operator."""
    return (
        f'"Concrete Inputs": {json.dumps([value.concrete for value in inputs])}, '
        f'"Input type": {json.dumps([value.type for value in inputs])}, '
        f'"Input Strides": {json.dumps([value.strides for value in inputs])}, '
        f'"Input Dims": {json.dumps([value.shape for value in inputs])}, '
    )


def op(
    name: str,
    *children: Node,
    inputs: tuple[Value, ...] = (half(ROWS, WIDTH),),
    sequence: Sequence = "none",
    flow: bool = False,
) -> Op:
    """Give a `cpu_op` that records its input shapes."""
    numbered = {
        "none": '"External id": %d,"Record function id": 0, ',
        "forward": '"External id": %d,"Sequence number": %d, "Fwd thread id": 0, '
        '"Record function id": 0, ',
        "backward": '"External id": %d,"Sequence number": %d, "Fwd thread id": 1, '
        '"Record function id": 0, ',
    }[sequence]
    arguments = numbered + input_arguments(inputs).replace("%", "%%") + '"Ev Idx": %d'
    return Op(name, EVENT % ("cpu_op", name, arguments), 900, sequence, flow, children)


def forward(name: str, *children: Node, inputs: tuple[Value, ...] = (half(ROWS, WIDTH),)) -> Op:
    """Give a forward operator that autograd numbers and that a backward operator answers."""
    return op(name, *children, inputs=inputs, sequence="forward", flow=True)


def annotation(name: str, *children: Node, inputs: tuple[Value, ...] = ()) -> Op:
    """Give a `user_annotation` around its children."""
    shapes = input_arguments(inputs) if inputs else ""
    arguments = f'"External id": %d,"Record function id": 0, {shapes}"Ev Idx": %d'
    return Op(name, EVENT % ("user_annotation", name, arguments), 2500, "none", False, children)


def frame(name: str, *children: Node) -> Op:
    """Give a Python frame, which `without_frames` takes away again."""
    arguments = '"Python id": %d, "Python parent id": %s, "Ev Idx": %d'
    return Op(name, EVENT % ("python_function", name, arguments), 600, "python", False, children)


def module(name: str, where: str, *children: Node) -> Op:
    """Give the Python frames of one module call."""
    look_ups = 4 * (frame("torch/nn/modules/module.py(1940): __getattr__"),)
    built_in = frame(f"<built-in method {name.split('_', maxsplit=1)[0].lower()}>", *children)
    body = frame(f"torch/nn/modules/{where}: forward", *look_ups, built_in)
    inner = frame("torch/nn/modules/module.py(1784): _call_impl", body)
    outer = frame("torch/nn/modules/module.py(1773): _wrapped_call_impl", inner)
    return frame(f"nn.Module: {name}", outer)


def without_frames(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """Give the same trees with every Python frame replaced by its children."""
    kept: list[Node] = []
    for node in nodes:
        if isinstance(node, Call):
            kept.append(node)
            continue
        children = without_frames(node.children)
        if node.sequence == "python":
            kept.extend(children)
            continue
        kept.append(
            Op(node.name, node.template, node.typical_ns, node.sequence, node.flow, children)
        )
    return tuple(kept)


def call(name: str, cbid: int, typical_ns: int, work: DeviceWork | None = None) -> Call:
    """Give a CUDA runtime or driver call, the category being read from its name."""
    category = "cuda_driver" if name.startswith("cuLaunch") else "cuda_runtime"
    arguments = f'"External id": %d,      "cbid": {cbid}, "correlation": %d'
    waits = name.endswith("Synchronize")
    return Call(EVENT % (category, name, arguments), typical_ns, work, waits)


def kernel(name: str, typical_ns: int, grid: tuple[int, int, int], extra: str = "") -> Call:
    """Give the launch of a kernel, its resources being derived from its grid."""
    matmul = name.startswith(("nvjet", "cudnn_generated", "nccl"))
    threads, registers, shared_bytes = (384, 168, 213188) if matmul else (128, 32, 0)
    blocks = grid[0] * grid[1] * grid[2] / 132
    occupancy_percent = 0 if matmul else min(100, round(blocks * threads / 20.48))
    stream = COMM_STREAM if name.startswith("nccl") else COMPUTE_STREAM
    arguments = (
        '"External id": %d,      "queued": 0, "device": DEVICE, "context": 1,'
        f'      "stream": {stream}, "correlation": %d,'
        f'      "registers per thread": {registers},      "shared memory": {shared_bytes},'
        f'      "blocks per SM": {blocks:.6f},      "warps per SM": {blocks * threads / 32:.6f},'
        f'      "grid": {json.dumps(grid)},      "block": [{threads}, 1, 1],'
        f'      "est. achieved occupancy %%": {occupancy_percent}{extra}'
    )
    work = DeviceWork(EVENT % ("kernel", name, arguments), stream, typical_ns)
    if matmul:
        return call("cuLaunchKernelEx", 652, 6500, work)
    return call("cudaLaunchKernel", 211, 4200, work)


def transfer(name: str, category: str, size_bytes: int, typical_ns: int) -> Call:
    """Give a copy or fill on the compute stream."""
    rate_gb_s = size_bytes / typical_ns
    arguments = (
        '"External id": %d,      "device": DEVICE, "context": 1,'
        f'      "stream": {COMPUTE_STREAM}, "correlation": %d,'
        f'      "bytes": {size_bytes}, "memory bandwidth (GB/s)": {rate_gb_s!r}'
    )
    work = DeviceWork(EVENT % (category, name, arguments), COMPUTE_STREAM, typical_ns)
    if category == "gpu_memset":
        return call("cudaMemsetAsync", 51, 5100, work)
    return call("cudaMemcpyAsync", 41, 7800, work)


def vectorized(functor: str, pointers: int, typical_ns: int) -> Call:
    """Give the launch of one of PyTorch's vectorised elementwise kernels."""
    array = f"std::array<char*, {pointers}ul>"
    parameters = f"at::native::{functor}, {array}"
    name = f"void at::native::vectorized_elementwise_kernel<4, {parameters} >(int, {parameters})"
    return kernel(name, typical_ns, (ROWS, 1, 1))


def cast_kernel(typical_ns: int) -> Call:
    """Give the launch of the kernel that changes a tensor's type."""
    copier = (
        "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()()"
        " const::{lambda()#12}::operator()() const::{lambda(c10::BFloat16)#1}"
    )
    parts = (
        f"{copier}, std::array<char*, 2ul>, TrivialOffsetCalculator<1, unsigned int>,"
        " TrivialOffsetCalculator<1, unsigned int>, at::native::memory::LoadWithCast<1>,"
        " at::native::memory::StoreWithCast<1>"
    )
    per_thread = parts.replace("ul>,", "ul>, 4,", 1)
    name = f"void at::native::unrolled_elementwise_kernel<{per_thread} >(int, {parts})"
    return kernel(name, typical_ns, (ROWS * 2, 1, 1))


def reduction(typical_ns: int) -> Call:
    """Give the launch of the kernel that sums a bias gradient."""
    functor = (
        "at::native::ReduceOp<c10::BFloat16, at::native::func_wrapper_t<c10::BFloat16,"
        " at::native::sum_functor<c10::BFloat16, float, c10::BFloat16>::operator()"
        "(at::TensorIterator&)::{lambda(float, float)#1}>, unsigned int, c10::BFloat16, 4, 8>"
    )
    return kernel(
        f"void at::native::reduce_kernel<128, 4, {functor} >({functor})", typical_ns, (32, 16, 1)
    )


def matmul(tile: str, typical_ns: int) -> tuple[Call, Call]:
    """Give the workspace fill and the kernel of a matrix product."""
    name = f"nvjet_sm90_tst_{tile}_v_bz_coopA_NTN"
    fill = transfer("Memset (Device)", "gpu_memset", 128, 1100)
    return fill, kernel(name, typical_ns, (2, 64, 1))


def norm_kernel(name: str, typical_ns: int) -> Call:
    """Give the launch of a layer norm kernel."""
    arguments = ", ".join(["float const*"] * 5)
    return kernel(
        f"void at::native::(anonymous namespace)::{name}<float, float, false>"
        f"(int, float, {arguments}, float*)",
        typical_ns,
        (ROWS, 1, 1),
    )


def cast_parts(source: Value) -> tuple[tuple[Value, ...], tuple[Op, Op]]:
    """Give the inputs of an automatic cast and the allocation and copy inside it."""
    options = (source, *map(scalar, ("15", "0", "cuda:0", "", "False", "False", "")))
    sizes = (Value("ScalarList", (), "[]"), *map(scalar, ("[]", "15", "0", "cuda:0", "")))
    copy = op("aten::copy_", cast_kernel(9000), inputs=(source, source, scalar("False")))
    return options, (op("aten::empty_strided", inputs=sizes), copy)


def cast(source: Value) -> Op:
    """Give the four operators of one automatic cast."""
    options, parts = cast_parts(source)
    return op("aten::to", op("aten::_to_copy", *parts, inputs=options), inputs=options)


def weight_cast(source: Value) -> Op:
    """Give the cast of a parameter, which the backward pass answers."""
    options, parts = cast_parts(source)
    return op("aten::to", forward("aten::_to_copy", *parts, inputs=options), inputs=options)


def view(name: str = "aten::view") -> Op:
    """Give a view of the activations."""
    return op(name, inputs=(half(8, 512, WIDTH), Value("ScalarList", (), f"[{ROWS}, {WIDTH}]")))


def reshape() -> Op:
    """Give a reshape that is a view."""
    size = Value("ScalarList", (), f"[8, 512, {WIDTH}]")
    return op("aten::reshape", view(), inputs=(half(ROWS, WIDTH), size))


def transposed(rows: int, columns: int) -> Op:
    """Give the three operators that turn a weight around."""
    weight = half(rows, columns)
    strided = op("aten::as_strided", inputs=(weight, *map(scalar, ("[1024, 1024]", "[1, 1]", ""))))
    turn = op("aten::transpose", strided, inputs=(weight, scalar("0"), scalar("1")))
    return op("aten::t", turn, inputs=(weight,))


def allocation(name: str = "aten::empty") -> Op:
    """Give the allocation of an output."""
    inputs = map(scalar, (f"[8, 512, {WIDTH}]", "15", "0", "cuda:0", "False", ""))
    return op(name, inputs=tuple(inputs))


def linear(rows: int, columns: int, typical_ns: int) -> Op:
    """Give a linear layer under automatic casts."""
    weight, bias = full(rows, columns), full(rows)
    operands = (half(rows), half(ROWS, columns), half(columns, rows), scalar("1"), scalar("1"))
    product = forward("aten::addmm", *matmul("128x256_64x4_2x1", typical_ns), inputs=operands)
    turned = transposed(rows, columns)
    call_inputs = (half(8, 512, columns), weight, bias)
    casts = (weight_cast(weight), weight_cast(bias))
    body = op("aten::linear", *casts, view(), turned, product, view(), inputs=call_inputs)
    return module(f"Linear_{rows}", "linear.py(134)", body)


def layer_norm() -> Op:
    """Give a layer norm."""
    inputs = (full(8, 512, WIDTH), Value("ScalarList", (), f"[{WIDTH}]"), full(WIDTH), full(WIDTH))
    normalised = forward(
        "aten::native_layer_norm",
        *(allocation() for _ in range(3)),
        norm_kernel("vectorized_layer_norm_kernel", 15000),
        view(),
        view(),
        inputs=(*inputs, scalar("1e-05")),
    )
    outer = op("aten::layer_norm", normalised, inputs=(*inputs, scalar("1e-05"), scalar("True")))
    return module("LayerNorm_0", "normalization.py(229)", outer)


def attention() -> Op:
    """Give fused attention with the views around it."""
    heads = tuple(half(8, HEADS, 512, WIDTH // HEADS) for _ in range(3))
    options = tuple(map(scalar, ("", "True", "0.", "True", "False", "")))
    flash = kernel(
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64_4x1x1"
        "_cga1x1x1_kernel0_0",
        43000,
        (4, HEADS, 8),
    )
    inner = op(
        "aten::_cudnn_attention_forward",
        *(allocation(name) for name in ("aten::empty", "aten::empty_like", "aten::empty")),
        call("cudaStreamIsCapturing", 317, 700),
        flash,
        inputs=heads + options,
    )
    fused = forward("aten::_scaled_dot_product_cudnn_attention", inner, inputs=heads + options)
    outer = op("aten::scaled_dot_product_attention", fused, inputs=heads + options)
    return frame("<built-in function scaled_dot_product_attention>", outer)


def elementwise(name: str, functor: str, typical_ns: int) -> Op:
    """Give a forward elementwise operator."""
    activation = half(8, 512, WIDTH)
    work = vectorized(functor, 3, typical_ns)
    return forward(name, work, inputs=(activation, activation, scalar("1")))
