"""How an exported trace becomes the file of a recording."""

import gzip
import json

import pytest

from ddptrace_capture import trace_file
from ddptrace_capture.trace_file import StepMark, finish

EXPORTED = """{
  "schemaVersion": 1,
  "baseTimeNanoseconds": 1000000000,
  "traceEvents": [
  {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 5.000, "dur": 1.000}
  ],
  "traceName": "/home/somebody/.rank0.plain"
}"""


def finished(tmp_path, text, marks=()):
    plain, target = tmp_path / "plain", tmp_path / "rank0.pt.trace.json.gz"
    plain.write_text(text)
    finish(plain, target, marks, (41, 42), {"part": "full", "rank": 0})
    assert {path.name for path in tmp_path.iterdir()} == {"plain", target.name}
    return json.loads(gzip.decompress(target.read_bytes()))


def test_the_steps_are_marked_on_the_clock_of_the_trace(tmp_path):
    marks = [StepMark(22, 1_000_004_321, 1_000_009_000), StepMark(23, 1_000_009_000, 1_002_000_001)]
    document = finished(tmp_path, EXPORTED, marks)
    assert document["traceEvents"][:2] == [
        {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#22", "pid": 41, "tid": 42,
         "ts": 4.321, "dur": 4.679},
        {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#23", "pid": 41, "tid": 42,
         "ts": 9.0, "dur": 1991.001},
    ]  # fmt: skip
    assert document["traceEvents"][2]["name"] == "k"


def test_a_mark_before_the_base_has_a_negative_stamp(tmp_path):
    document = finished(tmp_path, EXPORTED, [StepMark(0, 999_999_500, 1_000_000_500)])
    assert (document["traceEvents"][0]["ts"], document["traceEvents"][0]["dur"]) == (-0.5, 1.0)


def test_the_rank_is_told_and_the_folder_it_was_made_in_is_not(tmp_path):
    document = finished(tmp_path, EXPORTED)
    assert document["ddptrace"] == {"part": "full", "rank": 0}
    assert document["traceName"] == "rank0.pt.trace.json"


@pytest.mark.parametrize(
    "text", ['{"traceEvents": [\n]}', '{"baseTimeNanoseconds": 5}', '{"traceEvents":[]}', ""]
)
def test_another_layout_is_kept_as_it_is(tmp_path, text):
    plain, target = tmp_path / "plain", tmp_path / "rank0.json.gz"
    plain.write_text(text)
    finish(plain, target, [StepMark(1, 0, 1)], (1, 1), {})
    assert gzip.decompress(target.read_bytes()).decode() == text


def test_a_file_of_many_blocks_is_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(trace_file, "_BLOCK_BYTES", 100)
    monkeypatch.setattr(trace_file, "_HEAD_BYTES", 100)
    monkeypatch.setattr(trace_file, "_TAIL_BYTES", 150)
    event = '{"ph": "X", "cat": "kernel", "name": "k", "ts": 5.000, "dur": 1.000},'
    text = EXPORTED.replace("[\n", "[\n" + event * 50)
    document = finished(tmp_path, text, [StepMark(3, 1_000_000_000, 1_000_000_001)])
    assert len(document["traceEvents"]) == 52
    assert document["traceName"] == "rank0.pt.trace.json"
