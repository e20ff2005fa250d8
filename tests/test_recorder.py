"""The recorder inside a rank, its profiler and its clock replaced: nothing here needs torch."""

import json
import os

import pytest

from ddptrace_capture import recorder as recorder_module
from ddptrace_capture.options import Options
from ddptrace_capture.parts import Recorded
from ddptrace_capture.rank import Rank
from ddptrace_capture.recorder import Recorder
from ddptrace_capture.timing import Times
from ddptrace_capture.trace_file import StepMark


class Boundaries:
    """Stands in for the hooks in torch."""

    def __init__(self, listener, _step_mark, _on_error):
        self.closed = False
        self.other_leader = False

    def settle(self):
        changed, self.other_leader = self.other_leader, False
        return changed

    def close(self):
        self.closed = True


class OtherProfilers:
    """Stands in for the eye that is kept on torch's profiler."""

    active = False

    def __init__(self, before_one_begins):
        self.begin = before_one_begins
        self.closed = False

    def ours(self):
        raise AssertionError("nothing here records with torch")

    def close(self):
        self.closed = True


class Recording:
    """Writes down what it is told to do."""

    def __init__(self, part, log):
        self.part, self.log, self.marks = part, log, []

    def prepare(self):
        self.log.append(f"prepare {self.part}")

    def start(self, step):
        self.first = step
        self.log.append(f"start {self.part} {step}")

    def tick(self, *, last):
        step = self.first + len(self.marks)
        self.marks.append(StepMark(step, step * 10, step * 10 + 10))

    def stop(self):
        self.log.append(f"stop {self.part} after {len(self.marks)}")
        if not self.marks:
            return None
        return Recorded(self.part, f"{self.part}.json", ["cuda"], self.marks, [10])

    def abandon(self):
        self.log.append(f"abandon {self.part}")


class Clock:
    """A clock on which every step takes 7 ns."""

    def __init__(self, *, cuda):
        self.steps = 0

    def begin(self, first_step, *, synchronize):
        assert synchronize
        self.first = first_step

    def tick(self):
        self.steps += 1

    def end(self):
        return Times(self.first, 7 * self.steps, [7] * self.steps)


class Job:
    """A job of one rank whose steps the test makes."""

    def __init__(self, folder, monkeypatch, *, cuda=True, **chosen):
        (folder / ".capture").mkdir()
        self.folder = folder
        log = self.log = []

        class Torch(Recording):
            def __init__(self, part, *_):
                super().__init__(part, log)

        rank = Rank(0, 2, 0, 0, "here", os.getpid(), 1, cuda, "H200", "nccl")
        replaced = {
            "Boundaries": Boundaries,
            "StepClock": Clock,
            "OtherProfilers": OtherProfilers,
            "TorchRecording": Torch,
            "this_rank": lambda: rank,
            "versions": lambda: {"torch": "2"},
            "ddp_modules": lambda _cap: [{"module": "Net"}],
            "Finalize": lambda *_, **__: None,
        }
        for name, value in replaced.items():
            monkeypatch.setattr(recorder_module, name, value)
        monkeypatch.setattr(recorder_module.atexit, "register", self._at_exit)
        chosen = {"warmup": 2, "timed": 2, "steps": 2} | chosen
        self.recorder = Recorder(Options(output=str(folder), **chosen))

    def _at_exit(self, action):
        self.exit = action

    def steps(self, count):
        for _ in range(count):
            self.recorder.on_step()
        return self

    @property
    def told(self):
        return json.loads((self.folder / ".capture" / "rank0.json").read_text())


@pytest.fixture
def job(tmp_path, monkeypatch):
    return lambda **chosen: Job(tmp_path, monkeypatch, **chosen)


def test_a_gpu_job_is_recorded_in_two_parts_after_it_was_timed(job):
    done = job().steps(10)
    assert done.log == [
        "prepare figures", "start figures 5", "stop figures after 2",
        "prepare full", "start full 8", "stop full after 2",
    ]  # fmt: skip
    told = done.told
    assert (told["status"], told["problem"], told["steps_seen"]) == ("recorded", None, 10)
    assert told["unprofiled"] == {"first_step": 2, "block_ns": 14, "step_ns": [7, 7]}
    assert [[mark["step"] for mark in part["marks"]] for part in told["parts"]] == [[5, 6], [8, 9]]
    assert told["ddp"] == [{"module": "Net"}]


def test_a_job_on_the_cpu_has_one_part(job):
    assert job(cuda=False).steps(7).log == ["prepare full", "start full 5", "stop full after 2"]


