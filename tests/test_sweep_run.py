"""The running half of a sweep: which runs, in which order, what is kept; no job is started."""

import json
import os
from pathlib import Path

import pytest

from ddptrace_capture import launch, sweep, sweep_folder, sweep_options
from ddptrace_capture.child import Ended
from ddptrace_capture.errors import CaptureError

PAGE = Path(__file__).parent.parent / "docs" / "sweep.md"

OPTIONS = {
    "--help", "--output", "--force", "--profiler", "--warmup", "--timed", "--steps", "--ranks",
    "--step-mark", "--record-shapes", "--with-stack", "--nsys", "--keep-nsys-rep",
    "--bucket-cap-mb", "--repeat", "--keep-going", "--whole-job",
}  # fmt: skip
COMMAND = ["python3", "train.py"]


class Jobs:
    """Stands in for the recorder: notes what it is asked to run, and leaves a manifest.

    The script asks for `asked`, and makes models on so many ranks; `ends` says how runs end.
    """

    def __init__(self, folder):
        self.folder = folder
        self.made = []
        self.options = {}
        self.asked = None
        self.models = 1
        self.world_size = 2
        self.ends = {}
        self.ignores_caps = False

    def record(self, options, request):
        assert request.force
        name = Path(options.output).name
        self.made.append(name)
        self.options[name] = options
        ended = self.ends.get(name, Ended(0))
        set_to = None if self.ignores_caps else options.bucket_cap_mb
        model = {"asked_bucket_cap_mb": self.asked, "set_bucket_cap_mb": set_to}
        ranks = [{"ddp": [model] * self.models} for _ in range(self.world_size)]
        told = {"exit_code": ended.code, "world_size": self.world_size, "ranks": ranks}
        Path(options.output).mkdir(exist_ok=True)
        (Path(options.output) / "manifest.json").write_text(json.dumps(told))
        return ended

    def sweep(self, *words, command=COMMAND):
        self.made.clear()
        return sweep.main(["-o", str(self.folder), *words, "--", *command])

    @property
    def told(self):
        return json.loads((self.folder / "sweep.json").read_text())


@pytest.fixture
def jobs(tmp_path, monkeypatch):
    found = Jobs(tmp_path / "s")
    monkeypatch.setattr(launch, "record", found.record)
    return found


def test_the_scripts_own_cap_comes_first_and_untouched(jobs):
    assert jobs.sweep("--bucket-cap-mb", "1,100,0.5") == 0
    assert jobs.made == ["own", "cap-1", "cap-100", "cap-0.5"]
    assert [jobs.options[name].bucket_cap_mb for name in jobs.made] == [None, 1.0, 100.0, 0.5]


@pytest.mark.parametrize(
    ("asked", "made", "own"),
    [
        (None, ["own", "cap-1", "cap-100"], 25.0),  # PyTorch's default
        (25.0, ["own", "cap-1", "cap-100"], 25.0),
        (100.0, ["own", "cap-1", "cap-25"], 100.0),
        (50.0, ["own", "cap-1", "cap-25", "cap-100"], None),
        ([25.0, 1.0], ["own", "cap-1", "cap-25", "cap-100"], None),
    ],
)
def test_the_cap_that_the_script_has_is_not_run_again(jobs, asked, made, own):
    jobs.asked = asked
    jobs.sweep("--bucket-cap-mb", "1,25,100")
    assert (jobs.made, jobs.told["own_cap_mb"]) == (made, own)


def test_each_run_is_recorded_ends_early_and_looks_at_its_replicas(jobs):
    jobs.sweep("--bucket-cap-mb", "1", "--warmup", "3")
    assert all(options.measure_link for options in jobs.options.values())
    for options in jobs.options.values():
        assert (options.profiler, options.stop_after, options.check_replicas) == (
            "torch",
            True,
            True,
        )
        assert (options.warmup, options.timed, options.steps) == (3, 20, 3)
    jobs.sweep("--bucket-cap-mb", "1", "--whole-job", "--force")
    assert not jobs.options["own"].stop_after


def test_a_sweep_that_only_times_measures_no_link(jobs):
    jobs.sweep("--bucket-cap-mb", "1", "--profiler", "none")
    assert not any(options.measure_link for options in jobs.options.values())


def test_repeats_go_round_and_back_and_are_timed_only(jobs):
    jobs.sweep("--bucket-cap-mb", "1,2", "--repeat", "3")
    assert jobs.made == [
        "own", "cap-1", "cap-2", "cap-2-run2", "cap-1-run2", "own-run2", "own-run3", "cap-1-run3",
        "cap-2-run3",
    ]  # fmt: skip
    assert {name for name, each in jobs.options.items() if each.measure_link} == {
        "own", "cap-1", "cap-2"
    }  # fmt: skip
    assert {name: each.profiler for name, each in jobs.options.items()} == {
        name: "none" if "run" in name else "torch" for name in jobs.made
    }


