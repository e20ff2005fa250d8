"""A rank recorded in two parts: figures come from the cheap one, causes from the full one."""

from __future__ import annotations

import gzip
import json

import pytest
from captured import (
    BASE_NS,
    captured,
    figures_file,
    figures_part,
    full_file,
    full_part,
    marks,
    rank_entry,
    said,
    write_manifest,
)
from folders import codes
from traces import Kineto, run, trace

from ddptrace import analyze, load_run
from ddptrace.report import from_json, to_json

FIGURES = [(0, 22), (0, 23), (0, 24), (1, 22), (1, 23), (1, 24)]
FULL = [(0, 26), (0, 27), (0, 28), (1, 26), (1, 27), (1, 28)]


def steps(folder):
    return [(row.rank, row.step) for row in analyze(load_run(folder)).steps]


def parts(folder):
    """Return for each part of a run's report what it gives."""
    return {part.part: part.gives for part in analyze(load_run(folder)).run.parts or []}


def cut(path):
    """Cut a file inside its last event."""
    text = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(text[: text.rindex(b'"dur"')]))


# --- both parts are there


def test_figures_are_those_of_the_figures_part_numbered_by_the_jobs_steps(tmp_path):
    report = analyze(load_run(captured(tmp_path)))
    assert [(row.rank, row.step) for row in report.steps] == FIGURES
    row = report.steps[1]
    assert (row.name, row.step_ns, row.compute_ns, row.exposed_comm_ns, row.idle_ns) == (
        "step 23", 1_000_000, 600_000, 100_000, 300_000
    )  # fmt: skip
    assert report.summary.step_ns.median == 1_000_000
    assert len(report.timeline.recordings) == 2


def test_causes_are_in_the_full_part_and_both_parts_are_recordings_of_the_run(tmp_path):
    found = load_run(captured(tmp_path))
    assert [one.part for one in found.traces] == ["figures", "full"] * 2
    assert [one.part for one in found.figures] == ["figures"] * 2
    assert [[mark.index for mark in one.marks] for one in found.causes] == [[26, 27, 28]] * 2
    assert found.ranks == [0, 1]


def test_nothing_is_said_of_a_run_whose_parts_are_all_there(tmp_path):
    found = load_run(captured(tmp_path))
    assert (codes(found), found.unreadable, found.missing_ranks) == (set(), (), ())


def test_the_report_tells_what_each_part_gives(tmp_path):
    report = analyze(load_run(captured(tmp_path)))
    assert json.loads(to_json(report))["run"]["parts"] == [
        {
            "part": "figures",
            "activities": ["cuda"],
            "steps": [22, 23, 24],
            "gives": ["steps", "collectives", "summary"],
        },
        {
            "part": "full",
            "activities": ["cpu", "cuda"],
            "steps": [26, 27, 28],
            "gives": ["causes", "sizes", "names"],
        },
    ]
    assert from_json(to_json(report, timeline=True)) == report


def test_a_run_recorded_in_one_part_tells_of_no_parts(tmp_path):
    full_part(world_size=1).write(full_file(tmp_path))
    write_manifest(tmp_path, rank_entry(parts=[rank_entry()["parts"][1]]))
    found = load_run(tmp_path)
    assert analyze(found).run.parts is None
    assert found.figures == found.causes == found.traces


def test_frames_hold_the_operations_that_figures_come_from(tmp_path):
    assert len(load_run(captured(tmp_path)).frame()) == 2 * 6


def test_a_file_tells_its_own_part_and_steps_before_the_manifest(tmp_path):
    for rank in (0, 1):
        cheap = figures_part(rank).step(52, 0, 1000).step(53, 1000, 3000)
        cheap.header["ddptrace"] = {"part": "figures", "rank": rank, "host": "b"}
        cheap.write(tmp_path / f"x{rank}.json")
        full_part(rank).write(tmp_path / f"y{rank}.json")
    part = rank_entry()["parts"][0] | {"part": "full", "file": "x0.json"}
    write_manifest(tmp_path, {"rank": 0, "parts": [part]})
    assert steps(tmp_path) == [(0, 52), (0, 53), (1, 52), (1, 53)]
    assert {one.facts.host for one in load_run(tmp_path).figures} == {"b"}


