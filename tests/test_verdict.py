"""The verdict on plausible jobs; times are µs, a character in a picture is a millisecond."""

from __future__ import annotations

import pytest
from hosts import call, loading, operator
from hypothesis import given, settings
from jobs import (
    MB,
    backward,
    both,
    bucket,
    costs,
    diagnosis,
    forward,
    group_of,
    late_job,
    late_step,
    ledger,
    other,
)
from ranks import comm, rank
from test_ledger import jobs
from test_straggler_finding import late_by

from ddptrace.outputs.findings import finding_lines

# --- the limits


@pytest.mark.parametrize(("cost", "verdict"), [(4999, "compute_bound"), (5000, "straggler")])
def test_a_cause_is_the_verdict_from_five_percent(cost, verdict):
    said = late_by(cost).diagnosis
    assert said.bottleneck == verdict
    assert costs(said)["straggler"] == cost
    assert {one.code: one.cost_ns for one in said.findings}.get("compute_bound") is None


@pytest.mark.parametrize(
    ("cost", "printed"),
    [(4949, "4.9"), (4999, "4.999"), (4990, "4.99"), (5000, "5.0"), (5049, "5.0"), (1000, "1.0")],
)
def test_a_cost_below_the_limit_is_not_printed_as_the_limit(cost, printed):
    made = late_by(cost)
    lines = [made.diagnosis.headline, *finding_lines(made)]
    said = [line for line in lines if "straggler costs" in line]
    assert [line for line in said if f"ms a step ({printed} %)" in line] == said != []


def test_the_costliest_cause_is_the_verdict_and_comes_first():
    """
    gpu      f..........b....   10 ms without a launch, 4 ms of communication
    comm     ............rrrr
    """
    rows = [
        forward(0, 1000, 0),
        backward(11_000, 12_000, 10_990),
        other(12_000, 16_000, 11_500, 100 * MB),
    ]
    host = [call(0, 5), operator(10, 10_995), call(10_990, 10_999)]
    said = diagnosis(*both(*rows, host=host))
    assert said.bottleneck == "launch_bound"
    assert list(costs(said)) == ["launch_bound", "comm_bandwidth"]
    assert said.findings[0].ranks == [0, 1]
    assert said.headline.startswith("launch_bound costs 10.00 of 16.00 ms a step (62.5 %) on ranks")


def test_what_costs_nothing_is_the_verdict_only_without_a_cause():
    said = diagnosis(*both(forward(0, 99_000), other(99_000, 99_900, 50, MB), marks=[(0, 99_900)]))
    assert said.bottleneck == "compute_bound"
    assert costs(said) == {"compute_bound": None}


# --- late ranks


def test_a_slow_node_is_late_as_a_whole():
    """Ranks 4 to 7 of 8 compute 20 ms longer; the other half waits for them."""
    said = diagnosis(*late_job(0, 0, 0, 0, 20, 20, 20, 20))
    assert said.bottleneck == "straggler"
    assert costs(said)["straggler"] == 20_000
    assert said.findings[0].ranks == [4]


def test_of_two_late_ranks_the_later_one_is_named():
    said = diagnosis(*late_job(0, 0, 0, 12, 0, 20, 0, 0))
    assert (said.bottleneck, said.findings[0].ranks) == ("straggler", [5])
    assert costs(said)["straggler"] == 20_000


def test_ranks_that_are_late_in_turn_are_no_sure_straggler():
    """Another of four ranks is late in each step, so that every rank waits in most of them."""
    group, traces = group_of(4), []
    for number in range(4):
        rows = []
        for step in range(8):
            late = 20 if step % 4 == number else 0
            one, _ = late_step(late, 20, steps=1, group=group)
            rows += [
                (kind, start + step * 60_000, end + step * 60_000, launch + step * 60_000, *more)
                for kind, start, end, launch, *more in one
            ]
        marks = [(step * 60_000, step * 60_000 + 60_000) for step in range(8)]
        traces.append(rank(number, *rows, marks=marks))
    said = diagnosis(*traces)
    assert (said.bottleneck, said.confidence) == ("straggler", "low")
    assert costs(said)["straggler"] == 20_000


