"""What of an exposed transfer a schedule could hide; times are µs, a character a millisecond."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from jobs import MB, backward, both, bucket, diagnosis, forward, ledger, other, parts, transfer
from ranks import PAIR, comm, rank
from traces import run

from ddptrace.metrics.measured import Measured
from ddptrace.metrics.transfers import exposed_transfers
from ddptrace.model import Group

GRADIENT = ("operator", "torch::autograd::AccumulateGrad")


def test_one_bucket_behind_backward_could_have_been_hidden():
    """
    compute  fbbbbb.....f   the first gradient is ready at 2: 4 ms of backward are left
    comm     ......rrrrr
    """
    found = transfer(
        *both(
            forward(0, 1000),
            *(backward(start, start + 1000) for start in range(1000, 6000, 1000)),
            bucket(6000, 11_000, 5500, 100 * MB),
        )
    )
    assert (found.transfer_ns, found.available_ns) == (5_000_000, 4_000_000)
    assert parts(found) == [4000, 1000, 0, 0]


def test_what_is_hidden_already_leaves_less_for_the_schedule():
    """
    compute  fbbbbb......   two buckets of 4 ms in 4 ms of backward
    comm     ...aaaabbbb.   2.5 ms would be left with any schedule: 8 - 4, or 4 of the last one
    """
    found = transfer(
        *both(
            forward(0, 1000),
            *(backward(start, start + 1000) for start in range(1000, 6000, 1000)),
            bucket(3000, 7000, 2500, 100 * MB),
            bucket(7000, 11_000, 5500, 100 * MB),
        )
    )
    assert parts(found) == [1000, 4000, 0, 0]


def test_a_schedule_without_a_fault_is_due_to_bandwidth():
    """
    compute  fbbbbb......
    comm     ..aaaabbbb..   from the first gradient on without a pause
    """
    found = transfer(
        *both(
            forward(0, 1000),
            *(backward(start, start + 1000) for start in range(1000, 6000, 1000)),
            bucket(2000, 6000, 1500, 100 * MB),
            bucket(6000, 10_000, 5500, 100 * MB),
        )
    )
    assert parts(found) == [0, 4000, 0, 0]


def test_the_last_of_several_buckets_is_hidden_by_no_schedule():
    """
    compute  fbbbbbbbbb.   8 ms are left for two buckets of 1 ms
    comm     ...a......b   of the usual size, so that another cap helps little
    """
    found = transfer(
        *both(
            forward(0, 1000),
            *(backward(start, start + 1000) for start in range(1000, 10_000, 1000)),
            bucket(3000, 4000, 2500, 25 * MB),
            bucket(10_000, 11_000, 9500, 25 * MB),
        )
    )
    assert parts(found) == [0, 1000, 0, 0]


def test_a_large_last_bucket_is_a_fault_beyond_the_usual_size():
    """The line says 25 µs a MB, so that 26.2 MB (25 MiB) take 655 µs of the last one's 5000."""
    found = transfer(
        *both(
            forward(0, 1000),
            *(backward(start, start + 1000) for start in range(1000, 10_000, 1000)),
            bucket(3000, 3500, 2500, 20 * MB),
            bucket(10_000, 15_000, 9500, 200 * MB),
        )
    )
    assert parts(found) == [4344, 655, 0, 0]


def test_the_last_bucket_is_held_against_the_link_of_its_own_group():
    """The slow link of another group says nothing of how long 25 MiB take here."""
    slow = Group("slow", (0, 1), 2)
    found = transfer(
        *both(
            forward(0, 1000),
            other(1000, 3000, 900, MB, group=slow),
            other(3000, 9000, 950, 4 * MB, group=slow),
            *(backward(start, start + 1000) for start in range(9000, 18_000, 1000)),
            bucket(11_000, 11_500, 10_500, 20 * MB),
            bucket(18_000, 23_000, 17_500, 200 * MB),
        )
    )
    assert parts(found)[0] == 4344