@pytest.mark.parametrize("told", [{"part": "other"}, {"part": 3}, [], "figures", None])
def test_what_a_file_tells_of_its_part_in_another_way_is_nothing(tmp_path, told):
    kineto = full_part(world_size=1)
    kineto.header["ddptrace"] = told
    kineto.write(tmp_path / "a.json")
    assert [one.part for one in load_run(tmp_path).traces] == [None]


def test_a_file_that_only_capture_told_its_rank_needs_no_name(tmp_path):
    for rank in (0, 1):
        kineto = full_part(rank)
        del kineto.header["distributedInfo"]
        kineto.header["ddptrace"] = {"part": "full", "rank": rank, "world_size": 2}
        kineto.write(tmp_path / f"{'ab'[rank]}.json")
    found = load_run(tmp_path)
    assert (found.ranks, found.world_size, codes(found)) == ([0, 1], 2, set())


# --- ranks are compared over the same steps


def test_when_one_rank_lacks_its_figures_part_all_figures_come_from_the_full_parts(tmp_path):
    figures_file(captured(tmp_path), 1).unlink()
    assert steps(tmp_path) == FULL
    assert parts(tmp_path) == {
        "figures": [],
        "full": ["steps", "collectives", "summary", "causes", "sizes", "names"],
    }
    (message,) = said(tmp_path, "figures_not_used")
    assert message.startswith("no figures part of rank 1 can be read")


def test_an_unreadable_figures_part_is_none_and_an_unreadable_file(tmp_path):
    figures_file(captured(tmp_path), 1).write_bytes(b"")
    assert steps(tmp_path) == FULL
    assert len(load_run(tmp_path).unreadable) == 1
    assert said(tmp_path, "figures_not_used")


def test_a_figures_part_without_marks_is_not_used_and_the_warning_says_what_to_do(tmp_path):
    (captured(tmp_path) / "manifest.json").unlink()
    assert steps(tmp_path) == FULL
    (message,) = said(tmp_path, "figures_not_used")
    assert "rank0.figures.pt.trace.json.gz" in message
    assert "keep the manifest.json" in message


def test_a_cut_figures_part_is_not_used_and_leaves_no_rank_partial(tmp_path):
    cut(figures_file(captured(tmp_path), 1))
    report = analyze(load_run(tmp_path))
    assert [(row.rank, row.step) for row in report.steps] == FULL
    assert (report.run.partial_ranks, report.is_whole) == ([], False)
    assert "the figures of rank 1 come from its other part" in report.run.unreadable[0]
    assert "partial_rank" not in {warning.code for warning in report.run.warnings}
    assert "rank1.figures.pt.trace.json.gz: not whole" in said(tmp_path, "figures_not_used")[0]


def test_a_cut_full_part_changes_no_figure(tmp_path):
    whole = analyze(load_run(captured(tmp_path)))
    cut(full_file(tmp_path, 1))
    report = analyze(load_run(tmp_path))
    assert (report.steps, report.summary) == (whole.steps, whole.summary)
    assert (report.run.partial_ranks, report.is_whole) == ([], False)
    assert "the figures of rank 1 come from its other part" in report.run.unreadable[0]


def test_a_rank_without_a_full_part_shares_the_figures_and_has_no_causes(tmp_path):
    full_file(captured(tmp_path), 1).unlink()
    assert steps(tmp_path) == FIGURES
    (message,) = said(tmp_path, "causes_not_recorded")
    assert "rank 1" in message
    assert codes(load_run(tmp_path)) == {"causes_not_recorded"}


def test_a_rank_whose_only_part_is_the_other_one_is_shown_with_it(tmp_path):
    full_file(captured(tmp_path), 1).unlink()
    figures_file(tmp_path, 0).unlink()
    assert steps(tmp_path) == FULL[:3] + FIGURES[3:]
    assert {"figures_not_used", "causes_not_recorded", "steps_differ"} <= codes(load_run(tmp_path))


def test_only_chosen_ranks_need_their_parts(tmp_path):
    figures_file(captured(tmp_path), 1).unlink()
    found = load_run(tmp_path, ranks=[0])
    assert [one.part for one in found.figures] == ["figures"]
    assert codes(found) == set()


# --- figures parts alone


