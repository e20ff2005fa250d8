"""Buckets that are not rebuilt, held up by an earlier one, or ready in a bunch; in µs."""

import pytest
from findings import MIB, STEP, backward, costs, figures, findings, of_ddp, reduce
from traces import trace

# --- head of line


def held_up(length=100, *, available=5000, buckets=3, free=False):
    """State a step whose first bucket is ready last, and all buckets follow.

    compute  ff bbbbbbb .........OO
    comm                000111222
    """
    start = 1000 + available
    rows = [("compute", 0, 900, 0), backward(900, 1000), backward(1000, start, 950)]
    for number in range(buckets):
        begin = start + number * length
        rows.append(reduce(begin, begin + length, 960 + 2 * number))
        if free:  # what makes each bucket ready on its own; it runs before the transfers
            rows.append(backward(start - 2, start - 1, 961 + 2 * number))
    return trace(*rows, ("compute", 9500, STEP, 9500), marks=((0, STEP),))


@pytest.mark.parametrize(("length", "found"), [(49, []), (50, [100_000]), (100, [200_000])])
def test_blocked_buckets_cost_their_exposed_transfer(length, found):
    assert costs("head_of_line", held_up(length)) == found


def test_which_bucket_holds_them_up_and_which_parameter_is_said():
    module = {
        "rebuilt_bucket_bytes": (MIB,) * 3,
        "bucket_parameters": (("late.weight", "late.bias"), ("b",), ("c",)),
    }
    (found,) = findings("head_of_line", held_up(), manifest=of_ddp(**module))
    assert figures(found) == {
        "held_up_ns": (200_000, 100_000),
        "blocked_buckets": (2, 1),
        "bucket": (0, None),
    }
    assert "bucket 0 (late.weight and 1 more)" in found.advice
    (found,) = findings("head_of_line", held_up())
    assert "for bucket 0," in found.advice


def test_buckets_that_are_ready_in_turn_are_not_held_up():
    assert costs("head_of_line", held_up(free=True)) == []


@pytest.mark.parametrize(("available", "found"), [(99, []), (150, [150_000])])
def test_what_no_schedule_could_hide_is_not_their_cost(available, found):
    assert costs("head_of_line", held_up(available=available)) == found


# --- not rebuilt


def two_steps(last=2):
    rows = []
    for at in (0, STEP):
        rows += [("compute", at, at + 900, at), backward(at + 900, at + 9000)]
        rows += [reduce(at + 9000, at + STEP, at + 950)]
    return trace(*rows, marks=((0, STEP, last - 1), (STEP, 2 * STEP, last)))


@pytest.mark.parametrize(("last", "count"), [(1, 0), (2, 1), (30, 1)])
def test_buckets_that_are_still_the_first_ones_are_said_from_the_third_step_on(last, count):
    manifest = of_ddp(has_rebuilt_buckets=False, initial_bucket_bytes=(MIB,))
    found = findings("not_rebuilt", two_steps(last), manifest=manifest)
    assert [(one.cost_ns, figures(one)) for one in found] == [
        (None, {"step": (last, 2), "buckets": (1, None)})
    ] * count


def test_the_setting_that_forbids_it_is_named():
    told = {"has_rebuilt_buckets": False, "initial_bucket_bytes": (MIB,)}
    manifest = of_ddp(find_unused_parameters=True, **told)
    (found,) = findings("not_rebuilt", two_steps(), manifest=manifest)
    assert "find_unused_parameters" in found.advice
    (found,) = findings("not_rebuilt", two_steps(), manifest=of_ddp(**told))
    assert "find_unused_parameters" not in found.advice


@pytest.mark.parametrize("is_rebuilt", [True, None])
def test_nothing_is_said_of_buckets_that_were_rebuilt_or_may_have_been(is_rebuilt):
    manifest = of_ddp(has_rebuilt_buckets=is_rebuilt, initial_bucket_bytes=(MIB,))
    assert costs("not_rebuilt", two_steps(), manifest=manifest) == []


# --- uneven backward


def uneven(length=300, *, others=2980, early=False, kernel=1000, buckets=2):
    """State a step with a long kernel in backward, behind which the buckets are ready.

    compute  ff bbb LLLLLLLLLL b b.......O
    comm                        000111
    """
    rows, at = [("compute", 0, 900, 0)], 900
    for _ in range(4):
        rows.append(backward(at, at + others // 4))
        at += others // 4
    if early:
        rows.append(reduce(at, at + 200, at + 1))
    rows.append(backward(at, at + kernel, at + 2))
    at += kernel
    for number in range(buckets):
        rows.append(backward(at + 10 * number, at + 10 * number + 10))
        begin = at + 10 + number * length
        rows.append(reduce(begin, begin + length, at + 10 * number + 1))
    return trace(*rows, ("compute", 9500, STEP, 9500), marks=((0, STEP),))


def test_what_is_ready_behind_a_long_kernel_could_have_run_beside_it():
    (found,) = findings("uneven_backward", uneven())
    # 590 of their 600 us are exposed, and the last bucket's 300 would be in any schedule.
    assert (found.cost_ns, found.ranks) == (290_000, [0])
    assert figures(found) == {
        "bunched_ns": (290_000, 100_000),
        "longest_kernel_ns": (1_000_000, 1_000_000),
        "buckets_behind": (2, 2),
    }


@pytest.mark.parametrize(("others", "is_said"), [(2984, False), (2980, True)])
def test_a_schedule_that_a_long_kernel_spoils_is_told_to_spread_its_work(others, is_said):
    (found,) = findings("bucket_schedule", uneven(others=others))
    assert ("uneven_backward" in found.advice) == is_said
    assert ("smaller bucket_cap_mb" in found.advice) != is_said


def test_a_kernel_below_a_quarter_of_backward_is_not_uneven():
    assert costs("uneven_backward", uneven(others=2984)) == []


@pytest.mark.parametrize(("length", "found"), [(109, []), (110, [100_000])])
def test_an_uneven_backward_is_listed_from_one_percent_of_the_step(length, found):
    assert costs("uneven_backward", uneven(length)) == found


def test_one_bucket_is_no_bunch():
    assert costs("uneven_backward", uneven(600, buckets=1)) == []


def test_no_more_is_gained_than_the_kernel_has_time_without_communication():
    """A transfer of 200 µs runs beside the kernel of 1000 already."""
    assert costs("uneven_backward", uneven(1000, early=True)) == [800_000]


def test_buckets_that_were_ready_before_the_long_kernel_are_no_bunch():
    """The last kernel of backward is the long one: only the last bucket is behind it."""
    rows = [("compute", 0, 900, 0), backward(900, 1000), reduce(1000, 1100, 901)]
    rows += [backward(1001, 1100), reduce(1100, 1200, 1002), backward(1100, 6000)]
    rows += [reduce(6000, 6500, 1200), ("compute", 9500, STEP, 9500)]
    assert costs("uneven_backward", trace(*rows, marks=((0, STEP),))) == []
