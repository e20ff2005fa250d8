"""Facts about this machine that need neither torch nor nsys."""

from __future__ import annotations

import ctypes
import re
import shutil
from pathlib import Path

_PROC = Path("/proc")


def driver_version() -> str | None:
    """Return the version of the NVIDIA driver, such as 580.65.06; None without one."""
    found = re.search(r"\b(\d{3,}\.\d+(?:\.\d+)?)\b", _text("driver/nvidia/version"))
    return found[1] if found else None


def driver_cuda() -> tuple[int, int] | None:
    """Return the newest CUDA that the driver serves, such as (13, 0); None without a driver."""
    number = ctypes.c_int()
    try:
        status = ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(number))
    except (OSError, AttributeError):
        return None
    if status != 0 or number.value == 0:
        return None
    return number.value // 1000, number.value % 1000 // 10


def counters_for_administrators() -> bool | None:
    """Tell whether only administrators may read GPU counters; None where the driver is silent."""
    found = re.search(r"RmProfilingAdminOnly: *(\d)", _text("driver/nvidia/params"))
    return found[1] != "0" if found else None


def sampling_is_limited() -> bool:
    """Tell whether the kernel keeps CPU samples of other processes from this user."""
    level = _text("sys/kernel/perf_event_paranoid").strip()
    return level.lstrip("-").isdecimal() and int(level) > 2


def existing_parent(folder: Path) -> Path:
    """Return an absolute folder, or the nearest one above it that is there."""
    return next(path for path in (folder, *folder.parents) if path.is_dir())


def free_bytes(folder: Path) -> int:
    """Return how much room the disk of a folder has."""
    return shutil.disk_usage(folder).free


def _text(path: str) -> str:
    try:
        return (_PROC / path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
