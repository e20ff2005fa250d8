"""Every shape of Kineto JSON seen in real files gives the figures of the plain file."""

from __future__ import annotations

import gzip
import json
import struct
import zlib

import pytest
from traces import Kineto, plain

from ddptrace import analyze, load_run

# `plain()`: step 5 is [0, 860) µs; its picture and its arithmetic stand in traces.py.
PLAIN = {
    "step": 5,
    "step_ns": 860_000,
    "compute_ns": 640_000,
    "compute_span_ns": 760_000,
    "comm_ns": 310_000,
    "hidden_comm_ns": 210_000,
    "exposed_comm_ns": 100_000,
    "mem_ns": 0,
    "exposed_mem_ns": 0,
    "idle_ns": 120_000,
    "overlap_ratio": 210 / 310,
    "tail_ns": 100_000,
    "comm_kernels": 2,
    "compute_kernels": 4,
    "partial": False,
}
BASE_NS = 1_700_000_000_000_000_000
BASE_US = BASE_NS // 1000


def steps(folder, text, name="rank0.json", **options):
    """Read one file's text or bytes and return its rows."""
    folder.mkdir(exist_ok=True)
    data = text if isinstance(text, bytes) else text.encode()
    (folder / name).write_bytes(data)
    return analyze(load_run(folder, **options)).steps


def figures(row):
    return {name: getattr(row, name) for name in PLAIN}


def assert_plain(folder, text, name="rank0.json"):
    assert [figures(row) for row in steps(folder, text, name)] == [PLAIN]


def document(kineto):
    return kineto.header | {"traceEvents": kineto.events, "traceName": "rank.json"}


def each(kineto, change):
    """Change every event in place."""
    for event in kineto.events:
        change(event)
    return kineto


def noisy(count, cat="cpu_op"):
    """State the plain file with many host events; the GPU's work stands in the middle."""
    kineto, noise = plain(), Kineto()
    for number in range(count):
        noise.event(cat, f"aten::op{number % 50}", number % 900, 1, tid=1, index=number)
    half = count // 2
    kineto.events = noise.events[:half] + kineto.events + noise.events[half:]
    return kineto


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
    assert "no_common_clock" in {warning.code for warning in report.run.warnings}


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
    "without outer bracket": lambda k: k.text().rstrip().removesuffix("}"),
    "bare list": lambda k: json.dumps(k.events),
    "indented bare list": lambda k: json.dumps(k.events, indent=2),
    "bare list with mark": lambda k: "\ufeff" + json.dumps(k.events),
    "bare list left open": lambda k: json.dumps(k.events)[:-1],
    "bare list left open after a comma": lambda k: json.dumps(k.events)[:-1] + ",\n",
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


# --- ids and lanes


def _ids(convert):
    def change(event):
        if "correlation" in event.get("args", {}):
            event["args"]["correlation"] = convert(event["args"]["correlation"])

    return change


ID_SPELLINGS = {
    "text": str,
    "hex": hex,
    "33 bits": lambda number: number + (1 << 32),
    "54 bits": lambda number: number + (1 << 53) + 1,
    "63 bits": lambda number: number + (1 << 62),
    "float": float,
}


@pytest.mark.parametrize(
    ("spelling", "mixed"),
    [
        *((spelling, False) for spelling in [*ID_SPELLINGS][:-1]),
        *((spelling, True) for spelling in [*ID_SPELLINGS][:-2]),
        *(
            pytest.param(
                *case,
            )
            for case in (("63 bits", True), ("float", False), ("float", True))
        ),
    ],
)
def test_correlation_ids_of_any_kind_join_launch_and_kernel(tmp_path, spelling, mixed):
    kineto = each(plain(), _ids(ID_SPELLINGS[spelling]))
    if mixed:
        kineto.event("cuda_runtime", "cudaDeviceSynchronize", 2, 1)
        kineto.events.insert(1, kineto.events.pop())
    assert_plain(tmp_path, kineto.text())


def test_pid_and_tid_may_be_text(tmp_path):
    def change(event):
        event["pid"], event["tid"] = f"pid {event['pid']}", f"thread {event['tid']}"

    assert_plain(tmp_path, each(plain(), change).text())


@pytest.mark.parametrize("convert", [str, hex, lambda n: None, lambda n: 4294967295 - n])
def test_streams_may_be_text_or_missing(tmp_path, convert):
    def change(event):
        if event["cat"] == "kernel":
            event["args"]["stream"] = convert(event["args"]["stream"])

    assert_plain(tmp_path, each(plain(), change).text())


