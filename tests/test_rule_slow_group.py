"""A group whose link is slower than that of others; in µs."""

import pytest
from findings import MIB, STEP, costs, figures, findings
from ranks import comm
from traces import trace

from ddptrace.model import Group


def grouped(*lengths, size=MIB, groups=None, count=1, hidden=False):
    """State pairs of ranks, each with a group of its own whose all-reduces take so long."""
    made = []
    for number, length in enumerate(lengths):
        pair = (groups or {}).get(number, (2 * number, 2 * number + 1))
        group = Group(str(number), pair, len(pair))
        for one in (2 * number, 2 * number + 1):
            rows = [
                comm(1000 * (place + 1), 1000 * (place + 1) + length, group=group, size=size)
                for place in range(count)
            ]
            rows += [("compute", 0, 9000)] if hidden else [("compute", 0, 1000)]
            made.append(trace(*rows, ("compute", 9000, STEP), marks=((0, STEP),), rank=one))
    return made


@pytest.mark.parametrize(("slow", "found"), [(449, []), (450, [150_000]), (600, [300_000])])
def test_a_group_that_takes_half_as_long_again_has_a_slow_link(slow, found):
    assert costs("slow_link", *grouped(300, slow, 300)) == found


def test_the_ranks_of_the_group_and_what_the_others_take_are_said():
    (found,) = findings("slow_link", *grouped(300, 600, 300, count=2))
    assert (found.cost_ns, found.ranks) == (600_000, [2, 3])
    assert figures(found) == {
        "extra_ns": (600_000, 100_000),
        "transfer_ns": (600_000, 450_000),
        "others_transfer_ns": (300_000, None),
        "size_bytes": (MIB, MIB),
    }
    assert "2.0 times" in found.advice


def test_small_transfers_tell_nothing_of_a_link():
    assert costs("slow_link", *grouped(300, 600, size=MIB - 1)) == []
    assert costs("slow_link", *grouped(300, 600, size=-1)) == []


def test_hidden_transfers_cost_nothing():
    assert costs("slow_link", *grouped(300, 600, hidden=True)) == []


@pytest.mark.parametrize(("slow", "found"), [(199, []), (200, [100_000])])
def test_a_slow_link_is_listed_from_one_percent_of_the_step(slow, found):
    assert costs("slow_link", *grouped(100, slow)) == found


def test_of_one_group_nobody_can_tell_whose_link_is_slow():
    assert costs("slow_link", *grouped(600)) == []


def test_ranks_of_an_unknown_group_are_compared_with_none():
    made = [*grouped(300, 900)[:2]]
    for number in (2, 3):
        rows = [comm(1000, 1900, size=MIB), ("compute", 0, 1000), ("compute", 9000, STEP)]
        made.append(trace(*rows, marks=((0, STEP),), rank=number))
    assert costs("slow_link", *made) == []


def test_groups_with_a_rank_in_common_go_different_ways():
    """Rank 0 reduces with 1 on its host and with 2 on another: that is slower by nature."""
    near, far = Group("near", (0, 1), 2), Group("far", (0, 2), 2)

    def rank(number, *rows):
        return trace(*rows, ("compute", 9000, STEP), marks=((0, STEP),), rank=number)

    made = (
        rank(0, comm(0, 300, group=near, size=MIB), comm(1000, 2000, group=far, size=MIB)),
        rank(1, comm(0, 300, group=near, size=MIB)),
        rank(2, comm(1000, 2000, group=far, size=MIB)),
    )
    assert costs("slow_link", *made) == []
