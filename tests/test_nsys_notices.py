"""What an export says about itself becomes a warning; graphs that are opaque are said to be."""

from __future__ import annotations

import pytest
from nsys_exports import Nsys, plain, two_ranks
from shapes import PLAIN, figures

from ddptrace import analyze, load_run

LOST = "Not all CUDA events might have been collected."
LOST_RANGES = "Not all NVTX events might have been collected."
OLD = "The GPU clock was changed while CUDA events were collected."
DRIVER = "Installed CUDA driver version (13.1) is not supported by this build of Nsight Systems."


def said(run, code="nsys_diagnostic"):
    return [warning.message for warning in run.all_warnings if warning.code == code]


@pytest.mark.parametrize("severity", [2, 3])
def test_warnings_and_errors_of_nsys_are_repeated(tmp_path, severity):
    plain().noted(severity, DRIVER).write(tmp_path / "rank0.sqlite")
    run = load_run(tmp_path)
    (message,) = said(run)
    assert message.endswith(f"rank0.sqlite: nsys noted: {DRIVER}")
    assert figures(analyze(run).steps[0]) == PLAIN


@pytest.mark.parametrize("severity", [0, 1, 4])
@pytest.mark.parametrize("text", [LOST, DRIVER])
def test_information_is_not(tmp_path, severity, text):
    plain().noted(severity, text).write(tmp_path / "rank0.sqlite")
    assert said(load_run(tmp_path)) == []


def test_what_is_about_no_process_is_repeated(tmp_path):
    plain().noted(2, OLD, globalPid=None).noted(2, DRIVER, globalPid=0).write(
        tmp_path / "rank0.sqlite"
    )
    assert [message.partition("noted: ")[2] for message in said(load_run(tmp_path))] == [
        OLD,
        DRIVER,
    ]


def test_what_is_about_a_launcher_is_not(tmp_path):
    nsys = two_ranks().process(4000).noted(2, "No CUDA events collected.").noted(2, LOST)
    nsys.write(tmp_path / "run.sqlite")
    assert said(load_run(tmp_path)) == []


def test_one_line_says_what_is_about_several_ranks(tmp_path):
    nsys = two_ranks().noted(2, OLD).noted(2, OLD).process(4100).noted(2, OLD)
    nsys.noted(3, DRIVER).write(tmp_path / "run.sqlite")
    assert [message.partition("noted ")[2] for message in said(load_run(tmp_path))] == [
        f"(rank 0-1): {OLD}",
        f"(rank 0): {DRIVER}",
    ]


# --- events that might be missing: nsys says so of each recording that ends before its program

CALM = (
    "nsys noted: Not all CUDA and NVTX events might have been collected (usual when a recording "
    "ends before its program); every launch inside the steps has its kernel"
)


def test_where_nothing_is_missing_one_calm_line_says_so_for_all_files_of_a_run(tmp_path):
    for rank in (0, 1):
        plain(rank).noted(2, LOST).noted(2, LOST_RANGES).write(tmp_path / f"rank{rank}.sqlite")
    run = load_run(tmp_path)
    assert said(run) == [CALM]
    assert [figures(row) for row in analyze(run).steps] == [PLAIN] * 2


@pytest.mark.parametrize("about", ["each rank", "no process"])
def test_it_is_one_line_for_the_ranks_of_one_report_too(tmp_path, about):
    nsys = two_ranks()
    for pid in (4100, 4101):
        whose = {} if about == "each rank" else {"globalPid": None}
        nsys.process(pid).noted(2, LOST, **whose).noted(2, LOST_RANGES, **whose)
    nsys.write(tmp_path / "run.sqlite")
    assert said(load_run(tmp_path)) == [CALM]


