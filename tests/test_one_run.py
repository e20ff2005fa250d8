"""Which recordings are of one run: missing ranks, two windows, two runs."""

from __future__ import annotations

import pytest
from folders import DAY_US, codes, pair, refused, window
from traces import Kineto, plain

from ddptrace import analyze, load_run

# --- missing ranks and world size


def test_missing_ranks_are_said(tmp_path):
    for rank in (0, 2):
        plain(rank, world_size=4).write(tmp_path / f"{rank}.json")
    run = load_run(tmp_path)
    assert (run.ranks, list(run.missing_ranks), run.world_size) == ([0, 2], [1, 3], 4)
    (said,) = [warning.message for warning in run.warnings if warning.code == "missing_ranks"]
    assert "1, 3" in said


def test_chosen_ranks_are_kept_and_the_others_not_said_to_be_missing(tmp_path):
    run = load_run(pair(tmp_path), ranks=[1])
    assert run.ranks == [1]
    assert "missing_ranks" not in codes(run)


def test_a_chosen_rank_that_is_not_there_is_refused(tmp_path):
    assert "0-1" in refused(pair(tmp_path), ranks=[9])


def test_no_chosen_rank_is_refused_for_that_reason(tmp_path):
    assert "rank" in refused(pair(tmp_path), ranks=[])


def test_a_rank_beyond_the_world_size_is_refused(tmp_path):
    plain(3, world_size=2).write(tmp_path / "a.json")
    assert "world size 2" in refused(tmp_path)


def test_an_unreadable_file_of_a_rank_that_was_not_chosen_does_not_matter(tmp_path):
    (pair(tmp_path) / "rank1.json").write_text("")
    assert load_run(tmp_path, ranks=[0]).unreadable == ()
    assert load_run(tmp_path).unreadable != ()


def test_a_rank_without_gpu_work_beside_ranks_with_it_is_unreadable(tmp_path):
    plain(0).write(tmp_path / "rank0.json")
    host = Kineto(rank=1).step(5, 0, 1000).event("cpu_op", "aten::mm", 10, 500)
    host.header["distributedInfo"]["backend"] = "gloo"
    host.write(tmp_path / "rank1.json")
    run = load_run(tmp_path)
    assert (run.ranks, list(run.missing_ranks)) == ([0], [1])
    assert "no GPU work was recorded" in run.unreadable[0]


# --- two windows and two runs


def two_windows(folder, **options):
    for rank in (0, 1):
        for step, at_us in ((5, 0), (9, 5000)):
            window(rank, step, at_us, **options).write(folder / f"r{rank}_s{step}.json")


def test_two_windows_of_each_rank_are_one_run(tmp_path):
    two_windows(tmp_path)
    rows = analyze(load_run(tmp_path)).steps
    assert [(row.rank, row.step) for row in rows] == [(0, 5), (0, 9), (1, 5), (1, 9)]


def test_before_and_correlation_ids_never_cross_files(tmp_path):
    """
    Both files use the same correlation ids. Each window begins at its own mark: were "before" to
    cross files, step 9 would begin where step 5 ended, at 350 µs.
    """
    two_windows(tmp_path)
    rows = analyze(load_run(tmp_path)).steps
    got = [(row.step_ns, row.compute_ns, row.comm_ns, row.hidden_comm_ns) for row in rows]
    assert got == [(350_000, 200_000, 100_000, 50_000)] * 4


def test_a_launch_in_one_file_is_not_the_launch_of_anothers_kernel(tmp_path):
    """The second file's kernel has no call of its own, so it is no step's own work."""
    window(0, 5, 0).write(tmp_path / "a.json")
    second = window(0, 9, 5000)
    second.event("kernel", "gemm", 5400, 50, pid=0, tid=7, stream=7, device=0, correlation=99)
    second.write(tmp_path / "b.json")
    first = window(0, 5, 0).event("cuda_runtime", "cudaLaunchKernel", 20, 2, correlation=99)
    first.write(tmp_path / "a.json")
    rows = analyze(load_run(tmp_path)).steps
    assert [(row.step, row.compute_kernels) for row in rows] == [(5, 1), (9, 1)]


