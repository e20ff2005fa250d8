"""The sizes of gradients, from the shapes that torch.profiler records."""

from __future__ import annotations

import pytest
from traces import Kineto, plain

from ddptrace import load_run

NAME = "torch::autograd::AccumulateGrad"


def gradients(tmp_path, *shapes):
    kineto = plain()
    for number, args in enumerate(shapes):
        kineto.event("cpu_op", NAME, 300 - number, 1, tid=9, **args)
    kineto.write(tmp_path / "rank0.json")
    (trace,) = load_run(tmp_path).traces
    return trace.gradients


def shaped(*shape, kind="float"):
    return {"Input Dims": [list(shape)], "Input type": [kind]}


def test_a_gradient_has_its_elements_times_their_size_in_order_of_time(tmp_path):
    found = gradients(tmp_path, shaped(32, 10), shaped(7), shaped(6, kind="c10::BFloat16"))
    assert found is None  # an unknown type: then nothing is known of the sum
    found = gradients(tmp_path, shaped(32, 10), shaped(7), shaped(6, kind="half"), shaped())
    assert found.size_bytes.tolist() == [4, 12, 28, 1280]
    assert [found.elements[code] for code in found.element] == ["float", "half", "float", "float"]
    assert (found.start_ns[1:] > found.start_ns[:-1]).all()


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"Input Dims": [[3]]},
        {"Input Dims": [], "Input type": []},
        {"Input Dims": "[3]", "Input type": ["float"]},
        {"Input Dims": [[3, -1]], "Input type": ["float"]},
        {"Input Dims": [[3, "x"]], "Input type": ["float"]},
        {"Input Dims": [[1 << 40, 1 << 40]], "Input type": ["float"]},
        {"Input Dims": [3], "Input type": ["float"]},
        {"Input Dims": [[3]], "Input type": [None]},
        {"Input Dims": {"a": 1}, "Input type": 7},
    ],
)
def test_one_gradient_of_unknown_size_makes_all_useless(odd, tmp_path):
    assert gradients(tmp_path, shaped(3), odd) is None


def test_other_operators_have_shapes_that_nobody_reads(tmp_path):
    kineto = plain()
    kineto.event("cpu_op", "aten::mm", 300, 1, **{"Input Dims": [["odd"], 3], "Input type": 5})
    kineto.write(tmp_path / "rank0.json")
    (trace,) = load_run(tmp_path).traces
    assert trace.gradients is None


def test_each_rank_of_a_merged_file_has_its_own(tmp_path):
    kineto = Kineto(rank=None)
    for rank in (0, 1):
        other = plain(rank)
        label = {"ph": "M", "name": "process_labels", "pid": other.pid}
        kineto.events.append(label | {"tid": 0, "args": {"labels": f"RANK {rank}"}})
        for event in other.events:
            kineto.events.append(event | ({"pid": other.pid} if event["pid"] == 0 else {}))
        kineto.event("cpu_op", NAME, 300, 1, pid=other.pid, **shaped(rank + 1))
    kineto.write(tmp_path / "all.json")
    found = {trace.rank: trace.gradients.size_bytes.tolist() for trace in load_run(tmp_path).traces}
    assert found == {0: [4], 1: [8]}
