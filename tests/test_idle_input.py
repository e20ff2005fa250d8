"""Idle time while the host waits for its input, in µs. In the pictures one character is 1 ms."""

import pytest
from hosts import call, causes, loading, only, operator, parts
from traces import trace


@pytest.mark.parametrize(("quiet", "expected"), [(1499, [0, 0, 1499, 0]), (1500, [1500, 0, 0, 0])])
def test_a_host_that_is_silent_for_long_before_a_step_waits_for_its_input(quiet, expected):
    """
    gpu      ###...###
    host     Loo...L..
    marks    [   )[   )
    """
    end = 3000 + quiet
    _, found = causes(
        trace(
            ("compute", 0, 3000, 0),
            ("compute", end, end + 3000, end),
            marks=[(0, 3500), (3500, 20000)],
            host=[call(0, 5), operator(10, 3000), call(end, end + 10)],
        )
    )
    assert parts(found) == expected
    assert found is not None
    assert (found.loader_ns, found.silent_ns) == (0, 0)


@pytest.mark.parametrize(("quiet", "expected"), [(1999, 0), (2000, 2000)])
def test_silence_counts_from_two_percent_of_the_step_on(quiet, expected):
    end = 3000 + quiet
    _, found = causes(
        trace(
            ("compute", 0, 3000, 0),
            ("compute", end, 103_000, end),
            marks=[(0, 3500), (3500, 200_000)],
            host=[call(0, 5), operator(10, 3000), call(end, end + 10)],
        )
    )
    assert parts(found)[0] == expected


@pytest.mark.parametrize(("quiet", "expected"), [(2999, 0), (3000, 3000)])
def test_silence_must_be_longer_where_operators_were_not_recorded(quiet, expected):
    end = 3005 + quiet
    _, found = causes(
        trace(
            ("compute", 0, 3005, 0),
            ("compute", end, end + 3000, end),
            marks=[(0, 3500), (3500, 200_000)],
            host=[call(0, 5), call(3000, 3005, "cudaEventRecord"), call(end, end + 10)],
        )
    )
    assert found is not None
    assert found.told == "calls"
    assert parts(found)[0] == expected


def test_the_copy_of_the_batch_may_come_before_the_silence():
    """
    gpu      ###.m....###
    host     Loo.M....L..
    marks    [  )[       )
    """
    _, found = causes(
        trace(
            ("compute", 0, 3000, 0),
            ("mem", 4000, 4100, 4000),
            ("compute", 9000, 12000, 9000),
            marks=[(0, 3500), (3500, 20000)],
            host=[call(0, 5), operator(10, 4010), call(4000, 4010), call(9000, 9010)],
        )
    )
    assert parts(found) == [4900, 0, 1000, 0]


def test_a_silent_host_inside_a_step_has_no_known_reason():
    """
    gpu      ###....###
    host     LoL....L..
    """
    found = only(
        trace(
            ("compute", 0, 3000, 0),
            ("compute", 9000, 12000, 9000),
            host=[call(0, 5), operator(10, 3500), call(9000, 9010)],
        )
    )
    assert parts(found) == [0, 0, 500, 5500]
    assert (found.silent_ns, found.queued_ns) == (5_500_000, 0)
    assert found.longest is not None
    assert (found.longest.start_ns, found.longest.length_ns) == (3_000_000, 6_000_000)
    assert (found.longest.cause, found.longest.ended_by) == ("unknown", "kernel")


def test_without_marks_nothing_tells_where_a_step_starts():
    found = only(
        trace(
            ("compute", 0, 3000, 0),
            ("compute", 9000, 12000, 9000),
            host=[call(0, 5), operator(10, 3500), call(9000, 9010)],
            marks=(),
        )
    )
    assert parts(found) == [0, 0, 500, 5500]


@pytest.mark.parametrize("kind", ["annotation", "operator"])
def test_time_in_the_data_loader_is_the_input_wherever_it_is(kind):
    """
    gpu      ##....##
    host     LoDDDoL.    D: the loader's own range, inside a step and with operators in it
    """
    found = only(
        trace(
            ("compute", 0, 2000, 0),
            ("compute", 6000, 8000, 5990),
            marks=[(0, 8000)],
            host=[
                call(0, 5),
                operator(10, 2500),
                loading(2500, 5500, kind),
                operator(3000, 5990),
                call(5990, 5999),
            ],
        )
    )
    assert parts(found) == [3000, 0, 1000, 0]
    assert (found.loader_ns, found.data_loader_ns) == (3_000_000, 3_000_000)


def test_a_loader_beside_a_busy_gpu_costs_nothing():
    """
    gpu      ########
    host     LDDDDDL.
    """
    found = only(
        trace(
            ("compute", 0, 7000, 0),
            ("compute", 7000, 8000, 6000),
            marks=[(0, 8000)],
            host=[call(0, 5), loading(100, 5900), call(6000, 6009)],
        )
    )
    assert parts(found) == [0, 0, 0, 0]
    assert (found.loader_ns, found.data_loader_ns, found.longest) == (0, 5_800_000, None)


def test_silence_beside_a_recorded_loader_is_not_its_own():
    """
    gpu      ###.......###
    host     LooDD.....L..    the loader took 1 ms; what the host did then is not recorded
    marks    [  )[         )
    """
    _, found = causes(
        trace(
            ("compute", 0, 3000, 0),
            ("compute", 9000, 12000, 9000),
            marks=[(0, 3000), (3000, 20000)],
            host=[
                call(0, 5),
                operator(10, 3000),
                loading(3000, 4000),
                operator(3000, 4000),
                call(9000, 9010),
            ],
        )
    )
    assert parts(found) == [1000, 0, 0, 5000]
    assert found is not None
    assert found.silent_ns == 5_000_000