def test_the_first_gradient_is_where_the_host_accumulates_it():
    """
    compute  fbbbbb.....   the first gradient comes only behind the fourth kernel of backward
    comm     ......rrrrr
    """
    found = transfer(
        *both(
            forward(0, 1000, 0),
            *(backward(1000 * at, 1000 * at + 1000, 100 * at) for at in range(1, 6)),
            bucket(6000, 11_000, 600, 100 * MB),
            host=[(*GRADIENT, 410, 420), (*GRADIENT, 510, 520)],
        )
    )
    assert found.available_ns == 1_000_000
    assert parts(found) == [1000, 4000, 0, 0]


def test_the_first_gradient_may_be_known_from_another_recording():
    """The recording of causes tells that it is ready 3 ms before the end of backward."""
    traces = both(
        forward(0, 1000),
        *(backward(start, start + 1000) for start in range(1000, 6000, 1000)),
        bucket(6000, 11_000, 5500, 100 * MB),
    )
    measured = Measured.of(run(*traces))
    times = {
        number: replace(each, first_ready_ns=np.full(1, 3_000_000))
        for number, each in measured.buckets.times.items()
    }
    told = replace(measured, buckets=replace(measured.buckets, times=times))
    found = exposed_transfers(told)[0][0]
    assert found.available_ns == 3_000_000
    assert parts(found) == [3000, 2000, 0, 0]


def test_a_transfer_beside_another_counts_once():
    """
    compute  fbb......
    comm     ...rrrr..   the bucket and a gather of unknown size at once: 3 ms each of the 6
    comm 2   .....gggg
    """
    apart = Group("apart", (0, 1), 2)
    found = transfer(
        *both(
            forward(0, 1000),
            backward(1000, 2000),
            backward(2000, 3000),
            bucket(3000, 7000, 2500, 100 * MB),
            other(5000, 9000, 2600, group=apart),
        )
    )
    assert found.total_ns == 6_000_000
    assert parts(found) == [0, 3000, 0, 3000]


# --- several backward passes


@pytest.mark.parametrize("has_gradients", [False, True])
def test_only_the_pass_that_reduces_can_hide_its_buckets(has_gradients):
    """
    compute  fbbbfbbbfbbb...   the first two passes do not reduce (no_sync)
    comm     ............rrr   2 ms of the last pass are left when its first gradient is ready
    """
    rows, host = [], []
    for at in (0, 4000, 8000):
        rows.append(forward(at, at + 1000))
        rows += [backward(at + start, at + start + 1000) for start in (1000, 2000, 3000)]
        host += [(*GRADIENT, at + start, at + start + 10) for start in (1500, 2500, 3500)]
    rows.append(bucket(12_000, 15_000, 11_900, 100 * MB))
    found = transfer(*both(*rows, host=host if has_gradients else []))
    assert found.available_ns == 2_000_000
    assert parts(found) == [2000, 1000, 0, 0]


def test_a_pass_hides_no_buckets_of_another():
    """
    compute  fbb...fbbbbbb.   DDP waits at the end of a pass: the long second one hides nothing
    comm     ...rrr.......r   of the first
    """
    found = transfer(
        *both(
            forward(0, 1000),
            backward(1000, 2000),
            backward(2000, 3000),
            bucket(3000, 6000, 2500, 100 * MB),
            forward(6000, 7000),
            *(backward(start, start + 1000) for start in range(7000, 13_000, 1000)),
            bucket(13_000, 14_000, 12_500, 100 * MB),
        )
    )
    # 1 ms of the first pass, and all of the second one's bucket, could have been hidden.
    assert found.available_ns == 6_000_000
    assert parts(found) == [2000, 2000, 0, 0]


# --- what is no bucket, or not known


def test_other_collectives_are_no_matter_of_the_schedule():
    """
    compute  f..b..bb   as FSDP does: a gather before each layer
    comm     .gg.gg..
    """
    found = transfer(
        *both(
            forward(0, 1000),
            other(1000, 3000, 500, 100 * MB),
            backward(3000, 4000),
            other(4000, 6000, 3500, 100 * MB, op="reduce_scatter"),
            backward(6000, 8000),
        )
    )
    assert (found.transfer_ns, found.available_ns) == (0, 0)
    assert parts(found) == [0, 4000, 0, 0]


