"""DDP's packing: whole parameters, a bucket closes at its limit, types apart, first bucket."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddptrace.whatif.packing import (
    FIRST_BUCKET_BYTES,
    MIB,
    Limits,
    Packing,
    limits_first,
    pack,
    pack_registered,
)

PLAIN = [0] * 20


def packed(sizes, cap, first=None, types=None):
    return pack(sizes, types or PLAIN[: len(sizes)], Limits(first or cap, cap))


def test_a_bucket_closes_when_it_has_its_limit_or_more():
    assert packed([4, 6, 9, 2], 10) == [[0, 1], [2, 3]]
    assert packed([4, 5, 1, 2], 10) == [[0, 1, 2], [3]]
    assert packed([4, 5, 99, 2], 10) == [[0, 1, 2], [3]]


def test_a_parameter_is_never_split():
    assert packed([100], 10) == [[0]]
    assert packed([1, 100, 1], 10) == [[0, 1], [2]]


def test_only_the_first_bucket_has_the_first_limit():
    assert packed([4, 4, 4, 4, 4], 8, first=2) == [[0], [1, 2], [3, 4]]


def test_each_type_has_its_own_buckets_and_its_own_first_limit():
    assert packed([4, 4, 4, 4, 4, 4], 8, first=2, types=[0, 1, 0, 1, 0, 1]) == [
        [0],
        [1],
        [2, 4],
        [3, 5],
    ]


def test_registered_parameters_are_packed_forward_and_launched_backward():
    """What was left over comes first, the small first bucket last."""
    assert pack_registered([4, 4, 4, 4], PLAIN[:4], Limits(2, 8)) == [[3], [1, 2], [0]]


def test_types_are_launched_by_their_first_parameter():
    assert pack_registered([4, 4, 4], [0, 1, 0], Limits(9, 9)) == [[1], [0, 2]]


def test_a_cap_of_the_scripts_limits_the_first_bucket_too():
    assert Packing().limits(25) == Limits(25 * MIB, 25 * MIB)
    assert Packing().limits(25, is_default=True) == Limits(FIRST_BUCKET_BYTES, 25 * MIB)


def test_older_pytorch_always_has_a_small_first_bucket():
    assert Packing(limits_first=True).limits(25) == Limits(FIRST_BUCKET_BYTES, 25 * MIB)
    assert Packing(limits_first=True).limits(0.5) == Limits(MIB // 2, MIB // 2)


@pytest.mark.parametrize(
    ("version", "small"),
    [("2.3.1", True), ("1.13.0+cu117", True), ("2.4.0", False), ("2.11.0+cu130", False)],
)
def test_the_rule_changed_with_pytorch_2_4(version, small):
    assert limits_first(version) is small


def test_an_unknown_pytorch_is_taken_for_a_new_one():
    assert limits_first(None) is False
    assert limits_first("nightly") is False


@pytest.mark.torch
@settings(deadline=None, max_examples=60)
@given(
    numbers=st.lists(st.tuples(st.integers(1, 40), st.booleans()), min_size=1, max_size=30),
    cap=st.integers(1, 200),
    first=st.integers(1, 200),
    registered=st.booleans(),
)
def test_buckets_are_those_that_pytorch_makes(numbers, cap, first, registered):
    torch = pytest.importorskip("torch")
    import torch.distributed as dist

    if not hasattr(dist, "_compute_bucket_assignment_by_size"):
        pytest.skip("torch without its reducer")
    first = min(first, cap)
    kinds = [torch.float64 if wide else torch.float32 for _, wide in numbers]
    tensors = [
        torch.empty(count, dtype=kind) for (count, _), kind in zip(numbers, kinds, strict=True)
    ]
    order = [] if registered else list(range(len(tensors)))
    limits = [first, cap] if first < cap else [cap]
    theirs, _ = dist._compute_bucket_assignment_by_size(
        tensors, limits, [False] * len(tensors), order
    )
    sizes = [each.numel() * each.element_size() for each in tensors]
    types = [int(wide) for _, wide in numbers]
    if registered:
        ours = pack_registered(sizes, types, Limits(first, cap))
        assert ours == list(reversed(theirs))
        return
    ours = pack(sizes, types, Limits(first, cap))
    # PyTorch hands out what is left over in the order of a hash table.
    assert sorted(ours) == sorted(theirs)
    assert [each for each in ours if _is_closed(each, sizes, ours, types)] == [
        each for each in theirs if _is_closed(each, sizes, ours, types)
    ]


def _is_closed(bucket, sizes, buckets, types):
    """Tell whether a bucket is not the last one of its type."""
    return any(other[0] > bucket[0] for other in buckets if types[other[0]] == types[bucket[0]])