def test_once_it_is_done_nothing_is_listened_to(job):
    done = job().steps(10)
    assert done.recorder.done
    assert done.recorder._boundaries.closed
    assert done.recorder._others.closed
    done.steps(5).exit()
    assert done.told["steps_seen"] == 10


def test_before_it_is_done_it_listens(job):
    assert not job().steps(9).recorder._boundaries.closed


def test_a_rank_that_was_not_chosen_is_timed_only(job):
    done = job(ranks="1").steps(10)
    assert done.log == []
    assert (done.told["status"], done.told["unprofiled"]["block_ns"]) == ("not_chosen", 14)


def test_without_a_profiler_a_rank_is_timed_only(job):
    done = job(profiler="none", timed=3).steps(5)
    assert (done.log, done.recorder.done) == ([], True)
    assert (done.told["status"], done.told["problem"]) == ("timed", None)
    assert done.told["unprofiled"] == {"first_step": 2, "block_ns": 21, "step_ns": [7] * 3}
    assert done.told["ddp"] == [{"module": "Net"}]


def test_without_a_profiler_it_listens_until_the_last_timed_step(job):
    assert not job(profiler="none", timed=3).steps(4).recorder.done


@pytest.mark.parametrize(
    ("steps", "last_word"),
    [
        (4, "abandon figures"),
        (5, "stop figures after 0"),
        (6, "stop figures after 1"),
        (7, "abandon full"),
        (9, "stop full after 1"),
    ],
)
def test_a_job_that_ends_early_keeps_its_whole_steps(job, steps, last_word):
    ended = job().steps(steps)
    ended.exit()
    assert ended.log[-1] == last_word
    assert ended.told["status"] == "incomplete"
    assert ended.told["problem"] == (
        f"the job ended after {steps} steps; 10 make a whole recording"
    )


def test_an_exception_that_ended_the_job_is_named(job, monkeypatch):
    error = ValueError("not a\nnumber")
    monkeypatch.setattr(recorder_module.sys, "last_value", error, raising=False)
    ended = job().steps(3)
    ended.exit()
    assert "the job ended with ValueError: not a number after 3 steps" in ended.told["problem"]


def test_an_interrupt_without_words_has_none(job, monkeypatch):
    monkeypatch.setattr(recorder_module.sys, "last_value", KeyboardInterrupt(), raising=False)
    ended = job().steps(3)
    ended.exit()
    assert "the job ended with KeyboardInterrupt after 3 steps" in ended.told["problem"]


@pytest.mark.parametrize(("steps", "recorded"), [(5, []), (8, ["figures"])])
def test_a_profiler_of_the_scripts_own_ends_the_recording_before_it_begins(job, steps, recorded):
    profiled = job().steps(steps)
    profiled.recorder._others.begin()
    assert profiled.log[-1].startswith("abandon")
    assert profiled.recorder.done
    assert profiled.told["status"] == "failed"
    assert "the script uses torch.profiler itself" in profiled.told["problem"]
    assert [part["part"] for part in profiled.told["parts"]] == recorded


def test_a_profiler_of_the_scripts_own_before_the_recording_is_left_alone(job):
    early = job().steps(3)
    early.recorder._others.begin()
    assert not early.recorder.done
    early.recorder._others.active = True
    assert early.steps(1).recorder.done
    assert early.log == []


def test_a_part_is_told_of_as_soon_as_it_is_written(job, monkeypatch):
    written = job().steps(6)
    monkeypatch.setattr(recorder_module, "ddp_modules", lambda _cap: 1 / 0)
    written.exit()
    assert [part["part"] for part in written.told["parts"]] == ["figures"]


def test_what_was_timed_before_an_early_end_is_kept(job):
    ended = job().steps(3)
    ended.exit()
    assert ended.told["unprofiled"]["step_ns"] == [7]


def test_a_step_that_ends_with_another_optimizer_is_not_cut_short(job):
    late = job().steps(1)
    late.recorder._boundaries.other_leader = True
    assert late.steps(10).log[1] == "start figures 5"
    assert late.told["steps_seen"] == 10


LAST = [("check_replicas", "replicas", "replica"), ("measure_link", "link", "measured")]


@pytest.mark.parametrize(("option", "module", "function"), LAST)
@pytest.mark.parametrize("ranks", ["all", "1"])
def test_ranks_meet_once_nothing_is_recorded_any_more(  # noqa: PLR0917
    job, monkeypatch, option, module, function, ranks
):
    checked = job(**{option: True}, ranks=ranks, stop_after=True)
    seen = []
    found = getattr(recorder_module, module)
    monkeypatch.setattr(found, function, lambda: seen.extend(checked.log[-1:]) or {"told": 1})
    with pytest.raises(SystemExit):
        checked.steps(10)
    assert seen == (["stop full after 2"] if ranks == "all" else [])
    assert checked.told[module.removesuffix("s")] == {"told": 1}


