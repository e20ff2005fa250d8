"""`ddptrace merge`: one file for Perfetto that says what the report says, on aligned clocks."""

import gzip
import json
import os
import subprocess
import sys
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import chrome_format
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from traces import Kineto, plain, run, trace

from ddptrace.metrics.measured import Measured
from ddptrace.model import NEVER_NS, Facts
from ddptrace.outputs import chrome_events, perfetto
from ddptrace.report import report_of

SAMPLES = Path(__file__).parent.parent / "sample_traces"


def merge(*words, cwd=None):
    command = [sys.executable, "-m", "ddptrace", "merge", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)
    assert "Traceback" not in done.stderr
    return done


def refused(done, *words):
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("ddptrace: ")
    assert done.stderr.count("\n") == 1
    for word in words:
        assert word in done.stderr


def merged(*traces, every_kernel=False, world_size=None):
    """Return the checked document of recordings stated in code."""
    measured = Measured.of(run(*traces, world_size=world_size))
    text = "".join(perfetto.render(measured, report_of(measured), every_kernel=every_kernel))
    document = json.loads(text, parse_float=Decimal)
    chrome_format.check(document)
    return document


def drawn(document, rank, track):
    """Return the slices of a rank's track of that name as (name, start, end) in whole µs."""
    events = document["traceEvents"]
    (key,) = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and (event["pid"], event["args"]["name"]) == (rank, track)
    }
    return [
        (one["name"], int(one["ts"]), int(one["ts"] + one["dur"]))
        for one in chrome_format.slices(events)[key]
    ]


def tracks(document, rank):
    return [
        event["args"]["name"]
        for event in document["traceEvents"]
        if event["name"] == "thread_name" and event["pid"] == rank
    ]


def two_ranks(*, ahead_us=0, op="all_gather"):
    """State two ranks; rank 1 computes longer, so that rank 0 waits. An all-reduce is a bucket.

    rank 0  compute  ####.....####  comm [30,90): waits 40 µs   hidden [85,90)
    rank 1  compute  #######..####  comm [70,90)
    """
    told = {"op": op}
    rows = {
        0: (("compute", 0, 30), ("comm", 30, 90, told), ("compute", 85, 120), ("mem", 120, 125)),
        1: (("compute", 0, 70), ("comm", 70, 90, told), ("compute", 85, 120)),
    }
    ahead = {0: 0, 1: ahead_us}
    return [
        trace(
            *(
                (kind, ahead[rank] + start, ahead[rank] + end, *more)
                for kind, start, end, *more in rows[rank]
            ),
            marks=[(ahead[rank], ahead[rank] + 121)],
            rank=rank,
            world_size=2,
        )
        for rank in rows
    ]


@pytest.mark.parametrize("ahead_us", [0, 5000])
def test_each_rank_shows_what_it_did_when_on_one_clock(ahead_us):
    document = merged(*two_ranks(ahead_us=ahead_us))
    assert drawn(document, 0, "steps") == [("step 0", 0, 125)]
    assert drawn(document, 0, "compute") == [("compute", 0, 30), ("compute", 85, 120)]
    assert drawn(document, 0, "hidden communication") == [("hidden", 85, 90)]
    assert drawn(document, 0, "exposed communication") == [
        ("waiting", 30, 70), ("transfer", 70, 85)
    ]  # fmt: skip
    assert drawn(document, 1, "exposed communication") == [("transfer", 70, 85)]
    assert drawn(document, 0, "copies") == [("copies", 120, 125)]
    assert drawn(document, 0, "collectives") == [
        ("all_gather", 30, 90), ("waiting", 30, 70), ("transfer", 70, 90)
    ]  # fmt: skip
    assert drawn(document, 1, "collectives") == [("all_gather", 70, 90), ("transfer", 70, 90)]
    assert drawn(document, 0, "stream 0") == [("kernel", 0, 30), ("kernel", 85, 120)]


def test_an_arrow_leads_from_who_came_first_to_who_came_last():
    document = merged(*two_ranks())
    arrows = [event for event in document["traceEvents"] if event["ph"] in "stf"]
    assert [(e["ph"], e["pid"], int(e["ts"])) for e in arrows] == [("s", 0, 30), ("f", 1, 70)]