def test_figures_parts_alone_are_used_and_it_is_said_that_causes_are_not_known(tmp_path):
    captured(tmp_path)
    for rank in (0, 1):
        full_file(tmp_path, rank).unlink()
    assert steps(tmp_path) == FIGURES
    assert parts(tmp_path) == {"figures": ["steps", "collectives", "summary"]}
    (message,) = said(tmp_path, "causes_not_recorded")
    assert message.startswith("no full part is here")


def test_a_figures_part_alone_and_without_marks_is_one_window(tmp_path):
    figures_part(world_size=1).write(figures_file(tmp_path))
    report = analyze(load_run(tmp_path))
    assert [(row.rank, row.step) for row in report.steps] == [(0, None)]
    (warning,) = [one for one in report.run.warnings if one.code == "no_step_marks"]
    assert "keep the manifest.json" in warning.message


def test_a_cut_figures_part_alone_makes_its_rank_partial(tmp_path):
    cut(figures_file(captured(tmp_path, 1)))
    full_file(tmp_path).unlink()
    report = analyze(load_run(tmp_path))
    assert (report.run.partial_ranks, report.run.unreadable) == ([0], [])


@pytest.mark.parametrize("name", ["rank0.figures.json", "rank_0.figures.pt.trace.json.gz"])
def test_a_name_tells_the_part_where_nothing_else_does(tmp_path, name):
    figures_part(world_size=1).write(tmp_path / name)
    assert [one.part for one in load_run(tmp_path).traces] == ["figures"]


@pytest.mark.parametrize("name", ["rank0.json", "figures.json", "rank0_figures.json"])
def test_other_names_tell_no_part(tmp_path, name):
    figures_part(world_size=1).write(tmp_path / name)
    assert [one.part for one in load_run(tmp_path).traces] == [None]


# --- marks of the manifest that cannot be those of the recording


def marks_of_figures(folder, told):
    """Write a run of one rank whose figures part has these marks in the manifest."""
    entry = rank_entry()
    entry["parts"][0]["marks"] = told
    write_manifest(captured(folder, 1), entry)
    return folder


def test_marks_in_which_nothing_was_launched_are_not_used(tmp_path):
    marks_of_figures(tmp_path, marks(at_us=-3_600_000_000))
    assert steps(tmp_path) == FULL[:3]
    (message,) = said(tmp_path, "marks_ignored")
    assert "nothing was launched inside them" in message


def test_marks_need_a_recording_on_the_same_clock(tmp_path):
    entry = rank_entry()
    write_manifest(tmp_path, entry)
    figures_part(world_size=1, base_ns=None).write(figures_file(tmp_path))
    assert steps(tmp_path) == [(0, None)]
    assert "count from an unknown moment" in said(tmp_path, "marks_ignored")[0]


@pytest.mark.parametrize(
    "told",
    [
        [{"step": 22, "start_ns": BASE_NS + 5000, "end_ns": BASE_NS}],
        marks((22, 22)),
        [*marks((22,)), {"step": 23, "start_ns": BASE_NS + 999_999, "end_ns": BASE_NS + 10**7}],
        [{"step": 22, "start_ns": BASE_NS}],
        [{"step": "22", "start_ns": BASE_NS, "end_ns": BASE_NS}],
        {"22": 1},
    ],
    ids=["backwards", "twice", "overlap", "no end", "text", "no list"],
)
def test_marks_that_cannot_be_steps_are_left_out_as_a_whole(tmp_path, told):
    marks_of_figures(tmp_path, told)
    assert steps(tmp_path) == FULL[:3]
    (message,) = said(tmp_path, "manifest_ignored")
    assert "ranks[0].parts[0].marks cannot be used" in message


def test_marks_that_touch_and_come_in_any_order_are_used(tmp_path):
    marks_of_figures(tmp_path, marks()[::-1])
    assert steps(tmp_path) == FIGURES[:3]


# --- what a recording of CUDA alone cannot tell


def first_delay_ns(folder, *, loop, thread=840_599_872):
    """Write a figures part whose second kernel and all-reduce a thread launched, in Kineto's id."""
    kineto = Kineto(rank=0, world_size=1).event("kernel", "unlaunched", 10, 20, pid=0, tid=7)
    kineto.gpu(100, 300).gpu(300, 500, thread=thread)
    kineto.comm(450, 600, thread=thread).write(figures_file(folder))
    part = rank_entry()["parts"][0] | {"marks": marks((22,))}
    told = {} if loop is None else {"loop_thread": loop}
    write_manifest(folder, rank_entry(parts=[part], **told))
    (row,) = analyze(load_run(folder)).steps
    return row.first_comm_delay_ns


