"""Exports of Nsight Systems give the figures, words and JSON that Kineto's files give."""

from __future__ import annotations

import json
from dataclasses import asdict, fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nsys_exports import ALL_REDUCE, SESSION_NS, Nsys, plain, two_ranks
from shapes import PLAIN, figures
from traces import Kineto
from traces import plain as plain_kineto

from ddptrace import analyze, load_run
from ddptrace.model import NEVER_NS
from ddptrace.report import to_json


def test_a_rank_has_the_figures_of_its_picture(tmp_path):
    plain().write(tmp_path / "rank0.sqlite")
    (row,) = analyze(load_run(tmp_path)).steps
    assert figures(row) == PLAIN


# --- the same run written both ways


def both_ways(folder, state, *, rank=0):
    """Return what one statement of a rank gives as a Kineto file and as an export."""
    kineto, nsys = Kineto(rank=rank, base_ns=SESSION_NS), Nsys(pid=4100 + rank)
    for builder, name in ((kineto, f"rank{rank}.json"), (nsys, f"rank{rank}.sqlite")):
        state(builder)
        builder.write(folder / builder.__class__.__name__ / name)
    return [load_run(folder / way) for way in ("Kineto", "Nsys")]


def everything(builder):
    """State two steps of which the GPU runs the first behind its mark, with copies and sets."""
    builder.step(5, 0, 1000).step(6, 1000, 2000)
    builder.gpu(-40, 30, launch=-60)  # launched before the first step
    builder.gpu(100, 300).gpu(300, 1100, launch=290).comm(450, 600).comm(1050, 1300, launch=900)
    builder.gpu(1150, 1250, cat="gpu_memcpy", name="Memcpy HtoD (Pinned -> Device)", stream=9)
    builder.gpu(1300, 1310, cat="gpu_memset", name="Memset (Device)")
    return builder.gpu(1400, 1600).comm(1500, 1900)


def assert_same(kineto, nsys):
    """Check that two runs have the same rows and the same operations, marks and launches."""
    rows = [[asdict(row) for row in analyze(run).steps] for run in (kineto, nsys)]
    assert rows[0] == rows[1]
    for one, other in zip(kineto.traces, nsys.traces, strict=True):
        assert one.marks == other.marks
        assert (one.rank, one.clock, one.device) == (other.rank, other.clock, other.device)
        assert (one.start_ns, one.end_ns) == (other.start_ns, other.end_ns)
        ops, others = (_in_order(trace.ops) for trace in (one, other))
        for column in fields(ops):
            mine, theirs = getattr(ops, column.name), getattr(others, column.name)
            if column.name == "name":
                mine, theirs = _texts(one, mine), _texts(other, theirs)
            if column.name == "collective":
                mine, theirs = _operations(one, mine), _operations(other, theirs)
            if column.name == "thread":  # each format has its own numbers for them
                mine, theirs = _told_apart(mine), _told_apart(theirs)
            if column.name != "correlation":
                assert np.array_equal(mine, theirs), column.name
        assert _host(one) == _host(other)


def _in_order(ops):
    """Return operations in one order whatever the file's: those of one start by their stream."""
    return ops.take(np.lexsort((ops.stream, ops.start_ns)))


def _told_apart(ids):
    return np.unique(ids, return_inverse=True)[1].reshape(-1)


def _operations(trace, rows):
    operation = np.append(trace.collectives.operation, -1)  # for rows of -1
    return _texts(trace, operation[rows])


def _texts(trace, codes):
    return [trace.names[code] if code >= 0 else None for code in codes]


def _host(trace):
    host = trace.host
    names = [name.partition("_v")[0] for name in _texts(trace, host.name)]
    return sorted(zip(host.start_ns.tolist(), host.end_ns.tolist(), names, host.kind, strict=True))


def test_the_same_run_written_both_ways_gives_equal_recordings(tmp_path):
    kineto, nsys = both_ways(tmp_path, everything)
    assert_same(kineto, nsys)
    assert [row.step for row in analyze(nsys).steps] == [5, 6]


_TIMES = st.integers(0, 400)
_OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["kernel", "comm", "gpu_memcpy"]),
        _TIMES,
        st.integers(1, 120),
        st.integers(0, 60),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=25, deadline=None)
