"""All-reduces timed on the link alone: in which groups, how much, how often; with torch."""

from contextlib import nullcontext
from itertools import count
from types import SimpleNamespace

import pytest
from test_link import MIB

from ddptrace_capture import link
from ddptrace_capture.errors import CaptureError

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")


def of_device(kind, gradient_bytes=MIB):
    device = torch.device(kind)
    return link._Group(None, (0, 1), 0, device, torch.float32, gradient_bytes)


@pytest.fixture
def modules(monkeypatch):
    """Return a list of (ranks, count of float32 parameters) to fill; rank 0 has a model of each."""
    stated = []
    monkeypatch.setattr(link, "living_modules", lambda: [*map(module, stated)])
    monkeypatch.setattr(link, "reduced_parameters", lambda one: one.parameters)
    monkeypatch.setattr(dist, "get_process_group_ranks", list)
    monkeypatch.setattr(dist, "get_rank", lambda: 0)
    return stated


def module(told):
    ranks, elements = told
    parameters = {"weight": torch.empty(elements)} if elements else {}
    return SimpleNamespace(process_group=ranks, parameters=parameters)


def test_each_group_is_measured_once_with_the_gradients_of_its_largest_model(modules):
    modules += [((2, 0), 1), ((0, 1), 30), ((1, 0), 20)]
    assert [(one.ranks, one.gradient_bytes) for one in link._groups()] == [
        ((0, 1), 120),
        ((0, 2), 4),
    ]


def test_a_rank_alone_or_a_model_without_gradients_has_no_link(modules):
    modules += [((0,), 5), ((0, 1), 0)]
    assert link._groups() == []


@pytest.fixture
def calls(monkeypatch):
    """Write down which sizes are timed; the first call takes very long, others 1 ns a byte."""
    found = []

    class Talk:
        def __init__(self, *_):
            self.agree_on_most = self.agree_on_sizes = lambda offer: offer

    def time_ns(_group, buffer, size):
        assert size <= buffer.nbytes
        found.append(size)
        return 1e12 if len(found) == 1 else size + len(found)

    monkeypatch.setattr(dist.distributed_c10d, "_get_default_store", lambda: None)
    monkeypatch.setattr(link, "_Talk", Talk)
    monkeypatch.setattr(link, "_free_bytes", lambda _group: 4 * MIB)
    monkeypatch.setattr(link, "_time_ns", time_ns)
    return found


def test_after_a_round_that_does_not_count_sizes_take_turns(calls):
    told = link._measured(of_device("cpu"))
    sizes = [MIB // 16, MIB // 8, MIB // 4, MIB // 2, MIB]
    assert calls == [MIB, MIB, *sizes * 4]
    assert (told["members"], told["size_bytes"]) == ([0, 1], sizes)
    assert told["time_ns"][0] == [sizes[0] + at for at in (8, 13, 18)]


@pytest.mark.parametrize(("gradients", "free", "most"), [(3, 5, 9), (9, 3, 7), (9, 7, 3)])
def test_no_more_is_reduced_than_there_is_and_has_room(calls, monkeypatch, gradients, free, most):
    monkeypatch.setattr(link, "MOST_BYTES", most * MIB)
    monkeypatch.setattr(link, "_free_bytes", lambda _group: free * MIB)
    assert link._measured(of_device("cpu", gradients * MIB))["size_bytes"][-1] == 3 * MIB
    assert max(calls) == 3 * MIB


def test_a_quarter_of_the_free_memory_of_a_gpu_may_be_used(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _device: (100, 1000))
    assert link._free_bytes(of_device("cuda")) == 25
    assert link._free_bytes(of_device("cpu")) == link.MOST_BYTES


def test_the_time_is_that_of_one_call_of_so_many_bytes(monkeypatch):
    pieces, clock = [], count(1000, 5000)
    monkeypatch.setattr(link, "_reduce", lambda _group, piece: pieces.append(piece.nbytes))
    monkeypatch.setattr(link.time, "perf_counter_ns", lambda: next(clock))
    mine = of_device("cpu")
    assert link._time_ns(mine, link._buffer(mine, 64), 32) == 1000
    assert pieces == [32]


def test_on_a_gpu_its_own_clock_counts_from_behind_the_wait(monkeypatch):
    log = []

    class Event:
        def __init__(self, **_):
            self.record = lambda: log.append("record")
            self.synchronize = lambda: log.append("synchronize")

        def elapsed_time(self, _ended):
            return 2.5  # ms

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: log.append("all done"))
    monkeypatch.setattr(torch.cuda, "device", lambda one: log.append(one.type) or nullcontext())
    monkeypatch.setattr(torch.cuda, "_sleep", lambda _cycles: log.append("sleep"), raising=False)
    monkeypatch.setattr(link, "_reduce", lambda *_: log.append("reduce"))
    assert link._time_ns(of_device("cuda"), torch.zeros(8), 32) == 500_000
    assert log == ["cuda", "all done", "sleep", "record", "reduce", "record", "synchronize"]


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (CaptureError("no room"), "no room"),
        (ValueError("a\n b"), "ValueError: a b"),
        (CaptureError("x" * 400), "x" * 300),
    ],
)
def test_what_goes_wrong_is_told_and_never_reaches_the_job(monkeypatch, error, problem):
    def fail():
        raise error

    monkeypatch.setattr(link, "_groups", fail)
    assert link.measured() == {"groups": [], "problem": problem}
