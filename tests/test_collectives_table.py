"""The table of collectives in the terminal: what each cost, whom it kept waiting, what matched."""

import re
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest
from traces import run, trace

from ddptrace import analyze
from ddptrace.metrics.bucket_rows import BucketOnRank
from ddptrace.metrics.collective_rows import Collective, CollectiveOnRank
from ddptrace.outputs.clocks import clock_lines
from ddptrace.outputs.text import Destination, render
from ddptrace.report import Report, only_step

SAMPLES = Path(__file__).parent.parent / "sample_traces"


def text(report, *, step="median", collectives=True, **destination) -> str:
    return render(
        report,
        step=step,
        next_command="next",
        destination=Destination(**destination),
        collectives=collectives,
    )


def two_ranks(steps=1, op="all_gather") -> Report:
    """State two ranks whose collectives, unless they are all-reduces, are no buckets.

    rank 0  compute  ###.......     comm  .#######..   waits 400 µs, 200 hidden, 500 exposed
    rank 1  compute  #####.....     comm  .....###..   300 µs, 0 hidden
    """
    first, second = [], []
    for number in range(steps):
        at = number * 1000
        first += [("compute", at, at + 300), ("comm", at + 100, at + 800, {"op": op})]
        second += [("compute", at, at + 500), ("comm", at + 500, at + 800, {"op": op})]
    marks = [(number * 1000, (number + 1) * 1000) for number in range(steps)]
    return analyze(run(trace(*first, marks=marks), trace(*second, marks=marks, rank=1)))


def changed(report: Report, **facts) -> Report:
    return replace(report, collectives=[replace(one, **facts) for one in report.collectives])


def table(page: str) -> list[list[str]]:
    """Return the rows below the title of the first table of collectives, its header first."""
    lines = page.splitlines()
    (first, *_) = [at for at, line in enumerate(lines) if re.search(r": \d+ collectives?", line)]
    rows = lines[first + 1 : lines.index("", first)]
    return [re.split(r" {2,}", row.strip()) for row in rows if not row.startswith("sums")]


def line(page: str, word: str) -> str:
    (found,) = [line for line in page.splitlines() if word in line]
    return found


def test_without_the_option_there_is_no_such_table():
    page = text(two_ranks(), collectives=False)
    assert "busbw" not in page
    assert "of the run matched" not in page


def test_a_collective_has_the_figures_of_the_rank_that_they_are_worst_on():
    assert table(text(two_ranks())) == [
        ["#", "op", "MB", "ranks", "transfer", "wait", "exposed", "hidden", "busbw"],
        ["0", "all_gather", "-", "2", "0.300", "0.400 (0)", "0.500 (0)", "28.6 %", "-"],
    ]


def test_size_and_bandwidth_are_decimal():
    report = changed(two_ranks(), size_bytes=26_214_400, busbw_gb_s=199.92035)
    row = table(text(report))[1]
    assert (row[2], row[-1]) == ("26.21", "199.92")


def test_buckets_take_the_place_of_the_order_where_any_is_known():
    report = two_ranks(steps=2)
    first, second = report.collectives
    report = replace(report, collectives=[replace(first, bucket=3), second])
    rows = table(text(report, step="all"))
    assert (rows[0][0], rows[1][0]) == ("bucket", "3")
    assert table(text(report))[1][0] == "3"
    assert "#:" not in text(report, step="all")
    later = table(text(only_step(report, 1), step="1"))
    assert (later[0][0], later[1][0]) == ("#", "1")


def bucket(**facts) -> BucketOnRank:
    unknown = dict.fromkeys(field.name for field in fields(BucketOnRank))
    return BucketOnRank(**(unknown | facts))


@pytest.mark.parametrize(
    ("ranks", "queue", "held"),
    [
        ([{"queue_ns": 5000, "blocked": False, "backlog": False}, {}], "0.005 (0)", ""),
        ([{"blocked": False}, {}], "-", ""),
        ([{}, {}], "-", "-"),
        ([{"queue_ns": 5000}, {"queue_ns": 9000, "backlog": True}], "0.009 (1)", "backlog"),
        ([{"queue_ns": 5000}, {"blocked": True}], "0.005 (0)", "blocked"),
        ([{"blocked": True, "backlog": True}, {}], "-", "both"),
        ([{"blocked": True}, {"backlog": True}], "-", "both"),
        ([{"queue_ns": 0, "backlog": False}, {}], "0.000", ""),
    ],
)
def test_a_bucket_says_how_long_it_was_in_the_queue_and_what_held_it(ranks, queue, held):
    report = two_ranks()
    (one,) = report.collectives
    on_ranks = [
        replace(each, bucket=bucket(**facts)) for each, facts in zip(one.ranks, ranks, strict=True)
    ]
    made = replace(report, collectives=[replace(one, bucket=3, ranks=on_ranks)])
    head, row = table(text(made))
    assert head[-2:] == ["queue", "held"]
    assert row[8:] == [queue, *([held] if held else [])]
    assert "queue: from when its gradients were ready" in text(made)


