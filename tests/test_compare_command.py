"""`ddptrace compare` as a user meets it: what is printed, JSON, bad input."""

import gzip
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from captured import captured, full_file, full_part, rank_entry, write_manifest
from traces import Kineto, plain
from typer.testing import CliRunner

from ddptrace import analyze, load_run
from ddptrace.cli import app
from ddptrace.compare.comparison import compare
from ddptrace.diagnosis.ledger import PARTS
from ddptrace.errors import DdptraceError
from ddptrace.outputs.comparison import render
from ddptrace.outputs.terminal import Destination
from ddptrace.report import to_json

ROOT = Path(__file__).parent.parent
SAMPLES = ROOT / "sample_traces"


def printed(*words) -> str:
    done = CliRunner().invoke(app, ["compare", *map(str, words)], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def document(*words) -> dict:
    return json.loads(printed(*words, "--json", "-"))


def refused(*words) -> str:
    """Return the one line that `main` prints before it exits with 2."""
    with pytest.raises(DdptraceError) as refusal:
        CliRunner().invoke(app, ["compare", *map(str, words)], catch_exceptions=False)
    (line,) = str(refusal.value).splitlines()
    return line


def one_rank(folder: Path, compute_us: int, **header) -> Path:
    """Write a run of one rank: three steps of 1 ms and more, with so much compute in each."""
    folder.mkdir()
    kineto = Kineto(rank=0, world_size=1)
    kineto.header |= header
    length = compute_us + 100
    for step in range(3):
        kineto.step(step, step * length, (step + 1) * length)
        kineto.gpu(step * length + 50, step * length + 50 + compute_us)
    kineto.write(folder / "rank0.json")
    return folder


def saved(run: Path, to: Path) -> Path:
    to.write_text(to_json(analyze(load_run(run))), encoding="utf-8")
    return to


# --- what is printed ---


@pytest.mark.parametrize("case", ["slow-link", "one-bucket", "late-compute"])
def test_the_examples_of_the_page_are_what_is_printed(case, monkeypatch):
    page = (ROOT / "docs" / "compare.md").read_text(encoding="utf-8")
    (example,) = re.findall(rf"```\n\$ ddptrace compare healthy {case}\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(SAMPLES)
    assert printed("healthy", case) == example


def test_every_caution_and_part_is_in_the_page():
    page = (ROOT / "docs" / "compare.md").read_text(encoding="utf-8")
    source = (ROOT / "ddptrace" / "compare" / "cautions.py").read_text(encoding="utf-8")
    codes = set(re.findall(r'yield \(?\s*"(\w+)"', source))
    assert len(codes) == 12
    assert [code for code in sorted(codes) if f"`{code}`" not in page] == []
    assert [name for name in PARTS if f"`{name.removesuffix('_ns')}`" not in page] == []


def test_the_table_has_the_parts_and_the_step(tmp_path):
    page = printed(one_rank(tmp_path / "a", 900), one_rank(tmp_path / "b", 1400))
    assert re.search(r"^compute +0\.90 +1\.40 +\+0\.50 +100\.0 %$", page, re.MULTILINE)
    assert re.search(r"^step +1\.00 +1\.50 +\+0\.50 +100\.0 %$", page, re.MULTILINE)
    assert "B's step is 0.50 ms (50.0 %) longer than A's: compute grew by 0.50 ms\n" in page
    assert "\nrank " not in page  # the only rank is in the table of parts already


def test_shares_of_next_to_nothing_are_dashes(tmp_path):
    page = printed(one_rank(tmp_path / "a", 900), one_rank(tmp_path / "b", 901))
    assert re.search(r"^compute +0\.90 +0\.90 +0\.00 +-$", page, re.MULTILINE)
    assert re.search(r"^step +1\.00 +1\.00 +0\.00 +-$", page, re.MULTILINE)


def test_what_changed_is_told_in_words(tmp_path):
    module = {"bucket_cap_bytes": 26_214_400, "static_graph": False}
    runs = []
    for name, cap, words in (("a", 26_214_400, []), ("b", 1_048_576, ["--fast", "x"])):
        folder = captured(tmp_path / name)
        ddp = [module | {"bucket_cap_bytes": cap}]
        ranks = [rank_entry(rank, ddp=ddp) for rank in range(2)]
        options = {"options": {"record_shapes": bool(words)}, "versions": {"torch": f"2.{cap}"}}
        write_manifest(folder, *ranks, command=["train.py", *words, "--end"], **options)
        runs.append(folder)
    lines = printed(*runs).splitlines()
    assert [line for line in lines if line.startswith("changed: ")] == [
        "changed: command: only in B: --fast x",
        "changed: version of torch: 2.26214400 in A, 2.1048576 in B",
        "changed: DDP's bucket_cap_bytes: 26.21 MB in A, 1.05 MB in B",
        "changed: capture option record_shapes: off in A, on in B",
    ]
    assert not [line for line in lines if line.startswith("not comparable")]


def test_runs_of_other_options_of_the_profiler_are_said_not_to_compare_first(tmp_path):
    a = one_rank(tmp_path / "a", 900)
    b = one_rank(tmp_path / "b", 1400, record_shapes=1, profile_memory=1)
    lines = printed(a, b).splitlines()
    assert lines[3:5] == [
        "not comparable: A was recorded with no option that slows the host, B with "
        "record_shapes, profile_memory",
        "B's step is 0.50 ms (50.0 %) longer than A's: compute grew by 0.50 ms",
    ]
    assert document(a, b)["comparable"] is False


def test_options_that_the_profiler_says_were_off_are_off(tmp_path):
    a = one_rank(tmp_path / "a", 900)
    b = one_rank(tmp_path / "b", 900, record_shapes=0, with_stack=False)
    assert document(a, b)["comparable"] is True


def test_switches_are_those_of_the_steps_that_figures_come_from(tmp_path):
    folder = captured(tmp_path / "a")
    for rank in range(2):
        full = full_part(rank)
        full.header["record_shapes"] = 1
        full.write(full_file(folder, rank))
    assert analyze(load_run(folder)).run.settings.switches == []
    assert analyze(load_run(full_file(folder))).run.settings.switches == ["record_shapes"]


def test_without_a_manifest_it_is_said_what_is_not_known(tmp_path):
    a, b = one_rank(tmp_path / "a", 900), one_rank(tmp_path / "b", 900)
    lines = printed(a, b).splitlines()
    assert "changed: nothing that is known of both runs" in lines
    (unknown,) = [line for line in lines if line.startswith("not known of A and B: ")]
    assert "command, " in unknown
    assert "DDP's settings, " in unknown


def test_runs_without_steps_say_why_there_is_nothing_to_compare(tmp_path):
    (tmp_path / "b").mkdir()
    Kineto(rank=0, world_size=1).gpu(0, 100).write(tmp_path / "b" / "rank0.json")
    page = printed(one_rank(tmp_path / "a", 900), tmp_path / "b")
    assert "no step to compare: B has no step marks" in page
    assert "difference" not in page


@pytest.mark.parametrize("width", [20, 40, 80])
def test_no_line_is_wider_than_the_terminal(width):
    found = compare(
        *(analyze(load_run(SAMPLES / case)) for case in ("healthy", "late-compute"))
    ).named("healthy", "late-compute")
    lines = render(found, Destination(width=width)).splitlines()
    assert max(map(len, lines)) <= width
    assert "\x1b" in render(found, Destination(width=width, colour=True))
    assert "\x1b" not in render(found, Destination())


# --- runs and saved reports ---


def test_a_saved_report_gives_what_its_run_gives(tmp_path):
    runs = [one_rank(tmp_path / name, us) for name, us in (("a", 900), ("b", 1400))]
    reports = [saved(run, tmp_path / f"{run.name}.any") for run in runs]
    first, *others = [
        document(*pair) for pair in (runs, reports, (runs[0], reports[1]), (reports[0], runs[1]))
    ]
    for other in others:
        for side in "ab":
            assert other[side] | {"name": ""} == first[side] | {"name": ""}
        assert {**other, "a": 0, "b": 0} == {**first, "a": 0, "b": 0}


def test_a_saved_report_may_be_compressed(tmp_path):
    run = one_rank(tmp_path / "a", 900)
    packed = tmp_path / "a.json.gz"
    packed.write_bytes(gzip.compress(to_json(analyze(load_run(run))).encode()))
    assert document(packed, run)["step_ns"]["difference_ns"] == 0


def test_a_report_of_before_there_were_settings_can_be_compared(tmp_path):
    run = one_rank(tmp_path / "a", 900)
    old = json.loads(to_json(analyze(load_run(run))))
    del old["run"]["settings"], old["summary"]["counted_steps"]
    path = tmp_path / "old.json"
    path.write_text(json.dumps(old, sort_keys=True), encoding="utf-8")
    found = document(path, run)
    assert found["step_ns"]["difference_ns"] == 0
    assert {"topic": "steps", "what": None, "runs": ["a"]} in found["unknown"]


def test_the_json_goes_to_a_file_beside_the_text(tmp_path):
    runs = [one_rank(tmp_path / name, us) for name, us in (("a", 900), ("b", 1400))]
    assert "longer than A's" in printed(*runs, "--json", tmp_path / "c.json")
    assert json.loads((tmp_path / "c.json").read_text(encoding="utf-8")) == document(*runs)


def test_the_options_that_say_what_is_read_are_of_both_runs(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        for rank in range(2):
            plain(rank).write(tmp_path / name / f"rank{rank}.json")
    found = document(tmp_path / "a", tmp_path / "b", "--ranks", "1")
    assert [row["rank"] for row in found["ranks"]] == [1]
    assert found["a"]["ranks"] == found["b"]["ranks"] == [1]


def test_a_comparison_in_a_run_s_folder_is_no_trace_and_no_warning(tmp_path):
    runs = [one_rank(tmp_path / name, us) for name, us in (("a", 900), ("b", 1400))]
    printed(*runs, "--json", runs[0] / "compared.json")
    assert load_run(runs[0]).warnings == load_run(runs[1]).warnings
    assert "is a comparison of ddptrace" in refused(runs[0] / "compared.json", runs[1])


# --- bad input ---


def test_a_report_of_a_newer_version_is_refused(tmp_path):
    run = one_rank(tmp_path / "a", 900)
    newer = json.loads(saved(run, tmp_path / "a.json").read_text(encoding="utf-8"))
    newer |= {"schema": 2, "steps": {"another": "shape"}}
    (tmp_path / "newer.json").write_text(json.dumps(newer), encoding="utf-8")
    assert refused(tmp_path / "newer.json", run) == (
        f"{tmp_path / 'newer.json'}: report schema 2 is not 1, which this version reads"
    )


@pytest.mark.parametrize("text", ['{"schema": 1}', "[]", "no JSON", ""])
def test_a_file_that_is_neither_trace_nor_report_is_refused(tmp_path, text):
    (tmp_path / "x.json").write_text(text, encoding="utf-8")
    assert refused(one_rank(tmp_path / "a", 900), tmp_path / "x.json").startswith(
        str(tmp_path / "x.json")
    )


def test_a_damaged_report_is_refused(tmp_path):
    run = one_rank(tmp_path / "a", 900)
    broken = json.loads(saved(run, tmp_path / "a.json").read_text(encoding="utf-8"))
    broken["run"]["ranks"] = "all"
    (tmp_path / "b.json").write_text(json.dumps(broken), encoding="utf-8")
    assert f"{tmp_path / 'b.json'}: this is no ddptrace report" in refused(run, tmp_path / "b.json")


def test_a_folder_without_traces_is_refused(tmp_path):
    run = one_rank(tmp_path / "a", 900)
    (tmp_path / "empty").mkdir()
    assert "no traces here" in refused(run, tmp_path / "empty")
    assert "no such file or folder" in refused(tmp_path / "nothing", run)
    saved(run, tmp_path / "empty" / "report.json")
    assert "pass the traces it was made from" in refused(run, tmp_path / "empty")


@pytest.mark.parametrize(
    ("option", "value"), [("--ranks", "0"), ("--comm-kernel", "x"), ("--step-range", "x")]
)
def test_a_saved_report_cannot_be_read_otherwise(tmp_path, option, value):
    run = one_rank(tmp_path / "a", 900)
    path = saved(run, tmp_path / "a.json")
    assert refused(run, path, option, value) == (
        f"{option}: {path} is a saved report, which stays as it was made"
    )


def test_what_is_compared_is_not_written_over(tmp_path):
    run = one_rank(tmp_path / "a", 900)
    path = saved(run, tmp_path / "a.json")
    assert "is one of the two to compare" in refused(path, run, "--json", path)
    assert json.loads(path.read_text(encoding="utf-8"))["schema"] == 1


def test_html_writes_both_runs_as_one_page(tmp_path):
    first, second = one_rank(tmp_path / "a", 500), one_rank(tmp_path / "b", 700)
    path = tmp_path / "both.html"
    assert "B's step is 0.20 ms" in printed(first, second, "--html", path)
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "step is 0.20 ms (33.3 %) longer than A" in text


def test_html_takes_the_place_of_no_input(tmp_path):
    run = one_rank(tmp_path / "a", 500)
    path = saved(run, tmp_path / "old.json")
    assert "--html" in refused(path, run, "--html", path)
    assert "is one of the two to compare" in refused(path, run, "--html", path)
    assert "--html needs a file" in refused(run, run, "--html", "-")


def test_what_is_known_of_the_run_itself_in_one_run_only_is_named():
    report = analyze(load_run(SAMPLES / "two_gpus"))
    without = replace(report, run=replace(report.run, device=None, world_size=None))
    text = render(compare(without, report), Destination())
    assert "not known of A: world size, device" in text
