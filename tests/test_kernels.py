"""What an operation is, from its name."""

import pytest

from ddptrace import kernels
from ddptrace.errors import UsageError


@pytest.mark.parametrize(
    "name",
    [
        "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclDevKernel_Generic(ncclDevComm*, channelMasks, ncclWork*)",
        "ncclSymkDevKernel_AllReduce_AGxLL_R_Sum_f32",
        "void ncclKernel_AllReduce<float>(int)",
        "NCCLDEVKERNEL_BROADCAST",
        "rcclDevKernel_AllReduce",
        "mscclKernel_Sum_float_Simple_false",
        "_Z21ncclDevKernel_Generic24ncclDevKernelArgsStorage",
    ],
)
def test_every_spelling_of_the_libraries_is_communication(name):
    assert kernels.is_comm_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "my_nccl_free_gemm",
        "void at::native::vectorized_nccl_kernel<4>(int)",
        "fused_ncclDevKernel_like",
        "gemm_rccl",
        "",
    ],
)
def test_a_compute_kernel_with_the_word_inside_its_name_is_not(name):
    assert not kernels.is_comm_name(name)


@pytest.mark.parametrize(
    ("name", "likely"),
    [
        ("void sglang::cross_device_reduce_1stage<__nv_bfloat16, 8>(int)", True),
        ("custom_all_reduce_kernel", True),
        ("void softmax<AllReduceBlock>(float*)", False),
        ("ampere_sgemm_128x64_tn", False),
    ],
)
def test_likely_collectives_are_told_by_the_function_and_not_its_arguments(name, likely):
    assert kernels.is_likely_comm(name) is likely


@pytest.mark.parametrize(
    ("name", "launches"),
    [
        ("cudaLaunchKernel", True),
        ("cudaLaunchKernelExC", True),
        ("cuLaunchKernelEx", True),
        ("hipExtModuleLaunchKernel", True),
        ("cudaGraphLaunch", True),
        ("cudaLaunchHostFunc", False),
        ("cudaStreamSynchronize", False),
    ],
)
def test_calls_that_put_work_on_the_gpu(name, launches):
    assert kernels.is_launch_call(name) is launches


@pytest.mark.parametrize(
    ("name", "told", "operation"),
    [
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", None, "all_reduce"),
        ("ncclDevKernel_Generic(x)", "allreduce", "all_reduce"),
        ("ncclDevKernel_Generic(x)", "_allgather_base", "all_gather"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(x)", None, "reduce_scatter"),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(x)", None, "send_recv"),
        ("ncclDevKernel_Generic(x)", "send", "send"),
        ("ncclDevKernel_Generic(x)", None, None),
    ],
)
def test_the_operation_comes_from_the_metadata_then_the_name(name, told, operation):
    assert kernels.collective_operation(name, told) == operation


def test_a_bad_expression_is_refused_in_one_sentence():
    with pytest.raises(UsageError, match="not a regular expression"):
        kernels.comm_patterns(["fine", "("])


def test_expressions_stand_beside_each_other_with_flags_of_their_own():
    patterns = kernels.comm_patterns(["(?i)allreduce", "(?P<a>gather)", "(?P<a>scatter)"])
    assert [bool(pattern.search("my_AllReduce")) for pattern in patterns] == [True, False, False]


def test_one_expression_needs_no_list():
    assert [pattern.pattern for pattern in kernels.comm_patterns("gemm")] == ["gemm"]


@pytest.mark.parametrize("expression", ["", "x*"])
def test_an_expression_that_matches_every_name_is_refused(expression):
    with pytest.raises(UsageError, match="every kernel"):
        kernels.comm_patterns([expression])


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("ProfilerStep#12", 12),
        ("ProfilerStep #3", 3),
        ("## ProfilerStep#1", None),
        ("step 4", None),
    ],
)
def test_step_numbers(name, number):
    assert kernels.step_number(name) == number


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("ncclDevKernel_AllReduce_Sum_u32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", True),
        ("ncclDevKernel_AllReduce_Sum_i8_TREE_LL(ncclDevKernelArgsStorage<4096ul>)", True),
        ("ncclKernel_AllReduce_RING_LL_Sum_uint8_t(ncclDevComm*, unsigned long)", True),
        ("ncclKernel_AllReduce_RING_LL_Sum_int(ncclColl)", True),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", False),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(unsigned int)", False),
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, uint64_t)", False),
        ("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", False),
    ],
)
def test_kernels_on_whole_numbers_are_known_by_their_names(name, answer):
    assert kernels.works_on_integers(name) is answer


@pytest.mark.parametrize(
    ("dtype", "answer"),
    [("Int", True), ("Byte", True), ("UInt8", True), ("Long", True), ("Float", False),
     ("BFloat16", False), ("Half", False), ("ComplexFloat", False)],
)  # fmt: skip
def test_types_of_whole_numbers_are_those_of_no_gradient(dtype, answer):
    assert kernels.is_integer_type(dtype) is answer


@pytest.mark.parametrize(
    ("name", "blocks"),
    [
        ("cudaStreamSynchronize", True),
        ("cudaDeviceSynchronize_v3020", True),
        ("cudaEventSynchronize", True),
        ("cuCtxSynchronize", True),
        ("hipStreamSynchronize", True),
        ("cudaMemcpy", True),
        ("cuMemcpyDtoH_v2", True),
        ("cudaFree", True),
        ("cuMemFree_v2", True),
        ("cudaMemcpyAsync", False),
        ("cudaMemcpy2DAsync_v3020", False),
        ("cudaFreeAsync", False),
        ("cudaMemsetAsync", False),
        ("cudaEventQuery", False),
        ("cudaStreamWaitEvent", False),
        ("cudaLaunchKernel", False),
    ],
)
def test_calls_that_return_only_when_the_gpu_is_done(name, blocks):
    assert kernels.is_sync_call(name) is blocks


@pytest.mark.parametrize(
    ("name", "loads"),
    [
        ("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", True),
        ("[pl][profile][_TrainingEpochLoop].train_dataloader_next", True),
        ("_SingleProcessDataLoaderIter._next_data", True),
        ("DistributedDataParallel.forward", False),
        ("aten::item", False),
    ],
)
def test_ranges_of_data_loaders(name, loads):
    assert kernels.is_loader(name) is loads