def test_a_collective_says_what_the_report_says_of_it():
    document = merged(*two_ranks())
    (one, other) = [e for e in document["traceEvents"] if e["name"] == "all_gather"]
    assert one["args"] == {
        "op": "all_gather", "group": None, "group_size": 2, "step": 0, "order": 0,
        "size_bytes": None, "bucket": None, "backward_pass": None,
        "wait_ms": Decimal("0.04"), "transfer_ms": Decimal("0.02"), "skew_ms": Decimal("0.04"),
        "hidden_ms": Decimal("0.005"), "exposed_ms": Decimal("0.055"),
        "algbw_gb_s": None, "busbw_gb_s": None,
    }  # fmt: skip
    assert other["args"]["wait_ms"] == 0


def test_what_was_not_matched_neither_waits_nor_transfers():
    lonely = trace(("compute", 0, 10), ("comm", 10, 30), marks=[(0, 30)], world_size=2)
    document = merged(lonely, world_size=2)
    assert drawn(document, 0, "exposed communication") == [("not matched", 10, 30)]
    assert drawn(document, 0, "collectives") == [("bucket 0", 10, 30)]
    assert not [event for event in document["traceEvents"] if event["ph"] in "stf"]


def test_the_counter_has_what_each_step_exposed_and_ends_at_zero():
    rows = [("compute", 0, 50), ("comm", 50, 80), ("compute", 100, 150), ("comm", 150, 160)]
    document = merged(trace(*rows, marks=[(0, 90), (90, 160)]), world_size=1)
    values = [
        (int(event["ts"]), event["args"]) for event in document["traceEvents"] if event["ph"] == "C"
    ]
    assert values == [
        (0, {"exposed": Decimal("0.03"), "waiting": 0}),
        (80, {"exposed": Decimal("0.01"), "waiting": 0}),
        (160, {"exposed": 0, "waiting": 0}),
    ]


def test_an_unknown_exposure_has_no_value():
    cut = replace(trace(("compute", 0, 50), ("comm", 50, 80)), partial="is cut short")
    document = merged(cut, world_size=1)
    assert not [event for event in document["traceEvents"] if event["ph"] == "C"]


def test_a_rank_is_named_with_its_host_and_ranks_are_in_order():
    ranks = [replace(one, facts=Facts(host='a"b')) for one in two_ranks()]
    names = [
        (event["pid"], event["args"]["name"])
        for event in merged(*ranks)["traceEvents"]
        if event["name"] == "process_name"
    ]
    assert names == [(0, 'rank 0 (a"b)'), (1, 'rank 1 (a"b)')]


def test_kernels_are_drawn_by_name_up_to_a_limit_or_when_asked(monkeypatch):
    monkeypatch.setattr(perfetto, "MOST_KERNELS", 7)
    assert "stream 0" in tracks(merged(*two_ranks()), 0)
    monkeypatch.setattr(perfetto, "MOST_KERNELS", 6)
    assert "stream 0" not in tracks(merged(*two_ranks()), 0)
    assert "stream 0" in tracks(merged(*two_ranks(), every_kernel=True), 0)


def test_each_recording_of_a_rank_has_names_of_its_own():
    first = replace(trace(("compute", 0, 30), marks=[(0, 40)]), names=("gemm", ""))
    later = replace(trace(("compute", 50, 70), marks=[(50, 80)]), names=("relu", ""))
    document = merged(first, later, world_size=1)
    assert drawn(document, 0, "stream 0") == [("gemm", 0, 30), ("relu", 50, 70)]


def test_kernels_that_overlap_on_a_stream_get_a_track_each():
    one = trace(("compute", 0, 30), ("compute", 10, 40), ("compute", 30, 50), marks=[(0, 60)])
    document = merged(one, world_size=1)
    assert drawn(document, 0, "stream 0") == [("kernel", 0, 30), ("kernel", 30, 50)]
    assert drawn(document, 0, "stream 0 (2)") == [("kernel", 10, 40)]


def test_collectives_that_overlap_get_a_track_each():
    ranks = [
        trace(("comm", 0, 30), ("comm", 10, 40), ("compute", 0, 5), marks=[(0, 60)], rank=rank)
        for rank in range(2)
    ]
    document = merged(*ranks)
    assert [name for name, _, _ in drawn(document, 1, "collectives (2)")] == [
        "bucket 1", "transfer"
    ]  # fmt: skip


