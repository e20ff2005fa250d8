"""Every shape of ids, lanes, rows and processes gives the figures of the plain file."""

from __future__ import annotations

import json

import pytest
from shapes import PLAIN, assert_plain, each, figures, steps
from traces import Kineto, plain

# --- ids and lanes


def _ids(convert):
    def change(event):
        if "correlation" in event.get("args", {}):
            event["args"]["correlation"] = convert(event["args"]["correlation"])

    return change


ID_SPELLINGS = {
    "text": str,
    "hex": hex,
    "33 bits": lambda number: number + (1 << 32),
    "54 bits": lambda number: number + (1 << 53) + 1,
    "63 bits": lambda number: number + (1 << 62),
    "float": float,
}


@pytest.mark.parametrize(
    ("spelling", "mixed"),
    [
        *((spelling, False) for spelling in [*ID_SPELLINGS][:-1]),
        *((spelling, True) for spelling in [*ID_SPELLINGS][:-2]),
        *(
            pytest.param(
                *case,
            )
            for case in (("63 bits", True), ("float", False), ("float", True))
        ),
    ],
)
def test_correlation_ids_of_any_kind_join_launch_and_kernel(tmp_path, spelling, mixed):
    kineto = each(plain(), _ids(ID_SPELLINGS[spelling]))
    if mixed:
        kineto.event("cuda_runtime", "cudaDeviceSynchronize", 2, 1)
        kineto.events.insert(1, kineto.events.pop())
    assert_plain(tmp_path, kineto.text())


def test_pid_and_tid_may_be_text(tmp_path):
    def change(event):
        event["pid"], event["tid"] = f"pid {event['pid']}", f"thread {event['tid']}"

    assert_plain(tmp_path, each(plain(), change).text())


@pytest.mark.parametrize("convert", [str, hex, lambda n: None, lambda n: 4294967295 - n])
def test_streams_may_be_text_or_missing(tmp_path, convert):
    def change(event):
        if event["cat"] == "kernel":
            event["args"]["stream"] = convert(event["args"]["stream"])

    assert_plain(tmp_path, each(plain(), change).text())


def test_events_of_other_kinds_are_ignored(tmp_path):
    kineto = plain()
    kineto.events += [
        {"ph": "M", "name": "process_name", "pid": "Spans", "tid": 0, "args": {"name": "Spans"}},
        {"ph": "M", "name": "process_sort_index", "pid": "", "args": {"sort_index": 5}},
        {"ph": "M", "name": "thread_name", "pid": 0, "tid": 7, "args": {"name": "stream 7"}},
        {"ph": "i", "s": "g", "name": "Iteration Start", "pid": "Traces", "tid": "x", "ts": 0},
        {"ph": "s", "id": 3, "cat": "ac2g", "name": "ac2g", "pid": 1, "tid": 1, "ts": 1},
        {"ph": "f", "id": 3, "bp": "e", "cat": "ac2g", "name": "ac2g", "pid": 0, "ts": 1},
        {"ph": "C", "name": "memory", "pid": 1, "ts": 1, "args": {"bytes": 3}},
        {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "P"}
        | {"ts": 0, "dur": 1000},
    ]
    assert_plain(tmp_path, kineto.text())


CAPITALS = {
    "kernel": "Kernel",
    "cuda_runtime": "Runtime",
    "cpu_op": "Operator",
    "user_annotation": "User_Annotation",
}


@pytest.mark.parametrize("chosen", [*CAPITALS, "all"])
def test_categories_in_capitals_are_the_same(tmp_path, chosen):
    names = CAPITALS if chosen == "all" else {chosen: CAPITALS[chosen]}
    kineto = plain().event("cpu_op", "aten::mm", 10, 1)
    assert_plain(
        tmp_path, each(kineto, lambda e: e.update(cat=names.get(e["cat"], e["cat"]))).text()
    )


@pytest.mark.parametrize("cat", ["cuda_driver", "Driver", "hip_runtime"])
def test_calls_of_every_library_launch(tmp_path, cat):
    def change(event):
        if event["cat"] == "cuda_runtime":
            event.update(cat=cat, name="cuLaunchKernelEx")

    assert_plain(tmp_path, each(plain(), change).text())


