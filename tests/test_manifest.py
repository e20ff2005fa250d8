"""What the manifest tells: all that fits is taken, the rest is said and changes nothing else."""

from __future__ import annotations

import gzip
import json

import pytest
from captured import captured, full_file, full_part, marks, rank_entry, said, write_manifest
from folders import codes, manifest, pair, refused
from traces import plain

from ddptrace import load_run
from ddptrace.manifest import DdpModule

DDP = {
    "module": "DistributedDataParallel",
    "bucket_cap_bytes": 26_214_400,
    "find_unused_parameters": False,
    "static_graph": True,
    "gradient_as_bucket_view": True,
    "comm_hook": None,
    "has_rebuilt_buckets": True,
    "initial_bucket_bytes": [1_048_576, 4_000],
    "rebuilt_bucket_bytes": [1_052_576],
    "bucket_parameters": [["a.weight", "a.bias"]],
    "parameter_names": ["a.weight", "a.bias"],
    "parameter_bytes": [1_048_576, 4_000],
    "parameter_types": ["torch.float32", "torch.float32"],
    "ddp_averages": {"note": "of its own", "forward_compute_ns": 5},
}


def told(folder, *ranks, **facts):
    """Return the manifest of a run of one rank, after it was written with these facts."""
    full_part(world_size=1).write(full_file(folder))
    write_manifest(folder, *(ranks or [rank_entry()]), **facts)
    return load_run(folder).manifest


def test_a_run_without_a_manifest_has_none(tmp_path):
    assert load_run(pair(tmp_path)).manifest is None


def test_a_minimal_manifest_still_tells_ranks_and_nothing_is_made_up(tmp_path):
    manifest(pair(tmp_path), {"rank0.json": 0, "rank1.json": 1})
    found = load_run(tmp_path)
    assert codes(found) == set()
    assert [facts.files for facts in found.manifest.ranks] == [("rank0.json",), ("rank1.json",)]
    assert (found.manifest.profiler, found.manifest.ranks[0].host) == (None, None)


def test_the_manifest_tells_of_the_run(tmp_path):
    facts = {
        "profiler": "torch",
        "command": ["torchrun", "train.py"],
        "exit_code": -9,
        "started_ns": 1_760_000_000_000_000_000,
        "options": {"ranks": "all", "step_mark": None},
        "versions": {"torch": "2.11.0", "driver": "580.65.06"},
    }
    found = told(tmp_path, **facts)
    assert found.command == ("torchrun", "train.py")
    assert {name: getattr(found, name) for name in facts} == facts | {"command": found.command}


def test_the_manifest_tells_of_each_rank(tmp_path):
    entry = rank_entry(node=0, local_rank=0, pid=4100, device="NVIDIA H200", ddp=[DDP])
    facts = told(tmp_path, entry).of_rank(0)
    assert (facts.host, facts.node, facts.pid, facts.device) == ("a", 0, 4100, "NVIDIA H200")
    assert [part.part for part in facts.parts] == ["figures", "full"]
    assert facts.unprofiled.step_ns == (1_000_000,) * 5
    (module,) = facts.ddp
    assert isinstance(module, DdpModule)
    assert module.bucket_parameters == (("a.weight", "a.bias"),)
    assert module.parameter_names == ("a.weight", "a.bias")
    assert module.parameter_bytes == (1_048_576, 4_000)
    assert module.parameter_types == ("torch.float32",) * 2
    assert (module.rebuilt_bucket_bytes, module.comm_hook) == ((1_052_576,), None)


def test_nothing_is_told_of_a_rank_that_the_manifest_does_not_name(tmp_path):
    assert told(tmp_path).of_rank(7) is None


def test_unknown_keys_are_ignored_everywhere(tmp_path):
    entry = rank_entry(colour="red", ddp=[DDP | {"colour": "red"}])
    entry["parts"][0]["colour"] = "red"
    assert len(told(tmp_path, entry, colour="red").ranks[0].ddp) == 1
    assert said(tmp_path, "manifest_ignored") == []


# --- one thing of a wrong type is one warning, and nothing else is lost


