"""Recordings that do not overlap in time by their clocks, and those that do once aligned."""

from __future__ import annotations

import pytest
from folders import codes
from traces import Kineto

from ddptrace import analyze, load_run

SECOND_US = 1_000_000


def steps(rank, at_us, *, comms=2, rough_us=0):
    """State two steps of compute and all-reduces, which begin at `at_us` by the rank's clock."""
    kineto = Kineto(rank=rank)
    for number in range(2):
        begin = at_us + number * 10_000
        kineto.step(number, begin, begin + 10_000)
        for place in range(comms):
            start = begin + 500 + 3000 * place
            kineto.gpu(start, start + 200)
            kineto.comm(start + 300, start + 900 + rough_us * (place + number))
    return kineto


def warned(folder, *ranks):
    for rank, kineto in enumerate(ranks):
        kineto.write(folder / f"rank{rank}.json")
    run = load_run(folder)
    report = analyze(run)
    code = "ranks_apart_in_time"
    return code in codes(run), code in {warning.code for warning in report.run.warnings}


@pytest.mark.parametrize("ahead_us", [-SECOND_US, SECOND_US, 300 * SECOND_US])
def test_ranks_that_overlap_once_aligned_are_not_said_to_be_apart(tmp_path, ahead_us):
    base_us = 400 * SECOND_US
    assert warned(tmp_path, steps(0, base_us), steps(1, base_us + ahead_us)) == (True, False)


@pytest.mark.parametrize(
    "other",
    [
        steps(1, SECOND_US, comms=1),
        steps(1, SECOND_US, rough_us=1100),
        steps(1, 720 * SECOND_US),
    ],
    ids=["unmatched", "wide spread", "far apart"],
)
def test_where_that_is_in_doubt_the_warning_stays(tmp_path, other):
    assert warned(tmp_path, steps(0, 0), other) == (True, True)
