"""Bad input through the command line: one line, exit code 2, no traceback, no NaN."""

from __future__ import annotations

import gzip
import json
import os
import sys

import pytest
from commands import (
    ARRAY_END,
    NULL_WHEN_PARTIAL,
    TEXT,
    assert_refused,
    pair,
    quick,
    report,
    two_steps,
)
from traces import Kineto, plain

# --- what is no trace

NO_TRACES = {
    "empty": b"",
    "spaces": b"  \n\t " * 50,
    "NUL bytes": b"\0" * 1000,
    "brace": b"{",
    "bracket": b"[",
    "no events": b'{"traceEvents": []}',
    "null events": b'{"traceEvents": null}',
    "events of no kind": b'{"traceEvents": [null, 1, "a", []]}',
    "array left open": b'{"traceEvents": [',
    "event left open": b'{"traceEvents": [{"ph": "X"',
    "header only": b'{"schemaVersion": 1, "deviceProperties": [{"id"',
    "text": b"hello",
    "number": b"42",
    "null": b"null",
    "string": b'"x"',
    "list of numbers": b"[1, 2, 3]",
    "package": b'{"name": "web", "version": "1.0.0", "dependencies": {}}',
    "garbage": bytes(range(256)) * 20,
    "image": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(200)),
    "UTF-16": plain().text().encode("utf-16"),
    "gzip of garbage": b"\x1f\x8b" + bytes(range(200, 256)) * 9,
    "gzip of nothing": gzip.compress(b""),
    "deep brackets": b"[" * 100_000,
    "execution trace": b'{"schema": "1.1.1-chakra.0.0.4", "pid": 3, "nodes": [{"id": 1}]}',
}


@pytest.mark.parametrize("data", NO_TRACES.values(), ids=NO_TRACES)
def test_a_lone_file_that_is_no_trace_is_refused(tmp_path, monkeypatch, data):
    (tmp_path / "rank0.json").write_bytes(data)
    assert_refused(quick(monkeypatch, tmp_path), "rank0.json")
    assert_refused(quick(monkeypatch, tmp_path / "rank0.json", "--json", "-"), "rank0.json")


def test_braces_without_end_are_refused(tmp_path, monkeypatch):
    (tmp_path / "rank0.json").write_bytes(b'{"a":' * 100_000)
    assert_refused(quick(monkeypatch, tmp_path), "rank0.json")


def test_an_execution_trace_is_told_by_its_name(tmp_path):
    (tmp_path / "rank0.json").write_bytes(NO_TRACES["execution trace"])
    assert_refused(report(tmp_path), "execution trace")


def chrome(process, *names):
    """State another program's Chrome trace."""
    label = {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": process}}
    spans = [{"ph": "X", "name": n, "pid": 1, "tid": 1, "ts": 5, "dur": 1} for n in names]
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": [label, *spans]})


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("TensorFlow", chrome("/device:GPU:0", "tf_Compute", "TensorFlow Ops", "MatMul")),
        ("JAX", chrome("/device:GPU:0", "jit(train_step)", "PjitFunction(f)")),
        ("not one of PyTorch", chrome("Browser", "v8.compile", "paint")),
    ],
)
@pytest.mark.parametrize("name", ["rank0.json", "host.trace.json.gz"])
def test_other_profilers_traces_are_told_by_their_name(tmp_path, monkeypatch, word, text, name):
    data = text.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    assert_refused(quick(monkeypatch, tmp_path), word, name)


OTHERS = {
    "package.json": b'{"name": "web", "version": "1.0.0"}',
    "config.json": b'{"lr": 0.1, "layers": [{"id": 1}, {"id": 2}]}',
    "a.json": b'"text"',
    "b.json": b"42",
    "c.json": b"null",
    "d.json": b"{}",
    "tf.trace.json": chrome("/device:GPU:0", "tf_Compute").encode(),
}
NOT_LEFT_OUT = {
    "numbers.json": b"[1, 2, 3]",
    "objects.json": b'[{"a": 1}, {"a": 2}]',
    "empty_list.json": b"[]",
    "image.json": b'{"schemaVersion": 2, "mediaType": "x", "layers": []}',
}


