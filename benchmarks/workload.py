"""The made-up training step of a transformer under DDP, as trees of operators and launches."""

from __future__ import annotations

from dataclasses import dataclass

from operators import (
    EVENT,
    HEADS,
    ROWS,
    VOCABULARY,
    WIDTH,
    Node,
    Op,
    Value,
    allocation,
    annotation,
    attention,
    call,
    cast,
    elementwise,
    forward,
    frame,
    full,
    half,
    input_arguments,
    kernel,
    layer_norm,
    linear,
    matmul,
    module,
    norm_kernel,
    op,
    reduction,
    reshape,
    scalar,
    transfer,
    transposed,
    vectorized,
    view,
    without_frames,
)


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