def test_what_is_no_bucket_has_no_queue_and_all_reduces_are_named_only_beside_others():
    assert "queue" not in text(two_ranks())
    buckets = two_ranks(op="all_reduce")
    assert table(text(buckets))[0][:2] == ["bucket", "MB"]
    mixed = replace(buckets, collectives=[*buckets.collectives, *two_ranks().collectives])
    head, first, other = table(text(mixed))
    assert head[:2] == ["bucket", "op"]
    assert (first[:2], other[:2]) == (["0", "all_reduce"], ["-", "all_gather"])
    assert other[-1] == "-"  # its queue; the last column is empty


def test_the_clocks_are_told_below():
    report = two_ranks()
    page = text(report)
    assert "\n".join(clock_lines(report)) in page
    assert page.index("of the run matched") < page.index("clocks, from the ends")
    assert "clocks, from" not in text(report, collectives=False)


def test_groups_are_told_where_there_are_several():
    report = two_ranks()
    (one,) = report.collectives
    several = replace(report, collectives=[replace(one, group="dp"), replace(one, group=None)])
    assert [row[1] for row in table(text(several))] == ["group", "dp", "-"]


def test_what_is_not_known_is_a_dash():
    told = {"op": "all_gather"}
    alone = analyze(run(trace(("compute", 0, 300), ("comm", 100, 800, told)), world_size=2))
    (_, row) = table(text(changed(alone, op=None, group_size=2)))
    assert row == ["0", "-", "-", "1 of 2", "-", "-", "0.500 (0)", "28.6 %", "-"]
    page = text(alone)
    assert "sums: transfer - ms\n" in page
    assert "0 of 1 collectives of the run matched; unmatched: rank 0: 1; one rank alone" in page


def test_nobody_waits_where_all_arrive_together():
    rows = ("compute", 0, 300), ("comm", 300, 500, {"op": "all_gather"})
    assert table(text(analyze(run(trace(*rows), trace(*rows, rank=1)))))[1][5] == "0.000"


def test_an_operation_of_no_length_has_no_hidden_part():
    rows = ("compute", 0, 300), ("comm", 400, 400)
    report = analyze(run(trace(*rows), trace(*rows, rank=1)))
    assert table(text(report))[1][7] == "-"


def test_the_sums_are_those_of_the_step():
    page = text(two_ranks(steps=2))
    assert line(page, "sums:") == (
        "sums: transfer 0.300 ms; exposed on rank 0: waiting 0.200, transfer 0.300 ms; "
        "exposed on rank 1: waiting 0.000, transfer 0.300 ms"
    )


def test_the_sum_of_transfers_is_a_lower_bound_where_some_are_not_known():
    report = two_ranks()
    (one,) = report.collectives
    report = replace(report, collectives=[one, replace(one, transfer_ns=None)])
    assert "sums: transfer >=0.300 ms" in text(report)


def test_of_many_ranks_those_with_the_most_exposed_time_are_summed():
    ranks = [
        trace(("compute", 0, 300 - rank), ("comm", 300 - rank, 500), rank=rank) for rank in range(9)
    ]
    sums = line(text(analyze(run(*ranks))), "sums:")
    assert re.findall(r"rank (\d+)", sums) == ["5", "6", "7", "8"]
    assert sums.endswith("; less on 5 more ranks")


def test_what_did_not_match_is_said():
    """Rank 0 has lost one of the two collectives of step 0."""
    report = two_ranks(steps=2)
    first, second = report.collectives
    lost = replace(first, transfer_ns=None, skew_ns=None, ranks=first.ranks[1:])
    page = text(replace(report, collectives=[lost, second]))
    assert "1 of 2 collectives of the run matched; unmatched: rank 1: 1\n" in page


