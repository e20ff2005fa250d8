"""The experiment on buckets: its arithmetic, its page, and a small run of two ranks on the CPU."""

import importlib
import json
import os
import subprocess
import sys
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pytest

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


def rank(**changes):
    """State what one rank measured: two steps of 30 and 50 ms."""
    times = ("backward_compute_time", "backward_comm_time", "backward_compute_comm_overlap_time")
    calls = [
        {"stamp_ns": 1_000_000, "bucket": 0, "bytes": 2**22, "last": False},
        {"stamp_ns": 2_500_000, "bucket": 1, "bytes": 2**22, "last": True},
    ]
    return {
        "block_ns": 90_000_000,
        "step_ns": [30_000_000, 50_000_000],
        "backward_gpu_ns": [20_000_000, 40_000_000],
        "backward_host_ns": [2_000_000, 6_000_000],
        "optimizer_host_ns": [100_000, 300_000],
        "ddp_logger": {
            "rebuilt": True,
            "bucket_bytes": [2**22, 2**22],
            "mean_ns": dict.fromkeys(times, 7_000_000),
            "last_ns": dict.fromkeys(times, 8_000_000),
        },
        "hook_steps": [calls],
        "recorded": {
            "steps": 3,
            "comm_count": 6,
            "spin_count": 7,
            "comm_ns": 12_000_000,
            "compute_ns": 30_000_000,
            "hidden_ns": 4_000_000,
            "exposed_ns": 8_000_000,
        },
        "replica_equal": True,
        "gradient_errors": [0.0, 2e-7],
    } | changes


def row(*ranks, **changes):
    return {
        "name": "2x4-cap4",
        "branches": 2,
        "branch_bytes": 2**22,
        "cap_bytes": 2**22,
        "spin_cycles": 10_000_000,
        "skips": "never",
        "ranks": list(ranks),
    } | changes


def undetected(*errors, usable=True):
    ranks = [{"error": error, "group_usable": usable} for error in errors]
    return row(*ranks, name="undetected-unused", skips="always")


def result(*rows):
    return {
        "ddptrace_experiment": 1,
        "hardware": {
            "device": "NVIDIA X",
            "devices": 2,
            "nodes": 1,
            "ranks": 2,
            "backend": "nccl",
            "link": "by string",
            "nccl_settings": {"NCCL_ALGO": "Ring"},
            "versions": {"PyTorch": "9.9", "NCCL": "2.28.9"},
        },
        "settings": {"steps": 2, "warm_up_steps": 11, "recorded_steps": 3, "batch_size": 32},
        "configurations": list(rows),
    }


def cells(page, name):
    """Return the rows of all tables that belong to `name`, by their headings."""
    found, header = [], []
    for line in page.splitlines():
        words = line.strip("| ").split(" | ")
        if words[0] == "configuration":
            header = words
        elif line.startswith("| ") and words[0] == name:
            found.append(dict(zip(header, words, strict=True)))
    return found


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


def command(*words, **environment):
    plain = {name: text for name, text in os.environ.items() if name != "RANK"}
    return subprocess.run(
        [sys.executable, *map(str, words)],
        capture_output=True,
        text=True,
        env=plain | environment,
        timeout=300,
        check=False,
    )