def test_a_mark_filed_as_an_operator_is_a_mark(tmp_path):
    kineto = plain()
    kineto.events[0]["cat"] = "Operator"
    assert_plain(tmp_path, kineto.text())


def test_marks_on_gpu_and_python_lanes_are_not_marks_again(tmp_path):
    kineto = plain()
    kineto.event("gpu_user_annotation", "ProfilerStep#5", 100, 760, pid=0, tid=7)
    kineto.event("python_function", "ProfilerStep#5", 0, 1000)
    kineto.event("cpu_op", "ProfilerStep#5", 1, 3)
    assert_plain(tmp_path, kineto.text())


def test_annotations_and_synchronisations_on_the_gpu_are_no_work(tmp_path):
    kineto = plain()
    kineto.event("gpu_user_annotation", "nccl:all_reduce", 450, 150, pid=0, tid=28)
    kineto.event("gpu_user_annotation", "forward", 0, 5000, pid=0, tid=7)
    kineto.event("cuda_sync", "Stream Wait Event", 0, 3000, pid=0, tid=7, stream=7, correlation=99)
    kineto.event("cuda_sync", "Context Synchronize", 700, 200, pid=0, tid=7, device=0)
    kineto.event("overhead", "CUPTI resource initialisation", 0, 3000, pid=-1, tid=0)
    assert_plain(tmp_path, kineto.text())


def test_launches_on_another_thread_belong_to_the_step(tmp_path):
    def change(event):
        if event["cat"] == "cuda_runtime":
            event["tid"] = 77

    assert_plain(tmp_path, each(plain(), change).text())


def test_the_earliest_call_of_an_id_is_the_launch(tmp_path):
    """Step 5's kernel has a second call with its id inside step 6; its launch is the first."""
    kineto = Kineto().step(5, 0, 100).step(6, 100, 200).gpu(120, 150, launch=50)
    kineto.event("cuda_driver", "cuLaunchKernel", 110, 2, correlation=1)
    kineto.events.reverse()
    rows = steps(tmp_path, kineto.text())
    assert [(row.step, row.compute_ns) for row in rows] == [(5, 30_000)]


def test_numbers_of_marks_that_come_again_are_replaced_by_their_order(tmp_path):
    kineto = Kineto().step(0, 0, 300).step(0, 300, 600).gpu(100, 200).gpu(400, 500)
    rows = steps(tmp_path, kineto.text())
    assert [(row.step, row.compute_ns) for row in rows] == [(0, 100_000), (1, 100_000)]


# --- what a row of the GPU is


def one_kernel(tmp_path, name, cat="kernel", **args):
    """Read a step with one compute kernel of 100 µs and, beside it, one of 50 µs to classify."""
    kineto = Kineto(world_size=1).step(5, 0, 1000).gpu(100, 200)
    kineto.gpu(300, 350, name=name, cat=cat, stream=9, **args)
    (row,) = steps(tmp_path, kineto.text())
    return {
        "compute": row.compute_ns - 100_000,
        "comm": row.comm_ns,
        "mem": row.mem_ns,
    }


@pytest.mark.parametrize(
    "name",
    [
        "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)",
        "ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)",
        "ncclSymkDevKernel_AllReduce_RSxLD_AGxST_sum_f32(ncclSymkDevWorkArgs)",
        "ncclSymDevKernel_AllGather_LL(ncclSymDevArgs)",
        "ncclAllReduceRingLLKernel_sum_f32(ncclColl)",
        "void ncclKernel_AllReduce<float>(ncclWork*)",
        "NCCLDEVKERNEL_ALLREDUCE",
        "rcclGenericKernel<1, false>(ncclDevComm*)",
        "mscclKernel_Sum_float_LL_false",
    ],
)
def test_kernels_of_collective_libraries_are_comm(tmp_path, name):
    assert one_kernel(tmp_path, name) == {"compute": 0, "comm": 50_000, "mem": 0}


