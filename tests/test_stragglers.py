"""The rank that the others wait for; times are in µs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ranks import FOUR, PAIR, comm, rank, report

from ddptrace.model import Group

STEP = 10_000


def steps(*lates, length=4000, transfer=1000, kind="compute", count=2):
    """State ranks by how late each is in each step: `lates` has a tuple of µs a step.

    The others wait for the last one, then all transfer. `kind` says what a late rank does longer:
    it computes, its host sleeps before its first launch (input), or it idles later (host).
    """
    ranks = len(lates[0])
    group = Group("0", tuple(range(ranks)), ranks)
    found = []
    for number in range(ranks):
        rows, marks = [], []
        for at, late in enumerate(lates):
            start, mine = at * STEP, late[number]
            end = start + length + max(late) + transfer
            first = start + (mine if kind == "input" else 0)
            rows.append(("compute", first, first + 1000, first))
            second = first + 1000 + (mine if kind == "host" else 0)
            rest = length - 1000 + (mine if kind == "compute" else 0)
            rows.append(("compute", second, second + rest, second - 10, True))
            rows.append(comm(start + length + mine, end, second, True, group=group))
            marks.append((start, start + STEP))
        found.append(rank(number, *rows, marks=marks))
    return found


def found(*lates, **options):
    return report(*steps(*lates, **options)).stragglers


# --- who


def test_the_one_with_the_shortest_waits_is_waited_for():
    """Ranks 0 to 3 arrive at 500, 510, 700 and 505; their all-reduces end at 800."""
    arrivals = (500, 510, 700, 505)
    made = report(
        *(
            rank(
                number,
                ("compute", 0, arrival, 0),
                comm(arrival, 800, 10, group=FOUR),
                ("compute", 800, 850, 20),
            )
            for number, arrival in enumerate(arrivals)
        )
    ).stragglers
    assert (made.rank, made.late_ns, made.cause) == (2, 195_000, "compute")
    assert (made.pattern, made.confidence, made.cost_ns) == ("one_step", "low", 200_000)


@pytest.mark.parametrize(("late", "name"), [(50, None), (51, 1)])
def test_below_50_us_nobody_is_late(late, name):
    assert found((0, late), transfer=200).rank == name


@pytest.mark.parametrize(("late", "name"), [(400, None), (401, 1)])
def test_below_a_fifth_of_the_transfer_nobody_is_late(late, name):
    assert found((0, late), transfer=2000).rank == name


def test_small_delays_that_add_up_are_no_straggler():
    """Rank 1 is last by 40 µs, less than the ends of a collective differ by, at each of 10."""
    ends = range(1000, 11_000, 1000)
    made = report(
        rank(0, *(comm(end - 140, end, group=PAIR) for end in ends)),
        rank(1, *(comm(end - 100, end, group=PAIR) for end in ends)),
    )
    assert made.stragglers.rank is None


def test_when_all_but_one_are_late_nobody_is_waited_for():
    """Three of four arrive last together: it is the first one that is early."""
    assert found((0, 1000, 1000, 1000)).rank is None


def test_delays_that_take_turns_in_one_step_cancel():
    """
    rank 0   wwwt..t..
    rank 1   ...twwt..    each waits 300 µs for the other
    """
    made = report(
        rank(0, comm(0, 400, group=PAIR), comm(800, 900, group=PAIR)),
        rank(1, comm(300, 400, group=PAIR), comm(500, 900, group=PAIR)),
    )
    assert made.stragglers.rank is None
    assert made.stragglers.steps[0].led == 1


def test_the_group_that_waits_most_names_the_straggler():
    """Pair 0, 1 waits 2000 µs for rank 1; all four wait 100 µs for rank 3."""
    pairs = [Group("a", (0, 1), 2)] * 2 + [Group("b", (2, 3), 2)] * 2
    early = (0, 2000, 0, 0)
    late = (0, 0, 0, 100)
    made = report(
        *(
            rank(
                number,
                comm(early[number], 3000, group=pairs[number]),
                comm(4000 + late[number], 5000, group=FOUR),
            )
            for number in range(4)
        )
    )
    assert made.stragglers.rank == 1


def test_a_delay_that_travels_through_groups_is_that_of_its_first_rank():
    """
    rank 0   #########a.....      computes 10 ms, then meets rank 1
    rank 1   #wwwwwwwwab....      which waits, and so is late for rank 2
    rank 2   #wwwwwwwwwb....
    """
    first, second = Group("a", (0, 1), 2), Group("b", (1, 2), 2)
    made = report(
        rank(0, ("compute", 0, 10_000), comm(10_000, 10_100, group=first)),
        rank(1, comm(100, 10_100, group=first), comm(10_100, 10_200, group=second)),
        rank(2, comm(100, 10_200, group=second)),
    )
    assert made.stragglers.rank == 0


def test_ranks_on_one_gpu_take_turns():
    late = [rank(number, comm(number * 500, 1000, group=PAIR), gpu="GPU-1") for number in (0, 1)]
    assert report(*late).stragglers.unknown == "ranks 0-1 share one GPU and take turns on it"
    apart = [
        rank(number, comm(number * 500, 1000, group=PAIR), gpu=f"GPU-{number}") for number in (0, 1)
    ]
    assert report(*apart).stragglers.rank == 1


def test_why_nobody_can_be_named_is_said():
    assert report(rank(0, comm(0, 9))).stragglers.unknown == "only one rank is recorded"
    quiet = [rank(number, ("compute", 0, 9)) for number in (0, 1)]
    assert report(*quiet).stragglers.unknown == "no communication was recorded"
    unlike = [rank(number, comm(0, 9, size=number, group=PAIR)) for number in (0, 1)]
    assert report(*unlike).stragglers.unknown == "no collective of the ranks could be matched"


# --- how often, how sure


@pytest.mark.parametrize(
    ("late", "pattern", "name"),
    [
        # The first window of three or more does not count.
        ([1, 1, 1, 1], "persistent", 1),
        ([None, 1, 1, 1], "persistent", 1),
        ([1, None, None, None], None, None),
        ([None, 1, None, None], "single_step", 1),
        ([None, 1, 0, 1, 0], "alternating", 0),
        ([None, 0, 1, 1, 1], "persistent", 1),
        ([None, 1, 1, None, None], "occasional", 1),
        ([1], "one_step", 1),
        ([1, 1], "persistent", 1),
    ],
)
def test_persistent_alternating_and_single_lateness_are_told_apart(late, pattern, name):
    made = found(*(tuple(900 if number == who else 0 for number in (0, 1)) for who in late))
    assert (made.pattern, made.rank) == (pattern, name)


@pytest.mark.parametrize(
    ("count", "confidence"), [(1, "low"), (2, "medium"), (3, "medium"), (4, "high")]
)
def test_more_steps_make_it_surer(count, confidence):
    """Of three or more the first does not count, so that four are three."""
    assert found(*[(0, 900)] * count).confidence == confidence


def test_a_rank_that_is_not_recorded_may_be_the_later_one():
    made = report(*steps(*[(0, 900)] * 4), world_size=3).stragglers
    assert (made.rank, made.confidence) == (1, "low")
    assert "rank 2 is not recorded" in made.reason


def test_the_delay_is_the_median_of_its_steps():
    made = found((0, 0), (0, 900), (0, 1100), (0, 1000))
    assert (made.late_ns, made.led, made.collectives) == (1_000_000, 3, 3)
    assert [step.late_ns for step in made.steps] == [0, 900_000, 1_100_000, 1_000_000]
    assert made.cost_ns == 1_000_000


def test_lateness_in_turn_costs_what_whoever_waits_loses_in_each_step():
    """Each rank waits in every other step only, and every step is 900 µs longer for it."""
    in_turn = found((0, 0), (0, 900), (900, 0), (0, 900), (900, 0))
    assert (in_turn.pattern, in_turn.cost_ns) == ("alternating", 900_000)
    # Of a rank that is late most of the time it is what the other one waits in its own usual step.
    mostly = found((0, 0), (0, 900), (0, 900), (0, 900), (900, 0))
    assert (mostly.pattern, mostly.cost_ns) == ("persistent", 900_000)
    seldom = found((0, 0), (0, 900), (0, 0), (0, 0), (900, 0))
    assert (seldom.pattern, seldom.cost_ns) == ("alternating", 450_000)


# --- why


@pytest.mark.parametrize("kind", ["compute", "input", "host"])
@pytest.mark.parametrize("count", [1, 4])
def test_the_cause_is_what_the_late_rank_did_longer(kind, count):
    made = found(*[(0, 900, 0)] * count, kind=kind)
    assert (made.rank, made.cause) == (1, kind)


def test_a_cause_that_explains_less_than_half_is_not_named():
    """Rank 1 is 1000 µs late: it computed 400 µs longer, and copied 600 µs."""
    made = report(
        rank(0, ("compute", 0, 1000), comm(1000, 3000, group=PAIR)),
        rank(1, ("compute", 0, 1400), ("mem", 1400, 2000), comm(2000, 3000, group=PAIR)),
    ).stragglers
    assert (made.rank, made.cause) == (1, None)


def test_waiting_inside_a_step_is_not_taken_for_less_compute():
    """
    The host of rank 1 starts 2000 µs late; then both compute 4000 µs beside two collectives.
    Rank 0 computes ahead while it waits for the first one, so that it needs less time between them.
    """
    rows = []
    for late in (0, 2000):
        mine = []
        for start in (0, 20_000):
            first = start + late
            mine += [
                ("compute", first, first + 4000, first),
                comm(first + 2000, start + 5000, first + 1, group=PAIR),
                comm(max(start + 5000, first + 4000), start + 7000, first + 2, group=PAIR),
            ]
        rows.append(mine)
    marks = [(-1000, 10_000), (10_000, 30_000)]
    made = report(*(rank(number, *mine, marks=marks) for number, mine in enumerate(rows)))
    assert {step.cause for step in made.stragglers.steps} <= {"host", "input"}


# --- properties


@settings(deadline=None)
@given(
    lates=st.lists(st.tuples(*[st.integers(0, 3000)] * 3), min_size=1, max_size=4),
    shift=st.tuples(*[st.integers(-(10**6), 10**6)] * 3),
    kind=st.sampled_from(["compute", "input", "host"]),
)
def test_a_shifted_clock_changes_nothing(lates, shift, kind):
    before = found(*lates, kind=kind)
    moved = [
        _moved(one, by * 1000) for one, by in zip(steps(*lates, kind=kind), shift, strict=True)
    ]
    assert report(*moved).stragglers == before


def _moved(one, by_ns):
    ops = one.ops
    marks = tuple(
        replace(mark, start_ns=mark.start_ns + by_ns, end_ns=mark.end_ns + by_ns)
        for mark in one.marks
    )
    times = {name: getattr(ops, name) + by_ns for name in ("start_ns", "end_ns", "launch_ns")}
    return replace(one, ops=replace(ops, **times), marks=marks)