def test_a_run_that_fails_stops_the_sweep_with_its_code(jobs, capsys):
    jobs.ends["cap-1"] = Ended(7)
    assert jobs.sweep("--bucket-cap-mb", "1,2") == 7
    assert jobs.made == ["own", "cap-1"]
    assert jobs.told["runs"][1]["status"] == "failed"
    assert jobs.told["runs"][1]["problem"] == "the job ended with exit code 7"
    assert "once that is mended, it goes on where this one ended" in capsys.readouterr().err


def test_keep_going_runs_the_others_and_returns_the_first_code(jobs):
    jobs.ends |= {"cap-1": Ended(7), "cap-2": Ended(9)}
    assert jobs.sweep("--bucket-cap-mb", "1,2,3", "--keep-going") == 7
    assert jobs.made == ["own", "cap-1", "cap-2", "cap-3"]


@pytest.mark.parametrize("code", [0, 1, 137])
@pytest.mark.parametrize(("by", "returned"), [(2, 130), (15, 143)])
def test_an_interrupt_stops_it_even_when_it_is_to_keep_going(jobs, code, by, returned):
    """Also when torchrun has made 1 of it, as of a failure."""
    jobs.ends["cap-1"] = Ended(code, interrupted=True, by=by)
    assert jobs.sweep("--bucket-cap-mb", "1,2", "--keep-going") == returned
    assert jobs.made == ["own", "cap-1"]
    assert jobs.told["runs"][1]["problem"] == "interrupted"


def test_the_same_command_makes_what_is_missing_and_nothing_else(jobs):
    jobs.ends["cap-2"] = Ended(1, interrupted=True)
    jobs.sweep("--bucket-cap-mb", "1,2,3")
    del jobs.ends["cap-2"]
    assert jobs.sweep("--bucket-cap-mb", "1,2,3") == 0
    assert jobs.made == ["cap-2", "cap-3"]
    assert jobs.sweep("--bucket-cap-mb", "1,2,3") == 0
    assert jobs.made == []
    (jobs.folder / "cap-1" / "manifest.json").unlink()
    jobs.sweep("--bucket-cap-mb", "1,2,3")
    assert jobs.made == ["cap-1"]


def test_a_sweep_that_was_killed_loses_only_the_run_in_progress(jobs, monkeypatch):
    def killed(options, request):
        if options.output.endswith("cap-2"):
            Path(options.output).mkdir()
            raise SystemExit(137)  # as far as the folder is concerned
        return jobs.record(options, request)

    monkeypatch.setattr(launch, "record", killed)
    with pytest.raises(SystemExit):
        jobs.sweep("--bucket-cap-mb", "1,2")
    monkeypatch.setattr(launch, "record", jobs.record)
    jobs.sweep("--bucket-cap-mb", "1,2")
    assert jobs.made == ["cap-2"]


def test_caps_and_repeats_may_be_added(jobs):
    jobs.sweep("--bucket-cap-mb", "1,2")
    jobs.sweep("--bucket-cap-mb", "1,2,3", "--repeat", "2")
    assert jobs.made == ["cap-3", "cap-3-run2", "cap-2-run2", "cap-1-run2", "own-run2"]


@pytest.mark.parametrize(
    ("words", "command", "changed"),
    [
        (["--bucket-cap-mb", "1,2"], ["python3", "other.py"], r"command \(python3 train.py\)"),
        (["--bucket-cap-mb", "1,2", "--steps", "4"], COMMAND, r"--steps \(3\)"),
        (["--bucket-cap-mb", "1,2", "--profiler", "none"], COMMAND, r"--profiler \(torch\)"),
        (["--bucket-cap-mb", "1,3"], COMMAND, r"--bucket-cap-mb \(1,2\)"),
    ],
)
def test_another_sweep_in_the_folder_is_refused_unless_it_is_to_be_replaced(
    jobs, words, command, changed
):
    jobs.sweep("--bucket-cap-mb", "1,2")
    with pytest.raises(CaptureError, match=changed) as refused:
        jobs.sweep(*words, command=command)
    assert "\n" not in str(refused.value)
    assert jobs.made == []
    jobs.sweep(*words, "--force", command=command)
    assert jobs.made[0] == "own"


def test_a_secret_of_the_command_is_not_written_and_yet_a_change_of_it_is_seen(jobs):
    jobs.sweep("--bucket-cap-mb", "1", command=["python3", "--token", "abc"])
    assert "abc" not in (jobs.folder / "sweep.json").read_text()
    with pytest.raises(CaptureError, match="another command"):
        jobs.sweep("--bucket-cap-mb", "1", command=["python3", "--token", "abd"])


def test_a_job_without_a_model_of_ddp_is_one_line(jobs):
    jobs.models = 0
    with pytest.raises(CaptureError, match="no DistributedDataParallel model"):
        jobs.sweep("--bucket-cap-mb", "1")
    assert jobs.made == ["own"]
    with pytest.raises(CaptureError, match="no DistributedDataParallel model"):
        jobs.sweep("--bucket-cap-mb", "1")
    assert "no DistributedDataParallel model" in jobs.told["problem"]


