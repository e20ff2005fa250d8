"""What is told of each finding, and the command that prints it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import ddptrace as ddptrace_package
from ddptrace.cli import app
from ddptrace.diagnosis.explanations import ADVICE, BOTTLENECKS, EXPLANATIONS
from ddptrace.errors import UsageError

DOCS = Path(__file__).parent.parent / "docs"
CLOSED_LIST = [
    "compute_bound", "compute_tail", "comm_bandwidth", "comm_latency", "bucket_schedule",
    "straggler", "input_stall", "sync_wait", "launch_bound", "no_communication", "unknown",
]  # fmt: skip
CLOSED_LIST_OF_ADVICE = [
    "reduce_each_microstep", "same_stream", "comm_slows_compute", "grad_copies", "not_rebuilt",
    "head_of_line", "buffer_broadcast", "unused_search", "fine_parameters", "slow_link",
    "uneven_backward", "launch_order_mismatch", "optimizer_before_comm", "recording_slowed_run",
    "cold_steps", "ddp_logger_disagrees",
]  # fmt: skip
ALL = [*CLOSED_LIST, *CLOSED_LIST_OF_ADVICE]


def explain(*words):
    return CliRunner().invoke(app, ["explain", *words])


def test_the_closed_lists_are_explained_and_nothing_else():
    assert sorted(BOTTLENECKS) == sorted(CLOSED_LIST)
    assert sorted(ADVICE) == sorted(CLOSED_LIST_OF_ADVICE)


def test_every_finding_that_a_rule_can_give_is_explained():
    rules = Path(ddptrace_package.__file__).parent / "diagnosis" / "rules"
    sources = "".join(path.read_text(encoding="utf-8") for path in rules.glob("*.py"))
    codes = set(re.findall(r'code="(\w+)"|Finding\(\s*"(\w+)"', sources))
    given = {code for pair in codes for code in pair if code}
    assert len(given) >= len(CLOSED_LIST)
    assert given <= set(EXPLANATIONS)


@pytest.mark.parametrize("code", ALL)
def test_an_explanation_has_all_its_parts_in_80_plain_columns(code):
    done = explain(code)
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    headings = [line for line in lines if line and not line.startswith(" ")]
    kind = "a bottleneck" if code in CLOSED_LIST else "advice, never the verdict"
    assert headings == [
        f"{code}: {kind}", "Picture", "How it is computed", "When it misleads", "What to try"
    ]  # fmt: skip
    assert max(map(len, lines)) <= 80
    assert done.stdout.isascii()
    assert all(line.isprintable() for line in lines)
    assert all(line == line.rstrip() for line in lines)


@pytest.mark.parametrize("code", ALL)
def test_a_picture_is_drawn_as_it_is(code):
    picture = EXPLANATIONS[code].picture.splitlines()
    assert len(picture) >= 2
    printed = explain(code).stdout.splitlines()
    at = printed.index("Picture")
    assert printed[at + 1 : at + 1 + len(picture)] == [f"  {line}".rstrip() for line in picture]


def test_without_a_finding_all_are_listed_a_line_each():
    done = explain()
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines if line.startswith("  ")] == [*BOTTLENECKS, *ADVICE]
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("stragler", "straggler"),
        ("Input-Stall", "input_stall"),
        ("latency", "comm_latency"),
        ("bucket_shedule", "bucket_schedule"),
    ],
)
def test_an_unknown_finding_is_answered_with_the_nearest(typed, meant):
    done = explain(typed)
    assert isinstance(done.exception, UsageError)
    assert re.search(rf"did you mean .*\b{meant}\b", str(done.exception))
    assert done.stdout == ""


def test_an_unknown_finding_is_one_line_and_exit_2():
    for word in ("qqqq", "line\nbreak", "x" * 5000):
        command = [sys.executable, "-m", "ddptrace", "explain", word]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("ddptrace: explain ")
        assert done.stderr.count("\n") == 1
        assert len(done.stderr) < 300


def test_the_help_of_the_command_says_what_it_takes():
    text = explain("--help").stdout
    assert "[FINDING]" in text
    assert "when it misleads" in " ".join(text.split())


def test_a_limit_that_is_told_is_the_one_in_use():
    """The texts hold no number of their own where a rule has a name for it."""
    told = EXPLANATIONS["straggler"].how
    assert "50 us" in told
    assert "20 % of the transfer" in told
    assert "70 % or more" in EXPLANATIONS["compute_bound"].how
    assert "25 MiB" in EXPLANATIONS["bucket_schedule"].how


@pytest.mark.parametrize("code", ALL)
def test_every_finding_is_in_the_page_of_the_diagnosis(code):
    page = (DOCS / "diagnosis.md").read_text(encoding="utf-8")
    assert f"`{code}`" in page
