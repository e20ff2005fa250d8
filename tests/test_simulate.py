"""`ddptrace simulate`: the teaching table, the timeline, the page, the JSON."""

from __future__ import annotations

import json
import re

import pytest
from whatif_commands import command, refused

TABLE = [
    "--gradients-mib", "80", "--backward-ms", "80", "--alpha-ms", "6",
    "--bandwidth-mib-per-ms", "5", "--bucket-mib", "5,10,20,40,80",
]  # fmt: skip


def simulated(monkeypatch, *arguments):
    return json.loads(command(monkeypatch, "simulate", *arguments, "--json", "-"))


def test_the_teaching_table_comes_out(monkeypatch):
    found = simulated(monkeypatch, *TABLE)
    ends = {one["bucket_mib"]: one["step_ns"] for one in found["predictions"]}
    assert ends == {5: 117e6, 10: 88e6, 20: 90e6, 40: 94e6, 80: 102e6}
    assert found["best"] == {"bucket_mib": 10, "step_ns": 88_000_000, "gain_ns": 14_000_000}


def test_four_buckets_with_overlap_and_without(monkeypatch):
    """Four of 20 ms of backward, 15 ms each: 11 + 20 ÷ 5."""
    options = ["--alpha-ms", "11", "--bandwidth-mib-per-ms", "5", "--bucket-mib", "20"]
    (one,) = simulated(monkeypatch, *options)["predictions"]
    assert (one["step_ns"], one["step_without_overlap_ns"]) == (95_000_000, 140_000_000)


def test_one_all_reduce_behind_backward(monkeypatch):
    options = ["--alpha-ms", "34", "--bandwidth-mib-per-ms", "5", "--bucket-mib", "80"]
    (one,) = simulated(monkeypatch, *options)["predictions"]
    assert one["step_ns"] == one["step_without_overlap_ns"] == 130_000_000
    assert one["tail_ns"] == one["exposed_comm_ns"] == 50_000_000


def test_alpha_and_bandwidth_in_the_units_of_whatif(monkeypatch):
    options = ["--alpha-us", "6000", "--bandwidth-gb-s", "5.24288"]
    ends = [one["step_ns"] for one in simulated(monkeypatch, *options)["predictions"]]
    assert ends == [117_000_000, 88_000_000, 90_000_000, 94_000_000, 102_000_000]


def test_the_last_bucket_has_what_is_left(monkeypatch):
    """80 MiB in buckets of 30: 30, 30 and 20, ready at 30, 60 and 80 ms."""
    (one,) = simulated(monkeypatch, *TABLE[:-1], "30")["predictions"]
    sizes = [bucket["size_bytes"] for bucket in one["timeline"]]
    assert sizes == [30 << 20, 30 << 20, 20 << 20]
    assert [bucket["ready_ns"] for bucket in one["timeline"]] == [
        30_000_000,
        60_000_000,
        80_000_000,
    ]
    assert one["step_ns"] == 90_000_000


def test_a_bucket_larger_than_everything_is_one_bucket(monkeypatch):
    (one,) = simulated(monkeypatch, *TABLE[:-1], "500")["predictions"]
    assert (one["buckets"], one["step_ns"]) == (1, 102_000_000)


def test_the_json_has_the_shape_of_predictions(monkeypatch):
    found = simulated(monkeypatch, *TABLE)
    assert found["schema"] == 1
    assert found["model"]["alpha_ns"] == 6_000_000
    assert found["measured_step_ns"] is None
    promised = {"bucket_mib", "buckets", "step_ns", "low_ns", "high_ns", "exposed_comm_ns",
                "tail_ns", "step_without_overlap_ns", "timeline"}  # fmt: skip
    assert all(promised <= one.keys() for one in found["predictions"])
    assert found["bounds"] == {
        "free_communication_ns": 80_000_000,
        "communication_only_ns": 22_000_000,
    }


def test_the_text_has_the_table_and_a_timeline_of_each_size(monkeypatch):
    text = command(monkeypatch, "simulate", *TABLE)
    for size, end, plain in ((5, "117.00", "192.00"), (10, "88.00", "144.00")):
        assert re.search(rf"^ +{size} +\d+ +{end} +{plain} ", text, re.MULTILINE)
    assert text.count("compute  ###") == 5
    (line,) = re.findall(r"buckets +(1+ *2+)  94.00", text)
    assert abs(line.count("1") - line.count("2")) <= 1


def test_the_worst_that_may_be_asked_for_is_answered(monkeypatch):
    words = ["--gradients-mib", "1e9", "--bucket-mib", "1e4,1e9", "--alpha-ms", "1e7"]
    words += ["--backward-ms", "1e7", "--bandwidth-gb-s", "0.001"]
    assert "best" in command(monkeypatch, "simulate", *words)
    assert command(monkeypatch, "simulate", *words, "--json", "-")


def test_the_page_needs_no_network(monkeypatch, tmp_path):
    page = tmp_path / "s.html"
    command(monkeypatch, "simulate", *TABLE, "--html", page)
    text = page.read_text(encoding="utf-8")
    assert "10 MiB, 88.00 ms" in text
    assert not re.search(r"<(?:script|link|img)[^>]+(?:src|href)=", text)
    assert not re.search(r"plotlyServerURL.{1,4}https?:", text)


def test_the_page_is_the_same_each_time_with_the_rows_of_a_size_together(monkeypatch, tmp_path):
    pages = [tmp_path / "a.html", tmp_path / "b.html"]
    for page in pages:
        command(monkeypatch, "simulate", *TABLE, "--html", page)
    first, second = (page.read_bytes() for page in pages)
    assert first == second
    (rows,) = re.findall(r'"categoryarray":(\[.*?\])', first.decode())
    named = [row.split(" MiB")[0] + row.split(":")[1] for row in json.loads(rows)]
    assert named[:4] == ["5 compute", "5 buckets", "10 compute", "10 buckets"]
    # A heading wraps on a narrow screen; the title of a chart is cut.
    assert re.search(r"<h1[^>]*>80 MiB of gradients over 80.00 ms", first.decode())
    assert 'name="viewport"' in first.decode()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--alpha-ms", "6"], "give the bandwidth by --bandwidth-mib-per-ms or --bandwidth-gb-s"),
        (
            [*TABLE, "--alpha-us", "6"],
            "give the alpha by --alpha-ms or --alpha-us; both were given",
        ),
        ([*TABLE[:-1], "0"], "--bucket-mib 0: give a number from 0.000001 to"),
        ([*TABLE[:-1], "5,x"], "--bucket-mib x: give a number from 0.000001 to"),
        ([*TABLE[:-1], "nan"], "--bucket-mib nan"),
        ([*TABLE[:-1], "0.0001"], "makes 800000 buckets"),
        ([*TABLE, "--html", "-"], "--html needs a file"),
        (["--alpha-ms", "0", "--bandwidth-mib-per-ms", "1e-308"], "1e-308: give a number from"),
        (["--alpha-ms", "0", "--bandwidth-gb-s", "1e7"], "1e7: give a number from 0.001 to"),
        ([*TABLE, "--backward-ms", "1e8"], "--backward-ms 1e8: give a number from 0 to 10000000"),
        (
            ["--gradients-mib", "-1", *TABLE[2:]],
            "--gradients-mib -1: give a number from 0.000001 to",
        ),
    ],
)
def test_bad_usage_is_one_line(monkeypatch, options, words):
    assert words in refused(monkeypatch, "simulate", *options)
