"""`ddptrace whatif` as a command: options, table, picture, JSON, refusals."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from whatif_commands import command, refused
from whatif_jobs import Job, write

from ddptrace import load_run
from ddptrace.outputs.predictions import headline
from ddptrace.whatif.predict import predict

PLAIN = Job([4, 4, 8, 2, 2, 16, 4, 4], [[0, 1, 2], [3, 4, 5], [6, 7]])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(PLAIN, tmp_path_factory.mktemp("plain"))


def predicted(monkeypatch, folder, *options):
    return json.loads(command(monkeypatch, "whatif", folder, "--json", "-", *options))


def test_the_caps_asked_for_are_predicted_in_order(monkeypatch, folder):
    found = predicted(monkeypatch, folder, "--bucket-cap-mb", "25,1,100,1")
    assert [one["bucket_cap_mb"] for one in found["predictions"]] == [1, 25, 100]


def test_without_caps_the_usual_ones_are(monkeypatch, folder):
    caps = [one["bucket_cap_mb"] for one in predicted(monkeypatch, folder)["predictions"]]
    assert {1, 25, 100, 250} <= set(caps)


def test_the_text_has_headline_table_picture_bounds_and_notes(monkeypatch, folder):
    text = command(monkeypatch, "whatif", folder, "--bucket-cap-mb", "1,100")
    assert "µs + bytes ÷" in text
    assert "cap MiB  buckets" in text
    assert "trust: medium; starts from the step as it was recorded" in text
    assert "| is the step as it is" in text
    assert "bounds:" in text
    assert "note: " in text
    starts = [line.split()[0] for line in text.splitlines() if "o" in line and line[0] == " "]
    assert starts == ["1", "100"]


def test_the_headline_says_when_the_cap_is_the_best_already(monkeypatch, folder):
    text = command(monkeypatch, "whatif", folder, "--bucket-cap-mb", "16,100")
    assert "no better cap than what is there: bucket_cap_mb=16" in text
    text = command(monkeypatch, "whatif", folder, "--bucket-cap-mb", "100")
    assert "no cap is surely better than what is there" in text


def test_a_range_without_a_point_where_little_can_be_trusted(monkeypatch, tmp_path):
    write(replace(PLAIN, kernel=60, host=180), tmp_path)
    text = command(monkeypatch, "whatif", tmp_path, "--bucket-cap-mb", "8")
    (row,) = [line.split() for line in text.splitlines() if line.split()[:1] == ["8"]][:1]
    assert row[2] == "-"
    assert float(row[3]) < float(row[4])
    assert "trust: low" in text
    # Nor is there one in the headline.
    text = command(monkeypatch, "whatif", tmp_path, "--bucket-cap-mb", "8", "--alpha-us", "1e5")
    assert re.search(r"bucket_cap_mb=8 may take [\d.]+ to [\d.]+ of|no cap is surely better", text)
    assert "gains" not in text


@pytest.mark.parametrize(
    ("link", "word", "mark"), [("0.01x", "loses", "least loss"), ("100x", "gains", "best")]
)
def test_a_loss_is_called_one(monkeypatch, folder, link, word, mark):
    text = command(monkeypatch, "whatif", folder, "--bucket-cap-mb", "8", "--link", link)
    (said,) = re.findall(r"it (\w+) ([\d.]+) \(between ([\d.]+) and ([\d.]+)\) ms", text)
    assert said[0] == word
    assert float(said[2]) < float(said[1]) < float(said[3])
    assert re.search(rf"^ +8 .*  {mark}$", text, re.MULTILINE)


def test_a_gain_of_less_than_nothing_is_none(monkeypatch, folder):
    """0.004 ms are 0.00."""
    found = predict(load_run(folder), [100])
    for gain_ns, said in ((-4_000, "gains 0.00 (between"), (-40_000, "loses 0.04 (between")):
        best = replace(found.best, gain_ns=gain_ns, gain_low_ns=-90_000, gain_high_ns=60_000)
        assert said in headline(replace(found, best=best, scenario=[]))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--link", "2x"], "a link of 2 times the bandwidth"),
        (["--link", "0.5"], "a link of 0.5 times the bandwidth"),
        (["--compress", "fp16"], "half the bytes (fp16)"),
        (["--compress", "bf16"], "half the bytes (bf16)"),
        (["--without-straggler"], "as fast as the median of the others"),
        (["--free-communication"], "communication that takes no time"),
        (["--perfect-overlap"], "may begin with the step"),
    ],
)
def test_what_else_is_changed_is_said(monkeypatch, folder, options, words):
    assert words in command(monkeypatch, "whatif", folder, *options)
    assert words in predicted(monkeypatch, folder, *options)["scenario"][0]


def test_a_known_link_takes_the_place_of_the_fitted_one(monkeypatch, folder):
    options = ["--alpha-us", "70", "--bandwidth-gb-s", "50"]
    model = predicted(monkeypatch, folder, *options)["model"]
    assert (model["alpha_ns"], model["bandwidth_gb_s"]) == (70_000, 50)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ["--bucket-cap-mb", "1,,2"],
            "--bucket-cap-mb 1,,2: give a number from 0.000001 to 1000000000",
        ),
        (
            ["--bucket-cap-mb", "-1"],
            "--bucket-cap-mb -1: give a number from 0.000001 to 1000000000",
        ),
        (["--bucket-cap-mb", ",".join(map(str, range(1, 1500)))], "too many"),
        (["--link", "fast"], "--link fast: give a number from 0.001 to 1000"),
        (["--link", "x"], "--link x: give a number"),
        (["--link", ""], "--link '': give a number"),
        (["--link", "0.00099x"], "--link 0.00099x: give a number from 0.001 to 1000"),
        (["--link", "1001x"], "--link 1001x: give a number from 0.001 to 1000"),
        (["--bucket-cap-mb", "1e30"], "--bucket-cap-mb 1e30: give a number from"),
        (["--bandwidth-gb-s", "1e-300"], "--bandwidth-gb-s 1e-300: give a number from"),
        (["--alpha-us", "1e11"], "--alpha-us 1e11: give a number from 0 to 10000000"),
        (["--jobs", "0"], "--jobs 0: give a whole number of 1 or more"),
        (["--jobs", "-1"], "--jobs -1: give a whole number of 1 or more"),
        (["--jobs", "two"], "--jobs two: give a whole number of 1 or more"),
        (["--compress", "int8"], "--compress int8: give fp16 or bf16"),
        (["--alpha-us", "-3"], "--alpha-us -3: give a number from 0 to"),
        (["--bandwidth-gb-s", "inf"], "--bandwidth-gb-s inf: give a number from 0.001 to 1000000"),
    ],
)
def test_bad_usage_is_one_line(monkeypatch, folder, options, words):
    assert words in refused(monkeypatch, "whatif", folder, *options)


def test_the_worst_that_may_be_asked_for_is_answered(monkeypatch, folder):
    options = ["--alpha-us", "1e7", "--bandwidth-gb-s", "0.001", "--link", "0.001x"]
    for caps in ("1e-6", "1e9"):
        assert "MiB" in command(monkeypatch, "whatif", folder, *options, "--bucket-cap-mb", caps)
        assert predicted(monkeypatch, folder, *options, "--bucket-cap-mb", caps)


def test_a_run_that_cannot_be_replayed_is_one_line(monkeypatch, tmp_path):
    write(replace(PLAIN, ranks=1), tmp_path)
    assert "the job has one rank" in refused(monkeypatch, "whatif", tmp_path)


ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("page", ["whatif.md", "simulate.md"])
def test_the_example_of_a_page_is_what_the_command_prints(monkeypatch, page):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    block = text.split("```\n$ ", 1)[1].split("\n```", 1)[0]
    words, _, shown = block.partition("\n")
    monkeypatch.chdir(ROOT)
    assert command(monkeypatch, *words.split()[1:]).rstrip("\n") == shown