@pytest.mark.parametrize(("option", "module", "_function"), LAST)
@pytest.mark.parametrize(("asked", "steps"), [(True, 9), (False, 10)])
def test_what_ranks_tell_then_is_not_told_before_or_unasked(
    job, option, module, _function, asked, steps
):
    ended = job(**{option: asked}).steps(steps)
    ended.exit()
    assert ended.told[module.removesuffix("s")] is None


def test_the_cap_is_there_from_the_first_and_given_back_at_the_end(job, monkeypatch):
    log = []

    class Cap:
        def __init__(self, cap_mb):
            log.append(cap_mb)

        def close(self):
            log.append("closed")

    monkeypatch.setattr(recorder_module, "BucketCap", Cap)
    capped = job(bucket_cap_mb=7.0)
    assert log == [7.0]
    capped.steps(9)
    assert log == [7.0]
    capped.steps(1)
    assert log == [7.0, "closed"]


def test_stop_after_ends_the_job_with_the_last_recorded_step(job):
    stopping = job(stop_after=True).steps(9)
    with pytest.raises(SystemExit) as left:
        stopping.steps(1)
    assert left.value.code == 0
    assert stopping.told["status"] == "recorded"


def test_stop_after_ends_a_rank_that_is_not_recorded_at_the_same_step(job):
    with pytest.raises(SystemExit):
        job(stop_after=True, ranks="1").steps(10)


def test_a_forked_child_of_the_rank_leaves_the_recording_alone(job, monkeypatch):
    forked = job().steps(6)
    monkeypatch.setattr(recorder_module.os, "getpid", lambda: 1)
    forked.steps(4).exit()
    assert forked.told["steps_seen"] == 5
    assert forked.log[-1] == "start figures 5"


def test_a_second_process_of_the_same_rank_sleeps_on(job, monkeypatch, capsys):
    second = job()
    monkeypatch.setattr(recorder_module.rank_record, "claim", lambda *_: False)
    second.steps(12)
    assert second.log == []
    assert "an earlier or another process of the job" in capsys.readouterr().err
    assert second.recorder._boundaries.closed


PARTS = [
    (recorder_module, "this_rank"),
    (recorder_module, "versions"),
    (recorder_module, "plan"),
    (recorder_module, "StepClock"),
    (recorder_module, "TorchRecording"),
    (recorder_module, "ddp_modules"),
    (recorder_module.rank_record, "claim"),
    (recorder_module.rank_record, "write_whole"),
    (Boundaries, "settle"),
    (Boundaries, "close"),
    (Clock, "begin"),
    (Clock, "tick"),
    (Clock, "end"),
    (Recording, "prepare"),
    (Recording, "start"),
    (Recording, "tick"),
    (Recording, "stop"),
]


@pytest.mark.parametrize("leave_at", [3, 6, 30])
@pytest.mark.parametrize("part", PARTS, ids=lambda part: f"{part[0].__name__}.{part[1]}")
def test_a_part_that_fails_never_stops_the_training(job, monkeypatch, capsys, part, leave_at):
    failing = job()
    owner, name = part

    def fail(*_, **__):
        raise RuntimeError(f"{name} broke")

    monkeypatch.setattr(owner, name, fail)
    failing.steps(leave_at)
    if hasattr(failing, "exit"):
        failing.exit()
    said = capsys.readouterr().err
    reached = leave_at == 30 or failing.recorder._failed
    assert said.count("\n") == int(reached)
    if reached:
        assert f"recording stopped: RuntimeError: {name} broke; the training goes on" in said
        assert failing.recorder.done


def test_a_failure_ends_the_profiler_and_is_told(job, monkeypatch):
    monkeypatch.setattr(Recording, "tick", lambda *_, **__: 1 / 0)
    failed = job().steps(30)
    assert failed.log[-1] == "abandon figures"
    assert failed.told["status"] == "failed"
    assert failed.told["problem"].startswith("the recorder failed: ZeroDivisionError")
    assert failed.recorder._boundaries.closed


def test_a_failed_rank_still_stops_where_the_others_stop(job, monkeypatch):
    monkeypatch.setattr(Recording, "prepare", lambda *_: 1 / 0)
    failed = job(stop_after=True).steps(9)
    with pytest.raises(SystemExit):
        failed.steps(1)
