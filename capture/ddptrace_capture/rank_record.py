"""What each rank leaves for the launcher: one small file that says how its recording went."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

FOLDER = ".capture"
_OWNER = "owner"


def folder_of(output: str) -> Path:
    """Return the folder that the ranks of a run write to and the launcher removes."""
    return Path(output) / FOLDER


def make_folder(output: str) -> None:
    """Make the ranks' folder, owned by this process."""
    folder_of(output).mkdir()
    (folder_of(output) / _OWNER).write_text(str(os.getpid()), encoding="ascii")


def owner(output: str) -> int | None:
    """Return the process that is recording into a folder right now; None when none is."""
    try:
        pid = int((folder_of(output) / _OWNER).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return pid if _is_running(pid) else None


def write_whole(path: Path, document: object) -> None:
    """Write a JSON document so that a reader sees all of it or nothing."""
    partly = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partly.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        partly.replace(path)
    finally:
        partly.unlink(missing_ok=True)


def read_all(output: str) -> list[dict[str, Any]]:
    """Return what the ranks wrote, by rank."""
    files = folder_of(output).glob("rank*.json")
    told = [json.loads(path.read_text(encoding="utf-8")) for path in files]
    return sorted(told, key=lambda each: int(each["rank"]["rank"]))


def claim(output: str, rank: int) -> bool:
    """Take a rank for this process; False when another process of the job has it.

    A process that was restarted takes over from one that is gone before it had recorded anything.
    """
    path = folder_of(output) / f"rank{rank}.json"
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return True
    return not (told["parts"] or _is_running(int(told["rank"]["pid"])))


def note_process(output: str, stage: str) -> None:
    """Leave a sign that a process came as far as `stage`; why nothing was recorded hangs on it."""
    folder = folder_of(output)
    if folder.is_dir():
        (folder / f"{stage}.{os.getpid()}").touch()


def stages(output: str) -> set[str]:
    """Return the stages that any process came to."""
    return {path.stem for path in folder_of(output).glob("*")}


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return pid != os.getpid()