def at(entry, place, value):
    """Return a rank's entry with a value put at a place such as "parts.1.marks"."""
    entry = json.loads(json.dumps(entry))
    *path, last = [int(word) if word.isdecimal() else word for word in place.split(".")]
    inner = entry
    for word in path:
        inner = inner[word]
    inner[last] = value
    return entry


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("host", 3),
        ("pid", "4100"),
        ("pid", -1),
        ("pid", True),
        ("node", 10**30),
        ("problem", ["killed"]),
        ("files", "rank0.pt.trace.json.gz"),
        ("unprofiled", 5),
        ("unprofiled.step_ns", [1, "2"]),
        ("unprofiled.step_ns", [1, None]),
        ("parts", {"part": "figures"}),
        ("parts.1", "full"),
        ("parts.1.part", "half"),
        ("parts.1.file", 7),
        ("parts.1.step_ns", 1.5),
        ("parts.1.marks", [1]),
        ("ddp", 1),
        ("ddp.0.static_graph", "yes"),
        ("ddp.0.bucket_parameters", [["a"], "b"]),
        ("loop_thread", "x"),
        ("gpu", 7),
    ],
)
def test_a_wrong_type_costs_the_thing_and_one_warning(tmp_path, place, value):
    whole = rank_entry(ddp=[DDP], loop_thread=1, gpu="u", pid=1, node=0, problem=None)
    before = told(tmp_path / "before", whole).ranks[0]
    after = told(tmp_path / "after", at(whole, place, value)).ranks[0]
    (message,) = said(tmp_path / "after", "manifest_ignored")
    name = place.split(".")[0]
    assert f"manifest.json: ranks[0].{name}" in message
    assert message.endswith("it was left out")
    others = [each for each in type(before).__slots__ if each != name]
    assert [getattr(after, each) for each in others] == [getattr(before, each) for each in others]


@pytest.mark.parametrize(
    ("facts", "place"),
    [
        ({"world_size": "2"}, "world_size"),
        ({"world_size": 0}, "world_size"),
        ({"versions": ["torch"]}, "versions"),
        ({"versions": {"torch": 2}}, "versions.torch"),
        ({"options": 3}, "options"),
        ({"command": "torchrun train.py"}, "command"),
        ({"started_ns": 1e99}, "started_ns"),
    ],
)
def test_a_wrong_type_in_the_runs_facts_loses_no_rank(tmp_path, facts, place):
    found = told(tmp_path, **facts)
    (message,) = said(tmp_path, "manifest_ignored")
    assert f"manifest.json: {place} cannot be used" in message
    assert [each.rank for each in found.ranks] == [0]


def test_one_odd_version_leaves_the_others(tmp_path):
    assert told(tmp_path, versions={"torch": 2, "nccl": "2.28", "cuda": None}).versions == {
        "nccl": "2.28"
    }


@pytest.mark.parametrize("entry", [3, {}, {"rank": "0"}, {"rank": -1}, {"rank": 10**9}, None])
def test_an_entry_without_a_rank_is_left_out_and_said_once(tmp_path, entry):
    found = told(tmp_path, entry, rank_entry())
    assert [each.rank for each in found.ranks] == [0]
    (message,) = said(tmp_path, "manifest_ignored")
    assert "ranks[0]" in message


@pytest.mark.parametrize("ranks", [3, "all", {"0": {}}])
def test_ranks_that_are_no_list_are_left_out(tmp_path, ranks):
    full_part(world_size=1).write(full_file(tmp_path))
    write_manifest(tmp_path, ranks=ranks, world_size=1, profiler="torch")
    found = load_run(tmp_path)
    assert (found.manifest.profiler, found.manifest.ranks) == ("torch", ())
    assert len(said(tmp_path, "manifest_ignored")) == 1


@pytest.mark.parametrize("version", [2, "1", None, [1]])
def test_a_manifest_of_another_version_is_left_out_as_a_whole(tmp_path, version):
    assert told(tmp_path, ddptrace_manifest=version) is None
    (message,) = said(tmp_path, "manifest_ignored")
    assert "this ddptrace reads version 1" in message


@pytest.mark.parametrize(
    "text",
    [
        '{"ddptrace_manifest": 1, "ranks": [{"rank": 0, "files": ["a\\u0000b.json"]}]}',
        '{"ddptrace_manifest": 1, "ranks": [{"rank": 0, "host": "\\ud800", "files": ["\\ud800"]}]}',
        '{"ddptrace_manifest": 1, "options": {"a": ' + "[" * 700 + "]" * 700 + "}}",
        '{"ddptrace_manifest": 1, "exit_code": NaN, "options": {"a": Infinity}}',
    ],
    ids=["zero byte", "lone surrogate", "deep", "not a number"],
)
def test_odd_text_in_a_manifest_does_no_harm(tmp_path, text):
    from ddptrace import analyze
    from ddptrace.report import to_json

    (pair(tmp_path) / "manifest.json").write_text(text)
    found = load_run(tmp_path)
    assert found.ranks == [0, 1]
    to_json(analyze(found)).encode()