def test_tables_of_several_machines_are_written_without_torch(tmp_path):
    first, second = result(row(rank())), result(row(rank()))
    second["hardware"]["device"] = "NVIDIA Y"
    for name, saved in (("a.json", first), ("b.json", second)):
        (tmp_path / name).write_text(json.dumps(saved))
    (tmp_path / "torch.py").write_text("raise SystemExit('torch was imported')")
    pages = []
    for _ in range(2):
        markdown = tmp_path / "docs" / "experiments.md"
        done = command(
            COMMAND, "--tables", tmp_path / "a.json", tmp_path / "b.json", "--markdown", markdown,
            PYTHONPATH=str(tmp_path),
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        assert markdown.read_text(encoding="utf-8") == done.stdout
        pages.append(done.stdout)
    assert pages[0] == pages[1]
    assert pages[0].index("× NVIDIA X") < pages[0].index("× NVIDIA Y")


def test_what_cannot_run_is_refused_with_a_sentence(tmp_path):
    alone = command(COMMAND, "--output", tmp_path)
    assert alone.returncode == 2
    assert "start it with torchrun --nproc-per-node" in alone.stderr
    (tmp_path / "other.json").write_text("{}")
    other = command(COMMAND, "--tables", tmp_path / "other.json")
    assert other.returncode == 1
    assert other.stderr.endswith("other.json: not a results.json of this experiment\n")


# Two ranks on the CPU


@pytest.fixture(scope="module")
def small_run(tmp_path_factory):
    """Run the rows that differ in kind, with branches of 16 and 64 KiB."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("experiment")
    done = command(
        "-m", "torch.distributed.run", "--nproc-per-node", 2, "--standalone", COMMAND,
        "--output", folder / "out", "--markdown", folder / "page.md", "--device", "cpu",
        "--configurations", "48x1-cap16", "12x4-cap*-spin", "static-graph", "*-unused",
        "--shrink", 64, "--steps", 3, "--spin-cycles", 2_000_000,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    saved = json.loads((folder / "out" / "results.json").read_text())
    return saved, (folder / "page.md").read_text(encoding="utf-8"), done


@pytest.fixture
def small_rows(small_run):
    return {row["name"]: row for row in small_run[0]["configurations"]}


@pytest.mark.torch
def test_the_cap_decides_how_many_buckets_are_active(small_rows):
    def counts(name):
        ranks = small_rows[name]["ranks"]
        hook = {len(calls) for rank in ranks for calls in rank["hook_steps"]}
        return hook, {len(rank["ddp_logger"]["bucket_bytes"]) for rank in ranks}

    assert counts("12x4-cap4-spin") == ({12}, {12})
    assert counts("12x4-cap16-spin") == ({3}, {3})
    assert counts("12x4-cap64-spin") == ({1}, {1})
    assert counts("48x1-cap16") == ({3}, {3})


@pytest.mark.torch
def test_the_hook_sees_every_byte_once_and_one_last_bucket(small_rows):
    for rank_ in small_rows["12x4-cap16-spin"]["ranks"]:
        for calls in rank_["hook_steps"]:
            assert [call["bucket"] for call in calls] == [0, 1, 2]
            assert sum(call["bytes"] for call in calls) == 48 * 2**20 // 64
            assert [call["last"] for call in calls] == [False, False, True]
            stamps = [call["stamp_ns"] for call in calls]
            # Four branches spin before each bucket, 1 ms each.
            assert stamps[0] >= 4_000_000
            assert all(b - a >= 4_000_000 for a, b in pairwise(stamps))


@pytest.mark.torch
def test_one_bucket_can_hide_nothing_and_twelve_can(small_rows):
    def recorded(name):
        return [rank["recorded"] for rank in small_rows[name]["ranks"]]

    for one, twelve in zip(recorded("12x4-cap64-spin"), recorded("12x4-cap4-spin"), strict=True):
        assert (one["comm_count"], twelve["comm_count"]) == (3, 36)
        assert one["spin_count"] == twelve["spin_count"] == 36
        # Of what twelve buckets transfer most is hidden; the one starts when all spins are over.
        assert twelve["hidden_ns"] > one["hidden_ns"]
        assert one["compute_ns"] >= 36 * 1_000_000


@pytest.mark.torch
def test_times_are_of_every_step_and_of_both_ranks(small_rows):
    for rank_ in small_rows["12x4-cap4-spin"]["ranks"]:
        assert rank_["backward_gpu_ns"] is None
        for name in ("step_ns", "backward_host_ns", "optimizer_host_ns"):
            assert len(rank_[name]) == 3
        steps = zip(
            rank_["step_ns"], rank_["backward_host_ns"], rank_["optimizer_host_ns"], strict=True
        )
        assert all(step >= backward + optimizer for step, backward, optimizer in steps)
        assert min(rank_["backward_host_ns"]) >= 12_000_000
        assert rank_["block_ns"] >= sum(rank_["step_ns"])


@pytest.mark.torch
def test_replicas_and_gradients_are_right_and_the_undetected_one_fails(small_run, small_rows):
    assert len(small_rows["undetected-unused"]["ranks"]) == 2
    page = small_run[1]
    for name in small_rows.keys() - {"undetected-unused"}:
        line = cells(page, name)[-1]
        assert line["replicas"] == "equal"
        assert line["gradients"].startswith("right")
    outcome = cells(page, "undetected-unused")[-1]["outcome"]
    assert outcome.startswith("failed as PyTorch documents: “Expected to have finished reduction")


@pytest.mark.torch
def test_dynamic_unused_keeps_its_buckets_and_reduces_what_was_used(small_run, small_rows):
    line = cells(small_run[1], "dynamic-unused")[0]
    assert line["buckets: hook / DDP"] == "12 / 12 (as built)"
    assert cells(small_run[1], "static-graph")[0]["buckets: hook / DDP"] == "12 / 12"
    counts = {rank["recorded"]["comm_count"] for rank in small_rows["dynamic-unused"]["ranks"]}
    assert counts == {3 * 13}


@pytest.mark.torch
def test_the_page_is_that_of_the_saved_results(small_run, tables):
    saved, page, done = small_run
    assert tables.page([saved]) == page == done.stdout
    assert "Ranks: 2, backend gloo" in page


# The checks can fail


@pytest.fixture
def torch(module):
    return pytest.importorskip("torch")


@pytest.fixture
def job(torch, module):
    """Return a job of two branches around a model that may change them."""
    branches = module("branches")
    size = module("configurations").Configuration("tiny", 2, 64, 64, spin_cycles=2)

    class Alone(torch.nn.Module):
        factor = 1

        def __init__(self):
            super().__init__()
            self.module = branches.Branches(size)

        def forward(self, inputs, skipped):
            return self.factor * self.module(inputs, skipped)

    model = Alone()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return branches.Job(size, model, optimizer, torch.ones(2, 4))


@pytest.fixture
def place(torch, module, monkeypatch):
    """Return a place of one rank, whose collectives change nothing."""
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda tensor: None)
    return module("branches").Place(0, 1, torch.device("cpu"), None)


@pytest.mark.torch
@pytest.mark.parametrize(("factor", "error"), [(1, 0.0), (2, 3.0)])  # the loss is a square
def test_gradients_that_are_not_the_mean_have_an_error(module, job, place, factor, error):
    job.model.factor = factor
    assert module("checks").gradient_error(job, place, 0) == pytest.approx(error)
    assert job.model.module.spin_cycles == 2


@pytest.mark.torch
@pytest.mark.parametrize("factor", [float("nan"), float("inf")])
def test_an_error_that_is_not_finite_is_none(module, job, place, factor):
    job.model.factor = factor
    assert module("checks").gradient_error(job, place, 0) is None


@pytest.mark.torch
def test_a_replica_with_other_bits_is_not_equal(torch, module, job, monkeypatch):
    checks = module("checks")
    monkeypatch.setattr(torch.distributed, "broadcast", lambda tensor, source: None)
    assert checks.replica_equal(job)
    monkeypatch.setattr(
        torch.distributed, "broadcast", lambda tensor, source: tensor.view(-1)[0].add_(1e-6)
    )
    assert not checks.replica_equal(job)


# What only a GPU does


class FakePlace:
    """Write down what is waited for."""

    def __init__(self, device, said):
        self.device, self.said = device, said

    def meet(self):
        self.said.append("meet")

    def synchronize(self):
        self.said.append("synchronize")


@pytest.mark.torch
def test_nothing_but_the_recorded_steps_is_on_the_gpu_while_it_is_recorded(torch, module):
    said = []

    class Saying:
        def __init__(self, word):
            self.step = lambda number="": said.append(f"{word}{number}")

    place = FakePlace(torch.device("cuda"), said)
    module("measure")._record(Saying("step "), place, Saying("profiler"), 40)
    assert said == [
        *("step 40", "meet", "profiler", "meet"),
        *("step 41", "profiler", "step 42", "profiler"),
        *("step 43", "synchronize", "profiler"),
    ]


@pytest.mark.torch
def test_gpu_times_come_from_events_alone_and_host_times_from_the_host(torch, module, monkeypatch):
    """The GPU's clock here ticks once an event; the host's is the real one."""
    ticks = iter(range(100))

    class Event:
        def __init__(self, *, enable_timing):
            assert enable_timing

        def record(self):
            self.tick = next(ticks)

        def elapsed_time(self, end):
            return float(end.tick - self.tick)

    class Job:
        loss = staticmethod(lambda number: torch.ones((), requires_grad=True))
        optimizer = torch.optim.SGD([torch.ones(1)])

    monkeypatch.setattr(torch.cuda, "Event", Event)
    said = []
    times = module("measure").timed_steps(Job, FakePlace(torch.device("cuda"), said), 0, 2)
    assert said == ["meet", "synchronize"]
    # A step has five events after the one it begins with: around backward, around the optimizer,
    # and its end.
    assert times["step_ns"] == [5_000_000, 5_000_000]
    assert times["backward_gpu_ns"] == [1_000_000, 1_000_000]
    assert len(times["backward_host_ns"]) == len(times["optimizer_host_ns"]) == 2
    assert sum(times["backward_host_ns"]) < times["block_ns"]
    assert times["block_ns"] not in (sum(times["step_ns"]), 0)


def test_the_page_is_what_the_kept_results_say(tmp_path):
    project = Path(__file__).parent.parent
    kept = [project / "docs/experiments" / name for name in ("two_h200", "one_h200_four_ranks")]
    page = tmp_path / "page.md"
    command = [sys.executable, project / "capture/experiments/buckets.py", "--tables"]
    command += [f"{path}.json" for path in kept] + ["--markdown", page]
    subprocess.run([str(word) for word in command], check=True, capture_output=True)
    assert page.read_text() == (project / "docs/experiments.md").read_text()