def test_events_of_other_kinds_are_ignored(tmp_path):
    kineto = plain()
    kineto.events += [
        {"ph": "M", "name": "process_name", "pid": "Spans", "tid": 0, "args": {"name": "Spans"}},
        {"ph": "M", "name": "process_sort_index", "pid": "", "args": {"sort_index": 5}},
        {"ph": "M", "name": "thread_name", "pid": 0, "tid": 7, "args": {"name": "stream 7"}},
        {"ph": "i", "s": "g", "name": "Iteration Start", "pid": "Traces", "tid": "x", "ts": 0},
        {"ph": "s", "id": 3, "cat": "ac2g", "name": "ac2g", "pid": 1, "tid": 1, "ts": 1},
        {"ph": "f", "id": 3, "bp": "e", "cat": "ac2g", "name": "ac2g", "pid": 0, "ts": 1},
        {"ph": "C", "name": "memory", "pid": 1, "ts": 1, "args": {"bytes": 3}},
        {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "P"}
        | {"ts": 0, "dur": 1000},
    ]
    assert_plain(tmp_path, kineto.text())


CAPITALS = {
    "kernel": "Kernel",
    "cuda_runtime": "Runtime",
    "cpu_op": "Operator",
    "user_annotation": "User_Annotation",
}


@pytest.mark.parametrize("chosen", [*CAPITALS, "all"])
def test_categories_in_capitals_are_the_same(tmp_path, chosen):
    names = CAPITALS if chosen == "all" else {chosen: CAPITALS[chosen]}
    kineto = plain().event("cpu_op", "aten::mm", 10, 1)
    assert_plain(
        tmp_path, each(kineto, lambda e: e.update(cat=names.get(e["cat"], e["cat"]))).text()
    )


@pytest.mark.parametrize("cat", ["cuda_driver", "Driver", "hip_runtime"])
def test_calls_of_every_library_launch(tmp_path, cat):
    def change(event):
        if event["cat"] == "cuda_runtime":
            event.update(cat=cat, name="cuLaunchKernelEx")

    assert_plain(tmp_path, each(plain(), change).text())


def test_a_mark_filed_as_an_operator_is_a_mark(tmp_path):
    kineto = plain()
    kineto.events[0]["cat"] = "Operator"
    assert_plain(tmp_path, kineto.text())


def test_marks_on_gpu_and_python_lanes_are_not_marks_again(tmp_path):
    kineto = plain()
    kineto.event("gpu_user_annotation", "ProfilerStep#5", 100, 760, pid=0, tid=7)
    kineto.event("python_function", "ProfilerStep#5", 0, 1000)
    kineto.event("cpu_op", "ProfilerStep#5", 1, 3)
    assert_plain(tmp_path, kineto.text())


def test_annotations_and_synchronisations_on_the_gpu_are_no_work(tmp_path):
    kineto = plain()
    kineto.event("gpu_user_annotation", "nccl:all_reduce", 450, 150, pid=0, tid=28)
    kineto.event("gpu_user_annotation", "forward", 0, 5000, pid=0, tid=7)
    kineto.event("cuda_sync", "Stream Wait Event", 0, 3000, pid=0, tid=7, stream=7, correlation=99)
    kineto.event("cuda_sync", "Context Synchronize", 700, 200, pid=0, tid=7, device=0)
    kineto.event("overhead", "CUPTI resource initialisation", 0, 3000, pid=-1, tid=0)
    assert_plain(tmp_path, kineto.text())


def test_launches_on_another_thread_belong_to_the_step(tmp_path):
    def change(event):
        if event["cat"] == "cuda_runtime":
            event["tid"] = 77

    assert_plain(tmp_path, each(plain(), change).text())


def test_the_earliest_call_of_an_id_is_the_launch(tmp_path):
    """Step 5's kernel has a second call with its id inside step 6; its launch is the first."""
    kineto = Kineto().step(5, 0, 100).step(6, 100, 200).gpu(120, 150, launch=50)
    kineto.event("cuda_driver", "cuLaunchKernel", 110, 2, correlation=1)
    kineto.events.reverse()
    rows = steps(tmp_path, kineto.text())
    assert [(row.step, row.compute_ns) for row in rows] == [(5, 30_000)]


# --- what a row of the GPU is


def one_kernel(tmp_path, name, cat="kernel", **args):
    """Read a step with one compute kernel of 100 µs and, beside it, one of 50 µs to classify."""
    kineto = Kineto(world_size=1).step(5, 0, 1000).gpu(100, 200)
    kineto.gpu(300, 350, name=name, cat=cat, stream=9, **args)
    (row,) = steps(tmp_path, kineto.text())
    return {
        "compute": row.compute_ns - 100_000,
        "comm": row.comm_ns,
        "mem": row.mem_ns,
    }


@pytest.mark.parametrize(
    "name",
    [
        "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)",
        "ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)",
        "ncclSymkDevKernel_AllReduce_RSxLD_AGxST_sum_f32(ncclSymkDevWorkArgs)",
        "ncclSymDevKernel_AllGather_LL(ncclSymDevArgs)",
        "ncclAllReduceRingLLKernel_sum_f32(ncclColl)",
        "void ncclKernel_AllReduce<float>(ncclWork*)",
        "NCCLDEVKERNEL_ALLREDUCE",
        "rcclGenericKernel<1, false>(ncclDevComm*)",
        "mscclKernel_Sum_float_LL_false",
    ],
)
def test_kernels_of_collective_libraries_are_comm(tmp_path, name):
    assert one_kernel(tmp_path, name) == {"compute": 0, "comm": 50_000, "mem": 0}


