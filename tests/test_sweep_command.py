"""`ddptrace sweep` as a command: what it prints, what it hands on, its exit codes."""

import json
import sys

import pytest
from sweeps import Sweep, steps, timed

from ddptrace.cli import main
from ddptrace.outputs.sweep import render
from ddptrace.outputs.terminal import Destination
from ddptrace.sweep.build import sweep_of


@pytest.fixture
def ran(monkeypatch, capsys, tmp_path):
    """Run the command in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["ddptrace", "sweep", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
        captured = capsys.readouterr()
        return end.value.code or 0, captured.out, captured.err

    return run


@pytest.fixture
def recorder(monkeypatch):
    """Stand in for the recorder: note its words, do what the test wants, return its code."""
    words = []

    def stand_in(code=0, act=lambda: None):
        def run(given):
            words.append(given)
            act()
            return code

        monkeypatch.setattr(sys.modules["ddptrace.cli.sweep"], "run_recorder", run)
        return words

    return stand_in


def whole(folder):
    return Sweep(folder).run(None, steps(10)).run(1, steps(11)).run(100, steps(9.5))


def test_without_a_command_the_sweep_of_a_folder_is_shown(ran, tmp_path):
    whole(tmp_path / "s")
    code, out, err = ran("-o", "s")
    assert (code, err) == (0, "")
    assert "bucket_cap_mb=100 is faster than yours" in out
    assert "paste: DistributedDataParallel(model, …, bucket_cap_mb=100)" in out


def test_the_usual_folder_is_used_when_none_is_named(ran, tmp_path):
    whole(tmp_path / "ddptrace-sweep")
    assert ran()[0] == 0


def test_json_goes_to_a_file_beside_the_text_or_alone_to_standard_output(ran, tmp_path):
    whole(tmp_path / "s")
    code, out, err = ran("-o", "s", "--json", "s.json")
    assert (code, "paste:" in out, err) == (0, True, "wrote s.json\n")
    alone = ran("-o", "s", "--json", "-")[1]
    assert json.loads(alone) == json.loads((tmp_path / "s.json").read_text())


def test_the_recorder_gets_its_own_words_and_the_command(ran, recorder, tmp_path):
    words = recorder(act=lambda: whole(tmp_path / "s"))
    ran("-o", "s", "--json", "x", "--bucket-cap-mb", "1,100", "--repeat", "2", "--", "a", "--json")
    assert words == [
        ["sweep", "-o", "s", "--bucket-cap-mb", "1,100", "--repeat", "2", "--", "a", "--json"]
    ]


def test_after_a_run_that_failed_what_is_there_is_shown_with_its_code(ran, recorder, tmp_path):
    recorder(7, lambda: Sweep(tmp_path / "s").run(None, steps(10)).run(1, problem="exit code 7"))
    code, out, _ = ran("-o", "s", "--bucket-cap-mb", "1", "--", "x")
    assert (code, "note: cap-1: exit code 7" in out) == (7, True)


def test_the_cap_of_an_own_run_that_failed_is_not_known(ran, tmp_path):
    Sweep(tmp_path / "s").run(None, problem="interrupted").run(1, steps(10))
    out = ran("-o", "s")[1]
    assert "- (yours)" in out
    assert "several" not in out
    Sweep(tmp_path / "s2").run(None, steps(10), asked=[1, 25]).run(1, steps(10))
    assert "several (yours)" in ran("-o", "s2")[1]


def test_what_the_recorder_refused_shows_no_earlier_sweep(ran, recorder, tmp_path):
    whole(tmp_path / "s")
    recorder(2)
    assert ran("-o", "s", "--bucket-cap-mb", "7", "--", "x") == (2, "", "")


def test_a_job_without_ddp_is_only_what_the_recorder_said(ran, recorder, tmp_path):
    recorder(2, lambda: Sweep(tmp_path / "s", problem="no DDP model").run(None, steps(10)))
    assert ran("-o", "s", "--bucket-cap-mb", "7", "--", "x") == (2, "", "")
    code, out, err = ran("-o", "s")
    assert (code, out, err) == (2, "", "ddptrace: s: no DDP model\n")


def test_help_is_the_recorders_and_goes_to_standard_output(ran, monkeypatch):
    words = []

    def become(given):
        words.extend(given)
        raise SystemExit(0)

    monkeypatch.setattr(sys.modules["ddptrace.cli.sweep"], "become_recorder", become)
    assert ran("--bucket-cap-mb", "1", "--help")[0] == 0
    assert words == ["sweep", "--help"]


def test_after_a_sweep_that_failed_a_wrong_word_of_ours_is_still_said(ran, recorder, tmp_path):
    recorder(7, lambda: whole(tmp_path / "s"))
    words = ["-o", "s", "--predict-from", "7", "--bucket-cap-mb", "1", "--", "x"]
    code, out, err = ran(*words)
    assert (code, out) == (2, "")
    assert "--predict-from 7: no recording has that cap; there are none" in err


def test_when_nothing_was_measured_the_code_is_2(ran, tmp_path):
    Sweep(tmp_path / "s").run(None, problem="nothing was recorded")
    code, out, err = ran("-o", "s")
    assert (code, "note: own: nothing was recorded" in out) == (2, True)
    assert err == "ddptrace: no configuration was measured\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["-o", "nowhere"], "nowhere: no sweep is there"),
        (["--predict-from", "x"], "--predict-from x: give a number from"),
        (["--jobs", "x"], "--jobs x: give a whole number of 1 or more"),
        (["--jobs", "0"], "--jobs 0: give a whole number of 1 or more"),
        (["-o"], "argument -o/--output: expected one argument"),
    ],
)
def test_bad_usage_is_one_line(ran, words, sentence):
    code, out, err = ran(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err


def test_the_table_fits_a_narrow_terminal_as_lines(tmp_path):
    found = sweep_of(whole(tmp_path / "s").folder, lambda _: None)
    wide, narrow = render(found, Destination()), render(found, Destination(width=60))
    assert wide.splitlines()[5].split()[:3] == ["cap", "MiB", "step"]
    assert "cap 25 (yours) MiB" in narrow
    assert all(len(line) <= 60 for line in narrow.splitlines() if "paste" not in line)
    assert "\033[" not in wide + narrow


def test_replicas_that_differ_are_loud(tmp_path):
    sweep = whole(tmp_path / "s")
    timed(sweep.folder / "cap-1", steps(9), set_to=1, equal=False)
    assert "DIFFER" in render(sweep_of(sweep.folder, lambda _: None), Destination())
