"""Exposed communication of a step: waiting for another rank and transfer; times are in µs."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from ranks import PAIR, comm, rank, report


def split(made, number=0):
    """Return exposed, waiting and transfer of a rank's only step, in µs."""
    (row,) = (row for row in made.steps if row.rank == number)
    figures = (row.exposed_comm_ns, row.exposed_wait_ns, row.exposed_transfer_ns)
    return tuple(None if ns is None else ns / 1000 for ns in figures)


def test_the_wait_is_at_the_front():
    """
    rank 0  compute  ####......
            comm     ..wwwwtt..    waits [2,6), of which [2,4) is hidden
    rank 1  comm     ......tt..
    """
    made = report(rank(0, ("compute", 0, 4), comm(2, 8)), rank(1, ("compute", 0, 6), comm(6, 8)))
    assert split(made, 0) == (4, 2, 2)
    assert split(made, 1) == (2, 0, 2)
    ((first, second),) = (each.ranks for each in made.collectives)
    assert (first.hidden_ns, first.exposed_ns, first.wait_ns) == (2000, 4000, 4000)
    assert (second.hidden_ns, second.exposed_ns, second.wait_ns) == (0, 2000, 0)


def test_while_another_one_transfers_it_is_no_waiting():
    """
    rank 0  comm     wwwwwwtt    of one group
            comm     ..tttt..    of another stream, with rank 1
    rank 1  comm     ......tt
            comm     ..tttt..
    """
    made = report(
        rank(0, comm(0, 8, seq=1, group=PAIR), comm(2, 6, seq=2, group=PAIR)),
        rank(1, comm(6, 8, seq=1, group=PAIR), comm(2, 6, seq=2, group=PAIR)),
    )
    assert split(made, 0) == (8, 2, 6)


def test_a_step_with_exposed_operations_that_are_not_matched_has_no_split():
    """
    rank 0  comm     tt..wt    the first one has no partner
    rank 1  comm     .....t
    """
    made = report(rank(0, comm(0, 2, size=1), comm(4, 6, size=2)), rank(1, comm(5, 6, size=2)))
    assert split(made, 0) == (4, None, None)
    assert split(made, 1) == (1, 0, 1)


def test_an_unmatched_operation_that_is_hidden_does_not_matter():
    made = report(
        rank(0, ("compute", 0, 3), comm(0, 2, size=1), comm(4, 6, size=2)),
        rank(1, comm(5, 6, size=2)),
    )
    assert split(made, 0) == (2, 1, 1)


def test_without_communication_nothing_is_exposed():
    made = report(rank(0, ("compute", 0, 5)), rank(1, ("compute", 0, 5)))
    assert split(made) == (0, 0, 0)


def test_what_was_not_recorded_has_no_split():
    made = report(rank(0, ("compute", 0, 5), comm_missing=True), rank(1, comm(0, 5)))
    assert split(made, 0) == (None, None, None)


@settings(deadline=None)
@given(data=st.data())
def test_the_parts_add_up(data):
    moment = st.integers(0, 60)
    length = st.integers(1, 20)
    ranks = []
    for number in range(data.draw(st.integers(1, 3))):
        rows = [
            ("compute", at, at + data.draw(length))
            for at in data.draw(st.lists(moment, max_size=6))
        ]
        rows += [comm(at, at + data.draw(length)) for at in data.draw(st.lists(moment, max_size=6))]
        ranks.append(rank(number, *rows or [("compute", 0, 1)]))
    made = report(*ranks)
    for row in made.steps:
        if row.exposed_wait_ns is not None:
            assert row.exposed_wait_ns >= 0
            assert row.exposed_transfer_ns >= 0
            assert row.exposed_wait_ns + row.exposed_transfer_ns == row.exposed_comm_ns
    for each in made.collectives:
        for one in each.ranks:
            assert one.hidden_ns + one.exposed_ns == one.end_ns - one.start_ns
            assert one.wait_ns is None or 0 <= one.wait_ns <= one.end_ns - one.start_ns
