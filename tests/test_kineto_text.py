"""Text that is written otherwise, or is odd in places, gives the figures of the plain file."""

from __future__ import annotations

import gzip
import json
import struct
import zlib

import pytest
from shapes import assert_plain, document, noisy, steps
from traces import plain

from ddptrace import load_run

# --- text around and between the events


def _sorted_keys(kineto):
    return json.dumps(document(kineto), sort_keys=True)


WRITERS = {
    "indented by 2": lambda k: k.text(),
    "indented by 4": lambda k: k.text(indent=4),
    "one line": lambda k: json.dumps(document(k)),
    "compact": lambda k: json.dumps(document(k), separators=(",", ":")),
    "sorted keys, so args come first": _sorted_keys,
    "sorted and indented": lambda k: json.dumps(document(k), sort_keys=True, indent=4),
    "tabs": lambda k: k.text(indent="\t"),
    "CRLF": lambda k: k.text().replace("\n", "\r\n"),
    "byte order mark": lambda k: "\ufeff" + k.text(),
    "space before": lambda k: " \n" * 100 + k.text(),
    "space behind": lambda k: k.text() + "\n" * 1000,
    "trailing comma": lambda k: k.text().replace("\n  ],", ",\n  ],"),
    "bare list": lambda k: json.dumps(k.events),
    "indented bare list": lambda k: json.dumps(k.events, indent=2),
    "bare list with mark": lambda k: "\ufeff" + json.dumps(k.events),
    "mixed white space": lambda k: (
        '{"traceEvents": ['
        + json.dumps(k.events[:4])[1:-1]
        + " ,\n\n"
        + json.dumps(k.events[4:9], separators=(",", ":"))[1:-1]
        + "\t,"
        + json.dumps(k.events[9:], indent=3)[1:-1]
        + '], "baseTimeNanoseconds": 1700000000000000000}'
    ),
    "facts behind the events": lambda k: json.dumps(
        {"schemaVersion": 1, "traceEvents": k.events} | k.header
    ),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
@pytest.mark.parametrize("size", [0, 14_000], ids=["small", "blocks"])
def test_every_writers_white_space_is_read(tmp_path, write, size):
    text = write(noisy(size) if size else plain())
    assert size == 0 or len(text) > 1 << 20
    assert_plain(tmp_path, text)


def test_every_header_key_may_stand_behind_the_events(tmp_path):
    kineto = plain()
    assert_plain(tmp_path, json.dumps({"traceEvents": kineto.events} | kineto.header))


def test_much_space_may_stand_before_a_bare_list(tmp_path):
    assert_plain(tmp_path, " " * 100 + json.dumps(plain().events))


def test_devices_listed_behind_the_events_are_not_events(tmp_path):
    devices = [{"id": number, "name": "NVIDIA H200"} for number in range(8)]
    text = json.dumps({"traceEvents": plain().events, "deviceProperties": devices})
    assert_plain(tmp_path, text)
    assert load_run(tmp_path).traces[0].facts.device_name == "NVIDIA H200"


@pytest.mark.parametrize("devices", [None, [], {}, [3], [{"id": 0}], [{"id": 0, "name": ["x"]}]])
def test_device_properties_of_any_shape_change_no_figure(tmp_path, devices):
    kineto = plain()
    kineto.header["deviceProperties"] = devices
    assert_plain(tmp_path, kineto.text())


@pytest.mark.parametrize("size", [0, 14_000], ids=["small", "blocks"])
def test_gzip_of_one_and_of_several_members_is_read(tmp_path, size):
    data = noisy(size).text().encode() if size else plain().text().encode()
    assert_plain(tmp_path / "one", gzip.compress(data), "rank0.json.gz")
    pieces = [data[at : at + len(data) // 3] for at in range(0, len(data), len(data) // 3)]
    packed = gzip.compress(b"") + b"".join(map(gzip.compress, pieces))
    assert_plain(tmp_path / "many", packed, "rank0.json.gz")
    assert_plain(tmp_path / "padded", packed + b"\0" * 512, "rank0.json.gz")


def test_gzip_is_told_by_its_bytes_and_not_by_its_name(tmp_path):
    assert_plain(tmp_path / "a", gzip.compress(plain().text().encode()), "rank0.json")
    assert_plain(tmp_path / "b", plain().text(), "rank0.json.gz")


@pytest.mark.parametrize(
    "length",
    [
        (1 << 17) - 2,
        (1 << 17) - 1,
        1 << 17,
        (1 << 17) + 1,
    ],
)
def test_a_gzip_member_may_end_at_any_byte_of_a_chunk(tmp_path, length):
    data = plain().text().encode()
    first, second = data[:2000], data[2000:]
    name = b"n" * (length - len(_member(first, b"")))
    assert_plain(tmp_path, _member(first, name) + _member(second, b""), "rank0.json.gz")


def _member(data, name):
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    body = packer.compress(data) + packer.flush()
    ends = struct.pack("<II", zlib.crc32(data), len(data))
    return b"\x1f\x8b\x08\x08" + b"\0" * 6 + name + b"\0" + body + ends


def test_unsorted_events_are_read(tmp_path):
    kineto = plain()
    kineto.events.reverse()
    assert_plain(tmp_path, kineto.text())


@pytest.mark.parametrize("text", [None, "o" * 1_500_000])
def test_an_event_longer_than_a_block_is_read(tmp_path, text):
    kineto = noisy(3000)
    args = {"big": text} if text else {"big": list(range(300_000))}
    kineto.events.insert(20, kineto.events[0] | {"args": args})
    kineto.events.append(kineto.events[0] | {"args": args})
    assert_plain(tmp_path, kineto.text())


# --- odd text inside one event, in the first, a middle and the last block

ODD_NAMES = {
    "control characters": b"a\nb\tc\x01\x1b",
    "invalid UTF-8": b"a\xff\xfe\xc3(",
    "NUL bytes": b"a\0b\0",
    "Windows path": rb"C:\Users\new\x.py(3)",
    "ends with a backslash": b"C:\\dir\\",
    "quotes": b'say "x", "y"',
    "quotes and a line break": b'lambda "x"\n: 3',
    "lone surrogate": rb"a\ud800b",
    "looks like an event's border": rb"}, {\"ph\": \"X\"",
}


@pytest.mark.parametrize("place", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("name", ODD_NAMES.values(), ids=ODD_NAMES)
def test_an_odd_name_costs_no_figure(tmp_path, name, place):
    kineto = noisy(11_000, cat="python_function")
    odd = {"ph": "X", "cat": "python_function", "name": "ODD", "pid": 1, "tid": 1, "ts": 5}
    kineto.events.insert(int(place * len(kineto.events)), odd | {"dur": 1})
    data = json.dumps(document(kineto)).encode().replace(b"ODD", name)
    assert len(data) > 1 << 20
    assert_plain(tmp_path, data)


@pytest.mark.parametrize("place", [0, 5, 13])
@pytest.mark.parametrize("name", ODD_NAMES.values(), ids=ODD_NAMES)
def test_an_odd_kernel_name_costs_no_figure(tmp_path, name, place):
    text = plain().text().replace('"gemm"', '"ODD"', 1)
    assert_plain(tmp_path, text.encode().replace(b"ODD", name))


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "nan", "-nan(ind)", "inf"])
@pytest.mark.parametrize("cat", ["cpu_op", "kernel"])
def test_numbers_that_json_does_not_have_are_read_as_none(tmp_path, value, cat):
    kineto = plain()
    next(e for e in kineto.events if e["cat"] in (cat, "kernel")).setdefault("args", {})["x"] = "OD"
    kineto.event("cpu_op", "aten::mm", 10, 1, flops="OD")
    assert_plain(tmp_path, kineto.text().replace('"OD"', value))


@pytest.mark.parametrize(
    "cat",
    [
        "cpu_op",
        "python_function",
        "ac2g",
        "Operator",
        "gpu_user_annotation",
        "cuda_sync",
        "overhead",
    ],
)
def test_a_broken_event_that_no_figure_needs_leaves_the_rank_whole(tmp_path, cat):
    kineto = plain().event(cat, "some work", 10, 1, odd="ODD").event("cpu_op", "aten::mm", 20, 1)
    assert_plain(tmp_path, kineto.text().replace("ODD", 'a "b" c'))


def test_quotes_in_the_label_of_a_process_leave_the_rank_whole(tmp_path):
    kineto = plain()
    label = {"ph": "M", "name": "process_name", "pid": kineto.pid, "args": {"name": "ODD"}}
    kineto.events.insert(0, label)
    assert_plain(tmp_path, kineto.text().replace("ODD", 'python "train me".py'))


@pytest.mark.parametrize("cat", ["kernel", "gpu_memcpy"])
def test_a_broken_event_of_the_gpu_makes_the_rank_partial(tmp_path, cat):
    kineto = plain().event(cat, "gemm", 10, 1, odd="ODD").event("cpu_op", "aten::mm", 20, 1)
    (row,) = steps(tmp_path, kineto.text().replace("ODD", 'a "b" c'))
    assert row.partial
    assert row.overlap_ratio is row.hidden_comm_ns is row.exposed_comm_ns is row.idle_ns is None


@pytest.mark.parametrize(
    "odd",
    [
        {"cat": 5},
        {"cat": ["a"]},
        {"cat": None},
        {"name": True},
        {"name": ["a"]},
        {"name": None},
        {"pid": True},
        {"pid": 10**30},
        {"tid": 1.5},
        {"ts": True},
        {"ts": 10**30},
        {"ts": 1e300},
        {"ts": "1e9999999999999999999"},
        {"dur": "1e99999"},
        {"dur": "NaN"},
        {"args": []},
        {"args": "x"},
        {"args": None},
        {"args": {"correlation": [1], "stream": {}}},
        {"args": {"device": True}},
        {"ph": None},
        {"ph": "("},
        {"ph": 5},
        {"ph": "complete"},
    ],
    ids=json.dumps,
)
def test_a_field_of_an_unexpected_type_costs_no_figure(tmp_path, odd):
    kineto = plain().event("cpu_op", "aten::mm", 10, 1)
    kineto.events.insert(3, kineto.events.pop() | odd)
    assert_plain(tmp_path, kineto.text())


@pytest.mark.parametrize("field", ["dur", "cat", "args", "name", "pid", "tid", "ts", "ph"])
def test_an_event_may_lack_any_field(tmp_path, field):
    kineto = plain().event("cpu_op", "aten::mm", 10, 1, depth=2)
    del kineto.events[-1][field]
    assert_plain(tmp_path, kineto.text())


@pytest.mark.parametrize(
    "value",
    ["[" * 20_000 + "]" * 20_000, "9" * 5000],
    ids=["deep", "long number"],
)
def test_an_argument_beyond_any_limit_costs_no_figure(tmp_path, value):
    kineto = plain().event("cpu_op", "aten::mm", 10, 1, odd="ODD")
    kineto.events.insert(3, kineto.events.pop())
    deep = kineto.text().replace('"ODD"', value)
    if value.isdecimal():
        deep = deep.replace('"ts": 10,', f'"ts": {value},')
    assert_plain(tmp_path, deep)