def test_of_an_unknown_size_the_cause_is_unknown():
    found = transfer(*both(forward(0, 1000), other(1000, 3000, 500)))
    assert parts(found) == [0, 0, 0, 2000]


def test_where_backward_is_not_told_no_schedule_is_blamed():
    """The same as one bucket behind backward, of which only the marks are told."""
    rows = [("compute", start, start + 1000) for start in range(0, 6000, 1000)]
    found = transfer(*both(*rows, comm(6000, 15_000, 5500, group=PAIR, size=100 * MB)))
    # Even under all 6 ms of compute 3 ms would not fit.
    assert parts(found) == [0, 3000, 0, 6000]


def test_a_collective_outside_of_the_steps_has_its_own_cause():
    """
    marks    [   ]....[         ]
    compute  fbbb.f....fbbb.f....
    comm     ....r.ee......r.....   ee: an evaluation between the steps, of which no size is told
    """
    rows = []
    for at in (0, 10_000):
        rows += [forward(at, at + 1000)]
        rows += [backward(at + start, at + start + 1000) for start in (1000, 2000, 3000)]
        rows += [bucket(at + 4000, at + 5000, at + 3500, MB * 20), forward(at + 5000, at + 5100)]
    rows.append(other(6000, 8000, 5500, op="broadcast"))
    found = transfer(*both(*rows, marks=[(0, 5400), (9000, 20_000)]), step=1)
    assert found.unknown_ns == 2_000_000
    assert found.schedule_ns + found.bandwidth_ns == 1_000_000


# --- fixed cost


def test_small_collectives_are_fixed_cost():
    """200 all-gathers of 32 KB and 20 µs each, beside one large of 100 MB and 4 ms."""
    small = [other(start, start + 20, start - 5, 32_000) for start in range(1000, 5000, 20)]
    large = other(6000, 10_000, 5500, 100 * MB)
    found = transfer(*both(forward(0, 1000), *small, backward(5000, 6000), large))
    assert found.collectives == 201
    # The line says 18.726 µs and 39.8 µs a MB: so much of each one.
    assert parts(found)[0::3] == [0, 0]
    assert parts(found)[2] == pytest.approx(201 * 18.726, abs=1)


@pytest.mark.parametrize(
    ("size", "expected"), [(131_071, [0, 0, 500, 0]), (131_072, [0, 500, 0, 0])]
)
def test_of_one_size_alone_the_size_tells(size, expected):
    found = transfer(*both(forward(0, 1000), other(1000, 1500, 500, size)))
    assert parts(found) == expected


def test_many_small_buckets_are_no_matter_of_the_schedule():
    """
    compute  fbbbb....   all four buckets of 1 KB come behind a backward of 3 ms
    comm     .....rrrr
    """
    found = transfer(
        *both(
            forward(0, 1000),
            *(backward(start, start + 1000) for start in range(1000, 5000, 1000)),
            *(
                bucket(start, start + 1000, 4000 + start // 100, 1000)
                for start in range(5000, 9000, 1000)
            ),
        )
    )
    assert parts(found) == [0, 0, 4000, 0]


# --- waiting


def test_waiting_is_left_to_the_straggler():
    """
    rank 0   fb.wwwrr    w: until rank 1 has arrived
    rank 1   fbbbbbrr
    """
    first = [forward(0, 1000), backward(1000, 3000), bucket(3000, 8000, 2500, 100 * MB)]
    second = [forward(0, 1000), backward(1000, 6000), bucket(6000, 8000, 2500, 100 * MB)]
    said = diagnosis(rank(0, *first), rank(1, *second))
    assert ledger(said, 0) == {"compute": 3000, "straggler": 3000, "comm_bandwidth": 2000}
    assert ledger(said, 1) == {"compute": 6000, "comm_bandwidth": 2000}
