"""The line about DDP's buckets: how many, how large, and only what is odd about them."""

from dataclasses import replace

import pytest
from ranks import report
from traces import trace

from ddptrace.metrics.bucket_summary import Bucket, BucketFacts, BucketMedians
from ddptrace.outputs import html, text
from ddptrace.outputs.buckets import bucket_lines
from ddptrace.outputs.terminal import Destination

MB = 10**6


def plain():
    return report(trace(("compute", 0, 5), ("comm", 10, 20, {"op": "all_gather"})))


def made(*sizes, rebuilt=True, blocked=(), backlog=()):
    """State a report with buckets of these sizes; the rest are ratios of each rank by bucket."""
    of = {"blocked": dict(blocked), "backlog": dict(backlog)}
    buckets = [
        Bucket(
            number,
            size,
            None,
            None,
            [
                BucketMedians(rank, 1, None, None, None, *ratios)
                for rank, ratios in enumerate(
                    zip(*(of[kind].get(number, (0.0, 0.0)) for kind in of), strict=True)
                )
            ],
        )
        for number, size in enumerate(sizes)
    ]
    facts = BucketFacts(len(sizes), None, rebuilt)
    found = plain()
    return replace(found, run=replace(found.run, buckets=facts), buckets=buckets)


def line(*sizes, **options):
    (found,) = bucket_lines(made(*sizes, **options))
    return found.removeprefix("buckets: ")


def test_without_buckets_there_is_no_line():
    assert bucket_lines(plain()) == []


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ([575_160_320], "1 of 575.2 MB"),
        ([4 * MB] * 3, "3 of 4.0 MB, 12.0 MB in all"),
        ([33 * MB, 4 * MB], "2 of 4.0 to 33.0 MB, 37.0 MB in all"),
        ([99_999, 100_000], "2 of 100.0 kB to 0.1 MB, 0.2 MB in all"),
        ([32_768] * 200, "200 of 32.8 kB, 6.6 MB in all"),
        ([None, 4 * MB], "2 of unknown size"),
    ],
)
def test_count_and_sizes_are_told(sizes, said):
    assert line(*sizes) == said


def test_only_that_they_were_not_rebuilt_is_odd():
    assert line(MB, rebuilt=False) == "1 of 1.0 MB; not rebuilt after the first step"
    assert line(MB, rebuilt=True) == line(MB, rebuilt=None) == "1 of 1.0 MB"


def test_blocked_buckets_wait_for_the_last_one_before_them_that_is_not():
    said = line(*[MB] * 6, blocked={1: (1, 1), 2: (1, 1), 5: (0.5, 1)})
    assert said.endswith(
        "; buckets 1-2 are ready before and wait for the gradients of bucket 0 in every step"
        "; bucket 5 is ready before and waits for the gradients of bucket 4 in most steps"
    )


def test_of_many_that_block_a_few_are_told():
    said = line(*[MB] * 12, blocked=dict.fromkeys((1, 3, 5, 7, 9, 10), (1, 1)))
    assert said.count("ready before") == 3
    assert said.endswith("; and 3 more wait like that")


@pytest.mark.parametrize(
    ("ratios", "is_told"),
    [((0.5, 0.5), True), ((0.5, None), True), ((1, 0.49), False), ((None, None), False)],
)
def test_what_is_not_the_rule_on_every_rank_is_not_told(ratios, is_told):
    assert ("gradients of bucket 0" in line(MB, MB, blocked={1: ratios})) == is_told
    assert ("1 of 2 wait" in line(MB, MB, backlog={1: ratios})) == is_told


def test_a_backlog_is_told_from_a_quarter_of_the_buckets_on():
    assert "; 1 of 4 wait for the all-reduce before" in line(*[MB] * 4, backlog={3: (1, 1)})
    assert line(*[MB] * 5, backlog={3: (1, 1)}) == "5 of 1.0 MB, 5.0 MB in all"


def test_the_backlog_behind_a_bucket_that_blocks_is_not_told_again():
    both = {1: (1, 1)}
    assert "all-reduce" not in line(MB, MB, blocked=both, backlog=both)


def test_text_and_page_say_it():
    found = made(MB, MB)
    shown = text.render(found, step="median", next_command="", destination=Destination())
    assert "\nbuckets: 2 of 1.0 MB, 2.0 MB in all\n" in shown
    assert ">Buckets: 2 of 1.0 MB, 2.0 MB in all.<" in html.render(found)
