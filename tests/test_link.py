"""All-reduces timed on the link alone: which sizes, how ranks agree, what the manifest tells."""

import signal
import threading

import pytest

from ddptrace_capture import link
from ddptrace_capture.errors import CaptureError

MIB = 1 << 20


def group(*ranks, mine=0):
    return link._Group(None, ranks, mine, None, None, MIB)


class Store:
    """Keeps texts by name, as torch's stores do."""

    def __init__(self):
        self.kept = {}
        self.changed = threading.Condition()

    def set(self, key, value):
        with self.changed:
            self.kept[key] = value.encode()
            self.changed.notify_all()

    def get(self, key):
        return self.kept[key]

    def compare_set(self, key, expected, desired):
        with self.changed:
            if key not in self.kept and not expected:
                self.set(key, desired)
            return self.kept[key]

    def check(self, keys):
        with self.changed:
            return all(key in self.kept for key in keys)


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(link, "LEADER_WAITS_S", 0.05)
    monkeypatch.setattr(link, "OTHERS_WAIT_S", 0.1)


def agreed(store, *offers):
    """Return what each rank hears, of ranks that each offer so many bytes at the same time."""
    ranks, heard = range(len(offers)), {}

    def one(rank):
        try:
            heard[rank] = link._Talk(group(*ranks, mine=rank), store).agree_on_most(offers[rank])
        except CaptureError as error:
            heard[rank] = str(error)

    threads = [threading.Thread(target=one, args=(r,)) for r in ranks if offers[r] is not None]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return heard


def test_the_least_that_a_rank_has_room_for_counts():
    assert agreed(Store(), 7, 5, 9) == {0: 5, 1: 5, 2: 5}


@pytest.mark.parametrize("silent", [1, 2])
def test_without_all_ranks_nothing_is_measured(impatient, silent):
    offers = [7, 5, 9]
    offers[silent] = None
    heard = agreed(Store(), *offers)
    assert len(heard) == 2
    assert all("not every rank came" in each for each in heard.values())


def test_without_the_first_rank_nothing_is_measured_also_when_it_comes_later(impatient):
    store = Store()
    assert "not every rank" in agreed(store, None, 5)[1]
    assert "not every rank" in agreed(store, 7, None)[0]


def test_a_rank_that_comes_after_the_decision_obeys_it(impatient):
    store = Store()
    assert "not every rank" in agreed(store, 7, None)[0]
    assert "not every rank" in agreed(store, None, 5)[1]


def test_a_rank_gives_up_after_the_first_one_would_have():
    assert 0 < link.POLL_S < 1 < link.LEADER_WAITS_S < link.OTHERS_WAIT_S


def test_a_signal_is_heard_while_a_rank_waits(monkeypatch):
    """The handler of a job raises, as that of Ctrl-C does: at once, and not after 30 s."""

    def interrupted(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupted)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(KeyboardInterrupt):
            link._Talk(group(0, 1), Store()).agree_on_most(5)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_the_first_rank_chooses_the_sizes():
    store = Store()
    assert link._Talk(group(0, 1), store).agree_on_sizes([1, 2]) == [1, 2]
    assert link._Talk(group(0, 1, mine=1), store).agree_on_sizes([1, 2, 4]) == [1, 2]


def test_groups_do_not_hear_each_other():
    store = Store()
    link._Talk(group(0, 1), store).agree_on_sizes([1])
    assert link._Talk(group(0, 2), store).agree_on_sizes([2]) == [2]


def test_sizes_are_powers_of_two_and_all_gradients_at_once():
    assert link._affordable(5 * MIB, 0.01) == [
        *(1 << exponent for exponent in range(16, 23)), 5 * MIB
    ]  # fmt: skip
    assert link._affordable(1 << 20, 0.01)[-2:] == [1 << 19, 1 << 20]
    assert link._affordable(1000, 0.01) == [1000]


def test_on_a_slow_link_the_largest_sizes_are_left_out():
    """20 calls of 2 × 256 MiB take 8 s at 0.745 ns a byte."""
    assert link._affordable(1 << 28, 0.745)[-1] == 1 << 28
    assert link._affordable(1 << 28, 0.746)[-1] == 1 << 27
    assert link._affordable(1 << 28, 1e6) == [1 << 16]


def record(rank, *times, problem=None, size=(4, 8), members=(0, 1)):
    groups = [
        {
            "members": [*members],
            "operation": "all_reduce",
            "size_bytes": [*size],
            "time_ns": [*times],
        }
    ]
    return {
        "rank": {"rank": rank},
        "link": {"groups": groups if times else [], "problem": problem},
    }


def test_the_rank_that_waited_least_tells_how_long_a_call_took():
    found = link.joined([record(0, [5, 9], [7, 8]), record(1, [6, 3], [9, 2])])
    assert found["groups"][0]["time_ns"] == [[5, 3], [7, 2]]
    assert found["reason"] is None


def test_groups_are_told_in_the_order_of_their_ranks():
    found = link.joined([record(2, [5, 9], members=(2, 3)), record(0, [7, 8])])
    assert [each["members"] for each in found["groups"]] == [[0, 1], [2, 3]]


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ([record(0, problem="no room"), record(1, problem="no room")], "no room"),
        ([{"rank": {"rank": 0}, "link": None}], "rank 0 ended before its last step"),
        ([{"rank": {"rank": 0}, "link": None}, record(1, problem="no room")], "no room"),
        ([record(0), record(1)], "no DDP model"),
        ([], "no DDP model"),
    ],
)
def test_why_nothing_was_measured_is_told(records, reason):
    found = link.joined(records)
    assert found["groups"] == []
    assert reason in found["reason"]


@pytest.mark.torch
class TestBuffer:
    def of(self, monkeypatch, size_bytes, room):
        torch = pytest.importorskip("torch")
        zeros = torch.zeros

        def crowded(count, **options):
            if count * 4 > room:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return zeros(count, **options)

        monkeypatch.setattr(torch, "zeros", crowded)
        mine = link._Group(None, (0, 1), 0, torch.device("cpu"), torch.float32, size_bytes)
        return link._buffer(mine, size_bytes).numel() * 4

    def test_it_has_the_size_of_all_gradients(self, monkeypatch):
        assert self.of(monkeypatch, 5 * MIB, room=8 * MIB) == 5 * MIB

    def test_without_room_it_is_as_small_as_it_must_be(self, monkeypatch):
        assert self.of(monkeypatch, 5 * MIB, room=2 * MIB) == 5 * MIB // 4

    def test_without_any_room_it_fails_before_ranks_agree(self, monkeypatch):
        with pytest.raises(RuntimeError, match="out of memory"):
            self.of(monkeypatch, 5 * MIB, room=100)
