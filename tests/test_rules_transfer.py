"""Findings of exposed transfer: schedule, bandwidth, fixed cost; times are µs."""

from __future__ import annotations

import pytest
from jobs import MB, backward, both, bucket, costs, diagnosis, forward, other

from ddptrace.model import Group


def one(said, code):
    (found,) = (each for each in said.findings if each.code == code)
    return found


def evidence(found):
    return {each.metric: (each.value, each.limit) for each in found.evidence}


def exposed(length, *, size, op="all_gather"):
    """State 100 ms of which a collective is exposed for so many µs."""
    return both(forward(0, 100_000 - length), other(100_000 - length, 100_000, 50, size, op=op))


@pytest.mark.parametrize(("length", "count"), [(999, 0), (1000, 1)])
@pytest.mark.parametrize(("code", "size"), [("comm_bandwidth", 100 * MB), ("comm_latency", 1000)])
def test_they_are_listed_from_one_percent_of_the_median_step(code, size, length, count):
    said = diagnosis(*exposed(length, size=size))
    assert [each.code for each in said.findings].count(code) == count
    assert said.bottleneck == "compute_bound"


@pytest.mark.parametrize(("length", "verdict"), [(4999, "compute_bound"), (5000, "yes")])
@pytest.mark.parametrize(("code", "size"), [("comm_bandwidth", 100 * MB), ("comm_latency", 1000)])
def test_they_are_the_verdict_from_five_percent(code, size, length, verdict):
    said = diagnosis(*exposed(length, size=size))
    assert said.bottleneck == (code if verdict == "yes" else verdict)


def one_bucket(length, available):
    """State a bucket of so many µs behind a backward pass of which `available` µs are left."""
    end = 99_000 - available
    return both(
        forward(0, end),
        backward(end, 99_000 - available + 1000),
        backward(100_000 - available, 100_000),
        bucket(100_000, 100_000 + length, 99_900, 400 * MB),
    )


@pytest.mark.parametrize(("available", "count"), [(1099, 0), (1100, 1)])
def test_the_schedule_is_blamed_for_what_would_fit_under_backward(available, count):
    """The bucket takes 10 ms of a step of 110: 1 % of that would fit."""
    said = diagnosis(*one_bucket(10_000, available))
    assert [each.code for each in said.findings].count("bucket_schedule") == count


def test_the_evidence_redoes_the_arithmetic():
    found = one(diagnosis(*one_bucket(10_000, 4000)), "bucket_schedule")
    assert evidence(found) == {
        "bucket_schedule_ns": (4_000_000, 1_100_000),
        "transfer_ns": (10_000_000, None),
        "available_ns": (4_000_000, None),
        "buckets": (1, None),
        "first_comm_delay_ns": (5_000_000, None),
    }
    assert found.cost_ns == 4_000_000
    assert found.ranks == [0, 1]


def test_bandwidth_is_told_where_no_line_is():
    """400 MB in 10 ms are 40 GB/s, of one size alone."""
    found = one(diagnosis(*one_bucket(10_000, 4000)), "comm_bandwidth")
    assert evidence(found)["bandwidth_gb_s"] == (40, None)


def test_bandwidth_and_fixed_cost_come_from_the_line():
    """50 µs and 25 µs a MB, which are 40 GB/s."""
    small = [other(start, start + 75, start - 90, MB) for start in range(1000, 5000, 100)]
    large = other(5000, 15_050, 4990, 400 * MB)
    said = diagnosis(*both(forward(0, 1000), *small, large))
    assert evidence(one(said, "comm_bandwidth"))["bandwidth_gb_s"] == (pytest.approx(40), None)
    found = evidence(one(said, "comm_latency"))
    assert found["fixed_ns"] == (50_000, None)
    assert found["median_size_bytes"] == (MB, None)
    assert found["collectives"] == (41, None)


def test_many_small_collectives_are_latency_and_one_large_is_bandwidth():
    """200 of 32 KB take 20 µs each; a single one of 6.4 MB takes as long in all."""
    many = [other(start, start + 20, start - 5, 32_000) for start in range(1000, 5000, 20)]
    assert diagnosis(*both(forward(0, 1000), *many)).bottleneck == "comm_latency"
    single = other(1000, 5000, 995, 6_400_000)
    assert diagnosis(*both(forward(0, 1000), single)).bottleneck == "comm_bandwidth"


def test_hidden_communication_costs_nothing_however_long_it_is():
    said = diagnosis(*both(forward(0, 100_000), other(1000, 99_000, 500, 400 * MB)))
    assert costs(said) == {"compute_bound": None}


def test_the_ranks_are_those_that_it_costs_enough():
    """Only the group of ranks 2 and 3 has exposed transfer."""
    pair = [Group("a", (0, 1), 2)] * 2 + [Group("b", (2, 3), 2)] * 2
    from ranks import rank

    traces = [
        rank(
            number,
            forward(0, 90_000 if number > 1 else 100_000),
            other(90_000, 100_000, 50, 100 * MB, group=pair[number]),
        )
        for number in range(4)
    ]
    assert one(diagnosis(*traces), "comm_bandwidth").ranks == [2, 3]


# --- advice


def test_one_bucket_is_told_to_be_split():
    found = one(diagnosis(*one_bucket(10_000, 4000)), "bucket_schedule")
    assert "one bucket cannot overlap" in found.advice


def several(*, blocked):
    """State three buckets of 2 ms behind backward; blocked ones are launched all at once."""
    kernels = [backward(start, start + 2000, start // 10) for start in range(2000, 20_000, 2000)]
    launches = (1900, 1901, 1902) if blocked else (1500, 1700, 1900)
    buckets = [
        bucket(20_000 + at * 2000, 22_000 + at * 2000, launch, 200 * MB)
        for at, launch in enumerate(launches)
    ]
    return both(forward(0, 2000, 0), *kernels, *buckets)


def test_blocked_buckets_are_told_to_be_laid_out_anew():
    found = one(diagnosis(*several(blocked=True)), "bucket_schedule")
    assert "waits for a parameter that is ready late" in found.advice


def test_late_buckets_are_told_to_start_earlier():
    found = one(diagnosis(*several(blocked=False)), "bucket_schedule")
    assert "let the buckets start earlier" in found.advice
