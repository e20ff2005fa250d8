"""What a user may ask of `ddptrace capture`: the words, their defaults and their refusals."""

import os
from pathlib import Path

import pytest

from ddptrace_capture import options
from ddptrace_capture.errors import CaptureError
from ddptrace_capture.schedule import Phase, first_recorded, plan

PAGE = Path(__file__).parent.parent / "docs" / "capture.md"

OPTIONS = {
    "--help", "--output", "--force", "--profiler", "--warmup", "--timed", "--steps", "--ranks",
    "--step-mark", "--record-shapes", "--with-stack", "--stop-after", "--bucket-cap-mb",
    "--check-replicas", "--measure-link", "--nsys", "--keep-nsys-rep", "--scrub",
}  # fmt: skip


def asked(*words):
    return options.parse([*words, "--", "torchrun", "train.py"]).options


def test_the_options_are_these_and_a_change_is_on_purpose():
    found = {word for action in options.parser()._actions for word in action.option_strings}
    assert {word for word in found if word.startswith("--")} == OPTIONS


def test_every_option_is_in_the_page_of_the_command():
    page = PAGE.read_text(encoding="utf-8")
    for option in OPTIONS - {"--help"}:
        assert f"`{option}" in page


def test_everything_after_the_first_two_dashes_is_the_command():
    request = options.parse(["-o", "run", "--", "torchrun", "--", "--steps", "7"])
    assert request.command == ("torchrun", "--", "--steps", "7")
    assert request.options.output == "run"
    assert request.options.steps == 3


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--steps", "0", "--", "x"], "at least one step is needed"),
        (["--warmup", "-1", "--", "x"], "'-1' is no whole number of steps"),
        (["--warmup", "two", "--", "x"], "'two' is no whole number of steps"),
        (["--ranks", "1-0", "--", "x"], "1-0 runs backwards"),
        (["--ranks", "0-99999999999", "--", "x"], "no job has so many ranks"),
        (["-o", "", "--", "x"], "--output needs the name of a folder"),
        (["--ranks", "first", "--", "x"], "give all, first-per-node, or numbers"),
        (["--profiler", "perf", "--", "x"], "invalid choice: 'perf'"),
        (["--step", "3", "--", "x"], "unrecognized arguments: --step"),
        (["torchrun", "train.py"], "unrecognized arguments: torchrun"),
        ([], "no command is given"),
        (["--profiler", "none", "--timed", "0", "--", "x"], "nothing would be left to do"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(words, sentence):
    with pytest.raises(CaptureError, match=sentence) as refused:
        options.parse(words)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("ranks", "rank", "local_rank", "wanted"),
    [
        ("all", 5, 1, True),
        ("0,3-4", 3, 3, True),
        ("0,3-4", 2, 2, False),
        ("first-per-node", 8, 0, True),
        ("first-per-node", 9, 1, False),
        ("first-per-node", 0, None, True),
        ("first-per-node", 1, None, False),
    ],
)
def test_the_ranks_that_were_asked_for_are_recorded(ranks, rank, local_rank, wanted):
    assert asked("--ranks", ranks).wants(rank, local_rank) is wanted


def test_the_options_reach_the_ranks_unchanged():
    sent = asked("--ranks", "0", "--step-mark", "a b", "--stop-after")
    assert options.from_environment({options.VARIABLE: sent.to_text()}) == sent
    assert options.from_environment(dict.fromkeys(os.environ, "")) is None


def test_by_default_the_cheap_part_comes_first_and_thirty_steps_are_enough():
    assert plan(asked(), ("figures", "full")) == (
        Phase("warmup", 0, 11),
        Phase("timed", 11, 21),
        Phase("prepare", 21, 22, "figures"),
        Phase("record", 22, 25, "figures"),
        Phase("prepare", 25, 26, "full"),
        Phase("record", 26, 29, "full"),
    )


@pytest.mark.parametrize(
    ("words", "timed"),
    [
        ([], 10),
        (["--warmup", "20"], 10),
        (["--warmup", "5"], 5),
        (["--warmup", "0"], 2),
        (["--warmup", "5", "--timed", "8"], 8),
        (["--timed", "0"], 0),
        (["--profiler", "none"], 50),
        (["--profiler", "none", "--warmup", "5"], 50),
        (["--profiler", "none", "--timed", "8"], 8),
    ],
)
def test_a_shortened_warm_up_shortens_what_is_timed_unless_that_is_given(words, timed):
    assert asked(*words).timed == timed


def test_no_step_is_timed_when_none_is_asked_for_and_the_first_is_never_recorded():
    phases = plan(asked("--warmup", "0", "--timed", "0", "--steps", "2"), ("full",))
    assert phases == (
        Phase("warmup", 0, 1), Phase("prepare", 1, 2, "full"), Phase("record", 2, 4, "full")
    )  # fmt: skip
    assert first_recorded(phases) == 2


def test_without_a_profiler_steps_are_timed_and_nothing_is_recorded():
    phases = plan(asked("--profiler", "none", "--timed", "20"), ())
    assert phases == (Phase("warmup", 0, 11), Phase("timed", 11, 31))
    assert first_recorded(phases) == 11
