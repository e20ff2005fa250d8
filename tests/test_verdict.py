"""The verdict on plausible jobs; times are µs, a character in a picture is a millisecond."""

from __future__ import annotations

import pytest
from hosts import call, loading, operator, sync
from jobs import MB, backward, both, bucket, costs, diagnosis, forward, ledger, other, repeated
from ranks import comm, rank
from test_straggler_finding import late_by
from traces import trace

from ddptrace.model import Group


def group_of(count):
    return Group("0", tuple(range(count)), count)


def late_step(late, most, *, idles=False, launched=False, steps=3, group=None):
    """State a rank of steps of 40 ms or more: it computes, or idles, `late` ms longer.

    `launched` says that its work had been launched before it idles.

    gpu      fff[late]bbbbb    f: 3 ms, b: 5 ms
    comm     .............www[most]rr   r: all ranks transfer 2 ms
    """
    late_us, most_us = late * 1000, most * 1000
    first = [] if idles or not late else [forward(0, late_us, 0)]
    rows = [
        *first,
        forward(late_us, late_us + 3000, 0 if launched else late_us),
        backward(late_us + 3000, late_us + 8000, late_us + 10),
        bucket(late_us + 8000, most_us + 10_000, late_us + 20, 100 * MB, group=group),
        forward(most_us + 10_000, most_us + 40_000, late_us + 30),
    ]
    return repeated(rows, most_us + 40_000, steps)


def late_job(*lates, steps=4, part=None, **options):
    """State ranks that are so many ms late in every step."""
    most, group = max(lates), group_of(len(lates))
    found = []
    for number, late in enumerate(lates):
        rows, marks = late_step(late, most, steps=steps, group=group, **options)
        found.append(rank(number, *rows, marks=marks, part=part))
    return found


# --- the limits


@pytest.mark.parametrize(("cost", "verdict"), [(4999, "compute_bound"), (5000, "straggler")])
def test_a_cause_is_the_verdict_from_five_percent(cost, verdict):
    said = late_by(cost).diagnosis
    assert said.bottleneck == verdict
    assert costs(said)["straggler"] == cost
    assert {one.code: one.cost_ns for one in said.findings}.get("compute_bound") is None


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


# --- steps that are not like the others


def slowed_steps(extra, count=6):
    """State two ranks with steps of 10 ms compute, of which some idle longer at their end."""
    rows, marks, at = [], [], 0
    for number in range(count):
        long = extra.get(number, 0)
        rows += [
            forward(at, at + 9000),
            other(at + 9000, at + 9100, at + 10, MB),
            forward(at + 9100 + long, at + 10_000 + long),
        ]
        marks.append((at, at + 10_000 + long))
        at += 10_000 + long
    return both(*rows, marks=marks)


@pytest.mark.parametrize("extra", [{0: 500_000}, {3: 80_000}, {2: 5000, 4: 7000}])
def test_a_long_first_step_or_a_checkpoint_is_not_the_usual_step(extra):
    said = diagnosis(*slowed_steps(extra))
    assert said.bottleneck == "compute_bound"
    assert {one.step_ns for one in said.ledger} == {10_000_000}


def test_a_checkpoint_of_one_rank_costs_the_usual_step_nothing():
    """In step 3 rank 0 saves for 80 ms, and rank 1 waits for it."""
    traces = []
    for number in (0, 1):
        rows, marks, at = [], [], 0
        for step in range(6):
            long = 80_000 if step == 3 else 0
            start = at + (long if number == 0 else 0)
            rows += [
                forward(start, start + 9000),
                comm(start + 9000, at + long + 9100, start + 10, size=MB),
            ]
            marks.append((at, at + 9100 + long))
            at += 9100 + long
        traces.append(rank(number, *rows, marks=marks))
    said = diagnosis(*traces)
    assert (said.bottleneck, said.confidence) == ("compute_bound", "high")
    assert costs(said) == {"compute_bound": None}


