"""`ddptrace sweep`: runs a job once with each bucket cap, each run recorded as capture does it."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ddptrace_capture import child, launch, nsys_job, sweep_folder
from ddptrace_capture.errors import CaptureError, say
from ddptrace_capture.options import Options, Request
from ddptrace_capture.output_folder import MANIFEST
from ddptrace_capture.sweep_folder import Planned, State
from ddptrace_capture.sweep_options import SweepRequest, parse

DEFAULT_CAP_MB = 25.0
INTERRUPTED = 130
_FEWEST_RANKS = 2
_OWN = Planned(None, 1)


def main(words: Sequence[str]) -> int:
    """Run the sweep that the words ask for, and return its exit code."""
    request = parse(words)
    if shutil.which(request.command[0]) is None:
        raise CaptureError(f"{request.command[0]}: no such command; check what stands after --")
    if request.options.profiler == "nsys":
        nsys_job.around(request.options, request.command)  # says what is missing before an hour
    state = sweep_folder.begin(request)
    try:
        return _sweep(request, state)
    except KeyboardInterrupt:  # between two runs
        return INTERRUPTED
    finally:
        sweep_folder.end(state)


def _sweep(request: SweepRequest, state: State) -> int:
    code = 0
    for planned in _plan(request, state):
        if state.is_done(planned):
            say(f"sweep: {planned}: done before, in {state.path.parent / planned.folder}")
        else:
            ended = _run(request, state, planned)
            code = code or ended.code
            if ended.interrupted or (ended.code and not request.keep_going):
                then = "the same command" if ended.interrupted else "once that is mended, it"
                say(f"sweep: stopped; {then} goes on where this one ended")
                return ended.code
        if planned == _OWN:
            _look_at_own(request, state)
        if state.problem is not None:
            raise CaptureError(state.problem)
    return code


def _plan(request: SweepRequest, state: State) -> Iterator[Planned]:
    """Give the runs in order; every other round backwards, so that a drift hits no cap alone.

    What comes after the first run depends on what it told: the script's own cap is not run again.
    """
    yield _OWN
    caps = [None, *(cap for cap in request.caps_mb if cap != state.own_cap_mb)]
    for repeat in range(1, request.repeat + 1):
        for cap in caps if repeat % 2 else reversed(caps):
            planned = Planned(cap, repeat)
            if planned != _OWN:
                yield planned


def _run(request: SweepRequest, state: State, planned: Planned) -> child.Ended:
    say(f"sweep: {planned}, into {state.path.parent / planned.folder}")
    profiler = request.options.profiler if planned.repeat == 1 else "none"
    options = replace(
        request.options,
        output=str(state.path.parent / planned.folder),
        bucket_cap_mb=planned.bucket_cap_mb,
        profiler=profiler,
        measure_link=profiler != "none",  # predictions need a recording, too
    )
    started_ns = time.time_ns()
    # What is there is left of a run that did not come to its end.
    ended = launch.record(options, Request(options, request.command, force=True))
    problem = _problem(options, ended)
    state.note(planned, started_ns, ended.code, problem)
    if problem is not None:
        say(f"sweep: {planned}: {problem}")
    if ended.interrupted:  # torchrun ends with 1 then, as after a failure
        return replace(ended, code=128 + ended.by)
    if ended.code or problem is None:
        return ended
    return replace(ended, code=launch.NOTHING_RECORDED)


def _problem(options: Options, ended: child.Ended) -> str | None:
    """Return why a run is no measurement; None when it is one."""
    if ended.interrupted:
        return "interrupted"
    told = _manifest(Path(options.output))
    if told is None:
        return "nothing was recorded"
    if told["exit_code"]:
        return f"the job ended with exit code {told['exit_code']}"
    if ended.code:
        return "nothing was recorded"
    wanted = options.bucket_cap_mb
    set_to = {model["set_bucket_cap_mb"] for rank in told["ranks"] for model in rank["ddp"]}
    if wanted is not None and set_to != {wanted}:
        return "the cap could not be set on every DDP model of every rank"
    return None


def _look_at_own(request: SweepRequest, state: State) -> None:
    """Note the script's own cap, or why a cap means nothing to the job."""
    told = _manifest(state.path.parent / _OWN.folder) if state.is_done(_OWN) else None
    if told is None:
        return
    models = [model for rank in told["ranks"] for model in rank["ddp"]]
    if not models:
        state.problem = (
            "the job has no DistributedDataParallel model, so that there is no bucket cap to sweep"
        )
    elif (told["world_size"] or 1) < _FEWEST_RANKS:
        state.problem = "the job has one rank, which sends no gradients: no cap changes anything"
    state.own_cap_mb = _own_cap(models, request.caps_mb)
    state.save()


def _own_cap(models: Sequence[Mapping[str, Any]], caps_mb: Sequence[float]) -> float | None:
    """Return the cap among those wanted that all models have anyway."""
    asked = [model["asked_bucket_cap_mb"] for model in models]
    caps = [DEFAULT_CAP_MB if cap is None else cap for cap in asked]
    return next((cap for cap in caps_mb if caps and all(each == cap for each in caps)), None)


def _manifest(folder: Path) -> dict[str, Any] | None:
    try:
        found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
