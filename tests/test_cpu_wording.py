"""What is said of runs without a GPU speaks of their hosts."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from jobs import MB, backward, both, bucket, forward
from ranks import report
from test_stragglers import steps

from ddptrace.outputs.said import said

OF_GPU = re.compile(r"\b(its GPU|GPU clock|GPUs?' |kernels?|NVLink|RDMA|NCCL_\w+)\b")

HEALTHY = both(
    forward(0, 40_000),
    *(backward(at, at + 1000) for at in range(40_000, 90_000, 1000)),
    bucket(50_000, 55_000, 50_000, MB),
    marks=[(0, 90_000)],
)
SLOW = both(
    forward(0, 10_000),
    backward(10_000, 20_000),
    bucket(12_000, 60_000, 12_000, 25 * MB),
    bucket(60_000, 90_000, 13_000, 12 * MB),
    marks=[(0, 90_000)],
)
ALONE = both(forward(0, 40_000), marks=[(0, 40_000)])
TAIL = both(
    forward(0, 40_000),
    *(backward(40_000 + at, 41_000 + at) for at in range(0, 9000, 1000)),
    backward(49_000, 90_000),
    bucket(50_000, 55_000, 50_000, MB),
    marks=[(0, 90_000)],
)


def spoken(traces, device):
    """Return all that a report says of its findings."""
    renamed = (replace(one, names=("aten::mm", *one.names[1:])) for one in traces)
    made = report(*(replace(one, device=device) for one in renamed))
    advice = [f"{one.code}: {one.advice}" for one in made.diagnosis.findings]
    return made, "\n".join([made.diagnosis.headline, *advice, *said(made)])


@pytest.mark.parametrize(
    ("traces", "code", "word"),
    [
        (HEALTHY, "compute_bound", "look at the operators"),
        (TAIL, "compute_tail", "the last operator of backward"),
        (ALONE, "no_communication", "look at the operators of each rank"),
        (SLOW, "comm_bandwidth", "GLOO_SOCKET_IFNAME"),
        (steps((0, 0), (0, 3000)), "straggler", "its host computes longer"),
        (steps((0, 0), (0, 3000), kind="input"), "straggler", "computes nothing at the start"),
        (steps((0, 0), (0, 3000), kind="host"), "straggler", "busy outside of its operators"),
    ],
)
def test_a_run_on_the_host_is_spoken_of_without_a_gpu(traces, code, word):
    made, text = spoken(traces, "host")
    assert code in [one.code for one in made.diagnosis.findings]
    assert word in text
    assert OF_GPU.findall(text) == []


@pytest.mark.parametrize(
    ("traces", "word"),
    [
        (HEALTHY, "look at the kernels"),
        (SLOW, "NCCL uses NVLink"),
        (steps((0, 0), (0, 3000)), "its GPU computes longer"),
    ],
)
def test_a_run_on_gpus_is_spoken_of_with_them(traces, word):
    assert word in spoken(traces, "gpu")[1]
