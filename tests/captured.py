"""Runs as `ddptrace capture` leaves them, stated in code: two parts a rank and the manifest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from traces import Kineto

from ddptrace import load_run

BASE_NS = 1_700_000_000_000_000_000
FULL_AT_US = 10_000


def figures_part(rank=0, steps=(22, 23, 24), **options) -> Kineto:
    """State a recording of CUDA alone: each step lasts 1000 µs from 800 µs of one to the next's.

    compute  .######...    [100,700)
    comm     ......##..    [600,800)
    """
    kineto = Kineto(rank=rank, **options)
    for place, _ in enumerate(steps):
        at = 1000 * place
        kineto.gpu(at + 100, at + 700).comm(at + 600, at + 800)
    return kineto


def full_part(rank=0, steps=(26, 27, 28), **options) -> Kineto:
    """State a recording of host and CUDA: each step lasts 1500 µs, with the same work in it.

    compute  .######........    [100,700)
    comm     ...........##..    [1100,1300)
    """
    kineto = Kineto(rank=rank, **options)
    for place, step in enumerate(steps):
        at = FULL_AT_US + 1500 * place
        kineto.step(step, at, at + 1500).event("cpu_op", "aten::mm", at + 50, 30)
        kineto.gpu(at + 100, at + 700).comm(at + 1100, at + 1300)
    return kineto


def marks(steps=(22, 23, 24), at_us=0, step_us=1000) -> list[dict[str, int]]:
    """State the marks of steps that follow each other, as the manifest has them."""
    start = BASE_NS + at_us * 1000
    return [
        {
            "step": step,
            "start_ns": start + place * step_us * 1000,
            "end_ns": start + (place + 1) * step_us * 1000,
        }
        for place, step in enumerate(steps)
    ]


def rank_entry(rank=0, **facts) -> dict[str, Any]:
    """State what the manifest tells of a rank that was recorded in two parts."""
    cheap, full = f"rank{rank}.figures.pt.trace.json.gz", f"rank{rank}.pt.trace.json.gz"
    parts = [
        {
            "part": "figures",
            "file": cheap,
            "activities": ["cuda"],
            "marks": marks(),
            "step_ns": [1_020_000] * 3,
        },
        {
            "part": "full",
            "file": full,
            "activities": ["cpu", "cuda"],
            "marks": marks((26, 27, 28), FULL_AT_US, 1500),
            "step_ns": [1_500_000] * 3,
        },
    ]
    entry = {
        "rank": rank,
        "host": "a",
        "status": "recorded",
        "files": [cheap, full],
        "unprofiled": {"first_step": 11, "block_ns": 5_000_000, "step_ns": [1_000_000] * 5},
        "parts": parts,
    }
    return entry | facts


def write_manifest(folder: Path, *ranks: dict[str, Any], **facts: Any) -> Path:
    """Write the manifest of a run with these ranks."""
    document = {"ddptrace_manifest": 1, "world_size": len(ranks), "ranks": ranks} | facts
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "manifest.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def captured(folder: Path, world_size=2) -> Path:
    """Write a whole run in two parts, with its manifest."""
    for rank in range(world_size):
        figures_part(rank, world_size=world_size).write(figures_file(folder, rank))
        full_part(rank, world_size=world_size).write(full_file(folder, rank))
    write_manifest(folder, *(rank_entry(rank) for rank in range(world_size)))
    return folder


def figures_file(folder: Path, rank=0) -> Path:
    return folder / f"rank{rank}.figures.pt.trace.json.gz"


def full_file(folder: Path, rank=0) -> Path:
    return folder / f"rank{rank}.pt.trace.json.gz"


def said(folder: Path, code: str, **options: Any) -> list[str]:
    """Return the messages of one code about a run."""
    found = load_run(folder, **options).all_warnings
    return [warning.message for warning in found if warning.code == code]
