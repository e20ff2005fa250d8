"""Inside one rank: follows the steps of the job through the phases of the schedule."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from multiprocessing.util import Finalize
from typing import Any

from ddptrace_capture import link, rank_record, replicas
from ddptrace_capture.boundaries import Boundaries
from ddptrace_capture.bucket_cap import BucketCap
from ddptrace_capture.ddp import ddp_modules
from ddptrace_capture.errors import CaptureError
from ddptrace_capture.options import Options
from ddptrace_capture.other_profilers import OtherProfilers
from ddptrace_capture.parts import NsysRecording, Recorded, Recording, TorchRecording
from ddptrace_capture.rank import Rank, this_rank, versions
from ddptrace_capture.schedule import Part, Phase, first_recorded, plan
from ddptrace_capture.timing import StepClock, Times

_ONE_AT_A_TIME = (
    "the script uses torch.profiler itself, which records for one at a time; switch that off, or "
    "record other steps with --warmup"
)


class Recorder:
    """Records a rank once its job makes steps; what goes wrong in here never reaches the job.

    Asleep until the first step ends. When `done` is true nothing is left to do, and no hook is
    left in torch either.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._pid = 0
        self._rank: Rank | None = None
        self._phases: tuple[Phase, ...] = ()
        self._completed = 0
        self._clock: StepClock | None = None
        self._recording: Recording | None = None
        self._times: Times | None = None
        self._parts: list[Recorded] = []
        self._ddp: list[dict[str, Any]] = []
        self._replica: dict[str, Any] | None = None
        self._link: dict[str, Any] | None = None
        self._versions: dict[str, str] = {}
        self._chosen = False
        self._failed = False
        self.done = False
        self._boundaries = Boundaries(self.on_step, options.step_mark, self._give_up)
        self._others = OtherProfilers(self._make_way)
        cap_mb = options.bucket_cap_mb
        self._cap = None if cap_mb is None else BucketCap(cap_mb)

    def on_step(self) -> None:
        """Go on with the schedule: the job has ended a step."""
        if self.done:
            return
        self._completed += 1
        try:
            self._on_step()
        except Exception as error:
            self._give_up(error)
        if self._options.stop_after and self._is_mine() and self._completed >= self._end:
            # Every rank comes to this step, also one that is not recorded or whose recorder failed:
            # so none is left waiting in a collective.
            sys.stdout.flush()
            raise SystemExit(0)

    def _on_step(self) -> None:
        if self._failed or (self._rank is None and not self._begin()) or not self._is_mine():
            return  # the last: a forked child of the rank
        phase = self._phase_of(self._completed - 1)
        last = self._completed == phase.end
        if last and phase.kind == "warmup" and self._boundaries.settle():
            self._completed -= 1  # the step ends later, with another optimizer
            return
        self._tick(phase, last=last)
        if last:
            self._leave(phase)
            self._enter_next()

    @property
    def _end(self) -> int:
        return self._phases[-1].end

    def _is_mine(self) -> bool:
        return self._pid == os.getpid()

    def _begin(self) -> bool:
        """Find out who this is; False when the rank is not this process's to record."""
        rank = this_rank()
        if not rank_record.claim(self._options.output, rank.rank):
            self._close()
            _log(rank.rank, "an earlier or another process of the job has recorded this rank")
            return False
        self._rank, self._pid = rank, os.getpid()
        self._versions = versions()
        self._chosen = self._options.wants(rank.rank, rank.local_rank)
        self._phases = plan(self._options, self._parts_of(rank))
        atexit.register(self._at_exit)
        # A process that multiprocessing forked leaves without running atexit.
        Finalize(None, self._at_exit, exitpriority=100)
        self._save("incomplete", None)
        return True

    def _parts_of(self, rank: Rank) -> tuple[Part, ...]:
        if self._options.profiler == "none":
            return ()
        two_parts = self._options.profiler == "torch" and rank.cuda
        return ("figures", "full") if two_parts else ("full",)

    def _phase_of(self, step: int) -> Phase:
        return next(phase for phase in self._phases if step < phase.end)

    def _enter_next(self) -> None:
        if self._completed >= self._end:
            self._finish()
            return
        phase = self._phase_of(self._completed)
        if phase.kind == "timed":
            self._clock = StepClock(cuda=self._who.cuda)
            self._clock.begin(phase.first, synchronize=True)
        elif not self._chosen:
            pass
        elif phase.kind == "prepare" and phase.part is not None:
            self._recording = self._new_recording(phase.part)
            self._recording.prepare()
        elif self._recording is not None and phase.kind == "record":
            self._recording.start(phase.first)
        self._save("incomplete", None)

    @property
    def _who(self) -> Rank:
        assert self._rank is not None
        return self._rank

    def _new_recording(self, part: Part) -> Recording:
        if self._options.profiler == "nsys":
            if not self._who.cuda:
                raise CaptureError("nsys records GPUs, and this job uses none: --profiler torch")
            return NsysRecording(self._who)
        if self._others.active:
            raise CaptureError(_ONE_AT_A_TIME)
        return TorchRecording(part, self._who, self._options, self._others.ours)

    def _tick(self, phase: Phase, *, last: bool) -> None:
        if phase.kind == "timed" and self._clock is not None:
            self._clock.tick()
        elif phase.kind == "record" and self._recording is not None:
            self._recording.tick(last=last)

    def _leave(self, phase: Phase) -> None:
        if phase.kind == "timed" and self._clock is not None:
            times, self._clock = self._clock.end(), None
            self._times = times if times.step_ns else None
        elif phase.kind in ("record", "linger") and not self._lingers(phase):
            self._keep_recording()

    def _lingers(self, phase: Phase) -> bool:
        """Tell whether the recording stays open after a phase that came to its end."""
        following = [other for other in self._phases if other.first == phase.end]
        return self._completed == phase.end and any(each.kind == "linger" for each in following)

    def _keep_recording(self) -> None:
        recording, self._recording = self._recording, None
        recorded = recording.stop() if recording is not None else None
        if recorded is not None:
            self._parts.append(recorded)
            self._save("incomplete", None)  # before anything else may end the process

    def _finish(self) -> None:
        self._close()
        self._ddp = ddp_modules(self._cap)
        if self._options.check_replicas:
            # Nothing is timed or recorded any more.
            self._replica = replicas.replica()
        if self._options.measure_link:
            self._link = link.measured()
        whole = "timed" if self._options.profiler == "none" else "recorded"
        self._save(whole if self._chosen else "not_chosen", None)

    def _close(self) -> None:
        """Leave nothing behind in torch."""
        self.done = True
        self._boundaries.close()
        self._others.close()
        if self._cap is not None:
            self._cap.close()

    def _make_way(self) -> None:
        """End a recording before the script begins one of its own."""
        if isinstance(self._recording, TorchRecording):
            self._give_up(CaptureError(_ONE_AT_A_TIME))

    def _at_exit(self) -> None:
        """Keep the whole steps that were recorded: the job ends before the schedule does."""
        if self.done or not self._is_mine():
            return
        try:
            self._close()
            phase = self._phase_of(self._completed)
            self._leave(phase)
            if self._recording is not None:
                self._recording.abandon()
            self._ddp = ddp_modules(self._cap)
            self._save("incomplete" if self._chosen else "not_chosen", self._why_short())
        except Exception as error:
            self._give_up(error)

    def _why_short(self) -> str:
        error = getattr(sys, "last_value", None)
        how = f" with {_said(error)}"[:300] if error is not None else ""
        return (
            f"the job ended{how} after {self._completed} steps; {self._end} make a whole recording"
        )

    def _give_up(self, error: Exception) -> None:
        """Switch everything off, say why in one line, and let the training go on."""
        self._failed = True
        for action in (self._abandon, lambda: self._save_failure(error)):
            _quietly(action)
        if not (self._options.stop_after and self._phases):
            _quietly(self._close)
        who = self._rank.rank if self._rank else None
        _log(who, f"recording stopped: {_said(error)}")

    def _abandon(self) -> None:
        if self._recording is not None:
            self._recording.abandon()

    def _save_failure(self, error: Exception) -> None:
        self._save("failed", f"the recorder failed: {_said(error)}"[:300])

    def _save(self, status: str, problem: str | None) -> None:
        path = rank_record.folder_of(self._options.output) / f"rank{self._who.rank}.json"
        document = {
            "rank": self._who.facts(),
            "world_size": self._who.world_size,
            "versions": self._versions,
            "status": status,
            "problem": problem,
            "steps_seen": self._completed,
            "steps_needed": self._end,
            "first_recorded": first_recorded(self._phases),
            "unprofiled": asdict(self._times) if self._times else None,
            "parts": [asdict(part) for part in self._parts],
            "ddp": self._ddp,
            "replica": self._replica,
            "link": self._link,
        }
        rank_record.write_whole(path, document)


def _said(error: BaseException) -> str:
    """Return an error's words in one line, after its name unless they are written for the user."""
    words = " ".join(str(error).split())
    if isinstance(error, CaptureError):
        return words
    return ": ".join(filter(None, (type(error).__name__, words)))


def _quietly(action: Callable[[], None]) -> None:
    with suppress(Exception):
        action()


def _log(rank: int | None, message: str) -> None:
    who = "" if rank is None else f" rank {rank}:"
    sys.stderr.write(f"ddptrace:{who} {message}; the training goes on\n")
