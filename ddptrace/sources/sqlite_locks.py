"""Asks whether another program is writing an SQLite file, without taking a lock or changing it.

A writer holds locks on fixed bytes, far behind the data or in the file of shared memory beside it
(https://www.sqlite.org/src/file/src/os_unix.c): with them a change shows that is not in the file
yet and has no journal. Locks of the same process cannot be seen.
"""

from __future__ import annotations

import struct
import sys
from contextlib import suppress
from pathlib import Path

_PENDING_TO_SHARED = (0x40000000, 512)  # a reader's locks are shared and do not count
_LOG_LOCKS = (120, 3)  # of the writer, of a checkpoint and of a recovery
_LOCK = struct.Struct("@hhqqi")  # kind, what the start counts from, start, length, process


def is_being_written(path: Path) -> bool:
    """Tell whether another process holds a writer's lock; False also where nobody can say."""
    shared_memory = path.with_name(path.name + "-shm")
    return _is_held(path, *_PENDING_TO_SHARED) or _is_held(shared_memory, *_LOG_LOCKS)


def _is_held(path: Path, start: int, length: int) -> bool:
    if sys.platform != "linux":
        return False  # the record of a lock is laid out differently
    import fcntl  # there is none on Windows

    asked = _LOCK.pack(fcntl.F_RDLCK, 0, start, length, 0)
    with suppress(OSError), path.open("rb") as file:  # no such file, or one without locks
        told: int = _LOCK.unpack(fcntl.fcntl(file, fcntl.F_GETLK, asked))[0]
        return told != fcntl.F_UNLCK
    return False
