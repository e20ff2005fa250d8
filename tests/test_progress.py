"""How far compute had come at a moment: waiting for the host, and time beside buckets; in µs."""

from __future__ import annotations

import numpy as np
from traces import trace

from ddptrace.metrics.recorded import Recorded
from ddptrace.whatif.progress import Progress


def progress(*rows):
    recorded = Recorded.of(trace(*rows, marks=[(0, 1000)]))
    comm = np.flatnonzero(recorded.trace.ops.kind == 1)
    return Progress.of(recorded, 0, comm)


def at(found, *moments):
    reached = found.at(np.array(moments, np.int64) * 1000)
    columns = (reached.wall_ns, reached.host_ns, reached.beside_ns)
    return [(column / 1000).astype(int).tolist() for column in columns]


def test_waiting_for_the_host_is_what_passed_until_a_kernel_was_launched():
    """
    compute  aaa..bbb   b was launched 100 µs after a had ended, and started at once
    """
    found = progress(("compute", 0, 300, 0), ("compute", 400, 700, 400))
    assert at(found, 300, 400, 700) == [[300, 400, 700], [0, 100, 100], [0, 0, 0]]


def test_a_kernel_that_was_launched_before_waits_for_something_else():
    found = progress(("compute", 0, 300, 0), ("compute", 400, 700, 200))
    assert at(found, 700)[1] == [0]


def test_time_beside_a_bucket_is_that_in_which_compute_could_run():
    """
    compute  aaa....bbb   the GPU waits for the host at 300 to 500
    comm     ....rrrrrr   from 400 on: 100 µs of it beside nothing, 200 µs beside b
    """
    found = progress(("compute", 0, 300, 0), ("comm", 400, 700, 10), ("compute", 500, 700, 500))
    assert at(found, 500, 700) == [[500, 700], [200, 200], [0, 200]]


def test_compute_alone_leaves_out_the_hosts_part_and_what_communication_cost():
    found = progress(("compute", 0, 300, 0), ("comm", 400, 700, 10), ("compute", 500, 700, 500))
    moments = found.at(np.array([700_000]))
    assert moments.compute_ns(1.0, 1.0) == [700_000]
    assert moments.compute_ns(0.0, 1.0) == [500_000]
    assert moments.compute_ns(0.5, 2.0) == [700_000 - 100_000 - 100_000]


def test_compute_ends_with_what_began_before_the_buckets_ended():
    found = progress(("compute", 0, 300), ("comm", 200, 600), ("compute", 650, 900))
    assert found.compute_end_ns(600_000) == 300_000
    assert found.compute_end_ns(700_000) == 900_000