def test_the_same_rank_twice_is_refused_with_both_names(tmp_path):
    plain(0).write(tmp_path / "a.json")
    plain(0).write(tmp_path / "b.json")
    text = refused(tmp_path)
    assert all(word in text for word in ("a.json", "b.json", "rank 0", "rank 1"))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (window(0, 5, 0), window(0, 9, 200)),
        (window(0, 5, 0), window(0, 5, 5000)),
        (window(0, 5, 0, pid=1), window(0, 9, 5000, pid=2)),
        (window(0, 5, 0, base_ns=None), window(0, 9, 5000, base_ns=None)),
    ],
    ids=["overlap in time", "same step", "other process", "no common clock"],
)
def test_what_cannot_be_two_windows_of_one_rank_is_refused(tmp_path, first, second):
    first.write(tmp_path / "a.json")
    second.write(tmp_path / "b.json")
    text = refused(tmp_path)
    assert "a.json" in text
    assert "b.json" in text


@pytest.mark.parametrize(
    "old",
    [
        window(1, 5, 0, world_size=4),
        window(1, 9, DAY_US),
        window(0, 5, DAY_US, pid=9),
        window(0, 5, 0, pid=9),
    ],
    ids=["world size", "a day apart with other steps", "same rank later", "same rank"],
)
@pytest.mark.parametrize("name", ["old.json", "old/rank.json"])
def test_two_runs_in_one_folder_are_refused(tmp_path, old, name):
    window(0, 5, 0).write(tmp_path / "new" / "rank0.json")
    old.write(tmp_path / name)
    assert "rank0.json" in refused(tmp_path)


def test_two_runs_in_folders_of_their_own_are_named(tmp_path):
    for run in ("monday", "tuesday"):
        for rank in (0, 1):
            window(rank, 5, DAY_US * (run == "tuesday")).write(tmp_path / run / f"{rank}.json")
    assert "monday, tuesday" in refused(tmp_path)
    assert load_run(tmp_path / "monday").ranks == [0, 1]


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_clock_that_is_wrong_by_any_amount_changes_no_figure(tmp_path, sign):
    """The other rank's clock may be a day off: the ranks are whole and hold the same steps."""
    rows = {}
    for by_us in (0, sign * 720_000_000, sign * DAY_US):
        for rank in (0, 1):
            window(rank, 5, by_us * rank).write(tmp_path / str(by_us) / f"rank{rank}.json")
        run = load_run(tmp_path / str(by_us))
        assert ("ranks_apart_in_time" in codes(run)) == (by_us != 0)
        rows[by_us] = [
            (row.comm_ns, row.exposed_wait_ns, row.compute_ns) for row in analyze(run).steps
        ]
    assert rows[0] == rows[sign * 720_000_000] == rows[sign * DAY_US]
    (said,) = [w.message for w in run.all_warnings if w.code == "ranks_apart_in_time"]
    assert "24.0 hours apart: they may be of different runs" in said
    assert load_run(tmp_path / str(by_us), ranks=[0, 1]).ranks == [0, 1]


@pytest.mark.parametrize("world_size", [3, None], ids=["a rank is missing", "no world size"])
def test_far_apart_in_time_without_better_evidence_is_refused(tmp_path, world_size):
    for rank in (0, 1):
        kineto = window(rank, 5, DAY_US * rank)
        kineto.header["distributedInfo"]["world_size"] = world_size
        if world_size is None:
            del kineto.header["distributedInfo"]
        kineto.write(tmp_path / f"rank{rank}.json")
    why = "rank 2 is missing" if world_size else "no file tells the world size"
    assert why in refused(tmp_path)
