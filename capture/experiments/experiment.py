"""The whole experiment in one process group, seen from one rank."""

import json
import os
import sys
import time
from argparse import Namespace
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from branches import BATCH_SIZE, Job, Place, build
from checks import correctness, undetected_unused
from configurations import Configuration
from hardware import hardware, share_one_gpu
from measure import (
    HOOK_STEPS,
    RECORDED_STEPS,
    WARM_UP_STEPS,
    ddp_logger_data,
    hook_stamps,
    recorded_steps,
    timed_steps,
)

TIMEOUT = timedelta(seconds=120)


def run(rows: list[Configuration], arguments: Namespace) -> dict[str, Any]:
    """Measure all rows and return the results, the same on every rank; rank 0 also saves them."""
    place = _start(arguments)
    results = {
        "ddptrace_experiment": 1,
        "hardware": hardware(place, arguments.link),
        "settings": _settings(arguments),
        "configurations": _gathered(rows, _measured(rows, place, arguments.steps), place),
    }
    if place.rank == 0:
        arguments.output.mkdir(parents=True, exist_ok=True)
        text = json.dumps(results, allow_nan=False)
        Path(arguments.output, "results.json").write_text(text + "\n", encoding="utf-8")
    dist.barrier(place.control)
    dist.destroy_process_group()
    return results


def _start(arguments: Namespace) -> Place:
    rank = int(os.environ["RANK"])
    if arguments.share_gpu:
        share_one_gpu(rank)
    device = _device(arguments)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=TIMEOUT)
    control = dist.new_group(backend="gloo", timeout=TIMEOUT)
    return Place(rank, dist.get_world_size(), device, control)


def _device(arguments: Namespace) -> torch.device:
    on_gpu = torch.cuda.is_available() if arguments.device == "auto" else arguments.device == "cuda"
    if not on_gpu:
        return torch.device("cpu")
    return torch.device("cuda", 0 if arguments.share_gpu else int(os.environ["LOCAL_RANK"]))


def _settings(arguments: Namespace) -> dict[str, Any]:
    return {
        "steps": arguments.steps,
        "warm_up_steps": WARM_UP_STEPS,
        "hook_steps": HOOK_STEPS,
        "recorded_steps": RECORDED_STEPS,
        "batch_size": BATCH_SIZE,
    }


def _measured(rows: list[Configuration], place: Place, steps: int) -> list[dict[str, Any]]:
    """Return this rank's figures of each row.

    All is timed before anything is recorded: a profiler may leave the process slower than it was.
    What may break the models comes last.
    """
    progress = _Progress(place)
    trained = [row for row in rows if row.skips != "always"]
    _warm_up(trained, place)
    jobs, figures = [], {}
    for row in trained:
        job = build(row, place)
        figures[row.name] = _timed(job, place, steps)
        jobs.append(job)
        progress.say(f"{row.name} timed")
    for job in jobs:
        name = job.configuration.name
        figures[name] |= _recorded_and_checked(job, place, WARM_UP_STEPS + steps)
        progress.say(f"{name} recorded and checked")
    for row in rows:
        if row.skips == "always":
            figures[row.name] = undetected_unused(row, place)
            progress.say(f"{row.name} tried")
    return [figures[row.name] for row in rows]


def _warm_up(rows: list[Configuration], place: Place) -> None:
    """Let NCCL connect and libraries load in a model of no row."""
    if rows:
        build(rows[0], place).step(1)


def _timed(job: Job, place: Place, steps: int) -> dict[str, Any]:
    for number in range(WARM_UP_STEPS):
        job.step(number)
    times = timed_steps(job, place, WARM_UP_STEPS, steps)
    return times | {
        "ddp_logger": ddp_logger_data(job),
        "hook_steps": hook_stamps(job.configuration, place),
    }


def _recorded_and_checked(job: Job, place: Place, first: int) -> dict[str, Any]:
    recorded = recorded_steps(job, place, first)
    return {"recorded": recorded} | correctness(job, place, first + 1 + RECORDED_STEPS)


def _gathered(
    rows: list[Configuration], figures: list[dict[str, Any]], place: Place
) -> list[dict[str, Any]]:
    """Return each row with the figures of all ranks; every rank gets the same."""
    of_ranks = [figures] * place.world_size
    dist.all_gather_object(of_ranks, figures, place.control)
    return [
        asdict(row) | {"ranks": list(ranks)} for row, *ranks in zip(rows, *of_ranks, strict=True)
    ]


class _Progress:
    """Lines on standard error from rank 0, with the seconds since the start."""

    def __init__(self, place: Place) -> None:
        self.shown = place.rank == 0
        self.began = time.perf_counter()

    def say(self, text: str) -> None:
        if self.shown:
            sys.stderr.write(f"{time.perf_counter() - self.began:6.1f} s  {text}\n")
            sys.stderr.flush()