def test_moments_keep_their_nanoseconds():
    first, *more = two_ranks()
    ops = first.ops
    at = ops.start_ns + 123
    exact = replace(first, ops=replace(ops, start_ns=at, end_ns=at + 12_345_678_901))
    late = trace(("compute", 10**10, 10**10 + 7), rank=1, marks=[(10**10, 10**10 + 7)])
    events = merged(exact, late)["traceEvents"]
    ends = {event["ts"] + event["dur"] for event in events if event["ph"] == "X"}
    assert Decimal("12345798.901") + Decimal("0.123") in ends
    assert all(isinstance(event["ts"], Decimal) for event in events if event["ph"] == "X")
    assert more


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["compute", "comm", "mem"]), st.integers(0, 60), st.integers(1, 30)
        ),
        min_size=1,
        max_size=12,
    ),
    st.lists(st.integers(-3000, 3000), min_size=3, max_size=3),
)
def test_every_file_keeps_the_rules_of_the_format(rows, ahead_us):
    ranks = [
        trace(
            *((kind, at + ahead, at + ahead + length) for kind, at, length in rows),
            marks=[(ahead, ahead + 200)],
            rank=rank,
        )
        for rank, ahead in enumerate(ahead_us)
    ]
    merged(*ranks, every_kernel=True)


def test_a_drifting_clock_breaks_no_rule():
    """Rank 1 gains 100 µs a second, and its work fills all time without a gap.

    Moved as they are, its rows would lie in each other by what the clock gains while they last.
    """
    rows = [
        (kind, at + start, at + end)
        for at in range(0, 20_000_000, 500_000)
        for kind, start, end in (
            ("compute", 0, 200_000), ("comm", 200_000, 400_000), ("comm", 400_000, 500_000)
        )
    ]  # fmt: skip
    marks = [(at, at + 500_000) for at in range(0, 20_000_000, 500_000)]
    ranks = [trace(*rows, marks=marks, rank=rank) for rank in range(2)]
    document = merged(ranks[0], drifting(ranks[1], 100), every_kernel=True)
    (clock,) = document["otherData"]["clocks"]
    assert (clock["drift_ppb"], clock["applied"]) == (99_990, True)  # in seconds of its own
    ends = [[end for _, _, end in drawn(document, rank, "compute")] for rank in range(2)]
    assert np.abs(np.subtract(*ends)).max() <= 100


def drifting(one, gained_ppm):
    def late(times):
        known = np.where(times == NEVER_NS, 0, times)
        return times + known * gained_ppm // 1_000_000

    ops = one.ops
    return replace(one, ops=replace(ops, start_ns=late(ops.start_ns), end_ns=late(ops.end_ns)))


@given(st.integers(-(10**15), 10**15))
def test_no_digit_is_lost(ns):
    assert Decimal(chrome_events.us(ns)) * 1000 == ns
    assert Decimal(chrome_events.ms(ns)) * 1_000_000 == ns


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), max_size=30))
def test_no_two_rows_of_a_lane_overlap(rows):
    rows = sorted((start, start + length) for start, length in rows)
    start, end = np.array(rows, np.int64).reshape(-1, 2).T
    lane = chrome_events.lanes(start, end)
    for number in range(int(lane.max(initial=0)) + 1):
        assert (start[lane == number][1:] >= end[lane == number][:-1]).all()
    deepest = max((sum(s <= t < e for s, e in rows) for t in range(60)), default=0)
    assert not rows or int(lane.max()) + 1 <= max(deepest, 1) + sum(s == e for s, e in rows)


# --- the command


@pytest.fixture
def folder(tmp_path):
    for rank in range(2):
        plain(rank).write(tmp_path / f"rank{rank}.json")
    return tmp_path


@pytest.mark.parametrize("name", ["run.perfetto.json", "run.perfetto.json.gz"])
def test_the_file_is_written_gzipped_when_its_name_says_so(folder, name):
    done = merge(folder, "-o", name, cwd=folder)
    assert (done.returncode, done.stderr) == (0, f"wrote {name}\n")
    assert done.stdout == (
        "2 ranks, 1 step, 2 collectives\n"
        "clocks, from the ends of collectives; nine of ten end within the spread\n"
        "rank  against  ahead ms  drift ppm  spread ms  collectives\n"
        "   1   rank 0    +0.000          -      0.000            2  not moved\n"
        f"Open {name} in https://ui.perfetto.dev\n"
    )
    data = (folder / name).read_bytes()
    assert data.startswith(b"\x1f\x8b") == name.endswith(".gz")
    chrome_format.check(chrome_format.read(folder / name))