@given(_OPERATIONS, st.lists(st.integers(1, 200), min_size=1, max_size=4))
def test_any_run_written_both_ways_gives_equal_recordings(tmp_path_factory, operations, lengths):
    def state(builder):
        at = 0
        for number, length in enumerate(lengths):
            builder.step(number + 3, at, at + length)
            at += length
        builder.gpu(1, 2, launch=0)  # one at least is launched in a step
        for place, (kind, start, length, ahead) in enumerate(operations):
            options = {"launch": start - ahead, "stream": 7 + place}
            if kind == "comm":
                builder.comm(start, start + length, **options)
            else:
                options["name"] = "gemm" if kind == "kernel" else "Memcpy HtoD (Pinned -> Device)"
                builder.gpu(start, start + length, cat=kind, **options)

    assert_same(*both_ways(tmp_path_factory.mktemp("run"), state))


def test_backward_is_what_autograd_threads_launch_in_both(tmp_path):
    """The first backward kernel starts at 300 µs, the first gradient collective at 450 µs."""
    kineto, nsys = Kineto(base_ns=SESSION_NS), Nsys()
    engine = nsys.global_pid + 77
    nsys.name_thread(engine, "pt_autograd_0").name_thread(nsys.thread, "python3")
    nsys.step(5, 0, 1000).gpu(100, 300).comm(200, 250)
    nsys.gpu(300, 500, thread=engine).comm(450, 600, thread=engine)
    kineto.step(5, 0, 1000).gpu(100, 300).comm(200, 250)
    kineto.event("cpu_op", "autograd::engine::evaluate_function: X", 290, 200)
    kineto.gpu(300, 500).comm(450, 600)
    kineto.write(tmp_path / "kineto" / "rank0.json")
    nsys.write(tmp_path / "nsys" / "rank0.sqlite")
    delays = [
        analyze(load_run(tmp_path / way)).steps[0].first_comm_delay_ns for way in ("kineto", "nsys")
    ]
    assert delays == [150_000, 150_000]


def test_an_operation_without_a_call_is_not_known_to_be_backward(tmp_path):
    """The last call of the recording is one of autograd's, which says nothing of the others."""
    nsys = Nsys().step(5, 0, 1000).gpu(100, 300)
    engine = nsys.global_pid + 77
    kernel = nsys.tables["CUPTI_ACTIVITY_KIND_KERNEL"][0]
    nsys.row("CUPTI_ACTIVITY_KIND_KERNEL", **kernel | {"correlationId": 9, "start": 10_000})
    nsys.name_thread(engine, "pt_autograd_0").gpu(400, 500, thread=engine)
    nsys.write(tmp_path / "rank0.sqlite")
    assert load_run(tmp_path).traces[0].ops.in_backward.tolist() == [False, False, True]


def test_without_names_of_threads_nothing_is_known_to_be_backward(tmp_path):
    plain().write(tmp_path / "rank0.sqlite")
    assert analyze(load_run(tmp_path)).steps[0].first_comm_delay_ns is None


# --- one run, both sources


def test_a_run_may_mix_both_sources(tmp_path):
    plain_kineto(0, base_ns=SESSION_NS).write(tmp_path / "rank0.json")
    plain(1).recorder(1).write(tmp_path / "rank1.sqlite")
    run = load_run(tmp_path)
    report = analyze(run)
    assert report.run.sources == {"0": "kineto", "1": "nsys"}
    assert [figures(row) for row in report.steps] == [PLAIN, PLAIN]
    assert run.world_size == 2
    assert not {"no_common_clock", "steps_differ", "ranks_apart_in_time"} & {
        warning.code for warning in run.all_warnings
    }


def test_the_json_is_that_of_kineto_but_for_the_source_and_the_versions(tmp_path):
    for rank in (0, 1):
        plain_kineto(rank, base_ns=SESSION_NS).write(tmp_path / "kineto" / f"rank{rank}.json")
    two_ranks().recorder(1).process(4100).recorder(0).write(tmp_path / "nsys" / "run.sqlite")
    documents = [
        json.loads(to_json(analyze(load_run(tmp_path / way)), timeline=True))
        for way in ("kineto", "nsys")
    ]
    for document in documents:
        del document["run"]["sources"], document["run"]["versions"]
    # Nothing tells the host of the two files; one report is of one clock.
    shared = [document["run"]["clocks"][0].pop("shares_clock") for document in documents]
    assert shared == [False, True]
    assert documents[0] == documents[1]