def loop_thread(folder):
    """Return the thread of the kernels that no other thread was named for."""
    first_delay_ns(folder, loop=None)
    return int(load_run(folder).traces[0].ops.thread[1])


def test_the_delay_of_the_first_collective_is_unknown_without_the_thread_of_the_loop(tmp_path):
    assert first_delay_ns(tmp_path, loop=None) is None


@pytest.mark.parametrize("thread", [840_599_872, 840_599_872 - (1 << 32)])
def test_what_another_thread_than_the_loops_launched_is_backward(tmp_path, thread):
    loop = loop_thread(tmp_path)
    assert first_delay_ns(tmp_path, loop=loop, thread=thread) == 150_000
    # The manifest tells the whole identity, the trace its lower half.
    assert first_delay_ns(tmp_path, loop=0x7F01_0000_0000 + loop, thread=thread) == 150_000


def test_the_loop_is_known_by_an_identity_that_kineto_wrote_without_its_sign(tmp_path):
    loop = 0x7F01_0000_0000 + (1 << 32) - loop_thread(tmp_path)
    assert first_delay_ns(tmp_path, loop=loop) == 150_000


@pytest.mark.parametrize(("in_file", "known"), [(None, "u-manifest"), ("u-file", "u-file")])
def test_the_gpu_of_a_rank_is_that_of_its_file_else_of_the_manifest(tmp_path, in_file, known):
    kineto = Kineto(rank=0, world_size=1).step(5, 0, 1000).gpu(100, 300)
    kineto.header["ddptrace"] = {"rank": 0, "gpu": in_file}
    kineto.write(tmp_path / "rank0.json")
    write_manifest(tmp_path, {"rank": 0, "files": ["rank0.json"], "gpu": "u-manifest"})
    assert load_run(tmp_path).traces[0].facts.gpu == known


def test_an_operation_without_a_launch_is_of_no_thread(tmp_path):
    first_delay_ns(tmp_path, loop=loop_thread(tmp_path))
    assert load_run(tmp_path).traces[0].ops.in_backward.tolist() == [False, False, True, True]


def test_a_loop_that_launched_nothing_does_not_tell_backward_from_forward(tmp_path):
    assert first_delay_ns(tmp_path, loop=5) is None


def test_a_full_part_tells_that_no_collective_was_recorded_in_the_figures_part_either(tmp_path):
    Kineto(world_size=2).gpu(100, 700).write(figures_file(tmp_path))
    full = Kineto(world_size=2).step(26, 10_000, 11_000).gpu(10_100, 10_700)
    full.event("user_annotation", "nccl:all_reduce", 10_200, 20).write(full_file(tmp_path))
    write_manifest(tmp_path, rank_entry(), world_size=2)
    (row,) = analyze(load_run(tmp_path)).steps
    assert (row.step, row.comm_ns, row.idle_ns) == (22, None, None)


# --- the rule on data


def two(rank, **facts):
    cheap = trace(("compute", 0, 100), rank=rank, part="figures", **facts)
    return cheap, trace(("compute", 500, 900), rank=rank, part="full")


@pytest.mark.parametrize(
    ("facts", "part"), [({}, "figures"), ({"partial": "cut"}, "full"), ({"marks": ()}, "full")]
)
def test_figures_parts_are_used_when_each_is_whole_and_has_marks(facts, part):
    found = run(*two(0), *two(1, **facts))
    assert {one.part for one in found.figures} == {part}


def test_a_warning_about_both_parts_of_a_rank_is_said_once():
    from dataclasses import replace

    from ddptrace.model import Warn

    same = Warn("likely_comm", "in this part", 0)
    cheap, full = (replace(one, warnings=(same,)) for one in two(0))
    other = replace(full, warnings=(same, Warn("recorded_with_stacks", "slow", 0)))
    assert [warning.code for warning in run(cheap, other).all_warnings] == [
        "likely_comm", "recorded_with_stacks"
    ]  # fmt: skip