def test_the_same_run_gives_the_same_bytes(folder):
    for name in ("a.json.gz", "b.json.gz"):
        assert merge(folder, "-o", folder / name).returncode == 0
    assert (folder / "a.json.gz").read_bytes() == (folder / "b.json.gz").read_bytes()


@pytest.mark.parametrize("name", ["merged.json", "merged.json.gz"])
def test_a_merged_file_is_no_trace_and_does_not_disturb_those_beside_it(folder, name):
    command = [sys.executable, "-m", "ddptrace", "report", "--json", "-"]
    before = subprocess.run([*command, folder], capture_output=True, text=True, check=True)
    assert merge(folder, "-o", folder / name).returncode == 0
    after = subprocess.run([*command, folder], capture_output=True, text=True, check=True)
    assert after.stdout == before.stdout
    alone = subprocess.run([*command, folder / name], capture_output=True, text=True, check=False)
    refused(alone, "is what `ddptrace merge` wrote for Perfetto; pass the traces it was made from")
    refused(merge(folder / name, "-o", folder / "x.json"), "`ddptrace merge` wrote")
    assert merge(folder, "-o", folder / name).returncode == 0  # and may be written anew


def test_no_file_of_the_run_is_written_over(folder):
    text = (folder / "rank1.json").read_bytes()
    (folder / "manifest.json").write_text('{"ddptrace_manifest": 1}')
    (folder / "link.json.gz").symlink_to(folder / "rank1.json")
    for name in ("rank1.json", "manifest.json", "link.json.gz"):
        refused(merge(folder, "--ranks", "0", "-o", folder / name), "is a file of the run itself")
    assert (folder / "rank1.json").read_bytes() == text


def test_an_output_that_cannot_be_made_is_one_line(folder):
    refused(merge(folder, "-o", folder / "no" / "x.json"), "its folder does not exist; make it")
    refused(merge(folder, "-o", folder), "is a folder; name a file in it")
    refused(merge(folder, "-o", "-"), "give a file")
    refused(merge(folder / "none", "-o", folder / "x.json"), "no such file or folder")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
def test_a_full_disk_is_one_line(folder):
    refused(merge(folder, "-o", "/dev/full"), "/dev/full: cannot be written")
    assert Path("/dev/full").exists()


@pytest.mark.skipif(os.name != "posix", reason="limits are set in a POSIX shell")
def test_a_file_that_could_not_be_written_whole_is_removed(folder):
    command = f"ulimit -f 4; {sys.executable} -m ddptrace merge {folder} -o {folder}/out.json"
    done = subprocess.run(
        ["bash", "-c", f"trap '' XFSZ; {command}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "out.json: cannot be written" in done.stderr
    assert not (folder / "out.json").exists()


def test_a_rank_that_is_not_whole_is_exit_2_unless_that_is_wanted(folder):
    text = (folder / "rank1.json").read_text()
    (folder / "rank1.json").write_text(text[: text.rindex('"name"')])
    assert merge(folder, "-o", folder / "x.json").returncode == 2
    done = merge(folder, "-o", folder / "x.json", "--partial")
    assert done.returncode == 0
    assert "warning" in done.stdout
    chrome_format.check(chrome_format.read(folder / "x.json"))


def test_options_choose_ranks_and_kernels_that_communicate(tmp_path):
    kineto = Kineto(rank=0, world_size=2).step(1, 0, 900)
    kineto.gpu(100, 200).gpu(200, 300, name="my_all_reduce").write(tmp_path / "rank0.json")
    plain(1).write(tmp_path / "rank1.json")
    words = ["--ranks", "0", "--comm-kernel", "my_all", "--kernels", "--jobs", "1"]
    assert merge(tmp_path, "-o", tmp_path / "x.json", *words).returncode == 0
    document = chrome_format.read(tmp_path / "x.json")
    chrome_format.check(document)
    assert {event["pid"] for event in document["traceEvents"]} == {0}
    assert len(drawn(document, 0, "collectives")) == 1


@pytest.mark.parametrize("case", ["healthy", "late-compute-nsys", "two_gpus", "slow-link"])
def test_real_recordings_give_files_that_keep_the_rules(case, tmp_path):
    assert merge(SAMPLES / case, "-o", tmp_path / "x.json.gz", "--kernels").returncode == 0
    document = json.loads(
        gzip.decompress((tmp_path / "x.json.gz").read_bytes()), parse_float=Decimal
    )
    chrome_format.check(document)
    arrows = {event["id"] for event in document["traceEvents"] if event["ph"] == "s"}
    assert len(arrows) > 10