def test_the_median_step_is_shown_or_the_one_chosen_or_all():
    report = two_ranks(steps=3)
    assert report.summary.median_step == 1
    titles = {
        step: re.findall(r"step (\d): 1 collective", text(report, step=step))
        for step in ("median", "all")
    }
    assert titles == {"median": ["1"], "all": ["0", "1", "2"]}
    assert "3 of 3 collectives of the run matched" in text(report, step="all")
    chosen = text(only_step(report, 2), step="2")
    assert "1 of 1 collectives of the step matched" in chosen
    assert re.findall(r"step (\d): 1 collective", chosen) == ["2"]


def test_with_all_steps_what_is_in_none_is_shown_last():
    report = two_ranks(steps=2)
    first, second = report.collectives
    report = replace(report, collectives=[replace(first, step=None), second])
    titles = re.findall(r"^.*: \d+ collectives?$", text(report, step="all"), re.MULTILINE)
    assert titles == ["step 0: 0 collectives", "step 1: 1 collective",
                      "outside the steps: 1 collective"]  # fmt: skip
    assert "outside" not in text(report)


def test_without_marks_the_whole_recording_is_one_table():
    rows = ("compute", 0, 300), ("comm", 300, 500)
    report = analyze(run(trace(*rows, marks=()), trace(*rows, rank=1, marks=())))
    assert "whole recording: 1 collective\n" in text(report)


def test_a_run_without_collectives_says_so():
    page = text(analyze(run(trace(("compute", 0, 300)))))
    assert "step 0: 0 collectives\n\nthe run has no collectives\n" in page


def many(count: int) -> Report:
    """State a step with so many collectives; the later ones are exposed for longer."""
    report = two_ranks()
    (one,) = report.collectives
    (rank, _) = one.ranks
    return replace(
        report,
        collectives=[
            replace(one, order=order, ranks=[replace(rank, exposed_ns=order)])
            for order in range(count)
        ],
    )


def test_of_many_collectives_the_most_exposed_are_shown_in_their_order():
    page = text(many(60))
    assert "step 0: 60 collectives, the 50 with the most exposed time\n" in page
    assert [row[0] for row in table(page)[1:]] == [str(order) for order in range(10, 60)]
    assert line(page, "sums:").startswith("sums: transfer 18.000 ms")


@pytest.mark.parametrize("width", [30, 50, 70, 79, 80, 120])
def test_no_line_is_wider_than_the_terminal(width):
    page = text(two_ranks(), width=width)
    assert max(len(line) for line in page.splitlines()) <= width


def test_a_usual_terminal_has_the_table_and_a_narrow_one_a_line_a_figure():
    assert "op " in text(two_ranks(), width=80)
    lines = text(two_ranks(), width=50).splitlines()
    first = lines.index("# 0, all_gather")
    assert [line.split() for line in lines[first + 1 : first + 8]] == [
        ["MB", "-"],
        ["ranks", "2"],
        ["transfer", "0.300"],
        ["wait", "0.400", "(0)"],
        ["exposed", "0.500", "(0)"],
        ["hidden", "28.6", "%"],
        ["busbw", "-"],
    ]


def test_nothing_colours_a_pipe():
    assert "\x1b" not in text(two_ranks())


def test_names_of_a_trace_are_no_markup():
    report = changed(two_ranks(), op="[red]all[/red]")
    assert table(text(report))[1][1] == "[red]all[/red]"


def test_the_command_has_the_table():
    command = [sys.executable, "-m", "ddptrace", "report", str(SAMPLES / "two_gpus")]
    done = subprocess.run(
        [*command, "--collectives"], capture_output=True, text=True, check=True
    ).stdout
    assert "step 11: 5 collectives\n" in done
    assert [row[1] for row in table(done)[1:]] == ["3.42", "3.16", "3.16", "3.16", "0.27"]
    assert "24 of 24 collectives of the run matched" in done
    without = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "busbw" not in without


def test_the_rank_of_a_tie_is_the_lowest():
    def on(rank: int, wait_ns: int) -> CollectiveOnRank:
        return CollectiveOnRank(rank, 0, 10_000, wait_ns, 0, 10_000, None)

    (one,) = two_ranks().collectives
    tied: Collective = replace(one, ranks=[on(3, 0), on(2, 5000), on(1, 5000)])
    row = table(text(replace(two_ranks(), collectives=[tied])))[1]
    assert row[5:7] == ["0.005 (1)", "0.010 (1)"]
