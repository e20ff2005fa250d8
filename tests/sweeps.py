"""Sweeps as the recorder leaves them, stated in code: sweep.json and a folder for each run."""

from __future__ import annotations

import json
import random
from pathlib import Path

from captured import write_manifest

MS = 1_000_000


def steps(median_ms, count=40, spread=0.004, seed=0):
    """State step times that are spread evenly around a median, in ns."""
    chosen = random.Random(f"{median_ms} {seed}")
    found = [median_ms * MS * (1 + spread * (place / count - 0.5)) for place in range(count)]
    chosen.shuffle(found)
    return [round(each) for each in found]


def timed(folder: Path, times, *, asked=None, set_to=None, equal=True, files=(), sizes=(), **facts):
    """Write the manifest of a run of two ranks; `times` are a list, or one for each rank."""
    of_ranks = times if isinstance(times[0], list) else [times, times]
    model = {
        "module": "Net", "asked_bucket_cap_mb": asked, "set_bucket_cap_mb": set_to,
        "rebuilt_bucket_bytes": [*sizes],
    }  # fmt: skip
    ranks = [
        {
            "rank": rank, "device": "H200", "status": "recorded", "ddp": [model],
            "files": [name for name in files if str(rank) in name],
            "unprofiled": {"first_step": 11, "block_ns": sum(mine), "step_ns": mine},
        }
        for rank, mine in enumerate(of_ranks)
    ]  # fmt: skip
    reason = {True: None, False: "1 of 2 parameters differ, first weight", None: "lost"}[equal]
    replicas = {"equal": equal, "reason": reason, "parameters": 2}
    return write_manifest(folder, *ranks, replicas=replicas, **{"exit_code": 0} | facts)


class Sweep:
    """A sweep whose runs are added one by one."""

    def __init__(self, folder: Path, caps=(1, 100), repeat=1, own_cap_mb=None, **told):
        self.folder = folder
        self.document = {
            "ddptrace_sweep": 1, "command": ["torchrun", "train.py"], "bucket_caps_mb": list(caps),
            "repeat": repeat, "own_cap_mb": own_cap_mb, "problem": None, "runs": [],
        } | told  # fmt: skip
        self._write()

    def _write(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "sweep.json").write_text(json.dumps(self.document))

    def run(self, cap, times=None, *, repeat=1, problem=None, **facts) -> Sweep:
        """Add a run; `cap` None is the script's own."""
        name = "own" if cap is None else f"cap-{cap:g}"
        name += "" if repeat == 1 else f"-run{repeat}"
        entry = {
            "folder": name, "bucket_cap_mb": cap, "repeat": repeat,
            "status": "failed" if problem else "done", "exit_code": int(bool(problem)),
            "problem": problem, "started_ns": 5,
        }  # fmt: skip
        self.document["runs"].append(entry)
        self._write()
        if times is not None:
            asked = {"asked": None} if cap is None else {"asked": None, "set_to": cap}
            timed(self.folder / name, times, **asked | facts)
        return self
