"""Idle time after calls that block the host, in µs. In the pictures one character is 1 ms."""

import pytest
from hosts import call, causes, only, operator, parts, sync
from traces import trace


def test_a_host_blocked_until_the_gpu_ran_dry_is_the_reason_up_to_the_next_launch():
    """
    gpu      ####..##
    host     LSSSSoL.    S: a synchronising call
    """
    found = only(
        trace(
            ("compute", 0, 4000, 0),
            ("compute", 6000, 8000, 5990),
            host=[
                call(0, 5),
                operator(500, 4100, "aten::item"),
                operator(501, 4050, "aten::_local_scalar_dense"),
                sync(600, 4010),
                operator(4200, 5995),
                call(5990, 5998),
            ],
        )
    )
    assert parts(found) == [0, 2000, 0, 0]
    (one,) = found.sync_calls
    assert (one.name, one.operator, one.count) == ("cudaStreamSynchronize", "aten::item", 1)
    assert (one.blocked_ns, one.idle_ns) == (3_410_000, 2_000_000)


def test_a_sync_costs_no_more_than_it_blocked():
    """
    gpu      ###.....##
    host     L.Soooo.L.    the host was blocked for 0.4 ms, and then busy for 4.6 ms
    """
    found = only(
        trace(
            ("compute", 0, 3000, 0),
            ("compute", 8000, 10000, 7990),
            host=[
                call(0, 5),
                operator(10, 2600),
                sync(2610, 3010),
                operator(3010, 7990),
                call(7990, 7999),
            ],
        )
    )
    assert parts(found) == [0, 400, 4600, 0]


def test_a_sync_costs_the_later_gaps_of_the_step_until_the_host_is_ahead_again():
    """
    gpu      ###.#.#.#.#    gaps of 1 ms; the host was blocked for 2.5 ms
    host     LSS.......
    """
    kernels = [("compute", start, start + 1000, start - 10) for start in (4000, 6000, 8000, 10000)]
    found = only(
        trace(
            ("compute", 0, 3000, 0),
            *kernels,
            host=[call(0, 5), sync(505, 3005), operator(3005, 11000)]
            + [call(start - 10, start - 1) for _, start, _, _ in kernels],
        )
    )
    assert parts(found) == [0, 2500, 1500, 0]


def test_each_sync_has_its_own_share_of_the_idle_time():
    """
    gpu      ###.##.##
    host     LSSoLSoL.
    """
    found = only(
        trace(
            ("compute", 0, 3000, 0),
            ("compute", 4000, 6000, 3990),
            ("compute", 7000, 9000, 6990),
            host=[
                call(0, 5),
                sync(2400, 3100),
                operator(3100, 4000),
                call(3990, 3999),
                call(5900, 6100, "cudaDeviceSynchronize"),
                operator(6100, 7000),
                call(6990, 6999),
            ],
        )
    )
    assert parts(found) == [0, 900, 1100, 0]
    assert {one.name: one.idle_ns for one in found.sync_calls} == {
        "cudaStreamSynchronize": 700_000,
        "cudaDeviceSynchronize": 200_000,
    }


def test_a_sync_during_which_the_gpu_had_work_costs_nothing():
    """
    gpu      ########..##
    host     L.SS..oooL..
    """
    found = only(
        trace(
            ("compute", 0, 8000, 0),
            ("compute", 10000, 12000, 9990),
            host=[call(0, 5), sync(2000, 4000), operator(6000, 9990), call(9990, 9999)],
        )
    )
    assert parts(found) == [0, 0, 2000, 0]
    assert found.sync_calls == ()


def test_a_sync_at_the_end_of_a_step_costs_the_start_of_the_next():
    """
    gpu      ####..####
    host     LSSS.oL...
    marks    [    )[   )
    """
    first, second = causes(
        trace(
            ("compute", 0, 4000, 0),
            ("compute", 6000, 10000, 5990),
            marks=[(0, 4100), (4100, 12000)],
            host=[call(0, 5), sync(100, 4010), operator(4200, 5990), call(5990, 5999)],
        )
    )
    assert parts(first) == [0, 0, 0, 0]
    assert parts(second) == [0, 2000, 0, 0]


def test_a_sync_costs_nothing_in_the_step_after():
    """
    gpu      ####.##..##
    host     LSSSoL.ooL.
    marks    [      )[  )
    """
    first, second = causes(
        trace(
            ("compute", 0, 4000, 0),
            ("compute", 5000, 7000, 4990),
            ("compute", 9000, 11000, 8990),
            marks=[(0, 8000), (8000, 12000)],
            host=[
                call(0, 5),
                sync(100, 4010),
                operator(4100, 8990),
                call(4990, 4999),
                call(8990, 8999),
            ],
        )
    )
    assert parts(first) == [0, 1000, 0, 0]
    assert parts(second) == [0, 0, 2000, 0]


def test_threads_that_launch_no_kernels_do_not_matter():
    """NCCL's watchdog waits for events all the time."""
    found = only(
        trace(
            ("compute", 0, 2000, 0),
            ("compute", 6000, 8000, 5990),
            host=[call(0, 5), operator(100, 5995), call(5990, 5998), sync(10, 6000, thread=7)],
        )
    )
    assert parts(found) == [0, 0, 4000, 0]


@pytest.mark.parametrize(("returned", "expected"), [(2110, [0, 500, 0, 0]), (2099, [0, 0, 500, 0])])
def test_a_copy_whose_call_returned_after_it_was_a_blocking_one(returned, expected):
    """
    gpu      ##m.##
    host     LMM.L.    M: cudaMemcpyAsync of pageable memory
    """
    found = only(
        trace(
            ("compute", 0, 2000, 0),
            ("mem", 2000, 2100, 100),
            ("compute", 2600, 4000, 2590),
            host=[
                call(0, 5),
                call(100, returned, "cudaMemcpyAsync"),
                operator(2110, 2590),
                call(2590, 2599),
            ],
        )
    )
    assert parts(found) == expected


def test_a_copy_whose_call_took_long_but_returned_before_it_did_not_block():
    """
    gpu      ##..mm##
    host     L.MMMM..    M: cudaMemcpyAsync, which returns while the copy runs
    """
    found = only(
        trace(
            ("compute", 0, 1000, 0),
            ("mem", 1100, 1300, 950),
            ("compute", 1300, 2000, 1250),
            host=[call(0, 5), call(950, 1200, "cudaMemcpyAsync"), call(1250, 1259)],
        )
    )
    assert parts(found) == [0, 0, 100, 0]


@pytest.mark.parametrize(("called", "expected"), [(1960, [0, 50, 545, 0]), (1961, [0, 0, 595, 0])])
def test_any_call_may_return_after_a_very_short_copy(called, expected):
    found = only(
        trace(
            ("compute", 0, 2000, 0),
            ("mem", 2000, 2005, called),
            ("compute", 2600, 4000, 2590),
            host=[
                call(0, 5),
                call(called, 2010, "cudaMemcpyAsync"),
                operator(2010, 2590),
                call(2590, 2599),
            ],
        )
    )
    assert parts(found) == expected


def test_a_thread_that_only_copies_does_not_matter():
    """The thread that brings the next batch waits for its own copies."""
    found = only(
        trace(
            ("compute", 0, 2000, 0),
            ("mem", 500, 600, 490, False, 7),
            ("compute", 6000, 8000, 5990),
            host=[
                call(0, 5),
                operator(100, 5995),
                call(5990, 5998),
                call(490, 495, "cudaMemcpyAsync", thread=7),
                sync(500, 6000, thread=7),
            ],
        )
    )
    assert parts(found) == [0, 0, 4000, 0]
