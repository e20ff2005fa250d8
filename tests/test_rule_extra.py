"""Broadcasts of buffers, and the search for unused parameters; in µs."""

from dataclasses import replace

import pytest
from findings import STEP, backward, costs, figures, findings, of_ddp, reduce
from ranks import PAIR, comm
from traces import trace

# --- broadcasts


def with_broadcast(length=200, *, steps=2, only=None, inside=False, host=()):
    """State steps that begin with a broadcast.

    comm     00      11..
    compute    ff bb    OO
    """
    rows = []
    for number in range(steps):
        at = number * STEP
        if only is None or number in only:
            rows.append(reduce(at, at + length, op="broadcast", backward=inside))
        rows += [("compute", at + length, at + 3000), backward(at + 3000, at + 9000)]
        rows += [reduce(at + 9000, at + 9010, at + 3001)]
        rows.append(("compute", at + 9010, at + STEP, at + 9000))
    marks = tuple((number * STEP, (number + 1) * STEP) for number in range(steps))
    return trace(*rows, marks=marks, host=host)


@pytest.mark.parametrize(("length", "found"), [(99, []), (100, [100_000]), (200, [200_000])])
def test_broadcasts_in_each_step_cost_their_exposed_transfer(length, found):
    assert costs("buffer_broadcast", with_broadcast(length)) == found


def test_what_a_broadcast_rests_on():
    (found,) = findings("buffer_broadcast", with_broadcast())
    assert figures(found) == {
        "exposed_broadcast_ns": (200_000, 100_000),
        "broadcasts": (1, 1),
    }


def test_a_broadcast_that_not_every_step_has_is_none_of_buffers():
    assert costs("buffer_broadcast", with_broadcast(steps=3, only=(1,))) == []
    assert costs("buffer_broadcast", with_broadcast(steps=3, only=(1, 2))) == [200_000]


def test_a_broadcast_inside_backward_is_none_of_buffers():
    assert costs("buffer_broadcast", with_broadcast(inside=True)) == []


@pytest.mark.parametrize(
    ("host", "found"),
    [
        ([("operator", "aten::mm", 0, 5)], []),
        ([("operator", "aten::mm", 0, 5), ("annotation", "DistributedDataParallel.forward", 0, 9)],
         [200_000]),
    ],
)  # fmt: skip
def test_without_a_forward_of_ddp_it_is_not_ddps(host, found):
    assert costs("buffer_broadcast", with_broadcast(host=host)) == found


def test_waiting_in_a_broadcast_is_none_of_its_cost():
    """Rank 1 broadcasts 900 µs after rank 0 began to wait for it."""

    def rank(number, start):
        rows = [comm(start, 1050, group=PAIR, size=4, op="broadcast")]
        return trace(*rows, ("compute", 1050, STEP), marks=((0, STEP),), rank=number)

    assert costs("buffer_broadcast", rank(0, 100), rank(1, 1000)) == []
    assert costs("buffer_broadcast", rank(0, 100), rank(1, 100)) == [950_000]


def test_a_broadcast_that_cannot_be_matched_has_no_cost():
    rows = [comm(100, 1050, group=PAIR, size=4, op="broadcast"), ("compute", 1050, STEP)]
    assert costs("buffer_broadcast", trace(*rows, marks=((0, STEP),))) == []


def test_a_broadcast_beside_another_collective_costs_what_it_lasts_alone():
    rows = [reduce(0, 1000, op="broadcast", backward=False)]
    rows += [reduce(600, 1500, op="all_gather", backward=False), ("compute", 1500, STEP)]
    assert costs("buffer_broadcast", trace(*rows, marks=((0, STEP),))) == [600_000]


# --- unused parameters

SEARCH = "torch.distributed.ddp.reducer::search_unused_parameters"