@pytest.mark.parametrize(
    "name",
    [
        "my_nccl_like_gemm(float*)",
        "void at::native::nccl_free_elementwise<float>(int)",
        "triton_poi_fused_nccl_0",
        "void gemm<ncclTag>(float*)",
        "_Z14gemm_with_ncclPf",
    ],
)
def test_a_compute_kernel_with_nccl_inside_its_name_is_compute(tmp_path, name):
    assert one_kernel(tmp_path, name) == {"compute": 50_000, "comm": 0, "mem": 0}


def test_what_carries_collective_metadata_is_comm(tmp_path):
    told = {"Collective name": "allreduce", "In msg nelems": 4}
    assert one_kernel(tmp_path, "custom_kernel", **told)["comm"] == 50_000


@pytest.mark.parametrize("cat", ["gpu_memcpy", "gpu_memset", "Memcpy", "Memset", "memcpy"])
def test_copies_and_sets_are_mem(tmp_path, cat):
    got = one_kernel(tmp_path, "Memcpy DtoH (Device -> Pinned)", cat=cat)
    assert got == {"compute": 0, "comm": 0, "mem": 50_000}


@pytest.mark.parametrize("which", [(), (0,), (1,), (0, 1)])
def test_collective_metadata_on_none_some_and_all_kernels_gives_the_same_figures(tmp_path, which):
    kineto = plain()
    comm = [e for e in kineto.events if e["name"].startswith("nccl")]
    for place in which:
        comm[place]["args"] |= {"Collective name": "allreduce", "In msg nelems": 9}
        comm[place]["name"] = "ncclDevKernel_Generic(ncclDevKernelArgs)"
    assert_plain(tmp_path, kineto.text())


# --- odd times


@pytest.mark.parametrize(
    ("ts", "dur"), [(0, 0), (300, -5), (-5, -1), (300, None), (None, 5)], ids=str
)
def test_an_operation_without_usable_times_is_dropped_and_counted(tmp_path, ts, dur):
    kineto = plain().event("kernel", "gemm", ts, dur, pid=0, stream=7, device=0, correlation=1)
    assert_plain(tmp_path, kineto.text())
    (trace,) = load_run(tmp_path).traces
    (said,) = [warning for warning in trace.warnings if warning.code == "dropped_events"]
    assert "1 GPU operation" in said.message


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


# --- several processes in one file


def merged(*ranks, label="RANK {}"):
    whole = Kineto(rank=None)
    for rank in ranks:
        part = each(plain(rank), lambda e, pid=5000 + rank: e.update(pid=pid))
        name = {"ph": "M", "name": "process_name", "pid": 5000 + rank, "tid": 0, "ts": 0}
        whole.events += [name | {"args": {"name": label.format(rank)}}, *part.events]
    return whole


@pytest.mark.parametrize("label", ["RANK {}", "rank {}", "Rank: {}", "[rank{}] python"])
def test_ranks_merged_into_one_file_are_read_apart(tmp_path, label):
    rows = steps(tmp_path, merged(0, 1, 2, label=label).text(), "merged.json")
    assert [row.rank for row in rows] == [0, 1, 2]
    assert [figures(row) for row in rows] == [PLAIN] * 3


def test_processes_without_a_rank_in_their_label_are_refused(tmp_path):
    with pytest.raises(Exception, match="2 processes"):
        steps(tmp_path, merged(0, 1, label="python").text(), "merged.json")


def test_host_processes_without_a_rank_in_their_label_are_refused(tmp_path):
    kineto = Kineto(rank=None)
    for pid in (1, 2):
        kineto.event("cpu_op", "aten::mm", 0, 100, pid=pid, tid=pid)
        kineto.event("user_annotation", "gloo:all_reduce", 100, 50, pid=pid, tid=pid)
    with pytest.raises(Exception, match="2 processes"):
        steps(tmp_path, kineto.text(), "merged.json")


def test_several_gpus_of_one_process_are_one_rank(tmp_path):
    """GPU 0 computes [100, 300), GPU 1 [200, 500): one rank is busy for 400 µs."""
    kineto = Kineto(world_size=1).step(5, 0, 1000).gpu(100, 300, device=0).gpu(200, 500, device=1)
    kineto.events[-1]["pid"] = 1
    (row,) = steps(tmp_path, kineto.text())
    assert row.compute_ns == 400_000


@pytest.mark.parametrize(
    "header",
    [
        {"distributedInfo": [1]},
        {"distributedInfo": {"rank": "0", "world_size": "2"}},
        {"distributedInfo": {"rank": None}},
        {"distributedInfo": {"rank": -1, "world_size": 0}},
        {"baseTimeNanoseconds": "x"},
        {"baseTimeNanoseconds": None},
        {"baseTimeNanoseconds": 1.7e18},
        {"baseTimeNanoseconds": 10**25},
    ],
    ids=json.dumps,
)
def test_a_header_of_unexpected_types_costs_no_figure(tmp_path, header):
    kineto = plain()
    kineto.header |= header
    assert_plain(tmp_path, kineto.text())
