"""The experiment on buckets: its arithmetic, its rows and its page; nothing here needs torch."""

import importlib
from decimal import Decimal
from pathlib import Path

import pytest
from experiment import cells, rank, result, row, undetected

FOLDER = Path(__file__).parents[1] / "capture" / "experiments"
COMMAND = FOLDER / "buckets.py"


@pytest.fixture
def module(monkeypatch):
    """Import files of the experiment as it does itself: from its own folder."""
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


@pytest.fixture
def overlap(module):
    return module("overlap")


@pytest.fixture
def tables(module):
    return module("tables")


def kernel(name, start_us, end_us, cat="kernel"):
    return {"ph": "X", "cat": cat, "name": name, "ts": start_us, "dur": end_us - start_us}


# Overlap


@pytest.mark.parametrize(
    ("given", "merged"),
    [
        ([], []),
        ([(5, 5)], []),
        ([(4, 6), (0, 2)], [(0, 2), (4, 6)]),
        ([(0, 2), (2, 4)], [(0, 4)]),
        ([(0, 9), (1, 2), (8, 10)], [(0, 10)]),
    ],
)
def test_a_union_is_disjoint_and_rising(overlap, given, merged):
    assert overlap.union(given) == merged


@pytest.mark.parametrize(
    ("left", "right", "shared"),
    [
        ([(0, 5)], [(5, 9)], []),
        ([(0, 5)], [(4, 9)], [(4, 5)]),
        ([(0, 9)], [(1, 2), (3, 4)], [(1, 2), (3, 4)]),
        ([(0, 2), (3, 8)], [(1, 4), (6, 7)], [(1, 2), (3, 4), (6, 7)]),
    ],
)
def test_an_intersection_holds_what_both_hold(overlap, left, right, shared):
    assert overlap.intersection(left, right) == shared
    assert overlap.intersection(right, left) == shared


def test_hidden_and_exposed_are_parts_of_a_union_of_kernels(overlap):
    """
    spin     ####......
    compute  ..###.....
    comm     ...####...
    comm     ....####..
    """
    events = [
        kernel("at::cuda::(anonymous namespace)::spin_kernel(long)", 0, 4),
        kernel("gemm", 2, 5),
        kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)", 3, 7),
        kernel("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", 4, 8),
    ]
    assert overlap.overlap_figures(events, on_gpu=True) == {
        "comm_count": 2,
        "spin_count": 1,
        "comm_ns": 5000,
        "compute_ns": 5000,
        "hidden_ns": 2000,
        "exposed_ns": 3000,
    }


def test_only_kernels_count_and_nccl_has_to_begin_the_name(overlap):
    events = [
        kernel("ncclDevKernel_AllReduce", 0, 4, cat="gpu_user_annotation"),
        kernel("Memcpy DtoD", 0, 9, cat="gpu_memcpy"),
        kernel("void my_nccl_like_kernel()", 0, 3),
        {"ph": "M", "cat": "kernel", "name": "ncclDevKernel"},
    ]
    figures = overlap.overlap_figures(events, on_gpu=True)
    assert (figures["comm_count"], figures["compute_ns"]) == (0, 3000)


def test_without_a_gpu_gloo_communicates_and_other_operators_compute(overlap):
    events = [
        kernel("gloo:all_reduce", 4, 9, cat="user_annotation"),
        kernel("gloo:barrier", 0, 99, cat="user_annotation"),
        kernel("c10d::allreduce_", 0, 50, cat="cpu_op"),
        kernel("SpinBackward", 0, 5, cat="cpu_op"),
        kernel("aten::mm", 5, 6, cat="cpu_op"),
        kernel("ProfilerStep#3", 0, 99, cat="user_annotation"),
    ]
    figures = overlap.overlap_figures(events, on_gpu=False)
    assert (figures["comm_count"], figures["spin_count"]) == (1, 1)
    assert (figures["comm_ns"], figures["compute_ns"], figures["hidden_ns"]) == (5000, 6000, 2000)


def test_microseconds_of_sixteen_digits_keep_their_nanoseconds(overlap):
    start = Decimal("1760000000000000.001")
    event = {"ph": "X", "cat": "kernel", "name": "nccl", "ts": start, "dur": Decimal("0.002")}
    assert overlap.overlap_figures([event], on_gpu=True)["comm_ns"] == 2


# The rows


def test_the_whole_matrix_has_its_rows_and_what_must_fail_comes_last(module):
    configurations = module("configurations")
    rows = configurations.all_configurations(10_000_000, 1)
    assert [row.name for row in rows] == [
        *(
            f"{shape}-cap{cap}{spin}"
            for shape in ("48x1", "12x4")
            for spin in ("", "-spin")
            for cap in (4, 16, 64)
        ),
        "static-graph",
        "dynamic-unused",
        "undetected-unused",
    ]
    assert {row.branches * row.branch_bytes for row in rows} == {48 * 2**20}
    assert {row.spin_cycles for row in rows if row.name.endswith("spin")} == {10_000_000}


