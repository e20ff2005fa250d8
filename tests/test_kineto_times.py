"""Every way to write times gives the figures of the plain file."""

from __future__ import annotations

import json

import pytest
from shapes import BASE_NS, BASE_US, PLAIN, assert_plain, each, figures, steps
from traces import Kineto, plain

from ddptrace import analyze, load_run

# --- stamps


def absolute(write):
    """State the plain file without base, each stamp and length written by `write`."""

    def change(event):
        event["ts"], event["dur"] = write(event["ts"] + BASE_US), write(event["dur"])

    return each(plain(base_ns=None), change)


@pytest.mark.parametrize(
    "write",
    [int, str, "{}.000".format, "{}.0000000".format],
    ids=["int", "text", "text with ns", "text with 7 decimals"],
)
def test_absolute_stamps_give_the_plain_figures(tmp_path, write):
    assert_plain(tmp_path, absolute(write).text())


@pytest.mark.parametrize("write", ["{}.000", "{}.0", "{}e0", "{}.0E+0"])
def test_absolute_stamps_as_numbers_with_point_or_exponent_give_the_plain_figures(tmp_path, write):
    text = absolute(lambda us: f"<{write.format(us)}>").text()
    assert_plain(tmp_path, text.replace('"<', "").replace('>"', ""))


@pytest.mark.parametrize("quote", ["", '"'], ids=["number", "text"])
def test_digits_that_a_double_cannot_hold_are_kept(tmp_path, quote):
    """
    compute  ######....####       17.422 µs, then 5 µs: they touch, and nothing overlaps
    comm     ......####           0.343 µs
    """
    kineto = Kineto(base_ns=None).step(5, BASE_US, 1000)
    kineto.gpu(100, 117, launch=BASE_US + 1).comm(117, 118, launch=BASE_US + 2)
    kineto.gpu(118, 123, launch=BASE_US + 3)
    times = iter([("100.163", "17.422"), ("117.585", "0.343"), ("117.928", "5.000")])

    def change(event):
        if event["cat"] == "kernel":
            ts, dur = next(times)
            event["ts"] = f"<{BASE_US // 1000}{float(ts):07.3f}>"
            event["dur"] = f"<{dur}>"

    kineto.events[0]["dur"] = 1000
    text = each(kineto, change).text().replace('"<', quote).replace('>"', quote)
    (row,) = steps(tmp_path, text)
    assert (row.compute_ns, row.comm_ns, row.hidden_comm_ns) == (22_422, 343, 0)


def test_base_relative_floats_keep_each_nanosecond(tmp_path):
    kineto = Kineto().step(5, 0, 1000)
    kineto.gpu(100, 100 + 17.422).comm(4_400.163, 4_400.506, launch=50)
    (row,) = steps(tmp_path, kineto.text())
    assert (row.compute_ns, row.comm_ns) == (17_422, 343)


@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize("kind", [int, str])
def test_ranks_with_different_bases_are_on_one_clock(tmp_path, where, kind):
    for rank, shift_us in ((0, 0), (1, 7_000_000)):
        kineto = each(plain(rank), lambda e, by=shift_us: e.update(ts=e["ts"] - by))
        kineto.header["baseTimeNanoseconds"] = kind(BASE_NS + shift_us * 1000)
        header, events = kineto.header, {"traceEvents": kineto.events}
        both = header | events if where == "before" else events | header
        both.pop("schemaVersion")
        (tmp_path / f"{rank}.json").write_text(json.dumps(both))
    run = load_run(tmp_path)
    assert [trace.start_ns for trace in run.traces] == [BASE_NS + 100_000] * 2
    assert [figures(row) for row in analyze(run).steps] == [PLAIN, PLAIN]


def test_a_file_without_base_and_one_with_base_are_on_one_clock(tmp_path):
    absolute(int).write(tmp_path / "rank0.json")
    plain(1).write(tmp_path / "rank1.json")
    assert len({trace.start_ns for trace in load_run(tmp_path).traces}) == 1


def test_small_stamps_without_base_are_said_not_to_compare(tmp_path):
    plain(0, base_ns=None).write(tmp_path / "rank0.json")
    plain(1).write(tmp_path / "rank1.json")
    report = analyze(load_run(tmp_path))
    assert [figures(row) for row in report.steps] == [PLAIN, PLAIN]
    assert "no_common_clock" in {warning.code for warning in load_run(tmp_path).warnings}


def test_small_stamps_without_base_compare_where_collectives_tell_their_clock(tmp_path):
    plain(0, base_ns=None).write(tmp_path / "rank0.json")
    plain(1).gpu(50, 60).write(tmp_path / "rank1.json")
    report = analyze(load_run(tmp_path))
    assert "no_common_clock" not in {warning.code for warning in report.run.warnings}
    assert report.run.origin_ns == str(BASE_NS)
    for collective in report.collectives:
        assert len({(one.start_ns, one.end_ns) for one in collective.ranks}) == 1


# --- odd times


@pytest.mark.parametrize(("ts", "dur"), [(0, 0), (300, -5), (-5, -1)], ids=str)
def test_an_operation_without_usable_times_is_dropped_and_counted(tmp_path, ts, dur):
    kineto = plain().event("kernel", "gemm", ts, dur, pid=0, stream=7, device=0, correlation=1)
    assert_plain(tmp_path, kineto.text())
    (trace,) = load_run(tmp_path).traces
    (said,) = [warning for warning in trace.warnings if warning.code == "dropped_events"]
    assert "1 GPU operation" in said.message


