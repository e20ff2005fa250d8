"""A message stays one line, however long or odd what it names."""

import pytest

from ddptrace.wording import counted, explained, listed, one_line, ranges, safe_lines


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([], ""),
        ([3], "3"),
        ([2, 0, 1], "0-2"),
        ([0, 2, 3, 9], "0, 2-3, 9"),
        (range(1024), "0-1023"),
    ],
)
def test_numbers_are_said_as_runs(numbers, text):
    assert ranges(numbers) == text


def test_of_many_words_a_few_are_said():
    assert listed(["b", "a"]) == "a, b"
    assert listed([f"rank{number}" for number in range(9)]).endswith("rank3 and 5 more")


@pytest.mark.parametrize("control", ["\x1b", "\x85", "\u2028", "\u2029", "\u202e", "\n", "\x9b"])
def test_what_ends_or_turns_a_line_leaves_it(control):
    assert one_line(f"a{control}b") == "a b"
    assert safe_lines(f"a{control}b") == ("a\nb" if control == "\n" else "a b")


def test_one_is_singular():
    assert [counted(number, "file") for number in (0, 1, 2)] == ["0 files", "1 file", "2 files"]


def test_controls_and_odd_bytes_leave_a_line():
    assert one_line("a\nb\x1b[31mc\udcff") == "a b [31mc?"


@pytest.mark.parametrize(
    ("numbers", "reasons", "text"),
    [
        ([1, 2], {}, "1-2"),
        ([1], {1: "killed"}, "1 (killed)"),
        ([3, 2, 1, 5], {1: "killed", 3: "killed"}, "2, 5; 1, 3 (killed)"),
        ([1, 2], {1: "killed", 2: "hung", 9: "gone"}, "1 (killed); 2 (hung)"),
    ],
)
def test_numbers_are_grouped_by_their_reasons(numbers, reasons, text):
    assert explained(numbers, reasons) == text
