"""The made-up training step of a transformer under DDP, as trees of operators and launches."""

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


def block_forward(index: int) -> tuple[Node, ...]:
    """Give the forward operators of one transformer block."""
    add = "CUDAFunctor_add<float>"
    split = op("aten::unbind", *(view("aten::select") for _ in range(3)))
    body = (
        layer_norm(),
        linear(3 * WIDTH, WIDTH, 38000),
        view("aten::permute"),
        split,
        attention(),
        reshape(),
        linear(WIDTH, WIDTH, 16000),
        elementwise("aten::add", add, 14000),
        layer_norm(),
        linear(4 * WIDTH, WIDTH, 52000),
        elementwise("aten::gelu", "GeluCUDAKernelImpl(at::TensorIteratorBase&)", 21000),
        linear(WIDTH, 4 * WIDTH, 55000),
        elementwise("aten::add", add, 14000),
    )
    return (module(f"Block_{index}", "container.py(250)", *body),)


def evaluated(name: str, *children: Node, inputs: tuple[Value, ...] = (half(ROWS, WIDTH),)) -> Op:
    """Give a backward function inside the autograd engine's range for it."""
    node = op(name, *children, inputs=inputs, sequence="backward", flow=True)
    label = f"autograd::engine::evaluate_function: {name}"
    arguments = (
        '"External id": %d,"Record function id": 0, "Sequence number": %d, '
        '"Fwd thread id": 1, "Ev Idx": %d'
    )
    return Op(label, EVENT % ("cpu_op", label, arguments), 1800, "backward", False, (node,))


def engine_range(name: str, *children: Node) -> Op:
    """Give the autograd engine's range for a function without a sequence number."""
    label = f"autograd::engine::evaluate_function: {name}"
    arguments = '"External id": %d,"Record function id": 0, "Ev Idx": %d'
    return Op(label, EVENT % ("cpu_op", label, arguments), 1800, "none", False, children)


def quiet(name: str, *children: Node) -> Op:
    """Give a backward function that answers no recorded forward operator."""
    return engine_range(name, op(name, *children))


def accumulated(*shape: int) -> Op:
    """Give the accumulation of a gradient and DDP's copy of it into a bucket."""
    gradient = full(*shape)
    functor = "AUnaryFunctor<float, float, float, binary_internal::MulFunctor<float> >"
    inputs = (gradient, scalar(""), gradient)
    scaled = op("aten::mul", vectorized(functor, 2, 6300), inputs=inputs)
    bucket = op("torch::distributed::reducer::mul_out", scaled, inputs=inputs)
    detached = op("aten::detach", op("detach", inputs=(gradient,)), inputs=(gradient,))
    name = "torch::autograd::AccumulateGrad"
    return engine_range(name, op(name, detached, inputs=(gradient,)), bucket)


def cast_back(*shape: int) -> tuple[Op, Op]:
    """Give the cast of a gradient back to float32 and its accumulation."""
    cast_gradient = cast(half(*shape))
    return evaluated("ToCopyBackward0", cast_gradient, inputs=(half(*shape),)), accumulated(*shape)


def linear_backward(rows: int, columns: int, typical_ns: int) -> tuple[Node, ...]:
    """Give the backward functions of a linear layer."""
    gradient = half(ROWS, rows)
    by_input = (gradient, half(rows, columns))
    by_weight = (gradient, half(ROWS, columns))
    product = evaluated(
        "AddmmBackward0",
        transposed(columns, rows),
        op("aten::mm", *matmul("256x128_64x4_1x2", typical_ns), inputs=by_input),
        transposed(ROWS, rows),
        op("aten::mm", *matmul("64x128_64x8_2x1", typical_ns), inputs=by_weight),
        transposed(rows, columns),
        op("aten::sum", reduction(11000), inputs=(gradient, scalar("[0]"), scalar("True"))),
        view(),
        inputs=(gradient,),
    )
    turned = quiet("TBackward0", transposed(rows, columns))
    flat = quiet("ViewBackward0", reshape())
    return flat, product, turned, *cast_back(rows, columns), flat, *cast_back(rows)


def norm_backward() -> tuple[Node, ...]:
    """Give the backward functions of a layer norm."""
    activation = full(8, 512, WIDTH)
    inner = op(
        "aten::native_layer_norm_backward",
        *(allocation("aten::empty_like") for _ in range(3)),
        norm_kernel("layer_norm_grad_input_kernel_vectorized", 26000),
        norm_kernel("GammaBetaBackwardCUDAKernelTemplate", 19000),
        inputs=(activation, activation, scalar("[1024]"), full(8, 512, 1), full(WIDTH)),
    )
    node = evaluated("NativeLayerNormBackward0", inner, inputs=(activation,))
    return node, accumulated(WIDTH), accumulated(WIDTH)


def elementwise_backward(name: str, operator: str, functor: str) -> Op:
    """Give the backward function of an elementwise operator."""
    return evaluated(name, op(operator, vectorized(functor, 3, 17000)))


