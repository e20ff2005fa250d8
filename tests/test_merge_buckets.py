"""`ddptrace merge` of gradient buckets: their names, and what they waited for."""

from decimal import Decimal

from test_merge import merged
from traces import trace


def test_a_bucket_is_called_by_its_number_and_says_what_it_waited_for():
    """
    compute  ffbb....      the gradients are ready at 20 µs
    comm     .....00.
    """
    rows = [("compute", 0, 10, 0), ("compute", 10, 20, 10, True)]
    bucket = ("comm", 24, 40, 11, True)
    for told, name in (({"size": 25_000_000}, "bucket 0, 25 MB"), ({}, "bucket 0")):
        document = merged(trace(*rows, (*bucket, told), marks=[(0, 50)]))
        (found,) = [event["args"] for event in document["traceEvents"] if event["name"] == name]
        values = ("op", "bucket", "backward_pass", "blocked", "backlog")
        assert [found[each] for each in values] == ["all_reduce", 0, 0, False, False]
        assert (found["queue_ms"], found["blocked_ms"]) == (Decimal("0.004"), 0)
