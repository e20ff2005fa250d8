"""The experiment on buckets: its command, and a small run of two ranks on the CPU."""

import importlib
import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from experiment import cells, rank, result, row

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
    assert other.stderr.endswith(
        "other.json: not a results.json of this experiment, nor of its recordings\n"
    )


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