def test_an_evaluation_between_steps_is_no_fault_of_the_schedule():
    """
    marks    [      ]......[      ]......[      ]
    gpu      fbb.bb.feeee..fbb.bb.feeee..fbb.bb.f   e: evaluates, then reduces a number
    """
    rows, marks = [], []
    for at in range(0, 80_000, 20_000):
        rows += [
            forward(at, at + 2000),
            backward(at + 2000, at + 4000),
            backward(at + 4000, at + 8000),
            bucket(at + 4000, at + 5000, at + 3500, 20 * MB),
            bucket(at + 8000, at + 8100, at + 7500, MB),
            forward(at + 8100, at + 9000),
            forward(at + 9000, at + 19_900),
            other(at + 19_900, at + 20_000, at + 9500, 8, op="all_reduce"),
        ]
        marks.append((at, at + 8950))
    said = diagnosis(*both(*rows, marks=marks))
    assert said.bottleneck == "compute_bound"


def test_a_short_synchronisation_in_every_step_is_not_listed():
    """.item() drains the GPU for 0.5 % of the step."""
    rows = [
        forward(0, 50_000, 0),
        forward(50_490, 99_000, 50_480),
        other(99_000, 100_000, 50_485, 10 * MB),
    ]
    host = [call(0, 5), sync(100, 50_010), operator(50_010, 50_485), call(50_480, 50_489)]
    said = diagnosis(*both(*rows, host=host))
    assert said.bottleneck == "compute_bound"
    assert "sync_wait" not in costs(said)
    longer = [
        forward(0, 50_000, 0),
        forward(56_000, 99_000, 55_990),
        other(99_000, 100_000, 55_995, 10 * MB),
    ]
    host = [call(0, 5), sync(100, 50_010), operator(50_010, 55_995), call(55_990, 55_999)]
    said = diagnosis(*both(*longer, host=host))
    assert said.bottleneck == "sync_wait"
    assert costs(said)["sync_wait"] == 6000


# --- smaller runs


def test_without_communication_there_is_none_to_blame():
    said = diagnosis(trace(forward(0, 9000), ("mem", 9000, 10_000)))
    assert (said.bottleneck, said.findings[0].cost_ns) == ("no_communication", None)
    assert said.headline.startswith("no_communication: this run does not communicate")


def test_one_step_is_judged_with_less_confidence():
    said = diagnosis(*late_job(0, 20, steps=1))
    assert (said.bottleneck, said.confidence) == ("straggler", "low")


def test_without_steps_nothing_is_weighed_and_everything_listed():
    rows = forward(0, 1000), other(1000, 3000, 500, MB)
    said = diagnosis(*both(*rows, marks=()))
    assert (said.bottleneck, said.confidence) == ("unknown", None)
    assert costs(said) == {"comm_bandwidth": 2000, "unknown": None}
    assert "no step marks" in said.headline


def test_without_recorded_communication_the_verdict_is_unknown():
    said = diagnosis(trace(forward(0, 1000), comm_missing=True))
    assert said.bottleneck == "unknown"
    assert "was not recorded" in said.headline


def test_a_partial_recording_alone_has_no_verdict():
    said = diagnosis(trace(forward(0, 1000), partial="cut"))
    assert (said.bottleneck, said.ledger) == ("unknown", [])


def test_a_partial_rank_beside_whole_ones_lowers_the_confidence():
    first, second, third = late_job(0, 0, 20)
    cut = trace(forward(0, 1000), rank=3, partial="cut")
    said = diagnosis(first, second, third, cut)
    assert (said.bottleneck, said.confidence) == ("straggler", "low")


def test_a_single_rank_whose_communication_may_be_waiting_is_unknown():
    rows = forward(0, 1000), backward(1000, 2000), bucket(2000, 6000, 1500, 100 * MB)
    said = diagnosis(rank(0, *rows), world_size=2)
    assert said.bottleneck == "unknown"
    assert {one.metric: one.value for one in said.findings[0].evidence} == {
        "compute_ratio": pytest.approx(1 / 3),
        "comm_unknown_ns": 4_000_000,
    }


def test_a_cpu_run_is_judged_by_its_communication():
    rows = forward(0, 1000), backward(1000, 3000), bucket(3000, 8000, 3000, 100 * MB)
    said = diagnosis(*both(*rows, device="host", marks=[(0, 8000)]))
    assert said.bottleneck in {"comm_bandwidth", "bucket_schedule"}
    assert ledger(said)["compute"] == 3000