def test_a_rank_that_idles_for_its_input_alone_is_a_straggler():
    """
    rank 0   fffbbbbbwwwwwwwwwwwwwwwwwwwwrr
    rank 1   ....................fffbbbbbrr   its data loader takes 20 ms
    """
    marks_host = [loading(at, at + 20_000) for at in range(0, 4 * 60_000, 60_000)]
    first, second = late_job(0, 20, idles=True)
    with_host = late_step(20, 20, idles=True, steps=4, group=group_of(2))
    second = rank(1, *with_host[0], marks=with_host[1], host=marks_host)
    said = diagnosis(first, second)
    # Both are the same 20 ms of a step: one late rank is what the job suffers from.
    assert costs(said) == {"straggler": 20_000, "input_stall": 20_000, "comm_bandwidth": 2000}
    assert said.bottleneck == "straggler"
    assert "data loading" in said.findings[0].advice
    assert said.findings[1].ranks == [1]


def test_input_that_all_ranks_wait_for_is_no_straggler():
    """Both data loaders take 20 ms, that of rank 1 a tenth longer."""
    traces = []
    for number, late in enumerate((20, 22)):
        rows, marks = late_step(late, 22, idles=True, steps=4, group=group_of(2))
        host = [loading(at, at + late * 1000) for at, _ in marks]
        traces.append(rank(number, *rows, marks=marks, host=host))
    said = diagnosis(*traces)
    assert said.bottleneck == "input_stall"
    assert costs(said)["input_stall"] == 22_000
    assert costs(said)["straggler"] == 2000


def test_a_late_ranks_own_idle_keeps_its_cause_when_it_is_the_larger():
    """
    rank 0   fooooooooooooobwwrr   o: it launches too slowly, 13 ms
    rank 1   fooooooooooooooobrr   the same, 15 ms
    """
    traces = []
    for number, gap in enumerate((13_000, 15_000)):
        rows = [
            forward(0, 1000, 0),
            backward(1000 + gap, 2000 + gap, 990 + gap),
            bucket(2000 + gap, 19_000, 1500 + gap, 100 * MB),
        ]
        host = [call(0, 5), operator(10, 995 + gap), call(990 + gap, 999 + gap)]
        traces.append(rank(number, *rows, host=host))
    said = diagnosis(*traces)
    assert said.bottleneck == "launch_bound"
    assert costs(said) == {"launch_bound": 15_000, "straggler": 2000, "comm_bandwidth": 2000}


def test_what_a_rank_idles_while_it_waits_anyhow_costs_nothing():
    """
    rank 0   f..........bwwrr   without its 10 ms of slow launches it would wait 12 ms
    rank 1   ffffffffffffffrr
    """
    first = [
        forward(0, 1000, 0),
        backward(11_000, 12_000, 10_990),
        bucket(12_000, 16_000, 11_500, 100 * MB),
    ]
    host = [call(0, 5), operator(10, 10_995), call(10_990, 10_999)]
    second = [
        forward(0, 13_000),
        backward(13_000, 14_000),
        bucket(14_000, 16_000, 13_500, 100 * MB),
    ]
    said = diagnosis(rank(0, *first, host=host), rank(1, *second))
    assert ledger(said, 0)["launch_bound"] == 10_000
    assert costs(said) == {"straggler": 2000, "comm_bandwidth": 2000}


def test_a_transfer_left_alone_by_a_late_rank_is_the_straggler_s():
    """
    rank 0   fbbbwwwwwwwwwwaabbcc   its compute is over when rank 1 begins backward
    rank 1   .....fffffffffbbbb.c    where all but the last bucket is hidden
    """

    def rows(start, ends):
        kernels = [backward(start + at, start + at + 2000) for at in (0, 2000, 4000)]
        arrivals = [
            max(start + at, before)
            for at, before in zip((2000, 4000, 6000), (0, *ends), strict=False)
        ]
        return [
            forward(0, start),
            *kernels,
            *(
                bucket(arrival, end, start + at, 20 * MB)
                for arrival, end, at in zip(arrivals, ends, (1000, 3000, 5000), strict=True)
            ),
        ]

    ends = (24_000, 26_000, 28_000)
    said = diagnosis(rank(0, *rows(2000, ends)), rank(1, *rows(20_000, ends)))
    assert ledger(said, 0)["straggler"] + ledger(said, 0).get("bucket_schedule", 0) > 14_000
    assert ledger(said, 1)["comm_bandwidth"] == 2000
    assert said.bottleneck == "straggler"
    assert costs(said)["straggler"] == 18_000
    assert "bucket_schedule" not in costs(said)


