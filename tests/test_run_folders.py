"""Which files make a run, and which rank each of them is."""

from __future__ import annotations

import pytest
from folders import codes, manifest, pair, ranks_of_files, refused, unnamed
from traces import plain

from ddptrace import load_run

# --- whose rank


def test_the_file_itself_tells_before_manifest_and_name(tmp_path):
    plain(0).write(tmp_path / "rank1.json")
    plain(1).write(tmp_path / "rank0.json")
    manifest(tmp_path, {"rank1.json": 1, "rank0.json": 0})
    run = load_run(tmp_path)
    assert ranks_of_files(run) == {"rank1.json": 0, "rank0.json": 1}
    assert "rank_from_name" not in codes(run)


def test_the_manifest_tells_before_the_name(tmp_path):
    unnamed(1).write(tmp_path / "rank5.json")
    unnamed(2).write(tmp_path / "rank6.json")
    manifest(tmp_path, {"rank5.json": 1, "rank6.json": 0}, world_size=3)
    run = load_run(tmp_path)
    assert ranks_of_files(run) == {"rank5.json": 1, "rank6.json": 0}
    assert (run.world_size, list(run.missing_ranks)) == (3, [2])


def test_a_manifest_names_files_in_folders_below_it(tmp_path):
    unnamed(1).write(tmp_path / "a" / "t.json")
    unnamed(2).write(tmp_path / "b" / "t.json")
    manifest(tmp_path, {"a/t.json": 1, "b/t.json": 0})
    assert load_run(tmp_path).ranks == [0, 1]


def test_a_manifest_in_the_given_folder_counts_though_all_files_lie_below_it(tmp_path):
    unnamed(1).write(tmp_path / "traces" / "x.json")
    unnamed(2).write(tmp_path / "traces" / "y.json")
    manifest(tmp_path, {"traces/x.json": 1, "traces/y.json": 0})
    assert load_run(tmp_path).ranks == [0, 1]


@pytest.mark.parametrize("name", ["y.json", "x.json"])
def test_a_manifest_tells_the_rank_of_a_lone_file(tmp_path, name):
    unnamed().write(tmp_path / "x.json")
    unnamed().write(tmp_path / "y.json")
    manifest(tmp_path, {"x.json": 0, "y.json": 1})
    assert load_run(tmp_path / name).ranks == [{"x.json": 0, "y.json": 1}[name]]


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", "3", '{"ddptrace_manifest": 1}', '{"name": "web app"}', "\0\xff"]
)
def test_a_manifest_that_is_not_ours_changes_nothing(tmp_path, text):
    (pair(tmp_path) / "manifest.json").write_text(text)
    run = load_run(tmp_path)
    assert (run.ranks, run.world_size, run.unreadable) == ([0, 1], 2, ())


@pytest.mark.parametrize(
    "name",
    [
        "rank3.json",
        "rank_3.json",
        "rank-3.json.gz",
        "Rank3.JSON",
        "trace-rank-3.json",
        "trace.rank3.json",
        "step12_rank3.json",
        "rank03.json",
        "rank3_of_8.json",
        "worker3_step_12.123.pt.trace.json",
        "3_trace.json",
        "local_rank_0_rank3.json",
        "run_rank_3/host_1.2.pt.trace.json",
        "3/xyz.pt.trace.json",
        "rank3/local_rank0.json",
        "ranks8/rank3.json",
        "num_ranks_8/rank_3/t.json",
        pytest.param(
            "rank_3/2024/host_1.2.pt.trace.json",
        ),
    ],
)
def test_the_name_of_file_or_folder_tells_the_rank(tmp_path, name):
    unnamed(1).write(tmp_path / name)
    unnamed(2).write(tmp_path / "other" / "rank99.json")
    run = load_run(tmp_path)
    assert run.ranks == [3, 99]
    assert run.world_size is None
    assert {"rank_from_name", "world_size_unknown"} <= codes(run)


@pytest.mark.parametrize(
    "name",
    ["local_rank3.json", "localrank3.json", "LOCAL_RANK-3.json", "host_41.1735689600123.pt.json"],
)
def test_a_local_rank_or_a_process_id_is_no_rank(tmp_path, name):
    unnamed(1).write(tmp_path / name)
    unnamed(2).write(tmp_path / "rank99.json")
    assert name in refused(tmp_path)


@pytest.mark.parametrize("given", ["file", "folder", "list", "above"])
def test_the_folder_of_a_lone_file_tells_its_rank(tmp_path, given):
    path = unnamed().write(tmp_path / "rank_3" / "host_1.2.pt.trace.json")
    choices = {"file": path, "folder": path.parent, "list": [path], "above": tmp_path}
    assert load_run(choices[given]).ranks == [3]


def test_a_lone_file_without_rank_is_rank_0_with_a_warning(tmp_path):
    unnamed().write(tmp_path / "traces" / "trace.json")
    run = load_run(tmp_path / "traces")
    assert run.ranks == [0]
    assert {"rank_assumed", "world_size_unknown"} <= codes(run)


def test_several_files_without_rank_are_refused_with_how_to_name_them(tmp_path):
    unnamed(1).write(tmp_path / "a.json")
    unnamed(2).write(tmp_path / "b.json")
    text = refused(tmp_path)
    assert "a.json" in text
    assert "b.json" in text
    assert "rank0.json, rank1.json" in text


