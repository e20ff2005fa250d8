"""`ddptrace check` as a user meets it: exit codes, what is printed and saved, bad input."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from captured import write_manifest
from check_runs import SAMPLES
from test_check_steps import timed_rank
from traces import Kineto
from typer.testing import CliRunner

from ddptrace import analyze, load_run
from ddptrace.cli import app
from ddptrace.errors import DdptraceError
from ddptrace.report import to_json

ROOT = Path(__file__).parent.parent


def done(*words):
    return CliRunner().invoke(app, ["check", *map(str, words)], catch_exceptions=False)


def refused(*words) -> str:
    """Return the one line that `main` prints before it exits with 2."""
    with pytest.raises(DdptraceError) as refusal:
        done(*words)
    (line,) = str(refusal.value).splitlines()
    return line


def a_run(folder: Path, step_us=1000, steps=8, marks=True, **header) -> Path:
    """Write a run of one rank: every step has some noise, three parts compute and one idle."""
    folder.mkdir(parents=True)
    kineto = Kineto(rank=0, world_size=1)
    kineto.header |= {"deviceProperties": [{"id": 0, "name": "NVIDIA H200"}]} | header
    at = 0
    for step in range(steps):
        length = step_us + (step % 3) * 2
        if marks:
            kineto.step(step, at, at + length)
        kineto.gpu(at + 10, at + round(0.75 * length), name="gemm")
        at += length
    kineto.write(folder / "rank0.json")
    return folder


@pytest.fixture
def runs(tmp_path):
    a_run(tmp_path / "base")
    a_run(tmp_path / "slow", 1200)
    return tmp_path


def test_a_slower_run_fails_and_says_where_it_went(runs):
    found = done(runs / "slow", "--baseline", runs / "base", "--fail-on", "step:5%")
    assert found.exit_code == 1
    lines = found.stdout.splitlines()
    assert lines[0] == f"baseline: {runs / 'base'}: rank 0, 7 recorded steps"
    assert lines[1] == f"current: {runs / 'slow'}: rank 0, 7 recorded steps"
    assert lines[3] == (
        "regression: step: 1.00 to 1.20 ms (+20.0 %) is more than the limit, and more than chance"
    )
    (row,) = [line for line in lines if line.startswith("step  ")][:1]
    assert row.split() == [
        *("step", "1.00", "1.20", "+20.0", "%"),
        *("+19.7", "%", "to", "+20.2", "%", "5%,", "min=50us", "1.05", "regression"),
    ]
    assert "medians of 7 and 7 steps, recorded" in found.stdout
    assert [line.split() for line in lines if line.strip().startswith("- gemm")] == [
        ["-", "gemm", "0.74", "0.89", "+0.15"]
    ]
    assert "Next: where it went: ddptrace compare" in found.stdout


def test_a_run_as_fast_as_its_baseline_passes(runs):
    found = done(runs / "base", "--baseline", runs / "base")
    assert found.exit_code == 0
    assert "passed: 1 limit kept" in found.stdout
    assert "which part grew" not in found.stdout


def test_the_first_window_is_left_out_and_no_other(runs):
    found = document(runs / "base", "--baseline", runs / "base")
    assert found["current"]["recorded_steps"] == 7


def document(*words) -> dict:
    return json.loads(done(*words, "--json", "-").stdout)


def test_the_json_holds_everything_and_standard_output_nothing_else(runs):
    found = document(runs / "slow", "--baseline", runs / "base", "--fail-on", "step:5%")
    assert list(found)[:4] == ["schema", "outcome", "exit_code", "headline"]
    assert (found["outcome"], found["exit_code"]) == ("regression", 1)
    one = found["limits"][0]
    assert (one["limit"], one["limit_percent"]) == ("step@slowest:5%,min=50us", "5")
    assert one["current_ns"] - one["baseline_ns"] == one["change_ns"] > one["allowed_ns"] == 50_100
    assert one["interval"]["low_ratio"] > 0
    growth = found["growth"]
    assert sum(part["difference_ns"] for part in growth["parts"]) == growth["change_ns"]


def test_the_json_may_be_a_file(runs):
    out = runs / "out.json"
    found = done(runs / "slow", "--baseline", runs / "base", "--json", out)
    assert (found.exit_code, json.loads(out.read_text())["exit_code"]) == (1, 1)
    assert found.stdout.startswith("baseline: ")


# --- saving ---


def test_saving_alone_saves_and_exits_with_0(runs):
    base = runs / "base.json"
    found = done(runs / "base", "--save-baseline", base)
    assert (found.exit_code, found.stdout) == (0, "")
    assert found.stderr.endswith(f"saved the baseline {base}\n")
    assert done(runs / "slow", "--baseline", base).exit_code == 1
    assert done(runs / "base", "--baseline", base).exit_code == 0


@pytest.mark.parametrize(("count", "noted"), [(4, True), (5, False)])
def test_a_baseline_of_too_few_steps_is_noted(tmp_path, count, noted):
    (tmp_path / "few.csv").write_text("step_ms\n" + "10\n" * count)
    found = done("--steps", tmp_path / "few.csv", "--save-baseline", tmp_path / "base.json")
    assert found.exit_code == 0
    assert ("note: it holds 4 steps that count, and a check needs 5" in found.stderr) == noted


@pytest.mark.parametrize("option", [["--json", "-"], ["--junit", "x.xml"], ["--github"]])
def test_saving_alone_has_no_result_to_write(runs, option):
    line = refused(runs / "base", "--save-baseline", runs / "base.json", *option)
    assert line.startswith(f"{option[0]}: --save-baseline alone checks nothing")
    assert not (runs / "base.json").exists()


def test_a_baseline_is_no_output_for_a_pipe(runs):
    assert "--save-baseline needs a file" in refused(runs / "base", "--save-baseline", "-")


@pytest.mark.parametrize("kind", ["without marks", "cut"])
def test_without_a_usable_step_nothing_is_saved(tmp_path, kind):
    run = a_run(tmp_path / "run", marks=kind != "without marks")
    if kind == "cut":
        path = run / "rank0.json"
        path.write_text(path.read_text()[:-900])
    line = refused(run, "--save-baseline", tmp_path / "base.json")
    assert "nothing to save" in line
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_run_that_passes_may_become_the_baseline_and_one_that_fails_does_not(runs):
    base, new = runs / "base.json", runs / "new.json"
    done(runs / "base", "--save-baseline", base)
    assert done(runs / "slow", "--baseline", base, "--save-baseline", new).exit_code == 1
    assert not new.exists()
    assert done(runs / "base", "--baseline", base, "--save-baseline", new).exit_code == 0
    assert new.exists()
    assert done(runs / "base", "--baseline", base, "--save-baseline", base).exit_code == 0


def test_a_recording_is_not_overwritten(runs):
    trace = runs / "base" / "rank0.json"
    before = trace.read_bytes()
    assert "is there, and no baseline" in refused(runs / "base", "--save-baseline", trace)
    assert trace.read_bytes() == before


def test_several_runs_make_one_baseline(runs):
    base = runs / "base.json"
    a_run(runs / "again", 1004)
    done(runs / "base", runs / "again", "--save-baseline", base)
    found = document(runs / "slow", "--baseline", base)
    assert found["baseline"]["names"] == [str(runs / "base"), str(runs / "again")]
    assert found["limits"][0]["baseline"] == {"steps": 14, "runs": 2}
    whole = document(runs / "slow", "--baseline", runs / "base", "--baseline", runs / "again")
    assert whole["limits"] == found["limits"]


# --- what is compared ---


def test_without_step_marks_it_is_2_and_how_to_get_marks_is_said(runs):
    a_run(runs / "unmarked", marks=False)
    found = done(runs / "unmarked", "--baseline", runs / "base")
    assert found.exit_code == 2
    assert "the current run has no step that counts" in found.stdout
    assert "call prof.step() once an iteration" in found.stdout
    assert "%" not in found.stdout.split("current:", 1)[1].replace("3%", "")


def test_one_step_is_inconclusive_and_says_how_many_are_needed(runs):
    a_run(runs / "short", 1200, steps=1)
    words = (runs / "short", "--baseline", runs / "base")
    found = done(*words)
    assert found.exit_code == 2
    assert "only 1 step of the current run counted, and 5 are needed" in found.stdout
    assert done(*words, "--inconclusive", "pass").exit_code == 0
    assert done(*words, "--inconclusive", "fail").exit_code == 1


def test_another_gpu_is_refused_unless_it_is_allowed(runs):
    a_run(runs / "other", 1200, deviceProperties=[{"id": 0, "name": "NVIDIA H100"}])
    found = done(runs / "other", "--baseline", runs / "base")
    assert found.exit_code == 2
    assert "not comparable: GPU: NVIDIA H200 vs NVIDIA H100" in found.stdout
    assert "1.2" not in found.stdout
    assert done(runs / "other", "--baseline", runs / "base", "--allow", "gpu").exit_code == 1
    words = ("--allow", "torch_version, gpu", "--allow", "driver_version")
    assert done(runs / "other", "--baseline", runs / "base", *words).exit_code == 1


def test_a_saved_report_is_as_good_as_its_traces(runs):
    path = runs / "slow.report"
    path.write_text(to_json(analyze(load_run(runs / "slow"))))
    assert done(path, "--baseline", runs / "base").exit_code == 1
    assert done(runs / "base", "--baseline", path).exit_code == 0
    assert "saved report, which stays" in refused(path, "--baseline", path, "--ranks", "0")


def test_ranks_of_recordings_in_parts_may_be_chosen():
    words = (SAMPLES / "late-compute", "--baseline", SAMPLES / "healthy", "--ranks", "1")
    found = document(*words)
    assert found["current"]["ranks"] == [1]
    assert (found["exit_code"], found["limits"][0]["source"]) == (1, "timed")


def test_step_times_alone_are_enough(tmp_path):
    (tmp_path / "base.csv").write_text("step_ms\n" + "10\n10.1\n9.9\n" * 4)
    (tmp_path / "slow.csv").write_text("step_ms\n" + "11\n11.1\n10.9\n" * 4)
    base = tmp_path / "base.json"
    assert done("--steps", tmp_path / "base.csv", "--save-baseline", base).exit_code == 0
    found = done("--steps", tmp_path / "slow.csv", "--baseline", base)
    assert found.exit_code == 1
    assert "12 timed steps" in found.stdout
    assert "which part grew" not in found.stdout
    assert done("--steps", tmp_path / "base.csv", "--baseline", base).exit_code == 0
    assert (
        done("--steps", tmp_path / "slow.csv", "--baseline", tmp_path / "base.csv").exit_code == 1
    )


def test_ranks_of_step_times_may_be_chosen(tmp_path):
    for name, slow in (("base", 10), ("now", 15)):
        rows = [f"{rank},{ms}" for rank, ms in ((0, 10), (1, 10), (2, slow)) for _ in range(9)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["rank,step_ms", *rows]))
    words = ("--steps", tmp_path / "now.csv", "--baseline", tmp_path / "base.csv")
    assert done(*words).exit_code == 1
    assert done(*words, "--ranks", "0,1").exit_code == 0
    assert done(*words, "--ranks", "2").exit_code == 1
    assert "has no step times of rank 7" in refused(*words, "--ranks", "1,7")
    for name, slow in (("base", 1000), ("now", 1500)):
        write_manifest(tmp_path / name, timed_rank(0, 1000), timed_rank(1, slow))
    words = (tmp_path / "now", "--baseline", tmp_path / "base")
    assert [done(*words).exit_code, done(*words, "--ranks", "0").exit_code] == [1, 0]


def test_a_damaged_manifest_is_noted_as_a_report_does(runs):
    (runs / "base" / "manifest.json").write_text("{")
    found = done(runs / "base", "--baseline", runs / "base")
    assert found.exit_code == 0
    assert "manifest.json: cannot be read" in " ".join(found.stdout.split())


def test_a_change_that_rounds_to_the_limit_is_told_from_it(tmp_path):
    (tmp_path / "base.csv").write_text("step_ms\n" + "10\n" * 9)
    (tmp_path / "now.csv").write_text("step_ms\n" + "10.50001\n" * 9)
    words = ("--steps", tmp_path / "now.csv", "--baseline", tmp_path / "base.csv")
    found = done(*words, "--fail-on", "step:5%")
    assert found.exit_code == 1
    assert "10.00000 to 10.50001 ms (+5.0001 %) is more than the limit" in found.stdout
    assert "10.50000  regression" in found.stdout
    for option in ("--junit", "--markdown"):
        assert "10.50000" in done(*words, "--fail-on", "step:5%", option, "-").stdout


def test_a_run_that_was_only_timed_is_enough(tmp_path):
    write_manifest(tmp_path / "base", timed_rank(0, 1000))
    write_manifest(tmp_path / "slow", timed_rank(0, 1100))
    assert done(tmp_path / "slow", "--baseline", tmp_path / "base").exit_code == 1
    assert done(tmp_path / "base", "--baseline", tmp_path / "base").exit_code == 0


def test_power_is_printed(runs):
    found = done(runs / "base", "--baseline", runs / "base", "--power")
    assert "step@slowest:3%,min=50us: " in found.stdout
    assert "with 100 and 100 steps" in found.stdout


def test_limits_that_cannot_be_told_apart_by_steps_say_so():
    """Three steps are recorded by default, of which two count: only `step` was timed often."""
    words = (SAMPLES / "late-compute", "--baseline", SAMPLES / "healthy", "--fail-on")
    found = done(*words, "exposed_comm:20%,min=1ms")
    assert found.exit_code == 2
    assert "only 2 steps of the baseline counted, and 5 are needed" in found.stdout
    assert done(*words, "exposed_comm:20%,min=1ms", "--fail-on", "step:3%").exit_code == 1


# --- bad input ---


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["RUN"], "give --baseline with what to hold the run against"),
        ([], "give the RUN to check, or --steps"),
        (["RUN", "--baseline", "NONE"], "no such file or folder"),
        (["NONE", "--baseline", "RUN"], "no such file or folder"),
        (["RUN", "--baseline", "LIST"], "is a JSON list without events"),
        (["RUN", "--baseline", "EMPTY"], "--baseline takes what --save-baseline wrote, or a run"),
        (["RUN", "--baseline", "DAMAGED"], "no baseline, or is damaged"),
        (["RUN", "--baseline", "NEWER"], "schema 2, and this ddptrace reads 1"),
        (["RUN", "--baseline", "RUN", "--fail-on", "stp:5%"], "'stp' is no metric; there is step"),
        (["RUN", "--baseline", "RUN", "--allow", "colour"], "no such name"),
        (["RUN", "--baseline", "RUN", "--inconclusive", "x"], "give error, pass or fail"),
        (["RUN", "--save-baseline", "NONE/base.json"], "cannot be written"),
        (["RUN", "--save-baseline", "RUN"], "is there, and no baseline"),
        (["--steps", "NONE.csv", "--baseline", "RUN"], "cannot be read"),
        (["--steps", "RUN", "--baseline", "RUN"], "cannot be read: Is a directory"),
        (["--steps", "LIST", "--baseline", "RUN"], "no column in its first line"),
        (["--steps", "EMPTY", "--baseline", "RUN"], "holds no step times"),
        (["RUN", "--steps", "LIST", "--baseline", "RUN"], "give the RUN to check, or --steps"),
        (["RUN", "--baseline", "RUN", "--json", "RUN"], "give another name"),
    ],
)
def test_bad_input_is_one_line(runs, words, sentence):
    (runs / "list.json").write_text("[1]")
    (runs / "empty.json").write_text("")
    (runs / "damaged.json").write_text('{"kind": "ddptrace baseline", "schema": 1, "ru')
    (runs / "newer.json").write_text('{"kind": "ddptrace baseline", "schema": 2}')
    places = {"RUN": "base", "NONE": "none", "LIST": "list.json", "EMPTY": "empty.json",
              "DAMAGED": "damaged.json", "NEWER": "newer.json"}  # fmt: skip
    for name, place in places.items():
        words = [
            str(runs / word.replace(name, place)) if word.split(".")[0].split("/")[0] == name
            else word
            for word in words
        ]  # fmt: skip
    assert sentence in refused(*words)


def test_as_a_process_its_exit_codes_are_0_1_and_2(runs):
    def code(*words):
        command = [sys.executable, "-m", "ddptrace", "check", *map(str, words)]
        found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        assert "Traceback" not in found.stderr
        return found.returncode, found.stderr.count("\n")

    assert code(runs / "base", "--baseline", runs / "base") == (0, 0)
    assert code(runs / "slow", "--baseline", runs / "base") == (1, 0)
    assert code(runs / "none", "--baseline", runs / "base") == (2, 1)