@pytest.mark.parametrize(
    "name",
    [
        *OTHERS,
        *(
            pytest.param(
                name,
            )
            for name in NOT_LEFT_OUT
        ),
    ],
)
def test_other_peoples_json_beside_traces_is_left_out_and_said(tmp_path, monkeypatch, name):
    (pair(tmp_path) / name).write_bytes((OTHERS | NOT_LEFT_OUT)[name])
    done = quick(monkeypatch, tmp_path, "--json", "-")
    assert done.returncode == 0
    run = json.loads(done.stdout)["run"]
    assert (run["ranks"], run["unreadable"]) == ([0, 1], [])
    assert any(name in warning["message"] for warning in run["warnings"])


@pytest.mark.parametrize("name", OTHERS)
def test_other_peoples_json_that_was_named_is_unreadable(tmp_path, monkeypatch, name):
    (pair(tmp_path) / name).write_bytes(OTHERS[name])
    done = quick(monkeypatch, *sorted(tmp_path.iterdir()), "--json", "-")
    assert done.returncode == 2
    assert name in "".join(json.loads(done.stdout)["run"]["unreadable"])


def test_an_empty_file_beside_whole_ranks_is_an_unreadable_rank(tmp_path):
    (pair(tmp_path) / "rank2.json").write_bytes(b"")
    done = report(tmp_path)
    assert done.returncode == 2
    assert "rank2.json" in done.stdout


# --- several writers on one path


def _interleaved():
    a, b = plain(0).text(), plain(1).text()
    pieces = [text[at : at + 700] for at in range(0, len(a), 700) for text in (a, b)]
    return "".join(pieces)


def _overwritten():
    """State a long trace whose front a second rank overwrote with its own, shorter one."""
    long = two_steps(1).text()
    short = plain(0).text()
    return short + long[len(short) :]


@pytest.mark.parametrize(
    "text",
    [
        _interleaved(),
        plain(0).text() + plain(1).text(),
        plain(0).text(indent=None) + "\n" + plain(1).text(indent=None),
        json.dumps(plain(0).events) + json.dumps(plain(1).events),
        _overwritten(),
    ],
    ids=["interleaved", "concatenated", "two lines", "two bare lists", "overwritten"],
)
def test_several_ranks_that_wrote_to_one_path_are_refused(tmp_path, monkeypatch, text):
    (tmp_path / "trace.json").write_text(text)
    assert_refused(quick(monkeypatch, tmp_path), "one path", "trace.json")


def test_two_files_that_claim_one_rank_are_refused(tmp_path):
    plain(0).write(tmp_path / "a.json")
    plain(0).write(tmp_path / "b.json")
    assert_refused(report(tmp_path), "a.json", "b.json", "two files for rank 0")


# --- the GPU's part is missing


def test_launches_without_kernels_are_refused_with_the_count(tmp_path, monkeypatch):
    kineto = Kineto().step(5, 0, 1000)
    for number in range(12):
        kineto.event("cuda_runtime", "cudaLaunchKernel", 10 + number, 1, correlation=number + 1)
    kineto.write(tmp_path / "rank0.json")
    assert_refused(quick(monkeypatch, tmp_path), "rank 0: 12 kernel launches", "CUPTI")


def test_nccl_ranges_without_any_kernel_are_refused(tmp_path, monkeypatch):
    kineto = Kineto().step(5, 0, 1000).event("cpu_op", "aten::mm", 10, 10)
    kineto.event("user_annotation", "nccl:all_reduce", 30, 10)
    kineto.write(tmp_path / "rank0.json")
    assert_refused(quick(monkeypatch, tmp_path), "no GPU kernels")