def test_shrinking_keeps_the_number_of_buckets(module):
    rows = module("configurations").all_configurations(1, 16)
    ratios = {row.name: row.branches * row.branch_bytes / row.cap_bytes for row in rows}
    assert ratios["48x1-cap4"] == ratios["12x4-cap4"] == 12


def test_a_branch_is_left_out_as_the_row_says(module):
    rows = {row.name: row for row in module("configurations").all_configurations(1, 1)}
    skipped = {name: [row.skipped_branch(step) for step in range(3)] for name, row in rows.items()}
    assert skipped["static-graph"] == [None, None, None]
    assert skipped["dynamic-unused"] == [6, None, 6]
    assert skipped["undetected-unused"] == [6, 6, 6]


def test_rows_are_chosen_by_pattern_and_a_pattern_for_nothing_is_refused(module):
    configurations = module("configurations")
    rows = configurations.all_configurations(1, 1)
    names = [row.name for row in configurations.chosen(rows, ["static*", "12x4-cap4*"])]
    assert names == ["12x4-cap4", "12x4-cap4-spin", "static-graph"]
    with pytest.raises(ValueError, match="no configuration is named 13x4"):
        configurations.chosen(rows, ["12x4*", "13x4"])


# The page


def test_a_step_is_that_of_the_longest_rank_and_clocks_stand_side_by_side(tables):
    slower = rank(step_ns=[40_000_000, 20_000_000], block_ns=100_000_000)
    steps = cells(tables.page([result(row(rank(), slower))]), "2x4-cap4")[0]
    assert steps == {
        "configuration": "2x4-cap4",
        "parameters": "2 × 4 MiB",
        "cap": "4 MiB",
        "spin, cycles": "10,000,000",
        "buckets: hook / DDP": "2 / 2",
        "step median, ms": "45.00",
        "step P95, ms": "50.00",
        "host block, ms a step": "50.00",
        "backward GPU, ms": "30.00",
        "backward host, ms: median / least": "4.00 / 2.00",
        "optimizer host, ms: median / least": "0.20 / 0.10",
    }


def test_overlap_has_a_line_for_every_rank_with_ddps_own_beside_it(tables):
    silent = rank(recorded=rank()["recorded"] | dict.fromkeys(["comm_ns", "hidden_ns"], 0))
    page = tables.page([result(row(rank(), silent))])
    first, second = (line for line in cells(page, "2x4-cap4") if "hidden ÷ comm" in line)
    assert (first["rank"], second["rank"]) == ("0", "1")
    assert (first["comm kernels a step"], first["spin kernels a step"]) == ("2", "2.3")
    assert (first["compute, ms"], first["comm, ms"]) == ("10.00", "4.00")
    assert (first["hidden, ms"], first["exposed, ms"]) == ("1.33", "2.67")
    assert first["hidden ÷ comm"] == "33.3 %"
    assert first["DDP overlap, ms: mean / last"] == "7.00 / 8.00"
    assert second["hidden ÷ comm"] == "–"


def test_calls_of_the_hook_are_told_with_index_bytes_last_and_stamp(tables):
    calls = next(
        line for line in cells(tables.page([result(row(rank()))]), "2x4-cap4") if "last" in line
    )
    assert calls["bucket indices"] == "0–1"
    assert calls["bytes, in this order"] == "2 × 4 MiB"
    assert calls["last"] == "1"
    assert calls["called after the start of backward, host ms"] == "1.00 2.50"


def test_unequal_buckets_are_told_in_their_order(tables):
    assert tables.equal_runs([2**20, 2**22, 2**22, 1536]) == "1 × 1 MiB, 2 × 4 MiB, 1 × 1536 B"


def test_hardware_and_versions_are_named(tables):
    page = tables.page([result(row(rank()))])
    assert "## 2 × NVIDIA X, 2 ranks\n" in page
    for fact in ("- Link: by string", "PyTorch 9.9, NCCL 2.28.9", "`NCCL_ALGO=Ring`", "2 timed"):
        assert fact in page


def test_what_was_not_measured_is_a_dash(tables):
    without = rank(backward_gpu_ns=None)
    without["ddp_logger"]["last_ns"] = dict.fromkeys(without["ddp_logger"]["last_ns"])
    steps, overlap, *_ = cells(tables.page([result(row(without))]), "2x4-cap4")
    assert steps["backward GPU, ms"] == "–"
    assert overlap["DDP comm, ms: mean / last"] == "7.00 / –"