BAD_TIMES = [(300, None), (None, 5), ("soon", 5), ([1], 5), (300, 9e15), (1e300, 5)]


def _is_partial(tmp_path, kineto):
    (trace,) = load_run(kineto.write(tmp_path / "rank0.json").parent).traces
    return trace.partial is not None


@pytest.mark.parametrize(("ts", "dur"), BAD_TIMES, ids=str)
def test_an_operation_whose_times_cannot_be_read_makes_the_rank_partial(tmp_path, ts, dur):
    kineto = plain().event("kernel", "gemm", ts, dur, pid=0, stream=7, device=0, correlation=1)
    assert _is_partial(tmp_path, kineto)


@pytest.mark.parametrize(("ts", "dur"), BAD_TIMES, ids=str)
def test_a_mark_whose_times_cannot_be_read_makes_the_rank_partial(tmp_path, ts, dur):
    assert _is_partial(tmp_path, plain().event("user_annotation", "ProfilerStep#6", ts, dur))


def test_a_launch_whose_time_cannot_be_read_makes_the_rank_partial(tmp_path):
    kineto = plain()
    next(event for event in kineto.events if event["cat"] == "cuda_runtime")["ts"] = "soon"
    assert _is_partial(tmp_path, kineto)


def test_a_correlation_that_is_no_number_makes_the_rank_partial(tmp_path):
    kineto = plain()
    next(event for event in kineto.events if event["cat"] == "kernel")["args"]["correlation"] = "x"
    assert _is_partial(tmp_path, kineto)


@pytest.mark.parametrize(("ts", "dur"), BAD_TIMES, ids=str)
def test_times_of_host_operators_matter_to_no_figure(tmp_path, ts, dur):
    assert_plain(tmp_path, plain().event("cpu_op", "aten::mm", ts, dur).text())


def test_an_operation_of_no_length_is_kept_and_busy_for_no_time(tmp_path):
    kineto = plain().gpu(400, 400)
    (row,) = steps(tmp_path, kineto.text())
    assert figures(row) == PLAIN | {"compute_kernels": 5}


def test_partial_overlap_on_one_stream_is_counted_once_and_not_cut(tmp_path):
    """[100, 300) and [200, 400) on one stream are busy for 300 µs."""
    (row,) = steps(tmp_path, Kineto().step(5, 0, 1000).gpu(100, 300).gpu(200, 400).text())
    assert (row.compute_ns, row.compute_span_ns) == (300_000, 300_000)
    assert not [w for w in load_run(tmp_path).all_warnings if w.code == "impossible_length"]


def test_an_operation_that_outlasts_the_whole_next_one_is_cut_at_its_start(tmp_path):
    """[100, 900) outlasts [200, 300): cut to [100, 200), so 200 µs are busy."""
    (row,) = steps(tmp_path, Kineto().step(5, 0, 1000).gpu(100, 900).gpu(200, 300).text())
    assert row.compute_ns == 200_000
    assert [w for w in load_run(tmp_path).all_warnings if w.code == "impossible_length"]


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({"stream": 9}, False),
        ({"stream": 9}, True),
        ({"device": 1}, False),
        pytest.param(
            {"device": 1},
            True,
        ),
    ],
    ids=["streams", "streams in text", "GPUs", "GPUs in text"],
)
def test_operations_of_different_lanes_never_cut_each_other(tmp_path, args, text):
    """[100, 500) and, on another stream or GPU, [200, 300): 400 µs are busy."""
    kineto = Kineto().step(5, 0, 1000).gpu(100, 500).gpu(200, 300, **args)
    if text:
        for event in kineto.events:
            named = event.get("args", {})
            named |= {key: str(named[key]) for key in ("stream", "device") if key in named}
    (row,) = steps(tmp_path, kineto.text())
    assert row.compute_ns == 400_000


def test_thousands_of_nodes_of_a_graph_share_one_launch_and_are_never_cut(tmp_path):
    """Node 0 outlasts the next; in a graph that is possible, so [100, 900) is busy."""
    kineto = Kineto().step(5, 0, 50)
    kineto.event("cuda_runtime", "cudaGraphLaunch", 10, 5, correlation=77)
    for number in range(3000):
        end = 900 if number == 0 else 101 + number * 0.1
        dur = end - (100 + number * 0.1)
        kineto.event("kernel", "gemm", 100 + number * 0.1, round(dur, 3), pid=0, tid=7)
        kineto.events[-1]["args"] = {"stream": 7, "device": 0, "correlation": 77}
    (row,) = steps(tmp_path, kineto.text())
    assert (row.compute_ns, row.compute_kernels) == (800_000, 3000)


def test_a_kernel_launched_before_the_recording_opens_the_first_window(tmp_path):
    """The kernel [50, 90) has no launch event, so the window begins at 90 and not at the mark."""
    kineto = plain().event("kernel", "gemm", 50, 40, pid=0, tid=7, stream=7, correlation=999)
    (row,) = steps(tmp_path, kineto.text())
    changed = {"step_ns": 770_000, "idle_ns": 30_000}
    assert figures(row) == PLAIN | changed


def test_work_after_the_end_of_its_mark_belongs_to_its_step(tmp_path):
    """The mark ends at 400 µs, the GPU at 860; every launch is inside the mark."""
    kineto = Kineto().step(5, 0, 400)
    for start, end in ((100, 300), (300, 500), (500, 700), (820, 860)):
        kineto.gpu(start, end, launch=20)
    kineto.comm(450, 600, launch=30).comm(640, 800, launch=40)
    assert_plain(tmp_path, kineto.text())
