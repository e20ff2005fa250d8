"""Which comm operations of the ranks are one collective; times are in µs."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ranks import FOUR, PAIR, comm, matched, rank, report, waits
from traces import Kineto

from ddptrace import analyze, load_run
from ddptrace.model import Group


def told(made):
    return [
        (each.step, each.order, each.size_bytes, [one.rank for one in each.ranks])
        for each in made.collectives
    ]


# --- by number


def test_the_sequence_number_decides_whatever_the_order():
    """
    rank 0   1.2....
    rank 1   ..2.1..    the same two, started the other way round on another stream
    """
    made = report(
        rank(0, comm(0, 10, seq=1, group=PAIR), comm(20, 30, seq=2, group=PAIR)),
        rank(1, comm(20, 35, seq=2, group=PAIR), comm(40, 47, seq=1, group=PAIR)),
    )
    assert waits(made) == {0: {0: 3, 1: 0}, 1: {0: 0, 1: 5}}


def test_operations_of_one_number_that_do_not_agree_are_not_one_collective():
    made = report(
        rank(0, comm(0, 10, seq=1, size=4, group=PAIR)),
        rank(1, comm(0, 10, seq=1, size=8, group=PAIR)),
    )
    assert told(made) == [(0, 0, 4, [0]), (0, 1, 8, [1])]
    assert made.run.unmatched_collectives == {"0": 1, "1": 1}


def test_calls_that_share_a_number_are_told_apart_from_the_last():
    made = report(
        rank(0, *(comm(at, at + 5, seq=7, group=PAIR) for at in (0, 10, 20))),
        rank(1, *(comm(at, at + 5, seq=7, group=PAIR) for at in (10, 20))),
    )
    assert [sorted(each) for each in matched(made)] == [[0, 1], [0, 1]]
    assert matched(made)[0][0] == (10, 15)


def test_what_was_launched_before_the_recording_has_no_number_and_goes_by_order():
    made = report(
        rank(
            0,
            comm(0, 4, None, group=PAIR),
            comm(5, 9, None, group=PAIR),
            comm(20, 30, seq=3, group=PAIR),
        ),
        rank(1, comm(5, 9, None, group=PAIR), comm(20, 30, seq=3, group=PAIR)),
        world_size=2,
    )
    assert [sorted(each.items()) for each in matched(made)] == [
        [(0, (5, 9)), (1, (5, 9))],
        [(0, (20, 30)), (1, (20, 30))],
    ]


# --- by order


def test_without_numbers_lists_are_aligned_from_their_ends():
    """
    rank 0   250k  500k  125k
    rank 1         500k  125k
    """
    made = report(
        rank(0, comm(100, 200, size=250), comm(300, 420, size=500), comm(500, 560, size=125)),
        rank(1, comm(310, 420, size=500), comm(510, 560, size=125)),
    )
    assert waits(made) == {0: {0: None}, 1: {0: 10, 1: 0}, 2: {0: 10, 1: 0}}
    assert made.run.unmatched_collectives == {"0": 1, "1": 0}


def test_a_lost_one_in_the_middle_is_found_by_its_size():
    """
    rank 0   1  2  3  4
    rank 1   1     3  4
    """
    made = report(
        rank(0, *(comm(at * 100, at * 100 + 10, size=at) for at in (1, 2, 3, 4))),
        rank(1, *(comm(at * 100, at * 100 + 10, size=at) for at in (1, 3, 4))),
    )
    assert [each.size_bytes for each in made.collectives if each.transfer_ns is None] == [2]
    assert all(each[0] == each[1] for each in matched(made))


@pytest.mark.parametrize("lost", [{3, 17, 30}, {0, 39}, {38}, {20}])
@pytest.mark.parametrize("shift", [0, 1_500_000])
def test_lost_ones_among_equals_are_found_by_when_they_end(lost, shift):
    """40 collectives of one size, some lost: they end at the same moments but for a shift."""
    ends = np.cumsum(np.tile([100, 130, 90, 170], 10)).tolist()
    rows = [comm(end - 30, end, size=4) for end in ends]
    kept = [
        comm(end - 20 + shift, end + shift, size=4) for at, end in enumerate(ends) if at not in lost
    ]
    made = report(rank(0, *rows), rank(1, *kept, marks=[(shift, shift + 10**9)]))
    assert len(matched(made)) == 40 - len(lost)
    assert {tuple(each.values()) for each in waits(made).values()} == {(10, 0), (None,)}


def test_ends_that_never_agree_leave_the_order_alone():
    """Ends of broadcasts say little: then the lists are aligned from their ends, as always."""
    made = report(
        rank(0, *(comm(at, at + 5) for at in (0, 100, 210, 330, 480))),
        rank(1, *(comm(at, at + 5) for at in (90, 260, 300, 700))),
    )
    assert [each[0][0] for each in matched(made)] == [100, 210, 330, 480]


def test_steps_are_matched_by_their_numbers():
    """
    rank 0   steps 3 4 5
    rank 1   steps   4 5 6
    """

    def steps(first):
        return [(at * 100, at * 100 + 100, at) for at in range(first, first + 3)]

    made = report(
        *(
            rank(
                number,
                *(comm(at * 100 + 50, at * 100 + 60) for at in range(first, first + 3)),
                marks=steps(first),
            )
            for number, first in ((0, 3), (1, 4))
        )
    )
    assert [(each.step, len(each.ranks)) for each in made.collectives] == [
        (3, 1),
        (4, 2),
        (5, 2),
        (6, 1),
    ]


def test_marks_that_share_no_number_tell_nothing():
    made = report(
        rank(0, comm(0, 5), comm(100, 105), marks=[(0, 50, 1), (50, 200, 2)]),
        rank(1, comm(0, 5), comm(100, 105), marks=[(0, 50, 11), (50, 200, 12)]),
    )
    assert len(matched(made)) == 2


def test_different_operations_are_never_one_collective():
    made = report(
        rank(0, comm(0, 5, op="all_reduce", group=PAIR), comm(10, 15, op="broadcast", group=PAIR)),
        rank(1, comm(0, 5, op="broadcast", group=PAIR), comm(10, 15, op="all_reduce", group=PAIR)),
    )
    assert all(len(set(each)) == 2 for each in matched(made))
    assert len(matched(made)) == 1  # either pair keeps the order of both lists


# --- groups


def test_groups_do_not_mix():
    """Ranks 0, 1 and ranks 2, 3 are pairs; all four reduce gradients at the end."""
    pairs = {
        0: Group("1", (0, 1), 2),
        1: Group("1", (0, 1), 2),
        2: Group("2", (2, 3), 2),
        3: Group("2", (2, 3), 2),
    }
    made = report(
        *(
            rank(number, comm(number, 10, group=pairs[number]), comm(20 + number, 30, group=FOUR))
            for number in range(4)
        )
    )
    found = [
        (each.group, each.group_size, {one.rank: one.wait_ns // 1000 for one in each.ranks})
        for each in made.collectives
    ]
    assert found == [
        ("1", 2, {0: 1, 1: 0}),
        ("2", 2, {2: 1, 3: 0}),
        ("0", 4, {0: 3, 1: 2, 2: 1, 3: 0}),
    ]


def test_groups_of_one_name_and_other_ranks_are_two():
    made = report(
        *(
            rank(number, comm(number, 10, group=Group("tp", ranks, 2)))
            for number, ranks in ((0, (0, 1)), (1, (0, 1)), (2, (2, 3)), (3, (2, 3)))
        )
    )
    assert [[one.rank for one in each.ranks] for each in made.collectives] == [[0, 1], [2, 3]]


def test_a_rank_without_metadata_is_in_the_only_group():
    made = report(rank(0, comm(0, 10, group=PAIR)), rank(1, comm(2, 10)))
    assert [(each.group, each.group_size) for each in made.collectives] == [("0", 2)]
    assert waits(made) == {0: {0: 2, 1: 0}}


def test_operations_of_no_known_group_are_matched_by_what_they_do():
    """The two kinds run on streams of their own, and start in another order on each rank."""
    made = report(
        rank(0, comm(0, 10, op="all_to_all"), comm(5, 30, op="all_reduce")),
        rank(1, comm(8, 10, op="all_to_all"), comm(1, 30, op="all_reduce")),
    )
    assert {each.op: each.transfer_ns for each in made.collectives} == {
        "all_to_all": 2000,
        "all_reduce": 25_000,
    }


def test_a_group_with_a_rank_that_recorded_nothing_of_it_is_unmatched():
    made = report(rank(0, comm(0, 10, group=PAIR)), rank(1, ("compute", 0, 10)), world_size=2)
    assert made.collectives[0].transfer_ns is None
    assert made.run.unmatched_collectives == {"0": 1, "1": 0}


def test_ranks_without_a_recording_do_not_stop_the_others():
    """Of four ranks three are recorded: what these wait for each other is a lower bound."""
    made = report(
        *(rank(number, comm(number, 10, group=FOUR)) for number in (0, 1, 3)), world_size=4
    )
    assert waits(made) == {0: {0: 3, 1: 2, 3: 0}}


def test_a_group_of_one_rank_waits_for_nobody():
    alone = Group("me", (0,), 1)
    made = report(rank(0, comm(0, 10, group=alone)), rank(1, ("compute", 0, 10)))
    assert [(each.transfer_ns, each.ranks[0].wait_ns) for each in made.collectives] == [(10_000, 0)]


def test_one_recorded_rank_of_two_matches_nothing():
    made = report(rank(0, comm(0, 10, group=PAIR)), world_size=2)
    assert [each.transfer_ns for each in made.collectives] == [None]
    assert made.steps[0].exposed_wait_ns is None


# --- transfers between two ranks


def test_what_one_rank_sends_the_other_receives():
    """Rank 1 receives from 0 and sends to 2; numbers of transfers count all partners of a rank."""
    three = Group("pp", (0, 1, 2), 3)
    made = report(
        rank(0, comm(0, 10, op="send", destination=1, seq=1, group=three)),
        rank(
            1,
            comm(4, 10, op="recv", source=0, seq=1, group=three),
            comm(20, 30, op="send", destination=2, seq=2, group=three),
        ),
        rank(2, comm(25, 30, op="recv", source=1, seq=1, group=three)),
    )
    assert [[one.rank for one in each.ranks] for each in made.collectives] == [[0, 1], [1, 2]]
    assert [each.transfer_ns for each in made.collectives] == [6000, 5000]
    assert [each.group_size for each in made.collectives] == [2, 2]


def test_a_transfer_whose_partner_is_unknown_is_not_guessed():
    three = Group("pp", (0, 1, 2), 3)
    made = report(
        *(
            rank(number, comm(0, 10, op=op, group=three))
            for number, op in enumerate(("send", "recv", "recv"))
        )
    )
    assert matched(made) == []


def test_in_a_group_of_two_the_partner_is_the_other_one():
    made = report(
        rank(0, comm(0, 10, op="send", group=PAIR)), rank(1, comm(3, 10, op="recv", group=PAIR))
    )
    assert waits(made) == {0: {0: 3, 1: 0}}


# --- properties


def jobs(draw):
    """Draw ranks that call the same collectives; the ends differ by some tens of µs at most."""
    ranks = draw(st.integers(2, 4))
    steps = draw(st.integers(1, 4))
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=6))
    rows = [[] for _ in range(ranks)]
    at = 0
    for _ in range(steps):
        for size in sizes:
            at += draw(st.integers(1000, 3000))
            for mine in rows:
                length = draw(st.integers(10, 900))
                late = draw(st.integers(0, 40))
                mine.append((at - length, at + late, size))
    return rows, len(sizes)


@st.composite
def jobs_with_losses(draw):
    rows, calls = jobs(draw)
    lost = [draw(st.integers(0, min(3, len(mine) - 1))) for mine in rows]
    return rows, calls, lost


def stated(rows, calls, numbers, shift=(), lost=()):
    """State the ranks, each with its clock shifted and its first collectives dropped."""
    traces = []
    for number, mine in enumerate(rows):
        moved = shift[number] if shift else 0
        dropped = lost[number] if lost else 0
        # A step begins when the collectives of the one before have ended, which is before its own.
        starts = [0, *(mine[at - 1][1] + 50 for at in range(calls, len(mine) + 1, calls))]
        marks = [
            (first + moved, last + moved, at) for at, (first, last) in enumerate(pairwise(starts))
        ]
        told = [
            comm(
                start + moved, end + moved, size=size, group="0", **({"seq": at} if numbers else {})
            )
            for at, (start, end, size) in enumerate(mine)
        ]
        traces.append(rank(number, *told[dropped:], marks=marks))
    return traces


def by_call(made):
    """Return the waits by how far each collective is from the last one of its rank."""
    last = max(each.order for each in made.collectives)
    return {
        last - each.order: {one.rank: one.wait_ns for one in each.ranks}
        for each in made.collectives
        if each.transfer_ns is not None
    }


@pytest.mark.parametrize("numbers", [True, False])
@settings(deadline=None)
@given(data=st.data())
def test_shifts_losses_and_order_change_no_wait_of_what_remains(numbers, data):
    rows, calls, lost = data.draw(jobs_with_losses())
    shift = [data.draw(st.integers(-(10**6), 10**6)) for _ in rows]
    whole = by_call(report(*stated(rows, calls, numbers)))
    traces = stated(rows, calls, numbers, shift, lost)
    found = by_call(report(*traces))
    kept = len(rows[0]) - max(lost)
    assert found == {at: waits for at, waits in whole.items() if at < kept}


def test_the_order_of_files_changes_nothing(tmp_path):
    for number, name in ((0, "b"), (1, "a")):
        kineto = Kineto(rank=number).step(1, 0, 1000).gpu(0, 100 + 50 * number)
        kineto.comm(100 + 50 * number, 300).write(tmp_path / f"{name}.json")
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    one, other = (analyze(load_run(some)) for some in (files, files[::-1]))
    assert one.collectives == other.collectives
    assert one.stragglers == other.stragglers


def test_a_graph_replays_its_collectives_in_the_order_of_their_starts():
    """All nodes of a graph have one launch."""
    made = report(
        rank(0, comm(10, 20, 0, size=1), comm(30, 40, 0, size=2)),
        rank(1, comm(12, 20, 0, size=1), comm(35, 40, 0, size=2)),
    )
    assert [(each.size_bytes, each.skew_ns) for each in made.collectives] == [(1, 2000), (2, 5000)]