def test_a_problem_of_a_manifest_in_a_relative_folder_is_said_once(tmp_path, monkeypatch):
    (pair(tmp_path / "run") / "manifest.json").write_text("{")
    monkeypatch.chdir(tmp_path)
    (message,) = said("run", "manifest_ignored")
    assert message.startswith("run/manifest.json: cannot be read")


def test_texts_of_the_manifest_are_one_line_each(tmp_path):
    entry = rank_entry(problem="killed\nby\x1b[31m SIGKILL")
    assert told(tmp_path, entry).ranks[0].problem == "killed by [31m SIGKILL"


# --- several manifests, and manifests among the traces


def test_manifests_of_several_nodes_are_one(tmp_path):
    for rank in (0, 1):
        full_part(rank).write(full_file(tmp_path / f"node{rank}", rank))
        facts = {"versions": {f"from{rank}": "1"}, "world_size": 2}
        write_manifest(tmp_path / f"node{rank}", rank_entry(rank, host="ab"[rank]), **facts)
    found = load_run(tmp_path).manifest
    assert [(each.rank, each.host) for each in found.ranks] == [(0, "a"), (1, "b")]
    assert (found.world_size, found.versions) == (2, {"from0": "1", "from1": "1"})


def test_manifests_of_several_nodes_in_one_folder_are_one(tmp_path):
    for rank in (0, 1):
        full_part(rank).write(full_file(tmp_path, rank))
        path = write_manifest(tmp_path, rank_entry(rank), world_size=2)
        path.rename(tmp_path / f"manifest.node{rank}.json")
    assert [each.rank for each in load_run(tmp_path).manifest.ranks] == [0, 1]


def test_of_a_rank_told_twice_the_first_counts(tmp_path):
    assert told(tmp_path, rank_entry(host="a"), rank_entry(host="b")).ranks[0].host == "a"


@pytest.mark.parametrize("name", ["manifest.json", "manifest.node1.json", "manifest-2.json"])
@pytest.mark.parametrize("text", ["{}", '{"traceEvents": []}', plain().text()])
def test_a_file_with_the_name_of_a_manifest_is_never_read_as_a_trace(tmp_path, name, text):
    (pair(tmp_path) / name).write_text(text)
    for given in (tmp_path, str(tmp_path / "*.json")):
        found = load_run(given)
        assert (found.ranks, found.unreadable, codes(found)) == ([0, 1], (), set())


def test_a_manifest_alone_is_refused_with_what_to_give(tmp_path):
    path = write_manifest(captured(tmp_path))
    assert "give the folder that holds the traces" in refused(path)


def test_a_manifest_is_found_beside_traces_that_a_pattern_names(tmp_path):
    captured(tmp_path)
    found = load_run(str(tmp_path / "*.gz"))
    assert [len(each.marks) for each in found.figures] == [len(marks())] * 2


LINK = {
    "groups": [
        {
            "members": [0, 1],
            "operation": "all_reduce",
            "size_bytes": [65_536, 131_072],
            "time_ns": [[9, 8], [17, 16]],
        }
    ],
    "reason": None,
}


def test_the_manifest_tells_what_the_link_does(tmp_path):
    (group,) = told(tmp_path, link=LINK).link.groups
    assert (group.members, group.operation) == ((0, 1), "all_reduce")
    assert (group.size_bytes, group.time_ns) == ((65_536, 131_072), ((9, 8), (17, 16)))


@pytest.mark.parametrize("odd", [None, "fast", [[-1]], [["8"]], [8, 9], 1e400])
def test_odd_times_of_a_link_cost_the_group_alone(tmp_path, odd):
    broken = {**LINK["groups"][0], "time_ns": odd}
    found = told(tmp_path, link={"groups": [broken, *LINK["groups"]], "reason": None}, exit_code=3)
    assert [len(group.time_ns) for group in found.link.groups] == [2]
    assert found.exit_code == 3


def unpack(folder):
    for path in folder.glob("rank*.json.gz"):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()


def name_unpacked(folder):
    """Let the manifest name files as they were before somebody packed them."""
    path = folder / "manifest.json"
    path.write_text(path.read_text().replace(".json.gz", ".json"))


@pytest.mark.parametrize("change", [unpack, name_unpacked])
def test_files_that_were_unpacked_or_packed_since_are_those_of_the_manifest(tmp_path, change):
    captured(tmp_path)
    before = load_run(tmp_path)
    change(tmp_path)
    after = load_run(tmp_path)
    assert [[mark.index for mark in trace.marks] for trace in after.traces] == [
        [mark.index for mark in trace.marks] for trace in before.traces
    ]
    assert len(after.causes) == len(before.causes) > 0
