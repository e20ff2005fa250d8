"""What causes cost a step on ranks of which one is late; times are µs, a character is 1 ms."""

from __future__ import annotations

import pytest
from hosts import call, loading, operator
from jobs import (
    MB,
    backward,
    bucket,
    costs,
    diagnosis,
    forward,
    group_of,
    late_job,
    late_step,
    ledger,
    other,
)
from ranks import PAIR, comm, rank

from ddptrace.model import Group


def launching(number, gap, compute=0, *, group=PAIR, end=25_000):
    """State a rank that computes, launches too slowly for so many µs, and joins until `end`."""
    start = 1000 + compute + gap
    return rank(
        number,
        forward(0, 1000 + compute, 0),
        backward(start, start + 1000, start - 10),
        bucket(start + 1000, end, start + 500, 100 * MB, group=group),
        host=[call(0, 5), operator(10, start - 5), call(start - 10, start - 1)],
    )


def test_what_the_late_rank_idles_costs_no_more_than_the_others_wait():
    """
    rank 0   fffffff.bwwwwrr   it computes 6 of the 10 ms that rank 1 idles, and would bound it
    rank 1   f..........bwrr
    """
    said = diagnosis(launching(0, 100, 5900, end=14_000), launching(1, 10_000, end=14_000))
    assert ledger(said, 1)["launch_bound"] == 10_000
    assert costs(said) == {"straggler": 4000, "launch_bound": 4000, "comm_bandwidth": 2000}


@pytest.mark.parametrize(("both", "expected"), [(607, 20_607), (606, 20_000)])
def test_what_others_have_of_a_cause_counts_when_it_is_worth_listing(both, expected):
    """Both data loaders take some time of a step of 60.6 ms, that of rank 1 20 ms longer."""
    traces = []
    for number, late in enumerate((both, 20_000 + both)):
        rows, marks = late_step(late / 1000, (20_000 + both) / 1000, idles=True, group=group_of(2))
        rows = [(kind, *(int(each) for each in more[:3]), *more[3:]) for kind, *more in rows]
        marks = [(int(start), int(end)) for start, end in marks]
        host = [loading(start, start + late) for start, _ in marks]
        traces.append(rank(number, *rows, marks=marks, host=host))
    said = diagnosis(*traces)
    # So the 20 ms that only rank 1 has make a straggler, and input that all wait for does not.
    assert costs(said)["straggler"] == 20_000
    assert costs(said)["input_stall"] == expected
    assert said.bottleneck == ("input_stall" if expected > 20_000 else "straggler")


def test_of_two_late_ranks_each_keeps_its_cause():
    """
    rank 0   fbwwwwwwwwwwwwwwwwwwwwrr
    rank 1   fffffffffffffffffffffbrr    it computes 20 ms longer
    rank 2   f....................brr    it launches 20 ms longer, and is 40 µs ahead
    """
    three = group_of(3)
    said = diagnosis(
        launching(0, 10, group=three),
        launching(1, 10, 20_000, group=three),
        launching(2, 19_970, group=three),
    )
    assert costs(said)["straggler"] == 20_000
    assert costs(said)["launch_bound"] == 19_970
    (found,) = (one for one in said.findings if one.code == "launch_bound")
    assert found.ranks == [2]


def test_a_transfer_in_another_group_was_not_left_alone():
    """
    rank 0   fwrr.ssssss    its transfer with rank 2 has nothing to do with rank 1's delay
    rank 1   ffrrffffff
    """
    pair, apart = PAIR, Group("apart", (0, 2), 2)
    said = diagnosis(
        rank(
            0,
            forward(0, 1000),
            other(1000, 4000, 500, 100 * MB, group=pair),
            other(4000, 10_000, 600, 100 * MB, group=apart),
        ),
        rank(
            1, forward(0, 2000), other(2000, 4000, 500, 100 * MB, group=pair), forward(4000, 10_000)
        ),
        rank(2, forward(0, 4000), other(4000, 10_000, 600, 100 * MB, group=apart)),
    )
    assert costs(said)["straggler"] == 1000


def test_what_is_unknown_of_the_others_does_not_make_a_cause_cheap():
    """Rank 0 has a collective that nobody else recorded, so that its waiting is unknown."""
    first = launching(0, 10)
    extra = rank(
        0,
        forward(0, 1000, 0),
        backward(1010, 2010, 1000),
        bucket(2010, 25_000, 1500, 100 * MB),
        other(25_000, 26_000, 1600, op="broadcast", group=Group("x", (0, 1), 2)),
        host=[call(0, 5), operator(10, 995), call(1000, 1009)],
    )
    known = diagnosis(first, launching(1, 20_000))
    unknown = diagnosis(extra, launching(1, 20_000))
    assert costs(known)["launch_bound"] == 19_990
    assert costs(unknown)["launch_bound"] == 20_000
    assert "straggler" not in costs(unknown)


def test_the_cost_of_a_straggler_is_that_of_the_others():
    """
    rank 0   fwffffffffwwrr.frr    it computes while it waits, but for the last 2 ms
    rank 1   f.........frr.wwwfrr  it waits itself, less, and all of it exposed
    """
    first = [
        forward(0, 1000),
        comm(1000, 12_000, 500, size=MB),
        forward(1500, 11_000, 600),
        forward(12_000, 17_000, 700),
        comm(17_000, 18_000, 800, size=MB),
    ]
    second = [
        forward(0, 1000),
        forward(10_000, 11_000, 600),
        comm(11_000, 12_000, 500, size=MB),
        forward(12_000, 14_000, 700),
        comm(14_000, 18_000, 800, size=MB),
    ]
    said = diagnosis(rank(0, *first), rank(1, *second))
    assert ledger(said, 1)["straggler"] == 3000
    assert costs(said)["straggler"] == ledger(said, 0)["straggler"] == 500


def test_the_headline_of_a_straggler_names_it_once():
    said = diagnosis(*late_job(0, 20))
    assert said.headline.startswith(
        "straggler costs 20.00 of 60.00 ms a step (33.3 %): rank 1 is late: its GPU computes longer"
    )


@pytest.mark.parametrize("idles", [True, False])
def test_a_late_rank_of_eight_costs_what_the_seven_wait(idles):
    said = diagnosis(*late_job(0, 0, 0, 20, 0, 0, 0, 0, idles=idles))
    assert said.bottleneck == "straggler"
    assert costs(said)["straggler"] == 20_000
    assert said.findings[0].ranks == [3]
    # What it idles for before its first launch may be its input as well.
    assert said.confidence == ("medium" if idles else "high")
