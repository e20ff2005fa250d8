"""Numbers in the pages of the diagnosis are those of the samples, sums are right, limits in use."""

import json
import re
from functools import cache
from pathlib import Path
from statistics import median

import pytest
from hosts import call, operator
from test_launch_order import rank as launching
from test_rule_recorded_run import lasting
from test_rule_slow_group import grouped
from traces import run, trace

from ddptrace import analyze
from ddptrace.diagnosis import confidence, finding
from ddptrace.diagnosis.explanations import EXPLANATIONS
from ddptrace.diagnosis.ledger import PARTS
from ddptrace.diagnosis.rules import (
    beside,
    compute,
    danger,
    gradients,
    layout,
    micro_steps,
    recorded_run,
    slow_group,
)
from ddptrace.metrics import host_work, idle, lateness, link, recording, stragglers, transfers

ROOT = Path(__file__).parent.parent
PAGE = "\n".join(
    (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("diagnosis.md", "advice.md")
)
TABLE = re.compile(r"^\| in `([\w-]+)` \| value \|\n\| --- \| --- \|\n((?:\|.*\n)+)", re.MULTILINE)
ROWS = [
    (case, *re.fullmatch(r"\| `(.+)` \| (.+) \|", line).groups())
    for case, rows in TABLE.findall(PAGE)
    for line in rows.splitlines()
]
FENCES = re.findall(r"^```\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
SUM = re.compile(r"((?:max)?[\d(][\d_ ()+*/,-]*?) = (-?[\d_.]+)(?:  .*)?$")
SUMS = [(fence, line) for fence in FENCES for line in fence.splitlines() if SUM.match(line)]


@cache
def kept(case):
    path = ROOT / "sample_traces" / case / "expected.json"
    return json.loads(path.read_text(encoding="utf-8"))


def found_at(document, path):
    """Return the values at a path such as steps[rank=0 step=23].idle_ns."""
    found = [document]
    for name, chosen in re.findall(r"(\w+)(?:\[([^]]*)\])?", path):
        found = [each[name] for each in found]
        if chosen:
            wanted = dict(pair.split("=") for pair in chosen.split())
            found = [
                each
                for rows in found
                for each in rows
                if all(as_text(each[key]) == value for key, value in wanted.items())
            ]
    return found


def as_text(value):
    return value if isinstance(value, str) else json.dumps(value)


@pytest.mark.parametrize(("case", "path", "printed"), ROWS)
def test_a_number_in_the_page_is_that_of_the_sample(case, path, printed):
    found = found_at(kept(case), path.removeprefix("sum "))
    if path.startswith("sum "):
        found = [sum(found)]
    assert [as_text(value) for value in found] == [
        printed.replace("_", "") if re.fullmatch(r"-?[\d_]+", printed) else printed
    ]


def test_there_is_an_example_of_each_verdict_that_a_sample_shows():
    cases = {case for case, *_ in ROWS}
    assert cases == {
        "late-compute", "slow-link", "one-bucket", "late-first-parameter", "item-in-forward",
        "two_ranks_one_gpu", "healthy", "late-input", "late-host", "input-bound",
        "long-last-backward", "same-stream-shm", "no-wait-shm", "large-buffer-shm",
        "long-layer-shm", "late-first-parameter-shm", "four-gpus-cap64",
    }  # fmt: skip
    assert len(SUMS) > 25


@pytest.mark.parametrize(("fence", "line"), SUMS)
def test_a_sum_in_the_page_is_right_and_made_of_numbers_of_the_page(fence, line):
    left, right = SUM.match(line).groups()
    places = len(right.partition(".")[2])
    value = eval(left, {"__builtins__": {}, "max": max})
    assert f"{value:.{places}f}" == right.replace("_", "")
    known = {number for *_, printed in ROWS for number in [printed]}
    known |= {match[2] for match in map(SUM.match, fence.splitlines()) if match}
    numbers = re.findall(r"[\d_]{4,}", left)
    assert [number for number in numbers if number not in known] == []


def test_quoted_lines_are_those_of_the_reports():
    quotes = re.findall(r"\$ ddptrace report sample_traces/([\w-]+)\n(.+)\n(.+)\n", PAGE)
    assert len(quotes) == 14
    for case, headline, where in quotes:
        diagnosis = kept(case)["diagnosis"]
        assert headline.endswith("…")
        assert diagnosis["headline"].startswith(headline.rstrip("…"))
        assert diagnosis["where"].startswith(where.rstrip("…"))


def test_every_part_of_the_ledger_is_in_the_page():
    assert re.findall(r"^\| `(\w+_ns)` \|", PAGE.split("## The verdict")[0], re.MULTILINE) == [
        *PARTS
    ]


def test_the_limits_in_the_page_are_those_in_use():
    told = dict(re.findall(r"^\| `([A-Z_]+)` \| (.+?) \|", PAGE, re.MULTILINE))
    modules = (
        finding, confidence, compute, stragglers, lateness, link, transfers, idle, host_work,
        recording, beside, danger, gradients, layout, micro_steps, recorded_run, slow_group,
    )  # fmt: skip
    assert len(told) == 31
    for name, printed in told.items():
        (value,) = {getattr(module, name) for module in modules if hasattr(module, name)}
        number, _, unit = printed.partition(" ")
        scale = {"": 1, "%": 0.01, "µs": 1000, "KiB": 1 << 10, "MiB": 1 << 20}[unit]
        assert value == pytest.approx(float(number) * scale), name


def both(*rows, end, host=()):
    """State two ranks that do the same in each of three steps, in ms."""
    moved = [
        (kind, *(1000 * (each + step * end) for each in times), *more)
        for step in range(3)
        for kind, times, more in rows
    ]
    hosts = [
        (kind, name, start + 1000 * step * end, until + 1000 * step * end, thread)
        for step in range(3)
        for kind, name, start, until, thread in host
    ]
    marks = [(1000 * step * end, 1000 * (step + 1) * end) for step in range(3)]
    return run(*(trace(*moved, marks=marks, rank=rank, host=hosts) for rank in range(2)))


def op(kind, start, end, launch=None, *, backward=False):
    return kind, (start, end, start if launch is None else launch), (backward,)


STATED = {
    "input_stall": both(
        op("compute", 20, 96),
        op("comm", 96, 100, 90),
        end=100,
        host=[call(20_000, 20_010), operator(20_010, 100_000)],
    ),
    "launch_bound": both(
        *(op("compute", 10 * at + 4, 10 * at + 10) for at in range(10)),
        end=100,
        host=[operator(0, 100_000)],
    ),
    "compute_tail": both(
        op("compute", 0, 30),
        *(op("compute", at, at + 4, backward=True) for at in range(30, 50, 4)),
        op("compute", 50, 90, backward=True),
        *(op("comm", at, at + 2, backward=True) for at in (34, 42)),
        op("comm", 90, 91, 89, backward=True),
        op("compute", 91, 96, 90),
        end=96,
    ),
    "no_communication": both(
        op("compute", 0, 40), op("compute", 40, 90, backward=True), op("compute", 90, 100), end=100
    ),
    "unknown": both(op("compute", 0, 50), op("comm", 20, 22), op("compute", 90, 100, 1), end=100),
}


STATED_ADVICE = {
    "launch_order_mismatch": [
        launching(0, [5, 6], [1, 2], [1, 2]),
        launching(1, [5, 6], [2, 1], [2, 1]),
    ],
    "slow_link": grouped(2000, 4000, size=100_000_000),
    "cold_steps": [lasting(20_000, *(10_000,) * 4)],
}


@pytest.mark.parametrize("code", STATED_ADVICE)
def test_a_stated_timeline_has_the_advice_that_the_page_says(code):
    found = {one.code: one.cost_ns for one in analyze(run(*STATED_ADVICE[code])).diagnosis.findings}
    assert found[code] == {"slow_link": 2_000_000}.get(code)
    assert f"**{code}**" in PAGE


def test_each_finding_has_an_example_or_a_stated_timeline():
    told = set(re.findall(r"^### (\w+)$", PAGE, re.MULTILINE))
    told |= set(re.findall(r"^\*\*(\w+)\*\*: ", PAGE, re.MULTILINE))
    pending = {
        "reduce_each_microstep", "grad_copies", "unused_search", "fine_parameters",
        "recording_slowed_run",
    }  # fmt: skip
    assert set(EXPLANATIONS) - told == pending


def unprofiled_ns(case):
    """Return the median step of a sample without a profiler, of the longest rank."""
    path = ROOT / "sample_traces" / case / "manifest.json"
    ranks = json.loads(path.read_text(encoding="utf-8"))["ranks"]
    return max(median(rank["unprofiled"]["step_ns"]) for rank in ranks)


PLANTED = [
    [cell.strip(" `") for cell in line.split("|")[1:-1]]
    for line in PAGE.split("## Planted and found")[1].split("- Costs are")[0].splitlines()
    if line.startswith("| `")
]


def test_what_was_planted_is_told_of_each_sample_of_the_job():
    untold = {"two_gpus", "two_ranks_one_gpu", "healthy", "healthy-shm"}
    cases = {path.name for path in (ROOT / "sample_traces").iterdir() if path.is_dir()}
    of_the_job = {case for case in cases if not case.startswith("four-gpus-")}
    assert {row[0] for row in PLANTED} == of_the_job - untold


@pytest.mark.parametrize("row", PLANTED, ids=lambda row: row[0])
def test_what_the_page_says_of_a_planted_fault_is_what_the_sample_says(row):
    case, _, than, measured, recorded, code, cost, verdict, sure = row
    said, usual = kept(case)["diagnosis"], kept(than)["diagnosis"]
    assert measured == f"{(unprofiled_ns(case) - unprofiled_ns(than)) / 1e6:+.2f}"
    assert recorded == f"{(said['step_ns'] - usual['step_ns']) / 1e6:+.2f}"
    costs = [one["cost_ns"] for one in said["findings"] if one["code"] == code] or ["nothing"]
    (found,) = costs
    expected = "no cost" if found is None else found if found == "nothing" else f"{found / 1e6:.2f}"
    assert (cost, verdict, sure) == (expected, said["bottleneck"], said["confidence"])


@pytest.mark.parametrize("code", STATED)
def test_a_stated_timeline_has_the_verdict_that_the_page_says(code):
    made = analyze(STATED[code])
    costs = {one.code: one.cost_ns for one in made.diagnosis.findings}
    expected = {"input_stall": 20_000_000, "launch_bound": 40_000_000}
    assert made.diagnosis.bottleneck == code
    assert costs[code] == expected.get(code)
    assert f"**{code}**" in PAGE