@pytest.mark.parametrize(
    "name",
    [
        "my_nccl_like_gemm(float*)",
        "void at::native::nccl_free_elementwise<float>(int)",
        "triton_poi_fused_nccl_0",
        "void gemm<ncclTag>(float*)",
        "_Z14gemm_with_ncclPf",
    ],
)
def test_a_compute_kernel_with_nccl_inside_its_name_is_compute(tmp_path, name):
    assert one_kernel(tmp_path, name) == {"compute": 50_000, "comm": 0, "mem": 0}


def test_what_carries_collective_metadata_is_comm(tmp_path):
    told = {"Collective name": "allreduce", "In msg nelems": 4}
    assert one_kernel(tmp_path, "custom_kernel", **told)["comm"] == 50_000


@pytest.mark.parametrize("cat", ["gpu_memcpy", "gpu_memset", "Memcpy", "Memset", "memcpy"])
def test_copies_and_sets_are_mem(tmp_path, cat):
    got = one_kernel(tmp_path, "Memcpy DtoH (Device -> Pinned)", cat=cat)
    assert got == {"compute": 0, "comm": 0, "mem": 50_000}


@pytest.mark.parametrize("which", [(), (0,), (1,), (0, 1)])
def test_collective_metadata_on_none_some_and_all_kernels_gives_the_same_figures(tmp_path, which):
    kineto = plain()
    comm = [e for e in kineto.events if e["name"].startswith("nccl")]
    for place in which:
        comm[place]["args"] |= {"Collective name": "allreduce", "In msg nelems": 9}
        comm[place]["name"] = "ncclDevKernel_Generic(ncclDevKernelArgs)"
    assert_plain(tmp_path, kineto.text())


# --- several processes in one file


def merged(*ranks, label="RANK {}"):
    whole = Kineto(rank=None)
    for rank in ranks:
        part = each(plain(rank), lambda e, pid=5000 + rank: e.update(pid=pid))
        name = {"ph": "M", "name": "process_name", "pid": 5000 + rank, "tid": 0, "ts": 0}
        whole.events += [name | {"args": {"name": label.format(rank)}}, *part.events]
    return whole


@pytest.mark.parametrize("label", ["RANK {}", "rank {}", "Rank: {}", "[rank{}] python"])
def test_ranks_merged_into_one_file_are_read_apart(tmp_path, label):
    rows = steps(tmp_path, merged(0, 1, 2, label=label).text(), "merged.json")
    assert [row.rank for row in rows] == [0, 1, 2]
    assert [figures(row) for row in rows] == [PLAIN] * 3


def test_processes_without_a_rank_in_their_label_are_refused(tmp_path):
    with pytest.raises(Exception, match="2 processes"):
        steps(tmp_path, merged(0, 1, label="python").text(), "merged.json")


def test_host_processes_without_a_rank_in_their_label_are_refused(tmp_path):
    kineto = Kineto(rank=None)
    for pid in (1, 2):
        kineto.event("cpu_op", "aten::mm", 0, 100, pid=pid, tid=pid)
        kineto.event("user_annotation", "gloo:all_reduce", 100, 50, pid=pid, tid=pid)
    with pytest.raises(Exception, match="2 processes"):
        steps(tmp_path, kineto.text(), "merged.json")


def test_several_gpus_of_one_process_are_one_rank(tmp_path):
    """GPU 0 computes [100, 300), GPU 1 [200, 500): one rank is busy for 400 µs."""
    kineto = Kineto(world_size=1).step(5, 0, 1000).gpu(100, 300, device=0).gpu(200, 500, device=1)
    kineto.events[-1]["pid"] = 1
    (row,) = steps(tmp_path, kineto.text())
    assert row.compute_ns == 400_000


@pytest.mark.parametrize(
    "header",
    [
        {"distributedInfo": [1]},
        {"distributedInfo": {"rank": "0", "world_size": "2"}},
        {"distributedInfo": {"rank": None}},
        {"distributedInfo": {"rank": -1, "world_size": 0}},
        {"baseTimeNanoseconds": "x"},
        {"baseTimeNanoseconds": None},
        {"baseTimeNanoseconds": 1.7e18},
        {"baseTimeNanoseconds": 10**25},
    ],
    ids=json.dumps,
)
def test_a_header_of_unexpected_types_costs_no_figure(tmp_path, header):
    kineto = plain()
    kineto.header |= header
    assert_plain(tmp_path, kineto.text())
