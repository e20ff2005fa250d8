"""The folder of a sweep: a folder for each run, and `sweep.json`, which says what each came to."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ddptrace_capture import manifest, rank_record
from ddptrace_capture.errors import CaptureError
from ddptrace_capture.output_folder import MANIFEST
from ddptrace_capture.sweep_options import SweepRequest

NAME = "sweep.json"
KEY = "ddptrace_sweep"
VERSION = 1
DONE, FAILED = "done", "failed"


@dataclass(frozen=True, slots=True)
class Planned:
    """A run to make: with a cap in MiB, None for the script's own; repeats count from 1."""

    bucket_cap_mb: float | None
    repeat: int

    @property
    def folder(self) -> str:
        """The name of its folder."""
        cap = self.bucket_cap_mb
        name = "own" if cap is None else f"cap-{cap:.12g}"
        return name if self.repeat == 1 else f"{name}-run{self.repeat}"

    def __str__(self) -> str:
        cap = self.bucket_cap_mb
        words = "the script's own cap" if cap is None else f"bucket_cap_mb={cap:.12g}"
        return words if self.repeat == 1 else f"{words}, run {self.repeat}"


@dataclass
class State:
    """What `sweep.json` holds; `runs` are entries by folder, as docs/formats.md has them.

    `own_cap_mb` is the cap of `--bucket-cap-mb` that the script has anyway, None if it is not
    among them or not known yet. `problem` says why no cap is to be found at all.
    """

    path: Path
    request: dict[str, Any]
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    own_cap_mb: float | None = None
    problem: str | None = None

    def is_done(self, planned: Planned) -> bool:
        """Tell whether a run was made, and what it left is still there."""
        entry = self.runs.get(planned.folder)
        there = (self.path.parent / planned.folder / MANIFEST).is_file()
        return entry is not None and entry["status"] == DONE and there

    def note(self, planned: Planned, started_ns: int, exit_code: int, problem: str | None) -> None:
        """Keep how a run ended."""
        self.runs[planned.folder] = {
            **asdict(planned),
            "folder": planned.folder,
            "status": FAILED if exit_code or problem else DONE,
            "exit_code": exit_code,
            "problem": problem,
            "started_ns": started_ns,
        }
        self.save()

    def save(self) -> None:
        """Write the file, all of it or nothing."""
        document = {
            KEY: VERSION,
            **self.request,
            "own_cap_mb": self.own_cap_mb,
            "problem": self.problem,
            "runs": list(self.runs.values()),
        }
        try:
            rank_record.write_whole(self.path, document)
        except OSError as error:
            raise CaptureError(f"{self.path}: cannot be written: {error.strerror}") from error


def begin(request: SweepRequest) -> State:
    """Return the state of a folder: new, or as an earlier call of the same sweep left it."""
    folder = Path(request.options.output)
    state = State(folder / NAME, _told(request))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        owner = rank_record.owner(str(folder))
        if owner is not None:
            raise CaptureError(f"{folder}: another sweep (process {owner}) is writing there")
        earlier = _earlier(state.path)
        if earlier is not None and request.force:
            _remove(folder, earlier)
        elif earlier is not None:
            # Where no run came to its end there is nothing that other options would be mixed with.
            if any(entry["status"] == DONE for entry in earlier["runs"]):
                _refuse_another(folder, state.request, earlier)
            state.runs = {entry["folder"]: entry for entry in earlier["runs"]}
            state.own_cap_mb = earlier["own_cap_mb"]
        _refuse_strangers(folder, state)
        shutil.rmtree(rank_record.folder_of(str(folder)), ignore_errors=True)
        rank_record.make_folder(str(folder))
    except OSError as error:
        raise CaptureError(f"{folder}: cannot be written: {error.strerror}") from error
    state.save()
    return state


def end(state: State) -> None:
    """Let others write to the folder."""
    shutil.rmtree(rank_record.folder_of(str(state.path.parent)), ignore_errors=True)


def _told(request: SweepRequest) -> dict[str, Any]:
    # The command as it is may hold a secret, so only a hash of it tells whether it changed.
    whole = json.dumps(request.command).encode()
    return {
        "command": manifest.without_secrets(request.command),
        "command_hash": hashlib.sha256(whole).hexdigest(),
        "options": request.told_options(),
        "bucket_caps_mb": list(request.caps_mb),
        "repeat": request.repeat,
    }


def _earlier(path: Path) -> dict[str, Any] | None:
    """Return what an earlier sweep wrote; CaptureError when that cannot be used."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError:
        found = None
    if not isinstance(found, dict) or found.get(KEY) != VERSION:
        raise CaptureError(f"{path}: is not what this ddptrace wrote; give another folder with -o")
    return found


def _refuse_another(folder: Path, told: Mapping[str, Any], earlier: Mapping[str, Any]) -> None:
    """Raise where the folder holds other runs; more caps and more repeats may be added."""
    changed = list(_changes(told, earlier))
    if changed:
        raise CaptureError(
            f"{folder}: holds a sweep with another {changed[0]}; give another folder with -o, or "
            "--force to begin anew"
        )


def _changes(told: Mapping[str, Any], earlier: Mapping[str, Any]) -> Iterator[str]:
    if told["command_hash"] != earlier["command_hash"]:
        yield f"command ({' '.join(earlier['command'])})"
    for name, value in told["options"].items():
        before = earlier["options"].get(name)
        if before != value:
            yield f"--{name.replace('_', '-')} ({before})"
    if not set(earlier["bucket_caps_mb"]) <= set(told["bucket_caps_mb"]):
        yield f"--bucket-cap-mb ({','.join(f'{cap:.12g}' for cap in earlier['bucket_caps_mb'])})"
    if earlier["repeat"] > told["repeat"]:
        yield f"--repeat ({earlier['repeat']})"


def _refuse_strangers(folder: Path, state: State) -> None:
    """Raise where the folder is that of a capture, whose files would be taken for a run's."""
    if not state.runs and (folder / MANIFEST).exists():
        raise CaptureError(f"{folder}: holds a recording; give another folder with -o")


def _remove(folder: Path, earlier: Mapping[str, Any]) -> None:
    """Remove the runs of an earlier sweep, and nothing that is not inside the folder."""
    for entry in earlier["runs"]:
        shutil.rmtree(folder / Path(str(entry["folder"])).name, ignore_errors=True)
    (folder / NAME).unlink()