def test_hidden_lateness_leaves_the_verdict_to_the_compute():
    """
    rank 0   fffffffffffffrr   it computes all the time that rank 1 idles
    rank 1   f.....fffffffrr
    """
    first = [forward(0, 97_000), comm(5000, 99_000, 100, size=MB)]
    second = [forward(0, 1000), forward(11_000, 97_000), comm(97_000, 99_000, 100, size=MB)]
    said = diagnosis(rank(0, *first), rank(1, *second))
    assert said.bottleneck == "compute_bound"


# --- communication


def test_little_compute_and_much_communication_is_the_bandwidth():
    """
    gpu      fb..................
    comm     ..rrrrrrrrrrrrrrrrrr
    """
    said = diagnosis(
        *both(
            forward(0, 1000),
            *(backward(start, start + 250) for start in range(1000, 2000, 250)),
            bucket(2000, 20_000, 1500, 400 * MB),
        )
    )
    assert said.bottleneck == "comm_bandwidth"
    assert costs(said) == {"comm_bandwidth": 17_250, "bucket_schedule": 750}


def test_communication_on_the_stream_of_compute_could_have_been_hidden():
    """
    one      fbbaabbccbbdd   each bucket keeps the next kernels from running
    """
    rows, at = [forward(0, 1000)], 1000
    for number in range(3):
        rows += [backward(at, at + 1000), backward(at + 1000, at + 2000)]
        rows.append(bucket(at + 2000, at + 4000, at + 1900 + number, 25 * MB))
        at += 4000
    said = diagnosis(*both(*rows))
    assert said.bottleneck == "bucket_schedule"
    assert costs(said) == {"bucket_schedule": 4000, "comm_bandwidth": 2000}


def test_host_and_link_at_once_are_both_listed():
    rows = [
        forward(0, 1000, 0),
        backward(6000, 7000, 5990),
        bucket(7000, 13_000, 6500, 100 * MB),
    ]
    host = [call(0, 5), operator(10, 5995), call(5990, 5999)]
    said = diagnosis(*both(*rows, host=host))
    assert costs(said) == {"comm_bandwidth": 6000, "launch_bound": 5000}
    assert (said.bottleneck, said.confidence) == ("comm_bandwidth", "medium")


# --- any job

WITHOUT_COST = {"compute_bound", "compute_tail", "no_communication", "unknown"}
CAUSES = {
    *("straggler", "comm_bandwidth", "comm_latency", "bucket_schedule"),
    *("input_stall", "sync_wait", "launch_bound"),
}


@settings(deadline=None, max_examples=40)
@given(jobs())
def test_the_verdict_follows_from_what_is_listed(traces):
    said = diagnosis(*traces)
    found = [one for one in said.findings if one.code in CAUSES | WITHOUT_COST]
    listed = [one for one in found if one.code in CAUSES]
    assert [one.cost_ns for one in listed] == sorted((one.cost_ns for one in listed), reverse=True)
    has_steps = said.ledger and said.ledger[0].step is not None
    step_ns = max((one.step_ns for one in said.ledger), default=0)
    if has_steps:
        assert all(one.cost_ns * 100 >= step_ns - 100 for one in listed)
    is_large = has_steps and listed and listed[0].cost_ns * 20 >= step_ns
    assert (said.bottleneck in CAUSES) == bool(is_large)
    assert said.bottleneck == (listed[0].code if is_large else found[-1].code)
    assert all((one.cost_ns is None) == (one.code in WITHOUT_COST) for one in found)
    assert all(one.ranks or one.code in WITHOUT_COST for one in found)