def test_one_file_without_rank_beside_ranks_is_refused(tmp_path):
    unnamed(1).write(pair(tmp_path) / "c.json")
    assert "c.json" in refused(tmp_path)


# --- which files


@pytest.mark.parametrize(
    "given",
    [
        lambda d: d,
        lambda d: str(d),
        lambda d: [d],
        lambda d: str(d / "*.json"),
        lambda d: str(d / "rank[01].json"),
        lambda d: str(d.parent / "**" / "rank*.json"),
        lambda d: [d / "rank0.json", d / "rank1.json"],
        lambda d: (str(d / "rank1.json"), str(d / "rank0.json")),
        lambda d: [d / "rank0.json", d / "rank0.json", d / "rank1.json"],
        lambda d: [d, d / "rank1.json"],
        lambda d: d / ".." / d.name,
    ],
    ids=[
        "folder",
        "text",
        "list",
        "glob",
        "class",
        "deep-glob",
        "files",
        "reversed",
        "twice",
        "folder-and-file",
        "dots",
    ],
)
def test_folder_files_and_patterns_name_the_same_run(tmp_path, given):
    folder = pair(tmp_path / "run")
    assert load_run(given(folder)).ranks == [0, 1]


@pytest.mark.parametrize("given", [".", "run", "./run/", "run/*.json", "run/../run"])
def test_relative_paths_are_read(tmp_path, monkeypatch, given):
    pair(tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    assert load_run(given).ranks == [0, 1]


def test_names_count_the_same_in_relative_paths(tmp_path, monkeypatch):
    for rank in (0, 1):
        unnamed(rank + 1).write(tmp_path / "run" / f"rank_{rank}" / "t.json")
    monkeypatch.chdir(tmp_path / "run")
    assert load_run(".").ranks == load_run("../run").ranks == [0, 1]


def test_a_name_with_brackets_is_a_name_before_it_is_a_pattern(tmp_path):
    assert load_run(pair(tmp_path / "run[1]")).ranks == [0, 1]


def test_a_file_given_as_absolute_and_as_relative_path_is_read_once(tmp_path, monkeypatch):
    folder = pair(tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    assert load_run([folder / "rank0.json", "run/rank0.json", "run/rank1.json"]).ranks == [0, 1]


def test_a_link_to_a_file_of_the_run_is_not_a_second_recording(tmp_path):
    (pair(tmp_path) / "latest.json").symlink_to("rank0.json")
    assert load_run(tmp_path).ranks == [0, 1]


def test_links_to_files_and_folders_elsewhere_are_read(tmp_path):
    store = pair(tmp_path / "store")
    run = tmp_path / "run"
    run.mkdir()
    for rank in (0, 1):
        (run / f"rank{rank}.json").symlink_to(store / f"rank{rank}.json")
    (tmp_path / "link").symlink_to(run)
    assert load_run(run).ranks == load_run(tmp_path / "link").ranks == [0, 1]


def test_a_link_to_nowhere_in_a_folder_is_no_file(tmp_path):
    (pair(tmp_path) / "rank2.json").symlink_to("nowhere.json")
    assert load_run(tmp_path).ranks == [0, 1]


def test_a_link_to_nowhere_that_was_named_is_one_line(tmp_path):
    (tmp_path / "rank2.json").symlink_to("nowhere.json")
    refused(str(tmp_path / "rank2.json"))


def test_a_link_to_nowhere_beside_traces_is_an_unreadable_file(tmp_path):
    (pair(tmp_path) / "rank2.json").symlink_to("nowhere.json")
    run = load_run(str(tmp_path / "*.json"))
    assert run.ranks == [0, 1]
    assert "rank2.json" in run.unreadable[0]


def test_a_path_too_long_for_the_system_is_one_line():
    refused("x" * 5000)


@pytest.mark.parametrize("given", [[], "nowhere", "nowhere/*.json", "a\0b"], ids=repr)
def test_a_path_without_files_is_one_line(tmp_path, monkeypatch, given):
    monkeypatch.chdir(tmp_path)
    refused(given)


def test_hidden_files_and_folders_are_left_out(tmp_path):
    folder = pair(tmp_path / ".cache" / "run")
    for name in (".old/rank0.json", "._rank0.json", ".ipynb_checkpoints/rank1.json"):
        plain(0).write(folder / name)
    assert load_run(folder).ranks == [0, 1]


@pytest.mark.parametrize(
    "names",
    [
        ["rank0.json", "deep/er/rank1.json"],
        ["node0/gpu0.json", "node1/gpu0.json"],
        ["a/b/c/d/x.json.gz", "y.json"],
    ],
)
def test_nested_folders_are_one_run(tmp_path, names):
    for rank, name in enumerate(names):
        plain(rank).write(tmp_path / name)
    assert load_run(tmp_path).ranks == [0, 1]


@pytest.mark.parametrize("name", ["notes.txt", "model.pt", "rank0.json.bak", "rank0.sqlite-wal"])
def test_files_with_other_endings_are_left_out(tmp_path, name):
    (pair(tmp_path) / name).write_bytes(b"\x80whatever")
    run = load_run(tmp_path)
    assert (run.ranks, codes(run)) == ([0, 1], set())
