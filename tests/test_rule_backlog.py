"""What findings of exposed transfers say of queues and of the first bucket; in µs."""

from findings import MIB, STEP, backward, figures, findings, reduce
from traces import trace


def queued(*, ready=(3000, 3000, 3000), length=1500):
    """State a step with three buckets that are ready at some times and follow each other.

    compute  ff b.b.b         OO
    comm        111222333
    """
    rows, at = [("compute", 0, 2000)], 0
    for number, moment in enumerate(ready):
        rows.append(backward(moment - 100, moment, 2000 + 10 * number))
        at = max(at, moment)
        rows.append(reduce(at, at + length, 2001 + 10 * number, size=8 * MIB))
        at += length
    return trace(*rows, ("compute", max(at, 9000), STEP), marks=((0, STEP),))


def test_buckets_that_queue_up_behind_each_other_are_counted():
    (found,) = findings("comm_bandwidth", queued())
    assert figures(found)["backlog_ratio"] == (2 / 3, None)
    (found,) = findings("comm_bandwidth", queued(ready=(3000, 5000, 7000)))
    assert figures(found)["backlog_ratio"] == (0.0, None)


def test_how_late_the_first_bucket_is_stands_beside_the_schedule():
    rows = [("compute", 0, 1000), backward(1000, 6000), reduce(6000, 9000, 1001, size=64 * MIB)]
    rows += [reduce(9000, 9500, 1002, size=8 * MIB), ("compute", 9500, STEP)]
    rows.insert(1, backward(1000, 1001, 1000))
    (found,) = findings("bucket_schedule", trace(*rows, marks=((0, STEP),)))
    assert figures(found)["first_comm_delay_ns"] == (5_000_000, None)