@pytest.mark.parametrize(
    ("values", "median", "p95"),
    [([3], 3, 3), ([4, 1, 2], 2, 4), (list(range(1, 21)), 10.5, 19), (list(range(100)), 49.5, 94)],
)
def test_p95_is_the_nearest_rank(tables, values, median, p95):
    assert (tables.median(values), tables.percentile(values, 95)) == (median, p95)


DOCUMENTED = "Expected to have finished reduction in the prior iteration before starting a new one."


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (row(rank(), rank(replica_equal=False)), "2x4-cap4: DIFFER on rank 1"),
        (row(rank(gradient_errors=[0.0, 0.5])), "2x4-cap4: WRONG, error 5.0e-01"),
        (row(rank(gradient_errors=[None, 0.0])), "2x4-cap4: WRONG, not finite"),
        (undetected(DOCUMENTED, None), "undetected-unused: DID NOT FAIL"),
        (undetected("out of\nmemory"), "undetected-unused: FAILED OTHERWISE: out of memory"),
        (
            undetected(DOCUMENTED, usable=False),
            "undetected-unused: failed as PyTorch documents, but BROKE THE PROCESS GROUP",
        ),
    ],
)
def test_everything_that_is_wrong_is_a_failure_and_on_the_page(tables, module, bad, said):
    results = result(row(rank(), name="fine"), bad, undetected(DOCUMENTED, DOCUMENTED))
    assert module("verdicts").failures(results) == [said]
    assert said.split(": ", 1)[1] in tables.page([results])


def test_what_is_right_is_no_failure(module):
    good = result(row(rank(), rank()), undetected(DOCUMENTED, DOCUMENTED))
    assert module("verdicts").failures(good) == []


# Recordings of rows, and of caps

SAVED = Path(__file__).parents[1] / "docs" / "experiments"
SAMPLES = Path(__file__).parents[1] / "sample_traces"
ON_THE_PAGE = (
    "four_h200",
    "four_h200_again",
    "two_h200",
    "one_h200_four_ranks",
    "four_h200_recordings",
    "four_h200_caps_nvlink",
    "four_h200_caps_shm",
    "four_h200_caps_tcp",
)


@pytest.fixture
def buckets(module):
    return module("buckets")


def saved(buckets, name):
    return buckets.saved(SAVED / f"{name}.json")


def test_the_page_is_what_the_saved_results_give(buckets):
    page = buckets.whole_page([saved(buckets, name) for name in ON_THE_PAGE])
    assert page == (SAVED.parent / "experiments.md").read_text(encoding="utf-8")


def test_the_figures_of_recordings_are_those_of_the_samples(module, tmp_path):
    folders = [
        str(SAMPLES / f"four-gpus-{name}") for name in ("cap4", "cap4-nsys", "cap64", "cap64-nsys")
    ]
    output = tmp_path / "figures.json"
    assert module("recordings").main(["--output", str(output), *folders]) == 0
    assert output.read_bytes() == (SAVED / "four_h200_recordings.json").read_bytes()


@pytest.mark.parametrize(
    ("name", "comm_kernels", "overlaps"),
    [("12x4-cap4-spin", 12, True), ("12x4-cap64-spin", 1, False)],
)
def test_on_every_rank_twelve_buckets_overlap_and_one_does_not(
    buckets, name, comm_kernels, overlaps
):
    recordings = [
        one for one in saved(buckets, "four_h200_recordings")["recordings"] if one["name"] == name
    ]
    assert {one["source"] for one in recordings} == {"torch.profiler", "Nsight Systems"}
    for one in recordings:
        assert [of_rank["rank"] for of_rank in one["ranks"]] == [0, 1, 2, 3]
        for of_rank in one["ranks"]:
            assert (of_rank["spin_kernels"], of_rank["comm_kernels"]) == (12, comm_kernels)
            assert (of_rank["hidden_comm_ns"] > 0) == overlaps


def test_a_cap_that_a_link_was_not_tried_with_is_a_dash(module):
    def link(words, **steps):
        found = [{"cap_mib": int(cap[1:]), "unprofiled_ns": ns} for cap, ns in steps.items()]
        return {"link": words, "recordings": found}

    page = module("recorded_tables").caps_section([link("A", c1=5e6, c25=6e6), link("B", c25=7e6)])
    assert "| cap, MiB | A, ms | B, ms |" in page
    assert "| 1 | 5.00 | – |" in page
    assert "| 25 | 6.00 | 7.00 |" in page


def test_a_second_run_on_the_same_machine_says_so(tables):
    page = tables.page([result(row(rank())), result(row(rank()))])
    assert "## 2 × NVIDIA X, 2 ranks\n" in page
    assert "## 2 × NVIDIA X, 2 ranks, run 2\n" in page


def test_a_file_of_something_else_is_refused(buckets, tmp_path):
    path = tmp_path / "other.json"
    path.write_text("{}")
    with pytest.raises(SystemExit, match="nor of its recordings"):
        buckets.saved(path)
