"""The saved baseline: it holds all that a check needs, and what else a file may hold is refused."""

import json
import sys
from pathlib import Path

import pytest
from check_runs import a_run, checked, sample, series
from traces import run, trace

from ddptrace import analyze, load_run
from ddptrace.check import baseline
from ddptrace.check.baseline import Baseline, from_json, is_one, read, save, to_json
from ddptrace.check.figures import METRICS
from ddptrace.check.measured import baseline_of, figures_of
from ddptrace.errors import OutputError, RunError

SAMPLES = Path(__file__).parent.parent / "sample_traces"
ROWS = [("compute", at, at + 600) for at in range(0, 6000, 1000)]
COMM = [("comm", at + 500, at + 900) for at in range(0, 6000, 1000)]
MARKS = [(at, at + 1000) for at in range(0, 6000, 1000)]


def document(**changes):
    whole = json.loads(to_json(Baseline([a_run([10_000] * 9)])))
    return json.dumps(whole | changes)


def test_what_is_saved_is_what_is_read(tmp_path):
    runs = [load_run(SAMPLES / name) for name in ("late-compute", "healthy")]
    kept = baseline_of(*runs, names=["a", "b"])
    save(kept, tmp_path / "base.json")
    assert read(tmp_path / "base.json") == kept
    assert [one.name for one in kept.runs] == ["a", "b"]


def test_a_check_against_the_saved_baseline_is_one_against_the_run(tmp_path):
    first, second = (sample(name) for name in ("healthy", "late-compute"))
    save(Baseline([first]), tmp_path / "base.json")
    kept = read(tmp_path / "base.json").runs
    limits = ("step:3%", "idle:10%", "exposed_wait:10%")
    assert checked(kept, second, *limits) == checked(first, second, *limits)


def test_it_holds_every_metric_of_the_steps_that_count():
    found = figures_of(run(trace(*ROWS, *COMM, marks=MARKS)))
    (one,) = found.recorded
    assert one.steps == [1, 2, 3, 4, 5]  # the first window of three or more is left out
    assert set(one.values) == set(METRICS)
    assert one.values["compute"] == [600_000] * 5
    assert one.values["exposed_comm"] == [300_000] * 5
    assert one.values["idle"] == [100_000] * 5
    assert one.values["exposed_wait"] == [0] * 5
    assert one.values["comm_unknown"] == [300_000] * 5


def test_with_two_steps_none_is_left_out():
    found = figures_of(run(trace(*ROWS[:2], marks=MARKS[:2])))
    assert found.recorded[0].steps == [0, 1]


def test_what_was_not_recorded_is_null_and_not_zero():
    found = figures_of(run(trace(*ROWS, marks=MARKS, comm_missing=True)))
    values = found.recorded[0].values
    assert values["step"][0] is not None
    for metric in ("comm", "exposed_comm", "idle", "tail", "input_stall", "comm_bandwidth"):
        assert values[metric] == [None] * 5


def test_parts_of_the_ledger_whose_cause_is_not_known_are_null_too():
    """The other rank of two is not here, so nothing tells what of communication was waiting."""
    found = figures_of(run(trace(*ROWS, *COMM, marks=MARKS), world_size=2))
    values = found.recorded[0].values
    assert values["exposed_comm"] == [300_000] * 5
    for metric in ("exposed_wait", "exposed_transfer", "straggler", "comm_bandwidth"):
        assert values[metric] == [None] * 5
    assert values["launch_bound"] == [100_000] * 5


def test_a_recording_without_step_marks_has_no_step():
    found = figures_of(run(trace(*ROWS, marks=())))
    assert (found.recorded, found.is_usable) == ([], False)
    assert any("no step marks" in note for note in found.notes)


def test_a_saved_report_tells_the_same_steps():
    whole = run(trace(*ROWS, *COMM, marks=MARKS))
    first, second = figures_of(whole), figures_of(analyze(whole))
    assert second.recorded[0].steps == first.recorded[0].steps
    assert second.recorded[0].values["idle"] == first.recorded[0].values["idle"]
    assert second.fingerprint == first.fingerprint
    assert second.ledgers == first.ledgers