def test_a_collective_of_an_unnamed_kernel_is_what_its_call_says(tmp_path):
    """The first kernel is launched inside ncclAllReduce, the second behind it."""
    nsys = Nsys().step(0, 0, 1000).gpu(0, 500)
    nsys.range("ncclAllReduce", 90, 110).range("ncclSend", 90, 210, thread=nsys.global_pid + 9)
    nsys.comm(100, 200, name="ncclDevKernel_Generic(ncclDevComm*)")
    nsys.comm(200, 300, name="ncclDevKernel_Generic(ncclDevComm*)")
    nsys.write(tmp_path / "rank0.sqlite")
    (trace,) = load_run(tmp_path).traces
    comm = trace.ops.take(trace.ops.collective >= 0)
    assert _operations(trace, comm.collective) == ["all_reduce", None]
    assert comm.start_ns.tolist() == [SESSION_NS + 100_000, SESSION_NS + 200_000]


# --- what cannot be


def test_operations_without_usable_times_are_dropped_and_counted(tmp_path):
    nsys = plain()
    for start, end in ((0, 0), (900, 890)):
        nsys.gpu(start, end)
    nsys.write(tmp_path / "rank0.sqlite")
    run = load_run(tmp_path)
    assert figures(analyze(run).steps[0]) == PLAIN
    (said,) = [warning for warning in run.all_warnings if warning.code == "dropped_events"]
    assert "2 GPU operations without usable times" in said.message
    assert said.rank == 0


def test_operations_whose_times_are_not_told_make_the_rank_partial(tmp_path):
    nsys = plain().gpu(900, 910)
    nsys.tables["CUPTI_ACTIVITY_KIND_KERNEL"][-1]["end"] = None
    nsys.write(tmp_path / "rank0.sqlite")
    run = load_run(tmp_path)
    assert run.partial_ranks == [0]
    assert analyze(run).steps[0].idle_ns is None


def test_an_impossible_length_is_cut_and_counted_in_both(tmp_path):
    def state(builder):
        builder.step(0, 0, 5000).gpu(100, 3100).gpu(200, 300).comm(300, 400)

    runs = both_ways(tmp_path, state)
    assert_same(*runs)
    for run in runs:
        assert "impossible_length" in {warning.code for warning in run.all_warnings}


def test_an_operation_without_a_call_has_no_launch(tmp_path):
    nsys = plain()
    nsys.row(
        "CUPTI_ACTIVITY_KIND_KERNEL",
        **nsys.tables["CUPTI_ACTIVITY_KIND_KERNEL"][0]
        | {"start": 10_000, "end": 20_000, "correlationId": 9},
    )
    nsys.write(tmp_path / "rank0.sqlite")
    (trace,) = load_run(tmp_path).traces
    assert trace.ops.launch_ns[0] == NEVER_NS
    assert (trace.ops.launch_ns[1:] != NEVER_NS).all()


def test_the_earliest_call_of_an_id_is_its_launch(tmp_path):
    """A runtime call and the driver call inside it share their id."""
    nsys = plain()
    nsys.call("cuLaunchKernel", 96, 97, correlation=501).call("early", 90, 99, correlation=501)
    nsys.write(tmp_path / "rank0.sqlite")
    (trace,) = load_run(tmp_path).traces
    assert trace.ops.launch_ns[0] == SESSION_NS + 90_000


@pytest.mark.parametrize("wanted", [(), "my_reduce"])
def test_names_of_custom_collectives_can_be_taught(tmp_path, wanted):
    Nsys().step(0, 0, 999).gpu(1, 9).gpu(9, 29, name="my_reduce").write(tmp_path / "rank0.sqlite")
    (row,) = analyze(load_run(tmp_path, comm_kernels=wanted)).steps
    assert row.comm_ns == (20_000 if wanted else 0)


def test_collectives_that_were_called_and_not_recorded_leave_communication_unknown(tmp_path):
    nsys = Nsys().step(0, 0, 999).gpu(100, 300).range("ncclAllReduce", 50, 60)
    nsys.write(tmp_path / "rank0.sqlite")
    run = load_run(tmp_path)
    (row,) = analyze(run).steps
    assert (row.comm_ns, row.idle_ns, row.compute_ns) == (None, None, 200_000)
    assert "comm_not_recorded" in {warning.code for warning in run.all_warnings}


def test_the_frame_of_a_run_names_its_operations(tmp_path):
    everything(Nsys()).write(tmp_path / "rank0.sqlite")
    frame = load_run(tmp_path).frame()
    assert set(frame["name"]) == {
        "gemm",
        ALL_REDUCE,
        "Memcpy HtoD (Pinned -> Device)",
        "Memset (Device)",
    }
