"""A check for machines: JUnit XML, GitHub annotations, GitLab code quality, Markdown."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from functools import partial
from xml.etree import ElementTree as ET

import pytest
from calling import call, csv, refused
from histories import figures
from hypothesis import given, settings
from hypothesis import strategies as st

from ddptrace.check.judge import Rules, check
from ddptrace.check.limits import parse
from ddptrace.check.result import LimitResult
from ddptrace.cli.check_outputs import write_whole
from ddptrace.errors import OutputError
from ddptrace.history.store import writing
from ddptrace.outputs import github, gitlab, junit, markdown

HOSTILE = "a|b</failure>]]>&<b>%0A::error::x`*_[l](http://x)\r\n\x00\x1b[31m\ufffe\udcff"


def result(*limits, base=10.0, now=10.0, steps=10, **facts):
    rules = Rules(tuple(map(parse, limits or ["step:3%"])))
    runs = [figures(base, steps=10, name="base.json")], [figures(now, steps=steps, **facts)]
    return check(*runs, rules)


PASSED = result()
SLOWER = result("step:3%", "exposed_comm@1:5%", base=10, now=11)
FEW = result(steps=4, now=12)
UNLIKE = result(gpu="NVIDIA A100")


def with_text(found, text):
    limits = [replace(one, reason=text) for one in found.limits]
    return replace(
        found,
        headline=text,
        limits=limits,
        notes=[text],
        next_steps=[text],
        baseline=replace(found.baseline, names=[text]),
        current=replace(found.current, names=[text]),
    )


# --- JUnit ---

ALLOWED = {
    "testsuites": ({"name", "tests", "failures", "errors", "time"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors", "skipped", "time"},
        {"properties", "testcase", "system-out"},
    ),
    "properties": (set(), {"property"}),
    "property": ({"name", "value"}, set()),
    "testcase": ({"name", "classname", "time"}, {"failure", "error", "skipped", "system-out"}),
    "failure": ({"message", "type"}, set()),
    "error": ({"message", "type"}, set()),
    "skipped": ({"message"}, set()),
    "system-out": (set(), set()),
}
"""Attributes and children of each element in the schema of Jenkins, as far as they are used."""


def cases(found, on_inconclusive="error"):
    """Read JUnit XML back, check its structure and counts, and return what became of each case."""
    top = ET.fromstring(junit.render(found, on_inconclusive))
    assert top.tag == "testsuites"
    for element in top.iter():
        attributes, children = ALLOWED[element.tag]
        assert set(element.attrib) <= attributes
        assert {child.tag for child in element} <= children
    (suite,) = top
    every = suite.findall("testcase")
    told = {name: int(suite.get(name)) for name in ("tests", "failures", "errors", "skipped")}
    assert told == {
        "tests": len(every),
        "failures": len(suite.findall("testcase/failure")),
        "errors": len(suite.findall("testcase/error")),
        "skipped": len(suite.findall("testcase/skipped")),
    }
    assert {name: top.get(name) for name in ("tests", "failures", "errors")} == {
        name: suite.get(name) for name in ("tests", "failures", "errors")
    }
    assert len({case.get("name") for case in every}) == len(every)
    return {case.get("name"): case[0] for case in every}


def test_each_limit_is_a_testcase_and_a_failure_has_the_values():
    found = cases(SLOWER)
    assert {name: case.tag for name, case in found.items()} == {
        "step@slowest:3%,min=50us": "failure",
        "exposed_comm@1:5%,min=50us": "system-out",
    }
    failure = found["step@slowest:3%,min=50us"]
    assert failure.get("type") == "regression"
    assert failure.text.startswith("step: 10.00 -> 11.00 ms, change +10.0 %, 99 % interval +9.")
    assert failure.text.endswith("limit 3%, min=50us: passes to 10.30 ms")


@pytest.mark.parametrize(
    ("on_inconclusive", "tag"), [("error", "error"), ("pass", "skipped"), ("fail", "failure")]
)
def test_a_doubt_is_what_the_exit_code_makes_of_it(on_inconclusive, tag):
    (case,) = cases(FEW, on_inconclusive).values()
    assert case.tag == tag
    assert "only 4 steps" in case.get("message")


def test_unlike_runs_are_errors_with_what_they_differ_in():
    (case,) = cases(UNLIKE, "pass").values()
    assert (case.tag, case.get("type")) == ("error", "not_comparable")
    text = junit.render(UNLIKE, "pass")
    assert 'name="differs.gpu" value="GPU: NVIDIA H200 vs NVIDIA A100"' in text


@settings(deadline=None)
@given(st.text())
def test_junit_is_well_formed_whatever_names_and_reasons_hold(text):
    cases(with_text(SLOWER, text))
    cases(with_text(FEW, text), "pass")


def test_what_xml_cannot_hold_is_left_out_and_the_rest_is_kept():
    found = cases(with_text(SLOWER, HOSTILE))
    message = found["step@slowest:3%,min=50us"].get("message")
    assert "\x00" not in message
    assert "a|b</failure>]]>&<b>%0A::error::x`*_[l](http://x)" in message


def test_drift_is_a_testcase_of_its_own_with_the_same_name_every_time():
    limit = SLOWER.limits[0]
    for runs in (10, 11):
        drift = replace(limit, over_runs=runs)
        names = cases(replace(SLOWER, limits=[limit, drift]))
        assert list(names) == ["step@slowest:3%,min=50us", "step@slowest:3%,min=50us, drift"]


# --- GitHub ---


def annotations(found, on_inconclusive="error"):
    """Read annotations back as the runner does: level, title, message."""
    *lines, last = re.split("\r\n|\r|\n", github.render(found, on_inconclusive))
    assert last == ""
    commands = [re.fullmatch(r"::(\w+) title=([^:,]*)::(.*)", line).groups() for line in lines]
    return [(level, _unescaped(title), _unescaped(text)) for level, title, text in commands]


def _unescaped(text):
    for code, character in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ",")):
        text = text.replace(code, character)
    assert not re.search("%(?!25)", text)
    return text.replace("%25", "%")


def test_a_regression_is_an_error_and_a_pass_one_notice():
    ((level, title, text),) = annotations(SLOWER)
    assert (level, title) == ("error", "ddptrace check: regression: step")
    assert text.startswith("step: 10.00 -> 11.00 ms, change +10.0 %")
    assert text.endswith("\n" + SLOWER.limits[0].reason)
    assert annotations(PASSED) == [("notice", "ddptrace check: passed", "passed: 1 limit kept")]


@pytest.mark.parametrize(
    ("on_inconclusive", "level"), [("error", "error"), ("pass", "warning"), ("fail", "error")]
)
def test_a_doubt_warns_where_it_does_not_stop(on_inconclusive, level):
    assert [one[0] for one in annotations(FEW, on_inconclusive)] == [level]


def test_the_reason_of_a_limit_without_values_is_said_once():
    ((_, title, text),) = annotations(UNLIKE)
    assert (title, text) == ("ddptrace check: not comparable: step", "step: the runs are unlike")


@settings(deadline=None)
@given(st.text())
def test_no_text_ends_a_command_or_begins_another(text):
    ((_, _, message),) = annotations(with_text(SLOWER, text))
    assert message.startswith("step: 10.00 -> 11.00 ms")


def test_what_ends_a_title_is_escaped():
    drift = replace(SLOWER, limits=[replace(SLOWER.limits[0], over_runs=10)])
    assert annotations(drift)[0][1] == "ddptrace check: regression: step, drift over 10 runs"


def test_of_many_limits_as_many_are_shown_as_github_shows():
    limits = [replace(SLOWER.limits[0], rank=rank) for rank in range(12)]
    found = annotations(replace(SLOWER, limits=limits))
    assert len(found) == 10
    assert found[-1] == ("error", "ddptrace check: more", "3 more limits: see the log")
    assert len(annotations(replace(SLOWER, limits=limits[:9]))) == 9


# --- GitLab ---


def issues(found, on_inconclusive="error"):
    document = json.loads(gitlab.render(found, on_inconclusive))
    for issue in document:
        assert set(issue) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert issue["severity"] in ("info", "minor", "major", "critical", "blocker")
        assert re.fullmatch("[0-9a-f]{64}", issue["fingerprint"])
        assert issue["location"]["lines"] == {"begin": 1}
        assert not issue["location"]["path"].startswith(("/", "./"))
        assert not re.search("[\x00-\x1f\x7f-\x9f]", issue["description"])
    return document


def test_only_what_did_not_pass_is_an_issue():
    assert issues(PASSED) == []
    (issue,) = issues(SLOWER)
    assert (issue["check_name"], issue["severity"]) == ("ddptrace/step", "major")
    assert issue["location"]["path"] == "run"
    assert issue["description"].startswith("step: 10.00 -> 11.00 ms, change +10.0 %")


@pytest.mark.parametrize(
    ("on_inconclusive", "severity"), [("error", "minor"), ("pass", "info"), ("fail", "major")]
)
def test_a_doubt_is_as_severe_as_the_exit_code_has_it(on_inconclusive, severity):
    assert [one["severity"] for one in issues(FEW, on_inconclusive)] == [severity]


def test_an_issue_keeps_its_fingerprint_while_its_limit_does():
    def mark(found):
        return [one["fingerprint"] for one in issues(found)]

    worse = result("step:3%", "exposed_comm@1:5%", base=10, now=12)
    assert mark(SLOWER) == mark(worse)
    other = [
        replace(SLOWER.limits[0], **change)
        for change in (
            {}, {"limit": "step@1:3%,min=50us"}, {"limit": "step@slowest:5%,min=50us"},
            {"over_runs": 10}, {"outcome": "inconclusive"},
        )
    ]  # fmt: skip
    assert len(set(mark(replace(SLOWER, limits=other)))) == 5


@pytest.mark.parametrize(
    ("name", "path"),
    [("traces/run", "traces/run"), ("./run", "run"), ("{here}/a/run", "a/run"),
     ("/elsewhere/run", "run"), ("/", "run"), ("", "run")],
)  # fmt: skip
def test_an_issue_points_at_the_run_as_seen_from_the_repository(name, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    named = name.format(here=tmp_path)
    found = replace(SLOWER, current=replace(SLOWER.current, names=[named]))
    assert issues(found)[0]["location"]["path"] == path


@settings(deadline=None)
@given(st.text())
def test_issues_are_json_whatever_names_hold(text):
    issues(replace(with_text(SLOWER, text), current=SLOWER.current))


# --- Markdown ---


def test_markdown_has_a_row_a_limit_and_which_part_grew():
    text = markdown.render(SLOWER)
    assert text.startswith("### ❌ ddptrace check: regression: step: ")
    assert "| ❌ regression | step | 10.00 | 11.00 | \\+10.0 % | " in text
    assert "| ✅ pass | exposed\\_comm of rank 1 | 1.00 | 1.00 |" in text
    assert "median recorded steps of rank 0:" in text
    assert "| compute | 9.00 | 10.00 | \\+1.00 |" in text
    assert "| step | 10.00 | 11.00 | \\+1.00 |" in text
    assert "Which part grew" not in markdown.render(PASSED)


def test_rows_have_as_many_cells_as_their_table():
    for table in re.findall(r"(?:^\|.*\n)+", markdown.render(SLOWER), re.MULTILINE):
        counts = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(counts) == 1


def test_text_in_markdown_is_text():
    text = markdown.render(with_text(SLOWER, HOSTILE))
    assert "&lt;b>" not in text
    assert "a\\|b&lt;/failure\\>\\]\\]\\>&amp;&lt;b\\>%0A::error::x\\`\\*\\_\\[l\\]\\(http" in text
    assert not re.search("[\x00-\x09\x0b-\x1f]", text)


# --- the command ---


@pytest.fixture
def ddptrace(monkeypatch):
    return partial(call, monkeypatch)


@pytest.fixture
def two(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    csv(tmp_path / "base.csv", 10)
    csv(tmp_path / "slow.csv", 11)
    csv(tmp_path / "few.csv", 12, count=3)
    return tmp_path


FILES = ("--json", "r.json", "--junit", "r.xml", "--gitlab", "q.json", "--markdown", "r.md")


@pytest.mark.parametrize(("run", "code"), [("base", 0), ("slow", 1), ("few", 2)])
def test_all_files_are_written_however_the_check_ends(ddptrace, two, run, code):
    done = ddptrace("check", f"{run}.csv", "--baseline", "base.csv", *FILES)
    assert done.code == code
    assert done.stderr == "".join(f"wrote {name}\n" for name in FILES[1::2])
    assert "baseline: base.csv" in done.stdout
    assert json.loads((two / "r.json").read_text())["exit_code"] == code
    assert ET.parse(two / "r.xml").getroot().tag == "testsuites"
    assert len(json.loads((two / "q.json").read_text())) == (code != 0)
    assert (two / "r.md").read_text().startswith("### ")
    assert {path.name for path in two.iterdir()} == {
        "base.csv", "slow.csv", "few.csv", *FILES[1::2]
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("none.csv", "--baseline", "base.csv"), "none.csv: cannot be read"),
        (("base.csv", "--baseline", "none.json"), "none.json: no such file"),
        (("base.csv", "--history", "none.db"), "none.db: no such history"),
        (("base.csv", "--history", "empty.db"), "the history has no run"),
        (("base.csv", "--baseline", "base.csv", "--allow", "colour"), "no such name"),
    ],
)
def test_all_files_are_written_when_nothing_could_be_compared(
    ddptrace, tmp_path, monkeypatch, words, why
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    csv(tmp_path / "base.csv", 10)
    with writing(tmp_path / "empty.db"):
        pass
    names = {"--json": "x.json", "--junit": "x.xml", "--gitlab": "x.gl", "--markdown": "x.md"}
    for name in names.values():
        (tmp_path / name).write_text("of an earlier run")
    options = [word for pair in names.items() for word in pair]
    done = ddptrace("check", *words, *options, "--github")
    assert done.code == 2
    assert why in done.stderr.splitlines()[-1]
    assert re.fullmatch("::error title=ddptrace check%3A not comparable.*\n", done.stdout)
    for name in [*names.values(), "summary.md"]:
        assert why.split()[-1] in (tmp_path / name).read_text()
    assert json.loads((tmp_path / "x.json").read_text())["exit_code"] == 2
    (error,) = ET.parse(tmp_path / "x.xml").getroot().iter("error")
    assert why in error.get("message")
    assert json.loads((tmp_path / "x.gl").read_text())[0]["severity"] == "minor"


@pytest.mark.parametrize(
    ("option", "begin"),
    [("--json", "{"), ("--junit", "<?xml"), ("--gitlab", "["), ("--markdown", "### ")],
)
def test_what_goes_to_standard_output_is_alone_there(ddptrace, two, option, begin):
    done = ddptrace("check", "slow.csv", "--baseline", "base.csv", option, "-")
    assert (done.code, done.stderr) == (1, "")
    assert done.stdout.startswith(begin)
    assert "baseline: base.csv: rank 0, 20 timed steps\ncurrent" not in done.stdout


def test_for_github_stdout_has_annotations_and_the_log_still_has_the_text(
    ddptrace, two, monkeypatch
):  # fmt: skip
    summary = two / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    done = ddptrace("check", "slow.csv", "--baseline", "base.csv", "--github")
    assert done.code == 1
    assert done.stdout.startswith("::error title=ddptrace check%3A regression%3A step::step: ")
    assert done.stdout.count("\n") == 1
    assert "baseline: base.csv: rank 0, 20 timed steps\n" in done.stderr
    assert summary.read_text().startswith("before\n### ❌ ddptrace check: regression")
    monkeypatch.delenv("GITHUB_STEP_SUMMARY")
    assert ddptrace("check", "base.csv", "--baseline", "base.csv", "--github").code == 0


def test_outputs_that_take_each_others_place_are_refused(ddptrace, two):
    check_slow = ("check", "slow.csv", "--baseline", "base.csv")
    for words, said in (
        (["--json", "-", "--junit", "-"], "--json and --junit: only one can go to standard"),
        (["--markdown", "-", "--github"], "--markdown and --github: only one can go to"),
        (["--json", "x", "--junit", "./x"], "--junit ./x: is the file of --json, too"),
        (["--json", "base.csv"], "--json base.csv: is base.csv; give another name"),
        (["--gitlab", "slow.csv"], "--gitlab slow.csv: is slow.csv; give another name"),
    ):
        refused(ddptrace(*check_slow, *words), said)
    assert (two / "base.csv").read_text().startswith("step_ms")


@pytest.mark.parametrize(("run", "code"), [("base", 2), ("slow", 1)])
def test_a_file_that_cannot_be_written_hides_nothing(ddptrace, two, run, code):
    files = ("--junit", "no/such/r.xml", "--markdown", "r.md")
    done = ddptrace("check", f"{run}.csv", "--baseline", "base.csv", *files)
    assert done.code == code
    assert "ddptrace: no/such/r.xml: cannot be written" in done.stderr
    assert (two / "r.md").exists()
    assert "baseline: base.csv" in done.stdout


def test_a_summary_that_cannot_be_written_hides_nothing(ddptrace, two, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(two / "no" / "summary.md"))
    done = ddptrace("check", "slow.csv", "--baseline", "base.csv", "--github")
    assert done.code == 1
    assert done.stdout.startswith("::error")
    assert "$GITHUB_STEP_SUMMARY: cannot be written" in done.stderr


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "r.xml"
    path.write_text("before")
    place = path.stat().st_ino
    write_whole(str(path), "before")
    assert path.stat().st_ino != place  # another file has come into its place

    def broken(self, text, encoding):
        with self.open("w") as file:
            file.write(text[:3])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(path), "write_text", broken)
    with pytest.raises(OutputError, match="cannot be written: No space left"):
        write_whole(str(path), "<xml/>")
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("r.xml", "before")]


def test_a_link_keeps_pointing_at_the_file_that_is_written(tmp_path):
    (tmp_path / "link").symlink_to("r.xml")
    write_whole(str(tmp_path / "link"), "<xml/>")
    assert (tmp_path / "r.xml").read_text() == "<xml/>"
    assert (tmp_path / "link").is_symlink()


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such file")
def test_what_is_no_file_is_written_and_not_replaced(tmp_path):
    write_whole("/dev/null", "<xml/>")
    assert not list(tmp_path.iterdir())
    import stat
    from pathlib import Path

    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_a_limit_without_values_is_its_reason():
    from ddptrace.outputs.check_lines import values

    one = LimitResult("x", "tail", 3, "not_comparable", "is not\ntold", 0)
    assert values(one) == "tail of rank 3: is not told"