def test_a_run_in_parts_has_times_without_a_profiler():
    found = sample("healthy")
    assert [(one.rank, len(one.steps)) for one in found.timed] == [(0, 10), (1, 10)]
    assert found.timed[0].steps[0] == 11


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no baseline, or is damaged"),
        ("[1, 2]", "no baseline, or is damaged"),
        ("{}", "is no baseline"),
        ('{"kind": "other"}', "is no baseline"),
        ('{"kind": "ddptrace baseline"}', "schema None, and this ddptrace reads 1"),
        (document(schema=2), "schema 2, and this ddptrace reads 1"),
        (document()[:300], "damaged (Input data was truncated)"),
        (document(runs=[]), "without the time of any step"),
        (document(runs=[{"name": "x"}]), "without the time of any step"),
        (document(runs={}), "damaged (Expected `array`"),
        (document().replace("10000000", "-10000000", 1), "damaged (Expected `int` >= 0"),
        (document().replace("10000000", "9" * 30, 1), "damaged (Expected `int`"),
        (document().replace("10000000", "NaN", 1), "damaged"),
        (document().replace("10000000,", "", 1), "damaged (step of rank 0 has other steps"),
    ],
)
def test_what_is_no_baseline_is_refused_in_one_line(text, words):
    with pytest.raises(RunError) as refused:
        from_json(text)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_nesting_without_an_end_is_refused():
    with pytest.raises(RunError, match="damaged"):
        from_json('{"kind": "ddptrace baseline", "schema": 1, "runs": ' + "[" * 100_000)


def test_a_file_that_is_too_large_is_not_read_whole(tmp_path, monkeypatch):
    save(Baseline([a_run([10_000] * 9)]), tmp_path / "base.json")
    monkeypatch.setattr(baseline, "_MOST_BYTES", 100)
    with pytest.raises(RunError, match="is larger than"):
        read(tmp_path / "base.json")


def test_a_baseline_is_told_by_its_content(tmp_path):
    path = tmp_path / "anything"
    for text, told in (
        (document(), True),
        (json.dumps(json.loads(document()), indent=4), True),
        ("\ufeff" + document(), True),
        (document(schema=9), True),
        ('{"schema": 1, "steps": []}', False),
        ("", False),
    ):
        path.write_text(text, encoding="utf-8")
        assert is_one(path) is told
    assert not is_one(tmp_path)
    assert not is_one(tmp_path / "no\0name")


def test_a_byte_order_mark_is_no_damage(tmp_path):
    (tmp_path / "base.json").write_text("\ufeff" + document(), encoding="utf-8")
    assert read(tmp_path / "base.json").runs[0].ranks == [0]


def test_it_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "base.json"
    save(Baseline([a_run([10_000] * 9)]), path)
    before = path.read_bytes()

    def full(self, *_, **__):
        self.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OutputError, match="No space left on device"):
        save(Baseline([a_run([11_000] * 9)]), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("content", ['{"traceEvents": []}', "notes", " "])
def test_a_file_that_is_no_baseline_is_not_overwritten(tmp_path, content):
    path = tmp_path / "rank0.json"
    path.write_text(content)
    with pytest.raises(OutputError, match="is there, and no baseline"):
        save(Baseline([a_run([10_000] * 9)]), path)
    assert path.read_text() == content


def test_an_older_baseline_or_an_empty_file_is_overwritten(tmp_path):
    path = tmp_path / "base.json"
    path.touch()
    for name in ("first", "second"):
        save(Baseline([a_run([10_000] * 9, name=name)]), path)
    assert read(path).runs[0].name == "second"


def test_a_baseline_without_a_step_is_not_written(tmp_path):
    with pytest.raises(RunError, match="no step that counts, so there is nothing to save"):
        save(Baseline([a_run(ranks=[series(step=[None] * 9)])]), tmp_path / "base.json")
    assert list(tmp_path.iterdir()) == []


def test_a_run_without_a_step_is_not_saved_beside_others(tmp_path):
    both = Baseline([a_run([10_000] * 9), a_run(name="empty")])
    with pytest.raises(RunError, match="empty: no step"):
        save(both, tmp_path / "base.json")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_said(tmp_path):
    with pytest.raises(OutputError, match="cannot be written"):
        save(Baseline([a_run([10_000] * 9)]), tmp_path / "none" / "base.json")


@pytest.mark.skipif(sys.platform == "win32", reason="links need a right there")
def test_a_link_to_a_baseline_stays_a_link(tmp_path):
    kept, link = tmp_path / "kept.json", tmp_path / "base.json"
    save(Baseline([a_run([10_000] * 9, name="first")]), kept)
    link.symlink_to(kept)
    save(Baseline([a_run([10_000] * 9, name="second")]), link)
    assert link.is_symlink()
    assert read(kept).runs[0].name == "second"