def test_a_job_of_one_rank_is_one_line(jobs):
    jobs.world_size = 1
    with pytest.raises(CaptureError, match="one rank, which sends no gradients"):
        jobs.sweep("--bucket-cap-mb", "1")


def test_of_a_run_that_failed_it_is_not_said_that_it_has_no_model(jobs):
    jobs.models, jobs.ends["own"] = 0, Ended(3)
    assert jobs.sweep("--bucket-cap-mb", "1", "--keep-going") == 3
    assert jobs.told["problem"] is None


def test_a_cap_that_did_not_reach_the_model_is_no_measurement(jobs):
    jobs.ignores_caps = True
    assert jobs.sweep("--bucket-cap-mb", "1") == 2
    assert "could not be set" in jobs.told["runs"][1]["problem"]


def test_a_folder_that_another_sweep_writes_is_refused(jobs):
    (jobs.folder / ".capture").mkdir(parents=True)
    (jobs.folder / ".capture" / "owner").write_text(str(os.getppid()))
    with pytest.raises(CaptureError, match="another sweep"):
        jobs.sweep("--bucket-cap-mb", "1", "--force")


def test_the_folder_of_a_capture_is_refused(jobs):
    jobs.folder.mkdir()
    (jobs.folder / "manifest.json").write_text("{}")
    with pytest.raises(CaptureError, match="holds a recording"):
        jobs.sweep("--bucket-cap-mb", "1")


def test_force_removes_the_earlier_runs_and_nothing_else(jobs):
    jobs.sweep("--bucket-cap-mb", "1,2")
    (jobs.folder / "notes.txt").write_text("mine")
    jobs.sweep("--bucket-cap-mb", "3", "--force")
    left = {path.name for path in jobs.folder.iterdir()}
    assert left == {"own", "cap-3", "notes.txt", "sweep.json"}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"ddptrace_sweep": 2}'])
def test_a_file_that_is_not_ours_is_one_line(jobs, text):
    jobs.folder.mkdir()
    (jobs.folder / "sweep.json").write_text(text)
    with pytest.raises(CaptureError, match="is not what this ddptrace wrote"):
        jobs.sweep("--bucket-cap-mb", "1")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--bucket-cap-mb", "1"], "no command is given"),
        (["--", "x"], "the following arguments are required: --bucket-cap-mb"),
        (["--bucket-cap-mb", "1,,2", "--", "x"], "'' is no bucket cap"),
        (["--bucket-cap-mb", "0", "--", "x"], "'0' is no bucket cap"),
        (["--bucket-cap-mb", "nan", "--", "x"], "'nan' is no bucket cap"),
        (["--bucket-cap-mb", "-1", "--", "x"], "is no bucket cap|expected one argument"),
        (["--bucket-cap-mb", "2000000", "--", "x"], "is no bucket cap"),
        (["--bucket-cap-mb", "1", "--repeat", "0", "--", "x"], "'0' is no number from 1 to 100"),
        (["--bucket-cap-mb", "1", "--timed", "4", "--", "x"], "5 are the least"),
        (["--bucket-cap-mb", "1", "--profiler", "both", "--", "x"], "invalid choice: 'both'"),
        (["--bucket-cap-mb", "1", "--ranks", "1-0", "--", "x"], "runs backwards"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(words, sentence):
    with pytest.raises(CaptureError, match=sentence) as refused:
        sweep_options.parse(words)
    assert "\n" not in str(refused.value)


def test_the_same_cap_twice_is_one():
    assert sweep_options.parse(["--bucket-cap-mb", "1,1.0,2", "--", "x"]).caps_mb == (1.0, 2.0)


def test_the_options_are_these_and_each_is_in_the_page():
    found = {word for act in sweep_options.parser()._actions for word in act.option_strings}
    assert {word for word in found if word.startswith("--")} == OPTIONS
    page = PAGE.read_text(encoding="utf-8")
    for option in (OPTIONS - {"--help"}) | {"--json", "--predict-from", "--jobs"}:
        assert f"`{option}" in page


def test_the_lock_is_gone_when_a_sweep_has_ended(jobs):
    jobs.ends["own"] = Ended(5)
    jobs.sweep("--bucket-cap-mb", "1")
    assert not (jobs.folder / ".capture").exists()
    assert sweep_folder.NAME in {path.name for path in jobs.folder.iterdir()}


def test_a_sweep_whose_job_was_too_short_goes_on_with_other_options(jobs):
    """Nothing was measured that they could be mixed with; once something was, they are refused."""
    jobs.ends = {"own": Ended(2)}
    assert jobs.sweep("--bucket-cap-mb", "1") == 2
    jobs.ends = {}
    assert jobs.sweep("--bucket-cap-mb", "1", "--warmup", "6") == 0
    assert jobs.made == ["own", "cap-1"]
    with pytest.raises(CaptureError, match="another --warmup"):
        jobs.sweep("--bucket-cap-mb", "1")