def test_collective_calls_without_comm_kernels_leave_communication_unknown(tmp_path, monkeypatch):
    """Compute 500 + 50 µs, two all-reduce calls on the host: unknown, not 0 and not 360."""
    kineto = Kineto().step(5, 0, 1000).gpu(100, 600).gpu(800, 850)
    for start in (200, 500):
        kineto.event("user_annotation", "nccl:all_reduce", start, 180)
    kineto.write(tmp_path / "rank0.json")
    done = quick(monkeypatch, tmp_path, "--json", "-")
    (row,) = json.loads(done.stdout)["steps"]
    assert row["compute_ns"] == 550_000
    assert {row[key] for key in (*NULL_WHEN_PARTIAL, "comm_ns")} == {None}
    assert "2 collective calls" in done.stdout


# --- arguments


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--step", "99"], ["99", "5"]),
        (["--step", "x"], ["--step"]),
        (["--step", ""], ["--step"]),
        (["--step", "1.5"], ["--step"]),
        (["--ranks", "9"], ["9", "0-1"]),
        (["--ranks", "a"], ["--ranks"]),
        (["--ranks", ""], ["--ranks"]),
        (["--ranks", "0-"], ["--ranks"]),
        (["--ranks", "-1"], ["--ranks"]),
        (["--comm-kernel", "("], ["--comm-kernel", "regular expression"]),
        (["--comm-kernel", "a", "--comm-kernel", "*"], ["--comm-kernel"]),
        (["--json", "/nowhere/x.json"], ["/nowhere/x.json"]),
        (["--html", "/nowhere/x.html"], ["/nowhere/x.html"]),
        (["--json", "/"], ["/"]),
        (["--html", "/"], ["/"]),
    ],
    ids=" ".join,
)
def test_an_option_that_cannot_be_used_is_refused(tmp_path, monkeypatch, options, words):
    assert_refused(quick(monkeypatch, pair(tmp_path), *options), *words)


def test_a_range_of_ranks_that_runs_backwards_is_refused(tmp_path, monkeypatch):
    assert_refused(quick(monkeypatch, pair(tmp_path), "--ranks", "3-1"), "rank")


@pytest.mark.parametrize("where", ["empty folder", "nowhere", "nowhere/*.json", ""])
def test_a_path_without_traces_is_refused(tmp_path, monkeypatch, where):
    (tmp_path / "empty folder").mkdir()
    (tmp_path / "empty folder" / "notes.txt").write_text("x")
    monkeypatch.chdir(tmp_path)
    assert_refused(quick(monkeypatch, where))


def test_a_folder_of_nsys_reports_is_told(tmp_path, monkeypatch):
    (tmp_path / "rank0.nsys-rep").write_bytes(b"x")
    assert_refused(quick(monkeypatch, tmp_path), "Nsight Systems")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_refused(tmp_path, monkeypatch):
    path = plain().write(tmp_path / "rank0.json")
    path.chmod(0)
    assert_refused(quick(monkeypatch, path), "rank0.json", "permission")


# --- standard output


@pytest.mark.parametrize("options", [[], ["--timeline"], ["--partial"], ["--step", "5"]])
def test_json_on_standard_output_stands_alone_beside_warnings(tmp_path, options):
    plain(0).write(tmp_path / "rank0.json")
    (tmp_path / "rank1.json").write_bytes(TEXT[: ARRAY_END * 2 // 3])
    (tmp_path / "package.json").write_text("{}")
    done = report(tmp_path, "--json", "-", *options)
    found = json.loads(done.stdout)
    assert found["schema"] == 1
    assert found["run"]["warnings"]


@pytest.mark.skipif(sys.platform != "linux", reason="names of any bytes exist on Linux")
def test_json_is_written_for_a_file_name_that_is_not_utf_8(tmp_path, monkeypatch):
    plain(0).write(tmp_path / "a.json").rename(os.fsdecode(os.fsencode(tmp_path) + b"/a\xff.json"))
    (tmp_path / "b.json").write_bytes(TEXT[:3000])
    bad = os.fsdecode(os.fsencode(tmp_path) + b"/c\xff.json")
    (tmp_path / "b.json").rename(bad)
    json.loads(quick(monkeypatch, tmp_path, "--json", "-", "--partial").stdout)


def test_a_module_run_as_a_process_reports(tmp_path):
    done = report(pair(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert "0.10" in done.stdout
