"""Microseconds become nanoseconds without losing a digit."""

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddptrace.model import NEVER_NS
from ddptrace.sources.stamps import TextNeededError, to_ns


@given(st.integers(0, (1 << 43) * 1000 - 1))
def test_floats_below_two_to_the_43_keep_every_nanosecond(ns):
    stamp = float(Decimal(ns) / 1000)
    assert to_ns([stamp, 0.5])[0] == ns


@given(st.integers(10**17, 4 * 10**18))
def test_text_keeps_every_nanosecond_of_an_absolute_stamp(ns):
    text = str(Decimal(ns) / 1000)
    assert to_ns([text, "1"])[0] == ns


def test_the_product_with_1000_would_be_off_by_one():
    stamp = 4458676416788.066
    assert to_ns([stamp])[0] == 4458676416788066


@pytest.mark.parametrize(
    ("stamp", "ns"),
    [
        (7, 7000),
        ("7", 7000),
        ("7.25", 7250),
        ("-7.5", -7500),
        ("1.7e15", 1_700_000_000_000_000_000),
        ("0.0004", 0),
        ("0.0006", 1),
        (None, NEVER_NS),
        ("soon", NEVER_NS),
        ("nan", NEVER_NS),
        (10**30, NEVER_NS),
        ("9e99", NEVER_NS),
    ],
)
def test_each_way_to_write_a_stamp(stamp, ns):
    assert to_ns([stamp])[0] == ns
    assert to_ns([stamp, None, "1", 2])[0] == ns


def test_large_floats_ask_for_the_text():
    with pytest.raises(TextNeededError):
        to_ns([1735689600000100.163])
    with pytest.raises(TextNeededError):
        to_ns([1735689600000100.163, None])


def test_large_whole_numbers_are_exact_as_they_are():
    assert to_ns([1694128201426674, 3]).tolist() == [1694128201426674000, 3000]


def test_no_stamps_are_no_nanoseconds():
    assert to_ns([]).dtype == np.int64
