"""The plain file's figures, and ways to state a file of another shape that must have them."""

from __future__ import annotations

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
