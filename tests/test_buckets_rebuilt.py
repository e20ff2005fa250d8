"""Gradient buckets that were laid out anew, and those of several ranks."""

import pytest
from test_buckets import of_ddp, report_of, step, told, two_steps
from traces import trace

# --- rebuilding


@pytest.mark.parametrize(
    ("counts", "rebuilt"), [((1, 2, 2), True), ((2, 2, 2), None), ((2, 1, 2), None)]
)
def test_a_first_step_of_another_layout_than_all_others_shows_a_rebuild(counts, rebuilt):
    rows = [row for place, count in enumerate(counts) for row in step(100 * place, count=count)]
    recording = trace(*rows, marks=((0, 100), (100, 200), (200, 300)))
    assert report_of(recording).run.buckets.rebuilt is rebuilt


def test_a_first_step_of_other_sizes_shows_a_rebuild():
    recording = told(two_steps(), size_bytes=[20, 10, 10, 20])
    assert report_of(recording).run.buckets.rebuilt is True


def test_the_manifest_tells_that_nothing_was_rebuilt():
    module = {"initial_bucket_bytes": (10, 20), "has_rebuilt_buckets": False}
    assert report_of(two_steps(), manifest=of_ddp(module)).run.buckets.rebuilt is False


# --- several ranks


def test_a_collective_that_ranks_number_differently_is_no_bucket():
    one = trace(*step(0), marks=((0, 100),))
    other = trace(*step(0, count=1), marks=((0, 100),), rank=1)
    report = report_of(one, other)
    matched = next(each for each in report.collectives if len(each.ranks) == 2)
    assert matched.bucket is None
    assert [each.bucket for each in matched.ranks] == [None, None]


def test_what_is_typical_of_a_bucket_leaves_out_the_first_step():
    rows = [row for place in range(3) for row in step(100 * place)]
    del rows[3]  # in the first step the second bucket was blocked
    marks = ((0, 100), (100, 200), (200, 300))
    slow = trace(*rows, ("compute", 20, 30, 19, True), marks=marks, rank=1)
    report = report_of(trace(*rows, marks=marks), slow)
    first, second = report.buckets
    assert (first.bucket, first.transfer_ns, second.bucket) == (0, 10_000, 1)
    (medians, _) = first.ranks
    assert (medians.rank, medians.duration_ns, medians.wait_ns) == (0, 10_000, 0)
    assert (medians.hidden_ratio, second.ranks[0].hidden_ratio) == (1.0, 0.0)
    assert (medians.queue_ns, medians.backlog_ratio) == (0, 0.0)
    assert second.ranks[0].blocked_ratio == 0.0


def test_a_run_without_gradient_collectives_has_no_buckets():
    report = report_of(trace(("compute", 0, 10), ("compute", 10, 20, 10, True)))
    assert (report.run.buckets, report.buckets) == (None, [])
