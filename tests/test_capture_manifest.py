"""The manifest that capture writes: what it hides, what it says of each rank, what goes wrong."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from ddptrace_capture import launch, manifest, rank_record
from ddptrace_capture.options import Options, Request
from ddptrace_capture.rank import Rank, _gpu


@pytest.mark.parametrize(
    ("command", "written"),
    [
        ("train.py --token abc --steps 3", "train.py --token *** --steps 3"),
        ("train.py --hf-token=abc", "train.py --hf-token=***"),
        ("env WANDB_KEY=abc train.py", "env WANDB_KEY=*** train.py"),
        ("train.py --key abc --pwd def", "train.py --key *** --pwd ***"),
        ("train.py --db postgres://me:pw@host/x", "train.py --db postgres://***@host/x"),
        ("train.py --tokenizer gpt2 --keyboard us", "train.py --tokenizer gpt2 --keyboard us"),
        ("train.py --use-auth --steps 3", "train.py --use-auth --steps 3"),
        ("train.py monkey=1", "train.py monkey=1"),
    ],
)
def test_values_whose_names_tell_of_a_secret_are_not_written(command, written):
    assert manifest.without_secrets(command.split()) == written.split()


def test_a_header_with_a_secret_is_not_written():
    command = ["train.py", "-H", "Authorization: Bearer abc"]
    assert manifest.without_secrets(command)[2] == "Authorization: ***"


def record(rank=0, **changes):
    facts = {"rank": rank, "node": 0, "local_rank": rank, "host": "a", "pid": 1}
    whole = {
        "rank": facts, "world_size": 2, "versions": {}, "status": "recorded", "problem": None,
        "steps_seen": 40, "steps_needed": 29, "first_recorded": 22, "unprofiled": None,
        "parts": [], "ddp": [],
    }  # fmt: skip
    return whole | changes


PART = {"part": "full", "file": "rank0.pt.trace.json.gz", "activities": ["cpu"], "marks": [1],
        "step_ns": [7]}  # fmt: skip


@pytest.fixture
def gathered(tmp_path, monkeypatch, capsys):
    """Return what a capture says, returns and writes when the ranks left these records."""
    (tmp_path / ".capture").mkdir()

    def gather(*records, code=0, **chosen):
        for each in records:
            path = tmp_path / ".capture" / f"rank{each['rank']['rank']}.json"
            rank_record.write_whole(path, each)
        options = Options(output=str(tmp_path), **chosen)
        done = launch._gather(options, Request(options, ("train.py",), force=False), 5, code)
        written = tmp_path / "manifest.json"
        told = json.loads(written.read_text()) if written.is_file() else None
        return done, capsys.readouterr().err, told

    return gather


def test_a_file_that_a_killed_rank_wrote_and_did_not_tell_of_is_found(gathered, tmp_path):
    (tmp_path / "rank0.pt.trace.json.gz").write_text("")
    code, said, told = gathered(record(status="incomplete"), code=1)
    assert (code, told["ranks"][0]["files"]) == (1, ["rank0.pt.trace.json.gz"])
    assert "recorded 1 of 2 ranks" in said
    assert "without a word (killed, or out of memory?)" in told["ranks"][0]["problem"]


def test_a_recorded_rank_without_its_file_is_incomplete(gathered):
    _, said, told = gathered(record(parts=[PART]))
    assert told["ranks"][0]["status"] == "incomplete"
    assert told["ranks"][0]["problem"] == "its file was not written"
    assert "nothing was recorded" in said


@pytest.mark.parametrize(
    ("records", "code", "reason"),
    [
        # a job that failed is told with its failure, not as too short
        ([record(status="incomplete", steps_seen=22)], 137, "rank 0: its process ended in or"),
        ([record(status="incomplete", steps_seen=4, problem="the job ended with Error: boom")],
         1, "rank 0: the job ended with Error: boom"),
        # a recorder that failed is told before anything else
        ([record(), record(1, status="failed", problem="the recorder failed: X")], 0,
         "the recorder failed: X"),
        ([record(status="not_chosen")], 0, "no rank of the job is among --ranks all"),
        ([record(status="incomplete", steps_seen=12, problem="short")], 0,
         "the job made 12 steps, and the recording would have begun after 22; "
         "try --warmup 4 --timed 3"),
        ([record(status="incomplete", steps_seen=1, problem="short")], 0,
         "the job made 1 step, and the recording would have begun after 22"),
    ],
)  # fmt: skip
def test_the_reason_for_nothing_is_the_one_that_is_known(gathered, records, code, reason):
    done, said, _ = gathered(*records, code=code)
    assert done == (code or 2)
    assert f"ddptrace: nothing was recorded: {reason}" in said
    assert said.count("\n") == 1


TIMES = {"first_step": 11, "block_ns": 60, "step_ns": [20_000_000, 30_000_000, 40_000_000]}


def test_without_a_profiler_times_are_what_was_recorded(gathered):
    ranks = [record(rank, status="timed", unprofiled=TIMES) for rank in (0, 1)]
    code, said, told = gathered(*ranks, profiler="none")
    assert code == 0
    assert said.startswith("ddptrace: timed 3 steps of 2 of 2 ranks, 30.00 ms a step; next: ")
    assert "--save-baseline FILE" in said
    assert said.count("\n") == 1
    assert (told["profiler"], told["ranks"][0]["status"]) == ("none", "timed")
    assert told["ranks"][0]["problem"] is None


def test_a_rank_that_ended_before_all_steps_were_timed_says_so(gathered):
    short = record(status="incomplete", unprofiled=TIMES, problem="the job ended after 14 steps")
    code, said, _ = gathered(short, profiler="none")
    assert code == 0
    assert "rank 0: the job ended after 14 steps" in said
    assert "timed 3 steps of 1 of 2 ranks" in said


def test_without_a_profiler_and_without_a_time_there_is_nothing(gathered):
    short = record(status="incomplete", steps_seen=7, first_recorded=11, problem="short")
    code, said, _ = gathered(short, profiler="none")
    assert code == 2
    assert "the job made 7 steps, and timing would have begun after 11; try --warmup 2" in said


def test_a_step_mark_that_ended_nothing_is_named(gathered, tmp_path):
    for stage in ("python", "torch"):
        (tmp_path / ".capture" / f"{stage}.7").touch()
    _, said, _ = gathered(step_mark="nosuch")
    assert "nothing named 'nosuch' ended a step" in said


def test_a_job_that_failed_before_its_first_step_is_told_so(gathered, tmp_path):
    (tmp_path / ".capture" / "torch.7").touch()
    code, said, _ = gathered(code=1)
    assert code == 1
    assert "the job ended with exit code 1 before its first step" in said


def test_a_full_disk_is_one_line_and_the_code_of_the_job(gathered, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(manifest, "write_whole", full)
    code, said, _ = gathered(record(), code=0)
    assert (code, said.count("\n")) == (2, 1)
    assert "the recording cannot be written: No space left on device" in said


def test_what_could_not_be_written_whole_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "replace", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        rank_record.write_whole(tmp_path / "rank0.json", {})
    assert list(tmp_path.iterdir()) == []


def test_a_rank_is_taken_over_only_from_a_process_that_is_gone_and_recorded_nothing(tmp_path):
    (tmp_path / ".capture").mkdir()
    path = tmp_path / ".capture" / "rank0.json"
    assert rank_record.claim(str(tmp_path), 0)
    gone = record()["rank"] | {"pid": 2**22 + 1}
    rank_record.write_whole(path, record(rank=0) | {"rank": gone})
    assert rank_record.claim(str(tmp_path), 0)
    rank_record.write_whole(path, record() | {"rank": gone, "parts": [PART]})
    assert not rank_record.claim(str(tmp_path), 0)
    rank_record.write_whole(path, record() | {"rank": gone | {"pid": 1}})
    assert not rank_record.claim(str(tmp_path), 0)


@pytest.mark.parametrize(
    ("told", "uuid"),
    [({"uuid": "0a1b-2c"}, "0a1b-2c"), ({"uuid": "GPU-0a1b-2c"}, "0a1b-2c"), ({}, None)],
)
def test_the_gpu_of_a_rank_is_its_uuid_where_torch_tells_it(told, uuid):
    cuda = SimpleNamespace(
        current_device=lambda: 1,
        get_device_properties=lambda device: SimpleNamespace(**told) if device == 1 else None,
    )
    rank = Rank(0, 2, 0, 0, "here", 7, 1, True, "H200", "nccl", _gpu(SimpleNamespace(cuda=cuda)))
    assert rank.facts()["gpu"] == uuid
    assert rank.identity()["gpu"] == uuid
