"""Collectives that some ranks lost: which ones are paired, and what is said of the rest; in µs."""

from __future__ import annotations

import numpy as np
import pytest
from ranks import comm, rank, report

STEP = 10_000
LAST = -1


def told_first(made):
    return {
        each.rank: each.message.partition("(the first: ")[2].partition(")")[0]
        for each in made.run.warnings
        if each.code == "unmatched_collectives"
    }


def test_the_first_without_a_partner_is_named_in_the_order_of_the_rank():
    """Numbers of rank 1 are one behind, so no sizes agree; its first has no partner, either."""
    sizes = [4000, 8000, 12_000, 16_000, 20_000, 24_000]
    marks = [(at * 200, at * 200 + 200, at + 1) for at in range(3)]
    made = report(
        *(
            rank(
                number,
                *(
                    comm(at * 100 + 10, at * 100 + 50, size=size, seq=at + 5 - number, group="0")
                    for at, size in enumerate(sizes)
                ),
                marks=marks,
            )
            for number in (0, 1)
        )
    )
    assert told_first(made) == dict.fromkeys((0, 1), "all_reduce of 4,000 bytes in step 1")


# --- among equals, of which other steps tell how far the clocks are apart


def jobs(ranks, calls, lost, *, jitter=0, shift=0, drift=0.0, steps=6):
    """State ranks of `calls` equal all-reduces a step, about 1 ms apart; `lost` are left out.

    Whatever a rank loses, its others start and end as they do in the whole job.
    """
    random = np.random.default_rng(7)
    rows = [[] for _ in range(ranks)]
    for step in range(steps):
        for call in range(calls):
            end = step * STEP + (call + 1) * 1000 + int(random.integers(-60, 60))
            lengths = random.integers(100, 500, ranks)
            late = random.integers(0, jitter + 1, ranks)
            for number, mine in enumerate(rows):
                if (number, step, call) not in lost:
                    mine.append((end - int(lengths[number]), end + int(late[number])))
    clock = [lambda at, n=n: int(at * (1 + n * drift)) + n * shift for n in range(ranks)]
    marks = [(step * STEP, step * STEP + STEP, step) for step in range(steps)]
    return report(
        *(
            rank(
                number,
                *(comm(clock[number](start), clock[number](end)) for start, end in mine),
                marks=[(clock[number](one), clock[number](two), at) for one, two, at in marks],
            )
            for number, mine in enumerate(rows)
        )
    )


def wait_of(made, ranks, calls, lost):
    """Return the waits of the matched, each by step and place in the step of the whole job."""
    found = {}
    kept = {
        number: [
            (step, call)
            for step in range(6)
            for call in range(calls)
            if (number, step, call) not in lost
        ]
        for number in range(ranks)
    }
    for number in range(ranks):
        mine = sorted(
            (one.start_ns, each.transfer_ns is not None, one.wait_ns)
            for each in made.collectives
            for one in each.ranks
            if one.rank == number
        )
        for where, (_, is_matched, wait) in zip(kept[number], mine, strict=True):
            if is_matched:
                found.setdefault(where, {})[number] = wait
    return found


def without(whole, lost):
    gone = {(step, call) for _, step, call in lost}
    return {where: waits for where, waits in whole.items() if where not in gone}


LOSSES = [
    {(1, 3, 2)},
    {(1, 3, 1)},
    {(0, 3, 2)},
    {(1, 3, 0)},
    {(1, 2, LAST)},
    {(1, 5, LAST)},
    {(1, 0, LAST)},
    {(1, 3, 1), (1, 3, 2)},
    {(0, 1, 1), (1, 4, 2)},
]


@pytest.mark.parametrize(("calls", "ranks"), [(2, 2), (4, 3), (5, 2)])
@pytest.mark.parametrize("clock", [{}, {"shift": 1_500_003}, {"jitter": 40}, {"drift": 3e-4}])
@pytest.mark.parametrize("lost", LOSSES)
def test_one_lost_among_few_equals_changes_no_wait_of_the_others(calls, ranks, clock, lost):
    """
    rank 0   0 1 2 3 4   of the step in which rank 1 lost one, all of one size
    rank 1   0 1   3 4
    """
    lost = {(number, step, call % calls) for number, step, call in lost}
    whole = wait_of(jobs(ranks, calls, (), **clock), ranks, calls, ())
    found = wait_of(jobs(ranks, calls, lost, **clock), ranks, calls, lost)
    assert len(whole) == 6 * calls
    assert found == without(whole, lost)


def test_ends_that_differ_as_much_as_they_are_apart_tell_nothing():
    """Then the lists are aligned from their ends, as documented."""
    lost = {(1, 3, 2)}
    found = wait_of(jobs(2, 5, lost, jitter=3000), 2, 5, lost)
    assert (set(found[3, 2]), set(found[3, 0])) == ({0}, {1})


def test_without_a_whole_step_lists_are_aligned_from_their_ends():
    lost = {(1, step, 2) for step in range(6)}
    found = wait_of(jobs(2, 3, lost), 2, 3, lost)
    assert all(set(found[step, 2]) == {0} for step in range(6))
