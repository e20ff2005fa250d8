"""The fixed cost and the bandwidth of a link, from transfers of several sizes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddptrace.metrics.link import fitted

MB = 10**6


def line(*pairs):
    sizes, times = zip(*pairs, strict=True)
    return fitted(np.array(sizes, np.int64), np.array(times, np.int64))


@given(
    fixed=st.integers(0, 500_000),
    per_kb=st.integers(1, 1000),
    sizes=st.lists(st.integers(1, 1000), min_size=2, max_size=12, unique=True),
)
def test_a_straight_line_is_found_again(fixed, per_kb, sizes):
    sizes = [1, 1000, *sizes]
    found = line(*((size * 100_000, fixed + size * 100 * per_kb) for size in sizes))
    assert found.fixed_ns == pytest.approx(fixed, abs=1)
    assert found.ns_per_byte == pytest.approx(per_kb / 1000)
    assert found.bandwidth_gb_s == pytest.approx(1000 / per_kb)
    assert found.spread_ratio == pytest.approx(0, abs=1e-6)


def test_one_cold_transfer_does_not_turn_the_line():
    """25 GB/s and 50 µs; the first transfer of the largest size took three times as long."""
    pairs = [(size * MB, 50_000 + size * 40_000) for size in (10, 20, 30, 40, 50) for _ in range(3)]
    pairs[-1] = (50 * MB, 6_000_000)
    assert line(*pairs).bandwidth_gb_s == pytest.approx(25)


def test_sizes_a_few_bytes_apart_tell_no_slope():
    """Without their weights the four pairs of neighbours would decide: they are noise."""
    near = [(33 * MB + at, 1_300_000 + (-1) ** at * 40_000) for at in range(4)]
    assert line((131 * MB, 5_000_000), *near).bandwidth_gb_s == pytest.approx(26.5, rel=0.05)


def test_sizes_too_much_alike_make_no_line():
    assert line((10 * MB, 100), (19 * MB, 200)) is None
    assert line((10 * MB, 100), (20 * MB, 200)) is not None
    assert line((10 * MB, 100), (10 * MB, 120)) is None
    assert line((0, 100), (10 * MB, 120)) is None


def test_faster_with_more_bytes_is_no_negative_bandwidth():
    found = line((10 * MB, 500), (30 * MB, 400))
    assert found.ns_per_byte == 0
    assert found.bandwidth_gb_s is None
