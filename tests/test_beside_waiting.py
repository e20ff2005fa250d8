"""What a late rank costs the compute beside the waiting of the others; times are in µs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from jobs import diagnosis, forward
from ranks import PAIR, comm, rank


def waiting(*lengths, arrives=2000, **options):
    """State rank 0: kernels of these lengths in a row, beside a collective that moves from 18 ms.

    It waits from `arrives` on, and has nothing to compute behind its kernels.
    """
    rows, start = [], 2000
    for length in lengths:
        rows.append(forward(start, start + length))
        start += length
    return rank(0, forward(0, 2000), *rows, comm(arrives, 20_000, group=PAIR), **options)


def late(*lengths, start=2000, **options):
    """State rank 1: the same kernels, so that it is late, and nothing beside them."""
    rows = []
    for length in lengths:
        rows.append(forward(start, start + length))
        start += length
    return rank(1, forward(0, 2000), *rows, comm(18_000, 20_000, group=PAIR), **options)


def straggler(*traces):
    (found,) = (one for one in diagnosis(*traces).findings if one.code == "straggler")
    return found


def slowed(*traces):
    found = {one.metric: one.value for one in straggler(*traces).evidence}
    return found["slowed_ns"] // 1000


def test_what_kernels_take_longer_beside_waiting_is_a_part_of_the_cost():
    """
    rank 0   ffaaaaaabbbbbb......ww    a and b take 6 ms beside the waiting, 4 without
    comm       wwwwwwwwwwwwwwwwwwrr
    rank 1   ff........aaaabbbbrr
    """
    found = straggler(waiting(6000, 6000), late(4000, 4000, start=10_000))
    assert {one.metric: one.value for one in found.evidence}["slowed_ns"] == 4_000_000
    # Of its 16 ms of waiting 4 are exposed.
    assert found.cost_ns == 4_000_000 + 4_000_000


def test_it_is_no_more_than_the_rank_was_ahead():
    """It could have been no shorter than by the 16 ms that it waited; 10.5 of these are exposed."""
    traces = waiting(5500), late(2000, start=16_000)
    assert slowed(*traces) == 3500
    assert straggler(*traces).cost_ns == 14_000_000
    ahead = waiting(12_000, arrives=13_000), late(6000, start=12_000)
    # 5 ms ahead, 4 of which it waits exposed: of the 6 ms longer 1/12 is beside waiting.
    assert straggler(*ahead).cost_ns == 4_000_000 + 500_000


@pytest.mark.parametrize(("length", "expected"), [(6000, 4000), (6001, 0)])
def test_a_kernel_of_more_than_three_times_the_length_does_other_work(length, expected):
    assert slowed(waiting(length), late(2000, start=16_000)) == expected


def test_one_that_is_shorter_takes_from_what_the_others_are_longer():
    """Kernels of two GPUs are never alike, and what is left is no less than nothing."""
    assert slowed(waiting(4000, 2000), late(3000, 2500, start=12_500)) == 500
    assert slowed(waiting(3000, 2000), late(3500, 2500, start=12_000)) == 0


def test_kernels_that_only_one_rank_has_are_not_compared():
    """One more kernel of the name: nothing tells which of them is which."""
    assert slowed(waiting(6000, 6000), late(4000, start=14_000)) == 0


def test_kernels_without_waiting_beside_them_do_not_count():
    """It waits only behind its kernels, which are longer for another reason."""
    assert slowed(waiting(6000, arrives=8000), late(4000, start=14_000)) == 0


def test_the_same_kernels_are_found_by_name_when_others_are_between():
    """Rank 1 does one thing more, by another name, which makes it late."""

    def named(trace, *codes):
        names = (*trace.names, "other")
        return replace(trace, names=names, ops=replace(trace.ops, name=codes_of(trace, codes)))

    def codes_of(trace, codes):
        column = trace.ops.name.copy()
        column[:] = codes
        return column

    first = waiting(6000, 6000)
    second = rank(
        1,
        forward(0, 2000),
        forward(2000, 10_000),
        forward(10_000, 14_000),
        forward(14_000, 18_000),
        comm(18_000, 20_000, group=PAIR),
    )
    other = len(second.names)
    assert slowed(first, named(second, 0, other, 0, 0, 0)) == 4000
    assert slowed(first, second) == 0


def test_a_host_that_waits_does_not_slow_what_it_computes():
    on_cpu = [
        replace(made, device="host")
        for made in (
            waiting(6000, 6000, marks=[(0, 20_000)]),
            late(4000, 4000, start=10_000, marks=[(0, 20_000)]),
        )
    ]
    assert slowed(*on_cpu) == 0
    assert straggler(*on_cpu).cost_ns == 4_000_000