def test_where_kernels_are_missing_it_is_said_how_many_and_whose(tmp_path):
    """Launches before and behind the steps, of graphs, and of a rank without the note are none."""
    nsys = two_ranks().noted(2, LOST)
    for at in (-10, 10, 20, 1010):
        nsys.launch(at)
    nsys.launch(30, name="cudaGraphLaunch_v10000")
    nsys.call("cudaLaunchKernel_v7000", 40, 41)
    nsys.process(4100).launch(10)
    nsys.write(tmp_path / "run.sqlite")
    (message,) = said(load_run(tmp_path))
    assert message.endswith(
        "run.sqlite: nsys noted: Not all CUDA events might have been collected: 2 of 8 kernel "
        "launches inside the steps have no kernel (rank 1), so that figures are too low; record "
        "again, with fewer steps"
    )


def test_without_steps_all_launches_count(tmp_path):
    nsys = Nsys().gpu(10, 20).noted(2, LOST)
    nsys.launch(30)
    path = nsys.write(tmp_path / "rank0.sqlite")
    assert "1 of 2 kernel launches has no kernel," in said(load_run(path))[0]


def test_without_recorded_launches_the_note_is_repeated_as_it_is(tmp_path):
    nsys = plain().noted(2, LOST).noted(2, LOST_RANGES)
    nsys.write(tmp_path / "rank0.sqlite", without=["CUPTI_ACTIVITY_KIND_RUNTIME"])
    assert [message.partition("noted: ")[2] for message in said(load_run(tmp_path))] == [
        LOST,
        LOST_RANGES,
    ]


# --- graphs


def graph(nsys, at, *, traced=True):
    """Add the launch of a CUDA graph, and the row of its whole run 10 µs later."""
    number = nsys.launch(at, name="cudaGraphLaunch_v10000")
    if traced:
        nsys.row(
            "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", start=(at + 10) * 1000, end=(at + 40) * 1000,
            correlationId=number, globalPid=nsys.global_pid, graphId=1,
        )  # fmt: skip
    return number


@pytest.mark.parametrize("traced", [True, False])
def test_graphs_that_are_opaque_leave_idle_unknown_and_the_option_is_said(tmp_path, traced):
    nsys = plain()
    graph(nsys, 720, traced=traced)
    nsys.write(tmp_path / "rank0.sqlite")
    run = load_run(tmp_path)
    assert figures(analyze(run).steps[0]) == PLAIN | {"idle_ns": None}
    (message,) = said(run, "graph_kernels_not_recorded")
    assert "1 launched CUDA graph" in message
    assert "--cuda-graph-trace=node" in message


def test_a_graph_that_was_launched_before_the_recording_counts_where_it_ran(tmp_path):
    nsys = plain()
    graph(nsys, 720)
    nsys.tables["CUPTI_ACTIVITY_KIND_RUNTIME"].pop()
    nsys.write(tmp_path / "rank0.sqlite")
    assert analyze(load_run(tmp_path)).steps[0].idle_ns is None


def test_a_graph_in_one_step_leaves_the_idle_time_of_others(tmp_path):
    nsys = plain().step(6, 1000, 2000).gpu(1100, 1200)
    graph(nsys, 1300)
    nsys.write(tmp_path / "rank0.sqlite")
    assert [row.idle_ns for row in analyze(load_run(tmp_path)).steps] == [120_000, None]


@pytest.mark.parametrize("node", [4, None])
def test_graphs_traced_by_node_are_kernels_like_others(tmp_path, node):
    """All nodes share the id of their launch, and may overlap on a stream."""
    nsys = plain()
    number = graph(nsys, 720, traced=False)
    kernel = nsys.tables["CUPTI_ACTIVITY_KIND_KERNEL"][0]
    for start, end in ((730, 790), (740, 750)):
        times = {"start": start * 1000, "end": end * 1000}
        about = {"correlationId": number, "graphNodeId": node}
        nsys.row("CUPTI_ACTIVITY_KIND_KERNEL", **kernel | times | about)
    nsys.write(tmp_path / "rank0.sqlite")
    run = load_run(tmp_path)
    (row,) = analyze(run).steps
    assert (row.compute_ns, row.compute_kernels, row.idle_ns) == (700_000, 6, 120_000)
    assert not run.all_warnings[0].code.startswith(("graph", "impossible"))
    assert run.traces[0].ops.in_graph.sum() == 2
