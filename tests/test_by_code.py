"""Columns grouped by codes agree with what Python finds row by row."""

import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddptrace.metrics.by_code import medians_by_code, rows_by_code, sums_by_code
from ddptrace.sources.coding import coded, first_rows

ROWS = st.lists(st.tuples(st.integers(0, 6), st.integers(-50, 50)), max_size=30)


def columns(rows):
    table = np.array(rows, np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


@given(ROWS)
def test_rows_come_by_their_code_and_equal_ones_as_they_are(rows):
    codes, _ = columns(rows)
    assert rows_by_code(codes).tolist() == sorted(range(len(rows)), key=lambda at: rows[at][0])


@given(ROWS)
def test_sums_and_medians_are_those_of_the_rows_of_each_code(rows):
    codes, values = columns(rows)
    by_code = {code: [value for mine, value in rows if mine == code] for code in range(8)}
    there = [(code, len(mine), sum(mine)) for code, mine in by_code.items() if mine]
    assert sums_by_code(codes, values) == there
    medians = [statistics.median(mine) if mine else None for mine in by_code.values()]
    assert medians_by_code(codes, values, 8) == medians


@pytest.mark.parametrize("gap", [1, 1 << 40], ids=["by a table", "by a sort"])
@given(values=st.lists(st.integers(-9, 9), max_size=12), wanted=st.lists(st.integers(-12, 12)))
def test_the_first_row_of_a_value_is_found_however_far_values_are_apart(gap, values, wanted):
    known = np.array(values, np.int64) * gap
    found = first_rows(known, np.array(wanted, np.int64) * gap)
    assert found.tolist() == [values.index(one) if one in values else -1 for one in wanted]
    distinct, place = coded(known)
    assert distinct[place].tolist() == known.tolist()


def test_a_value_that_stands_for_none_has_no_row():
    """The least number of 64 bits, which is far below all others."""
    least = np.iinfo(np.int64).min
    assert first_rows(np.array([5, 6]), np.array([least, 6])).tolist() == [-1, 1]