def searching(length=200, *, integers=True, steps=1, host=()):
    """State steps whose backward ends with an all-reduce of integers.

    compute  ..ff bb......OO
    comm            0011
    """
    rows = []
    for at in range(0, steps * STEP, STEP):
        rows += [("compute", at + 500, at + 3000, at), backward(at + 3000, at + 8000)]
        rows += [reduce(at + 8000, at + 8010, at + 3001)]
        rows += [reduce(at + 8010, at + 8010 + length, at + 3002, size=4, integers=integers)]
        rows.append(("compute", at + 9500, at + STEP, at + 9400))
    marks = tuple((at, at + STEP) for at in range(0, steps * STEP, STEP))
    return trace(*rows, marks=marks, host=host)


TOLD = {"find_unused_parameters": True}


@pytest.mark.parametrize(("length", "found"), [(99, []), (100, [100_000]), (200, [200_000])])
def test_the_search_costs_its_all_reduce(length, found):
    assert costs("unused_search", searching(length), manifest=of_ddp(**TOLD)) == found


def test_a_search_that_the_host_shows_costs_the_idle_time_too():
    """The search lasts from 400 to 600, and the GPU idles until 500."""
    (found,) = findings("unused_search", searching(host=[("operator", SEARCH, 400, 600)]))
    assert figures(found) == {
        "search_ns": (300_000, 100_000),
        "idle_in_search_ns": (100_000, None),
        "integer_all_reduces": (1, 1),
    }


def in_parts(idle=200, *, figures=(), full=((400, 600),), rank=0, busy=True):
    """State a rank of which the GPU alone is recorded first, and its host in another step.

    In the steps of the figures the GPU waits for `idle` until its first kernel is launched; in that
    of the full part it idles until 500, and searches are where `full` says.
    """
    rows = [("compute", 0, 1000), ("compute", 1000 + idle, 3000, 999 + idle if busy else 0)]
    rows += [backward(3000, 8000), reduce(8000, 8010, 3001)]
    rows += [reduce(8010, 8020, 3002, size=4, integers=True), ("compute", 8020, STEP, 3003)]
    # The host launches all the time.
    rows += [("mem", 9999, STEP, at) for at in range(1000, 1000 + idle, 50)]
    hosts = [("operator", SEARCH, *each) for each in figures]
    other = searching(host=[("operator", SEARCH, *each) for each in full])
    return (
        trace(*rows, marks=((0, STEP),), host=hosts, part="figures", rank=rank),
        replace(other, part="full", rank=rank),
    )


@pytest.mark.parametrize(
    ("options", "idle_ns"),
    [
        ({}, 100_000),  # the full part searches for 200, and its GPU idles in 100 of them
        ({"idle": 60}, 60_000),  # no more than the GPU waited for launches here
        ({"busy": False}, 0),  # launched before: it waited for something else
        ({"full": ((600, 700),)}, 0),  # the GPU computes meanwhile
        ({"full": ()}, None),  # nobody saw a search
        (
            {"figures": ((1000, 1150),)},
            150_000,
        ),  # here it is seen, and what is there does not count
    ],
)
def test_what_a_recording_of_cuda_alone_does_not_tell_the_full_one_does(options, idle_ns):
    manifest = of_ddp(**TOLD)
    found = findings("unused_search", *in_parts(**options), manifest=manifest)
    costs = [None if idle_ns is None else 10_000 + idle_ns]
    expected = costs if idle_ns is not None and 10_000 + idle_ns >= 100_000 else []
    assert [one.cost_ns for one in found] == expected
    assert [figures(one)["idle_in_search_ns"] for one in found] == [(idle_ns, None)] * len(expected)


@pytest.mark.parametrize(
    "module",
    [{"find_unused_parameters": False}, {"find_unused_parameters": True, "static_graph": True}, {}],
)
def test_no_search_is_found_where_ddp_does_not_search_each_time(module):
    assert costs("unused_search", searching(), manifest=of_ddp(**module)) == []


def test_without_word_of_a_search_an_all_reduce_of_integers_is_something_else():
    assert costs("unused_search", searching()) == []


def test_without_an_all_reduce_of_integers_nothing_is_searched():
    assert costs("unused_search", searching(integers=False), manifest=of_ddp(**TOLD)) == []


def test_a_search_in_one_step_of_several_is_not_dynamic():
    shown = searching(steps=3, host=[("operator", SEARCH, STEP + 1, STEP + 9)])
    assert costs("unused_search", shown) == []
