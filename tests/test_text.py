"""The report as a person reads it."""

import re
from dataclasses import replace

import pytest
from traces import run, trace

from ddptrace import analyze
from ddptrace.diagnosis.finding import KERNEL, Evidence, Finding
from ddptrace.model import Warn
from ddptrace.outputs.text import Destination, render


def text(report, *, step="median", **destination) -> str:
    return render(
        report, step=step, next_command="ddptrace next", destination=Destination(**destination)
    )


def sample():
    rows = ("compute", 0, 300), ("comm", 200, 500), ("mem", 400, 600), ("compute", 700, 800)
    return analyze(run(trace(*rows), trace(*rows, rank=1)))


def test_the_page_has_headline_table_and_next_command():
    lines = text(sample()).splitlines()
    assert lines[2].startswith("launch_bound costs 0.10 of 0.80 ms a step (12.5 %) on ranks 0-1: ")
    assert lines[3].startswith(
        "median step 0 (rank 0, its longest) took 0.80 ms: compute 0.40 ms (50.0 %)"
    )
    table = lines.index("step 0") + 1
    assert lines[table].split() == [
        "rank",
        "step",
        "compute",
        "hidden",
        "exposed",
        "waiting",
        "copies",
        "idle",
        "tail",
    ]
    assert lines[table + 1].split() == [
        *("0", "0.80", "0.40", "0.10", "0.20", "0.00", "0.10", "0.10", "0.20")
    ]
    assert lines[-1] == "Next: ddptrace next"


def test_waiting_is_a_column_where_it_is_known():
    """
    rank 0  compute  ##......    comm  .#####..  of which 4 wait and 1 is behind compute
    rank 1  compute  #####...    comm  .....#..
    """
    slow, fast = [("compute", 0, 500), ("comm", 500, 600)], [("compute", 0, 200)]
    page = text(analyze(run(trace(*fast, ("comm", 100, 600)), trace(*slow, rank=1))))
    rows = [line.split() for line in page.splitlines() if re.match(r" +[01] ", line)]
    # step, compute, hidden, exposed, waiting, copies, idle, tail
    assert rows == [
        ["0", "0.60", "0.20", "0.10", "0.40", "0.30", "0.00", "0.00", "0.40"],
        ["1", "0.60", "0.50", "0.00", "0.10", "0.00", "0.00", "0.00", "0.10"],
    ]
    assert "of that waiting: for another rank" in page
    alone = text(analyze(run(trace(*slow, rank=1), world_size=2)))
    assert "of that waiting" not in alone
    assert "of that waiting" not in text(analyze(run(trace(("compute", 0, 300)))))


def test_nothing_colours_a_pipe():
    assert "\x1b" not in text(sample())
    assert "\x1b" in text(sample(), width=100, colour=True)


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120])
def test_no_line_is_wider_than_the_terminal(width):
    lines = text(sample(), width=width).splitlines()
    assert max(len(line) for line in lines[:-1]) <= width
    assert lines[-1] == "Next: ddptrace next"


def test_a_narrow_terminal_gets_every_figure_on_a_line_of_its_own():
    lines = [line.split() for line in text(sample(), width=40).splitlines()]
    assert ["exposed", "0.20"] in lines
    assert ["rank", "1"] in lines


def test_a_pipe_gets_one_line_a_warning():
    report = analyze(run(trace(("compute", 0, 100), marks=())))
    (line,) = [line for line in text(report).splitlines() if line.startswith("warning")]
    assert "prof.step()" in line


def test_unknown_figures_are_dashes():
    report = analyze(run(trace(("compute", 0, 100), comm_missing=True)))
    row = next(line for line in text(report).splitlines() if re.match(r" +0 ", line))
    assert row.split() == ["0", "0.10", "0.10", "-", "-", "-", "-", "-"]


def test_a_partial_rank_is_marked_and_its_figures_are_lower_bounds():
    report = analyze(
        run(trace(("compute", 0, 100)), trace(("compute", 0, 50), rank=1, partial="cut"))
    )
    row = next(line for line in text(report).splitlines() if "PARTIAL" in line)
    assert row.split() == ["1", "-", ">=0.05", "-", "-", "-", "-", "-", "PARTIAL"]


def test_many_warnings_of_a_kind_are_counted():
    same = tuple(Warn("code", f"number {number}") for number in range(9))
    page = text(analyze(run(trace(("compute", 0, 100), warnings=same))))
    assert "number 3" in page
    assert "number 4" not in page
    assert "5 more of this kind" in page


@pytest.mark.parametrize("width", range(50, 90, 3))
def test_partial_and_long_numbers_are_whole_at_any_width(width):
    whole = trace(("compute", 0, 300_000_000), rank=0, marks=[(0, 300_000_000)])
    cut = trace(("compute", 0, 50), rank=1000, partial="cut")
    page = text(analyze(run(whole, cut)), width=width)
    assert "PARTIAL" in page
    assert "1000" in page
    assert "300000.00" in page


def test_all_steps_have_a_table_each():
    report = analyze(
        run(trace(("compute", 0, 100), ("compute", 100, 200), marks=[(0, 100), (100, 200)]))
    )
    lines = text(report, step="all").splitlines()
    assert "step 0" in lines
    assert "step 1" in lines
    assert "step 1" not in text(report).splitlines()


def test_of_many_ranks_those_with_the_longest_steps_are_shown():
    report = analyze(run(*(trace(("compute", 0, 100 + rank), rank=rank) for rank in range(40))))
    page = text(report)
    assert "the 16 of 40 ranks with the longest steps" in page
    assert re.search(r"^ +39 ", page, re.MULTILINE)
    assert not re.search(r"^ +0 ", page, re.MULTILINE)


def test_markup_in_a_message_stays_text():
    recording = trace(("compute", 0, 100), warnings=(Warn("code", "[red]name[/red]"),))
    assert "[red]name[/red]" in text(analyze(run(recording)))


@pytest.mark.parametrize("width", [None, 40, 120])
def test_no_name_of_a_trace_reaches_the_terminal_as_a_command_or_begins_a_line(width):
    odd = "a\x1b]0;b\x07c\x9b31md\u2028e\u2029f\x85g\nh\x0bi\x1cj"

    def page(name):
        report = sample()
        kernel = Evidence(f"{KERNEL}{name}", 5_000, None)
        verdict = Finding("compute_bound", None, [0], [kernel], f"look at {name}")
        found = replace(
            report.diagnosis, bottleneck="compute_bound", findings=[verdict], headline=name
        )
        collectives = [replace(one, op=name, group=name) for one in report.collectives]
        facts = replace(report.run, device=name, warnings=[Warn("code", name)])
        report = replace(report, diagnosis=found, run=facts, collectives=collectives)
        return render(
            report,
            step="median",
            next_command=f"ddptrace {name}",
            destination=Destination(width=width),
            collectives=True,
        )

    plain, hostile = page("a ]0;b c 31md e f g h i j"), page(odd)
    assert hostile.replace(" ", "") == plain.replace(" ", "")
    assert not re.search(r"(?!\n)[\x00-\x1f\x7f-\x9f\u2028\u2029]", hostile)
    assert "31md" in hostile