def attention_backward() -> tuple[Node, ...]:
    """Give the backward functions of attention and the views around it."""
    flash = kernel(
        "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_26_64x64x64_1x4x1"
        "_cga1x1x1_kernel0_0",
        98000,
        (132, 1, 1),
    )
    pointers = ", ".join(["void const*"] * 9 + ["unsigned int"] * 14 + ["float"] + ["int"] * 9)
    dot = kernel(
        f"void cudnn::fusion::compute_dot_do_o_specialized<true, 64>({pointers})",
        18000,
        (32, HEADS, 8),
    )
    heads = tuple(half(8, HEADS, 512, WIDTH // HEADS) for _ in range(6))
    inner = op("aten::_cudnn_attention_backward", allocation(), dot, flash, inputs=heads)
    fused = op("aten::_scaled_dot_product_cudnn_attention_backward", inner, inputs=heads)
    stacked = op("aten::stack", op("aten::cat", vectorized("CatArrayBatchedCopy<float>", 4, 33000)))
    return (
        quiet("TransposeBackward0", view("aten::transpose")),
        evaluated("ScaledDotProductCudnnAttentionBackward0", fused, inputs=heads[:1]),
        quiet("UnbindBackward0", stacked),
        quiet("PermuteBackward0", view("aten::permute")),
    )


def collective_arguments(elements: int, world_size: int) -> str:
    """Give the collective's metadata as the profiler adds it to the NCCL kernel."""
    ranks = list(range(world_size))
    return (
        f', "Collective name": "allreduce", "In msg nelems": {elements},'
        f' "Out msg nelems": {elements}, "Group size": {world_size}, "dtype": "Float",'
        ' "In split size": "[]", "Out split size": "[]", "Process Group Name": "0",'
        f' "Process Group Description": "default_pg", "Process Group Ranks": "{ranks}"'
    )


def all_reduce(elements: int, rank: int, world_size: int) -> Op:
    """Give DDP's reduction of one bucket."""
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    metadata = collective_arguments(elements, world_size)
    launch = (
        call("cudaEventRecordWithFlags", 370, 2100),
        call("cudaStreamWaitEvent", 147, 2000),
        call("cudaStreamIsCapturing", 317, 700),
        call("cudaGetFuncBySymbol", 336, 1900),
        kernel(name, elements // 20, (24, 1, 1), metadata),
        call("cudaEventRecord", 135, 2000),
    )
    shapes = (full(elements),)
    options = map(scalar, ("", "", "0", "", "[]", "[]", "0", "1", str(world_size)))
    inputs = (full(elements), *options)
    arguments = (
        f'"External id": %d,"Record function id": 0{metadata}, "Rank": {rank},'
        f' "Global rank start": 0, "Global rank stride": 1, {input_arguments(inputs)}"Ev Idx": %d'
    )
    ranged = annotation("nccl:all_reduce", *launch, inputs=shapes)
    label = "record_param_comms"
    recorded = Op(label, EVENT % ("cpu_op", label, arguments), 2600, "none", False, (ranged,))
    return op("c10d::allreduce_", recorded, inputs=inputs)


def block_backward(rank: int, world_size: int) -> tuple[Node, ...]:
    """Give the backward functions of one block with its two buckets."""
    add = ("aten::add_", "CUDAFunctor_add<float>")
    gelu = ("aten::gelu_backward", "GeluBackwardCUDAKernelImpl(at::TensorIteratorBase&)")
    return (
        elementwise_backward("AddBackward0", *add),
        *linear_backward(WIDTH, 4 * WIDTH, 57000),
        elementwise_backward("GeluBackward0", *gelu),
        *linear_backward(4 * WIDTH, WIDTH, 54000),
        all_reduce(8 * WIDTH * WIDTH + 5 * WIDTH, rank, world_size),
        *norm_backward(),
        elementwise_backward("AddBackward0", *add),
        *linear_backward(WIDTH, WIDTH, 17000),
        *attention_backward(),
        *linear_backward(3 * WIDTH, WIDTH, 40000),
        *norm_backward(),
        all_reduce(4 * WIDTH * WIDTH + 8 * WIDTH, rank, world_size),
    )


def batch_copy() -> Op:
    """Give the copy of a batch to the device."""
    size_bytes = ROWS * 8
    copy = transfer("Memcpy HtoD (Pinned -> Device)", "gpu_memcpy", size_bytes, 2900)
    options = (Value("long int", (8, 512)), *map(scalar, ("", "", "cuda:0", "", "True", "")))
    inner = op("aten::_to_copy", op("aten::copy_", copy), inputs=options)
    return op("aten::to", inner, inputs=options)


def zero_grad() -> Op:
    """Give the optimizer's clearing of gradients, to None."""
    clear = annotation("Optimizer.zero_grad#AdamW.zero_grad")
    return frame("torch/optim/optimizer.py(1004): zero_grad", clear)


def embedding() -> Op:
    """Give the token embedding."""
    name = (
        "void at::native::vectorized_gather_kernel<16, long>"
        "(char*, char*, long*, int, long, long, long, long, bool)"
    )
    inputs = (full(VOCABULARY, WIDTH), Value("long int", (8, 512)), scalar("-1"), scalar("False"))
    picked = op("aten::index_select", allocation(), kernel(name, 20000, (ROWS, 1, 1)))
    lookup = forward("aten::embedding", picked, inputs=inputs)
    return module("Embedding_0", "sparse.py(192)", lookup)


def model_forward(layers: int) -> Op:
    """Give the whole forward pass under DDP's annotation."""
    blocks = [node for index in range(layers) for node in block_forward(index)]
    head = linear(VOCABULARY, WIDTH, 410000)
    body = annotation("DistributedDataParallel.forward", embedding(), *blocks, layer_norm(), head)
    return frame("torch/nn/parallel/distributed.py(1648): forward", body)


def loss() -> Op:
    """Give the loss."""
    logits = full(ROWS, VOCABULARY)
    inputs = (logits, Value("long int", (ROWS,)), full(), scalar("1"), scalar("-100"), scalar("0."))
    space = "at::native::(anonymous namespace)::"
    name = (
        f"void {space}cunn_SoftMaxForwardGmem<4, float, float, float, "
        f"{space}LogSoftMaxForwardEpilogue, long>(float*, float const*, long)"
    )
    picked = forward("aten::nll_loss", kernel(name, 240000, (ROWS, 1, 1)), inputs=inputs)
    return op("aten::cross_entropy_loss", picked, inputs=inputs)


def model_backward(layers: int, rank: int, world_size: int) -> tuple[Node, ...]:
    """Give everything that the autograd thread does in one step."""
    backward = vectorized("nll_loss_backward_functor<float>", 3, 260000)
    blocks = [node for _ in range(layers) for node in block_backward(rank, world_size)]
    return (
        evaluated("NllLossBackward0", op("aten::nll_loss_backward", backward)),
        *linear_backward(VOCABULARY, WIDTH, 420000),
        all_reduce(VOCABULARY * WIDTH, rank, world_size),
        *norm_backward(),
        *blocks,
        evaluated("EmbeddingBackward0", op("aten::embedding_dense_backward", backward)),
        accumulated(VOCABULARY, WIDTH),
        all_reduce(VOCABULARY * WIDTH, rank, world_size),
    )


def parameter_frames() -> tuple[Op, ...]:
    """Give the Python frames that the optimizer spends on one parameter."""
    append = frame("<built-in method append of list object>")
    return frame("torch/_tensor.py(1035): __hash__"), append, append, append, append


def optimizer_step(layers: int) -> Op:
    """Give the fused optimizer, one multi-tensor kernel for every block."""
    space = "at::native::(anonymous namespace)::"
    metadata = f"{space}FusedOptimizerTensorListMetadata<4>"
    functor = f"{space}FusedAdamMathFunctor<float, 4, (at::native::ADAM_MODE)1, false>"
    parts = f"{metadata}, {functor}, float const*, double, double"
    launch = kernel(f"void {space}multi_tensor_apply_kernel<{parts}>({parts})", 61000, (320, 1, 1))
    tensors = tuple(Value("TensorList", (12, WIDTH, WIDTH)) for _ in range(5))
    inputs = (*tensors, *map(scalar, ("0.0003", "0.9", "0.95", "0.1")))
    update = op("aten::_fused_adamw_", *(layers + 1) * (launch,), inputs=inputs)
    group = frame("torch/optim/adam.py(146): _init_group", *12 * layers * parameter_frames())
    body = annotation("Optimizer.step#AdamW.step", group, update)
    return frame("torch/optim/optimizer.py(525): wrapper", body)


def loss_item() -> Op:
    """Give the reading of the loss, which waits for the device."""
    copy = transfer("Memcpy DtoH (Device -> Pageable)", "gpu_memcpy", 4, 1300)
    wait = call("cudaStreamSynchronize", 131, 3000)
    read = op("aten::_local_scalar_dense", copy, wait, inputs=(full(),))
    return op("aten::item", read, inputs=(full(),))


@dataclass(frozen=True, slots=True)
class Workload:
    """The trees of one training step: main thread before and after the backward pass, and it."""

    before: tuple[Node, ...]
    backward: tuple[Node, ...]
    after: tuple[Node, ...]


def training_step(layers: int, rank: int, world_size: int, *, stacks: bool) -> Workload:
    """Give one step of a transformer with this many blocks."""
    before: tuple[Node, ...] = (batch_copy(), zero_grad(), model_forward(layers), loss())
    after: tuple[Node, ...] = (optimizer_step(layers), loss_item())
    if not stacks:
        before, after = without_frames(before), without_frames(after)
    return Workload(before, model_backward(layers, rank, world_size), after)
